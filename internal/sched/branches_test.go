package sched

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// This file drives the scheduler as an engine with guesses, trees and shared loops does: rows are read out on their way and guesses enter behind them,
// side branches hang on a sequence until a token is settled, loops share pages once a prompt is complete.

// line is a trunk or a side branch of a party.
type line struct {
	p    *party
	q    *Seq
	side bool
	open bool // side only
}

// party is an answer with its branches.
type party struct {
	trunk  line
	sides  []*line
	prompt int
	left   int // tokens until it ends
	draft  int // loops before a guess, 0 = it does not guess
	ahead  int
	folded int // positions
}

func (p *party) agreed() int { return len(p.trunk.q.Tokens) - p.trunk.q.Drafts }

// ride is a row in flight.
type ride struct {
	l         *line
	pos, loop int
	gone      bool
}

type crowd struct {
	t                                    *rapid.T
	s                                    *Scheduler
	flight                               []*ride
	parties                              []*party
	asked                                []*line
	clock                                int
	branched, promoted, retracted, folds int
}

func (m *crowd) check(after string) {
	if err := m.s.Check(); err != nil {
		m.t.Fatalf("step %d, after %s: %v", m.clock, after, err)
	}
}

// ground takes the rows of a line from a position on out of flight.
func (m *crowd) ground(l *line, from int) {
	for _, r := range m.flight {
		if r.l == l && r.pos >= from {
			r.gone = true
		}
	}
}

func (m *crowd) prune(p *party) {
	for _, l := range p.sides {
		if l.open {
			l.open, l.q.Drafts = false, 0
			m.ground(l, 0)
			m.s.Drop(l.q)
		}
	}
}

// leave is the way out of a party.
func (m *crowd) leave(p *party) {
	m.prune(p)
	m.ground(&p.trunk, 0)
	m.s.Drop(p.trunk.q)
	m.parties = slices.DeleteFunc(m.parties, func(o *party) bool { return o == p })
	m.check("leave")
}

func (m *crowd) displaced(l *line) {
	p := l.p
	m.ground(l, 0)
	l.q.Drafts = 0
	if l.side {
		l.open = false
		return
	}
	l.q.Tokens = l.q.Tokens[:min(len(l.q.Tokens), p.prompt+p.settled())]
	m.prune(p)
	p.folded = 0
	if l.q.Upto > 0 {
		l.q.Upto = min(l.q.Upto, p.prompt)
	}
}

// settled is how many tokens behind the prompt are agreed.
func (p *party) settled() int { return p.trunk.q.Limit + 1 - p.prompt - p.left }

func (m *crowd) step() {
	plan := m.s.Next()
	m.clock++
	for _, q := range plan.Preempted {
		m.displaced(q.Owner.(*line))
	}
	for _, sp := range plan.Enter {
		l := sp.Seq.Owner.(*line)
		for i := range sp.N {
			m.flight = append(m.flight, &ride{l: l, pos: sp.From + i})
		}
	}
	m.withdraw()
	m.check("entering")
	m.flight = slices.DeleteFunc(m.flight, func(r *ride) bool { return r.gone })
	if len(m.flight) == 0 && len(m.parties) > 0 && len(plan.Preempted) == 0 {
		m.t.Fatalf("step %d: nothing in flight, %d answers unfinished", m.clock, len(m.parties))
	}
	for _, r := range slices.Clone(m.flight) {
		if r.gone {
			continue
		}
		if r.loop++; r.loop == r.l.q.Loops {
			r.gone = true
			m.land(r)
		} else if r.l.p.draft > 0 && r.loop == r.l.p.draft {
			m.guess(r)
		}
	}
	m.flight = slices.DeleteFunc(m.flight, func(r *ride) bool { return r.gone })
}

// withdraw takes back the guesses that found no room.
func (m *crowd) withdraw() {
	for _, l := range m.asked {
		q := l.q
		if q.Drafts == 0 || q.Entered == len(q.Tokens) || l.side && !l.open {
			continue
		}
		q.Tokens, q.Drafts = q.Tokens[:len(q.Tokens)-1], q.Drafts-1
		if l.side && q.Drafts == 0 {
			l.open = false
			m.s.Drop(q)
		}
	}
	m.asked = m.asked[:0]
}

func (m *crowd) ask(l *line, id int32) {
	l.q.Tokens = append(l.q.Tokens, id)
	l.q.Drafts++
	m.asked = append(m.asked, l)
}

