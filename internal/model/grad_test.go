package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"tinyloop/internal/nn"
)

// plainSpec is the smallest model that has a prelude, a loop and a coda.
func plainSpec() Spec {
	return Spec{Family: "test", Vocab: 11, Dim: 8, Context: 16, Prelude: 1, Core: 1, Coda: 1,
		Block: Block{Eps: 1e-5, Heads: 2, KVHeads: 2, HeadDim: 4, Pos: RopeHalf, RopeTheta: 100, Hidden: 10, MLP: GELU},
		Loops: Loops{3, 1, 2, 4, 8}}
}

// gradCase is a change of the plain model or of the plain pass.
type gradCase struct {
	name string
	spec func(*Spec)
	pass func(*Pass)
}

func block(f func(*Block)) func(*Spec) { return func(s *Spec) { f(&s.Block) } }

var gradCases = []gradCase{
	{name: "plain"},
	{name: "layer norm", spec: block(func(b *Block) { b.Norm = LayerNorm })},
	{name: "branch sandwich", spec: block(func(b *Block) { b.NormPlace = BranchSandwich })},
	{name: "residual sandwich", spec: block(func(b *Block) { b.NormPlace = ResidualSandwich })},
	{name: "post norm", spec: block(func(b *Block) { b.NormPlace = PostNorm })},
	{name: "layer norm everywhere", spec: func(s *Spec) {
		s.Block.Norm, s.Block.NormPlace, s.Embed.NormAfter, s.PreludeNorm, s.LoopNorm, s.CodaNorm = LayerNorm, BranchSandwich, true, true, LoopNormOwn, CodaNormOwn
	}},
	{name: "grouped queries", spec: block(func(b *Block) { b.Heads, b.KVHeads = 4, 2 })},
	{name: "biases", spec: block(func(b *Block) { b.QKVBias, b.OutBias, b.MLPBias = true, true, true })},
	{name: "qk norm", spec: block(func(b *Block) { b.QKNorm = true })},
	{name: "qk bias", spec: block(func(b *Block) { b.QKBias = true })},
	{name: "qk norm and bias", spec: block(func(b *Block) { b.QKNorm, b.QKBias, b.Heads, b.KVHeads = true, true, 2, 1 })},
	{name: "attention scale", spec: block(func(b *Block) { b.AttnScale = 0.9 })},
	{name: "attention softcap", spec: block(func(b *Block) { b.AttnSoftcap, b.AttnScale = 1.5, 0.8 })},
	{name: "window", spec: block(func(b *Block) { b.Window = 3 })},
	{name: "rope interleaved", spec: block(func(b *Block) { b.Pos = RopeInterleaved })},
	{name: "rope partial", spec: block(func(b *Block) { b.RopeDim = 2 })},
	{name: "rope factors", spec: block(func(b *Block) { b.RopeFactors = true })},
	{name: "learned positions", spec: block(func(b *Block) { b.Pos = Learned })},
	{name: "no positions", spec: block(func(b *Block) { b.Pos = NoPos })},
	{name: "swiglu", spec: block(func(b *Block) { b.MLP, b.MLPBias = SwiGLU, true })},
	{name: "relu2", spec: block(func(b *Block) { b.MLP = ReLU2 })},
	{name: "residual scale", spec: block(func(b *Block) { b.ResidualScale = 0.6 })},
	{name: "residual scale, sandwich", spec: block(func(b *Block) { b.ResidualScale, b.NormPlace = 0.6, BranchSandwich })},
	{name: "residual scale, post norm", spec: block(func(b *Block) { b.ResidualScale, b.NormPlace = 0.6, PostNorm })},
	{name: "embedding scale", spec: func(s *Spec) { s.Embed.Scale = 2.5 }},
	{name: "embedding norm", spec: func(s *Spec) { s.Embed.NormAfter, s.Embed.Scale, s.Block.Pos = true, 2, Learned }},
	{name: "prelude norm", spec: func(s *Spec) { s.PreludeNorm = true }},
	{name: "inject add", spec: func(s *Spec) { s.Injection = InjectAdd }},
	{name: "inject add, no prelude", spec: func(s *Spec) { s.Injection, s.Prelude, s.PreludeNorm = InjectAdd, 0, true }},
	{name: "inject scaled", spec: func(s *Spec) { s.Injection = InjectScaled }},
	{name: "inject scaled, state zero", spec: func(s *Spec) { s.Injection, s.StateInit = InjectScaled, StateZero }},
	{name: "inject diagonal", spec: func(s *Spec) { s.Injection = InjectDiagonal }},
	{name: "inject diagonal matrix", spec: func(s *Spec) { s.Injection, s.InjectMatrix, s.StateInit = InjectDiagonal, true, StateZero }},
	{name: "inject concat", spec: func(s *Spec) { s.Injection = InjectConcat }},
	{name: "inject concat, state zero", spec: func(s *Spec) { s.Injection, s.StateInit = InjectConcat, StateZero }},
	{name: "loop norm between", spec: func(s *Spec) { s.LoopNorm = LoopNormBetween }},
	{name: "loop norm between, inject", spec: func(s *Spec) { s.LoopNorm, s.Injection = LoopNormBetween, InjectScaled }},
	{name: "loop norm own", spec: func(s *Spec) { s.LoopNorm = LoopNormOwn }},
	{name: "readout", spec: func(s *Spec) { s.Readout = true }},
	{name: "coda norm final", spec: func(s *Spec) { s.CodaNorm = CodaNormFinal }},
	{name: "coda norm own, readout", spec: func(s *Spec) { s.CodaNorm, s.Readout = CodaNormOwn, true }},
	{name: "tied head", spec: func(s *Spec) { s.TiedHead = true }},
	{name: "logit scale", spec: func(s *Spec) { s.LogitScale = 0.4 }},
	{name: "logit softcap", spec: func(s *Spec) { s.LogitScale, s.LogitSoftcap = 1.3, 2 }},
	{name: "exit gate", spec: func(s *Spec) { s.ExitGate = true }},
	{name: "no core", spec: func(s *Spec) { s.Prelude, s.Core, s.Coda, s.Loops = 2, 0, 0, Loops{1, 1, 1, 1, 1} }, pass: func(p *Pass) { p.Loops = 1 }},
	{name: "no core, inject", spec: func(s *Spec) { s.Prelude, s.Core, s.Injection, s.Loops = 1, 0, InjectAdd, Loops{1, 1, 1, 1, 1} }, pass: func(p *Pass) { p.Loops = 1 }},
	{name: "core alone", spec: func(s *Spec) { s.Prelude, s.Core, s.Coda = 0, 2, 0 }},
	{name: "two of each", spec: func(s *Spec) { s.Prelude, s.Core, s.Coda, s.Injection = 2, 2, 2, InjectAdd }},
	{name: "one loop", pass: func(p *Pass) { p.Loops = 1 }},
	{name: "eight loops", spec: func(s *Spec) { s.Injection, s.LoopNorm = InjectDiagonal, LoopNormOwn }, pass: func(p *Pass) { p.Loops = 8 }},
	{name: "no starts", pass: func(p *Pass) { p.Start = nil }},
	{name: "z-loss", spec: func(s *Spec) { s.LogitSoftcap = 4 }, pass: func(p *Pass) { p.ZLoss = 0.1 }},
	{name: "extra readouts", spec: func(s *Spec) { s.Readout, s.CodaNorm = true, CodaNormOwn }, pass: func(p *Pass) { p.Extra, p.ZLoss = []Readout{{1, 0.3}, {2, 0.5}}, 0.05 }},
	{name: "traces", spec: func(s *Spec) { s.CodaNorm = CodaNormFinal }, pass: func(p *Pass) {
		p.Traces, p.TraceWeight = []TraceTarget{{1, 1, 3}, {4, 2, 5}, {4, 1, 2}, {12, 1, 7}, {3, 3, 1}, {9, 2, 4}}, 0.5
	}},
	{name: "traces and extra", spec: func(s *Spec) { s.Coda, s.Injection = 0, InjectScaled }, pass: func(p *Pass) {
		p.Traces, p.TraceWeight, p.Extra = []TraceTarget{{1, 1, 3}, {4, 2, 5}, {8, 2, 2}}, 0.5, []Readout{{2, 0.3}}
	}},
	{name: "truncated", spec: func(s *Spec) { s.Injection = InjectDiagonal }, pass: func(p *Pass) { p.GradLoops = 1 }},
	{name: "truncated, no injection", pass: func(p *Pass) { p.GradLoops = 2 }},
	{name: "truncated, extra", spec: func(s *Spec) { s.Injection, s.LoopNorm, s.StateInit = InjectConcat, LoopNormBetween, StateZero }, pass: func(p *Pass) {
		p.Loops, p.GradLoops, p.Extra = 5, 2, []Readout{{2, 0.4}, {3, 0.6}, {4, 0.3}}
	}},
	{name: "recipe", spec: func(s *Spec) {
		s.Block.MLP, s.Block.QKNorm, s.TiedHead, s.LogitSoftcap, s.Embed.Scale = ReLU2, true, true, 15, 2.8
		s.PreludeNorm, s.Injection, s.LoopNorm, s.Core = true, InjectScaled, LoopNormBetween, 2
	}, pass: func(p *Pass) {
		p.Extra, p.ZLoss, p.Traces, p.TraceWeight = []Readout{{1, 0.3}}, 1e-2, []TraceTarget{{4, 2, 5}}, 0.5
	}},
	{name: "huginn", spec: func(s *Spec) {
		s.Block.NormPlace, s.Block.MLP, s.Block.QKBias, s.Block.Pos = ResidualSandwich, SwiGLU, true, RopeInterleaved
		s.Injection, s.StateInit, s.CodaNorm, s.TiedHead, s.Embed.Scale = InjectConcat, StateZero, CodaNormFinal, true, 2.8
	}},
	{name: "ouro", spec: func(s *Spec) {
		s.Block.NormPlace, s.Block.MLP, s.LoopNorm, s.ExitGate, s.Prelude, s.Coda = BranchSandwich, SwiGLU, LoopNormBetween, true, 0, 0
	}},
	{name: "parcae", spec: func(s *Spec) {
		s.Block.MLP, s.Block.QKNorm, s.PreludeNorm, s.Injection, s.InjectMatrix, s.Readout, s.TiedHead = ReLU2, true, true, InjectDiagonal, true, true, true
	}},
	{name: "geglu", spec: block(func(b *Block) { b.MLP, b.MLPBias = GeGLU, true })},
}

