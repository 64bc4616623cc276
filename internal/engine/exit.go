package engine

import (
	"math"

	"tinyloop/internal/fault"
	"tinyloop/internal/invariants"
	"tinyloop/internal/model"
)

// This file is early exit: a decoded position whose rule says that more passes would not change it is read out before its depth, and the passes
// are really left out.
//
// What a position that left at loop e lacks are its K/V of loops e and later. With the exact policy its row is parked: it keeps its state, and
// makes the missing passes as an extra row of the turns in which a younger row of its sequence needs them. Rows of a sequence so lie on a
// staircase, older ones at least as deep as younger ones:
//
//	loop 4 |   p                         a row turns if it is the live one (q), or if the next younger
//	loop 3 |     p                       row stands at the same loop and turns
//	loop 2 |       p q
//	       +------------ position
//
// With the lossy policy the K/V of the last pass made stand for the missing ones, and the row leaves for good.
//
// The coda runs where a row is read out, so its K/V of a position are those of its exit, under both policies.
//
// In a mode that guesses several rows of a branch run at a time, and each must leave where it would alone. The state of a row does not depend on
// when older ones leave, because no row is ever deeper than an older one; what it says does, where there is a coda or where the older one's token
// was guessed wrong. So rows leave strictly in order: one whose rule has spoken is held at its loop until every older one has its token, and with it
// those behind it at that loop. Rules that look at logits are not asked before that where there is a coda. A held row is as good for a guess as
// any, and better: it says what will come out if it was guessed right.

// Rule is what decides about an early exit after a pass.
type Rule uint8

const (
	NoExit      Rule = iota
	ExitGate         // the exit gate's cumulative probability reaches the threshold (Ouro, arXiv 2510.25741)
	ExitLatent       // the state's relative change is below the threshold
	ExitAccel        // the change's relative change is below the threshold
	ExitKL           // the divergence from the distribution one pass before is below the threshold (Huginn, arXiv 2502.05171)
	ExitEntropy      // the entropy has changed by less than the threshold
	ExitArgmax       // the most probable token has been the same for so many passes
)

// Exit is a request's early exit; the zero value is none.
type Exit struct {
	Rule      Rule
	Threshold float32 // 0 = the rule's default
	MinLoops  int     // passes that are made in any case, 0 = 1
	Deepest   bool    // lossy: later tokens see the K/V of the last pass made in place of the missing ones
}

// defaultThreshold of each rule; those of Huginn's published code where it has one.
func (r Rule) defaultThreshold() float32 {
	return [...]float32{NoExit: 0, ExitGate: 0.5, ExitLatent: 0.03, ExitAccel: 0.03, ExitKL: 5e-4, ExitEntropy: 1e-3, ExitArgmax: 2}[r]
}

// byHead says whether the rule looks at logits, so that coda and head run after every pass.
func (r Rule) byHead() bool { return r >= ExitKL }

// exiting is the state of a choice's early exits.
type exiting struct {
	exit   Exit
	hist   []int32 // [Loops+1] tokens by passes made
	eager  bool    // no row waits at the draft depth for guesses, because they stop before it
	parked int     // rows in flight that have left
	alive  int64   // the last step in which there were others
}

// probe is what a rule has seen of a row.
type probe struct {
	survive float64   // of ExitGate: the probability of not having left so far
	last    []float32 // of ExitKL: the logits of the pass before
	entropy float64
	best    int32
	same    int
	tested  bool // there was a pass before
}

func (e *Engine) validateExit(r *Request) error {
	x := &r.Exit
	if x.Rule == NoExit {
		return nil
	}
	loops := e.depth(r)
	switch {
	case x.Rule > ExitArgmax:
		return fault.New(fault.Invalid, "exit.rule", "exit.rule is %d, allowed are 0 to %d", x.Rule, ExitArgmax)
	case x.Rule == ExitGate && !e.lim.Gate:
		return fault.New(fault.Invalid, "exit.rule", "exit.rule gate needs a model with an exit gate, this one has none")
	case !(x.Threshold >= 0) || math.IsInf(float64(x.Threshold), 0):
		return fault.New(fault.Invalid, "exit.threshold", "exit.threshold is %v, allowed is a number of at least 0", x.Threshold)
	case x.MinLoops < 0 || x.MinLoops > loops:
		return fault.New(fault.Invalid, "exit.min_loops", "exit.min_loops is %d, allowed are 1 to %d", x.MinLoops, loops)
	}
	return nil
}

