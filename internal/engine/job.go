package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tinyloop/internal/fault"
	"tinyloop/internal/sample"
	"tinyloop/internal/sched"
)

// Limits of a request that do not depend on the model.
const (
	maxChoices = 128
	maxTop     = 20
)

// job is a request on its way through the engine.
type job struct {
	req     *Request
	sink    Sink
	lens    LensSink // nil = none
	loops   LoopSink // nil = none
	params  sample.Params
	plain   sample.Params // greedy, nothing else
	early   sample.Params // params with the stop ids banned, for the first MinTokens tokens
	choices []choice
	left    int // choices without a Finish

	admitted bool // has left the queue
	forked   bool // the prompt is computed and every choice has its first token
	scored   int  // prompt tokens reported through PromptToken
	cached   int  // prompt positions found in the prefix cache
	err      error

	submitted, started, first time.Time

	canceled atomic.Bool
	mu       sync.Mutex // of the next two: Submit and the goroutine meet here
	unwatch  func() bool
	over     bool
}

// choice is one answer. Before the fork, choice 0 carries the prompt for all of them.
type choice struct {
	job    *job
	n      int
	seq    sched.Seq
	trunk  branch // its rows
	done   bool
	turned int64 // number of the last Turn that had a row of it
	turns  int
	rows   int  // rows over all turns
	pages  int  // KV pages held when the prompt was complete
	ended  bool // by its first token, before the fork
	why    Why
	drafting
	exiting
	autoState
	folding
	trail
}

// newJob checks a request. Everything that could make it fail later for its own fault is found here.
func (e *Engine) newJob(r *Request, s Sink) (*job, error) {
	if err := e.validate(r); err != nil {
		return nil, err
	}
	n := max(1, r.Choices)
	loops := e.depth(r)
	limit := len(r.Prompt)
	if r.MaxTokens > 0 {
		limit = min(len(r.Prompt)+r.MaxTokens, e.lim.Context) - 1 // the last token is never fed back
	}
	window, sinks := r.Window, r.Sinks
	if window >= limit {
		window, sinks = 0, 0 // sees everything anyway
	}
	share := foldOf(r)
	if err := e.sch.Fits(&sched.Seq{Loops: loops, Window: window, Sinks: sinks, Limit: limit, Fold: share, Share: len(r.Prompt)}); err != nil {
		return nil, err
	}
	j := &job{req: r, sink: s, params: r.Sampling, choices: make([]choice, n), left: n}
	j.early = earlyParams(r)
	if r.Lens {
		j.lens = s.(LensSink)
	}
	if r.ByLoop {
		j.loops = s.(LoopSink)
	}
	for i := range j.choices {
		c := &j.choices[i]
		c.job, c.n = j, i
		c.trunk = branch{c: c, seq: &c.seq}
		c.seq = sched.Seq{Loops: loops, Window: window, Sinks: sinks, Limit: limit, NoCache: r.NoCache, Owner: &c.trunk}
		c.prepare(schemeOf(r, loops, e.cfg.Agreement))
		e.setExit(c, r.Exit)
		c.setFold(share)
	}
	j.choices[0].seq.Fresh = r.PromptLogprobs || r.Lens
	j.choices[0].seq.Tokens = j.tokens(e)
	return j, nil
}

// tokens is the prompt with room for the answer.
func (j *job) tokens(e *Engine) []int32 {
	room := min(j.req.MaxTokens, e.lim.Context-len(j.req.Prompt), 4096)
	return append(make([]int32, 0, len(j.req.Prompt)+max(0, room)), j.req.Prompt...)
}

