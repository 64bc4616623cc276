package eval

import (
	"context"
	"slices"
	"strings"

	"tinyloop/internal/gen"
	"tinyloop/internal/tok"
)

// reply is what a model gave to a question.
type reply struct {
	done    bool
	text    string
	right   bool
	refused bool
}

// exam is what one subject is asked: questions with the prompts of its own tokenizer.
type exam struct {
	s       *Subject
	qs      []question
	pools   pools
	prompts []prompt
	chance  []float64 // of each question, see chances
	expect  []bool    // the right answer is that one does not know
	refuse  []string
}

// newExam encodes the questions for a subject. known are the answers of all questions of the sets, chosen or not. ctx ends it
// between two questions.
func newExam(ctx context.Context, s *Subject, qs []question, known pools, refusals []string) (*exam, error) {
	e := &exam{s: s, qs: qs, pools: known, prompts: make([]prompt, len(qs)), chance: known.chances(qs), expect: make([]bool, len(qs)), refuse: refusals}
	for i := range qs {
		if ctx.Err() != nil { // thousands of prompts take seconds
			return nil, stopped(ctx, nil)
		}
		p, err := s.prompt(&qs[i])
		if err != nil {
			return nil, err
		}
		e.prompts[i], e.expect[i] = p, refuses(qs[i].want(), refusals)
	}
	return e, nil
}

// ask puts every question at a number of loops. The replies that were complete when ctx ended are there, with the error.
func (e *exam) ask(ctx context.Context, loops, par int, tick func()) ([]reply, error) {
	out := make([]reply, len(e.qs))
	err := each(ctx, len(e.qs), par, func(ctx context.Context, i int) error {
		defer tick()
		if e.prompts[i].short != "" {
			return nil
		}
		text, err := e.s.complete(ctx, e.prompts[i].ids, e.prompts[i].room, loops)
		if err != nil {
			return err
		}
		q := &e.qs[i]
		out[i] = reply{done: true, text: text, right: q.judge(&e.prompts[i], text), refused: refuses(text, e.refuse)}
		return nil
	})
	return out, err
}

// complete gives the most probable continuation of ids.
func (s *Subject) complete(ctx context.Context, ids []tok.ID, room, loops int) (string, error) {
	a, err := s.answer(ctx, &gen.Request{PromptIDs: ids, MaxTokens: &room, Loops: &loops})
	if err != nil {
		return "", err
	}
	return a.Text, nil
}

// pool is whose answers may stand for each other: of a set, a family and a language, of one difficulty or, with −1, of all.
type pool struct {
	Group
	lang string
}

const anyDifficulty = -1

func poolOf(q *question) pool { return pool{q.group, q.doc.Labels.Lang} }

func (p pool) wide() pool {
	p.Difficulty = anyDifficulty
	return p
}

// pools are the different answers of each pool, sorted.
type pools map[pool][]string

func poolsOf(all []question) pools {
	out := pools{}
	for i := range all {
		if q := &all[i]; q.answer != call {
			p := poolOf(q)
			out[p] = append(out[p], q.want())
			out[p.wide()] = append(out[p.wide()], q.want())
		}
	}
	for k, list := range out {
		slices.Sort(list)
		out[k] = slices.Compact(list)
	}
	return out
}

// chances gives for each question the chance of guessing among the answers of its family and language that stand in front of it as words, or among all of them
// where its own does not, or none beside it.
func (p pools) chances(qs []question) []float64 {
	folded := map[pool]map[string]bool{}
	for k, list := range p {
		if k.Difficulty != anyDifficulty {
			continue
		}
		folded[k] = map[string]bool{}
		for _, s := range list {
			folded[k][squeeze(s)] = true
		}
	}
	out := make([]float64, len(qs))
	for i := range qs {
		answers := folded[poolOf(&qs[i]).wide()]
		n, own, want := 0, false, squeeze(qs[i].want())
		for _, w := range words(qs[i].before()) {
			if answers[w] {
				n++
				own = own || w == want
			}
		}
		if !own || n < 2 {
			n = max(len(answers), 1)
		}
		if qs[i].answer != call { // nobody guesses a call
			out[i] = 1 / float64(n)
		}
	}
	return out
}

// before is what stands in front of the answer, as text.
func (q *question) before() string {
	if !q.doc.IsChat() {
		return q.doc.Text[:q.doc.Labels.Answers[q.answer].Start]
	}
	var b strings.Builder
	for _, m := range q.doc.Messages[:q.message] {
		b.WriteString(m.Content)
		b.WriteByte('\n')
	}
	return b.String()
}

// words lists the different words of a text, folded, without the marks around them.
func words(s string) []string {
	seen := map[string]bool{}
	var out []string
	for _, w := range strings.Fields(strings.ToLower(s)) {
		w = strings.TrimFunc(w, func(r rune) bool { return !inWord(r) })
		if w != "" && !seen[w] {
			seen[w] = true
			out = append(out, w)
		}
	}
	return out
}
