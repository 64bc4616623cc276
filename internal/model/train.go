package model

import (
	"tinyloop/internal/par"
)

// Shape is the largest micro-batch of a Tape.
type Shape struct {
	Rows, T   int // rows of T positions
	MaxLoops  int
	GradLoops int // most passes that carry gradient, whose activations are kept; 0 = MaxLoops
}

// Pass is one micro-batch and what is learned from it. Everything is read only.
type Pass struct {
	Input  []int32 // [Rows*T]
	Target []int32 // [Rows*T]; -1 = nothing learned
	Start  []int32 // [Rows*T] first index of the row that the position may attend to; it also counts its positions from there
	Rows   int
	T      int

	Traces []TraceTarget

	Loops     int // 1 to Shape.MaxLoops
	GradLoops int // the last passes, which carry gradient: the state before them is a constant; 0 = all
	Extra     []Readout

	TraceWeight float32
	ZLoss       float32 // weight of the squared log of the softmax's sum, which keeps logits from drifting (PaLM, arXiv 2204.02311)
	Scale       float32 // factor on the whole objective, so on all gradients: 1 / learned tokens of the step
}

// TraceTarget says that after Step loops, if more follow, position Pos (an index into Input) should read ID.
type TraceTarget struct {
	Pos, Step int32
	ID        int32
}

// Readout asks for the loss of all targets at an earlier loop, 1 <= Loops < Pass.Loops, in ascending order.
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
	Traces           int       // targets that had their loop
	TraceCorrect     int
	HiddenRMS        []float64 // root mean square of the state after each loop
	Objective        float64   // what the gradient is of: Scale times the weighted sum of all the above and of the z-losses
}

// Packed holds the matrices of a model in the form of the products of training, in both directions. It is read-only between updates and then shared
// by any number of tapes.
type Packed struct{}

// NewPacked makes room; Update fills it.
func NewPacked(s *Spec) *Packed { return &Packed{} }

// Update packs the weights of flat, once after each optimizer step. pool nil means the calling goroutine alone.
func (p *Packed) Update(pool *par.Pool, flat []float32) {}

// Tape is the activations and working memory of one micro-batch, in one arena. It belongs to one goroutine at a time; its calls allocate nothing.
type Tape struct{}

// NewTape makes room for micro-batches of up to that shape. Spec and shape must be valid.
func NewTape(s *Spec, sh Shape) *Tape { return &Tape{} }

// TrainBytes gives the memory of one Tape.
func (s *Spec) TrainBytes(sh Shape) int64 { return 0 }

// PackedBytes gives the memory of a Packed.
func (s *Spec) PackedBytes() int64 { return 0 }

// Forward measures the loss.
func (t *Tape) Forward(p *Packed, flat []float32, pass *Pass) Result { panic("not built yet") }

// Grad measures the loss and adds the gradient of Result.Objective to grads.
func (t *Tape) Grad(p *Packed, flat, grads []float32, pass *Pass) Result { panic("not built yet") }
