//go:build !purego

package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// bothWays runs f with the vector kernels and without them, on copies of the same slices, and compares all bits.
func bothWays(t *testing.T, what string, slices [][]float32, f func(x [][]float32)) {
	t.Helper()
	copies := func() (c [][]float32) {
		for _, s := range slices {
			c = append(c, append([]float32{}, s...))
		}
		return c
	}
	fast, portable := copies(), copies()
	f(fast)
	useAVX2 = false
	defer func() { useAVX2 = true }()
	f(portable)
	for i := range fast {
		equalBits(t, fmt.Sprint(what, ", slice ", i), fast[i], portable[i])
	}
}

// TestBackwardEqualsPortable: every vector part of training, at every length up to a few vectors, ordinary and hard values.
func TestBackwardEqualsPortable(t *testing.T) {
	needAVX2(t)
	r := rand.New(rand.NewPCG(105, 106))
	for n := 1; n < 140; n++ {
		draw := func(n int) []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = hardFloat(r)
				if n%3 == 0 {
					x[i] = float32(r.NormFloat64() * 5)
				}
			}
			return x
		}
		five := [][]float32{draw(n), draw(n), draw(n), draw(n), draw(n)}
		bothWays(t, "elements", five, func(x [][]float32) {
			ReLU2Back(x[0], x[1], x[2])
			GELUBack(x[3], x[1], x[2])
			AddScaled(x[4], x[0], 0.7)
			AddProduct(x[4], x[1], x[2])
			Lerp(x[0], x[4], 0.3)
		})
		bothWays(t, "swiglu", five, func(x [][]float32) { SwiGLUBack(x[0], x[1], x[2], x[3], x[4]) })
		bothWays(t, "softcap", five, func(x [][]float32) { Softcap(x[0], 15); SoftcapBack(x[1], x[0], 15) })
		bothWays(t, "softmax", five, func(x [][]float32) {
			x[2][0], x[2][n-1] = softmaxRow(x[0])
			softmaxBack(x[0], x[4], 0.3, -0.2, 0.5) // values that are at most 1
			x[1][0] = Dot(x[1], x[3])
			scaleRows(x[3], 1, 1, x[1])
		})
		bothWays(t, "cross entropy", five, func(x [][]float32) {
			a, b, _ := CrossEntropy(x[0], n/2, 0.01, 0.5)
			x[1][0], x[2][0] = float32(a), float32(b)
		})
		for _, cautious := range []bool{false, true} {
			bothWays(t, "adamw", five, func(x [][]float32) {
				AdamW(x[0], x[1], x[2], x[3], &AdamWStep{Rate: 0.01, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1, Cautious: cautious, GradScale: 0.5, Step: 3})
			})
		}
		rows, ld := 1+r.IntN(4), n+r.IntN(3)
		many := [][]float32{draw(rows * ld), draw(rows * ld), draw(rows * ld), draw(n), draw(n), draw(rows)}
		for _, add := range []bool{false, true} {
			bothWays(t, "norm", many, func(x [][]float32) {
				RMSNormBackRows(x[0], ld, x[3], x[1], ld, x[2], ld, x[4], x[5], n, rows, add)
				RMSNormRows(x[0], ld, x[2], ld, x[4], n, rows, 1e-5, x[5])
				scaleRows(x[1], ld, n, x[5])
			})
		}
	}
}

func TestCausalHeadEqualsPortable(t *testing.T) {
	needAVX2(t)
	r := rand.New(rand.NewPCG(107, 108))
	for name, h := range attendCases() {
		n := h.T * (h.Dim + 3)
		slices := [][]float32{randoms(r, n), randoms(r, n), randoms(r, n), randoms(r, n), make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, h.T)}
		bothWays(t, name, slices, func(x [][]float32) {
			m := make([]Rows, 8)
			for i := range m {
				m[i] = Rows{x[i], h.Dim + 3}
			}
			tmp := make([]float32, h.Scratch())
			h.Forward(m[4], x[8], m[0], m[1], m[2], tmp)
			h.Backward(m[5], m[6], m[7], m[3], m[4], x[8], m[0], m[1], m[2], tmp)
		})
	}
}
