//go:build linux

package kernel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkShapes measures products at the widths of models that matter: 15M (288, 768), 124M (768, 2048) and 1.1B (2048, 5632) parameters. The clock is that of
// the thread, so that waiting for a processor does not count; neighbours in the caches still do, hence the best of all calls.
func BenchmarkShapes(b *testing.B) {
	for _, f := range allTypes {
		for _, s := range [][2]int{{288, 288}, {768, 768}, {2048, 2048}, {512, 5632}} {
			for _, rows := range []int{1, 2, 4, 8, 32, 128, 512} {
				if s[1]%f.Block() == 0 {
					b.Run(fmt.Sprintf("%v/%dx%d/%d", f, s[0], s[1], rows), func(b *testing.B) { benchmarkShape(b, f, rows, s[0], s[1]) })
				}
			}
		}
	}
}

func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}

// benchmarkShape takes part of the panels at a time, as a worker of several would, so that windows are short.
func benchmarkShape(b *testing.B, f Type, rows, n, k int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := rand.New(rand.NewPCG(17, 18))
	src := randomWeights(r, f, n, k)
	if f == Q8_0 {
		raiseLowest(src) // as quantisers write it
	}
	m := newMatrix(b, f, n, k, src)
	in := NewInput(rows, k)
	fillInput(r, in)
	in.Prepare(m, 0, rows)
	dst := make([]float32, rows*n)
	best, step := time.Hour, min(m.Panels(), max(8, 128/rows))
	for b.Loop() {
		for p := 0; p+step <= m.Panels(); p += step {
			start := threadTime()
			MatMul(dst, n, in, rows, m, p, p+step)
			if d := threadTime() - start; d > 0 { // the clock of a guest runs backwards at times
				best = min(best, d)
			}
		}
	}
	b.ReportMetric(float64(rows*step*Panel*k)/float64(best.Nanoseconds()), "best-GMAC/s")
}
