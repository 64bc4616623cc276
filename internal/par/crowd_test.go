package par

import (
	"testing"
	"time"
)

// simulate feeds a crowd Runs of the given length and share of waiting for a span of time, one after the other, and gives the share of the time spent with all
// workers. Runs alone take the time that the busy part of n workers takes one.
func simulate(c *crowd, now *time.Time, span, took time.Duration, waitShare float64) float64 {
	const n = 2
	var all, total time.Duration
	for total < span {
		d := took
		if c.workers(n, *now) == 1 {
			d = time.Duration(float64(n) * (1 - waitShare) * float64(took))
			c.note(1, *now, d, 0)
		} else {
			c.note(n, *now, d, time.Duration(waitShare*float64(took)))
			all += d
		}
		total += d
		*now = now.Add(d)
	}
	return float64(all) / float64(total)
}

func TestCrowd(t *testing.T) {
	var c crowd
	now := time.Unix(1e9, 0)
	if s := simulate(&c, &now, time.Second, 100*time.Microsecond, 0.3); s != 1 {
		t.Errorf("quiet: all workers for %.3f of the time", s)
	}
	for _, took := range []time.Duration{100 * time.Microsecond, 3 * time.Millisecond, 70 * time.Millisecond} {
		simulate(&c, &now, 30*took+10*time.Millisecond, took, 0.9) // settles
		if s := simulate(&c, &now, 60*time.Second, took, 0.9); s > 0.15 {
			t.Errorf("crowded, %v a run: all workers for %.3f of the time", took, s)
		}
		simulate(&c, &now, 5*time.Second, 100*time.Microsecond, 0.3)
		if s := simulate(&c, &now, time.Second, 100*time.Microsecond, 0.3); s != 1 {
			t.Errorf("quiet again: all workers for %.3f of the time", s)
		}
	}
}

// TestSlowAlone: where one worker is slower than waiting workers are, as with weights that fit no single cache, the pool comes back at once and stays away from it.
func TestSlowAlone(t *testing.T) {
	var c crowd
	now := time.Unix(1e9, 0)
	var alone, total time.Duration
	for total < time.Second {
		d := 200 * time.Microsecond
		n := c.workers(2, now)
		if n == 1 {
			d = 600 * time.Microsecond
			alone += d
		}
		c.note(n, now, d, d*6/10*time.Duration(n-1))
		now, total = now.Add(d), total+d
	}
	if alone == 0 || alone > total/10 {
		t.Errorf("alone for %v of %v", alone, total)
	}
}

// TestHiccup: one long wait changes nothing.
func TestHiccup(t *testing.T) {
	var c crowd
	now := time.Unix(1e9, 0)
	for range 100 {
		simulate(&c, &now, 20*time.Millisecond, 100*time.Microsecond, 0.1)
		if c.note(2, now, 5*time.Millisecond, 4900*time.Microsecond); c.workers(2, now) != 2 {
			t.Fatal("a single hiccup sent the workers away")
		}
	}
}

// TestWorkersOfRun: a function is told of the workers that it really has, and a worker that was left out comes back.
func TestWorkersOfRun(t *testing.T) {
	p := New(3)
	defer p.Close()
	var seen [3]int
	f := func(w *Worker) {
		seen[w.ID] += w.N
		w.Barrier()
	}
	for _, n := range []int{3, 1, 1, 2, 3, 1, 2} {
		seen = [3]int{}
		p.run(f, n)
		for id, got := range seen {
			if want := n; id < n && got != want || id >= n && got != 0 {
				t.Fatalf("%d workers: worker %d counted %d", n, id, got)
			}
		}
	}
}
