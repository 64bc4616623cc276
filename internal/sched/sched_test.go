package sched

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"tinyloop/internal/fault"
)

// sim runs plans the way an engine does: every step, rows in flight advance by one loop and leave at their depth.
type sim struct {
	t      *rapid.T
	s      *Scheduler
	clock  int
	flight []flying
	seqs   []*client
	depth  map[int32]content // page -> what it holds
}

// client is a sequence that wants so many more tokens.
type client struct {
	q      *Seq
	want   int
	rng    uint64
	fed    int // step in which a row of it last entered or it was added
	worst  int
	forked bool
}

type flying struct {
	c    *client
	pos  int
	loop int
}

// content is what a page should hold: a slot of a block of a history.
type content struct {
	slot   int
	prefix string
}

func (m *sim) step() {
	plan := m.s.Next()
	m.clock++
	for _, q := range plan.Preempted {
		c := q.Owner.(*client)
		m.flight = removeOf(m.flight, c)
	}
	for _, sp := range plan.Enter {
		c := sp.Seq.Owner.(*client)
		if sp.N < 1 || sp.From+sp.N > len(sp.Seq.Tokens) {
			m.t.Fatalf("span %d+%d of %d tokens", sp.From, sp.N, len(sp.Seq.Tokens))
		}
		c.worst = max(c.worst, m.clock-c.fed)
		c.fed = m.clock
		for i := range sp.N {
			m.flight = append(m.flight, flying{c: c, pos: sp.From + i})
		}
	}
	m.check()
	if len(m.flight) == 0 && len(m.seqs) > 0 && len(plan.Preempted) == 0 {
		m.t.Fatalf("step %d: nothing in flight, %d sequences unfinished", m.clock, len(m.seqs))
	}
	m.turn()
	m.check()
}

func (m *sim) turn() {
	done := map[*client]int{}
	rest := m.flight[:0]
	var order []*client
	for _, f := range m.flight {
		if f.loop++; f.loop < f.c.q.Loops {
			rest = append(rest, f)
			continue
		}
		if done[f.c] == 0 {
			order = append(order, f.c)
		}
		m.write(f)
		done[f.c]++
	}
	m.flight = rest
	for _, c := range order {
		m.s.Commit(c.q, done[c])
		m.check()
		if c.q.Computed == len(c.q.Tokens) {
			m.sample(c)
		}
	}
}

// write notes what the pages of a position hold, and checks what every earlier visible position holds.
func (m *sim) write(f flying) {
	q := f.c.q
	for slot := range m.s.Slots(q.Loops) {
		name := slot
		if slot >= m.s.cfg.Prelude+q.Loops*m.s.cfg.Core {
			name = -1000*q.Loops - slot // the coda of a depth
		}
		for b := 0; b*PageLen <= f.pos; b++ {
			if !q.keeps(b, f.pos) {
				continue
			}
			page := q.Pages[slot][b]
			end := min(b*PageLen+PageLen, f.pos+1)
			want := content{name, fmt.Sprint(q.Window, q.Sinks, q.Tokens[:end])}
			if end == f.pos+1 {
				m.depth[page] = want
				continue
			}
			if m.depth[page] != want {
				m.t.Fatalf("slot %d block %d page %d holds %v, want %v", slot, b, page, m.depth[page], want)
			}
		}
	}
}

func (m *sim) sample(c *client) {
	if c.want--; c.want <= 0 {
		m.drop(c)
		return
	}
	c.rng = c.rng*6364136223846793005 + 1442695040888963407
	c.q.Tokens = append(c.q.Tokens, int32(c.rng>>62))
	if c.forked {
		c.forked = false
		k := &client{want: c.want, rng: c.rng + 99, fed: m.clock}
		k.q = &Seq{Tokens: append(append([]int32(nil), c.q.Tokens[:len(c.q.Tokens)-1]...), int32(c.rng>>60&3)), Loops: c.q.Loops,
			Window: c.q.Window, Sinks: c.q.Sinks, Limit: c.q.Limit, Owner: k}
		m.seqs = append(m.seqs, k)
		m.s.Fork(c.q, k.q, func(dst, src int32) { m.depth[dst] = m.depth[src] })
		m.check()
	}
}

func (m *sim) drop(c *client) {
	m.flight = removeOf(m.flight, c)
	m.s.Drop(c.q)
	for i, o := range m.seqs {
		if o == c {
			m.seqs = append(m.seqs[:i], m.seqs[i+1:]...)
			return
		}
	}
}

func (m *sim) check() {
	if err := m.s.Check(); err != nil {
		m.t.Fatalf("step %d: %v", m.clock, err)
	}
}

func removeOf(fs []flying, c *client) []flying {
	out := fs[:0]
	for _, f := range fs {
		if f.c != c {
			out = append(out, f)
		}
	}
	return out
}

