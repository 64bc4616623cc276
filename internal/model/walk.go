package model

import (
	"math"

	"tinyloop/internal/nn"
)

// This file is the walk of a tape through the program: forward, and the same steps in reverse.

// enter computes e and the first state from the tokens.
func (t *tape[F]) enter() {
	end := t.e
	if t.sp.PreludeNorm {
		end = t.prelude0
	}
	x := entry(t.prelude, end)
	if t.sp.Embed.NormAfter {
		t.embed(t.embedded)
		t.w.Norm(&t.b.embedNorm, &t.embedNorm, x, t.embedded, t.rows)
	} else {
		t.embed(x)
	}
	t.blocks(t.b.prelude, t.prelude, end, &t.sight)
	if t.sp.PreludeNorm {
		t.w.Norm(&t.b.preludeNorm, &t.preNorm, t.e, end, t.rows)
	}
	t.scaleInput()
	if t.sp.StateInit == StateZero {
		clear(t.cut(t.passes[0].h))
		return
	}
	copy(t.cut(t.passes[0].h), t.e)
}

// entry gives where the input of a chain of blocks goes.
func entry[F nn.Float](list []blockTrace[F], end []F) []F {
	if len(list) == 0 {
		return end
	}
	return list[0].x[0]
}

func (t *tape[F]) embed(dst []F) {
	d, s := t.sp.Dim, F(t.sp.Embed.Scale)
	if s == 0 {
		s = 1
	}
	for i, id := range t.pass.Input {
		row := dst[i*d : (i+1)*d]
		t.w.Scale(row, t.w.Row(t.b.embed, int(id)), s)
		if t.b.positions.N > 0 {
			t.w.Add(row, row, t.w.Row(t.b.positions, t.sight.Place(i)))
		}
	}
}

func (t *tape[F]) embedBack(dx []F) {
	d, s := t.sp.Dim, F(t.sp.Embed.Scale)
	if s == 0 {
		s = 1
	}
	for i, id := range t.pass.Input {
		row := dx[i*d : (i+1)*d]
		t.w.AddScaled(t.w.GradRow(t.b.embed, int(id)), row, s)
		if t.b.positions.N > 0 {
			p := t.w.GradRow(t.b.positions, t.sight.Place(i))
			t.w.Add(p, p, row)
		}
	}
}

// scaleInput computes es, what the diagonal and the scaled injection add in every pass.
func (t *tape[F]) scaleInput() {
	switch t.sp.Injection {
	case InjectDiagonal:
		t.w.DiagonalStart(&t.b.diagonal, &t.diagonal)
		nn.Channels(t.es, t.cut(t.mixed()), t.diagonal.Dt)
	case InjectScaled:
		nn.Channels(t.es, t.cut(t.e), t.w.Val(t.b.alpha))
	}
}

// mixed gives B e.
func (t *tape[F]) mixed() []F {
	if !t.sp.InjectMatrix {
		return t.e
	}
	d := t.sp.Dim
	t.w.Mul(t.b.inject, t.be, d, t.e, d, t.rows, false)
	return t.be
}

// scaleInputBack turns des into its part of de and the gradients of the constants.
func (t *tape[F]) scaleInputBack() {
	if t.des == nil {
		return
	}
	d, des, de := t.sp.Dim, t.cut(t.des), t.cut(t.de)
	switch {
	case t.sp.Injection == InjectScaled:
		t.w.ChannelsGrad(t.w.GradOf(t.b.alpha), des, t.e)
		t.w.ChannelsAdd(de, des, t.w.Val(t.b.alpha), de)
	case t.sp.InjectMatrix:
		t.w.ChannelsGrad(t.diagonal.DDt, des, t.be)
		nn.Channels(des, des, t.diagonal.Dt)
		t.w.MatGrad(t.b.inject, des, d, t.e, d, t.rows)
		t.w.MulBack(t.b.inject, de, d, des, d, t.rows, true)
		t.w.DiagonalGrad(&t.b.diagonal, &t.diagonal)
	default:
		t.w.ChannelsGrad(t.diagonal.DDt, des, t.e)
		t.w.ChannelsAdd(de, des, t.diagonal.Dt, de)
		t.w.DiagonalGrad(&t.b.diagonal, &t.diagonal)
	}
}

// forward runs all passes and gives the last state. Passes without gradient share the memory of the first one with.
func (t *tape[F]) forward() []F {
	for l := range t.pass.Loops {
		i := l - t.first
		out := t.out
		if i >= 0 && i+1 < t.pass.Loops-t.first {
			out = t.passes[i+1].h
		}
		t.turn(&t.passes[max(i, 0)], l, out)
		t.res.HiddenRMS = append(t.res.HiddenRMS, math.Sqrt(t.w.SumSquares(t.cut(out))/float64(t.rows*t.sp.Dim)))
		if i >= 0 || l+1 == t.pass.Loops {
			continue
		}
		copy(t.cut(t.passes[0].h), out)
		t.readAt(l+1, out, nil)
	}
	return t.out
}

