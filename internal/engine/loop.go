package engine

import (
	"fmt"
	"runtime/debug"
	"time"

	"tinyloop/internal/fault"
	"tinyloop/internal/invariants"
	"tinyloop/internal/model"
	"tinyloop/internal/sched"
)

// maxPanics is how many steps in a row may end in a panic of the model before the engine declares itself broken.
const maxPanics = 3

// run is the goroutine.
func (e *Engine) run() {
	defer close(e.done)
	for e.serve() {
	}
}

// serve is the loop. A panic that is neither the model's nor a sink's is a bug here: the scheduler can no longer be trusted, so every request
// ends with Fail and the engine only refuses from then on. It returns false when the engine is closed.
func (e *Engine) serve() (again bool) {
	defer func() {
		if v := recover(); v != nil {
			e.die(panicError("engine", v))
			again = true
		}
	}()
	for {
		e.now = e.cfg.Now()
		e.receive()
		if len(e.jobs) > 0 {
			e.step()
			e.audit()
			continue
		}
		if !e.rest() {
			return false
		}
	}
}

// rest sleeps until something happens; false when the engine is closed.
func (e *Engine) rest() bool {
	e.beat.Store(0)
	e.publishAlive()
	e.mu.Lock()
	drained := e.draining && len(e.inbox) == 0
	e.mu.Unlock()
	if drained && !e.quieted {
		e.quieted = true
		close(e.quiet)
	}
	if drained && e.closing.Load() {
		return false
	}
	<-e.wake
	return true
}

func (e *Engine) publishAlive() {
	if e.broken.Load() == nil {
		e.publish()
	}
}

// receive takes what has happened since the last step: new requests, ended contexts, passed deadlines, the order to end everything.
func (e *Engine) receive() {
	if e.arrived.Load() {
		e.admitNew()
	}
	if n := e.cancels.Load(); n != e.seen {
		e.seen = n
		e.sweep(func(j *job) bool { return j.canceled.Load() }, Cancel, nil)
	}
	if !e.deadline.IsZero() && !e.now.Before(e.deadline) {
		e.sweep(func(j *job) bool { return !j.req.Deadline.IsZero() && !e.now.Before(j.req.Deadline) }, Timeout, nil)
		e.deadline = time.Time{}
		for _, j := range e.jobs {
			e.mind(j.req.Deadline)
		}
	}
	if e.kill.Load() {
		e.sweep(func(*job) bool { return true }, Fail, fault.New(fault.Unavailable, "", "the server is shutting down"))
	}
	if p := e.broken.Load(); p != nil {
		e.sweep(func(*job) bool { return true }, Fail, *p)
	}
}

func (e *Engine) admitNew() {
	e.mu.Lock()
	e.taken = append(e.taken[:0], e.inbox...)
	clear(e.inbox)
	e.inbox = e.inbox[:0]
	e.arrived.Store(false)
	e.mu.Unlock()
	for _, j := range e.taken {
		e.jobs = append(e.jobs, j)
		e.mind(j.req.Deadline)
		if e.broken.Load() == nil {
			e.sch.Add(&j.choices[0].seq)
		}
	}
	clear(e.taken)
	e.seen = -1 // a context may have ended before its job was here
}

// mind keeps the earliest deadline.
func (e *Engine) mind(d time.Time) {
	if !d.IsZero() && (e.deadline.IsZero() || d.Before(e.deadline)) {
		e.deadline = d
	}
}

// sweep ends the jobs that match.
func (e *Engine) sweep(match func(*job) bool, why Why, err error) {
	for i := len(e.jobs) - 1; i >= 0; i-- {
		if i < len(e.jobs) && match(e.jobs[i]) {
			e.end(e.jobs[i], why, err)
		}
	}
}

// step is the one decoding loop's body: what enters, one pass of every row in flight through the core, what leaves.
//
// Every decoding mode is a schedule over this body. Plain decoding has one row a sequence in flight. A draft-and-verify mode adds tokens to a
// sequence before they are agreed, reads their rows out on the way, and turns the same rows on to the full depth; a wavefront does the same with
// rows of one sequence at different loops. Early exit is a row that is read out for good before its Depth. None of them has another loop: enter
// says which rows there are, gather which of them turn, depart which are read out, settle what follows.
func (e *Engine) step() {
	e.beat.Store(e.now.UnixNano())
	e.begun = e.now
	plan := e.sch.Next()
	for _, q := range plan.Preempted {
		e.displace(q.Owner.(*branch))
	}
	for _, q := range plan.Admitted {
		e.start(q.Owner.(*branch).c)
	}
	err := e.advance(plan)
	if err != nil {
		if e.modelFailed(err); e.broken.Load() != nil {
			return
		}
	} else {
		e.panics = 0
		read := len(e.out)
		e.settle()
		e.measure(read)
	}
	plan.Clear()
	e.steps.Add(1)
	e.publish()
}

