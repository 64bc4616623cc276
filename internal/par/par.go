// Package par is the pool of compute workers: persistent, locked to threads, one dispatch per forward pass, with pairwise barriers
// between the phases of that pass.
package par

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Pool is a set of workers that run one function together. Worker 0 is the goroutine that calls Run; the others are parked between
// calls. One Run at a time: the owner of the model is the only caller.
//
// A Run usually takes all workers. Where other programs keep the processors busy, workers that wait for each other at barriers get less done together than one alone;
// the pool then lets worker 0 run alone for a while (see crowd). So the number of workers of a Run is Worker.N, and results must not depend on it.
type Pool struct {
	workers []Worker
	f       func(w *Worker) // nil tells the workers to leave
	gen     uint32          // number of the current Run
	crowd   crowd
	yield   atomic.Bool // more workers than processors: give way at every poll
	broken  atomic.Bool // a worker panicked in this Run: the others must not wait for it
	gone    sync.WaitGroup
}

// Worker is what one worker knows of itself during a Run. It is valid only inside the function it was given to.
type Worker struct {
	ID, N  int
	pool   *Pool
	phase  uint32        // barriers passed, this worker's own copy
	waited time.Duration // at barriers of this Run, short waits left out
	fault  *Panic        // what the function panicked with, read by worker 0 after done
	alone  *Worker       // see Alone
	member *Worker       // of whom this is the alone, nil for the workers of the pool
	piece  int           // of an alone: what it works on,
	met    uint32        // how many Meets it has passed there,
	meets  bool          // and whether these wait

	_      [64]byte      // what others poll has cache lines of its own
	at     atomic.Uint32 // barriers reached
	mark   atomic.Uint64 // piece and Meets reached, see markOf
	_      [48]byte
	gen    atomic.Uint32 // last Run given to this worker
	done   atomic.Uint32 // last Run finished
	parked atomic.Bool
	wake   chan struct{}
	_      [44]byte
}

// Panic is what Run panics with when the function panicked on a worker: the first worker's value, and where it happened.
type Panic struct {
	Worker int
	Value  any
	Stack  []byte
}

func (p *Panic) Error() string {
	return fmt.Sprintf("worker %d: %v\n%s", p.Worker, p.Value, p.Stack)
}

// Unwrap gives the value if it was an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// abandoned ends the function of a worker whose barrier can never be met because another worker panicked.
type abandoned struct{}

// New starts a pool of n workers (n >= 1, the caller of Run included).
func New(n int) *Pool {
	p := &Pool{workers: make([]Worker, max(1, n))}
	for i := range p.workers {
		w := &p.workers[i]
		w.ID, w.N, w.pool = i, len(p.workers), p
		w.wake = make(chan struct{}, 1)
		w.alone = &Worker{N: 1, pool: p, member: w}
		if i > 0 {
			p.gone.Add(1)
			go w.loop()
		}
	}
	return p
}

// Size gives the number of workers.
func (p *Pool) Size() int { return len(p.workers) }

// Run calls f once on every worker of this Run and returns when all have returned. It allocates nothing if f is a stored func value. If f panics on a
// worker, the barriers of the others give way and Run panics with a *Panic; the pool can be used again.
func (p *Pool) Run(f func(w *Worker)) { p.RunMost(f, len(p.workers)) }

// RunMost is Run on at most so many workers (1 or more), for work that is too small to be worth all of them.
func (p *Pool) RunMost(f func(w *Worker), most int) {
	if most = min(most, len(p.workers)); most == 1 {
		p.run(f, 1)
		return
	}
	begin := time.Now()
	n := p.crowd.workers(most, begin)
	p.run(f, n)
	p.crowd.note(n, begin, time.Since(begin), p.workers[0].waited)
}

// run is Run with the first n workers.
func (p *Pool) run(f func(w *Worker), n int) {
	p.start(f, n)
	w := &p.workers[0]
	w.call(p.gen)
	for i := 1; i < n; i++ {
		other := &p.workers[i]
		s := w.spinner()
		for other.done.Load() != p.gen {
			s.wait()
		}
		w.waited += s.timed()
	}
	if p.broken.Load() {
		panic(p.repair())
	}
}

