package engine

import (
	"context"
	"time"

	"tinyloop/internal/fault"
	"tinyloop/internal/model"
)

// Config is the limits of an Engine. Zero values give the defaults.
type Config struct {
	QueueLimit    int              // waiting requests beyond which Submit answers fault.Busy; 0 = 256
	MaxSeqs       int              // choices decoding at a time; 0 = 64
	StepRows      int              // rows in flight in a step (decode rows and prefill chunks together); 0 = 64, at most the runner's MaxRows
	ChunkRows     int              // most prefill rows of one request entering in a step; 0 = StepRows
	NoPrefixCache bool             // never share K/V between requests
	Now           func() time.Time // nil = time.Now
}

// Health is a snapshot of an Engine.
type Health struct {
	// Age is how long the step in progress has been running; 0 when idle. A large Age means that the engine is stalled.
	Age time.Duration
	Err error // why the engine no longer serves; nil while it does

	Running, Waiting          int // choices with K/V; choices and requests without
	PagesUsed, PagesCached    int // held by running choices; kept only for their prefix
	PagesTotal                int
	Steps, Turns              int64 // steps of the loop, Turn calls
	Rows                      int64 // rows over all Turn calls
	Tokens, Prefill, Cached   int64 // sampled tokens, prompt tokens computed, prompt tokens found in the prefix cache
	Requests                  int64 // requests accepted so far
	Preempted, Cancels, Fails int64
}

// Engine is the decoding loop of one model.
type Engine struct {
	r   model.Runner
	cfg Config
}

// New starts the engine's goroutine, which owns r until Close has returned.
func New(r model.Runner, c Config) *Engine { return &Engine{r: r, cfg: c} }

// Submit queues a request and returns at once. After a nil error every choice of r gets exactly one Finish; after an error s is never called.
func (e *Engine) Submit(ctx context.Context, r *Request, s Sink) error {
	return fault.New(fault.Unavailable, "", "the engine is not running")
}

// Health is lock-free.
func (e *Engine) Health() Health { return Health{} }

// Limits is that of the runner.
func (e *Engine) Limits() model.Limits { return e.r.Limits() }

// Drain refuses new requests and waits until the running ones have ended. When ctx ends first, what remains is ended with Fail.
func (e *Engine) Drain(ctx context.Context) error { return nil }

// Close ends what remains with Fail and stops the goroutine.
func (e *Engine) Close() {}
