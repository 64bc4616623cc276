package engine

import (
	"math"

	"tinyloop/internal/fault"
	"tinyloop/internal/model"
	"tinyloop/internal/sched"
)

// This file is what a choice does with guesses. A guess is a token read out of a row on its way, at the draft depth; its own row enters behind and
// turns along. A row of a guess is never computed twice: what it has done when it is judged is part of what it has to do. Guesses stand at the
// end of sched.Seq.Tokens and are counted by Drafts; only agreed tokens reach the sink.
//
//	speculative, draft depth 2 of 6, three guesses          wavefront, draft depth 2 of 6
//
//	loop 6 |              b b b b                            loop 6 |           b 1 . 2
//	loop 5 |              b b b b   rows b and 1 2 3         loop 5 |         b   1 2     one row reaches the end
//	loop 4 |              b b b b   wait at the draft        loop 4 |       b   1   2     every other turn, while
//	loop 3 |              b b b b   depth for the last       loop 3 |     b   1   2       the guesses are right
//	loop 2 |  b   1   2   3                                  loop 2 |   b   1   2
//	loop 1 | b   1   2   3                                   loop 1 | b   1   2
//	        turns ------------------->                               turns ------------->
//
// With y rows in a round, a share a of right guesses and depths d and T, speculative takes y*d + T-d turns for (1-a^y)/(1-a) tokens, and a
// wavefront of at least T/d rows a*d + (1-a)*T turns a token.

// scheme is how a choice guesses, in effect.
type scheme struct {
	mode     Mode // never Auto
	loops    int  // draft depth
	ahead    int  // most guesses a branch
	branches int
}

// draftDepth is the depth of guesses where a request names none: by the calibration that with the fewest turns a token in a wavefront, d for a right
// guess and all for a wrong one; without one for this number of loops a quarter of it.
func draftDepth(agreement []float32, loops int) int {
	best, least := (loops+3)/4, math.Inf(1)
	if len(agreement) != loops {
		return best
	}
	for d := 1; d < loops; d++ {
		a := float64(agreement[d-1])
		if turns := a*float64(d) + (1-a)*float64(loops); turns < least {
			best, least = d, turns
		}
	}
	return best
}

// schemeOf settles what a request leaves open. A depth of one loop leaves nothing to guess from.
func schemeOf(r *Request, loops int, agreement []float32) scheme {
	if r.Mode == Autoregressive || loops < 2 {
		return scheme{}
	}
	s := scheme{mode: r.Mode, loops: r.DraftLoops, ahead: r.DraftAhead, branches: 1}
	if s.loops == 0 {
		s.loops = draftDepth(agreement, loops)
	}
	if s.ahead == 0 {
		s.ahead = DefaultAhead
	}
	switch r.Mode {
	case Wavefront:
		s.ahead = min(s.ahead, (loops+s.loops-1)/s.loops)
	case TreeSpeculative:
		if s.branches = r.Branches; s.branches == 0 {
			s.branches = DefaultBranches
		}
		s.ahead = min(s.ahead, MaxTree/s.branches)
	case Auto: // room for whatever is chosen
		s.ahead, s.branches = autoAhead, autoFan
		if r.Branches > 0 {
			s.branches = min(r.Branches, autoFan)
		}
	}
	return s
}

// waits says whether rows stop at the draft depth until the round is complete.
func (s *scheme) waits() bool { return s.mode == Speculative || s.mode == TreeSpeculative }

// width is the most rows that a branch may have in flight. The trunk's first row is not a guess; a wavefront counts it nevertheless.
func (s *scheme) width(side bool) int {
	if s.waits() && !side {
		return s.ahead + 1
	}
	return s.ahead
}