func (c *gradCase) build(t *testing.T) (*Spec, *Pass) {
	t.Helper()
	s := plainSpec()
	if c.spec != nil {
		c.spec(&s)
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	p := &Pass{Rows: 2, T: 7, Loops: 3, Scale: 1,
		Input:  []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1, 2, 3},
		Target: []int32{2, 3, -1, 5, 6, 7, -1, 9, -1, 0, -1, -1, 3, 4},
		Start:  []int32{0, 0, 0, 3, 3, 3, 6, 0, 0, 0, 0, 4, 4, 4}}
	if c.pass != nil {
		c.pass(p)
	}
	return &s, p
}

// drawParams draws weights that make every part matter: gains around one, the rest around zero.
func drawParams[F nn.Float](s *Spec, rng *rand.Rand) []F {
	flat := make([]F, s.Size())
	for _, p := range s.Layout() {
		mean, std := 0.0, 0.3
		switch p.Role {
		case RoleMatrix, RoleEmbedding:
			std = 1 / math.Sqrt(float64(p.K))
		case RoleGain, RoleFrozen:
			mean, std = 1, 0.2
		}
		for i := range p.Len {
			flat[p.Off+i] = F(mean + std*rng.NormFloat64())
		}
	}
	return flat
}

// tester measures the objective of a pass in float64. Under truncation the state where the gradient begins is kept from the first measure, as the
// constant that it is to the gradient.
type tester struct {
	tape[float64]
	pack   packing[float64]
	states [][]float64
}