// TestSimulation: random arrivals, cancels, depths, windows, forks and budgets. Pages add up after every event, every visible page holds the
// history it should, everyone finishes within a bound, and at the end no page is held.
func TestSimulation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Prelude: rapid.IntRange(0, 2).Draw(t, "prelude"), Core: rapid.IntRange(1, 2).Draw(t, "core"), Coda: rapid.IntRange(0, 1).Draw(t, "coda"),
			Pages: rapid.IntRange(20, 300).Draw(t, "pages"), StepRows: rapid.IntRange(1, 24).Draw(t, "rows"),
			MaxSeqs: rapid.IntRange(1, 6).Draw(t, "seqs"), NoPrefixCache: rapid.Bool().Draw(t, "nocache"),
		}
		cfg.ChunkRows = rapid.IntRange(0, cfg.StepRows).Draw(t, "chunk")
		m := &sim{t: t, s: New(cfg), depth: map[int32]content{}}
		arrivals := rapid.IntRange(1, 14).Draw(t, "arrivals")
		total, added := 0, 0
		for added < arrivals || len(m.seqs) > 0 {
			if added < arrivals && rapid.IntRange(0, 3).Draw(t, "arrive") == 0 {
				total += m.arrive(added)
				added++
			}
			if len(m.seqs) > 0 && rapid.IntRange(0, 60).Draw(t, "cancel") == 0 {
				m.drop(m.seqs[rapid.IntRange(0, len(m.seqs)-1).Draw(t, "whom")])
				m.check()
			}
			m.step()
			// Work lost to preemption is bounded by the age order; a generous bound still catches livelock and starvation.
			if bound := 2000 + 60*total; m.clock > bound {
				t.Fatalf("not finished after %d steps: %d running, %d waiting", m.clock, m.s.Running(), m.s.Waiting())
			}
		}
		if held, cached, all := m.s.Pages(); held != 0 || cached+len(m.s.pool.free) != all {
			t.Fatalf("at the end %d pages are held, %d cached", held, cached)
		}
		for m.s.pool.cached > 0 {
			m.s.idx.evict()
			m.check()
		}
		for id := range m.s.idx.nodes {
			if m.s.idx.nodes[id].used {
				t.Fatalf("node %d outlives its pages", id)
			}
		}
	})
}

func (m *sim) arrive(i int) int {
	t := m.t
	c := &client{want: rapid.IntRange(1, 40).Draw(t, "want"), rng: uint64(i), fed: m.clock, forked: rapid.IntRange(0, 3).Draw(t, "fork") == 0}
	n := rapid.IntRange(1, 70).Draw(t, "prompt")
	c.q = &Seq{Loops: rapid.IntRange(1, 4).Draw(t, "loops"), Limit: n + c.want - 1, Owner: c, NoCache: rapid.IntRange(0, 8).Draw(t, "private") == 0,
		Fresh: rapid.IntRange(0, 8).Draw(t, "fresh") == 0}
	if rapid.IntRange(0, 2).Draw(t, "windowed") == 0 {
		c.q.Window, c.q.Sinks = rapid.SampledFrom([]int{1, 16, 20, 33}).Draw(t, "window"), rapid.SampledFrom([]int{0, 4, 17}).Draw(t, "sinks")
	}
	alike := rapid.Bool().Draw(t, "alike")
	for p := range n {
		tok := int32(p % 3)
		if !alike {
			tok = int32(p+i) % 5
		}
		c.q.Tokens = append(c.q.Tokens, tok)
	}
	if m.s.Fits(c.q) != nil {
		return 0
	}
	m.seqs = append(m.seqs, c)
	m.s.Add(c.q)
	return (n + c.want) * c.q.Loops * 2
}