func (e *Engine) validateDraft(r *Request) error {
	loops := e.depth(r)
	if r.DraftLoops < 0 || r.DraftLoops > 0 && r.DraftLoops >= loops {
		return fault.New(fault.Invalid, "draft_loops", "draft_loops is %d, allowed are 1 to %d, less than the loops of the answer", r.DraftLoops, loops-1)
	}
	if !(r.Accept >= 0 && r.Accept <= 1) {
		return fault.New(fault.Invalid, "accept_threshold", "accept_threshold is %v, allowed is above 0 to 1", r.Accept)
	}
	return e.validateVerify(r, schemeOf(r, loops, e.cfg.Agreement))
}

// drafting is the state of a choice's guesses.
type drafting struct {
	how     scheme
	most    int         // guesses of a branch under any schedule of the choice
	sides   []branch    // the other branches of a tree
	tips    []int32     // first tokens of branches to be made
	also    [][][]int32 // tables that rows of the trunk in an unfinished block write to besides their own
	seqs    []sched.Seq // of the side branches
	shallow int64       // the last step in which a row of the round was below the draft depth

	drafted, judged, accepted, rounds int
}

// branch is one chain of guesses: the trunk, whose sequence is the choice's own, or a side branch.
type branch struct {
	c       *choice
	seq     *sched.Seq
	live    int       // rows of the round in flight whose tokens are still to be taken
	side    bool      // not the trunk
	open    bool      // side only: in use
	dists   []float32 // of Rejection: the distributions behind the guesses, by position
	blocked bool      // no further guess in this round

	unsettled int64 // the last step after which the token of a row in flight was still to be taken
	stop      pause // of its live rows
	next      pause // of the younger row in the scan, which turns
}

// pause is a loop and the step for which that is so.
type pause struct {
	step int64
	loop int32
}

// prepare makes room for the side branches.
func (c *choice) prepare(how scheme) {
	c.how, c.shallow, c.most = how, -1, how.ahead
	c.trunk.clear()
	if how.mode == Auto {
		c.how, c.auto = scheme{}, true
	}
	if how.branches < 2 {
		return
	}
	n := how.branches - 1
	c.sides, c.seqs = make([]branch, n), make([]sched.Seq, n)
	c.tips, c.also = make([]int32, 0, n), make([][][]int32, 0, n)
	for i := range c.sides {
		c.sides[i] = branch{c: c, seq: &c.seqs[i], side: true}
		c.sides[i].clear()
	}
}

// clear makes the steps that a branch remembers none.
func (b *branch) clear() { b.unsettled, b.stop.step, b.next.step = -1, -1, -1 }

// begins counts the rows of a span and says whether they are part of a round of guesses: a guess itself, or the row of the last agreed token,
// which starts a round.
func (e *Engine) begins(b *branch, sp sched.Span) bool {
	c := b.c
	base := b.base(sp)
	if c.auto && base && c.job.forked {
		e.open(c)
	}
	switch {
	case c.how.mode == Autoregressive || !c.job.forked:
		return false
	case b.side || b.seq.Drafts > 0:
		b.live++
		if b.seq.Drafts > 0 {
			c.drafted++
		}
		return true
	case base:
		b.live, b.blocked = 1, false
		c.rounds++
		return true
	}
	return false
}

// base says whether a span is the row of the last agreed token, with nothing of its sequence in flight but parked rows: behind others there may be no
// coda K/V to read out with.
func (b *branch) base(sp sched.Span) bool {
	q := b.seq
	return !b.side && q.Drafts == 0 && sp.N == 1 && sp.From == len(q.Tokens)-1 && q.Computed+b.c.parked == sp.From
}

// withdraw takes back the guesses that found no room in this step, so that no row waits for them.
func (e *Engine) withdraw() {
	for i, b := range e.asked {
		e.asked[i] = nil
		q := b.seq
		if b.c.done || q.Drafts == 0 || q.Entered == len(q.Tokens) || b.side && !b.open {
			continue
		}
		q.Tokens = q.Tokens[:len(q.Tokens)-1]
		q.Drafts--
		b.blocked = true
		if b.side && b.live == 0 {
			e.close(b)
			e.mirror(b.c)
		}
	}
	e.asked = e.asked[:0]
}

