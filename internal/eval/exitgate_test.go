package eval

import (
	"math"
	"math/rand/v2"
	"testing"

	"tinyloop/internal/fault"
)

// TestGateFit: where the state tells whether more passes help, the gate reads it off; where it does not, the gate is the best constant.
func TestGateFit(t *testing.T) {
	for _, told := range []bool{true, false} {
		rng := rand.New(rand.NewPCG(1, 2))
		const dim = 6
		g := NewGateFit(dim)
		type sample struct {
			x    [dim]float32
			more bool
		}
		var held []sample
		for i := range 2000 {
			var s sample
			s.more = rng.IntN(3) == 0
			for k := range s.x {
				s.x[k] = 5 + 3*float32(rng.NormFloat64())
			}
			s.x[4] = 7 // never changes
			if told && s.more {
				s.x[2] += 20
			}
			gain := 0.0
			if s.more {
				gain = 1
			}
			if i%4 == 0 {
				held = append(held, s)
				continue
			}
			g.Add(s.x[:], 2+gain, 2)
		}
		gate, r, err := g.Fit()
		if err != nil {
			t.Fatal(err)
		}
		right := 0
		for _, s := range held {
			z := gate.Bias
			for k, v := range s.x {
				z += gate.Weight[k] * v
			}
			if (z < -1) == s.more { // the target of a state that gains nothing is to leave with 0.56, that of one that gains a nat with 0
				right++
			}
		}
		share := float64(right) / float64(len(held))
		if r.States != 1500 || told && (share < 0.98 || r.Loss > r.Constant-0.15) || !told && math.Abs(r.Loss-r.Constant) > 0.02 {
			t.Errorf("told %v: %.3f right, %+v", told, share, r)
		}
	}
}

func TestGateFitBounds(t *testing.T) {
	g := NewGateFit(4)
	if _, _, err := g.Fit(); fault.Of(err) != fault.Invalid {
		t.Errorf("a gate of no states: %v", err)
	}
	if err := g.Room(1 << 27); fault.Of(err) != fault.Invalid {
		t.Errorf("more states than memory may hold: %v", err)
	}
	if err := g.Room(1000); err != nil {
		t.Error(err)
	}
}
