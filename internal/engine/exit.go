package engine

import (
	"math"

	"tinyloop/internal/fault"
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
	exit     Exit
	hist     []int32 // [Loops+1] tokens by passes made
	survive  float64 // of ExitGate: the probability of not having left so far
	last     []float32
	tested   bool // last holds the logits of the pass before
	entropy  float64
	best     int32
	same     int
	stamp    int64 // step of the next four
	alive    bool  // has a row that is not parked
	parked   int
	nextLoop int32 // of the next younger row in the scan
	nextTurn bool
}

func (e *Engine) validateExit(r *Request) error {
	x := &r.Exit
	if x.Rule == NoExit {
		return nil
	}
	loops := r.Loops
	if loops == 0 {
		loops = e.lim.Loops.Default
	}
	switch {
	case x.Rule > ExitArgmax:
		return fault.New(fault.Invalid, "exit.rule", "exit.rule is %d, allowed are 0 to %d", x.Rule, ExitArgmax)
	case x.Rule == ExitGate && !e.lim.Gate:
		return fault.New(fault.Invalid, "exit.rule", "exit.rule gate needs a model with an exit gate, this one has none")
	case !(x.Threshold >= 0) || math.IsInf(float64(x.Threshold), 0):
		return fault.New(fault.Invalid, "exit.threshold", "exit.threshold is %v, allowed is a number of at least 0", x.Threshold)
	case x.MinLoops < 0 || x.MinLoops > loops:
		return fault.New(fault.Invalid, "exit.min_loops", "exit.min_loops is %d, allowed are 1 to %d", x.MinLoops, loops)
	case r.Mode != Autoregressive:
		return fault.New(fault.Unsupported, "exit", "exit and a mode that guesses exclude each other: a guess is judged at the full depth")
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
	c.exit, c.hist, c.stamp = x, make([]int32, c.seq.Loops+1), -1
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
func (c *choice) exits(pos int) bool {
	return c.exit.Rule != NoExit && pos >= len(c.job.req.Prompt) && (c.seq.Upto > 0 || pos == len(c.seq.Tokens)-1)
}

// watches prepares a row that may leave early.
func (c *choice) watches(r *model.Row) {
	r.Want, r.Exit, r.Watch = true, true, !c.exit.Rule.byHead()
	c.survive, c.tested, c.same = 1, false, 0
}

// ripe says whether row i, which has just turned and stands before its depth, is to be read out: for good, or to look at its logits.
func (e *Engine) ripe(i, moved int) (kind landing, yes bool) {
	c, loop := e.of[i].b.c, int(e.rows[i].Loop)
	x := &c.exit
	if x.Rule.byHead() {
		return looks, loop >= x.MinLoops-1
	}
	m := e.r.Moved(moved)
	stop := false
	switch x.Rule {
	case ExitGate:
		c.survive *= 1 - float64(m.Gate)
		stop = 1-c.survive >= float64(x.Threshold)
	case ExitLatent:
		stop = m.Change < x.Threshold
	case ExitAccel:
		stop = m.Accel < x.Threshold
	}
	return exits, stop && loop >= x.MinLoops
}

// converged compares the logits of a pass with those of the pass before.
func (e *Engine) converged(c *choice, logits []float32) bool {
	x, first := &c.exit, !c.tested
	c.tested = true
	switch x.Rule {
	case ExitKL:
		if c.last == nil { // once a choice, and only for those that run
			c.last = make([]float32, e.lim.Vocab)
		}
		stop := !first && e.sampler.Divergence(logits, c.last) < float64(x.Threshold)
		copy(c.last, logits)
		return stop
	case ExitEntropy:
		h := e.sampler.Entropy(logits)
		stop := !first && math.Abs(h-c.entropy) < float64(x.Threshold)
		c.entropy = h
		return stop
	}
	best := e.sampler.Rank(logits, &c.job.plain, 1, nil, nil)
	id := int32(0)
	if len(best) > 0 {
		id = best[0]
	}
	if c.same++; first || id != c.best {
		c.same = 1
	}
	c.best = id
	return float32(c.same) >= x.Threshold
}

// looked judges a row by its logits after a pass.
func (e *Engine) looked(c *choice, d *departure) {
	i := e.find(d.b, int(d.pos))
	if i < 0 {
		return
	}
	logits := e.r.Logits(int(d.out))
	if e.converged(c, logits) && int(e.rows[i].Loop) >= c.exit.MinLoops {
		e.depleted(c, d)
	}
}

// depleted takes the token of a row that leaves early.
func (e *Engine) depleted(c *choice, d *departure) {
	i := e.find(d.b, int(d.pos))
	if i < 0 {
		return
	}
	pos, loop := int(d.pos), int(e.rows[i].Loop)
	if pos == c.agreed()-1 {
		c.hist[loop]++
		if e.next(c, e.r.Logits(int(d.out))); c.done {
			return
		}
		i = e.find(d.b, pos)
	}
	if !c.exit.Deepest {
		e.rows[i].Want, e.rows[i].Watch = false, false
		e.of[i].parked = true
		c.advance(pos)
		return
	}
	e.fill(&e.rows[i])
	e.ground(d.b, pos)
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

// park marks which rows of choices with early exits turn in this step; see above. Where the live row is missing, because it found no room, and
// where more rows are parked than there is room for, they go on by themselves.
func (e *Engine) park() {
	step, any := e.steps.Load(), false
	for i := range e.of {
		s := &e.of[i]
		c := s.b.c
		if s.idle = false; c.exit.Rule == NoExit {
			continue
		}
		any = true
		if c.stamp != step {
			c.stamp, c.alive, c.parked, c.nextTurn = step, false, 0, false
		}
		if s.parked {
			c.parked++
		} else {
			c.alive = true
		}
	}
	if !any {
		return
	}
	most := max(1, e.cfg.StepRows/2/max(1, e.sch.Running()))
	for i := len(e.of) - 1; i >= 0; i-- {
		s := &e.of[i]
		c := s.b.c
		if c.exit.Rule == NoExit {
			continue
		}
		turns := !s.parked || !c.alive || c.nextTurn && c.nextLoop == e.rows[i].Loop || c.parked > most && e.oldest(i)
		s.idle = !turns
		c.nextLoop, c.nextTurn = e.rows[i].Loop, turns
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
