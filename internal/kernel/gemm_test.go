package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// hardFloat gives values at which an instruction and its emulation could part ways.
func hardFloat(r *rand.Rand) float32 {
	switch r.IntN(12) {
	case 0:
		return math.Float32frombits(r.Uint32()) // anything, NaN and infinities included
	case 1:
		return math.Float32frombits(r.Uint32N(1<<23) | r.Uint32N(2)<<31) // subnormal
	case 2:
		return 0
	case 3:
		return float32(math.Copysign(0, -1))
	case 4:
		return float32(r.IntN(255)-127) + 0.5 // ties of the quantiser
	case 5:
		return float32(r.NormFloat64() * 1e30)
	default:
		return float32(r.NormFloat64())
	}
}

// product64 is C (+)= A·B in double precision with the sum of the magnitudes of its terms, for a bound on the error.
func product64(c []float32, ldc int, at func(r, i int) float32, bt func(i, n int) float32, m, n, k int, add bool) (sum, size []float64) {
	sum, size = make([]float64, m*n), make([]float64, m*n)
	for r := range m {
		for j := range n {
			if add {
				sum[r*n+j] = float64(c[r*ldc+j])
			}
			for i := range k {
				p := float64(at(r, i)) * float64(bt(i, j))
				sum[r*n+j] += p
				size[r*n+j] += math.Abs(p)
			}
			size[r*n+j] += math.Abs(sum[r*n+j])
		}
	}
	return sum, size
}

func checkProduct64(t *testing.T, what string, c []float32, ldc, m, n, k int, sum, size []float64) {
	t.Helper()
	for r := range m {
		for j := range n {
			if got, want := float64(c[r*ldc+j]), sum[r*n+j]; math.Abs(got-want) > float64(k+1)*6e-8*size[r*n+j] {
				t.Fatalf("%s: C[%d][%d] is %v, want %v", what, r, j, got, want)
			}
		}
	}
}

// gemmShapes reach every tile height, cut panels, cut depths and more than one block of rows.
var gemmShapes = [][3]int{{1, 1, 1}, {2, 3, 5}, {3, 16, 4}, {4, 17, 8}, {5, 32, 31}, {6, 16, 32}, {7, 33, 321}, {23, 48, 64}, {64, 64, 32}, {193, 20, 9}, {200, 16, 650}, {11, 5, 0}}

// TestGemmEqualsDouble compares the three products with double precision, and checks that nothing but C's own columns is written.
func TestGemmEqualsDouble(t *testing.T) {
	r := rand.New(rand.NewPCG(81, 82))
	for _, s := range gemmShapes {
		m, n, k := s[0], s[1], s[2]
		for _, add := range []bool{false, true} {
			what := fmt.Sprint(s, add)
			ldc, lda, ldb := n+3, k+2, k+1
			c, a, b := randoms(r, m*ldc), randoms(r, m*lda), randoms(r, n*ldb)
			before := append([]float32{}, c...)
			bp := make([]float32, GemmPackLen(n, k))
			GemmPackNT(bp, b, ldb, n, k)
			sum, size := product64(c, ldc, func(r, i int) float32 { return a[r*lda+i] }, func(i, j int) float32 { return b[j*ldb+i] }, m, n, k, add)
			Gemm(c, ldc, a, lda, m, bp, n, k, add)
			checkProduct64(t, "NT "+what, c, ldc, m, n, k, sum, size)
			for i := range c {
				if i%ldc >= n && c[i] != before[i] {
					t.Fatalf("%s: C is written at %d beyond its %d columns", what, i, n)
				}
			}

			ldb = n + 5
			b = randoms(r, max(1, k)*ldb)
			GemmPackNN(bp, b, ldb, n, k)
			sum, size = product64(c, ldc, func(r, i int) float32 { return a[r*lda+i] }, func(i, j int) float32 { return b[i*ldb+j] }, m, n, k, add)
			Gemm(c, ldc, a, lda, m, bp, n, k, add)
			checkProduct64(t, "NN "+what, c, ldc, m, n, k, sum, size)

			lda = m + 2
			a = randoms(r, max(1, k)*lda)
			sum, size = product64(c, ldc, func(r, i int) float32 { return a[i*lda+r] }, func(i, j int) float32 { return b[i*ldb+j] }, m, n, k, add)
			GemmTN(c, ldc, a, lda, b, ldb, m, n, k, add, make([]float32, GemmTNScratch(m, n, k)))
			checkProduct64(t, "TN "+what, c, ldc, m, n, k, sum, size)
		}
	}
}

// TestGemmEqualsPortable: every bit of the three products is that of one sum over ascending k with fused steps, hard values included.
func TestGemmEqualsPortable(t *testing.T) {
	r := rand.New(rand.NewPCG(83, 84))
	for _, s := range gemmShapes {
		for _, draw := range []func() float32{func() float32 { return float32(r.NormFloat64()) }, func() float32 { return hardFloat(r) }} {
			checkGemmBits(t, s[0], s[1], s[2], r.IntN(2) == 0, draw)
		}
	}
}

func checkGemmBits(t *testing.T, m, n, k int, add bool, draw func() float32) {
	t.Helper()
	fill := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = draw()
		}
		return x
	}
	a, b, c := fill(m*k), fill(k*n), fill(m*n)
	want := append([]float32{}, c...)
	for i := range want {
		if !add {
			want[i] = 0
		}
		for j := range k {
			want[i] = fma32(b[j*n+i%n], a[i/n*k+j], want[i])
		}
	}
	at, bt := turned(a, m, k), turned(b, k, n)
	bp := make([]float32, GemmPackLen(n, k))
	check := func(what string, product func(c []float32)) {
		t.Helper()
		got := append([]float32{}, c...)
		product(got)
		for i := range want {
			if !sameBits(got[i], want[i]) {
				t.Fatalf("%s %dx%dx%d: C[%d][%d] is %x, want %x", what, m, n, k, i/n, i%n, got[i], want[i])
			}
		}
	}
	check("NN", func(c []float32) { GemmPackNN(bp, b, n, n, k); Gemm(c, n, a, k, m, bp, n, k, add) })
	check("NT", func(c []float32) { GemmPackNT(bp, bt, k, n, k); Gemm(c, n, a, k, m, bp, n, k, add) })
	check("TN", func(c []float32) { GemmTN(c, n, at, m, b, n, m, n, k, add, make([]float32, GemmTNScratch(m, n, k))) })
	check("NN in two halves of k", func(c []float32) {
		for _, h := range [][2]int{{0, k / 2}, {k / 2, k}} {
			d := h[1] - h[0]
			GemmPackNN(bp[:GemmPackLen(n, d)], b[h[0]*n:], n, n, d)
			Gemm(c, n, a[min(h[0], max(0, m*k-1)):], k, m, bp[:GemmPackLen(n, d)], n, d, add || h[0] > 0)
		}
	})
}

func turned(x []float32, rows, columns int) []float32 {
	y := make([]float32, len(x))
	for i := range x {
		y[i%columns*rows+i/columns] = x[i]
	}
	return y
}

// FuzzGemm takes sizes and the bits of the values.
func FuzzGemm(f *testing.F) {
	f.Add(uint8(7), uint8(17), uint8(9), uint64(1), true)
	f.Add(uint8(6), uint8(16), uint8(64), uint64(2), false)
	f.Fuzz(func(t *testing.T, m, n, k uint8, seed uint64, add bool) {
		r := rand.New(rand.NewPCG(seed, 85))
		checkGemmBits(t, int(m)%40+1, int(n)%50+1, int(k)%70+1, add, func() float32 { return hardFloat(r) })
	})
}