// guess puts a token behind the youngest row of a line, and behind the last agreed one perhaps side branches too.
func (m *crowd) guess(r *ride) {
	l, p := r.l, r.l.p
	q := l.q
	if r.pos != len(q.Tokens)-1 || q.Entered != len(q.Tokens) || q.Drafts >= p.ahead || len(q.Tokens) >= q.Limit || r.pos < p.prompt-1 {
		return
	}
	m.ask(l, 1)
	if l.side || q.Drafts != 1 || q.Entered != p.agreed() {
		return
	}
	for i, side := range p.sides {
		if side.open {
			continue
		}
		c := side.q
		c.Loops, c.Window, c.Sinks, c.Limit, c.NoCache, c.Owner = q.Loops, q.Window, q.Sinks, q.Limit, true, side
		if _, ok := m.s.Branch(q, c, func(dst, src int32) {}); !ok {
			break
		}
		m.branched++
		side.open = true
		c.Tokens, c.Drafts = append(c.Tokens[:0], q.Tokens[:p.agreed()]...), 0
		m.ask(side, int32(2+i))
		m.check("branch")
	}
}

// land is a row at its depth.
func (m *crowd) land(r *ride) {
	l, p := r.l, r.l.p
	if l.side {
		m.t.Fatalf("step %d: a row of a side branch is deeper than what it hangs on", m.clock)
	}
	q := l.q
	m.s.Commit(q, 1)
	if q.Upto > 0 {
		q.Upto = max(q.Upto, r.pos+2)
	}
	m.fold(p)
	m.check("commit")
	if r.pos != p.agreed()-1 {
		return
	}
	if p.left--; p.left <= 0 {
		m.leave(p)
		return
	}
	m.agree(p, int32(rapid.SampledFrom([]int{1, 1, 1, 2, 3, 9}).Draw(m.t, "token")))
	m.check("agree")
}

func (m *crowd) agree(p *party, id int32) {
	q, at := p.trunk.q, p.agreed()
	if q.Drafts > 0 && q.Tokens[at] == id {
		q.Drafts--
		m.prune(p)
		return
	}
	for _, side := range p.sides {
		if side.open && side.q.Tokens[at] == id {
			m.promote(p, side, at)
			return
		}
	}
	m.prune(p)
	if q.Drafts > 0 {
		m.ground(&p.trunk, at)
		m.s.Retract(q, min(at, q.Entered))
		m.retracted++
	}
	q.Tokens, q.Drafts = append(q.Tokens[:at], id), 0
}

func (m *crowd) promote(p *party, side *line, at int) {
	q := p.trunk.q
	m.ground(&p.trunk, at)
	q.Tokens = append(q.Tokens[:at], side.q.Tokens[at:]...)
	q.Drafts = len(q.Tokens) - at - 1
	m.s.Promote(q, side.q)
	side.open, side.q.Drafts = false, 0
	for _, r := range m.flight {
		if r.l == side && !r.gone {
			r.l = &p.trunk
		}
	}
	for i, l := range m.asked {
		if l == side {
			m.asked[i] = &p.trunk
		}
	}
	m.promoted++
	m.prune(p)
}

// fold shares pages between loops once the prompt is complete.
func (m *crowd) fold(p *party) {
	q := p.trunk.q
	if q.Fold == (Fold{}) || q.Computed < p.prompt || !q.Running() {
		return
	}
	if !q.Fold.Mean {
		if p.folded == 0 {
			m.s.Collapse(q)
			m.folds++
		}
		p.folded = q.Computed
		return
	}
	for p.folded < q.Computed {
		b := p.folded / PageLen
		if p.folded = min(q.Computed, (b+1)*PageLen); p.folded == (b+1)*PageLen {
			m.s.Merge(q, b)
			m.folds++
		}
	}
}

func (m *crowd) arrive(i int) (work int) {
	t := m.t
	p := &party{prompt: rapid.IntRange(1, 60).Draw(t, "prompt"), left: rapid.IntRange(1, 40).Draw(t, "want")}
	q := &Seq{Loops: rapid.IntRange(1, 5).Draw(t, "loops"), Limit: p.prompt + p.left - 1}
	p.trunk = line{p: p, q: q}
	q.Owner = &p.trunk
	if rapid.IntRange(0, 3).Draw(t, "windowed") == 0 {
		q.Window, q.Sinks = rapid.SampledFrom([]int{16, 20, 33}).Draw(t, "window"), rapid.SampledFrom([]int{0, 4, 17}).Draw(t, "sinks")
	}
	switch kind := rapid.IntRange(0, 2).Draw(t, "kind"); {
	case kind == 1 && q.Loops > 1:
		p.draft, p.ahead = rapid.IntRange(1, q.Loops-1).Draw(t, "draft"), rapid.IntRange(1, 5).Draw(t, "ahead")
		for range rapid.IntRange(0, 2).Draw(t, "branches") {
			p.sides = append(p.sides, &line{p: p, q: &Seq{}, side: true})
		}
	case kind == 2 && q.Loops > 1:
		q.Fold = rapid.SampledFrom([]Fold{{Mod: 1}, {Mod: 2}, {Mean: true}}).Draw(t, "fold")
		q.Upto, q.Share, q.NoCache = p.prompt, p.prompt, q.Fold.Mean
	}
	for k := range p.prompt {
		q.Tokens = append(q.Tokens, int32(k%3+i%2))
	}
	if m.s.Fits(q) != nil {
		return 0
	}
	m.parties = append(m.parties, p)
	m.s.Add(q)
	return (p.prompt + p.left) * q.Loops * 2
}