// setExit makes room for early exits.
func (e *Engine) setExit(c *choice, x Exit) {
	if x.Rule == NoExit || c.seq.Loops < 2 {
		return
	}
	if x.Threshold == 0 {
		x.Threshold = x.Rule.defaultThreshold()
	}
	c.exit, c.hist, c.alive = x, make([]int32, c.seq.Loops+1), -1
	c.eager = e.lim.Coda > 0 && x.Rule.byHead()
	if x.Deepest || e.lim.Coda > 0 {
		c.serial()
	}
}

// serial lets the decoded positions of a choice enter one after the other, and be computed so again after a preemption: their K/V depend on how
// they were decoded, so they are nobody else's either.
func (c *choice) serial() {
	n := len(c.job.req.Prompt)
	c.seq.Upto, c.seq.Share = n, n
}

// exits says whether the row of a position may leave early.
func (b *branch) exits(pos int) bool {
	c := b.c
	return c.exit.Rule != NoExit && pos >= len(c.job.req.Prompt) && (c.seq.Upto > 0 || b.side || pos == len(b.seq.Tokens)-1)
}

// watches prepares a row that may leave early.
func (e *Engine) watches(c *choice, r *model.Row) {
	r.Want, r.Watch = true, !c.exit.Rule.byHead()
	p := &e.probes[r.State]
	p.survive, p.tested, p.same = 1, false, 0
}

// ripe says whether row i, which stands before its depth, is to be read out: for good, or to look at its logits. One that must wait for older rows
// is held.
func (e *Engine) ripe(i, moved int, turned bool) (kind landing, yes bool) {
	s, loop := &e.of[i], int(e.rows[i].Loop)
	if !turned && !s.held {
		return passes, false
	}
	c := s.b.c
	x := &c.exit
	first := !s.b.side && s.b.unsettled != e.steps.Load()
	byHead := x.Rule.byHead()
	if turned && !byHead && e.still(c, e.rows[i].State, e.r.Moved(moved)) {
		s.ripe = loop >= x.MinLoops
	}
	switch {
	case s.ripe:
		kind, yes = exits, first
	case byHead && loop >= x.MinLoops-1:
		kind, yes = looks, first || e.lim.Coda == 0
	default:
		return passes, false
	}
	s.held = !yes
	return kind, yes
}

// still judges a row by how its state has moved in a pass.
func (e *Engine) still(c *choice, state int32, m model.Motion) bool {
	x := &c.exit
	switch x.Rule {
	case ExitGate:
		p := &e.probes[state]
		p.survive *= 1 - float64(m.Gate)
		return 1-p.survive >= float64(x.Threshold)
	case ExitLatent:
		return m.Change < x.Threshold
	}
	return m.Accel < x.Threshold
}

// converged compares the logits of a pass with those of the pass before.
func (e *Engine) converged(c *choice, state int32, logits []float32) bool {
	x, p := &c.exit, &e.probes[state]
	first := !p.tested
	p.tested = true
	switch x.Rule {
	case ExitKL:
		if p.last == nil { // once a state, and only for those that need it
			p.last = make([]float32, e.lim.Vocab)
		}
		stop := !first && e.sampler.Divergence(logits, p.last) < float64(x.Threshold)
		copy(p.last, logits)
		return stop
	case ExitEntropy:
		h := e.sampler.Entropy(logits)
		stop := !first && math.Abs(h-p.entropy) < float64(x.Threshold)
		p.entropy = h
		return stop
	}
	best := e.sampler.Rank(logits, &c.job.plain, 1, nil, nil)
	id := int32(0)
	if len(best) > 0 {
		id = best[0]
	}
	if p.same++; first || id != p.best {
		p.same = 1
	}
	p.best = id
	return float32(p.same) >= x.Threshold
}

