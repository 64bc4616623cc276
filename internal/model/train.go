package model

import (
	"tinyloop/internal/nn"
	"tinyloop/internal/par"
)

// Shape is the largest micro-batch of a Tape.
type Shape struct {
	Rows, T   int // rows of T positions; T <= Spec.Context
	MaxLoops  int
	GradLoops int // most passes that carry gradient, whose activations are kept; 0 = MaxLoops
}

// Pass is one micro-batch and what is learned from it. Everything is read only.
type Pass struct {
	Input  []int32 // [Rows*T] tokens
	Target []int32 // [Rows*T] the token to say at each position; -1 = nothing learned
	Start  []int32 // [Rows*T] first index of the row that the position may attend to; its place in the document counts from there. nil = 0
	Rows   int
	T      int

	Traces []TraceTarget // measured and learned only with a TraceWeight

	Loops     int       // 1 to Shape.MaxLoops
	GradLoops int       // the last passes, which carry gradient: the state before them is a constant; 0 = as many as the Shape allows
	Extra     []Readout // ascending

	TraceWeight float32
	ZLoss       float32 // weight of the squared log of the softmax's sum, which keeps logits from drifting (PaLM, arXiv 2204.02311)
	Scale       float32 // factor on the whole objective, so on all gradients: 1 / learned tokens of the step
}

// TraceTarget says that after Step loops, if more follow, position Pos (an index into Input) should read ID.
type TraceTarget struct{ Pos, Step, ID int32 }

// Readout asks for the loss of all targets at an earlier loop, 1 <= Loops < Pass.Loops, too.
type Readout struct {
	Loops  int
	Weight float32
}

// Result is what a pass measured. Its slices belong to the Tape and hold until its next call.
type Result struct {
	Loss             float64 // cross entropy in nats after the last loop, summed over the targets
	Targets, Correct int
	ExtraLoss        []float64 // summed cross entropy of each Extra, without its weight
	TraceLoss        float64   // summed, without TraceWeight
	Traces           int       // trace targets that had their loop
	TraceCorrect     int
	HiddenRMS        []float64 // root mean square of the state after each loop
	Objective        float64   // what the gradient is of: Scale times the weighted sum of the losses above and of the z-losses
}

// Packed holds the matrices of a model in the form of the products of training, in both directions. It is read-only between updates and then shared
// by any number of tapes.
type Packed struct{ packing[float32] }

type packing[F nn.Float] struct {
	b    *blueprint
	o    *nn.Ops[F]
	data []F
	work func(*par.Worker)
	flat []F // of the running update
}

// NewPacked makes room; Update fills it.
func NewPacked(s *Spec) *Packed {
	p := &Packed{}
	p.make(s, nn.Kernels())
	return p
}

func (p *packing[F]) make(s *Spec, o *nn.Ops[F]) {
	p.b, p.o = draft(s, o.PackLen), o
	p.data = make([]F, p.b.packs)
	p.work = func(w *par.Worker) { p.share(w.ID, w.N) }
}

// share packs every n-th matrix.
func (p *packing[F]) share(id, n int) {
	for i := id; i < len(p.b.mats); i += n {
		p.o.PackMat(p.data, p.flat, p.b.mats[i])
	}
}

// Update packs the weights of flat, once after each optimizer step. pool nil means the calling goroutine alone.
func (p *packing[F]) Update(pool *par.Pool, flat []F) {
	p.flat = flat
	if pool != nil {
		pool.Run(p.work)
	} else {
		p.share(0, 1)
	}
	p.flat = nil
}

// PackedBytes gives the memory of a Packed.
func (s *Spec) PackedBytes() int64 { return 4 * int64(draft(s, nn.Kernels().PackLen).packs) }

// Tape is the activations and working memory of one micro-batch, in one arena. It belongs to one goroutine at a time; its calls allocate nothing once
// each kind of pass has been seen.
type Tape struct{ tape[float32] }

// NewTape makes room for micro-batches of up to that shape. Spec and shape must be valid.
func NewTape(s *Spec, sh Shape) *Tape {
	t := &Tape{}
	t.make(s, sh, nn.Kernels())
	return t
}

// TrainBytes gives the memory of one Tape.
func (s *Spec) TrainBytes(sh Shape) int64 {
	var t tape[float32]
	var a arena[float32]
	t.plan(s, sh, nn.Kernels(), &a)
	return 4 * int64(a.used)
}

// Forward measures the loss.
func (t *Tape) Forward(p *Packed, flat []float32, pass *Pass) Result {
	return t.run(&p.packing, flat, nil, pass)
}

// Grad measures the loss and adds the gradient of Result.Objective to grads.
func (t *Tape) Grad(p *Packed, flat, grads []float32, pass *Pass) Result {
	return t.run(&p.packing, flat, grads, pass)
}

// arena hands out parts of one array; without the array it only counts.
type arena[F nn.Float] struct {
	buf  []F
	used int
}

// align keeps parts on cache lines of their own.
const align = 16

func (a *arena[F]) floats(n int) []F {
	at := a.used
	a.used += (n + align - 1) &^ (align - 1)
	if a.buf == nil || n == 0 {
		return nil
	}
	return a.buf[at : at+n : at+n]
}
