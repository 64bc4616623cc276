package model

import (
	"math"

	"tinyloop/internal/invariants"
	"tinyloop/internal/nn"
)

// tape is the working state of training. It walks the program forward and keeps what backward needs, then walks it in reverse; a block that ran eight
// times adds to the same gradient eight times. Readouts (coda, final norm, head) are no part of the walk: the state after each loop is kept as the
// input of the next, so each readout runs forward and backward in one go when the reverse walk comes by, on the same memory.
//
//	tokens -> embedding -> prelude -> e
//	state 0 -> [between, inject, core, own norm] -> state 1 -> … -> state R
//	                                                  |                |
//	                                               readout          readout
type tape[F nn.Float] struct {
	b  *blueprint
	sp *Spec
	sh Shape
	w  nn.Work[F]

	// kept for backward
	embedded, prelude0 []F // inputs of the embedding's and of the prelude's norm, where there are such
	embedNorm, preNorm nn.NormTrace[F]
	prelude            []blockTrace[F]
	e                  []F // what is injected
	es                 []F // as it is added: dt*(B e) or alpha*e
	be                 []F // B e
	passes             []passTrace[F]
	out                []F // state after the last pass
	coda               []blockTrace[F]

	diagonal nn.DiagonalWork[F]
	attn     nn.AttentionWork[F]
	mlp      nn.MLPWork[F]

	n, y, dn, dy []F // [rows][Dim] normed input and result of a branch, and their gradients
	dx, de, des  []F // [rows][Dim] gradients of the stream, of e, of es
	joined       []F // [rows][2*Dim]
	sight        nn.Sight[F]
	read         readout[F]

	pass  *Pass
	rows  int // of the running pass: Rows*T
	first int // passes without gradient
	res   Result
	extra []float64
	rms   []float64
}

// blockTrace is one application of a block. half 0 is attention, 1 the MLP.
type blockTrace[F nn.Float] struct {
	x    [2][]F // input of each half
	post [2][]F // input of each half's second norm
	pre  [2]nn.NormTrace[F]
	aft  [2]nn.NormTrace[F]
	attn nn.AttentionTrace[F]
	mlp  nn.MLPTrace[F]
}

// passTrace is one pass through the core.
type passTrace[F nn.Float] struct {
	h       []F // the state before it
	a       []F // after the norm between passes; h itself without
	between nn.NormTrace[F]
	blocks  []blockTrace[F]
	own     []F // input of the pass's own norm
	ownNorm nn.NormTrace[F]
}

func (t *tape[F]) make(s *Spec, sh Shape, o *nn.Ops[F]) {
	var dry tape[F]
	var a arena[F]
	dry.plan(s, sh, o, &a)
	a = arena[F]{buf: make([]F, a.used)}
	t.plan(s, sh, o, &a)
	t.setAngles(o)
}