// start publishes the function to the first n workers and wakes who of them sleeps.
func (p *Pool) start(f func(w *Worker), n int) {
	if n > 1 {
		p.yield.Store(n > min(runtime.GOMAXPROCS(0), runtime.NumCPU()))
	}
	p.f = f
	p.gen++
	for i := range p.workers[:n] {
		w := &p.workers[i]
		w.N, w.phase, w.waited = n, 0, 0
		w.at.Store(0)
		w.mark.Store(0)
	}
	for i := range p.workers[1:n] {
		w := &p.workers[i+1]
		w.gen.Store(p.gen)
		if w.parked.CompareAndSwap(true, false) {
			w.wake <- struct{}{}
		}
	}
}

// Rouse wakes the workers that sleep, for a Run that comes soon, and says whether there were any. It does not wait for them: waking a thread takes as long as a little work, which
// worker 0 can do alone meanwhile. Like Run it is for the owner only.
func (p *Pool) Rouse() bool {
	slept := false
	for i := range p.workers[1:] {
		if w := &p.workers[i+1]; w.parked.CompareAndSwap(true, false) {
			slept = true
			w.wake <- struct{}{}
		}
	}
	return slept
}

// repair makes the pool usable after a panic, when all workers have finished, and gives what the first of them panicked with.
func (p *Pool) repair() *Panic {
	var first *Panic
	for i := range p.workers {
		w := &p.workers[i]
		if first == nil {
			first = w.fault
		}
		w.fault = nil
	}
	p.broken.Store(false)
	return first
}

// Close stops the workers and waits until they are gone. The pool must be idle.
func (p *Pool) Close() {
	p.start(nil, len(p.workers))
	p.gone.Wait()
}

// loop is the life of workers 1 and up.
func (w *Worker) loop() {
	defer w.pool.gone.Done()
	runtime.LockOSThread()
	for gen := uint32(0); ; {
		gen = w.await(gen)
		if w.pool.f == nil {
			return
		}
		w.call(gen)
	}
}

// await returns the number of the next Run of this worker, after Run number last: it polls for some 50 to 100 µs, then parks. Who is roused polls again.
func (w *Worker) await(last uint32) uint32 {
	for {
		if gen := w.watch(last); gen != last {
			return gen
		}
	}
}

// watch is one round of await: it returns last if the worker was roused.
func (w *Worker) watch(last uint32) uint32 {
	s, polls := w.spinner(), idlePolls
	if s.yield {
		polls = yieldPolls
	}
	for s.n < polls {
		if gen := w.gen.Load(); gen != last {
			return gen
		}
		s.wait()
	}
	w.parked.Store(true)
	if gen := w.gen.Load(); gen != last && w.parked.CompareAndSwap(true, false) {
		return gen // it began in between, and nobody has sent a wake-up
	}
	<-w.wake
	return w.gen.Load()
}

// call runs the function of Run number gen and says when it is done.
func (w *Worker) call(gen uint32) {
	defer w.finish(gen)
	w.pool.f(w)
}

func (w *Worker) finish(gen uint32) {
	if v := recover(); v != nil {
		if _, ok := v.(abandoned); !ok {
			w.fault = &Panic{Worker: w.ID, Value: v, Stack: debug.Stack()}
		}
		w.pool.broken.Store(true)
	}
	w.done.Store(gen)
}

// Barrier waits until every worker of the Run has called it; what was written before is visible to all after. All workers must pass the same number of
// barriers: one that returns while others wait for it makes Run panic.
func (w *Worker) Barrier() {
	if w.N == 1 {
		return
	}
	w.phase++
	w.at.Store(w.phase)
	for i := range w.pool.workers[:w.N] {
		if other := &w.pool.workers[i]; other != w && int32(other.at.Load()-w.phase) < 0 {
			w.meet(other)
		}
	}
}

// Alone gives a worker that shares nothing: it is worker 0 of 1, so that Split gives it everything and Barrier returns at once. Where each worker has rows of its own, a layer runs on
// it as on a pool of one. The rows of a Run lie in numbered pieces, of which worker ID takes pieces ID, ID+N, ID+2N and so on, ascending. If a piece follows on those before it, Meet waits
// until all of them have come as far; so every piece passes the same Meets, and all pieces follow or none.
func (w *Worker) Alone(i int, follows bool) *Worker {
	a := w.alone
	a.piece, a.met, a.meets = i, 0, follows
	if follows {
		w.mark.Store(markOf(i, 0))
	}
	return a
}

