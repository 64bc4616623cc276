package engine

import (
	"sync/atomic"
	"time"
)

// Health is a snapshot of an Engine.
type Health struct {
	// Age is how long the step in progress has been running; 0 when idle. A large Age means that the engine is stalled.
	Age time.Duration
	Err error // why the engine no longer serves; nil while it does

	Running, Waiting        int   // choices with K/V; choices and requests without
	PagesUsed, PagesCached  int   // held by running choices; kept only for their prefix
	PagesTotal              int   //
	Steps, Turns            int64 // steps of the loop, Turn calls
	Rows                    int64 // rows over all Turn calls
	Tokens, Prefill, Cached int64 // sampled tokens; prompt positions computed; prompt positions found in the prefix cache
	Requests                int64 // requests accepted so far
	Preempted, Cancels      int64 // choices that lost their pages for a while; requests whose context ended
	Timeouts, Fails         int64 // requests past their deadline; requests ended by a fault
}

// counters are written by the goroutine (requests by Submit) and read by anyone.
type counters struct {
	beat    atomic.Int64 // start of the step in progress in Unix nanoseconds, 0 when idle
	broken  atomic.Pointer[error]
	running atomic.Int64
	waiting atomic.Int64
	used    atomic.Int64
	cached  atomic.Int64

	steps, turns, turned    atomic.Int64
	tokens, prefill, reused atomic.Int64
	requests, preempted     atomic.Int64
	left, overdue, failures atomic.Int64
}

// Health takes no lock and never waits, so it also answers when the loop is stuck.
func (e *Engine) Health() Health {
	h := Health{
		Running: int(e.running.Load()), Waiting: int(e.waiting.Load()),
		PagesUsed: int(e.used.Load()), PagesCached: int(e.cached.Load()), PagesTotal: e.lim.Pages,
		Steps: e.steps.Load(), Turns: e.turns.Load(), Rows: e.turned.Load(),
		Tokens: e.tokens.Load(), Prefill: e.prefill.Load(), Cached: e.reused.Load(),
		Requests: e.requests.Load(), Preempted: e.preempted.Load(), Cancels: e.left.Load(),
		Timeouts: e.overdue.Load(), Fails: e.failures.Load(),
	}
	if b := e.beat.Load(); b != 0 {
		h.Age = max(0, e.cfg.Now().Sub(time.Unix(0, b)))
	}
	if p := e.broken.Load(); p != nil {
		h.Err = *p
	}
	return h
}

// publish copies what the scheduler counts.
func (e *Engine) publish() {
	held, cached, _ := e.sch.Pages()
	e.running.Store(int64(e.sch.Running()))
	e.waiting.Store(int64(e.sch.Waiting()))
	e.used.Store(int64(held))
	e.cached.Store(int64(cached))
}
