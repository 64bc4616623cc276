package optim

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tinyloop/internal/fixture"
	"tinyloop/internal/par"
)

func usual() Options { return Options{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8} }

func start(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.Cos(0.3 * float64(i)))
	}
	return x
}

// gradient is that of testdata/trajectories.py, for the parameters of one tensor.
func gradient(x []float32, step int) []float32 {
	g := make([]float32, len(x))
	for i := range x {
		g[i] = float32(math.Sin(0.7*float64(i)+1.3*float64(step))) + 0.1*x[i]
	}
	return g
}

type trajectory struct {
	Rows, Cols int
	LR, Decay  float64
	Steps      [][]float32
}

func TestTrajectoriesOfPyTorch(t *testing.T) {
	b, err := os.ReadFile("testdata/trajectories.json")
	if err != nil {
		t.Fatal(err)
	}
	var runs map[string][]trajectory
	if err := json.Unmarshal(b, &runs); err != nil {
		t.Fatal(err)
	}
	pool := par.New(1)
	defer pool.Close()
	n := 0
	for kind, list := range runs {
		for _, r := range list {
			tensor := Tensor{Rows: r.Rows, Cols: r.Cols, Muon: kind == "muon", LR: r.LR, Decay: r.Decay}
			x := start(tensor.Len())
			p, err := New(len(x), []Tensor{tensor}, usual(), 1)
			if err != nil {
				t.Fatal(err)
			}
			for step, want := range r.Steps {
				p.Step(pool, x, gradient(x, step), Now{Step: step + 1, LR: 1, Decay: 1, Momentum: MuonMomentum(step), Grad: 1})
				for i := range want {
					if d := math.Abs(float64(x[i] - want[i])); !(d < 1e-4) {
						t.Fatalf("%s %dx%d step %d: value %d is %g, PyTorch has %g", kind, r.Rows, r.Cols, step+1, i, x[i], want[i])
					}
				}
				n++
			}
		}
	}
	if n != 50 {
		t.Fatalf("%d steps compared, expected 50", n)
	}
}

// mixed is a small model's worth of tensors with a gap that must not move.
func mixed() (size int, ts []Tensor) {
	ts = []Tensor{
		{Off: 0, Rows: 300, Cols: 256, LR: 3e-3},
		{Off: 76800, Rows: 64, Cols: 256, Muon: true, LR: 0.02, Decay: 0.02},
		{Off: 93184, Rows: 256, Cols: 64, Muon: true, LR: 0.02, Decay: 0.02},
		{Off: 109568, Rows: 64, LR: 1e-2, Decay: 0.1},
		{Off: 109632, Rows: 64, LR: 0},
	}
	return 109632 + 64 + 10, ts
}

func walk(t *testing.T, workers int, o Options) (x, first, second []float32) {
	t.Helper()
	size, ts := mixed()
	pool := par.New(workers)
	defer pool.Close()
	p, err := New(size, ts, o, workers)
	if err != nil {
		t.Fatal(err)
	}
	x = start(size)
	for step := range 4 {
		p.Step(pool, x, gradient(x, step), Now{Step: step + 1, LR: 1, Decay: 1, Momentum: 0.9, Grad: 0.5})
	}
	first, second = p.State()
	return x, first, second
}

func TestSameBitsForAnyWorkers(t *testing.T) {
	o := usual()
	o.Cautious = true
	x1, f1, s1 := walk(t, 1, o)
	for _, n := range []int{2, 3, 5} {
		x, f, s := walk(t, n, o)
		if !slices.Equal(x, x1) || !slices.Equal(f, f1) || !slices.Equal(s, s1) {
			t.Errorf("%d workers give other bits than one", n)
		}
	}
	was := start(len(x1))
	if !slices.Equal(x1[109632:], was[109632:]) {
		t.Error("what is frozen or covered by no tensor moved")
	}
	if slices.Equal(x1[:100], was[:100]) {
		t.Error("nothing moved")
	}
}

func TestOrthogonal(t *testing.T) {
	const r, c = 9, 31
	x, y := start(r*c), make([]float32, r*c)
	for i := range x {
		x[i] = float32(math.Sin(float64(i*i%97) + 0.1*float64(i)))
	}
	orthogonalise(x, y, r, c, make(scratch, scratchLen(r, c)))
	for i := range r {
		for j := range r {
			dot := 0.0
			for k := range c {
				dot += float64(x[i*c+k]) * float64(x[j*c+k])
			}
			if want := map[bool]float64{true: 1, false: 0}[i == j]; math.Abs(dot-want) > 0.55 {
				t.Errorf("rows %d and %d: %g", i, j, dot)
			}
		}
	}
}

