package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tinyloop/internal/fault"
	"tinyloop/internal/model"
	"tinyloop/internal/sample"
	"tinyloop/internal/sched"
)

// Config is the limits of an Engine. Zero values give the defaults.
type Config struct {
	QueueLimit    int              // requests waiting for their first admission beyond which Submit answers fault.Busy; 0 = 256
	MaxSeqs       int              // choices holding K/V at a time; 0 = 64
	StepRows      int              // rows in flight in a step (decode rows and prefill chunks together); 0 = 64, at most the runner's MaxRows
	ChunkRows     int              // most prefill rows of one request entering in a step; 0 = StepRows
	NoPrefixCache bool             // never share K/V between requests
	Agreement     []float32        // Agreement[d-1]: measured share of tokens that depth d names as the default depth does; nil = not measured
	Now           func() time.Time // nil = time.Now
}

func (c Config) withDefaults(l model.Limits) Config {
	if c.QueueLimit <= 0 {
		c.QueueLimit = 256
	}
	if c.MaxSeqs <= 0 {
		c.MaxSeqs = 64
	}
	if c.StepRows <= 0 {
		c.StepRows = 64
	}
	c.StepRows = min(c.StepRows, l.MaxRows)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Engine is the decoding loop of one model. Its exported methods are safe for concurrent use.
type Engine struct {
	cfg Config
	lim model.Limits
	sch *sched.Scheduler // the goroutine's, but for Fits
	counters

	mu       sync.Mutex
	inbox    []*job // submitted, not yet seen by the goroutine
	draining bool   // no more Submit

	wake    chan struct{} // holds one token: something has changed
	quiet   chan struct{} // closed when draining and nothing is left
	done    chan struct{} // closed when the goroutine has ended
	queued  atomic.Int64  // requests that have never been admitted
	arrived atomic.Bool   // the inbox is not empty
	cancels atomic.Int64  // contexts ended so far
	kill    atomic.Bool   // end everything
	closing atomic.Bool   // and stop

	loop // belongs to the goroutine
}

// loop is the state of the engine's goroutine.
type loop struct {
	r       model.Runner
	sampler *sample.Sampler
	calls   [3]func([]model.Row) // Enter, Turn, Leave as stored values
	copies  func(dst, src int32)

	jobs  []*job
	taken []*job // scratch of receive

	// Rows in flight, in order of entry: rows[i] belongs to of[i]. One branch's rows are in ascending position.
	rows    []model.Row
	of      []seat
	batch   []model.Row // rows of the current Turn
	moves   []int32     // their places in rows
	special int         // rows in flight that may wait or be read out on their way
	probes  []probe     // [StepRows] what exit rules have seen of a row, by its State
	whole   bool        // all rows in flight turn in this step
	asked   []*branch   // guessed tokens that are to enter in the coming step
	states  []int32     // hidden states not in use
	out     []model.Row // rows of the current Leave
	gone    []departure // rows at their depth, in order of entry

	forks           []*job        // prefilled in this step, choices to be branched off
	narrowed        sample.Params // scratch of sampling
	target, guessed []float32     // [vocab] distributions of a judgement
	pilot           pilot
	begun           time.Time // of the step
	pages           []int32   // of one core block, by loop
	folds           []*choice // with positions whose K/V are to be reduced
	sprouts         []*choice // with more than one guess for the next position
	now             time.Time
	deadline        time.Time // the earliest of all jobs; zero = none
	seen            int64     // value of cancels at the last scan
	panics          int       // steps in a row that ended in a panic of the model
	copyErr         error
	quieted         bool
}

// seat is whose a row in flight is.
type seat struct {
	b     *branch
	round bool // part of a round of guesses, not of a prompt
	read  bool // a guess has been taken from it

	lens   bool // every loop is shown to the sink
	marks  bool // what every loop says is kept
	exits  bool // may leave before its depth
	peek   bool // of mode Auto, decoded plainly: may be looked at on its way
	parked bool // has left early, and makes the passes it lacks when they are needed
	ripe   bool // its rule has said that it leaves, and its token is still to be taken
	held   bool // makes no pass before a readout that must wait for older rows
	idle   bool // does not turn in this step
}

// special says whether the row may wait, or be read out on its way.
func (s *seat) special() bool { return s.round || s.lens || s.marks || s.exits || s.peek }

// landing is why a row is in departure.
type landing uint8

const (
	lands  landing = iota // it has made all its passes
	passes                // it stays in flight: for a guess, or for what it would have guessed
	looks                 // for its logits, which tell whether it leaves early
	exits                 // it leaves early
	lenses                // for the lens
)

// departure is a row that has left the flight, or was read out on the way.
type departure struct {
	b     *branch
	pos   int32
	out   int32 // index in out, -1 = not computed by Leave
	kind  landing
	guess bool  // besides, a guess is taken from it
	peek  bool  // besides, it is compared with what comes out
	mark  bool  // besides, its logits are kept
	void  bool  // its token was overturned in this step
	moved int32 // place in the last Turn
	loop  int32 // passes made
}

// New starts the engine's goroutine, which owns r until Close has returned.
func New(r model.Runner, c Config) *Engine {
	l := r.Limits()
	e := build(r, c.withDefaults(l), l)
	go e.run()
	return e
}

// build is New without the goroutine.
func build(r model.Runner, c Config, l model.Limits) *Engine {
	e := &Engine{
		cfg: c, lim: l,
		sch: sched.New(sched.Config{Prelude: l.Prelude, Core: l.Core, Coda: l.Coda, Pages: l.Pages,
			StepRows: c.StepRows, ChunkRows: c.ChunkRows, MaxSeqs: c.MaxSeqs, NoPrefixCache: c.NoPrefixCache}),
		wake: make(chan struct{}, 1), quiet: make(chan struct{}), done: make(chan struct{}),
	}
	e.loop = loop{r: r, sampler: sample.New(l.Vocab), calls: [3]func([]model.Row){r.Enter, r.Turn, r.Leave}, copies: e.copyPage,
		rows: make([]model.Row, 0, c.StepRows), of: make([]seat, 0, c.StepRows), states: make([]int32, c.StepRows), probes: make([]probe, c.StepRows),
		target: make([]float32, l.Vocab), guessed: make([]float32, l.Vocab), batch: make([]model.Row, 0, c.StepRows), moves: make([]int32, 0, c.StepRows),
		out: make([]model.Row, 0, c.StepRows), gone: make([]departure, 0, c.StepRows)}
	e.pilot.depths = map[depthKey]*agreement{}
	for i := range e.states {
		e.states[i] = int32(i)
	}
	return e
}

// Limits is that of the runner.
func (e *Engine) Limits() model.Limits { return e.lim }

// Positions is the most positions, up to most, of which the KV store could hold the keys and values were r alone, by its prompt, loops, window and sharing.
func (e *Engine) Positions(r *Request, most int) int {
	return e.sch.Room(&sched.Seq{Loops: e.depth(r), Window: r.Window, Sinks: r.Sinks, Fold: foldOf(r), Share: len(r.Prompt)}, most)
}

// depth is the number of loops of a request.
func (e *Engine) depth(r *Request) int {
	if r.Loops == 0 {
		return e.lim.Loops.Default
	}
	return r.Loops
}

// Submit queues a request and returns at once. After a nil error every choice of r gets exactly one Finish; after an error s is never called.
// Errors are *fault.Error: Invalid and TooLong name the field, Busy means that the queue is full, Unavailable that the engine is closing or
// broken, Canceled that ctx has ended already.
func (e *Engine) Submit(ctx context.Context, r *Request, s Sink) error {
	if ctx.Err() != nil {
		return fault.New(fault.Canceled, "", "the request was cancelled before it was queued")
	}
	j, err := e.newJob(r, s)
	if err != nil {
		return err
	}
	if err := e.enqueue(j); err != nil {
		return err
	}
	// From here on the goroutine may finish the job at any time; watch gives up if it has.
	j.watch(ctx, e)
	return nil
}

func (e *Engine) enqueue(j *job) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining {
		return fault.New(fault.Unavailable, "", "the server is shutting down")
	}
	if e.broken.Load() != nil {
		return fault.New(fault.Unavailable, "", "the model has failed; the server must be restarted")
	}
	if e.queued.Load() >= int64(e.cfg.QueueLimit) {
		return fault.New(fault.Busy, "", "the queue is full: %d requests are waiting", e.cfg.QueueLimit)
	}
	e.queued.Add(1)
	e.requests.Add(1)
	j.submitted = e.cfg.Now()
	e.inbox = append(e.inbox, j)
	e.arrived.Store(true)
	e.nudge()
	return nil
}

// nudge wakes the goroutine if it sleeps.
func (e *Engine) nudge() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Drain refuses new requests and waits until the running ones have ended. When ctx ends first, what remains is ended with Fail and the cause
// of ctx is returned, at the latest a second later even if the model is stuck.
func (e *Engine) Drain(ctx context.Context) error {
	e.refuse()
	select {
	case <-e.quiet:
		return nil
	case <-e.done:
		return nil
	case <-ctx.Done():
	}
	e.kill.Store(true)
	e.nudge()
	grace := time.NewTimer(time.Second)
	defer grace.Stop()
	select {
	case <-e.quiet:
	case <-e.done:
	case <-grace.C:
	}
	return context.Cause(ctx)
}

func (e *Engine) refuse() {
	e.mu.Lock()
	e.draining = true
	e.mu.Unlock()
	e.nudge()
}

// Close ends what remains with Fail and stops the goroutine. It waits for the call of the model in progress.
func (e *Engine) Close() {
	e.refuse()
	e.closing.Store(true)
	e.kill.Store(true)
	e.nudge()
	<-e.done
}
