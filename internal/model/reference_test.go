package model

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"tinyloop/internal/kernel"
	"tinyloop/internal/nn"
)

// This file is the definition of the forward pass again, written straight down in float64: the whole sequence at once, no cache, no batches, no
// workers. It reads the Spec's comments, not the program.

type vec = []float64

type reference struct {
	m             *Model
	window, sinks int
}

func mul(w *kernel.Matrix, bias []float32, x vec) vec {
	y, row := make(vec, w.N), make([]float32, w.K)
	for n := range y {
		w.Row(row, n)
		for k, v := range row {
			y[n] += float64(v) * x[k]
		}
		if bias != nil {
			y[n] += float64(bias[n])
		}
	}
	return y
}

func (r *reference) norm(n *nn.Norm, x vec) vec {
	b := &r.m.Spec.Block
	mean, sq := 0.0, 0.0
	if b.Norm == LayerNorm {
		for _, v := range x {
			mean += v / float64(len(x))
		}
	}
	for _, v := range x {
		sq += (v - mean) * (v - mean) / float64(len(x))
	}
	y := make(vec, len(x))
	for i, v := range x {
		y[i] = (v - mean) / math.Sqrt(sq+float64(b.Eps)) * float64(n.Gain[i])
		if b.Norm == LayerNorm {
			y[i] += float64(n.Bias[i])
		}
	}
	return y
}

// heads shapes the queries or keys of one position: norm, bias, rotation.
func (r *reference) heads(x vec, gain, bias []float32, pos int) {
	b := &r.m.Spec.Block
	for o := 0; o < len(x); o += b.HeadDim {
		h := x[o : o+b.HeadDim]
		if b.QKNorm {
			sq := 0.0
			for _, v := range h {
				sq += v * v / float64(len(h))
			}
			for i := range h {
				h[i] = h[i] / math.Sqrt(sq+float64(b.Eps)) * float64(gain[i])
			}
		}
		for i := range h {
			if b.QKBias {
				h[i] += float64(bias[o+i])
			}
		}
		rot := b.RopeDim
		if rot == 0 {
			rot = b.HeadDim
		}
		for j := range rot / 2 {
			i, k := j, j+rot/2
			switch b.Pos {
			case RopeInterleaved:
				i, k = 2*j, 2*j+1
			case Learned, NoPos:
				continue
			}
			a := float64(pos) * math.Pow(float64(b.RopeTheta), -2*float64(j)/float64(rot))
			if b.RopeFactors {
				a /= float64(r.m.W.RopeFactors[j])
			}
			h[i], h[k] = h[i]*math.Cos(a)-h[k]*math.Sin(a), h[i]*math.Sin(a)+h[k]*math.Cos(a)
		}
	}
}

func (r *reference) sees(i, j int) bool {
	if w := r.m.Spec.Block.Window; w > 0 {
		if r.window > 0 {
			w = min(w, r.window)
		}
		return j > i-w
	}
	return r.window == 0 || j < r.sinks || j > i-r.window
}

func (r *reference) attention(a *nn.Attention, xs []vec) []vec {
	b := &r.m.Spec.Block
	var qs, ks, vs, out []vec
	for pos, x := range xs {
		q, k, v := mul(a.Q.W, a.Q.Bias, x), mul(a.K.W, a.K.Bias, x), mul(a.V.W, a.V.Bias, x)
		r.heads(q, a.QGain, a.QHeadBias, pos)
		r.heads(k, a.KGain, a.KHeadBias, pos)
		qs, ks, vs = append(qs, q), append(ks, k), append(vs, v)
	}
	scale := float64(b.AttnScale)
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(b.HeadDim))
	}
	for i := range xs {
		o := make(vec, b.Heads*b.HeadDim)
		for h := range b.Heads {
			kv := h / (b.Heads / b.KVHeads) * b.HeadDim
			q := qs[i][h*b.HeadDim : (h+1)*b.HeadDim]
			sum := 0.0
			for j := range i + 1 {
				if !r.sees(i, j) {
					continue
				}
				dot := 0.0
				for d, v := range q {
					dot += v * ks[j][kv+d]
				}
				dot *= scale
				if c := float64(b.AttnSoftcap); c != 0 {
					dot = c * math.Tanh(dot/c)
				}
				p := math.Exp(dot)
				sum += p
				for d := range q {
					o[h*b.HeadDim+d] += p * vs[j][kv+d]
				}
			}
			for d := range q {
				o[h*b.HeadDim+d] /= sum
			}
		}
		out = append(out, mul(a.Out.W, a.Out.Bias, o))
	}
	return out
}

