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

// TestBackwardFences runs the vector parts of training with every slice fenced in, before and behind.
func TestBackwardFences(t *testing.T) {
	r := rand.New(rand.NewPCG(109, 110))
	for _, atEnd := range []bool{true, false} {
		floats := func(n int) []float32 {
			x := fence[float32](t, n, atEnd)
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
			return x
		}
		for _, n := range []int{1, 7, 8, 16, 31, 32, 64, 100} {
			a, b, c, d, e := floats(n), floats(n), floats(n), floats(n), floats(n)
			ReLU2Back(a, b, c)
			GELUBack(a, b, c)
			SwiGLUBack(a, b, c, d, e)
			AddScaled(a, b, 1)
			AddProduct(a, b, c)
			Lerp(a, b, 0.5)
			Softcap(a, 5)
			SoftcapBack(b, a, 5)
			Dot(a, b)
			SumSquares(c)
			CrossEntropy(d, n-1, 0, 1)
			AdamW(a, b, floats(n), e, &AdamWStep{Rate: 1e-3, Beta1: 0.9, Beta2: 0.9, Eps: 1e-8, GradScale: 1, Step: 1})
			inv := floats(3)
			RMSNormRows(floats(3*n), n, floats(3*n), n, b, n, 3, 1e-5, inv)
			RMSNormBackRows(floats(3*n), n, a, floats(3*n), n, floats(3*n), n, b, inv, n, 3, true)
		}
		for _, h := range attendCases() {
			tight := func() Rows { return Rows{floats(h.T * h.Dim), h.Dim} }
			q, k, v, o, lse, tmp := tight(), tight(), tight(), tight(), floats(h.T), floats(h.Scratch())
			h.Forward(o, lse, q, k, v, tmp)
			h.Backward(tight(), tight(), tight(), tight(), o, lse, q, k, v, tmp)
		}
	}
}

// BenchmarkCausalHead measures one head of 32 values; the rate counts the products of the lower triangle alone, two forward and five backward.
func BenchmarkCausalHead(b *testing.B) {
	r := rand.New(rand.NewPCG(111, 112))
	for _, t := range []int{256, 1024} {
		h, flops := &CausalHead{T: t, Dim: 32, Scale: 0.17}, t*t*32
		const ld = 3*192 + 16
		q, k, v, o, do, dq, dk, dv := Rows{randoms(r, t*ld), ld}, Rows{randoms(r, t*ld), ld}, Rows{randoms(r, t*ld), ld}, Rows{randoms(r, t*192), 192}, Rows{randoms(r, t*192), 192}, Rows{randoms(r, t*ld), ld}, Rows{randoms(r, t*ld), ld}, Rows{randoms(r, t*ld), ld}
		lse, tmp := make([]float32, t), make([]float32, h.Scratch())
		benchmarkFlops(b, fmt.Sprint(t, "/forward"), 2*flops, func() { h.Forward(o, lse, q, k, v, tmp) })
		benchmarkFlops(b, fmt.Sprint(t, "/backward"), 5*flops, func() { h.Backward(dq, dk, dv, do, o, lse, q, k, v, tmp) })
	}
}

// BenchmarkBack measures the vector parts over the activations of 256 tokens, in nanoseconds a value.
func BenchmarkBack(b *testing.B) {
	r := rand.New(rand.NewPCG(113, 114))
	const tokens, d, hidden, vocab = 256, 192, 768, 2048
	x, y, z, u, w := randoms(r, tokens*hidden), randoms(r, tokens*hidden), randoms(r, tokens*hidden), randoms(r, tokens*hidden), randoms(r, tokens*hidden)
	gain, dgain, inv, logits := randoms(r, d), randoms(r, d), randoms(r, tokens*6), randoms(r, vocab*tokens/8)
	per := func(name string, values int, call func()) { benchmarkFlops(b, name, values, call) }
	per("norm", tokens*d, func() { RMSNormRows(x, d, y, d, gain, d, tokens, 1e-5, inv) })
	per("norm-back", tokens*d, func() { RMSNormBackRows(x, d, dgain, y, d, z, d, gain, inv, d, tokens, true) })
	per("head-norm", tokens*d, func() { RMSNormRows(x, 32, y, 32, gain, 32, tokens*6, 1e-5, inv) })
	per("head-norm-back", tokens*d, func() { RMSNormBackRows(x, 32, dgain, y, 32, z, 32, gain, inv, 32, tokens*6, true) })
	per("relu2", len(x), func() { ReLU2(x, y) })
	per("relu2-back", len(x), func() { ReLU2Back(x, y, z) })
	per("gelu-back", len(x), func() { GELUBack(x, y, z) })
	per("swiglu", len(x), func() { SwiGLU(x, y, z) })
	per("swiglu-back", len(x), func() { SwiGLUBack(x, y, z, u, w) })
	per("cross-entropy", len(logits), func() {
		for i := 0; i < len(logits); i += vocab {
			CrossEntropy(logits[i:i+vocab], 5, 0, 1)
		}
	})
	s := &AdamWStep{Rate: 1e-3, Beta1: 0.9, Beta2: 0.9, Eps: 1e-8, GradScale: 1, Step: 1}
	per("adamw", len(x), func() { AdamW(x, y, z, u, s) })
	per("sum-squares", len(x), func() { SumSquares(x) })
	per("add-scaled", len(x), func() { AddScaled(x, y, 1e-9) })
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

// BenchmarkGemmCold takes operands of a few dozen layers in turn, as a training step does, so that they come from the third cache or from memory.
func BenchmarkGemmCold(b *testing.B) {
	const layers, tokens, out, in = 24, 512, 768, 192
	r := rand.New(rand.NewPCG(90, 91))
	var x, y, w, dw [layers][]float32
	for i := range layers {
		x[i], y[i], w[i], dw[i] = randoms(r, tokens*in), randoms(r, tokens*out), randoms(r, GemmPackLen(out, in)), make([]float32, out*in)
	}
	tmp, i := make([]float32, GemmTNScratch(out, in, tokens)), 0
	next := func() int { i = (i + 1) % layers; return i }
	flops := 2 * tokens * out * in
	benchmarkFlops(b, "Y=XW", flops, func() { l := next(); Gemm(y[l], out, x[l], in, tokens, w[l], out, in, false) })
	benchmarkFlops(b, "dX+=dYW", flops, func() { l := next(); Gemm(x[l], in, y[l], out, tokens, w[l], in, out, true) })
	benchmarkFlops(b, "dW+=dYX", flops, func() { l := next(); GemmTN(dw[l], in, y[l], out, x[l], in, out, in, tokens, true, tmp) })
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
