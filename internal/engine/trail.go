package engine

import "tinyloop/internal/fault"

// This file tells how each pass rates the token that comes out: the logits of every pass are kept until the token is known.

// trail is what the passes of a choice's live row said.
type trail struct {
	logits []float32 // [Loops-1][Vocab]
	passes int       // made by the row whose token is being taken
	rates  []float32
}

// maxTrail is the most values that a request may keep: 256 MB.
const maxTrail = 64 << 20

func (e *Engine) validateTrail(r *Request) error {
	if !r.ByLoop {
		return nil
	}
	loops := e.depth(r)
	switch n := max(1, r.Choices) * (loops - 1) * e.lim.Vocab; {
	case r.Mode != Autoregressive:
		return fault.New(fault.Unsupported, "logprobs_by_loop", "logprobs_by_loop reads out after every pass, which costs what guessing saves: it goes with mode autoregressive only")
	case !r.Sampling.Logprobs:
		return fault.New(fault.Invalid, "logprobs_by_loop", "logprobs_by_loop needs logprobs")
	case n > maxTrail:
		return fault.New(fault.Invalid, "logprobs_by_loop", "logprobs_by_loop would keep %d logits for these choices and loops, at most %d are allowed", n, maxTrail)
	}
	return nil
}

// marks says whether every pass of the row of a position is to be kept: it is the one that the next token comes from.
func (c *choice) marks(pos int) bool { return c.job.loops != nil && pos == c.agreed()-1 }

// mark keeps what a pass says.
func (e *Engine) mark(c *choice, d *departure) {
	v := e.lim.Vocab
	if c.logits == nil { // once a choice that runs
		c.logits = make([]float32, (c.seq.Loops-1)*v)
		c.rates = make([]float32, 0, c.seq.Loops)
	}
	copy(c.logits[(int(d.loop)-1)*v:int(d.loop)*v], e.r.Logits(int(d.out)))
}

// rate tells the sink how the passes rate a token. Before the fork the first choice's row is everybody's.
func (e *Engine) rate(c *choice, id int32, last float32) {
	j := c.job
	from := c
	if c.logits == nil {
		from = &j.choices[0]
	}
	v, rates := e.lim.Vocab, from.rates[:0]
	for k := range from.passes - 1 {
		rates = append(rates, e.sampler.Score(from.logits[k*v:(k+1)*v], id, 0).Logprob)
	}
	rates = append(rates, last)
	from.rates = rates
	e.tell(j, func() { j.loops.Loops(c.n, rates) })
}
