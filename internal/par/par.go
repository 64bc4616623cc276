// Package par is the pool of compute workers: persistent, locked to threads, one dispatch per forward pass, with pairwise barriers
// between the phases of that pass.
package par

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Pool is a set of workers that run one function together. Worker 0 is the goroutine that calls Run; the others are parked between
// calls. One Run at a time: the owner of the model is the only caller.
type Pool struct {
	workers []Worker
	f       func(w *Worker) // nil tells the workers to leave
	gen     atomic.Uint32   // number of the current Run; workers wait for it to change
	yield   atomic.Bool     // more workers than processors: give way at every poll
	broken  atomic.Bool     // a worker panicked in this Run: the others must not wait for it
	gone    sync.WaitGroup
}

// Worker is what one worker knows of itself during a Run. It is valid only inside the function it was given to.
type Worker struct {
	ID, N int
	pool  *Pool
	phase uint32 // barriers passed, this worker's own copy
	fault *Panic // what the function panicked with, read by worker 0 after done

	_      [64]byte      // what others poll has cache lines of its own
	at     atomic.Uint32 // barriers reached
	_      [60]byte
	done   atomic.Uint32 // last Run finished
	parked atomic.Bool
	wake   chan struct{}
	_      [48]byte
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
		if i > 0 {
			p.gone.Add(1)
			go w.loop()
		}
	}
	return p
}

// Size gives the number of workers.
func (p *Pool) Size() int { return len(p.workers) }

// Run calls f once on every worker and returns when all have returned. It allocates nothing if f is a stored func value. If f panics on a
// worker, the barriers of the others give way and Run panics with a *Panic; the pool can be used again.
func (p *Pool) Run(f func(w *Worker)) {
	if len(p.workers) > 1 {
		p.yield.Store(len(p.workers) > min(runtime.GOMAXPROCS(0), runtime.NumCPU()))
	}
	p.start(f)
	gen := p.gen.Load()
	p.workers[0].call(gen)
	for i := range p.workers[1:] {
		w := &p.workers[i+1]
		for s := (spinner{yield: p.yield.Load()}); w.done.Load() != gen; {
			s.wait()
		}
	}
	if p.broken.Load() {
		panic(p.repair())
	}
}

// start publishes the function and wakes who sleeps.
func (p *Pool) start(f func(w *Worker)) {
	p.f = f
	p.gen.Add(1)
	for i := range p.workers[1:] {
		if w := &p.workers[i+1]; w.parked.CompareAndSwap(true, false) {
			w.wake <- struct{}{}
		}
	}
}

// repair makes the pool usable after a panic, when all workers have finished, and gives what the first of them panicked with.
func (p *Pool) repair() *Panic {
	var first *Panic
	for i := range p.workers {
		w := &p.workers[i]
		if first == nil {
			first = w.fault
		}
		w.fault, w.phase = nil, 0
		w.at.Store(0)
	}
	p.broken.Store(false)
	return first
}

// Close stops the workers and waits until they are gone. The pool must be idle.
func (p *Pool) Close() {
	p.start(nil)
	p.gone.Wait()
}

// loop is the life of workers 1 and up.
func (w *Worker) loop() {
	defer w.pool.gone.Done()
	runtime.LockOSThread()
	for gen := uint32(1); ; gen++ {
		w.await(gen)
		if w.pool.f == nil {
			return
		}
		w.call(gen)
	}
}

// await returns once Run number gen has begun: it polls for some 50 to 100 µs, then parks.
func (w *Worker) await(gen uint32) {
	p := w.pool
	s, polls := spinner{yield: p.yield.Load()}, idlePolls
	if s.yield {
		polls = yieldPolls
	}
	for s.n < polls {
		if p.gen.Load() == gen {
			return
		}
		s.wait()
	}
	w.parked.Store(true)
	if p.gen.Load() == gen && w.parked.CompareAndSwap(true, false) {
		return // it began in between, and nobody has sent a wake-up
	}
	<-w.wake
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
	w.phase++
	w.at.Store(w.phase)
	for i := range w.pool.workers {
		if other := &w.pool.workers[i]; other != w {
			w.meet(other)
		}
	}
}

// meet waits until other has reached this worker's barrier.
func (w *Worker) meet(other *Worker) {
	reached := func() bool { return int32(other.at.Load()-w.phase) >= 0 }
	if reached() {
		return
	}
	p := w.pool
	gen := p.gen.Load()
	for s := (spinner{yield: p.yield.Load()}); ; s.wait() {
		if reached() {
			return
		}
		if p.broken.Load() {
			panic(abandoned{})
		}
		if other.done.Load() == gen && !reached() {
			panic(fmt.Sprintf("par: worker %d returned while worker %d waits for it at barrier %d", other.ID, w.ID, w.phase))
		}
	}
}

// Split gives this worker's share [lo, hi) of n items: contiguous, always the same for the same n, so that a weight row is always
// read by the same core.
func (w *Worker) Split(n int) (lo, hi int) { return n * w.ID / w.N, n * (w.ID + 1) / w.N }

// The phases of waiting, in polls: at first the plain poll, which sees a partner a fraction of a microsecond away at the lowest cost; then polls
// with a pause, to leave the memory bus and a sibling thread alone; after some 30 µs the processor is offered to others between polls.
const (
	plainPolls  = 32
	pausedPolls = 1500
	idlePolls   = 4000
	yieldPolls  = 100 // in place of idlePolls where every poll gives way
	pauseLoops  = 16
)

// spinner spaces out the polls of one wait.
type spinner struct {
	n     int
	yield bool
	sink  uint32
}

func (s *spinner) wait() {
	s.n++
	switch {
	case s.yield:
		runtime.Gosched()
	case s.n <= plainPolls:
	case s.n <= pausedPolls || s.n%64 != 0:
		s.pause()
	default:
		runtime.Gosched()
	}
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
