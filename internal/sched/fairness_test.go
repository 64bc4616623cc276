package sched

import (
	"testing"

	"pgregory.net/rapid"
)

// TestNobodyStarves: answers of mixed depths, some of which guess or share K/V between loops, and prompts that keep coming, on a budget of rows that may be
// far too small. Without page pressure every running sequence gets its next row within a bound that depends on the depths and on how many there are, never on
// how long anyone's prompt or answer is: a row leaves after so many turns as the deepest has loops, agreed tokens come in turn and before guesses, and a part
// of the budget is the prompts'.
func TestNobodyStarves(t *testing.T) {
	most := 0.0 // share of the bound that was ever used
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Prelude: 1, Core: 1, Pages: 2500, StepRows: rapid.IntRange(1, 24).Draw(t, "rows"), MaxSeqs: 40, NoPrefixCache: true}
		cfg.ChunkRows = rapid.IntRange(0, cfg.StepRows).Draw(t, "chunk")
		m := &crowd{t: t, s: New(cfg)}
		arrivals := rapid.IntRange(1, 14).Draw(t, "arrivals")
		waited, bounds := map[*party]int{}, map[*party]int{}
		for step, added := 0, 0; step < 600 && (added < arrivals || len(m.parties) > 0); step++ {
			if added < arrivals && (step == 0 || rapid.IntRange(0, 9).Draw(t, "arrive") == 0) {
				m.arrive(added)
				added++
			}
			entered, then := map[*party]int{}, starveBound(m)
			for _, p := range m.parties {
				entered[p] = p.trunk.q.Entered
			}
			m.step()
			for _, p := range m.parties {
				q := p.trunk.q
				if before, old := entered[p]; !old || q.Entered != before || !q.running || q.Drafts > 0 || q.pending() == 0 {
					waited[p], bounds[p] = 0, 0
					continue
				}
				waited[p]++
				bounds[p] = max(bounds[p], then, starveBound(m)) // who was there when it began to wait may have ended since
				bound := bounds[p]
				if most = max(most, float64(waited[p])/float64(bound)); waited[p] > bound {
					t.Fatalf("step %d: a sequence of %d loops with %d of %d tokens entered has waited for %d steps, bound %d: %d running on %d rows", m.clock, q.Loops, q.Entered, len(q.Tokens),
						waited[p], bound, m.s.Running(), cfg.StepRows)
				}
			}
		}
	})
	t.Logf("the longest wait was %.0f %% of the bound", 100*most)
	if most < 0.2 {
		t.Error("nobody ever waited: the test tests nothing")
	}
}

// starveBound is the most steps that a running sequence waits for its next row: as many rounds as it takes to serve everyone once from the part of the budget
// that its kind has for certain, and two more for what is in flight; a round is as long as the deepest row.
func starveBound(m *crowd) int {
	deepest, answers, prompts := 1, 1, 1
	for _, p := range m.parties {
		deepest = max(deepest, p.trunk.q.Loops)
		if p.trunk.q.Computed < p.prompt {
			prompts++
		} else {
			answers++
		}
	}
	theirs := max(1, m.s.cfg.StepRows/8)
	ours := max(1, m.s.cfg.StepRows-theirs)
	rounds := max((answers+ours-1)/ours, (prompts+theirs-1)/theirs) + 2
	if m.s.cfg.StepRows == 1 {
		rounds = answers + prompts + 2
		rounds *= 2 // answers and prompts take turns
	}
	return deepest * rounds
}

// TestEqualShares: where rows are short, answers of one depth come forward alike, whoever came first; a deeper one gets as many tokens as its turns allow and
// does not hold up the shallow ones.
func TestEqualShares(t *testing.T) {
	for _, rows := range []int{1, 2, 5, 8, 16} {
		s := New(Config{Core: 1, Pages: 20000, StepRows: rows, MaxSeqs: 40, NoPrefixCache: true})
		var qs []*Seq
		for i := range 12 {
			q := &Seq{Tokens: []int32{int32(i)}, Loops: []int{1, 2, 4}[i%3], Limit: 100000}
			qs = append(qs, q)
			s.Add(q)
		}
		type row struct {
			q    *Seq
			loop int
		}
		var flight []row
		for range 4000 {
			for _, sp := range s.Next().Enter {
				flight = append(flight, row{q: sp.Seq})
			}
			keep := flight[:0]
			for _, r := range flight {
				if r.loop++; r.loop < r.q.Loops {
					keep = append(keep, r)
					continue
				}
				s.Commit(r.q, 1)
				r.q.Tokens = append(r.q.Tokens, 1)
			}
			flight = keep
		}
		for i, q := range qs {
			if first := qs[i%3]; q.Computed < first.Computed-2 || q.Computed > first.Computed+2 {
				t.Errorf("%d rows, %d loops: %d tokens where the first of that depth has %d", rows, q.Loops, q.Computed, first.Computed)
			}
			if q.Computed < qs[i/3*3+2].Computed-2 {
				t.Errorf("%d rows: %d loops gave %d tokens, 4 loops %d", rows, q.Loops, q.Computed, qs[i/3*3+2].Computed)
			}
		}
		turns := 0
		for _, q := range qs {
			turns += q.Computed * q.Loops
		}
		if want := 4000 * min(rows, 12); turns < want*9/10 {
			t.Errorf("%d rows: %d turns of rows in 4000 steps, %d were possible", rows, turns, want)
		}
	}
}