// turn is pass l.
func (t *tape[F]) turn(p *passTrace[F], l int, out []F) {
	if t.sp.LoopNorm == LoopNormBetween {
		if l > 0 {
			t.w.Norm(&t.b.finalNorm, &p.between, p.a, p.h, t.rows)
		} else {
			copy(t.cut(p.a), p.h)
		}
	}
	end := out
	if t.sp.LoopNorm == LoopNormOwn {
		end = p.own
	}
	t.inject(entry(p.blocks, end), p.a)
	t.blocks(t.b.core, p.blocks, end, &t.sight)
	if t.sp.LoopNorm == LoopNormOwn {
		t.w.Norm(&t.b.loopNorm, &p.ownNorm, out, end, t.rows)
	}
}

func (t *tape[F]) inject(dst, h []F) {
	d := t.sp.Dim
	dst, h = t.cut(dst), t.cut(h)
	switch t.sp.Injection {
	case InjectNone:
		if !t.bare() {
			copy(dst, h)
		}
	case InjectAdd:
		t.w.Add(dst, h, t.e)
	case InjectScaled:
		t.w.Add(dst, h, t.es)
	case InjectDiagonal:
		t.w.ChannelsAdd(dst, h, t.diagonal.Decay, t.es)
	case InjectConcat:
		nn.Join(t.joined, h, t.e, d, t.rows)
		t.w.Mul(t.b.inject, dst, d, t.joined, 2*d, t.rows, false)
	}
}

// injectBack turns dx, the gradient of the injected state, into that of the state h, and adds to the gradients of e or es.
func (t *tape[F]) injectBack(dx, h []F) {
	d := t.sp.Dim
	dx, h = t.cut(dx), t.cut(h)
	switch t.sp.Injection {
	case InjectAdd:
		t.w.Add(t.cut(t.de), t.de, dx)
	case InjectScaled:
		t.w.Add(t.cut(t.des), t.des, dx)
	case InjectDiagonal:
		t.w.Add(t.cut(t.des), t.des, dx)
		t.w.ChannelsGrad(t.diagonal.DDecay, dx, h)
		nn.Channels(dx, dx, t.diagonal.Decay)
	case InjectConcat:
		nn.Join(t.joined, h, t.e, d, t.rows)
		t.w.MatGrad(t.b.inject, dx, d, t.joined, 2*d, t.rows)
		t.w.MulBack(t.b.inject, t.joined, 2*d, dx, d, t.rows, false)
		for r := range t.rows {
			row, de := t.joined[2*r*d:2*(r+1)*d], t.de[r*d:(r+1)*d]
			copy(dx[r*d:], row[:d])
			t.w.Add(de, de, row[d:])
		}
	}
}

// backward walks in reverse from the last state. State l is the input of pass l.
func (t *tape[F]) backward(last []F) {
	dx := t.cut(t.dx)
	clear(dx)
	clear(t.cut(t.de))
	clear(t.des)
	clear(t.diagonal.DDecay)
	clear(t.diagonal.DDt)
	t.readAt(t.pass.Loops, last, dx)
	for l := t.pass.Loops - 1; l >= t.first; l-- {
		p := &t.passes[l-t.first]
		t.turnBack(p, l, dx)
		if l > t.first {
			t.readAt(l, p.h, dx)
		}
	}
	t.leaveBack(dx)
}

// turnBack turns dx, the gradient of the state after pass l, into that of the state before.
func (t *tape[F]) turnBack(p *passTrace[F], l int, dx []F) {
	if t.sp.LoopNorm == LoopNormOwn {
		t.w.NormBack(&t.b.loopNorm, &p.ownNorm, dx, dx, p.own, t.rows, false)
	}
	t.blocksBack(t.b.core, p.blocks, dx, &t.sight)
	t.injectBack(dx, p.a)
	if t.sp.LoopNorm == LoopNormBetween && l > 0 {
		t.w.NormBack(&t.b.finalNorm, &p.between, dx, dx, p.h, t.rows, false)
	}
}

// leaveBack goes from the gradient of the first state with gradient back to the embedding. If passes without gradient came before, that state is a
// constant and only the injections lead to e.
func (t *tape[F]) leaveBack(dx []F) {
	t.scaleInputBack()
	de := t.cut(t.de)
	if t.first == 0 && t.sp.StateInit == StateInput {
		t.w.Add(de, de, dx)
	}
	if t.first > 0 && t.sp.Injection == InjectNone {
		return
	}
	if t.sp.PreludeNorm {
		t.w.NormBack(&t.b.preludeNorm, &t.preNorm, de, de, t.prelude0, t.rows, false)
	}
	t.blocksBack(t.b.prelude, t.prelude, de, &t.sight)
	if t.sp.Embed.NormAfter {
		t.w.NormBack(&t.b.embedNorm, &t.embedNorm, de, de, t.embedded, t.rows, false)
	}
	t.embedBack(de)
}