// looked judges a row by its logits after a pass.
func (e *Engine) looked(c *choice, d *departure) {
	i := e.find(d.b, int(d.pos))
	if i < 0 {
		return
	}
	r, s := &e.rows[i], &e.of[i]
	if !e.converged(c, r.State, e.r.Logits(int(d.out))) || int(r.Loop) < c.exit.MinLoops {
		return
	}
	if int(d.pos) >= c.agreed() {
		s.ripe, s.held = true, true
		return
	}
	e.depleted(c, d)
}

// depleted takes the token of a row that leaves early.
func (e *Engine) depleted(c *choice, d *departure) {
	i := e.find(d.b, int(d.pos))
	if i < 0 {
		return
	}
	pos, loop := int(d.pos), int(e.rows[i].Loop)
	if invariants.Enabled {
		invariants.Check(pos < c.agreed(), "a row leaves before the token that it holds is agreed")
	}
	if pos == c.agreed()-1 {
		c.hist[loop]++
		c.passes = loop
		if e.next(c, e.r.Logits(int(d.out))); c.done {
			return
		}
		i = e.find(d.b, pos)
	}
	r, s := &e.rows[i], &e.of[i]
	if !c.exit.Deepest {
		r.Want, r.Watch = false, false
		if s.round {
			s.b.live--
		}
		s.parked, s.ripe, s.held = true, false, false
		c.parked++
		c.advance(pos)
		return
	}
	e.fill(r)
	e.lift(i)
	e.sch.Commit(&c.seq, 1)
	c.advance(pos)
}

// advance lets the position behind pos enter.
func (c *choice) advance(pos int) {
	if c.seq.Upto > 0 {
		c.seq.Upto = max(c.seq.Upto, pos+2)
	}
}

// fill lets the K/V of the last pass of a row stand for those of the passes it does not make.
func (e *Engine) fill(r *model.Row) {
	core, block, lane := e.lim.Core, int(r.Pos)/model.PagePositions, int(r.Pos)%model.PagePositions
	last := e.lim.Prelude + (int(r.Loop)-1)*core
	for loop := int(r.Loop); loop < int(r.Depth); loop++ {
		for k := range core {
			dst, src := r.Pages[e.lim.Prelude+loop*core+k][block], r.Pages[last+k][block]
			e.r.CopyCell(dst, src, lane)
		}
	}
}

// find is the place of a row in flight, -1 if it is not there.
func (e *Engine) find(b *branch, pos int) int {
	for i := range e.rows {
		if e.of[i].b == b && int(e.rows[i].Pos) == pos {
			return i
		}
	}
	return -1
}

// hold marks the rows that make no pass in this step because they, or older ones of their branch at the same loop, wait for a readout.
func (e *Engine) hold() {
	step := e.steps.Load()
	for i := range e.of {
		s := &e.of[i]
		b, loop := s.b, e.rows[i].Loop
		s.idle = !s.parked && (s.held || b.stop == pause{step, loop})
		if s.idle {
			b.stop = pause{step, loop}
		}
	}
}

// park marks which parked rows make none; see above. Where live rows are missing, because they found no room, and where more rows are parked than
// there is room for, they go on by themselves.
func (e *Engine) park() {
	step, any := e.steps.Load(), false
	for i := range e.of {
		if any = any || e.of[i].parked; !e.of[i].parked {
			e.of[i].b.c.alive = step
		}
	}
	if !any {
		return
	}
	most := max(1, e.cfg.StepRows/2/max(1, e.sch.Running()))
	for i := len(e.of) - 1; i >= 0; i-- {
		s, loop := &e.of[i], e.rows[i].Loop
		b, c := s.b, s.b.c
		if s.parked {
			s.idle = c.alive == step && b.next != pause{step, loop} && !(c.parked > most && e.oldest(i))
		}
		b.next = pause{step, loop}
		if s.idle {
			b.next.step = -1
		}
	}
}

// oldest says whether row i is the oldest of its branch in flight.
func (e *Engine) oldest(i int) bool {
	for k := range i {
		if e.of[k].b == e.of[i].b {
			return false
		}
	}
	return true
}
