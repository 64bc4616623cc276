package model

import (
	"math"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
	"tinyloop/internal/nn"
)

// Weights are the parameters of a model: read-only, shared by every Scratch. Which of them exist is decided by the Spec, see Slots.
type Weights struct {
	Embed     *kernel.Matrix // [Vocab, Dim]
	Positions *kernel.Matrix // [Context, Dim]
	EmbedNorm nn.Norm

	RopeFactors []float32 // [Rot/2] divisors of the frequencies; nil = ones

	Prelude, Core, Coda []BlockWeights

	PreludeNorm, LoopNorm, CodaNorm, FinalNorm nn.Norm

	ALog, DtBias []float32      // [Dim] of InjectDiagonal, as trained
	Alpha        []float32      // [Dim] of InjectScaled
	Inject       *kernel.Matrix // B [Dim, Dim] of InjectDiagonal, or W [Dim, 2*Dim] of InjectConcat
	Readout      *kernel.Matrix // C [Dim, Dim]
	Head         *kernel.Matrix // [Vocab, Dim]; nil when tied

	Gate, GateBias []float32 // [Dim], [1]
}

// BlockWeights are the parameters of one block.
type BlockWeights struct {
	AttnNorm, AttnPost, MLPNorm, MLPPost nn.Norm
	Attn                                 nn.Attention
	MLP                                  nn.MLP
}

// Model is a blueprint with its weights: immutable, safe to share between any number of Scratches.
type Model struct {
	Spec Spec
	W    *Weights

	heads     nn.Heads
	decay, dt []float32 // [Dim] of InjectDiagonal, from ALog and DtBias
}

// New checks the Spec and that w holds every tensor it calls for in the right shape. The Model owns w from then on.
func New(spec Spec, w *Weights) (*Model, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	for _, t := range w.Slots(&spec) {
		if err := t.check(); err != nil {
			return nil, err
		}
	}
	m := &Model{Spec: spec, W: w, heads: spec.heads()}
	m.setNorms()
	if spec.Injection == InjectDiagonal {
		m.decay, m.dt = retention(w.ALog, w.DtBias)
	}
	return m, nil
}

func (s *Slot) check() error {
	if s.Vector != nil {
		if len(*s.Vector) != s.N {
			return fault.New(fault.Invalid, s.Name, "tensor %s: want [%d], have [%d]", s.Name, s.N, len(*s.Vector))
		}
		return nil
	}
	m := *s.Matrix
	if m == nil {
		return fault.New(fault.Invalid, s.Name, "tensor %s: missing, want [%d %d]", s.Name, s.N, s.K)
	}
	if m.N != s.N || m.K != s.K {
		return fault.New(fault.Invalid, s.Name, "tensor %s: want [%d %d], have [%d %d]", s.Name, s.N, s.K, m.N, m.K)
	}
	return nil
}

func (s *Spec) heads() nn.Heads {
	b := &s.Block
	h := nn.Heads{Q: b.Heads, KV: b.KVHeads, Dim: b.HeadDim, Interleaved: b.Pos == RopeInterleaved, Eps: b.Eps, Scale: b.AttnScale, Softcap: b.AttnSoftcap}
	if b.Pos.Rotary() {
		h.Rot = b.Rot()
	}
	if h.Scale == 0 {
		h.Scale = float32(1 / math.Sqrt(float64(b.HeadDim)))
	}
	return h
}

// setNorms gives every norm that has a gain its kind and epsilon; the others stay the identity.
func (m *Model) setNorms() {
	kind := nn.RMS
	if m.Spec.Block.Norm == LayerNorm {
		kind = nn.LayerNorm
	}
	set := func(ns ...*nn.Norm) {
		for _, n := range ns {
			if n.Gain != nil {
				n.Kind, n.Eps = kind, m.Spec.Block.Eps
			}
		}
	}
	w := m.W
	set(&w.EmbedNorm, &w.PreludeNorm, &w.LoopNorm, &w.CodaNorm, &w.FinalNorm)
	for _, part := range [][]BlockWeights{w.Prelude, w.Core, w.Coda} {
		for i := range part {
			b := &part[i]
			set(&b.AttnNorm, &b.AttnPost, &b.MLPNorm, &b.MLPPost)
		}
	}
}

// retention derives the constants of the diagonal injection: dt = softplus(dtBias), decay = exp(-dt*exp(aLog)) (Parcae, arXiv 2604.12946).
func retention(aLog, dtBias []float32) (decay, dt []float32) {
	decay, dt = make([]float32, len(aLog)), make([]float32, len(aLog))
	for i := range aLog {
		x := float64(dtBias[i])
		d := max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))
		dt[i] = float32(d)
		decay[i] = float32(math.Exp(-d * math.Exp(float64(aLog[i]))))
	}
	return decay, dt
}

// head gives the output matrix.
func (m *Model) head() *kernel.Matrix {
	if m.Spec.TiedHead {
		return m.W.Embed
	}
	return m.W.Head
}

// Bytes gives the memory that the weights hold.
func (m *Model) Bytes() int64 {
	var n int64
	for _, t := range m.W.Slots(&m.Spec) {
		if t.Matrix != nil {
			n += int64((*t.Matrix).Bytes())
		} else {
			n += 4 * int64(len(*t.Vector))
		}
	}
	return n
}

// Close gives the weights back. No Scratch of the model may run after.
func (m *Model) Close() { m.W.Free(&m.Spec) }

// Free gives back the matrices that are there; w may be incomplete.
func (w *Weights) Free(s *Spec) {
	for _, t := range w.Slots(s) {
		if t.Matrix != nil && *t.Matrix != nil {
			(*t.Matrix).Free()
			*t.Matrix = nil
		}
	}
}