func (e *Engine) validate(r *Request) error {
	if len(r.Prompt) == 0 {
		return fault.New(fault.Invalid, "prompt", "the prompt has no tokens")
	}
	if ctx := e.lim.Context; len(r.Prompt)+min(1, r.MaxTokens) > ctx {
		return &fault.Error{Kind: fault.TooLong, Field: "prompt", Code: "context_length_exceeded",
			Msg: fault.New(fault.TooLong, "", "the prompt has %d tokens, which leaves no room in the window of %d", len(r.Prompt), ctx).Msg}
	}
	for i, id := range r.Prompt {
		if id < 0 || int(id) >= e.lim.Vocab {
			return fault.New(fault.Invalid, "prompt", "token %d of the prompt is %d, outside the vocabulary of %d", i, id, e.lim.Vocab)
		}
	}
	type bound struct {
		field     string
		v, lo, hi int
	}
	for _, b := range []bound{
		{"max_tokens", r.MaxTokens, 0, 1 << 30}, {"n", r.Choices, 0, maxChoices}, {"loops", r.Loops, 0, e.lim.Loops.HardMax},
		{"cache_window", r.Window, 0, 1 << 30}, {"cache_sinks", r.Sinks, 0, 1 << 30}, {"min_tokens", r.MinTokens, 0, 1 << 30},
		{"top_logprobs", r.Sampling.Top, 0, maxTop}, {"mode", int(r.Mode), 0, int(Auto)}, {"draft_ahead", r.DraftAhead, 0, MaxAhead},
		{"K_branches", r.Branches, 0, MaxBranches}, {"verify", int(r.Verify), 0, int(Typical)},
	} {
		if b.v < b.lo || b.v > b.hi {
			return fault.New(fault.Invalid, b.field, "%s is %d, allowed are %d to %d", b.field, b.v, b.lo, b.hi)
		}
	}
	if r.Constraints != nil && len(r.Constraints) != max(1, r.Choices) {
		return fault.New(fault.Invalid, "n", "there are %d constraints for %d choices", len(r.Constraints), max(1, r.Choices))
	}
	if r.Lens && (r.Mode != Autoregressive || r.Exit.Rule != NoExit) {
		return fault.New(fault.Unsupported, "mode", "the lens looks at every loop and goes with no other mode and no exit")
	}
	if err := e.validateTrail(r); err != nil {
		return err
	}
	if err := e.validateDraft(r); err != nil {
		return err
	}
	if err := e.validateExit(r); err != nil {
		return err
	}
	return validateKV(r)
}

// earlyParams is the sampling of positions before MinTokens: the stop ids are banned on top of the request's own bias.
func earlyParams(r *Request) sample.Params {
	p := r.Sampling
	if r.MinTokens == 0 || r.IgnoreStop || len(r.Stop) == 0 {
		return p
	}
	p.Bias = append(make([]sample.Bias, 0, len(p.Bias)+len(r.Stop)), p.Bias...)
	for _, id := range r.Stop {
		p.Bias = append(p.Bias, sample.Bias{ID: id, Value: sample.Ban})
	}
	return p
}

// sampling is the parameters of the token behind output, good until the next call.
func (e *Engine) sampling(c *choice, output []int32) *sample.Params {
	j := c.job
	p := &j.params
	if len(output) < j.req.MinTokens {
		p = &j.early
	}
	if j.req.Constraints == nil {
		return p
	}
	e.narrowed = *p
	e.narrowed.Mask = j.req.Constraints[c.n].Mask(output)
	return &e.narrowed
}

func (j *job) stops(id int32) bool {
	if j.req.IgnoreStop {
		return false
	}
	for _, s := range j.req.Stop {
		if s == id {
			return true
		}
	}
	return false
}

// watch raises a flag of the job when ctx ends; the loop looks at one counter per step and at the flags only when it has moved.
func (j *job) watch(ctx context.Context, e *Engine) {
	if ctx.Done() == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.over {
		return
	}
	j.unwatch = context.AfterFunc(ctx, func() {
		j.canceled.Store(true)
		e.cancels.Add(1)
		e.nudge()
	})
}

// release lets go of the context.
func (j *job) release() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.over = true
	if j.unwatch != nil {
		j.unwatch()
	}
}

// output is the agreed tokens of a choice after the prompt.
func (c *choice) output() []int32 { return c.seq.Tokens[len(c.job.req.Prompt):c.agreed()] }

// agreed is the number of tokens that are not guesses.
func (c *choice) agreed() int { return len(c.seq.Tokens) - c.seq.Drafts }

// stats is what a choice has cost up to now.
func (c *choice) stats(now time.Time) Stats {
	j := c.job
	st := Stats{PromptTokens: len(j.req.Prompt), CachedTokens: j.cached, Loops: c.seq.Loops, Turns: c.turns, Rows: c.rows, Preempted: c.seq.Preempted,
		Mode: c.how.mode, DraftLoops: c.how.loops, DraftAhead: c.how.ahead, Branches: c.how.branches, Drafted: c.drafted, Judged: c.judged, Accepted: c.accepted, Rounds: c.rounds, Histogram: c.hist,
		Pages: c.pages}
	if len(c.seq.Tokens) > 0 {
		st.Tokens = len(c.output())
	}
	if !j.admitted {
		st.Queued = now.Sub(j.submitted)
		return st
	}
	st.Queued = j.started.Sub(j.submitted)
	if j.first.IsZero() {
		st.Prefill = now.Sub(j.started)
		return st
	}
	st.Prefill, st.Decode = j.first.Sub(j.started), now.Sub(j.first)
	return st
}
