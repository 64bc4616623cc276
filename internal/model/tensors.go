package model

import (
	"fmt"

	"tinyloop/internal/kernel"
	"tinyloop/internal/nn"
)

// Slot is one tensor that a Spec calls for: its name (as in .tinyloop files), its shape, and where it lives in a Weights. Exactly one of Matrix
// and Vector is set. The list of slots is the one place that knows which tensors a model has; loading, checking, counting, saving and random
// weights walk it.
type Slot struct {
	Name   string
	N, K   int // [N, K] of a matrix; a vector has K = 0
	Part   Part
	Inside bool // belongs to a block of Part

	Matrix **kernel.Matrix
	Vector *[]float32
}

// Shape gives the shape as files state it, outermost first.
func (s *Slot) Shape() []int {
	if s.Matrix == nil {
		return []int{s.N}
	}
	return []int{s.N, s.K}
}

// Count gives the number of values.
func (s *Slot) Count() int64 { return int64(s.N) * int64(max(s.K, 1)) }

// slots collects the list.
type slots struct {
	spec   *Spec
	list   []Slot
	prefix string
	part   Part
	inside bool
}

func (c *slots) matrix(name string, n, k int, to **kernel.Matrix) {
	c.list = append(c.list, Slot{c.prefix + name + ".weight", n, k, c.part, c.inside, to, nil})
}

func (c *slots) vector(name string, n int, to *[]float32) {
	c.list = append(c.list, Slot{c.prefix + name, n, 0, c.part, c.inside, nil, to})
}

func (c *slots) linear(name string, n, k int, bias bool, to *nn.Linear) {
	c.matrix(name, n, k, &to.W)
	if bias {
		c.vector(name+".bias", n, &to.Bias)
	}
}

func (c *slots) norm(name string, to *nn.Norm) {
	c.vector(name+".weight", c.spec.Dim, &to.Gain)
	if c.spec.Block.Norm == LayerNorm {
		c.vector(name+".bias", c.spec.Dim, &to.Bias)
	}
}

// Slots lists every tensor of a model of this Spec with its place in w, whose block lists are made here. Shapes are those of the Spec; the Spec
// must be valid.
func (w *Weights) Slots(s *Spec) []Slot {
	c := &slots{spec: s}
	c.matrix("token_embd", s.Vocab, s.Dim, &w.Embed)
	if s.Block.Pos == Learned {
		c.matrix("pos_embd", s.Context, s.Dim, &w.Positions)
	}
	if s.Block.RopeFactors {
		c.vector("rope_freqs.weight", s.Block.Rot()/2, &w.RopeFactors)
	}
	if s.Embed.NormAfter {
		c.norm("embd_norm", &w.EmbedNorm)
	}
	c.blocks(Prelude, s.Prelude, &w.Prelude)
	if s.PreludeNorm {
		c.norm("prelude_norm", &w.PreludeNorm)
	}
	c.inject(w)
	c.blocks(Core, s.Core, &w.Core)
	if s.LoopNorm == LoopNormOwn {
		c.norm("loop_norm", &w.LoopNorm)
	}
	if s.Readout {
		c.matrix("readout", s.Dim, s.Dim, &w.Readout)
	}
	if s.CodaNorm == CodaNormOwn {
		c.norm("coda_norm", &w.CodaNorm)
	}
	c.blocks(Coda, s.Coda, &w.Coda)
	c.norm("output_norm", &w.FinalNorm)
	if !s.TiedHead {
		c.matrix("output", s.Vocab, s.Dim, &w.Head)
	}
	if s.ExitGate {
		c.vector("exit_gate.weight", s.Dim, &w.Gate)
		c.vector("exit_gate.bias", 1, &w.GateBias)
	}
	return c.list
}

func (c *slots) inject(w *Weights) {
	s := c.spec
	switch s.Injection {
	case InjectDiagonal:
		c.vector("inject.a_log", s.Dim, &w.ALog)
		c.vector("inject.dt_bias", s.Dim, &w.DtBias)
		if s.InjectMatrix {
			c.matrix("inject", s.Dim, s.Dim, &w.Inject)
		}
	case InjectScaled:
		c.vector("inject.alpha", s.Dim, &w.Alpha)
	case InjectConcat:
		c.matrix("inject", s.Dim, 2*s.Dim, &w.Inject)
	}
}

func (c *slots) blocks(p Part, n int, to *[]BlockWeights) {
	if len(*to) != n {
		*to = make([]BlockWeights, n)
	}
	for i := range n {
		c.prefix, c.part, c.inside = fmt.Sprintf("%s.%d.", p, i), p, true
		c.block(&(*to)[i])
	}
	c.prefix, c.inside = "", false
}

func (c *slots) block(to *BlockWeights) {
	s, b := c.spec, &c.spec.Block
	q, kv := b.Heads*b.HeadDim, b.KVHeads*b.HeadDim
	pre, post := b.NormPlace != PostNorm, b.NormPlace != PreNorm
	if pre {
		c.norm("attn_norm", &to.AttnNorm)
	}
	c.linear("attn_q", q, s.Dim, b.QKVBias, &to.Attn.Q)
	c.linear("attn_k", kv, s.Dim, b.QKVBias, &to.Attn.K)
	c.linear("attn_v", kv, s.Dim, b.QKVBias, &to.Attn.V)
	if b.QKNorm {
		c.vector("attn_q_norm.weight", b.HeadDim, &to.Attn.QGain)
		c.vector("attn_k_norm.weight", b.HeadDim, &to.Attn.KGain)
	}
	if b.QKBias {
		c.vector("attn_q_head.bias", q, &to.Attn.QHeadBias)
		c.vector("attn_k_head.bias", kv, &to.Attn.KHeadBias)
	}
	c.linear("attn_output", s.Dim, q, b.OutBias, &to.Attn.Out)
	if post {
		c.norm("attn_post_norm", &to.AttnPost)
	}
	if pre {
		c.norm("ffn_norm", &to.MLPNorm)
	}
	if b.MLP.Gated() {
		c.linear("ffn_gate", b.Hidden, s.Dim, b.MLPBias, &to.MLP.Gate)
	}
	c.linear("ffn_up", b.Hidden, s.Dim, b.MLPBias, &to.MLP.Up)
	c.linear("ffn_down", s.Dim, b.Hidden, b.MLPBias, &to.MLP.Down)
	if post {
		c.norm("ffn_post_norm", &to.MLPPost)
	}
}

// Params counts the parameters of the model: those stored, and those applied to one position at the default number of loops, where a block that
// is applied eight times counts eight times.
func (s *Spec) Params() (unique, unrolled int64) {
	var w Weights
	for _, t := range w.Slots(s) {
		n := t.Count()
		unique += n
		if t.Inside && t.Part == Core {
			n *= int64(s.Loops.Default)
		}
		unrolled += n
	}
	return unique, unrolled
}

// KVBytesPerToken gives the memory of the keys and values of one position at the given number of loops in format t (F32, F16 or Q8_0). Pages hold 16
// positions, so a sequence takes this times its length rounded up to 16.
func (s *Spec) KVBytesPerToken(loops int, t kernel.Type) int64 {
	b := &s.Block
	return int64(s.Slots(loops)) * int64(b.KVHeads) * int64(kernel.KVBytes(b.HeadDim, t))
}