// guesses says whether row i is to be read out for a guess: it is the youngest of its branch, deep enough or about to leave, and there is room for
// one more behind it. Rounds that wait at the draft depth are closed once they have gone on.
func (e *Engine) guesses(i int) bool {
	s, r := &e.of[i], &e.rows[i]
	b := s.b
	how := &b.c.how
	deep := int(r.Loop) >= how.loops || s.ripe
	if how.waits() && int(r.Loop) > how.loops {
		deep = false
	}
	return s.round && deep && !s.read && !s.parked && !b.blocked && b.live < how.width(b.side) &&
		int(r.Pos) == len(b.seq.Tokens)-1 && len(b.seq.Tokens) < b.seq.Limit
}

// guess takes a token from an early readout. The random number is that of the token's position, so that where the two depths agree on the
// distribution they agree on the token.
func (e *Engine) guess(d *departure) {
	b, q := d.b, d.b.seq
	c, j := b.c, b.c.job
	if int(d.pos) != len(q.Tokens)-1 || q.Entered != len(q.Tokens) || b.side && !b.open {
		return // overturned in this step
	}
	logits, output := e.r.Logits(int(d.out)), q.Tokens[len(j.req.Prompt):]
	p := e.sampling(c, output)
	first := int(d.pos) == c.agreed()-1
	if j.req.Verify == Rejection {
		// A guess that ends the answer is kept like any other: to drop it for what it is would change the distribution.
		id := e.guessFrom(b, logits, output)
		if first && c.how.branches > 1 {
			e.fanFrom(c, id, len(output))
		}
		e.ask(b, id)
		return
	}
	id := e.sampler.Draw(logits, p, c.n, len(output), j.req.Prompt, output)
	if first && c.how.branches > 1 {
		e.fan(c, id, e.sampler.Rank(logits, p, c.how.branches, j.req.Prompt, output))
	}
	if j.stops(id) {
		b.blocked = true // nothing follows it
		return
	}
	e.ask(b, id)
}

// ask adds a guess to a branch; its row enters in the next step, or never.
func (e *Engine) ask(b *branch, id int32) {
	q := b.seq
	q.Tokens = append(q.Tokens, id)
	q.Drafts++
	if q.Upto > 0 {
		q.Upto = max(q.Upto, len(q.Tokens))
	}
	e.asked = append(e.asked, b)
}

// fan notes the tokens besides id that branches are to begin with.
func (e *Engine) fan(c *choice, id int32, ranked []int32) {
	c.tips = c.tips[:0]
	for _, t := range ranked {
		if t != id && len(c.tips) < c.how.branches-1 && !c.job.stops(t) {
			c.tips = append(c.tips, t)
		}
	}
	if len(c.tips) > 0 && !c.job.stops(id) {
		e.sprouts = append(e.sprouts, c)
	}
}

// sprout makes the side branches of a choice, after the step, because copying pages is a call of the model.
func (e *Engine) sprout(c *choice) {
	if c.done || c.seq.Drafts != 1 || c.seq.Entered != c.agreed() {
		return
	}
	mirrored := false
	for i, tip := range c.tips {
		b := &c.sides[i]
		q := b.seq
		q.Loops, q.Window, q.Sinks, q.Limit, q.NoCache, q.Owner = c.seq.Loops, c.seq.Window, c.seq.Sinks, c.seq.Limit, true, b
		mirror, ok := e.sch.Branch(&c.seq, q, e.copies)
		if !ok {
			break
		}
		b.open, b.live, b.blocked = true, 0, false
		mirrored = mirrored || mirror
		q.Tokens, q.Drafts = append(q.Tokens[:0], c.known()...), 0
		e.ask(b, tip)
	}
	if err := e.copyErr; err != nil {
		e.copyErr = nil
		e.end(c.job, Fail, err)
		return
	}
	if mirrored {
		e.mirror(c)
	}
}

// known is the agreed tokens, prompt included.
func (c *choice) known() []int32 { return c.seq.Tokens[:c.agreed()] }

