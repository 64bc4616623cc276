package eval

import (
	"context"
	"slices"
	"strings"

	"tinyloop/internal/data"
	"tinyloop/internal/tok"
)

// A multiple choice puts the right answer beside others of the same family, difficulty and language, those first that stand in front of the
// question. The candidate whose text is the most probable for its length wins: log-probability divided by bytes (as "acc_norm" of the lm-eval
// harness).
type choice struct {
	q     int // index in the exam
	cands []candidate
}

type candidate struct {
	ids   []tok.ID
	from  int // first token of the candidate
	bytes int
	right bool
}

// longChoice is the length in bytes from which answers are whole sentences, which have no equals to be confused with.
const longChoice = 40

// choices makes the multiple choices of an exam: n candidates each, for at most limit questions of a group.
func (e *exam) choices(n, limit int, seed uint64) ([]choice, error) {
	if n < 2 {
		return nil, nil
	}
	var out []choice
	for _, i := range choosing(len(e.qs), limit, seed, func(i int) Group { return e.qs[i].group }) {
		q := &e.qs[i]
		if len(q.want()) > longChoice {
			continue
		}
		others := pick(e.pools[poolOf(q)], q, n-1, mix(seed, uint64(i)))
		if e.prompts[i].short != "" || q.answer == call || len(others) == 0 {
			continue
		}
		c := choice{q: i}
		for k, text := range append([]string{q.want()}, others...) {
			cand, ok, err := e.s.candidate(q, text)
			if err != nil {
				return nil, err
			}
			if ok {
				cand.right = k == 0
				c.cands = append(c.cands, cand)
			}
		}
		if len(c.cands) > 1 && c.cands[0].right {
			out = append(out, c)
		}
	}
	return out, nil
}

// pick chooses n wrong answers: those that stand in front of the question before the others, in an order of their own for each question.
func pick(list []string, q *question, n int, key uint64) []string {
	want, front := squeeze(q.want()), squeeze(q.before())
	type item struct {
		text string
		near bool
		key  uint64
	}
	var items []item
	for i, s := range list {
		if t := squeeze(s); t != want && len(s) <= longChoice {
			items = append(items, item{s, strings.Contains(front, t), mix(key, uint64(i))})
		}
	}
	slices.SortFunc(items, func(a, b item) int {
		switch {
		case a.near != b.near && a.near, a.near == b.near && a.key < b.key:
			return -1
		case a.near == b.near && a.key == b.key:
			return 0
		}
		return 1
	})
	var out []string
	for _, it := range items[:min(n, len(items))] {
		out = append(out, it.text)
	}
	return out
}

// candidate encodes a document with text in the place of the answer, up to its end. ok is false where the tokenizer changes the text, or the
// window is too small.
func (s *Subject) candidate(q *question, text string) (c candidate, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := q.doc.Labels.Answers[q.answer]
	whole := q.text()[:a.Start] + text
	first := 0
	if q.doc.IsChat() {
		d := data.Doc{Messages: slices.Clone(q.doc.Messages[:q.message+1]), Tools: q.doc.Tools, File: q.doc.File, Line: q.doc.Line}
		d.Messages[q.message].Content = whole
		before, turn, err := s.turn(&d, q.message)
		if err != nil {
			return c, false, err
		}
		first, c.ids = len(before), append(slices.Clone(before), turn...)
	} else if c.ids, first, err = s.encodeText(q.doc, whole); err != nil {
		return c, false, err
	}
	t := s.Gen.Tokenizer()
	from, lead, ok := tokenAt(t, c.ids, first, whole, a.Start)
	end, _, ok2 := tokenAt(t, c.ids, first, whole, len(whole)-1)
	if !ok || !ok2 || from == 0 || end+1 > s.Gen.Info().Context {
		return c, false, nil
	}
	c.ids, c.from, c.bytes = c.ids[:end+1], from, len(text)+lead
	return c, true, nil
}

// choose answers the multiple choices at a number of loops: right[i] is 1 for a right choice, 0 for a wrong one, −1 for none yet.
func (e *exam) choose(ctx context.Context, cs []choice, loops, par int, tick func()) (right []int, err error) {
	right = make([]int, len(cs))
	for i := range right {
		right[i] = -1
	}
	err = each(ctx, len(cs), max(1, par/4), func(ctx context.Context, i int) error {
		defer tick()
		best, at := 0.0, -1
		for k := range cs[i].cands {
			c := &cs[i].cands[k]
			lp, _, err := e.s.score(ctx, c.ids, loops)
			if err != nil {
				return err
			}
			sum := 0.0
			for _, v := range lp[c.from:] {
				sum += float64(v)
			}
			if sum /= float64(c.bytes); at < 0 || sum > best {
				best, at = sum, k
			}
		}
		right[i] = 0
		if cs[i].cands[at].right {
			right[i] = 1
		}
		return nil
	})
	return right, err
}