// markOf orders what a worker has reached: its piece, and the Meets passed there.
func markOf(piece int, met uint32) uint64 { return uint64(piece)<<32 | uint64(met) }

// Meet says that this piece has come so far and waits until the pieces before it have too. What they wrote before is visible after. Later pieces are not waited for, so that a
// worker that is ahead stays ahead. It is nothing for workers that share their rows, since those have met already, and for pieces that do not follow on each other.
func (w *Worker) Meet() {
	if !w.meets {
		return
	}
	m := w.member
	w.met++
	m.mark.Store(markOf(w.piece, w.met))
	// Earlier pieces than these are finished, since their workers have begun later ones.
	for i := max(0, w.piece-m.N+1); i < w.piece; i++ {
		m.follow(&m.pool.workers[i%m.N], markOf(i, w.met))
	}
}

// follow waits until other has reached a mark.
func (w *Worker) follow(other *Worker, mark uint64) {
	p := w.pool
	s := w.spinner()
	for ; other.mark.Load() < mark; s.wait() {
		if p.broken.Load() {
			panic(abandoned{})
		}
		if other.done.Load() == p.gen && other.mark.Load() < mark {
			panic(fmt.Sprintf("par: worker %d returned while worker %d waits for it in piece %d", other.ID, w.ID, mark>>32))
		}
	}
	w.waited += s.timed()
}

// meet waits until other has reached this worker's barrier.
func (w *Worker) meet(other *Worker) {
	p := w.pool
	s := w.spinner()
	for ; int32(other.at.Load()-w.phase) < 0; s.wait() {
		if p.broken.Load() {
			panic(abandoned{})
		}
		if other.done.Load() == p.gen && int32(other.at.Load()-w.phase) < 0 {
			panic(fmt.Sprintf("par: worker %d returned while worker %d waits for it at barrier %d", other.ID, w.ID, w.phase))
		}
	}
	w.waited += s.timed()
}

// Split gives this worker's share [lo, hi) of n items: contiguous, the same for the same n as long as the number of workers is, so that a weight row is
// read by the same core.
func (w *Worker) Split(n int) (lo, hi int) { return n * w.ID / w.N, n * (w.ID + 1) / w.N }

// The phases of waiting, in polls: at first the plain poll, which sees a partner a fraction of a microsecond away at the lowest cost; then polls
// with a pause, to leave the memory bus and a sibling thread alone; after some 30 µs the processor is offered to others between polls, and after some 200 µs the
// thread sleeps between them: a scheduler that shares by groups of processes would otherwise charge the waiting to the worker that is waited for.
const (
	plainPolls  = 32
	timedPolls  = 200 // from here on, some 3 µs, a wait is worth a look at the clock
	pausedPolls = 1500
	sleepPolls  = 10000
	idlePolls   = 4000
	yieldPolls  = 100 // in place of idlePolls where every poll gives way
	pauseLoops  = 16
)

// spinner spaces out the polls of one wait.
type spinner struct {
	n     int
	yield bool
	sink  uint32
	begin time.Time // of the part of the wait that is timed
}

func (w *Worker) spinner() spinner { return spinner{yield: w.pool.yield.Load()} }

func (s *spinner) wait() {
	s.n++
	if s.n == timedPolls {
		s.begin = time.Now()
	}
	switch {
	case s.yield:
		runtime.Gosched()
	case s.n <= plainPolls:
	case s.n <= pausedPolls || s.n < sleepPolls && s.n%64 != 0:
		s.pause()
	case s.n < sleepPolls:
		yieldThread()
	default:
		sleepThread()
	}
}

// timed gives the length of the wait, 0 for a short one.
func (s *spinner) timed() time.Duration {
	if s.n < timedPolls {
		return 0
	}
	return time.Since(s.begin)
}

// pause burns some 15 ns in a chain of dependent operations.
//
//go:noinline
func (s *spinner) pause() {
	x := s.sink
	for range pauseLoops {
		x = x*1664525 + 1013904223
	}
	s.sink = x
}