func (r *reference) mlp(m *nn.MLP, x vec) vec {
	up := mul(m.Up.W, m.Up.Bias, x)
	var gate vec
	if r.m.Spec.Block.MLP.Gated() {
		gate = mul(m.Gate.W, m.Gate.Bias, x)
	}
	for i, u := range up {
		switch r.m.Spec.Block.MLP {
		case SwiGLU:
			up[i] = gate[i] / (1 + math.Exp(-gate[i])) * u
		case GELU:
			up[i] = 0.5 * u * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(u+0.044715*u*u*u)))
		case GeGLU:
			g := gate[i]
			up[i] = 0.5 * g * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(g+0.044715*g*g*g))) * u
		case ReLU2:
			up[i] = max(0, u) * max(0, u)
		}
	}
	return mul(m.Down.W, m.Down.Bias, up)
}

// branch is one half of a block, by the place of its norms.
func (r *reference) branch(xs []vec, n1, n2 *nn.Norm, f func([]vec) []vec) []vec {
	b := &r.m.Spec.Block
	in := make([]vec, len(xs))
	for i, x := range xs {
		in[i] = x
		if b.NormPlace != PostNorm {
			in[i] = r.norm(n1, x)
		}
	}
	out := make([]vec, len(xs))
	for i, y := range f(in) {
		if b.NormPlace == BranchSandwich {
			y = r.norm(n2, y)
		}
		out[i] = make(vec, len(y))
		for d := range y {
			s := float64(b.ResidualScale)
			if s == 0 {
				s = 1
			}
			out[i][d] = xs[i][d] + s*y[d]
		}
		if b.NormPlace == ResidualSandwich || b.NormPlace == PostNorm {
			out[i] = r.norm(n2, out[i])
		}
	}
	return out
}

func (r *reference) block(b *BlockWeights, xs []vec) []vec {
	xs = r.branch(xs, &b.AttnNorm, &b.AttnPost, func(in []vec) []vec { return r.attention(&b.Attn, in) })
	return r.branch(xs, &b.MLPNorm, &b.MLPPost, func(in []vec) []vec {
		out := make([]vec, len(in))
		for i := range in {
			out[i] = r.mlp(&b.MLP, in[i])
		}
		return out
	})
}

func each(xs []vec, f func(i int, x vec) vec) []vec {
	out := make([]vec, len(xs))
	for i, x := range xs {
		out[i] = f(i, x)
	}
	return out
}

func (r *reference) embed(tokens []int32) []vec {
	s, w := &r.m.Spec, r.m.W
	xs := make([]vec, len(tokens))
	row := make([]float32, s.Dim)
	for i, id := range tokens {
		x := make(vec, s.Dim)
		w.Embed.Row(row, int(id))
		for d, v := range row {
			x[d] = float64(v)
			if s.Embed.Scale != 0 {
				x[d] *= float64(s.Embed.Scale)
			}
		}
		if s.Block.Pos == Learned {
			w.Positions.Row(row, i)
			for d, v := range row {
				x[d] += float64(v)
			}
		}
		if s.Embed.NormAfter {
			x = r.norm(&w.EmbedNorm, x)
		}
		xs[i] = x
	}
	return xs
}

func (r *reference) inject(h, e vec) vec {
	s, w := &r.m.Spec, r.m.W
	if s.Injection == InjectConcat {
		return mul(w.Inject, nil, append(append(vec{}, h...), e...))
	}
	out := append(vec{}, h...)
	be := e
	if s.InjectMatrix {
		be = mul(w.Inject, nil, e)
	}
	for d := range out {
		switch s.Injection {
		case InjectAdd:
			out[d] += e[d]
		case InjectScaled:
			out[d] += float64(w.Alpha[d]) * e[d]
		case InjectDiagonal:
			dt := math.Log(1 + math.Exp(float64(w.DtBias[d])))
			out[d] = math.Exp(-dt*math.Exp(float64(w.ALog[d])))*h[d] + dt*be[d]
		}
	}
	return out
}

