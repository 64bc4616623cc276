//go:build linux

package kernel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkFromMemory passes few rows through more weights than any cache holds, on two threads of which each takes half of every matrix: a turn of a large
// core without what lies between its products. The time is that of a pass on the wall clock, and rows/one its ratio to that of one row in the same round.
func BenchmarkFromMemory(b *testing.B) {
	for _, f := range allTypes {
		for _, k := range []int{768, 2048} {
			b.Run(fmt.Sprintf("%v/%d", f, k), func(b *testing.B) { benchmarkMemory(b, f, k) })
		}
	}
}

const memoryBytes = 96 << 20

var memoryRows = []int{1, 2, 3, 4, 6, 8, 12, 16}

func benchmarkMemory(b *testing.B, f Type, k int) {
	n := 2048
	shape := Shape{Source: f, N: n, K: k}
	shapes := make([]Shape, memoryBytes/shape.PanelBytes())
	for i := range shapes {
		shapes[i] = shape
	}
	ms, err := NewMatrices(shapes)
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(17, 18))
	src := randomWeights(r, f, n, k)
	for _, m := range ms {
		m.Fill(0, src)
		defer m.Free()
	}
	took := make([][]time.Duration, len(memoryRows))
	for b.Loop() {
		for i, rows := range memoryRows {
			took[i] = append(took[i], passMemory(r, ms, rows))
		}
	}
	weights := float64(len(ms) * n * k)
	one := slices.Min(took[0])
	for i, rows := range memoryRows {
		slices.Sort(took[i])
		best, median := took[i][0], took[i][len(took[i])/2]
		b.Logf("%2d rows: best %.2f ms (%.2f of one, %.1f GMAC/s, %.1f GB/s), median %.2f ms", rows, best.Seconds()*1e3, float64(best)/float64(one),
			float64(rows)*weights/float64(best.Nanoseconds()), float64(len(ms)*shape.PanelBytes())/float64(best.Nanoseconds()), median.Seconds()*1e3)
		b.ReportMetric(best.Seconds()*1e3, fmt.Sprintf("ms/%drows", rows))
	}
}

// passMemory gives the time of one pass.
func passMemory(r *rand.Rand, ms []*Matrix, rows int) time.Duration {
	const threads = 2
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	in := NewInput(rows, ms[0].K)
	fillInput(r, in)
	in.Prepare(ms[0], 0, rows)
	for id := range threads {
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			dst := make([]float32, rows*ms[0].N)
			ready.Done()
			<-start
			for _, m := range ms {
				p := m.Panels()
				MatMul(dst, m.N, in, rows, m, p*id/threads, p*(id+1)/threads)
			}
		}()
	}
	ready.Wait()
	begun := time.Now()
	close(start)
	done.Wait()
	return time.Since(begun)
}
