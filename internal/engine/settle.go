package engine

import (
	"tinyloop/internal/sample"
	"tinyloop/internal/sched"
)

// settle is what follows the model's part of a step: K/V that are complete are committed, prompt tokens scored, tokens sampled and delivered,
// choices branched off.
func (e *Engine) settle() {
	if len(e.gone) > 0 {
		e.now = e.cfg.Now()
	}
	for i := range e.gone {
		e.land(&e.gone[i])
	}
	e.forgetGone()
	for i, c := range e.folds {
		e.fold(c)
		e.folds[i] = nil
	}
	e.folds = e.folds[:0]
	for i, j := range e.forks {
		e.fork(j)
		e.forks[i] = nil
	}
	e.forks = e.forks[:0]
	for i, c := range e.sprouts {
		e.sprout(c)
		e.sprouts[i] = nil
	}
	e.sprouts = e.sprouts[:0]
}

// land takes one row that has left or was read out. Rows of a choice come in ascending position, so whatever an older one has overturned is known.
func (e *Engine) land(d *departure) {
	c := d.b.c
	switch {
	case c.done || d.void:
	case d.kind == lenses:
		e.show(c.job, d)
	case d.kind == lands:
		if !d.b.side && int(d.pos) < c.seq.Entered {
			e.commit(c, d)
		}
	default:
		e.look(c, d)
	}
}

// look takes a row that was read out and may stay in flight: first what it would have guessed, then whether it leaves, last a guess.
func (e *Engine) look(c *choice, d *departure) {
	if d.mark {
		e.mark(c, d)
	}
	if d.peek {
		e.peek(c, d)
	}
	switch d.kind {
	case looks:
		e.looked(c, d)
	case exits:
		e.depleted(c, d)
	}
	if d.guess && !c.done {
		e.guess(d)
	}
}

// commit takes a row of a choice that has left at its full depth.
func (e *Engine) commit(c *choice, d *departure) {
	j := c.job
	e.sch.Commit(&c.seq, 1)
	c.advance(int(d.pos))
	if c.seq.Fold != (sched.Fold{}) && c.seq.Computed >= len(j.req.Prompt) && !c.due {
		c.due = true
		e.folds = append(e.folds, c)
	}
	if j.req.PromptLogprobs && j.scored < len(j.req.Prompt) {
		if e.score(j, d); j.err != nil {
			e.end(j, Fail, j.err)
			return
		}
	}
	if j.lens != nil && int(d.pos) < len(j.req.Prompt) {
		if e.show(j, d); j.err != nil {
			e.end(j, Fail, j.err)
			return
		}
	}
	if int(d.pos) != c.agreed()-1 {
		return
	}
	if j.req.MaxTokens == 0 {
		j.first = e.now
		e.end(j, Length, nil)
		return
	}
	logits := e.r.Logits(int(d.out))
	c.passes = int(d.loop)
	if j.forked {
		if c.hist != nil {
			c.hist[c.seq.Loops]++
		}
		e.next(c, logits)
		return
	}
	e.firstTokens(j, logits)
}

// show lets the sink see a position after a loop.
func (e *Engine) show(j *job, d *departure) {
	defer j.rescue()
	j.lens.Lens(int(d.pos), int(d.loop), e.r.Logits(int(d.out)), e.r.Moved(int(d.moved)))
}

// score reports the prompt token after a row.
func (e *Engine) score(j *job, d *departure) {
	prompt := j.req.Prompt
	if j.scored == 0 {
		e.tell(j, func() { j.sink.PromptToken(0, sample.Choice{ID: prompt[0]}) })
		j.scored = 1
	}
	if next := int(d.pos) + 1; next == j.scored && next < len(prompt) && j.err == nil {
		ch := e.sampler.Score(e.r.Logits(int(d.out)), prompt[next], j.params.Top)
		e.tell(j, func() { j.sink.PromptToken(next, ch) })
		j.scored++
	}
	if j.scored == len(prompt) {
		j.choices[0].seq.Fresh = false
	}
}

// next samples the next token of a choice.
func (e *Engine) next(c *choice, logits []float32) {
	if why, ended := e.pick(c, logits); ended {
		e.drop(c, why, c.job.err)
	}
	if j := c.job; j.err != nil && j.left > 0 {
		e.end(j, Fail, j.err)
	}
}

