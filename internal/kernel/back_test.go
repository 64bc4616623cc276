package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// central is the slope of f at x[i], by central differences.
func central(x []float32, i int, step float64, f func() float64) float64 {
	keep := x[i]
	x[i] = float32(float64(keep) + step)
	hi, a := f(), float64(x[i])
	x[i] = float32(float64(keep) - step)
	lo, b := f(), float64(x[i])
	x[i] = keep
	return (hi - lo) / (a - b)
}

func closeTo(t *testing.T, what string, got float32, want, tol float64) {
	t.Helper()
	if math.Abs(float64(got)-want) > tol*(1+math.Abs(want)) {
		t.Fatalf("%s is %v, want %v", what, got, want)
	}
}

func dot64(x, y []float32) (s float64) {
	for i := range x {
		s += float64(x[i]) * float64(y[i])
	}
	return s
}

// TestActivationGradients compares each gradient with central differences of the forward form.
func TestActivationGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(91, 92))
	const n = 41
	x, up, dy, y := randoms(r, n), randoms(r, n), randoms(r, n), make([]float32, n)
	for i := range x {
		x[i] *= 2
	}
	dx, dup := make([]float32, n), make([]float32, n)
	for name, f := range map[string]struct{ forward, back func() }{
		"relu2": {func() { ReLU2(y, x) }, func() { ReLU2Back(dx, dy, x) }},
		"gelu":  {func() { GELU(y, x) }, func() { GELUBack(dx, dy, x) }},
		"gate":  {func() { SwiGLU(y, x, up) }, func() { SwiGLUBack(dx, dup, dy, x, up) }},
		"up":    {func() { SwiGLU(y, up, x) }, func() { SwiGLUBack(dup, dx, dy, up, x) }},
	} {
		f.back()
		for i := range x {
			want := central(x, i, 4e-3, func() float64 { f.forward(); return dot64(y, dy) })
			closeTo(t, fmt.Sprint(name, " at ", x[i]), dx[i], want, 2e-3)
		}
	}
}

func TestRMSNormGradient(t *testing.T) {
	r := rand.New(rand.NewPCG(93, 94))
	for _, n := range []int{5, 32, 96, 70} {
		const rows, eps = 3, 1e-5
		ld := n + 3
		x, dy, gain, y := randoms(r, rows*ld), randoms(r, rows*ld), randoms(r, n), make([]float32, rows*ld)
		inv, dx, dgain := make([]float32, rows), make([]float32, rows*ld), make([]float32, n)
		RMSNormRows(y, ld, x, ld, gain, n, rows, eps, inv)
		plain := make([]float32, n)
		for row := range rows {
			RMSNorm(plain, x[row*ld:row*ld+n], gain, eps)
			same(t, "a row of RMSNormRows", y[row*ld:row*ld+n], plain)
		}
		base := randoms(r, rows*ld)
		copy(dx, base)
		RMSNormBackRows(dx, ld, dgain, dy, ld, x, ld, gain, inv, n, rows, true)
		loss := func() (s float64) {
			RMSNormRows(y, ld, x, ld, gain, n, rows, eps, inv)
			for row := range rows {
				s += dot64(y[row*ld:row*ld+n], dy[row*ld:row*ld+n])
			}
			return s
		}
		for i := range x {
			if i%ld < n {
				closeTo(t, "dx", dx[i]-base[i], central(x, i, 1e-2, loss), 3e-3)
			} else if dx[i] != base[i] {
				t.Fatal("dx is written between its rows")
			}
		}
		for i := range gain {
			closeTo(t, "dgain", dgain[i], central(gain, i, 1e-1, loss), 1e-3)
		}
		kept := append([]float32{}, dx...)
		loss() // inv again
		RMSNormBackRows(dy, ld, make([]float32, n), dy, ld, x, ld, gain, inv, n, rows, false)
		for i := range kept {
			if i%ld < n && math.Abs(float64(kept[i]-base[i]-dy[i])) > 1e-5 {
				t.Fatalf("written in place of dy: %v, added: %v", dy[i], kept[i]-base[i])
			}
		}
	}
}

func TestSoftcapGradient(t *testing.T) {
	r := rand.New(rand.NewPCG(95, 96))
	x, dy := randoms(r, 37), randoms(r, 37)
	for i := range x {
		x[i] *= 20
	}
	y, dx := make([]float32, len(x)), append([]float32{}, dy...)
	forward := func() float64 { copy(y, x); Softcap(y, 15); return dot64(y, dy) }
	forward()
	for i, v := range x {
		closeTo(t, "softcap", y[i], 15*math.Tanh(float64(v)/15), 1e-5)
	}
	SoftcapBack(dx, y, 15)
	for i := range x {
		closeTo(t, "slope of softcap", dx[i], central(x, i, 1e-2, forward), 2e-3)
	}
}

