package kernel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

// TestGemmFences runs the products with every slice fenced in, before and behind.
func TestGemmFences(t *testing.T) {
	r := rand.New(rand.NewPCG(86, 87))
	for _, atEnd := range []bool{true, false} {
		floats := func(n int) []float32 {
			x := fence[float32](t, n, atEnd)
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
			return x
		}
		for _, s := range [][3]int{{1, 1, 1}, {6, 16, 8}, {7, 17, 33}, {23, 48, 40}, {12, 32, 16}} {
			m, n, k := s[0], s[1], s[2]
			bp := floats(GemmPackLen(n, k))
			GemmPackNT(bp, floats(n*k), k, n, k)
			Gemm(floats(m*n), n, floats(m*k), k, m, bp, n, k, true)
			GemmPackNN(bp, floats(n*k), n, n, k)
			Gemm(floats(m*n), n, floats(m*k), k, m, bp, n, k, false)
			GemmTN(floats(m*n), n, floats(k*m), m, floats(k*n), n, m, n, k, true, floats(GemmTNScratch(m, n, k)))
		}
	}
}

// BenchmarkGemm measures the products of training at d = 192 and 256: tokens, outputs and inputs of one linear layer. The clock is that of the thread.
func BenchmarkGemm(b *testing.B) {
	for _, s := range [][3]int{{256, 192, 192}, {256, 768, 192}, {256, 192, 768}, {768, 768, 192}, {256, 2048, 192}, {256, 256, 256}, {256, 1024, 256}, {256, 256, 1024}, {768, 256, 1024}} {
		tokens, out, in := s[0], s[1], s[2]
		r := rand.New(rand.NewPCG(88, 89))
		x, dy, w, dw := randoms(r, tokens*in), randoms(r, tokens*out), randoms(r, out*in), make([]float32, out*in)
		forward, back := make([]float32, GemmPackLen(out, in)), make([]float32, GemmPackLen(in, out))
		y, dx, tmp := make([]float32, tokens*out), make([]float32, tokens*in), make([]float32, GemmTNScratch(out, in, tokens))
		GemmPackNT(forward, w, in, out, in)
		GemmPackNN(back, w, in, in, out)
		flops := 2 * tokens * out * in
		name := fmt.Sprintf("%dx%dx%d/", tokens, out, in)
		benchmarkFlops(b, name+"Y=XW", flops, func() { Gemm(y, out, x, in, tokens, forward, out, in, false) })
		benchmarkFlops(b, name+"dX=dYW", flops, func() { Gemm(dx, in, dy, out, tokens, back, in, out, false) })
		benchmarkFlops(b, name+"dW+=dYX", flops, func() { GemmTN(dw, in, dy, out, x, in, out, in, tokens, true, tmp) })
		benchmarkFlops(b, name+"pack", 2*out*in, func() { GemmPackNT(forward, w, in, out, in); GemmPackNN(back, w, in, in, out) })
	}
}

// BenchmarkFMAPeak is the rate of a tile whose operands stay in the first cache: what the products above could reach at most.
func BenchmarkFMAPeak(b *testing.B) {
	const k = 192
	a, w, c := make([]float32, gemmRows*k), make([]float32, Panel*k), make([]float32, gemmRows*Panel)
	benchmarkFlops(b, "6x16x192", 64*2*gemmRows*Panel*k, func() {
		for range 64 {
			Gemm(c, Panel, a, k, gemmRows, w, Panel, k, false)
		}
	})
}

// benchmarkFlops reports the best of all calls: neighbours take from all others.
func benchmarkFlops(b *testing.B, name string, flops int, call func()) {
	b.Run(name, func(b *testing.B) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		best := time.Hour
		for b.Loop() {
			start := threadTime()
			call()
			best = min(best, threadTime()-start)
		}
		b.ReportMetric(float64(flops)/float64(best.Nanoseconds()), "best-GFLOP/s")
	})
}
