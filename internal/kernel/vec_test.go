package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// same fails where two slices differ in a bit; any NaN equals any other.
func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
			t.Fatalf("%s: value %d of %d is %v, want %v", what, i, len(want), got[i], want[i])
		}
	}
}

// TestVectorForms: what runs here gives the bits of the portable form, at every length and with values from the edges.
func TestVectorForms(t *testing.T) {
	r := rand.New(rand.NewPCG(47, 48))
	edges := []float32{0, float32(math.Copysign(0, -1)), float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e-40, -1e-40, 65504, 65520, 6e-8, 3e-8, -1e38}
	draw := func(n int) []float32 {
		x := randoms(r, n)
		for i := range x {
			if r.IntN(8) == 0 {
				x[i] = edges[r.IntN(len(edges))]
			}
		}
		return x
	}
	copyOf := func(x []float32) []float32 { return append([]float32{}, x...) }
	for n := range 100 {
		a, b, c, s := draw(n), draw(n), draw(n), draw(n)
		a1, b1, a2, b2 := copyOf(a), copyOf(b), copyOf(a), copyOf(b)
		ropeHalf(a1, b1, c, s)
		ropeHalfGeneric(a2, b2, c, s)
		same(t, "rope, first half", a1, a2)
		same(t, "rope, second half", b1, b2)

		x := draw(2 * n)
		x1, x2 := copyOf(x), copyOf(x)
		ropeInterleaved(x1, c, s)
		ropeInterleavedGeneric(x2, c, s)
		same(t, "rope of neighbours", x1, x2)

		relu2(a1, a)
		relu2Generic(a2, a)
		same(t, "relu2", a1, a2)

		layerNorm(a1, a, b, c, 0.5, 1.5)
		layerNormGeneric(a2, a, b, c, 0.5, 1.5)
		same(t, "layer norm", a1, a2)

		h1, h2 := make([]uint16, n), make([]uint16, n)
		halves(h1, a)
		halvesGeneric(h2, a)
		for i := range h1 {
			if h1[i] != h2[i] {
				t.Fatalf("half of %v: %#x, want %#x", a[i], h1[i], h2[i])
			}
		}

		var l1, l2 [normLanes]float32
		whole := a[:n&^(normLanes-1)]
		addLanes(&l1, whole)
		addLanesGeneric(&l2, whole)
		same(t, "lane sums", l1[:], l2[:])
	}
}
