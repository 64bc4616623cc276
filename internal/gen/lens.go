package gen

import (
	"context"
	"math"
	"strings"

	"tinyloop/internal/engine"
	"tinyloop/internal/fault"
	"tinyloop/internal/model"
	"tinyloop/internal/sample"
	"tinyloop/internal/tok"
)

// Bounds of a Lens.
const (
	maxLensPositions = 1024
	maxLensReadouts  = 8192 // positions times loops
)

// Depth is what one position would say after one loop, and how that loop moved its state.
type Depth struct {
	Top     []Logprob // most probable next tokens, the best first
	Entropy float64   // of the next token, in nats
	Change  float64   // of the state, relative to its length; -1 = there was no state before
	Gate    float64   // of the exit gate; -1 = the model has none
}

// Lens is a text looked at after every loop: [position][loop].
type Lens struct {
	IDs      []tok.ID
	Loops    int
	Depths   [][]Depth
	Warnings []string
}

// Lens looks at every position of a prompt after every loop. r needs the prompt, Loops or Effort, and TopLogprobs for the number of tokens shown (1
// to 20); everything else is ignored. With a coda, a readout on the way sees the coda's keys and values of the latest readouts before it.
func (g *Generator) Lens(ctx context.Context, r *Request) (*Lens, error) {
	ids, err := g.Count(r)
	if err != nil {
		return nil, err
	}
	p := &plan{}
	if err := g.checkDepth(&Request{Loops: r.Loops, VerifyLoops: r.VerifyLoops, Effort: r.Effort}, p); err != nil {
		return nil, err
	}
	top := r.TopLogprobs
	switch {
	case top < 1 || top > maxTop:
		return nil, between("top_logprobs", 1, maxTop, top)
	case len(ids) > maxLensPositions || len(ids)*p.loops > maxLensReadouts:
		return nil, fault.New(fault.TooLong, "prompt", "the prompt has %d tokens: a lens takes at most %d, and %d times the loops", len(ids), maxLensPositions, maxLensReadouts)
	}
	l := &Lens{IDs: ids, Loops: p.loops, Depths: make([][]Depth, len(ids)), Warnings: p.warnings}
	for i := range l.Depths {
		l.Depths[i] = make([]Depth, p.loops)
	}
	s := sample.New(g.info.Vocab)
	err = g.Scan(ctx, ids, p.loops, func(pos, loop int, logits []float32, m model.Motion) {
		l.Depths[pos][loop-1] = g.depth(s, logits, m, top)
	})
	return l, err
}

func (g *Generator) depth(s *sample.Sampler, logits []float32, m model.Motion, top int) Depth {
	d := Depth{Entropy: s.Entropy(logits), Change: -1, Gate: -1}
	if !math.IsInf(float64(m.Change), 0) && m.Change == m.Change {
		d.Change = float64(m.Change)
	}
	if g.eng != nil && g.eng.Limits().Gate {
		d.Gate = float64(m.Gate)
	}
	for _, a := range s.Score(logits, 0, top).Top {
		b := g.tok.Bytes(a.ID)
		d.Top = append(d.Top, Logprob{ID: a.ID, Text: strings.ToValidUTF8(string(b), "\uFFFD"), Bytes: b, Logprob: a.Logprob})
	}
	return d
}

// Scan computes ids at the given number of loops and calls see for every position after every loop, from 1 on, in ascending loop for each position;
// after a preemption a position may be seen again. see runs on the engine's goroutine and must return soon; logits are valid only during the call.
func (g *Generator) Scan(ctx context.Context, ids []tok.ID, loops int, see func(pos, loop int, logits []float32, m model.Motion)) error {
	s := &scanner{see: see, done: make(chan struct{})}
	if err := g.submit(ctx, &engine.Request{Prompt: ids, Loops: loops, Lens: true}, s); err != nil {
		return fault.As(err)
	}
	<-s.done // the engine ends it when ctx does
	switch s.why {
	case engine.Length:
		return nil
	case engine.Cancel:
		return &fault.Error{Kind: fault.Canceled, Msg: "the request was cancelled", Err: context.Cause(ctx)}
	}
	return fault.As(s.st.Err)
}

// scanner is the sink of Scan.
type scanner struct {
	see  func(pos, loop int, logits []float32, m model.Motion)
	why  engine.Why
	st   engine.Stats
	done chan struct{}
}

func (*scanner) Started()                       {}
func (*scanner) PromptToken(int, sample.Choice) {}
func (*scanner) Token(int, sample.Choice) bool  { return true }

func (s *scanner) Lens(pos, loop int, logits []float32, m model.Motion) { s.see(pos, loop, logits, m) }

func (s *scanner) Finish(_ int, why engine.Why, st engine.Stats) {
	s.why, s.st = why, st
	close(s.done)
}
