package engine

import (
	"math"
	"time"
)

// This file chooses the schedule of requests in mode Auto from three things that the engine sees for itself:
//
//   - what a turn costs by its number of rows, and what reading out and sampling cost by theirs;
//   - how often a readout at a shallow depth has named the token that the full depth then gave;
//   - what the schedule in use has really taken a token.
//
// A model that waits for memory turns four rows for the price of one, and guesses pay. One that sits in the cache turns them for nearly four
// times the price, and plain decoding wins. Depths are tried out by peeks: a plainly decoded row is read out on its way, which costs a head
// and no turn. The cost of several rows is tried out by one round of guesses, and only where the peeks say that it could pay.

const (
	meterRows  = 33   // rows whose cost is kept apart
	peekDepths = 4    // depths looked at by a peek
	firstPeeks = 12   // tokens in a row that are peeked at, per number of loops
	peekEvery  = 64   // afterwards one token in so many
	chooseEach = 8    // rounds between two choices, up to eight times as many while the choice is plain decoding
	trialEvery = 1024 // tokens between two trials
	firstCalls = 4    // calls of a number of rows of which the least counts
	enough     = 32   // tokens after which what a schedule has taken is worth something
	mustGain   = 0.97 // share of the plain cost that a schedule must promise
	autoAhead  = 8    // most guesses that Auto considers
	autoFan    = 3    // most branches
	memory     = 128  // guesses over which shares of right ones are taken
)

// meter is the mean time of a call by rows; 0 = never seen.
type meter struct {
	took [meterRows]float64
	seen [meterRows]int
}

// add takes a measurement in. One that took far longer met something else than the call, and counts little. The first ones may all have: of them the
// least counts, or a schedule that was tried at a bad moment would never be tried again.
func (m *meter) add(rows int, d time.Duration) {
	if rows < 1 || rows >= meterRows || d <= 0 {
		return
	}
	v, x := &m.took[rows], d.Seconds()
	switch m.seen[rows]++; {
	case m.seen[rows] == 1:
		*v = x
	case m.seen[rows] <= firstCalls:
		*v = min(*v, x)
	default:
		*v += 0.1 * (min(x, 2**v) - *v)
	}
}

// at is the cost of so many rows: measured, else on the line between its neighbours, else in proportion to the nearest lower one. More rows never take
// less, so what more have taken bounds it.
func (m *meter) at(rows int) float64 {
	rows = min(rows, meterRows-1)
	v := m.line(rows)
	for _, more := range m.took[rows+1:] {
		if more > 0 {
			v = min(v, more)
		}
	}
	return v
}

func (m *meter) line(rows int) float64 {
	took := &m.took
	if took[rows] > 0 {
		return took[rows]
	}
	lo, hi := rows-1, rows+1
	for lo > 0 && took[lo] == 0 {
		lo--
	}
	for hi < meterRows && took[hi] == 0 {
		hi++
	}
	switch {
	case lo > 0 && hi < meterRows:
		return took[lo] + (took[hi]-took[lo])*float64(rows-lo)/float64(hi-lo)
	case lo > 0:
		return took[lo] * float64(rows) / float64(lo)
	case hi < meterRows:
		return took[hi]
	}
	return 0
}

// agreement is how well the depths of a number of loops predict its full depth.
type agreement struct {
	first, wide [peekDepths]float64 // share of tokens that were the guess, or among the first autoFan
	seen        [peekDepths]int
	peeks       int
	since       int // tokens since the last peek
	trial       int // tokens until the next trial may be
}

// depthKey is what shares of right guesses belong to: with an early exit they are of the token at the exit.
type depthKey struct {
	loops int
	exit  Exit
}

func (c *choice) key() depthKey { return depthKey{c.seq.Loops, c.exit} }

// maxKeys bounds the pilot's memory: thresholds of requests may be anything.
const maxKeys = 256

// pilot is the engine's knowledge for Auto.
type pilot struct {
	turn, read meter
	depths     map[depthKey]*agreement
	prices     prices // of the choice in hand
	flat       prices
	live       int // choices in mode Auto
	turnAt     time.Time
	rows       int // of the last turn
}

// peekLoops are the depths that peeks look at; 0 = none.
func peekLoops(loops int) (d [peekDepths]int) {
	n := 0
	for _, v := range [...]int{1, 2, (loops + 3) / 4, (loops + 1) / 2} {
		if v < loops && (n == 0 || v > d[n-1]) {
			d[n] = v
			n++
		}
	}
	return d
}

// autoState is what a choice in mode Auto remembers.
type autoState struct {
	auto    bool
	rest    int // rounds until the next choice
	calm    int // choices in a row that stayed with plain decoding, at most 3
	trying  bool
	peeking bool
	peeks   [peekDepths][1 + autoFan]int32 // guesses of the row in flight: the drawn one, then the most probable
	peeked  [peekDepths]bool
	began   time.Time // of the schedule in use
	tokens  int       // agreed then
}

