package par

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tinyloop/internal/fixture"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSplitCoversOnce(t *testing.T) {
	for _, n := range []int{0, 1, 5, 16, 1000} {
		for _, workers := range []int{1, 2, 3, 7} {
			next := 0
			for id := range workers {
				w := Worker{ID: id, N: workers}
				lo, hi := w.Split(n)
				if lo != next || hi < lo {
					t.Fatalf("worker %d of %d got [%d, %d) of %d, want it to start at %d", id, workers, lo, hi, n, next)
				}
				next = hi
			}
			if next != n {
				t.Fatalf("%d workers cover %d of %d items", workers, next, n)
			}
		}
	}
}

// TestBarriers lets each worker read, after every barrier, what all the others wrote before it, without any other synchronisation: the race detector and
// the values both tell when a barrier leaks.
func TestBarriers(t *testing.T) {
	for _, n := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			p := New(n)
			defer p.Close()
			cells := make([]int, n)
			var wrong atomic.Int64
			f := func(w *Worker) {
				cells[w.ID] = 0
				for range 50 {
					cells[w.ID]++
					w.Barrier()
					for i := range cells[:w.N] {
						if cells[i] != cells[w.ID] {
							wrong.Add(1)
						}
					}
					w.Barrier()
				}
			}
			runs := 100
			if n > runtime.NumCPU() {
				runs = 10
			}
			for i := range runs {
				p.run(f, 1+i%n)
				p.run(f, n)
				if wrong.Load() != 0 || cells[n-1] != 50 {
					t.Fatalf("%d wrong reads, %d steps of 50", wrong.Load(), cells[n-1])
				}
			}
		})
	}
}

// TestParking runs with pauses long enough for the workers to fall asleep, and short enough to catch them doing so.
func TestParking(t *testing.T) {
	p := New(2)
	defer p.Close()
	var calls atomic.Int64
	f := func(w *Worker) { calls.Add(1) }
	for i := range 300 {
		p.Run(f)
		if i%3 > 0 {
			time.Sleep(time.Duration(i) * time.Microsecond)
		}
	}
	if n := calls.Load(); n < 300 || n > 600 {
		t.Fatalf("%d calls of 300 runs with one or two workers", n)
	}
}

// TestRouse wakes sleeping workers without a Run: they take the next one, soon or late, and fall asleep again.
func TestRouse(t *testing.T) {
	p := New(3)
	defer p.Close()
	var ran atomic.Int64
	f := func(w *Worker) { ran.Add(1) }
	roused := 0
	for i := range 60 {
		if p.Rouse() {
			roused++
		}
		if i%3 == 0 {
			time.Sleep(time.Duration(i%5) * time.Millisecond) // some are roused for nothing
		}
		p.Run(f)
		if i%2 == 0 {
			time.Sleep(2 * time.Millisecond)
		}
	}
	if n := ran.Load(); n < 60 || n > 180 {
		t.Errorf("%d calls in 60 runs of at most 3 workers", n)
	}
	if roused == 0 {
		t.Error("nobody ever slept")
	}
}

func TestIDs(t *testing.T) {
	p := New(3)
	defer p.Close()
	var seen [3]atomic.Int32
	p.Run(func(w *Worker) {
		if w.N != 3 {
			panic("wrong size")
		}
		seen[w.ID].Add(1)
	})
	for i := range seen {
		if seen[i].Load() != 1 {
			t.Errorf("worker %d ran %d times", i, seen[i].Load())
		}
	}
	if p.Size() != 3 || New(0).Size() != 1 {
		t.Error("wrong size")
	}
}

// mustPanic runs f and gives what it panicked with.
func mustPanic(t *testing.T, p *Pool, f func(w *Worker)) (got *Panic) {
	t.Helper()
	defer func() {
		v := recover()
		pn, ok := v.(*Panic)
		if !ok {
			t.Fatalf("Run panicked with %T %v, want *Panic", v, v)
		}
		got = pn
	}()
	p.Run(f)
	t.Fatal("Run returned")
	return nil
}

