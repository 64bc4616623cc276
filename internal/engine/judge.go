package engine

import (
	"tinyloop/internal/fault"
	"tinyloop/internal/sample"
)

// This file judges guesses in the two ways that are not replay: rejection sampling, which keeps the distribution but not the tokens of plain
// decoding, and typical acceptance, which keeps neither.

// Random numbers besides that of the position: each use has a seed of its own, so that they are independent.
const (
	saltGuess  = 0x9d8f3c1a6b5e4f27
	saltAccept = 0x5851f42d4c957f2d
	saltRest   = 0xc2b2ae3d27d4eb4f
)

// maxDist is the most values that the distributions behind a request's guesses may take: 256 MB.
const maxDist = 64 << 20

// uniform is a random number of a position for one of the uses above, and for the k-th try of it.
func (c *choice) uniform(salt uint64, k, pos int) float64 {
	return sample.Uniform(c.job.params.Seed^salt^uint64(k)<<56, c.n, pos)
}

func (e *Engine) validateVerify(r *Request, how scheme) error {
	if r.Verify != Rejection || how.mode == Autoregressive {
		return nil
	}
	if n := max(1, r.Choices) * how.branches * (how.ahead + 1) * e.lim.Vocab; n > maxDist {
		return fault.New(fault.Invalid, "verify", "verify rejection would keep %d probabilities for these choices, branches and guesses, at most %d are allowed", n, maxDist)
	}
	return nil
}

// dist is where the distribution behind the guess of a position is kept. Positions in flight lie closer together than the rows of a branch.
func (b *branch) dist(vocab, pos int) []float32 {
	n := b.c.most + 1
	if b.dists == nil {
		b.dists = make([]float32, n*vocab)
	}
	at := pos % n * vocab
	return b.dists[at : at+vocab : at+vocab]
}

// guessFrom draws a guess for position pos of the output from an early readout for rejection sampling, and keeps the distribution that it came from.
func (e *Engine) guessFrom(b *branch, logits []float32, output []int32) int32 {
	c, pos := b.c, len(output)
	q := b.dist(e.lim.Vocab, pos)
	e.sampler.Distribute(q, logits, e.sampling(c, output), c.job.req.Prompt, output)
	id, _ := sample.Invert(q, c.uniform(saltGuess, 0, pos))
	return id
}

// fanFrom draws the first tokens of the other branches from the same distribution, without those drawn before.
func (e *Engine) fanFrom(c *choice, id int32, pos int) {
	copy(e.guessed, c.trunk.dist(e.lim.Vocab, pos))
	c.tips = c.tips[:0]
	for len(c.tips) < c.how.branches-1 {
		e.guessed[id] = 0
		next, ok := sample.Invert(e.guessed, c.uniform(saltGuess, len(c.tips)+1, pos))
		if !ok {
			break
		}
		c.tips = append(c.tips, next)
		id = next
	}
	if len(c.tips) > 0 {
		e.sprouts = append(e.sprouts, c)
	}
}

// judge gives the next token where there is at least one guess for it.
func (e *Engine) judge(c *choice, logits []float32, output []int32) int32 {
	pos := len(output)
	p := *e.sampling(c, output)
	if c.job.req.Verify == Typical {
		return e.typical(c, logits, p, output)
	}
	e.sampler.Distribute(e.target, logits, &p, c.job.req.Prompt, output)
	at := c.agreed()
	copy(e.guessed, c.trunk.dist(e.lim.Vocab, pos))
	q, id := e.guessed, c.seq.Tokens[at]
	if e.keeps(c, id, 0, pos) {
		return id
	}
	for i := range c.tips {
		b := &c.sides[i]
		take(q, id)
		if id = c.tips[i]; b.open && e.keeps(c, id, i+1, pos) {
			return id
		}
	}
	id, ok := sample.Invert(e.target, c.uniform(saltRest, 0, pos))
	if !ok { // p and q are the same up to rounding, and the guess was not kept: it is as good as any
		return c.seq.Tokens[at]
	}
	return id
}

// keeps tries a guess: with probability min(1, p/q) it stays, else p becomes what p has more than q. p is e.target, q is e.guessed, normalised.
func (e *Engine) keeps(c *choice, id int32, try, pos int) bool {
	p, q := e.target, e.guessed
	if c.uniform(saltAccept, try, pos)*float64(q[id]) < float64(p[id]) {
		return true
	}
	sum := 0.0
	for i := range p {
		p[i] = max(0, p[i]-q[i])
		sum += float64(p[i])
	}
	scale(p, sum)
	return false
}

// take removes a token from a distribution.
func take(q []float32, id int32) {
	q[id] = 0
	sum := 0.0
	for _, v := range q {
		sum += float64(v)
	}
	scale(q, sum)
}

func scale(x []float32, sum float64) {
	if sum <= 0 {
		return
	}
	for i := range x {
		x[i] = float32(float64(x[i]) / sum)
	}
}

// typical keeps a guess that is probable enough beside the most probable token, in the distribution at temperature 1 for greedy requests, else it
// draws as plain decoding does.
func (e *Engine) typical(c *choice, logits []float32, p sample.Params, output []int32) int32 {
	pos, prompt := len(output), c.job.req.Prompt
	soft := p
	if !(soft.Temperature > 0) {
		soft.Temperature = 1
	}
	e.sampler.Distribute(e.target, logits, &soft, prompt, output)
	least := c.job.req.Accept
	if least == 0 {
		least = DefaultAccept
	}
	most := float32(0)
	for _, v := range e.target {
		most = max(most, v)
	}
	at := c.agreed()
	if id := c.seq.Tokens[at]; e.target[id] >= least*most {
		return id
	}
	for i := range c.sides {
		if b := &c.sides[i]; b.open {
			if id := b.seq.Tokens[at]; e.target[id] >= least*most {
				return id
			}
		}
	}
	return e.sampler.Draw(logits, &p, c.n, pos, prompt, output)
}