// plan cuts everything out of the arena.
func (t *tape[F]) plan(s *Spec, sh Shape, o *nn.Ops[F], a *arena[F]) {
	if sh.GradLoops == 0 || sh.GradLoops > sh.MaxLoops {
		sh.GradLoops = sh.MaxLoops
	}
	t.b = draft(s, o.PackLen)
	t.sp, t.sh = &t.b.spec, sh
	t.w.Ops = o
	sp, rows := t.sp, sh.Rows*sh.T
	wide := func() []F { return a.floats(rows * sp.Dim) }
	when := func(yes bool) []F {
		if !yes {
			return nil
		}
		return wide()
	}
	t.embedded, t.embedNorm = when(sp.Embed.NormAfter), t.normTrace(a, t.b.embedNorm, rows)
	t.prelude = t.blockTraces(a, len(t.b.prelude), rows)
	t.prelude0, t.preNorm = when(sp.PreludeNorm), t.normTrace(a, t.b.preludeNorm, rows)
	t.e = wide()
	t.es = when(sp.Injection == InjectDiagonal || sp.Injection == InjectScaled)
	t.be = when(sp.InjectMatrix)
	t.passes = make([]passTrace[F], sh.GradLoops)
	for i := range t.passes {
		t.passes[i] = t.passTrace(a, rows)
	}
	t.out = wide()
	t.coda = t.blockTraces(a, len(t.b.coda), rows)
	t.n, t.y, t.dn, t.dy = wide(), wide(), wide(), wide()
	t.dx, t.de, t.des = wide(), wide(), when(sp.Injection == InjectDiagonal || sp.Injection == InjectScaled)
	if sp.Injection == InjectConcat {
		t.joined = a.floats(2 * rows * sp.Dim)
	}
	if sp.Injection == InjectDiagonal {
		d := sp.Dim
		t.diagonal = nn.DiagonalWork[F]{Decay: a.floats(d), Dt: a.floats(d), DDecay: a.floats(d), DDt: a.floats(d)}
	}
	t.attn = nn.NewAttentionWork(o, &t.b.heads, rows, sh.T, sp.Block.Window, a.floats)
	hidden := rows * sp.Block.Hidden
	t.mlp = nn.MLPWork[F]{Act: a.floats(hidden), DAct: a.floats(hidden)}
	if sp.Block.MLP.Gated() {
		t.mlp.DGate = a.floats(hidden)
	}
	half := t.b.heads.Rot / 2
	t.sight = nn.Sight[F]{Cos: a.floats(sh.T * half), Sin: a.floats(sh.T * half), MinusSine: a.floats(sh.T * half)}
	t.read.plan(t, a)
	t.w.Tmp = a.floats(t.tmp())
	t.extra, t.rms = make([]float64, sh.MaxLoops), make([]float64, sh.MaxLoops)
}

// tmp gives the working memory of the products of gradients.
func (t *tape[F]) tmp() int {
	rows, n := t.sh.Rows*t.sh.T, 0
	for _, m := range t.b.mats {
		n = max(n, t.w.GemmTNScratch(m.N, m.K, max(rows, t.read.chunk)))
	}
	return n
}

func (t *tape[F]) normTrace(a *arena[F], n nn.NormAt, rows int) nn.NormTrace[F] {
	if n.Kind != nn.RMS {
		return nn.NormTrace[F]{}
	}
	return nn.NormTrace[F]{Inv: a.floats(rows)}
}

func (t *tape[F]) blockTraces(a *arena[F], n, rows int) []blockTrace[F] {
	sp, h := t.sp, &t.b.heads
	qkv, raw, inv, out, lse := h.Sizes(sp.Block.QKNorm)
	list := make([]blockTrace[F], n)
	for i := range list {
		tr := &list[i]
		for half := range tr.x {
			tr.x[half] = a.floats(rows * sp.Dim)
			if sp.Block.NormPlace != PreNorm {
				tr.post[half] = a.floats(rows * sp.Dim)
			}
		}
		tr.attn = nn.AttentionTrace[F]{QKV: a.floats(rows * qkv), Raw: a.floats(rows * raw), Inv: a.floats(rows * inv), Out: a.floats(rows * out), LSE: a.floats(rows * lse)}
		tr.mlp.Up = a.floats(rows * sp.Block.Hidden)
		if sp.Block.MLP.Gated() {
			tr.mlp.Gate = a.floats(rows * sp.Block.Hidden)
		}
		kind := t.b.finalNorm // every norm has the same kind
		for half := range tr.x {
			if sp.Block.NormPlace != PostNorm {
				tr.pre[half] = t.normTrace(a, kind, rows)
			}
			if sp.Block.NormPlace != PreNorm {
				tr.aft[half] = t.normTrace(a, kind, rows)
			}
		}
	}
	return list
}

// passTrace shares the memory of the state with the first block's input where nothing stands between them.
func (t *tape[F]) passTrace(a *arena[F], rows int) passTrace[F] {
	sp := t.sp
	p := passTrace[F]{blocks: t.blockTraces(a, len(t.b.core), rows)}
	if t.bare() {
		p.h = p.blocks[0].x[0]
	} else {
		p.h = a.floats(rows * sp.Dim)
	}
	p.a = p.h
	if sp.LoopNorm == LoopNormBetween {
		p.a, p.between = a.floats(rows*sp.Dim), t.normTrace(a, t.b.finalNorm, rows)
	}
	if sp.LoopNorm == LoopNormOwn {
		p.own, p.ownNorm = a.floats(rows*sp.Dim), t.normTrace(a, t.b.loopNorm, rows)
	}
	return p
}

