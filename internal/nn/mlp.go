package nn

import (
	"tinyloop/internal/kernel"
	"tinyloop/internal/par"
)

// Activation is the non-linearity of an MLP.
type Activation uint8

const (
	SwiGLU Activation = iota // silu(gate x) * (up x)
	GELU                     // gelu(up x), tanh form
	ReLU2                    // max(0, up x)^2
	GeGLU                    // gelu(gate x) * (up x), tanh form (Shazeer, 2020)
)

// Gated says whether a layer of the activation has a gate.
func (a Activation) Gated() bool { return a == SwiGLU || a == GeGLU }

// MLP is the weights of one feed-forward layer. Gate is used by gated activations only.
type MLP struct{ Gate, Up, Down Linear }

// MLPScratch is the working memory of feed-forward layers of one shape.
type MLPScratch struct {
	hidden   int
	gate, up []float32 // [rows][hidden]
	act      *Acts     // [rows][hidden]
}

// NewMLPScratch makes room for calls of up to rows rows.
func NewMLPScratch(act Activation, rows, hidden, workers int) *MLPScratch {
	s := &MLPScratch{hidden: hidden, up: make([]float32, rows*hidden), act: NewActs(rows, hidden, workers)}
	if act.Gated() {
		s.gate = make([]float32, rows*hidden)
	}
	return s
}

// Part gives rows [lo, hi) to a worker that runs alone.
func (s *MLPScratch) Part(lo, hi int) *MLPScratch {
	p := &MLPScratch{hidden: s.hidden, up: s.up[lo*s.hidden : hi*s.hidden], act: s.act.Part(lo, hi)}
	if s.gate != nil {
		p.gate = s.gate[lo*s.hidden : hi*s.hidden]
	}
	return p
}

// Reader gives the matrix that decides in which form the layer's input is prepared.
func (m *MLP) Reader() *kernel.Matrix { return reader(m.Up.W, m.Gate.W, nil) }

// Forward computes this worker's columns of the output: y[r*ldy+n], n in [lo, hi). in holds the rows ready for Gate and Up. One barrier inside (two when the
// product of Down needs its input quantised and the rows are many); one must follow.
func (m *MLP) Forward(w *par.Worker, act Activation, s *MLPScratch, in *kernel.Input, rows int, y []float32, ldy int) (lo, hi int) {
	lo, hi = m.Up.Forward(w, s.up, s.hidden, in, rows)
	if act.Gated() {
		m.Gate.Forward(w, s.gate, s.hidden, in, rows)
	}
	for r := range rows {
		s.activate(act, r, lo, hi)
	}
	w.Barrier()
	return m.Down.Forward(w, y, ldy, s.act.Gather(w, rows, m.Down.W), rows)
}

// activate writes columns [lo, hi) of row r of the input of Down. Gate and Up have the same shape, so this worker computed both.
func (s *MLPScratch) activate(act Activation, r, lo, hi int) {
	dst, up := s.act.Row(r)[lo:hi], s.up[r*s.hidden+lo:r*s.hidden+hi]
	switch act {
	case SwiGLU:
		kernel.SwiGLU(dst, s.gate[r*s.hidden+lo:r*s.hidden+hi], up)
	case GELU:
		kernel.GELU(dst, up)
	case ReLU2:
		kernel.ReLU2(dst, up)
	case GeGLU:
		kernel.GELU(dst, s.gate[r*s.hidden+lo:r*s.hidden+hi])
		multiply(dst, up)
	}
}

// multiply scales every value of dst by its factor.
func multiply[F Float](dst, factor []F) {
	for i, f := range factor[:len(dst)] {
		dst[i] *= f
	}
}