func newTester(s *Spec, p *Pass) *tester {
	t := &tester{}
	t.make(s, Shape{Rows: p.Rows, T: p.T, MaxLoops: p.Loops, GradLoops: p.GradLoops}, nn.Portable[float64]())
	t.pack.make(s, nn.Portable[float64]())
	return t
}

func (t *tester) objective(flat []float64, p *Pass) float64 {
	t.pack.Update(nil, flat)
	constant := 0
	if p.GradLoops > 0 {
		constant = p.Loops - p.GradLoops
	}
	t.begin(&t.pack, flat, nil, p)
	t.enter()
	for l := range p.Loops {
		t.turn(&t.passes[0], l, t.out)
		if l < constant {
			if len(t.states) == l {
				t.states = append(t.states, append([]float64(nil), t.out...))
			}
			copy(t.out, t.states[l])
		}
		t.readAt(l+1, t.out, nil)
		copy(t.passes[0].h, t.out)
	}
	return t.res.Objective
}

// TestGradients: the gradient of every option against central differences of fourth order, along a random direction of each tensor and along single
// weights.
func TestGradients(t *testing.T) {
	for i := range gradCases {
		c := &gradCases[i]
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			s, pass := c.build(t)
			rng := rand.New(rand.NewPCG(uint64(i), 3))
			flat := drawParams[float64](s, rng)
			e := newTester(s, pass)
			grads := make([]float64, len(flat))
			e.pack.Update(nil, flat)
			res := e.run(&e.pack, flat, grads, pass)
			if j := e.objective(flat, pass); math.Abs(j-res.Objective) > 1e-12*math.Abs(j) {
				t.Fatalf("objective %v with gradient, %v without", res.Objective, j)
			}
			worst, where := 0.0, ""
			for _, p := range s.Layout() {
				for try := range 2 {
					dir := direction(p.Len, try, rng)
					got := 0.0
					for k, d := range dir {
						got += d * grads[p.Off+k]
					}
					want := e.slope(flat[p.Off:p.Off+p.Len], dir, flat, pass)
					if p.Role == RoleFrozen {
						want = 0
					}
					if d := math.Abs(got-want) / max(math.Abs(got), math.Abs(want), 1e-3); !(d <= worst) {
						worst, where = d, fmt.Sprintf("%s: %.10g, differences give %.10g", p.Name, got, want)
					}
				}
			}
			if !(worst < 1e-5) {
				t.Errorf("relative error %.2g at %s", worst, where)
			}
		})
	}
}

// direction is a random one for try 0, one weight else.
func direction(n, try int, rng *rand.Rand) []float64 {
	dir := make([]float64, n)
	if try > 0 {
		dir[rng.IntN(n)] = 1
		return dir
	}
	for i := range dir {
		dir[i] = rng.NormFloat64()
	}
	return dir
}

func (t *tester) slope(x, dir, flat []float64, p *Pass) float64 {
	const h = 3e-5
	keep := append([]float64(nil), x...)
	at := func(by float64) float64 {
		for i, d := range dir {
			x[i] = keep[i] + by*d
		}
		return t.objective(flat, p)
	}
	slope := (8*(at(h)-at(-h)) - (at(2*h) - at(-2*h))) / (12 * h)
	copy(x, keep)
	return slope
}
