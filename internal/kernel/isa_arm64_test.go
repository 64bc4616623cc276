//go:build !purego

package kernel

import (
	"math/rand/v2"
	"testing"
)

// TestNEONProductsEqualPortable: the formats that have kernels here, edge sizes, ordinary and odd weights and activations, in all bits.
func TestNEONProductsEqualPortable(t *testing.T) {
	if !useNEON {
		t.Skip("needs the dot product of ARMv8.2, and TINYLOOP_ISA not generic")
	}
	r := rand.New(rand.NewPCG(121, 122))
	for _, f := range []Type{F32, Q8_0, Q4_0} {
		ks := []int{32, 64, 288}
		if f == F32 {
			ks = []int{1, 2, 3, 4, 5, 7, 32, 61}
		}
		for _, k := range ks {
			for _, rows := range []int{1, 3} {
				for _, odd := range []bool{false, true} {
					const n = 37
					src := randomWeights(r, f, n, k)
					for i := range src {
						if odd && r.IntN(3) == 0 {
							src[i] = byte(r.Uint32()) // odd scales too: NaN, infinite, subnormal
						}
					}
					m, in := newMatrix(t, f, n, k, src), NewInput(rows, k)
					for i := range rows {
						for j := range in.F32(i) {
							in.F32(i)[j] = float32(r.NormFloat64())
							if odd {
								in.F32(i)[j] = hardFloat(r)
							}
						}
					}
					in.Prepare(m, 0, rows)
					got, want := make([]float32, rows*n), make([]float32, rows*n)
					MatMul(got, n, in, rows, m, 0, m.Panels())
					useNEON = false
					MatMul(want, n, in, rows, m, 0, m.Panels())
					useNEON = true
					for i := range want {
						if !sameBits(got[i], want[i]) {
							t.Fatalf("%v, k %d, %d rows: value %d is %x, portable %x", f, k, rows, i, got[i], want[i])
						}
					}
				}
			}
		}
	}
}