// firstTokens samples the first token of every choice from the one prefill. They are branched off after the step, because copying pages is a
// call of the model and the logits of other requests may still be needed.
func (e *Engine) firstTokens(j *job, logits []float32) {
	j.forked, j.first = true, e.now
	held := e.sch.Held(&j.choices[0].seq)
	for i := range j.choices {
		c := &j.choices[i]
		c.pages = held
		if i > 0 {
			c.seq.Tokens = j.tokens(e)
		}
		if c.hist != nil {
			c.hist[c.seq.Loops]++
		}
		c.why, c.ended = e.pick(c, logits)
		if j.err != nil {
			e.end(j, Fail, j.err)
			return
		}
	}
	e.forks = append(e.forks, j)
}

// fork branches the choices that go on off the first one, then lets those go that have ended.
func (e *Engine) fork(j *job) {
	parent := &j.choices[0].seq
	for i := 1; i < len(j.choices); i++ {
		if c := &j.choices[i]; !c.ended {
			e.sch.Fork(parent, &c.seq, e.copies)
			if c.seq.Running() {
				c.advance(c.seq.Computed - 1)
				c.folded = j.choices[0].folded
			}
		}
	}
	if err := e.copyErr; err != nil {
		e.copyErr = nil
		e.end(j, Fail, err)
		return
	}
	for i := range j.choices {
		if c := &j.choices[i]; c.ended {
			e.drop(c, c.why, nil)
		}
	}
}

// pick samples one token of a choice, delivers it and says whether and why the choice has ended with it.
func (e *Engine) pick(c *choice, logits []float32) (why Why, ended bool) {
	j := c.job
	prompt, output := j.req.Prompt, c.output()
	var ch sample.Choice
	if j.req.Verify == Replay || c.seq.Drafts == 0 {
		ch = e.sampler.Pick(logits, e.sampling(c, output), c.n, len(output), prompt, output)
	} else if ch.ID = e.judge(c, logits, output); j.params.Logprobs {
		ch = e.sampler.Score(logits, ch.ID, j.params.Top)
	}
	if j.loops != nil {
		e.rate(c, ch.ID, ch.Logprob)
	}
	e.agree(c, ch.ID)
	e.tokens.Add(1)
	more := e.deliver(j, c.n, ch)
	switch {
	case j.err != nil:
		return Fail, true
	case j.stops(ch.ID):
		return Stop, true
	case !more:
		return StopSink, true
	case len(output)+1 >= j.req.MaxTokens:
		return Length, true
	case c.agreed() >= e.lim.Context:
		return Window, true
	}
	return 0, false
}

// deliver hands a token to the sink. A sink that panics fails its own request only.
func (e *Engine) deliver(j *job, n int, ch sample.Choice) (more bool) {
	defer j.rescue()
	return j.sink.Token(n, ch)
}

// tell runs another call of the sink under the same protection.
func (e *Engine) tell(j *job, call func()) {
	defer j.rescue()
	call()
}

// rescue, deferred, turns a panic into the job's error.
func (j *job) rescue() {
	if v := recover(); v != nil {
		j.err = panicError("sink", v)
	}
}

// end ends every choice of a job.
func (e *Engine) end(j *job, why Why, err error) {
	for i := range j.choices {
		if c := &j.choices[i]; !c.done {
			e.drop(c, why, err)
		}
	}
}

// drop is the only way out of a choice: rows, pages, sink, and with the last choice the job itself.
func (e *Engine) drop(c *choice, why Why, err error) {
	j := c.job
	if e.broken.Load() == nil {
		c.pages = max(c.pages, e.sch.Held(&c.seq))
	}
	st := c.stats(e.now)
	if why == Fail {
		st.Err = err
	}
	c.done = true
	if c.auto && j.admitted {
		e.pilot.live--
	}
	e.prune(c)
	e.ground(&c.trunk, 0)
	if e.broken.Load() == nil {
		e.sch.Drop(&c.seq)
	}
	if j.left--; j.left == 0 {
		e.forget(j, why)
	}
	e.publishAlive() // whoever has seen the Finish finds the pages given back
	e.tell(j, func() { j.sink.Finish(c.n, why, st) })
}

// forget removes a job after its last choice.
func (e *Engine) forget(j *job, why Why) {
	if !j.admitted {
		j.admitted = true
		e.queued.Add(-1)
	}
	switch why {
	case Cancel:
		e.left.Add(1)
	case Timeout:
		e.overdue.Add(1)
	case Fail:
		e.failures.Add(1)
	}
	j.release()
	for i, o := range e.jobs {
		if o == j {
			last := len(e.jobs) - 1
			copy(e.jobs[i:], e.jobs[i+1:])
			e.jobs[last] = nil
			e.jobs = e.jobs[:last]
			return
		}
	}
}