// drive runs one sequence alone to the end of its known tokens.
func drive(t *testing.T, s *Scheduler, q *Seq) {
	t.Helper()
	s.Add(q)
	for q.Computed < len(q.Tokens) {
		plan := s.Next()
		for _, sp := range plan.Enter {
			s.Commit(sp.Seq, sp.N)
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
	}
}

func seq(n, loops int) *Seq {
	q := &Seq{Loops: loops, Limit: n + 8}
	for i := range n {
		q.Tokens = append(q.Tokens, int32(i))
	}
	return q
}

// TestPrefixAcrossLoops: what 8 loops computed serves 4; the reverse does not, until the deeper request has filled in its loops. A coda
// is good only for the same loop count.
func TestPrefixAcrossLoops(t *testing.T) {
	for _, coda := range []int{0, 1} {
		s := New(Config{Prelude: 1, Core: 2, Coda: coda, Pages: 1000, StepRows: 64, MaxSeqs: 4})
		run := func(loops, want int) {
			t.Helper()
			q := seq(50, loops)
			drive(t, s, q)
			if q.Cached != want {
				t.Errorf("coda %d: %d loops found %d positions, want %d", coda, loops, q.Cached, want)
			}
			s.Drop(q)
		}
		run(8, 0)
		run(8, 48)
		run(4, 48*(1-coda))
		run(4, 48)
		run(8, 48)
		run(9, 0)
		run(9, 48)
		run(5, 48*(1-coda))
	}
}

// TestWindowKeepsApart: a prefix computed under a window is found only under the same window, even after its middle has been evicted.
func TestWindowKeepsApart(t *testing.T) {
	s := New(Config{Core: 1, Pages: 1000, StepRows: 64, MaxSeqs: 4})
	run := func(window, sinks, want int) {
		t.Helper()
		q := seq(200, 1)
		q.Window, q.Sinks = window, sinks
		drive(t, s, q)
		if q.Cached != want {
			t.Errorf("window %d+%d found %d positions, want %d", sinks, window, q.Cached, want)
		}
		if held, _, _ := s.Pages(); window > 0 && held > peak(200, window, sinks) {
			t.Errorf("window %d+%d holds %d pages at the end", sinks, window, held)
		}
		s.Drop(q)
	}
	run(0, 0, 0)
	run(32, 4, 0)
	run(32, 4, 192)
	run(32, 0, 0)
	run(0, 0, 192)
	run(0, 4, 192) // sinks mean nothing without a window
}

// TestEvictionOrder: under pressure the least recently used prefix goes first, its end before its head.
func TestEvictionOrder(t *testing.T) {
	s := New(Config{Core: 1, Pages: 10, StepRows: 64, MaxSeqs: 4})
	a, b := seq(64, 1), seq(64, 1)
	b.Tokens[0] = 99
	drive(t, s, a)
	s.Drop(a)
	drive(t, s, b)
	s.Drop(b)
	c := seq(60, 1) // needs 4 pages, 2 are free: two of the oldest prompt's last blocks go
	c.Tokens[0] = 77
	drive(t, s, c)
	s.Drop(c)
	again := seq(64, 1)
	drive(t, s, again)
	if again.Cached != 32 {
		t.Errorf("of the oldest prompt %d positions are left, want 32", again.Cached)
	}
}

// TestLongPromptDoesNotStarve: while a long prompt is prefilled, an answer that decodes gets a row as soon as its last one is complete, and a
// newcomer gets its share of the next chunk.
func TestLongPromptDoesNotStarve(t *testing.T) {
	s := New(Config{Core: 1, Pages: 1000, StepRows: 16, MaxSeqs: 8})
	long, short := seq(1000, 1), seq(3, 1)
	s.Add(short)
	s.Commit(s.Next().Enter[0].Seq, 3)
	s.Add(long)
	late := seq(20, 1)
	late.Tokens[0] = 99
	for step := range 20 {
		short.Tokens = append(short.Tokens, 1)
		short.Limit++
		if step == 5 {
			s.Add(late)
		}
		got := map[*Seq]int{}
		for _, sp := range s.Next().Enter {
			got[sp.Seq] = sp.N
			s.Commit(sp.Seq, sp.N)
		}
		if got[short] != 1 {
			t.Fatalf("step %d: the running answer got %d rows", step, got[short])
		}
		if step == 5 && (got[late] < 7 || got[long] < 7) {
			t.Errorf("the newcomer got %d rows, the long prompt %d", got[late], got[long])
		}
	}
}

// TestPressure: when pages run out the youngest gives way, keeps its tokens and comes back; nobody fails.
func TestPressure(t *testing.T) {
	s := New(Config{Core: 1, Pages: 4, StepRows: 16, MaxSeqs: 8, NoPrefixCache: true})
	old, young := seq(16, 1), seq(16, 1)
	old.Limit, young.Limit = 64, 64
	s.Add(old)
	s.Add(young)
	for old.Computed < 64 {
		for _, sp := range s.Next().Enter {
			s.Commit(sp.Seq, sp.N)
			if q := sp.Seq; q.Computed == len(q.Tokens) && q.Computed < q.Limit {
				q.Tokens = append(q.Tokens, 1)
			}
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
	}
	if young.Preempted == 0 || young.Running() || len(young.Tokens) < 17 {
		t.Errorf("the younger one: preempted %d times, running %v, %d tokens", young.Preempted, young.Running(), len(young.Tokens))
	}
	s.Drop(old)
	s.Next()
	if !young.Running() {
		t.Error("the younger one does not come back")
	}
}

func TestFits(t *testing.T) {
	s := New(Config{Prelude: 1, Core: 2, Pages: 100, StepRows: 16, MaxSeqs: 8})
	for _, c := range []struct {
		limit, loops, window, sinks int
		ok                          bool
	}{{16 * 20, 2, 0, 0, true}, {16*20 + 1, 2, 0, 0, false}, {100000, 2, 256, 4, true}, {100000, 8, 256, 4, false}} {
		err := s.Fits(&Seq{Limit: c.limit, Loops: c.loops, Window: c.window, Sinks: c.sinks})
		if (err == nil) != c.ok || err != nil && fault.Of(err) != fault.TooLong {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