// TestRoom: a sequence of as many positions as Room says fits, one more does not, under every sharing and window; while it is computed alone it never holds
// more pages than were reckoned, and at its peak as many.
func TestRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Prelude: rapid.IntRange(0, 2).Draw(t, "prelude"), Core: rapid.IntRange(1, 2).Draw(t, "core"), Coda: rapid.IntRange(0, 1).Draw(t, "coda"),
			Pages: rapid.IntRange(20, 300).Draw(t, "pages"), StepRows: 8, MaxSeqs: 2, NoPrefixCache: true}
		s := New(cfg)
		prompt := rapid.IntRange(1, 60).Draw(t, "prompt")
		q := Seq{Loops: rapid.IntRange(1, 5).Draw(t, "loops"), Share: prompt, Fold: rapid.SampledFrom([]Fold{{}, {Mod: 1}, {Mod: 2}, {Mod: 9}, {Mean: true}}).Draw(t, "fold")}
		if rapid.Bool().Draw(t, "windowed") {
			q.Window, q.Sinks = rapid.SampledFrom([]int{16, 20, 33}).Draw(t, "window"), rapid.SampledFrom([]int{0, 4, 17}).Draw(t, "sinks")
		}
		const most = 400
		room := s.Room(&q, most)
		for _, c := range []struct {
			limit int
			fits  bool
		}{{room, true}, {room + 1, room == most}} {
			if q.Limit = c.limit; c.limit > 0 && c.limit <= most && (s.Fits(&q) == nil) != c.fits {
				t.Fatalf("room for %d, fits %d: %v", room, c.limit, s.Fits(&q))
			}
		}
		if room <= prompt {
			return
		}
		q.Limit = rapid.IntRange(prompt, room).Draw(t, "limit")
		reckoned := s.need(&q, q.Limit)
		if peak := solo(t, s, q, prompt); peak > reckoned || q.Window == 0 && q.Fold == (Fold{}) && peak != reckoned {
			t.Fatalf("%+v: at most %d pages were held, %d reckoned", q, peak, reckoned)
		}
	})
}

// solo computes a sequence alone as an engine does and gives the most pages that it held.
func solo(t *rapid.T, s *Scheduler, q Seq, prompt int) (peak int) {
	q.Tokens = make([]int32, prompt)
	if q.Fold != (Fold{}) {
		q.Upto = prompt
	}
	s.Add(&q)
	folded := 0
	for q.Computed < q.Limit {
		for _, sp := range s.Next().Enter {
			held, _, _ := s.Pages()
			peak = max(peak, held)
			if got := s.Held(&q); got != held {
				t.Fatalf("%d pages are held, it is told %d", held, got)
			}
			s.Commit(sp.Seq, sp.N)
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		if q.Computed < prompt {
			continue
		}
		switch {
		case q.Fold.Mean && q.Loops > 1:
			for folded < q.Computed {
				b := folded / PageLen
				if folded = min(q.Computed, (b+1)*PageLen); folded == (b+1)*PageLen {
					s.Merge(&q, b)
				}
			}
		case q.Fold.Mod > 0 && q.Loops > 1 && folded == 0:
			s.Collapse(&q)
			folded = q.Computed
		}
		if q.Computed == len(q.Tokens) && q.Computed < q.Limit {
			q.Tokens = append(q.Tokens, 1)
			if q.Upto > 0 {
				q.Upto = len(q.Tokens)
			}
		}
	}
	s.Drop(&q)
	return peak
}
