package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func randoms(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func near(t *testing.T, what string, got float32, want, tol float64) {
	t.Helper()
	if !(math.Abs(float64(got)-want) <= tol*max(1, math.Abs(want))) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// TestExp checks the relative error over the whole range and the edges of the definition.
func TestExp(t *testing.T) {
	var worst float64
	for x := float32(-87); x <= 88; x += 0.000317 {
		want := math.Exp(float64(x))
		worst = max(worst, math.Abs(float64(exp32(x))-want)/want)
	}
	if worst > 1e-7 {
		t.Errorf("relative error up to %v", worst)
	}
	for _, c := range [][2]float32{{0, 1}, {-88, 0}, {89, float32(math.Inf(1))}, {float32(math.Inf(-1)), 0}, {float32(math.Inf(1)), float32(math.Inf(1))}} {
		if exp32(c[0]) != c[1] {
			t.Errorf("exp(%v) = %v, want %v", c[0], exp32(c[0]), c[1])
		}
	}
	if v := exp32(float32(math.NaN())); v == v {
		t.Error("exp(NaN) is a number")
	}
	for x := float32(-20); x < 20; x += 0.01 {
		near(t, fmt.Sprintf("tanh(%v)", x), tanh32(x), math.Tanh(float64(x)), 2e-7)
	}
}

func TestNorms(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 34))
	for _, n := range []int{1, 7, 31, 32, 33, 64, 100, 288, 1024} {
		x, gain, bias := randoms(r, n), randoms(r, n), randoms(r, n)
		var sum, squares float64
		for _, v := range x {
			sum += float64(v)
			squares += float64(v) * float64(v)
		}
		mean := sum / float64(n)
		var dev float64
		for _, v := range x {
			dev += (float64(v) - mean) * (float64(v) - mean)
		}
		rms, std := math.Sqrt(squares/float64(n)+1e-5), math.Sqrt(dev/float64(n)+1e-5)
		y := make([]float32, n)
		RMSNorm(y, x, gain, 1e-5)
		for i := range y {
			near(t, "rms norm", y[i], float64(x[i])/rms*float64(gain[i]), 2e-6)
		}
		RMSNorm(y, x, nil, 1e-5)
		for i := range y {
			near(t, "rms norm without gain", y[i], float64(x[i])/rms, 2e-6)
		}
		LayerNorm(y, x, gain, bias, 1e-5)
		for i := range y {
			near(t, "layer norm", y[i], (float64(x[i])-mean)/std*float64(gain[i])+float64(bias[i]), 5e-6*math.Sqrt(float64(n)))
		}
		inPlace := append([]float32{}, x...)
		RMSNorm(inPlace, inPlace, gain, 1e-5)
		RMSNorm(y, x, gain, 1e-5)
		for i := range y {
			if !sameBits(y[i], inPlace[i]) {
				t.Fatalf("in place differs at %d of %d", i, n)
			}
		}
	}
}

func TestRope(t *testing.T) {
	r := rand.New(rand.NewPCG(35, 36))
	for _, dims := range [][2]int{{8, 8}, {64, 64}, {64, 32}, {48, 48}, {6, 2}} {
		dim, rot := dims[0], dims[1]
		x := randoms(r, dim)
		cos, sin := make([]float32, rot/2), make([]float32, rot/2)
		for j := range cos {
			s, c := math.Sincos(float64(j) * 0.7)
			cos[j], sin[j] = float32(c), float32(s)
		}
		half, inter := append([]float32{}, x...), append([]float32{}, x...)
		RopeHalf(half, dim, rot, cos, sin)
		RopeInterleaved(inter, dim, rot, cos, sin)
		for j := range rot / 2 {
			c, s := float64(cos[j]), float64(sin[j])
			a, b := float64(x[j]), float64(x[j+rot/2])
			near(t, "half, first", half[j], a*c-b*s, 1e-6)
			near(t, "half, second", half[j+rot/2], a*s+b*c, 1e-6)
			a, b = float64(x[2*j]), float64(x[2*j+1])
			near(t, "interleaved, first", inter[2*j], a*c-b*s, 1e-6)
			near(t, "interleaved, second", inter[2*j+1], a*s+b*c, 1e-6)
		}
		for j := rot; j < dim; j++ {
			if half[j] != x[j] || inter[j] != x[j] {
				t.Errorf("value %d beyond the rotated part changed", j)
			}
		}
	}
}

