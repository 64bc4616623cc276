package scripted

import "math"

// Prob is one token with its probability.
type Prob struct {
	ID int32
	P  float64
}

// Step is the distribution of one output position. What the probabilities leave of one is spread evenly over the other tokens.
type Step []Prob

// Answer is what the model says after a prompt.
type Answer struct {
	Prompt []int32 // nil = any prompt without an Answer of its own
	Steps  []Step  // the last one repeats
}

// Say gives the steps that emit ids one after the other, each with probability 1.
func Say(ids ...int32) []Step {
	steps := make([]Step, len(ids))
	for i, id := range ids {
		steps[i] = Step{{id, 1}}
	}
	return steps
}

// Repeat gives the steps of one token n times.
func Repeat(id int32, n int) []Step {
	steps := make([]Step, n)
	for i := range steps {
		steps[i] = Step{{id, 1}}
	}
	return steps
}

// book knows the histories that the model has seen and which step of which answer comes after each.
type book struct {
	answers []Answer
	exact   map[uint64]int // history of a whole prompt -> answer
	any     int            // answer of every other prompt, -1 = none
	after   int32
	nodes   map[uint64]*node
}

// node is one history. Its place in an answer is settled when it is first known: at once for the end of an exact prompt and for what
// follows Options.After, else when its logits are first wanted.
type node struct {
	before *node
	answer int // index of the answer it is part of, -1 = not settled
	step   int // the step that follows this history
}

func newBook(answers []Answer, after int32) *book {
	b := &book{answers: answers, exact: map[uint64]int{}, any: -1, after: after, nodes: map[uint64]*node{}}
	for i, a := range answers {
		if a.Prompt == nil {
			b.any = i
			continue
		}
		h := uint64(rootHistory)
		for _, id := range a.Prompt {
			h = hash(h, uint64(id))
		}
		b.exact[h] = i
	}
	return b
}

// extend notes that history h follows before by token.
func (b *book) extend(before, h uint64, token int32) {
	if b.nodes[h] != nil {
		return
	}
	n := &node{before: b.nodes[before], answer: -1}
	b.nodes[h] = n
	if i, ok := b.exact[h]; ok {
		n.answer = i
		return
	}
	if b.after == 0 || b.any < 0 {
		return
	}
	if token == b.after {
		n.answer = b.any
	} else if n.before != nil && n.before.answer == b.any {
		n.answer, n.step = b.any, n.before.step+1
	}
}

// fill writes the logits after history h: logarithms of the step's probabilities.
func (b *book) fill(h uint64, out []float32) {
	n := b.nodes[h]
	if n.answer < 0 {
		b.settle(n)
	}
	if n.answer < 0 {
		clear(out)
		return
	}
	steps := b.answers[n.answer].Steps
	b.spread(steps[min(n.step, len(steps)-1)], out)
}

// settle places a history whose logits are wanted for the first time: one step after its predecessor if that one is part of an answer, else
// at the start of the answer to any prompt.
func (b *book) settle(n *node) {
	if n.before != nil && n.before.answer >= 0 {
		n.answer, n.step = n.before.answer, n.before.step+1
		return
	}
	n.answer = b.any
}

func (b *book) spread(s Step, out []float32) {
	rest := 1.0
	for _, p := range s {
		rest -= p.P
	}
	other := math.Inf(-1)
	if n := len(out) - len(s); rest > 1e-9 && n > 0 {
		other = math.Log(rest / float64(n))
	}
	for i := range out {
		out[i] = float32(other)
	}
	for _, p := range s {
		out[p.ID] = float32(math.Log(p.P))
	}
}