func TestCrossEntropy(t *testing.T) {
	r := rand.New(rand.NewPCG(97, 98))
	for _, n := range []int{1, 7, 16, 48, 100} {
		x := randoms(r, n)
		for i := range x {
			x[i] *= 4
		}
		target, zloss, scale := r.IntN(n), float32(1e-2), float32(0.25)
		var sum, top float64
		for _, v := range x {
			sum += math.Exp(float64(v))
			top = max(top, float64(v))
		}
		lse := math.Log(sum)
		g := append([]float32{}, x...)
		nll, gotLse, _ := CrossEntropy(g, target, zloss, scale)
		closeTo(t, "nll", float32(nll), lse-float64(x[target]), 1e-5)
		closeTo(t, "lse", float32(gotLse), lse, 1e-5)
		for i, v := range x {
			want := math.Exp(float64(v)-lse) * (1 + 2*float64(zloss)*lse)
			if i == target {
				want--
			}
			closeTo(t, "gradient", g[i], want*float64(scale), 1e-5)
		}
		best := ArgMax(x)
		if _, _, hit := CrossEntropy(append([]float32{}, x...), best, 0, 1); !hit {
			t.Error("the largest logit is not a hit")
		}
		if n > 1 {
			if _, _, hit := CrossEntropy(append([]float32{}, x...), (best+1)%n, 0, 1); hit {
				t.Error("a smaller logit is a hit")
			}
		}
	}
}

// TestAdamW follows the published update in double precision.
func TestAdamW(t *testing.T) {
	r := rand.New(rand.NewPCG(99, 100))
	for _, cautious := range []bool{false, true} {
		const n = 29
		w, m, v := randoms(r, n), make([]float32, n), make([]float32, n)
		w64, m64, v64 := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range w {
			w64[i] = float64(w[i])
		}
		for step := 1; step <= 20; step++ {
			s := AdamWStep{Rate: 0.01, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1, Cautious: cautious, GradScale: 0.5, Step: step}
			g := randoms(r, n)
			AdamW(w, g, m, v, &s)
			for i := range w64 {
				d := 0.5 * float64(g[i])
				m64[i] = 0.9*m64[i] + 0.1*d
				v64[i] = 0.95*v64[i] + 0.05*d*d
				u := m64[i] / (1 - math.Pow(0.9, float64(step))) / (math.Sqrt(v64[i]/(1-math.Pow(0.95, float64(step)))) + 1e-8)
				if !cautious || u*w64[i] > 0 {
					w64[i] -= 0.01 * 0.1 * w64[i]
				}
				w64[i] -= 0.01 * u
				closeTo(t, fmt.Sprint("weight at step ", step), w[i], w64[i], 1e-5)
			}
		}
	}
}

func TestSums(t *testing.T) {
	r := rand.New(rand.NewPCG(101, 102))
	for _, n := range []int{0, 1, 31, 32, 33, 5000, 9000} {
		x, y := randoms(r, n), randoms(r, n)
		closeTo(t, "dot", Dot(x, y), dot64(x, y), 1e-4)
		if got, want := SumSquares(x), dot64(x, x); math.Abs(got-want) > 1e-5*(1+want) {
			t.Fatalf("squares of %d: %v, want %v", n, got, want)
		}
		z := append([]float32{}, y...)
		AddScaled(z, x, 0.5)
		AddProduct(z, x, y)
		Lerp(z, x, 0.25)
		for i := range z {
			w := float64(y[i]) + 0.5*float64(x[i]) + float64(x[i])*float64(y[i])
			closeTo(t, "elements", z[i], w+0.25*(float64(x[i])-w), 1e-5)
		}
	}
}

// attend64 is causal attention in double precision.
func attend64(h *CausalHead, q, k, v Rows) (o [][]float64, lse []float64) {
	for t := range h.T {
		row, p, sum := make([]float64, h.Dim), make([]float64, t+1), 0.0
		for j := h.first(t); j <= t; j++ {
			s := float64(h.Scale) * dot64(q.row(t, h.Dim), k.row(j, h.Dim))
			if h.Softcap > 0 {
				s = float64(h.Softcap) * math.Tanh(s/float64(h.Softcap))
			}
			p[j] = math.Exp(s)
			sum += p[j]
		}
		for j := h.first(t); j <= t; j++ {
			for i, x := range v.row(j, h.Dim) {
				row[i] += p[j] / sum * float64(x)
			}
		}
		o, lse = append(o, row), append(lse, math.Log(sum))
	}
	return o, lse
}