// TestCrowd: random arrivals, cancels and depths of answers that guess, branch and share pages between loops, beside plain ones. Pages add up after
// every event, everyone ends within a bound, and at the end no page is held.
func TestCrowd(t *testing.T) {
	var branched, promoted, retracted, folds int
	prop := func(t *rapid.T) {
		cfg := Config{
			Prelude: rapid.IntRange(0, 2).Draw(t, "prelude"), Core: rapid.IntRange(1, 2).Draw(t, "core"), Coda: rapid.IntRange(0, 1).Draw(t, "coda"),
			Pages: rapid.IntRange(30, 400).Draw(t, "pages"), StepRows: rapid.IntRange(1, 24).Draw(t, "rows"),
			MaxSeqs: rapid.IntRange(1, 8).Draw(t, "seqs"), NoPrefixCache: rapid.Bool().Draw(t, "nocache"),
		}
		cfg.ChunkRows = rapid.IntRange(0, cfg.StepRows).Draw(t, "chunk")
		m := &crowd{t: t, s: New(cfg)}
		arrivals, total, added := rapid.IntRange(1, 12).Draw(t, "arrivals"), 0, 0
		for added < arrivals || len(m.parties) > 0 {
			if added < arrivals && rapid.IntRange(0, 3).Draw(t, "arrive") == 0 {
				total += m.arrive(added)
				added++
			}
			if len(m.parties) > 0 && rapid.IntRange(0, 60).Draw(t, "cancel") == 0 {
				m.leave(m.parties[rapid.IntRange(0, len(m.parties)-1).Draw(t, "whom")])
			}
			m.step()
			if bound := 2000 + 60*total; m.clock > bound {
				t.Fatalf("not finished after %d steps: %d running, %d waiting", m.clock, m.s.Running(), m.s.Waiting())
			}
		}
		if held, cached, all := m.s.Pages(); held != 0 || cached+len(m.s.pool.free) != all || m.s.Flight() != 0 {
			t.Fatalf("at the end %d pages are held, %d cached, %d rows in flight", held, cached, m.s.Flight())
		}
		branched, promoted, retracted, folds = branched+m.branched, promoted+m.promoted, retracted+m.retracted, folds+m.folds
	}
	// A run of few crowds, as of -short, may lack the rare events: it goes on until each was met.
	for range 20 {
		rapid.Check(t, prop)
		if t.Failed() || branched > 0 && promoted > 0 && retracted > 0 && folds > 0 {
			return
		}
	}
	t.Errorf("%d branches, %d of them right, %d guesses taken back, %d folds: something never happened", branched, promoted, retracted, folds)
}

// TestEvictBesideFold: a sequence that has folded its loops holds the deepest pages of indexed blocks without the others. When those are evicted,
// the held ones stay its own.
func TestEvictBesideFold(t *testing.T) {
	s := New(Config{Prelude: 1, Core: 1, Pages: 20, StepRows: 64, MaxSeqs: 4})
	run := func(q *Seq) {
		s.Add(q)
		for q.Computed < len(q.Tokens) {
			plan := s.Next()
			if len(plan.Enter) == 0 {
				t.Fatalf("nothing enters, %d of %d positions are there", q.Computed, len(q.Tokens))
			}
			for _, sp := range plan.Enter {
				s.Commit(sp.Seq, sp.N)
			}
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
		}
	}
	folded := &Seq{Tokens: make([]int32, 40), Loops: 3, Limit: 40, Share: 40, Fold: Fold{Mod: 1}}
	run(folded)
	s.Collapse(folded)
	if held, cached, _ := s.Pages(); held != 6 || cached != 4 {
		t.Fatalf("%d pages held, %d cached: want prelude and last loop of 3 blocks, and two loops of 2", held, cached)
	}
	other := &Seq{Tokens: make([]int32, 48), Loops: 3, Limit: 48, NoCache: true} // 12 of the 14 pages left
	run(other)
	s.Drop(folded)
	s.Drop(other)
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	if held, _, _ := s.Pages(); held != 0 {
		t.Errorf("%d pages are held", held)
	}
}