// measure notes what a step has cost, of which read rows were read out.
func (e *Engine) measure(read int) {
	if e.pilot.live == 0 || e.pilot.turnAt.IsZero() {
		return
	}
	e.pilot.turn.add(e.pilot.rows, e.pilot.turnAt.Sub(e.begun))
	if read > 0 {
		e.pilot.read.add(read, e.cfg.Now().Sub(e.pilot.turnAt))
	}
	e.pilot.turnAt = time.Time{}
}

// open chooses the schedule of a choice in mode Auto at the start of a round.
func (e *Engine) open(c *choice) {
	a := e.pilot.depths[c.key()]
	if a == nil {
		if a = calibrated(e.cfg.Agreement, c.seq.Loops); len(e.pilot.depths) >= maxKeys {
			clear(e.pilot.depths)
		}
		e.pilot.depths[c.key()] = a
	}
	a.since++
	a.trial--
	if c.rest--; c.rest <= 0 || c.trying {
		e.choose(c, a)
	}
	c.peeking = c.how.mode == Autoregressive && (a.peeks < firstPeeks || a.since >= peekEvery)
	c.peeked = [peekDepths]bool{}
	if c.peeking {
		a.peeks++
		a.since = 0
	}
}

// calibrated is what is known of a number of loops before its first token: what the calibration says, if it is of that number. It counts as much as
// the first peeks would, which are left out.
func calibrated(shares []float32, loops int) *agreement {
	a := &agreement{}
	if len(shares) != loops {
		return a
	}
	a.peeks = firstPeeks
	for k, d := range peekLoops(loops) {
		if d > 0 {
			a.first[k], a.wide[k], a.seen[k] = float64(shares[d-1]), float64(shares[d-1]), firstPeeks
		}
	}
	return a
}

// choose picks the schedule that promises the least time a token. One that has taken longer than plain decoding would have is given up.
func (e *Engine) choose(c *choice, a *agreement) {
	others := len(e.rows)
	loops := c.pace()
	p := e.prices(c, others)
	plain := (&scheme{}).expect(loops, 0, 0, p)
	if c.how.mode != Autoregressive && !c.trying && c.agreed() >= c.tokens+enough {
		if took := e.now.Sub(c.began).Seconds() / float64(c.agreed()-c.tokens); took > plain {
			c.how, c.rest = scheme{}, 8*chooseEach
			return
		}
	}
	try := !c.trying && a.trial <= 0 && others == 0
	c.trying = false
	best, least := scheme{}, plain*mustGain
	hope, gain := scheme{}, plain/1.3
	flat := &e.pilot.flat
	p.flatten(flat)
	for k, d := range peekLoops(c.seq.Loops) {
		if d == 0 || float64(d) >= loops || a.seen[k] < firstPeeks/2 || c.job.req.DraftLoops > 0 && d != c.job.req.DraftLoops {
			continue
		}
		e.candidates(c, d, loops, func(s scheme) {
			if v := s.expect(loops, a.first[k], a.wide[k], p); v < least {
				best, least = s, v
			}
			if s.mode != Wavefront || !try {
				return
			}
			if v := s.expect(loops, a.first[k], a.first[k], flat); v < gain {
				hope, gain = s, v
			}
		})
	}
	if hope.mode != Autoregressive && gain < least/1.3 {
		best, c.trying, a.trial = hope, true, trialEvery
	}
	if best != c.how {
		c.began, c.tokens = e.now, c.agreed()
	}
	if c.calm = min(c.calm+1, 3); best != (scheme{}) || best != c.how || a.peeks < firstPeeks {
		c.calm = 0
	}
	c.how, c.rest = best, chooseEach<<c.calm
}

// pace is the mean number of passes before a token of the choice.
func (c *choice) pace() float64 {
	sum, n := 0, 0
	for loop, times := range c.hist {
		sum, n = sum+loop*int(times), n+int(times)
	}
	if n == 0 {
		return float64(c.seq.Loops)
	}
	return float64(sum) / float64(n)
}

// candidates lists the schedules with a draft depth.
func (e *Engine) candidates(c *choice, d int, loops float64, f func(scheme)) {
	most := min(autoAhead, e.cfg.StepRows-1)
	if n := c.job.req.DraftAhead; n > 0 {
		most = min(most, n)
	}
	for w := min(most, int(math.Ceil(loops/float64(d)))); w > 1; w-- {
		f(scheme{mode: Wavefront, loops: d, ahead: w, branches: 1})
	}
	for ahead := 1; ahead <= most; ahead++ {
		f(scheme{mode: Speculative, loops: d, ahead: ahead, branches: 1})
		for k := 2; k <= len(c.sides)+1 && k*ahead <= MaxTree; k++ {
			f(scheme{mode: TreeSpeculative, loops: d, ahead: ahead, branches: k})
		}
	}
}

// prices are the times of a turn with so many rows of a choice, beside others, and of a readout of so many: [rows].
type prices struct{ turn, read [meterRows]float64 }

// prices are what has been measured. A rule that looks at logits reads out the rows of each turn.
func (e *Engine) prices(c *choice, others int) *prices {
	p := &e.pilot.prices
	for n := 1; n < meterRows; n++ {
		p.turn[n], p.read[n] = e.pilot.turn.at(others+n), e.pilot.read.at(n)
		if c.exit.Rule.byHead() {
			p.turn[n] += p.read[n]
		}
	}
	return p
}