// attendCases reach one and several blocks, cut panels, documents, windows and the cap.
func attendCases() map[string]*CausalHead {
	starts := func(n int, at ...int32) []int32 {
		s := make([]int32, n)
		for i := range s {
			for _, a := range at {
				if int(a) <= i {
					s[i] = a
				}
			}
		}
		return s
	}
	return map[string]*CausalHead{
		"one":       {T: 1, Dim: 4, Scale: 1},
		"narrow":    {T: 19, Dim: 8, Scale: 0.35},
		"blocks":    {T: 61, Dim: 16, Scale: 0.25},
		"wide":      {T: 50, Dim: 40, Scale: 0.16},
		"cap":       {T: 30, Dim: 16, Scale: 2, Softcap: 3},
		"documents": {T: 70, Dim: 16, Scale: 0.25, Start: starts(70, 3, 20, 21, 55)},
		"long":      {T: 340, Dim: 16, Scale: 0.25, Start: starts(340, 3)},
		"window":    {T: 64, Dim: 16, Scale: 0.25, Window: 9, Start: starts(64, 30)},
	}
}

func randomRows(r *rand.Rand, n, dim int) Rows { return Rows{randoms(r, n*(dim+5)), dim + 5} }

func TestCausalHead(t *testing.T) {
	r := rand.New(rand.NewPCG(103, 104))
	for name, h := range attendCases() {
		q, k, v, do := randomRows(r, h.T, h.Dim), randomRows(r, h.T, h.Dim), randomRows(r, h.T, h.Dim), randomRows(r, h.T, h.Dim)
		o, dq := randomRows(r, h.T, h.Dim), randomRows(r, h.T, h.Dim)
		dk, dv := Rows{make([]float32, len(k.X)), k.Ld}, Rows{make([]float32, len(v.X)), v.Ld}
		lse, tmp := make([]float32, h.T), make([]float32, h.Scratch())
		h.Forward(o, lse, q, k, v, tmp)
		want, wantLse := attend64(h, q, k, v)
		for p := range h.T {
			closeTo(t, name+": lse", lse[p], wantLse[p], 1e-5)
			for i, x := range o.row(p, h.Dim) {
				closeTo(t, name+": output", x, want[p][i], 1e-5)
			}
		}
		h.Backward(dq, dk, dv, do, o, lse, q, k, v, tmp)
		loss := func() (s float64) {
			o, _ := attend64(h, q, k, v)
			for p := range h.T {
				for i, x := range do.row(p, h.Dim) {
					s += o[p][i] * float64(x)
				}
			}
			return s
		}
		for _, g := range []struct {
			name    string
			x, grad Rows
		}{{"dq", q, dq}, {"dk", k, dk}, {"dv", v, dv}} {
			for range min(40, 3000/h.T) {
				p, i := r.IntN(h.T), r.IntN(h.Dim)
				closeTo(t, fmt.Sprintf("%s: %s[%d][%d]", name, g.name, p, i), g.grad.row(p, h.Dim)[i], central(g.x.X, p*g.x.Ld+i, 1e-3, loss), 1e-4)
			}
		}
		for i, x := range dk.X {
			if i%dk.Ld >= h.Dim && x != 0 {
				t.Fatalf("%s: dk is written between its rows", name)
			}
		}
	}
}

func TestLog32(t *testing.T) {
	for bits := uint32(1); bits < 0x7f800000; bits += 4999 {
		x := math.Float32frombits(bits)
		if got, want := float64(log32(x)), math.Log(float64(x)); math.Abs(got-want) > 1.5e-7*math.Abs(want)+1e-12 {
			t.Fatalf("log of %v is %v, want %v", x, got, want)
		}
	}
	for x := float32(0.5); x < 2; x += 1e-5 {
		if got, want := float64(log32(x)), math.Log(float64(x)); math.Abs(got-want) > 1.5e-7*math.Abs(want)+1e-12 {
			t.Fatalf("log of %v is %v, want %v", x, got, want)
		}
	}
	if log32(1) != 0 || !math.IsInf(float64(log32(0)), -1) || log32(-1) == log32(-1) || !math.IsInf(float64(log32(float32(math.Inf(1)))), 1) {
		t.Error("the ends of the logarithm are wrong")
	}
}