func TestCautiousDecaysOnlyWhatShrinks(t *testing.T) {
	x := []float32{1, 1, -1, -1}
	g := []float32{1, -1, 1, -1}
	p, err := New(4, []Tensor{{Rows: 4, LR: 0.1, Decay: 1}}, Options{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Cautious: true}, 1)
	if err != nil {
		t.Fatal(err)
	}
	pool := par.New(1)
	defer pool.Close()
	p.Step(pool, x, g, Now{Step: 1, LR: 1, Decay: 1, Grad: 1})
	for i, want := range []float32{0.8, 1.1, -1.1, -0.8} { // a first step of AdamW is one learning rate long
		if d := x[i] - want; d > 1e-6 || d < -1e-6 {
			t.Errorf("value %d is %g, expected %g", i, x[i], want)
		}
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	size, ts := mixed()
	p, err := New(size, ts, usual(), 2)
	if err != nil {
		t.Fatal(err)
	}
	pool := par.New(2)
	defer pool.Close()
	x := start(size)
	g := gradient(x, 0)
	if n := fixture.Allocations(3, func() { p.Step(pool, x, g, Now{Step: 1, LR: 1, Grad: 1}) }); n > 0 {
		t.Errorf("%g allocations a step", n)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, ts := range map[string][]Tensor{
		"overlap":   {{Off: 0, Rows: 4, LR: 1}, {Off: 3, Rows: 4, LR: 1}},
		"too long":  {{Off: 8, Rows: 4, LR: 1}},
		"no matrix": {{Off: 0, Rows: 4, Muon: true, LR: 1}},
		"overflow":  {{Off: 0, Rows: 1 << 62, Cols: 1, LR: 1}},
	} {
		if _, err := New(10, ts, usual(), 1); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := New(1, nil, Options{Beta1: 1, Beta2: 0.9, Eps: 1e-8}, 1); err == nil {
		t.Error("beta1 = 1: no error")
	}
}

func TestSchedule(t *testing.T) {
	for _, c := range []struct {
		s    Schedule
		step int
		at   float64
		want float64
	}{
		{Schedule{Shape: Trapezoid, Flat: 0.5, Final: 0.1}, 9, 0.4, 1},
		{Schedule{Shape: Trapezoid, Flat: 0.5, Final: 0.1}, 9, 0.75, 0.55},
		{Schedule{Shape: Trapezoid, Flat: 0.5, Final: 0.1}, 9, 1, 0.1},
		{Schedule{Shape: Trapezoid, Flat: 1}, 9, 1, 1},
		{Schedule{Shape: Cosine}, 9, 0.5, 0.5},
		{Schedule{Shape: Linear}, 9, 0.25, 0.75},
		{Schedule{Shape: Linear, Warmup: 10}, 4, 0, 0.5},
		{Schedule{Shape: Constant, Warmup: 10}, 9, 0.9, 1},
	} {
		if err := c.s.Validate(); err != nil {
			t.Error(err)
		}
		if got := c.s.At(c.step, c.at); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v at step %d, %g: %g, expected %g", c.s, c.step, c.at, got, c.want)
		}
	}
	for _, s := range []Schedule{{}, {Shape: "step"}, {Shape: Linear, Flat: 2}, {Shape: Linear, Final: math.NaN()}, {Shape: Linear, Warmup: -1}} {
		if s.Validate() == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}

func TestSumIsATree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n")
		k := rapid.IntRange(1, 9).Draw(t, "parts")
		parts := make([][]float32, k)
		for i := range parts {
			parts[i] = rapid.SliceOfN(rapid.Float32Range(-10, 10), n, n).Draw(t, "part")
		}
		want := make([]float32, n)
		for i := range want {
			level := make([]float32, 0, k)
			for _, p := range parts {
				level = append(level, p[i])
			}
			for len(level) > 1 {
				var up []float32
				for j := 0; j < len(level); j += 2 {
					if j+1 < len(level) {
						up = append(up, level[j]+level[j+1])
					} else {
						up = append(up, level[j])
					}
				}
				level = up
			}
			want[i] = level[0]
		}
		got := make([]float32, n)
		cut := rapid.IntRange(0, n).Draw(t, "cut")
		sq := Sum(got, parts, 0, cut) + Sum(got, parts, cut, n)
		if !slices.Equal(got, want) {
			t.Fatalf("%v, expected %v", got, want)
		}
		norm := 0.0
		for _, v := range want {
			norm += float64(v) * float64(v)
		}
		if math.Abs(norm-sq) > 1e-9*(1+norm) {
			t.Fatalf("squares %g, expected %g", sq, norm)
		}
	})
}

func TestAverageAndClip(t *testing.T) {
	ema, x := []float32{0}, []float32{1}
	Average(ema, x, 0.9, 1)
	if want := float32(1 - 2.0/11); math.Abs(float64(ema[0]-want)) > 1e-6 {
		t.Errorf("first step: %g, expected %g", ema[0], want)
	}
	for step := 2; step < 400; step++ {
		Average(ema, x, 0.9, step)
	}
	if ema[0] < 0.9999 {
		t.Errorf("the average stays at %g", ema[0])
	}
	if Clip(2, 1) != 0.5 || Clip(0.5, 1) != 1 || Clip(9, 0) != 1 {
		t.Error("clip")
	}
}