// blocks runs a chain whose input lies in its entry; the result goes to end.
func (t *tape[F]) blocks(list []blockAt, traces []blockTrace[F], end []F, at *nn.Sight[F]) {
	for i := range list {
		t.half(&list[i], &traces[i], 0, traces[i].x[1], at)
		t.half(&list[i], &traces[i], 1, entry(traces[i+1:], end), at)
	}
}

// blocksBack turns dx, the gradient of a chain's result, into that of its input.
func (t *tape[F]) blocksBack(list []blockAt, traces []blockTrace[F], dx []F, at *nn.Sight[F]) {
	for i := len(list) - 1; i >= 0; i-- {
		t.halfBack(&list[i], &traces[i], 1, dx, at)
		t.halfBack(&list[i], &traces[i], 0, dx, at)
	}
}

func (t *tape[F]) residualScale() F {
	if s := t.sp.Block.ResidualScale; s != 0 {
		return F(s)
	}
	return 1
}

// half is attention (0) or MLP (1) with its norms and the residual stream; see NormPlace.
func (t *tape[F]) half(b *blockAt, tr *blockTrace[F], half int, out []F, at *nn.Sight[F]) {
	rows, x, y := at.Rows*at.T, tr.x[half], t.y
	in := t.branchInput(b, tr, half, rows)
	if t.sp.Block.NormPlace == BranchSandwich {
		y = tr.post[half]
	}
	if half == 0 {
		t.w.Attention(&b.attn, &t.b.heads, &tr.attn, &t.attn, at, y, in)
	} else {
		t.w.MLP(&b.mlp, &tr.mlp, &t.mlp, y, in, rows)
	}
	switch t.sp.Block.NormPlace {
	case PreNorm:
		t.addScaled(out, x, y, rows)
	case BranchSandwich:
		t.w.Norm(&b.post[half], &tr.aft[half], t.y, y, rows)
		t.addScaled(out, x, t.y, rows)
	default:
		t.addScaled(tr.post[half], x, y, rows)
		t.w.Norm(&b.post[half], &tr.aft[half], out, tr.post[half], rows)
	}
}

// branchInput gives the input of a half's layer. Backward makes it anew, which is cheaper than keeping it.
func (t *tape[F]) branchInput(b *blockAt, tr *blockTrace[F], half, rows int) []F {
	if t.sp.Block.NormPlace == PostNorm {
		return tr.x[half]
	}
	t.w.Norm(&b.pre[half], &tr.pre[half], t.n, tr.x[half], rows)
	return t.n
}

// addScaled is out = x + ResidualScale*y.
func (t *tape[F]) addScaled(out, x, y []F, rows int) {
	n, s := rows*t.sp.Dim, t.residualScale()
	if s == 1 {
		t.w.Add(out[:n], x, y)
		return
	}
	copy(out[:n], x)
	t.w.AddScaled(out[:n], y, s)
}

// halfBack turns dx, the gradient of a half's result, into that of its input.
func (t *tape[F]) halfBack(b *blockAt, tr *blockTrace[F], half int, dx []F, at *nn.Sight[F]) {
	rows, place, s := at.Rows*at.T, t.sp.Block.NormPlace, t.residualScale()
	n := rows * t.sp.Dim
	if place == ResidualSandwich || place == PostNorm {
		t.w.NormBack(&b.post[half], &tr.aft[half], dx, dx, tr.post[half], rows, false)
	}
	dy := dx // of the branch
	if s != 1 || place == BranchSandwich {
		dy = t.dy
		t.w.Scale(dy[:n], dx, s)
	}
	if place == BranchSandwich {
		t.w.NormBack(&b.post[half], &tr.aft[half], dy, dy, tr.post[half], rows, false)
	}
	in := t.branchInput(b, tr, half, rows)
	if half == 0 {
		t.w.AttentionBack(&b.attn, &t.b.heads, &tr.attn, &t.attn, at, t.dn, dy, in)
	} else {
		t.w.MLPBack(&b.mlp, &tr.mlp, &t.mlp, t.dn, dy, in, rows)
	}
	if place == PostNorm {
		t.w.Add(dx[:n], dx, t.dn)
		return
	}
	t.w.NormBack(&b.pre[half], &tr.pre[half], dx, t.dn, tr.x[half], rows, true)
}