// bare says that a pass is its blocks and nothing before them.
func (t *tape[F]) bare() bool {
	return t.sp.Injection == InjectNone && t.sp.LoopNorm != LoopNormBetween && t.sp.Core > 0
}

// setAngles computes the table of rotations. Frequency divisors are weights, so with them the table is made anew in each call.
func (t *tape[F]) setAngles(o *nn.Ops[F]) {
	rot := t.b.heads.Rot
	half := rot / 2
	var factors []F
	if t.b.factors.N > 0 && t.w.Flat != nil {
		factors = t.w.Flat[t.b.factors.Off : t.b.factors.Off+half]
	}
	for j := range half {
		freq := math.Pow(float64(t.sp.Block.RopeTheta), -2*float64(j)/float64(rot))
		if factors != nil {
			freq /= float64(factors[j])
		}
		for p := range t.sh.T {
			sin, cos := math.Sincos(float64(p) * freq)
			t.sight.Cos[p*half+j], t.sight.Sin[p*half+j], t.sight.MinusSine[p*half+j] = F(cos), F(sin), F(-sin)
		}
	}
}

// run is one micro-batch, forward and, with grads, backward.
func (t *tape[F]) run(p *packing[F], flat, grads []F, pass *Pass) Result {
	t.begin(p, flat, grads, pass)
	t.enter()
	last := t.forward()
	if grads == nil {
		t.readAt(pass.Loops, last, nil)
	} else {
		t.backward(last)
	}
	t.w.Flat, t.w.Grad, t.w.Pack, t.pass = nil, nil, nil, nil
	return t.res
}

func (t *tape[F]) begin(p *packing[F], flat, grads []F, pass *Pass) {
	t.check(flat, grads, pass)
	t.w.Flat, t.w.Grad, t.w.Pack = flat, grads, p.data
	t.pass, t.rows = pass, pass.Rows*pass.T
	t.sight.Rows, t.sight.T, t.sight.Start = pass.Rows, pass.T, pass.Start
	if t.b.factors.N > 0 {
		t.setAngles(t.w.Ops)
	}
	carry := pass.GradLoops
	if carry == 0 || carry > t.sh.GradLoops {
		carry = t.sh.GradLoops
	}
	t.first = max(0, pass.Loops-carry)
	if grads == nil {
		t.first = pass.Loops
	}
	t.res = Result{ExtraLoss: t.extra[:len(pass.Extra)], HiddenRMS: t.rms[:0]}
	clear(t.res.ExtraLoss)
	t.read.begin(t)
}

// check holds the caller to the contract of Pass, under the build tag only.
func (t *tape[F]) check(flat, grads []F, p *Pass) {
	if !invariants.Enabled {
		return
	}
	n := p.Rows * p.T
	invariants.Check(len(flat) == t.b.size && (grads == nil || len(grads) == t.b.size), "parameters of the model's size")
	invariants.Check(p.T >= 1 && p.T <= t.sh.T && p.Rows >= 1 && p.Rows <= t.sh.Rows, "micro-batch within the tape's shape")
	invariants.Check(len(p.Input) == n && len(p.Target) == n && (p.Start == nil || len(p.Start) == n), "one input, target and start a position")
	invariants.Check(p.Loops >= 1 && p.Loops <= t.sh.MaxLoops, "loops within the tape's shape")
	for _, id := range p.Input {
		invariants.Check(id >= 0 && int(id) < t.sp.Vocab, "token within the vocabulary")
	}
	for _, id := range p.Target {
		invariants.Check(int(id) < t.sp.Vocab, "target within the vocabulary")
	}
	for i, s := range p.Start {
		invariants.Check(s >= 0 && int(s) <= i%p.T, "start at or before the position")
	}
	for i, x := range p.Extra {
		invariants.Check(x.Loops >= 1 && x.Loops < p.Loops && (i == 0 || p.Extra[i-1].Loops < x.Loops), "extra readouts ascending and before the last loop")
	}
}

// cut is the part of an array that the running pass uses.
func (t *tape[F]) cut(x []F) []F { return x[:t.rows*t.sp.Dim] }