// audit recounts pages and states after a step, in builds with invariants only.
func (e *Engine) audit() {
	if !invariants.Enabled || e.broken.Load() != nil {
		return
	}
	bad := e.sch.Check()
	invariants.Check(bad == nil, fmt.Sprint(bad))
	invariants.Check(len(e.states)+len(e.rows) == e.cfg.StepRows, "a hidden state is lost")
}

// start notes that a choice has left the queue; the first time, its sink is told.
func (e *Engine) start(c *choice) {
	j := c.job
	if j.admitted {
		return
	}
	for i := range j.choices {
		if j.choices[i].auto {
			e.pilot.live++
		}
	}
	j.admitted, j.started, j.cached = true, e.now, c.seq.Cached
	e.queued.Add(-1)
	e.reused.Add(int64(j.cached))
	if e.tell(j, func() { j.sink.Started() }); j.err != nil {
		e.end(j, Fail, j.err)
	}
}

// advance runs the three calls of the model for this step.
func (e *Engine) advance(plan *sched.Plan) error {
	old := len(e.rows)
	e.enter(plan)
	if len(e.rows) > old {
		if err := e.call(0, e.rows[old:]); err != nil {
			return err
		}
	}
	batch := e.gather()
	if len(batch) > 0 { // else everyone was ended by its own sink, or waits for a readout
		e.turns.Add(1)
		e.turned.Add(int64(len(batch)))
		if err := e.call(1, batch); err != nil {
			return err
		}
		if e.pilot.live > 0 {
			e.pilot.turnAt, e.pilot.rows = e.cfg.Now(), len(batch)
		}
	}
	e.depart()
	if len(e.out) == 0 {
		return nil
	}
	return e.call(2, e.out)
}

// enter makes the rows of the plan, at the end of those in flight.
func (e *Engine) enter(plan *sched.Plan) {
	for _, sp := range plan.Enter {
		q := sp.Seq
		if !q.Running() {
			continue // ended since the plan was made
		}
		b := q.Owner.(*branch)
		c := b.c
		round := e.begins(b, sp)
		for pos := sp.From; pos < sp.From+sp.N; pos++ {
			state := e.states[len(e.states)-1]
			e.states = e.states[:len(e.states)-1]
			e.rows = append(e.rows, model.Row{Token: q.Tokens[pos], Pos: int32(pos), Depth: int32(q.Loops), State: state,
				Pages: q.Pages, Window: int32(q.Window), Sinks: int32(q.Sinks), Want: b.side || c.wants(pos)})
			s := seat{b: b, round: round, exits: b.exits(pos), peek: c.auto && !round && b.base(sp), marks: c.marks(pos)}
			if s.lens = c.job.lens != nil && pos < len(c.job.req.Prompt); s.lens {
				r := &e.rows[len(e.rows)-1]
				r.Want, r.Watch = true, true
			}
			if s.exits {
				e.watches(c, &e.rows[len(e.rows)-1])
			}
			if s.special() {
				e.special++
			}
			e.of = append(e.of, s)
		}
		if n := min(sp.From+sp.N, len(c.job.req.Prompt)) - sp.From; n > 0 {
			e.prefill.Add(int64(n))
		}
	}
	e.withdraw()
}

// wants says whether the logits after a position are needed: to sample the next token, or to score the next prompt token.
func (c *choice) wants(pos int) bool {
	r := c.job.req
	if pos == len(c.seq.Tokens)-1 {
		return r.MaxTokens > 0
	}
	return r.PromptLogprobs && c.n == 0 && pos+1 < len(r.Prompt) && pos+1 >= c.job.scored
}

// gather lists the rows that turn in this step: all but the guesses that wait at the draft depth until the last of their round is there, those
// held for a readout, and parked ones that nobody needs. Where no row is of these kinds they are those in flight, in place.
func (e *Engine) gather() []model.Row {
	e.batch, e.moves = e.batch[:0], e.moves[:0]
	if e.whole = e.special == 0; e.whole {
		return e.rows
	}
	e.hold()
	step := e.steps.Load()
	for i := range e.rows {
		s := &e.of[i]
		if c := s.b.c; s.round && !s.parked && !s.idle && int(e.rows[i].Loop) < c.how.loops {
			c.shallow = step
		}
	}
	for i := range e.rows {
		s := &e.of[i]
		c := s.b.c
		s.idle = s.idle || s.round && !s.parked && c.how.waits() && !c.eager && int(e.rows[i].Loop) == c.how.loops && c.shallow == step
	}
	e.park()
	for i := range e.rows {
		if !e.of[i].idle {
			e.batch = append(e.batch, e.rows[i])
			e.moves = append(e.moves, int32(i))
		}
	}
	return e.batch
}

// depart takes the rows at their depth out of flight, in order, and notes those to be read out on the way. Rows that need neither coda nor
// logits skip Leave.
func (e *Engine) depart() {
	turn := e.turns.Load()
	e.out, e.gone = e.out[:0], e.gone[:0]
	keep, moved := 0, 0
	for i := range e.rows {
		turns := e.whole
		if moved < len(e.moves) && int(e.moves[moved]) == i {
			turns = true
			e.rows[i].Loop = e.batch[moved].Loop
		}
		if turns {
			e.of[i].b.c.count(turn)
			moved++
		}
		if turns && e.rows[i].Loop == e.rows[i].Depth {
			e.leave(i, departure{kind: lands, moved: int32(moved - 1)})
			e.release(i)
			continue
		}
		if !e.whole {
			e.pass(i, moved-1, turns)
		}
		if keep < i {
			e.rows[keep], e.of[keep] = e.rows[i], e.of[i]
		}
		keep++
	}
	e.cut(keep)
}