// flatten makes f prices at which any number of rows takes the time of one.
func (p *prices) flatten(f *prices) {
	*f = *p
	for n := range f.turn {
		f.turn[n] = p.turn[1]
	}
}

// expect is the expected cost of a token at depth t, with shares first and wide of guesses that are right, or among the branches.
func (s *scheme) expect(t, first, wide float64, p *prices) float64 {
	d := float64(s.loops)
	switch s.mode {
	case Wavefront:
		return s.wave(t, min(first, 1), p)
	case Speculative, TreeSpeculative:
		y, k := s.ahead+1, s.branches
		last := 1 + k*(y-1)
		if k == 1 {
			wide = first
		}
		work := d*p.turn[1] + p.read[1] + float64(y-1)*d*p.turn[k] + float64(y-2)*p.read[k] + (t-d)*p.turn[last] + p.read[last]
		tokens, q := 1.0, wide
		for i := 1; i < y; i++ {
			tokens += q
			q *= first
		}
		return work / tokens
	}
	return t*p.turn[1] + p.read[1]
}

// wave is that of a wavefront. A run begins with the row of a token that was not guessed; row i follows d turns behind row i-1, or when row i-w has left. Token
// i of a run comes with probability a^i, when its row has made its turns; the first wrong guess ends the run. So a token takes
//
//	(1-a) * sum over k of (1-a) a^k * time until token k
//
// which is summed turn by turn for the first tokens, beyond which a token takes as long as a cycle of w does on average.
func (s *scheme) wave(t, a float64, p *prices) float64 {
	const most = 2 * autoAhead // tokens
	w, n := s.ahead, min(most, 2*s.ahead)
	depth := max(1, int(math.Round(t)))
	var starts, ends [most + autoAhead]int
	for i := range n + w {
		if i > 0 {
			starts[i] = starts[i-1] + s.loops
		}
		if i >= w {
			starts[i] = max(starts[i], ends[i-w])
		}
		ends[i] = starts[i] + depth
	}
	var times [most]float64
	time, sum, q := 0.0, 0.0, 1.0
	for turn, started, ended := 0, 1, 0; ended < n; turn++ {
		time += p.turn[started-ended]
		reads := 0
		if started < n+w && starts[started] == turn+1 {
			started++
			reads++
		}
		for ended < n && ends[ended] == turn+1 {
			ended++
			reads++
		}
		time += p.read[reads]
		for k := ended - 1; k >= 0 && times[k] == 0; k-- {
			times[k] = time
		}
	}
	for k := range n {
		sum += (1 - a) * q * times[k]
		q *= a
	}
	cycle := (times[n-1] - times[n-1-w]) / float64(w)
	return (1-a)*(sum+q*times[n-1]) + q*cycle
}

// peekAt says whether row i, which has just turned, is looked at on its way.
func (e *Engine) peekAt(i int) bool {
	c := e.of[i].b.c
	if !e.of[i].peek || e.of[i].parked || !c.peeking {
		return false
	}
	for _, d := range peekLoops(c.seq.Loops) {
		if d > 0 && d == int(e.rows[i].Loop) {
			return true
		}
	}
	return false
}

// peek notes what a shallow readout would have guessed.
func (e *Engine) peek(c *choice, d *departure) {
	i := e.find(d.b, int(d.pos))
	if i < 0 {
		return
	}
	logits, output, prompt := e.r.Logits(int(d.out)), c.output(), c.job.req.Prompt
	for k, loops := range peekLoops(c.seq.Loops) {
		if loops == 0 || loops != int(e.rows[i].Loop) {
			continue
		}
		p := e.sampling(c, output)
		ids := &c.peeks[k]
		ids[0] = e.sampler.Draw(logits, p, c.n, len(output), prompt, output)
		for n := range ids[1:] {
			ids[1+n] = ids[0]
		}
		copy(ids[1:], e.sampler.Rank(logits, p, autoFan-1, prompt, output))
		c.peeked[k] = true
	}
}

// learn compares what was guessed for a token with what it is.
func (e *Engine) learn(c *choice, id int32, guessed, right bool) {
	a := e.pilot.depths[c.key()]
	if a == nil {
		return
	}
	for k, loops := range peekLoops(c.seq.Loops) {
		switch {
		case loops == 0:
		case c.peeked[k]:
			hit := false
			for _, g := range c.peeks[k] {
				hit = hit || g == id
			}
			a.count(k, c.peeks[k][0] == id, hit)
		case guessed && loops == c.how.loops:
			a.count(k, right, right)
		}
	}
	c.peeked = [peekDepths]bool{}
}

// count takes one comparison in: a plain mean at first, then one that forgets.
func (a *agreement) count(k int, first, wide bool) {
	a.seen[k]++
	w := 1 / float64(min(a.seen[k], memory))
	for _, v := range [...]struct {
		to  *float64
		hit bool
	}{{&a.first[k], first}, {&a.wide[k], wide}} {
		x := 0.0
		if v.hit {
			x = 1
		}
		*v.to += w * (x - *v.to)
	}
}
