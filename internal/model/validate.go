package model

import (
	"math"

	"tinyloop/internal/fault"
)

// Bounds of a Spec. They are far beyond what the machine can run, and small enough that no product of them overflows int64.
const (
	maxVocab   = 1 << 24
	maxDim     = 1 << 17
	maxContext = 1 << 24
	maxBlocks  = 4096
	maxHeads   = 4096
	maxHeadDim = 1024
	maxLoops   = 4096
	maxSlots   = 1 << 20
	maxParams  = 1 << 42
)

// Validate checks that the Spec is complete and consistent. The error names the field, the limit and the value.
func (s *Spec) Validate() error {
	for _, f := range []func() error{s.checkSizes, s.checkBlock, s.checkOptions, s.checkLoops, s.checkTotal} {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

func bad(field, format string, args ...any) error {
	return fault.New(fault.Invalid, field, "model: "+field+" "+format, args...)
}

type bound struct {
	field     string
	v, lo, hi int
}

func within(bounds []bound) error {
	for _, b := range bounds {
		if b.v < b.lo || b.v > b.hi {
			return bad(b.field, "must be %d to %d, is %d", b.lo, b.hi, b.v)
		}
	}
	return nil
}

func (s *Spec) checkSizes() error {
	b := &s.Block
	return within([]bound{
		{"vocab", s.Vocab, 1, maxVocab},
		{"dim", s.Dim, 1, maxDim},
		{"context", s.Context, 1, maxContext},
		{"prelude", s.Prelude, 0, maxBlocks},
		{"core", s.Core, 0, maxBlocks},
		{"coda", s.Coda, 0, maxBlocks},
		{"blocks", s.Prelude + s.Core + s.Coda, 1, maxBlocks},
		{"heads", b.Heads, 1, maxHeads},
		{"kv_heads", b.KVHeads, 1, b.Heads},
		{"head_dim", b.HeadDim, 1, maxHeadDim},
		{"hidden", b.Hidden, 1, 8 * maxDim},
		{"rope_dim", b.RopeDim, 0, b.HeadDim},
		{"window", b.Window, 0, maxContext},
	})
}

func (s *Spec) checkBlock() error {
	b := &s.Block
	if b.Heads%b.KVHeads != 0 {
		return bad("kv_heads", "must divide heads %d, is %d", b.Heads, b.KVHeads)
	}
	if !(b.Eps > 0 && b.Eps < 1) {
		return bad("eps", "must lie between 0 and 1, is %v", b.Eps)
	}
	if !b.Pos.Rotary() {
		if b.RopeFactors {
			return bad("rope_factors", "need rotary positions")
		}
		return nil
	}
	if rot := b.Rot(); rot%2 != 0 {
		return bad("rope_dim", "must be even, is %d", rot)
	}
	if !(b.RopeTheta >= 1) || math.IsInf(float64(b.RopeTheta), 0) {
		return bad("rope_theta", "must be a finite number of at least 1, is %v", b.RopeTheta)
	}
	return nil
}

func (s *Spec) checkOptions() error {
	b := &s.Block
	err := within([]bound{
		{"norm", int(b.Norm), 0, int(LayerNorm)},
		{"norm_place", int(b.NormPlace), 0, int(PostNorm)},
		{"pos", int(b.Pos), 0, int(NoPos)},
		{"mlp", int(b.MLP), 0, int(GeGLU)},
		{"injection", int(s.Injection), 0, int(InjectScaled)},
		{"state_init", int(s.StateInit), 0, int(StateZero)},
		{"loop_norm", int(s.LoopNorm), 0, int(LoopNormOwn)},
		{"coda_norm", int(s.CodaNorm), 0, int(CodaNormOwn)},
	})
	if err != nil {
		return err
	}
	for _, f := range []struct {
		field string
		v     float32
	}{{"attn_scale", b.AttnScale}, {"attn_softcap", b.AttnSoftcap}, {"logit_softcap", s.LogitSoftcap}, {"embed_scale", s.Embed.Scale},
		{"logit_scale", s.LogitScale}, {"residual_scale", b.ResidualScale}} {
		if math.IsNaN(float64(f.v)) || math.IsInf(float64(f.v), 0) || f.v < 0 {
			return bad(f.field, "must be a finite number of at least 0, is %v", f.v)
		}
	}
	if s.InjectMatrix && s.Injection != InjectDiagonal {
		return bad("inject_matrix", "needs injection diagonal")
	}
	if s.StateInit == StateZero && s.Injection == InjectNone {
		return bad("state_init", "zero needs an injection, else the input is lost")
	}
	return nil
}

func (s *Spec) checkLoops() error {
	l := &s.Loops
	if s.Core == 0 && (*l != Loops{1, 1, 1, 1, 1}) {
		return bad("loops", "must all be 1 for a model without core blocks, are %v", *l)
	}
	return within([]bound{
		{"loops.hard_max", l.HardMax, 1, maxLoops},
		{"loops.trained_max", l.TrainedMax, 1, l.HardMax},
		{"loops.trained_mean", l.TrainedMean, 1, l.TrainedMax},
		{"loops.trained_min", l.TrainedMin, 1, l.TrainedMean},
		{"loops.default", l.Default, 1, l.HardMax},
		{"slots", s.Slots(l.HardMax), 1, maxSlots},
	})
}

func (s *Spec) checkTotal() error {
	if n, _ := s.Params(); n > maxParams {
		return bad("params", "must be at most %d in all, are %d", int64(maxParams), n)
	}
	return nil
}

// Rotary says whether positions are rotations of queries and keys.
func (p Pos) Rotary() bool { return p == RopeHalf || p == RopeInterleaved }

// Rot gives the rotated width of a head.
func (b *Block) Rot() int {
	if b.RopeDim == 0 {
		return b.HeadDim
	}
	return b.RopeDim
}