// TestPanic lets one worker panic while the others wait at a barrier: Run must surface it, and the pool must work afterwards.
func TestPanic(t *testing.T) {
	p := New(3)
	defer p.Close()
	cause := errors.New("broken weights")
	for bad := range 3 {
		got := mustPanic(t, p, func(w *Worker) {
			w.Barrier()
			if w.ID == bad {
				panic(cause)
			}
			w.Barrier()
		})
		if got.Worker != bad || !errors.Is(got, cause) || !strings.Contains(got.Error(), "par_test.go") {
			t.Errorf("worker %d panicked, Run says %v", bad, got)
		}
		var calls atomic.Int64
		p.run(func(w *Worker) { w.Barrier(); calls.Add(1); w.Barrier() }, 3)
		if calls.Load() != 3 {
			t.Fatalf("%d calls after the panic, want 3", calls.Load())
		}
	}
}

// TestUnevenBarriers lets a worker return while another waits for it: a bug of the caller that must not hang.
func TestUnevenBarriers(t *testing.T) {
	p := New(2)
	defer p.Close()
	got := mustPanic(t, p, func(w *Worker) {
		if w.ID == 1 {
			w.Barrier()
		}
	})
	if !strings.Contains(got.Error(), "worker 0 returned while worker 1 waits") {
		t.Errorf("unclear: %v", got)
	}
}

func TestRunAllocatesNothing(t *testing.T) {
	p := New(2)
	defer p.Close()
	f := func(w *Worker) { w.Barrier() }
	if n := fixture.Allocations(200, func() { p.Run(f) }); n != 0 {
		t.Errorf("%v allocations a Run, want 0", n)
	}
}

func BenchmarkRun(b *testing.B) {
	for _, n := range []int{1, 2} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := New(n)
			defer p.Close()
			f := func(w *Worker) {}
			for b.Loop() {
				p.Run(f)
			}
		})
	}
}

// BenchmarkBarrier is 100 barriers.
func BenchmarkBarrier(b *testing.B) {
	p := New(2)
	defer p.Close()
	f := func(w *Worker) {
		for range 100 {
			w.Barrier()
		}
	}
	for b.Loop() {
		p.Run(f)
	}
}

// TestPieces lets each piece read, after every Meet, what all pieces before it wrote, without any other synchronisation.
func TestPieces(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5} {
		p := New(n)
		defer p.Close()
		const meets, pieces = 20, 7
		var wrote [pieces][meets]int
		var wrong atomic.Int64
		f := func(w *Worker) {
			for i := w.ID; i < pieces; i += w.N {
				a := w.Alone(i, true)
				if a.ID != 0 || a.N != 1 {
					wrong.Add(1)
				}
				for m := range meets {
					wrote[i][m]++
					a.Meet()
					for before := range i {
						if wrote[before][m] != wrote[i][m] {
							wrong.Add(1)
						}
					}
				}
			}
		}
		for range 50 {
			p.run(f, n)
		}
		if wrong.Load() != 0 || wrote[pieces-1][meets-1] != 50 {
			t.Errorf("%d workers: %d wrong reads, %d runs of 50", n, wrong.Load(), wrote[pieces-1][meets-1])
		}
	}
}

// TestPiecesApart: pieces that do not follow on each other never wait.
func TestPiecesApart(t *testing.T) {
	p := New(2)
	defer p.Close()
	p.run(func(w *Worker) {
		if w.ID == 1 {
			w.Alone(1, false).Meet()
		}
	}, 2)
}

// TestUnevenPieces lets a worker return whose piece another waits for.
func TestUnevenPieces(t *testing.T) {
	p := New(2)
	defer p.Close()
	got := mustPanic(t, p, func(w *Worker) {
		if w.ID == 1 {
			w.Alone(1, true).Meet()
		}
	})
	if !strings.Contains(got.Error(), "worker 0 returned while worker 1 waits for it in piece 0") {
		t.Errorf("unclear: %v", got)
	}
}