// logits of every position.
func (r *reference) logits(tokens []int32, depth int) []vec {
	s, w := &r.m.Spec, r.m.W
	xs := r.embed(tokens)
	for i := range w.Prelude {
		xs = r.block(&w.Prelude[i], xs)
	}
	if s.PreludeNorm {
		xs = each(xs, func(_ int, x vec) vec { return r.norm(&w.PreludeNorm, x) })
	}
	e, h := xs, xs
	if s.StateInit == StateZero {
		h = each(xs, func(_ int, x vec) vec { return make(vec, len(x)) })
	}
	for t := range depth {
		if t > 0 && s.LoopNorm == LoopNormBetween {
			h = each(h, func(_ int, x vec) vec { return r.norm(&w.FinalNorm, x) })
		}
		h = each(h, func(i int, x vec) vec { return r.inject(x, e[i]) })
		for i := range w.Core {
			h = r.block(&w.Core[i], h)
		}
		if s.LoopNorm == LoopNormOwn {
			h = each(h, func(_ int, x vec) vec { return r.norm(&w.LoopNorm, x) })
		}
	}
	if s.Readout {
		h = each(h, func(_ int, x vec) vec { return mul(w.Readout, nil, x) })
	}
	switch s.CodaNorm {
	case CodaNormFinal:
		h = each(h, func(_ int, x vec) vec { return r.norm(&w.FinalNorm, x) })
	case CodaNormOwn:
		h = each(h, func(_ int, x vec) vec { return r.norm(&w.CodaNorm, x) })
	}
	for i := range w.Coda {
		h = r.block(&w.Coda[i], h)
	}
	head := w.Head
	if s.TiedHead {
		head = w.Embed
	}
	return each(h, func(_ int, x vec) vec {
		y := mul(head, nil, r.norm(&w.FinalNorm, x))
		for i := range y {
			if s.LogitScale != 0 {
				y[i] *= float64(s.LogitScale)
			}
			if c := float64(s.LogitSoftcap); c != 0 {
				y[i] = c * math.Tanh(y[i]/c)
			}
		}
		return y
	})
}

// farthest gives the largest difference, relative to the largest logit.
func farthest(got [][]float32, want []vec) float64 {
	worst, top := 0.0, 1e-3
	for i := range want {
		for j, v := range want[i] {
			d := math.Abs(float64(got[i][j]) - v)
			if math.IsNaN(d) {
				return math.NaN()
			}
			worst, top = max(worst, d), max(top, math.Abs(v))
		}
	}
	return worst / top
}

// TestReference: every option and combination, decode with cache against recomputation over more than 64 positions.
func TestReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		seed := rapid.Uint64().Draw(t, "seed")
		rng := rand.New(rand.NewPCG(seed, 2))
		m := randomWeights(t, s, kernel.F32, seed)
		defer m.Close()
		depth := rapid.IntRange(1, 4).Draw(t, "depth")
		n := 70
		if rapid.IntRange(0, 3).Draw(t, "short") > 0 {
			n = 20 // most cases short, so that the suite stays fast
		}
		var next int32
		q := newSeq(s, drawTokens(rng, s.Vocab, n), depth, &next, rng)
		if rapid.Bool().Draw(t, "cache_window") {
			q.window, q.sinks = rapid.IntRange(1, 40).Draw(t, "row_window"), rapid.IntRange(0, 8).Draw(t, "sinks")
		}
		sc := scratch(t, m, Options{Threads: 1, Pages: int(next), MaxRows: 96})
		defer sc.Close()
		got := q.alone(sc)
		ref := reference{m: m, window: q.window, sinks: q.sinks}
		if d := farthest(got, ref.logits(q.tokens, depth)); !(d < 1e-4) {
			t.Fatalf("differs from the reference by %.3g of the largest logit", d)
		}
		if i, j, ok := sameBits(got, q.whole(sc)); !ok {
			t.Fatalf("one by one and all at once differ at row %d, logit %d", i, j)
		}
	})
}