// mirror lets the rows of the trunk in flight that share an unfinished block with the side branches that are open write to their pages too. Complete
// blocks are shared.
func (e *Engine) mirror(c *choice) {
	c.also = c.also[:0]
	for i := range c.sides {
		if c.sides[i].open {
			c.also = append(c.also, c.sides[i].seq.Pages)
		}
	}
	last := c.agreed() - 1 // the one that branches hang on
	for i := range e.rows {
		if e.of[i].b != &c.trunk {
			continue
		}
		r := &e.rows[i]
		if pos := int(r.Pos); len(c.also) > 0 && pos <= last && pos/model.PagePositions == last/model.PagePositions {
			r.Also = c.also
		} else {
			r.Also = nil
		}
	}
}

// agree takes a token that is settled: the guess at its place is right, or one of the side branches has it, or all of them are wrong.
func (e *Engine) agree(c *choice, id int32) {
	q := &c.seq
	at := c.agreed()
	if q.Drafts > 0 {
		c.judged++
	}
	if c.auto {
		e.learn(c, id, q.Drafts > 0, q.Drafts > 0 && q.Tokens[at] == id)
	}
	if q.Drafts > 0 && q.Tokens[at] == id {
		q.Drafts--
		c.accepted++
		e.prune(c)
		return
	}
	for i := range c.sides {
		if b := &c.sides[i]; b.open && b.seq.Tokens[at] == id {
			e.promote(c, b, at)
			return
		}
	}
	e.prune(c)
	if q.Drafts > 0 {
		e.ground(&c.trunk, at)
		e.sch.Retract(q, min(at, q.Entered))
	}
	q.Tokens, q.Drafts = append(q.Tokens[:at], id), 0
}

// promote goes on with a side branch: its rows, in flight and departed, become the trunk's.
func (e *Engine) promote(c *choice, b *branch, at int) {
	t := &c.trunk
	e.ground(t, at)
	c.seq.Tokens = append(c.seq.Tokens[:at], b.seq.Tokens[at:]...)
	c.seq.Drafts = len(c.seq.Tokens) - at - 1
	if c.seq.Upto > 0 {
		c.seq.Upto = max(c.seq.Upto, len(c.seq.Tokens))
	}
	c.accepted++
	e.sch.Promote(&c.seq, b.seq)
	for i := range e.rows {
		switch e.of[i].b {
		case t:
			e.rows[i].Pages = c.seq.Pages
		case b:
			e.of[i].b = t
		}
	}
	for i := range e.gone {
		switch d := &e.gone[i]; {
		case d.b == t && int(d.pos) >= at:
			d.void = true
		case d.b == b:
			d.b = t
		}
	}
	t.live, b.live = t.live+b.live, 0
	t.dists, b.dists = b.dists, t.dists
	t.blocked = b.blocked
	b.open, b.seq.Drafts = false, 0
	c.tips = c.tips[:0]
	e.prune(c)
	e.mirror(c)
}

// prune ends the side branches of a choice.
func (e *Engine) prune(c *choice) {
	open := false
	for i := range c.sides {
		if b := &c.sides[i]; b.open {
			e.close(b)
			open = true
		}
	}
	if open {
		e.mirror(c)
	}
}

// close ends a side branch.
func (e *Engine) close(b *branch) {
	b.open, b.seq.Drafts = false, 0
	e.ground(b, 0)
	if e.broken.Load() == nil {
		e.sch.Drop(b.seq)
	}
}

// displace is what follows when the scheduler has taken the pages of a branch.
func (e *Engine) displace(b *branch) {
	if b.side {
		e.ground(b, 0)
		b.open, b.seq.Drafts = false, 0
		e.mirror(b.c)
		return
	}
	c := b.c
	e.prune(c)
	e.ground(b, 0)
	c.seq.Tokens, c.seq.Drafts = c.seq.Tokens[:c.agreed()], 0
	c.folded = 0
	c.seq.Upto = min(c.seq.Upto, len(c.job.req.Prompt))
	e.preempted.Add(1)
}
