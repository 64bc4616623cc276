// Package optim moves parameters against their gradients: Muon on matrices, AdamW on the rest, over one flat array. It knows no model: a list of
// Tensor says what lies where. Results do not depend on the number of workers: a tensor, or a fixed piece of one, is one worker's.
package optim

import (
	"sync/atomic"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
	"tinyloop/internal/par"
)

// Tensor is one parameter: Rows × Cols values from Off on in the flat arrays; Cols is 0 for a vector.
type Tensor struct {
	Off        int
	Rows, Cols int
	Muon       bool    // orthogonalised momentum instead of AdamW; matrices only
	LR         float64 // learning rate at its peak; 0 = frozen
	Decay      float64 // decoupled weight decay, times the learning rate
}

// Len gives the number of values.
func (t *Tensor) Len() int { return t.Rows * max(t.Cols, 1) }

// Options are the constants of the methods.
type Options struct {
	Beta1, Beta2, Eps float64 // of AdamW (Loshchilov & Hutter, arXiv 1711.05101)
	// Cautious decays only those values whose update has their own sign, that is, which shrink anyway (arXiv 2510.12402).
	Cautious bool
}

// Now is what changes from step to step.
type Now struct {
	Step     int     // 1 for the first: AdamW's bias correction
	LR       float64 // factor on every learning rate
	Decay    float64 // factor on every decay
	Momentum float64 // of Muon
	Grad     float64 // factor on every gradient, from clipping
}

// Optimizer holds the moments. One goroutine at a time.
type Optimizer struct {
	o       Options
	tensors []Tensor
	tasks   []task
	first   []float32 // first moments, in the places of the parameters
	second  []float32 // second moments of AdamW's tensors, side by side
	scratch []scratch // of each worker

	params, grads []float32 // of the running Step
	now           Now
	next          atomic.Int64
	work          func(w *par.Worker)
}

// task is what one worker does without the others: a matrix of Muon, or a piece of a tensor of AdamW.
type task struct {
	t        *Tensor
	lo, hi   int // in the flat arrays
	second   int // where its second moments begin
	estimate int // of its cost, to begin with the dearest
}

// piece bounds the values of a task of AdamW.
const piece = 1 << 15

// New lays out the moments for size parameters. Tensors must be disjoint; what none of them covers never moves. workers is the most that a pool of
// Step may have.
func New(size int, tensors []Tensor, o Options, workers int) (*Optimizer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	p := &Optimizer{o: o, tensors: append([]Tensor(nil), tensors...), first: make([]float32, size)}
	seconds, matrix := 0, 0
	end := 0
	for i := range p.tensors {
		t := &p.tensors[i]
		if t.Off < end || t.Rows < 1 || t.Cols < 0 || t.Muon && t.Cols < 1 || t.Len() > size-t.Off {
			return nil, fault.New(fault.Internal, "tensor", "tensor %d: %d x %d at %d of %d parameters, after one that ends at %d", i, t.Rows, t.Cols, t.Off, size, end)
		}
		end = t.Off + t.Len()
		switch {
		case t.LR == 0:
		case t.Muon:
			p.tasks = append(p.tasks, task{t: t, lo: t.Off, hi: end, estimate: 30 * t.Len() * min(t.Rows, t.Cols)})
			matrix = max(matrix, scratchLen(t.Rows, t.Cols))
		default:
			for lo := t.Off; lo < end; lo += piece {
				hi := min(lo+piece, end)
				p.tasks = append(p.tasks, task{t: t, lo: lo, hi: hi, second: seconds, estimate: 30 * (hi - lo)})
				seconds += hi - lo
			}
		}
	}
	p.second = make([]float32, seconds)
	sortTasks(p.tasks)
	p.scratch = make([]scratch, max(workers, 1))
	for i := range p.scratch {
		p.scratch[i] = make(scratch, matrix)
	}
	p.work = p.worker
	return p, nil
}

func (o *Options) check() error {
	for _, f := range []struct {
		name      string
		v, lo, hi float64
	}{{"beta1", o.Beta1, 0, 0.9999}, {"beta2", o.Beta2, 0, 0.999999}, {"eps", o.Eps, 1e-30, 1}} {
		if !(f.v >= f.lo && f.v <= f.hi) {
			return fault.New(fault.Invalid, f.name, "%s must be %g to %g, is %g", f.name, f.lo, f.hi, f.v)
		}
	}
	return nil
}

// Bytes gives the memory of an optimizer for such tensors, without making it.
func Bytes(size int, tensors []Tensor, workers int) int64 {
	n, matrix := size, 0
	for i := range tensors {
		t := &tensors[i]
		if t.LR != 0 && t.Muon {
			matrix = max(matrix, scratchLen(t.Rows, t.Cols))
		} else if t.LR != 0 {
			n += t.Len()
		}
	}
	return 4 * (int64(n) + int64(matrix)*int64(workers))
}

// State gives the moments themselves, for saving them and for reading them back in.
func (p *Optimizer) State() (first, second []float32) { return p.first, p.second }

// Step moves params by grads. The pool must have no more workers than New was told. It allocates nothing.
func (p *Optimizer) Step(pool *par.Pool, params, grads []float32, now Now) {
	p.params, p.grads, p.now = params, grads, now
	p.next.Store(0)
	pool.Run(p.work)
	p.params, p.grads = nil, nil
}

func (p *Optimizer) worker(w *par.Worker) {
	for i := int(p.next.Add(1)) - 1; i < len(p.tasks); i = int(p.next.Add(1)) - 1 {
		t := &p.tasks[i]
		if t.t.Muon {
			p.muon(t, p.scratch[w.ID])
		} else {
			p.adamw(t)
		}
	}
}

// adamw is one step of AdamW over a piece of a tensor.
func (p *Optimizer) adamw(t *task) {
	step := kernel.AdamWStep{Rate: t.t.LR * p.now.LR, Beta1: p.o.Beta1, Beta2: p.o.Beta2, Eps: p.o.Eps, Decay: t.t.Decay * p.now.Decay,
		Cautious: p.o.Cautious, GradScale: p.now.Grad, Step: p.now.Step}
	kernel.AdamW(p.params[t.lo:t.hi], p.grads[t.lo:t.hi], p.first[t.lo:t.hi], p.second[t.second:t.second+t.hi-t.lo], &step)
}