// pass says whether and for what row i, which goes on, is read out on its way. moved is its place in the Turn, if it has turned.
func (e *Engine) pass(i, moved int, turned bool) {
	s := &e.of[i]
	kind, read := passes, false
	switch {
	case s.lens:
		kind, read = lenses, turned
	case s.exits && !s.parked:
		if kind, read = e.ripe(i, moved, turned); !read {
			kind = passes
		}
		if kind != exits {
			s.b.unsettled = e.steps.Load()
		}
	}
	d := departure{kind: kind, moved: int32(moved), guess: (turned || s.held) && e.guesses(i), peek: turned && e.peekAt(i), mark: turned && s.marks && !s.parked}
	if read || d.guess || d.peek || d.mark {
		s.read = s.read || d.guess
		e.leave(i, d)
	}
}

// release gives back the state of row i, which is no longer in flight.
func (e *Engine) release(i int) {
	s := &e.of[i]
	e.states = append(e.states, e.rows[i].State)
	switch {
	case s.parked:
		s.b.c.parked--
	case s.round:
		s.b.live--
	}
	if s.special() {
		e.special--
	}
}

// leave lists row i among the departures, and for Leave if that has something to do.
func (e *Engine) leave(i int, d departure) {
	r := &e.rows[i]
	d.b, d.pos, d.loop, d.out = e.of[i].b, r.Pos, r.Loop, -1
	if r.Want || e.lim.Coda > 0 && !e.of[i].parked {
		r.Exit = d.kind == looks || d.kind == exits
		d.out = int32(len(e.out))
		e.out = append(e.out, *r)
	}
	e.gone = append(e.gone, d)
}

// count notes that a row of the choice turned.
func (c *choice) count(turn int64) {
	c.rows++
	if c.turned != turn {
		c.turned = turn
		c.turns++
	}
}

// cut shortens the flight, without keeping references behind.
func (e *Engine) cut(n int) {
	clear(e.rows[n:])
	clear(e.of[n:])
	e.rows, e.of = e.rows[:n], e.of[:n]
}

// ground takes the rows of a branch at position from and later out of flight: it was preempted, it has ended, or its tokens were wrong.
func (e *Engine) ground(b *branch, from int) {
	keep := 0
	for i := range e.rows {
		if e.of[i].b == b && int(e.rows[i].Pos) >= from {
			e.release(i)
			continue
		}
		e.rows[keep], e.of[keep] = e.rows[i], e.of[i]
		keep++
	}
	e.cut(keep)
}

// lift takes row i alone out of flight.
func (e *Engine) lift(i int) {
	e.release(i)
	n := len(e.rows) - 1
	copy(e.rows[i:], e.rows[i+1:])
	copy(e.of[i:], e.of[i+1:])
	e.cut(n)
}

// call runs one call of the model and turns its panic into an error.
func (e *Engine) call(which int, rows []model.Row) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicError("model", v)
		}
	}()
	e.calls[which](rows)
	return nil
}

func (e *Engine) copyPage(dst, src int32) {
	defer func() {
		if v := recover(); v != nil {
			e.copyErr = panicError("model", v)
		}
	}()
	e.r.CopyPage(dst, src)
}

func panicError(where string, v any) error {
	return &fault.Error{Kind: fault.Internal, Msg: "internal error", Err: fmt.Errorf("panic in the %s: %v\n%s", where, v, debug.Stack())}
}

// modelFailed ends every request that had a row in flight when a call panicked; the K/V of the others are complete and stay good. What panics
// again and again is broken for all.
func (e *Engine) modelFailed(err error) {
	if e.panics++; e.panics >= maxPanics {
		e.die(err)
		return
	}
	for _, d := range e.gone {
		if c := d.b.c; !c.done {
			e.end(c.job, Fail, err)
		}
	}
	e.forgetGone()
	for len(e.of) > 0 {
		e.end(e.of[0].b.c.job, Fail, err)
	}
}

// forgetGone drops the references to choices that have left, so that a finished request can be collected.
func (e *Engine) forgetGone() {
	clear(e.gone)
	clear(e.out)
	clear(e.batch)
	e.batch, e.moves = e.batch[:0], e.moves[:0]
	e.gone, e.out = e.gone[:0], e.out[:0]
}

// die declares the engine broken and ends everything. The scheduler is not touched any more.
func (e *Engine) die(err error) {
	e.broken.Store(&err)
	e.forgetGone()
	e.cut(0)
	e.forks, e.folds, e.sprouts, e.asked = nil, nil, nil, nil
	for len(e.jobs) > 0 {
		e.end(e.jobs[len(e.jobs)-1], Fail, err)
	}
}