func TestActivations(t *testing.T) {
	r := rand.New(rand.NewPCG(37, 38))
	for _, n := range []int{1, 8, 15, 16, 17, 172, 768} {
		g, u := randoms(r, n), randoms(r, n)
		g[0] = -120
		y := make([]float32, n)
		SwiGLU(y, g, u)
		for i := range y {
			x := float64(g[i])
			near(t, "swiglu", y[i], x/(1+math.Exp(-x))*float64(u[i]), 1e-6)
		}
		GELU(y, g)
		for i := range y {
			x := float64(g[i])
			near(t, "gelu", y[i], x/2*(1+math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))), 1e-6)
		}
		ReLU2(y, g)
		for i := range y {
			near(t, "relu2", y[i], math.Pow(max(0, float64(g[i])), 2), 1e-6)
		}
		Add(y, g, u)
		for i := range y {
			if y[i] != g[i]+u[i] {
				t.Errorf("%v + %v = %v", g[i], u[i], y[i])
			}
		}
		MulAdd(y, g, u, y)
		for i := range y {
			if y[i] != float32(g[i]*u[i])+(g[i]+u[i]) {
				t.Errorf("%v*%v + sum = %v", g[i], u[i], y[i])
			}
		}
	}
}

func TestSoftmaxStats(t *testing.T) {
	r := rand.New(rand.NewPCG(39, 40))
	for _, n := range []int{1, 5, 16, 512, 1001} {
		x := randoms(r, n)
		top, sum := SoftmaxStats(x)
		want, wantTop := 0.0, math.Inf(-1)
		for _, v := range x {
			wantTop = max(wantTop, float64(v))
		}
		for _, v := range x {
			want += math.Exp(float64(v) - wantTop)
		}
		if float64(top) != wantTop || math.Abs(sum-want) > 1e-7*want {
			t.Errorf("%d values: %v and %v, want %v and %v", n, top, sum, wantTop, want)
		}
	}
	inf := float32(math.Inf(-1))
	if top, sum := SoftmaxStats([]float32{inf, 1, inf}); top != 1 || sum != 1 {
		t.Errorf("with masked values: %v and %v", top, sum)
	}
	if _, sum := SoftmaxStats([]float32{1, float32(math.NaN())}); sum == sum {
		t.Error("a NaN was hidden")
	}
}

func TestArgMax(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		x    []float32
		want int
	}{{[]float32{1}, 0}, {[]float32{1, 3, 3, 2}, 1}, {[]float32{nan, -5, nan, -5}, 1}, {[]float32{nan, nan}, 0}, {[]float32{-inf, -inf}, 0}, {[]float32{1, inf, nan, inf}, 1}, {nil, 0},
		{[]float32{float32(math.Copysign(0, -1)), 0}, 0}} {
		if got := ArgMax(c.x); got != c.want {
			t.Errorf("ArgMax(%v) = %d, want %d", c.x, got, c.want)
		}
	}
	r := rand.New(rand.NewPCG(41, 42))
	for range 200 {
		x := randoms(r, 1+r.IntN(100))
		for i := range x {
			x[i] = float32(int(x[i] * 2))
			if r.IntN(10) == 0 {
				x[i] = nan
			}
		}
		want := 0
		for i, v := range x {
			if x[want] != x[want] || v > x[want] {
				want = i
			}
		}
		if x[want] != x[want] {
			want = 0
		}
		if got := ArgMax(x); got != want {
			t.Fatalf("ArgMax(%v) = %d, want %d", x, got, want)
		}
	}
}

func BenchmarkElementwise(b *testing.B) {
	r := rand.New(rand.NewPCG(43, 44))
	x, y, z := randoms(r, 1024), randoms(r, 1024), make([]float32, 1024)
	for _, c := range []struct {
		name string
		f    func()
	}{
		{"RMSNorm", func() { RMSNorm(z, x, y, 1e-5) }},
		{"LayerNorm", func() { LayerNorm(z, x, y, x, 1e-5) }},
		{"SwiGLU", func() { SwiGLU(z, x, y) }},
		{"GELU", func() { GELU(z, x) }},
		{"Add", func() { Add(z, x, y) }},
		{"ArgMax", func() { ArgMax(x) }},
		{"SoftmaxStats", func() { SoftmaxStats(x) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				c.f()
			}
		})
	}
	b.Run("Prepare", func(b *testing.B) {
		m := newMatrix(b, Q8_0, 16, 1024, make([]byte, 16*32*34))
		in := NewInput(1, 1024)
		fillInput(r, in)
		for b.Loop() {
			in.Prepare(m, 0, 1)
		}
	})
}

// TestWeigh: the sum and the weights are those of the definition, with equal bits whatever the kernel.
func TestWeigh(t *testing.T) {
	r := rand.New(rand.NewPCG(45, 46))
	for _, n := range []int{1, 15, 16, 100, 1001} {
		x, got := randoms(r, n), make([]float32, n)
		top := Max(x)
		sum := Weigh(got, x, top, 1.25)
		var lanes [Panel]float64
		for i, v := range x {
			want := Exp(float32(v-top) * 1.25)
			if math.Float32bits(got[i]) != math.Float32bits(want) {
				t.Fatalf("%d values: weight %d is %v, want %v", n, i, got[i], want)
			}
			lanes[i%Panel] += float64(want)
		}
		want := 0.0
		for _, l := range lanes {
			want += l
		}
		if sum != want {
			t.Errorf("%d values: sum %v, want %v", n, sum, want)
		}
	}
}
