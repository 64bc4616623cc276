package eval

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tinyloop/internal/chat"
	"tinyloop/internal/data"
	"tinyloop/internal/engine"
	"tinyloop/internal/gen"
	"tinyloop/internal/model"
	"tinyloop/internal/scripted"
	"tinyloop/internal/tok"
)

// vocabulary trains a small tokenizer on the texts of documents.
func vocabulary(t testing.TB, docs []*data.Doc) *tok.Tokenizer {
	t.Helper()
	o := tok.TrainOptions{Vocab: 420, Pre: "gpt-2", Digits: true, Control: []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"},
		Markers: []string{"<tool_call>", "</tool_call>"}, MinCount: 2}
	tk, err := tok.Train(t.Context(), o, func(yield func(string) error) error {
		for _, d := range docs {
			all := []string{d.Text}
			for _, m := range d.Messages {
				all = append(all, m.Content)
			}
			for _, s := range all {
				if err := yield(strings.Repeat(s+"\n", 3)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

// deep is a scripted model that knows its answers from a number of loops on; with fewer it ends every answer at once.
type deep struct {
	*scripted.Model
	from  int32
	end   tok.ID
	rows  []model.Row
	blank []float32
}

func (d *deep) Leave(rows []model.Row) {
	d.rows = append(d.rows[:0], rows...)
	d.Model.Leave(rows)
}

func (d *deep) Logits(i int) []float32 {
	logits := d.Model.Logits(i)
	if d.rows[i].Depth >= d.from {
		return logits
	}
	for k := range d.blank {
		d.blank[k] = -50
	}
	d.blank[d.end] = 0
	return d.blank
}

// subject makes a model of a runner. Its default is 4 loops of at most 8.
func subject(t testing.TB, name string, tk *tok.Tokenizer, r model.Runner) *Subject {
	t.Helper()
	e := engine.New(r, engine.Config{})
	t.Cleanup(e.Close)
	l := r.Limits()
	info := gen.Info{Name: name, Family: "scripted", Quant: "f32", Vocab: tk.Size(), Context: l.Context, Params: 1000}
	info.Loops.Default, info.Loops.TrainedMin, info.Loops.TrainedMax, info.Loops.HardMax = l.Loops.Default, 1, l.Loops.TrainedMax, l.Loops.HardMax
	return &Subject{Name: name, Role: Main, Gen: gen.New(e, tk, chat.ChatML(), info, gen.Limits{})}
}

// knows makes a scripted model that says say(q, i) to question i, from a number of loops on.
func knows(t testing.TB, tk *tok.Tokenizer, s *Session, from int, say func(q *question, i int) string) *Subject {
	t.Helper()
	blank := subject(t, "blank", tk, scripted.New(scripted.Options{Vocab: tk.Size()}))
	end, _ := tk.Special("<|im_end|>")
	var book []scripted.Answer
	for i := range s.qs {
		p, err := blank.prompt(&s.qs[i])
		if err != nil {
			t.Fatal(err)
		}
		ids := append(tk.Encode(nil, p.lead+say(&s.qs[i], i)), end)
		book = append(book, scripted.Answer{Prompt: p.ids, Steps: scripted.Say(ids...)})
	}
	m := scripted.New(scripted.Options{Vocab: tk.Size(), Answers: append(book, scripted.Answer{Steps: scripted.Say(end)})})
	return subject(t, "scripted", tk, &deep{Model: m, from: int32(from), end: end, blank: make([]float32, tk.Size())})
}

// doc reads marks: [ ] around the answer. A text that begins with "?" is a conversation: the question up to a bar, then the turn.
func doc(family string, difficulty int, s string, states ...string) *data.Doc {
	d := &data.Doc{Labels: &data.Labels{Family: family, Difficulty: difficulty, Lang: "en"}}
	content, at := s, 0
	if q, turn, ok := strings.Cut(strings.TrimPrefix(s, "?"), "|"); ok {
		d.Messages = []data.Message{{Role: "user", Content: q}, {Role: "assistant"}}
		content, at = turn, 1
	}
	a := data.Answer{Message: at, Start: strings.Index(content, "["), States: states}
	content = strings.Replace(content, "[", "", 1)
	a.End = strings.Index(content, "]")
	content = strings.Replace(content, "]", "", 1)
	d.Labels.Answers = []data.Answer{a}
	if at == 1 {
		d.Messages[1].Content = content
	} else {
		d.Text = content
	}
	return d
}

func chains() *Set {
	s := &Set{Name: "valid"}
	for i := range 10 {
		a, b, c := []string{"park", "bridge", "school"}[i%3], []string{"bridge", "school", "park"}[i%3], fmt.Sprint("Bob", i)
		s.Docs = append(s.Docs,
			doc("chain", 1, fmt.Sprintf("%s > %s, Ann > %s\nwhere %s [%s]", c, a, b, c, a)),
			doc("chain", 2, fmt.Sprintf("?%s is with Ann. Ann is at the %s. Tom is at the %s. Where is %s?|[%s].", c, a, b, c, a), "Ann", a),
			doc("arith", 1, fmt.Sprintf("%d + %d = [%d]", i, i+20, 2*i+20), fmt.Sprint(2*i+20)))
	}
	return s
}

func refusalSet() *Set {
	s := &Set{Name: "refusals", Whole: true}
	for i := range 10 {
		s.Docs = append(s.Docs, doc("unknown", 1, fmt.Sprintf("?Who is Zo%d?|[I do not know]: I never met Zo%d.", i, i)),
			doc("known", 1, fmt.Sprintf("?Where is Rome, number %d?|It is in [Italy].", i)))
	}
	return s
}

func session(t testing.TB, o Options, sets ...*Set) *Session {
	t.Helper()
	s, err := NewSession(sets, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func measure(t testing.TB, s *Session, sub *Subject) *Report {
	t.Helper()
	if err := s.Measure(t.Context(), sub); err != nil {
		t.Fatal(err)
	}
	return s.Report()
}

// TestKnownAnswers gives a model that is right on three questions in four, from two loops on, and expects exactly that.
func TestKnownAnswers(t *testing.T) {
	sets := []*Set{chains(), refusalSet()}
	tk := vocabulary(t, append(slices.Clone(sets[0].Docs), sets[1].Docs...))
	s := session(t, Options{Loops: []int{1, 2, 4, 16}, NoCost: true, NoLoss: true, Samples: 1}, sets...)
	sub := knows(t, tk, s, 2, func(q *question, i int) string {
		switch {
		case q.group.Family == "unknown":
			return q.text()
		case q.group.Family == "known" && strings.Contains(q.doc.Messages[0].Content, "number 3"):
			return "I do not know: nobody told me."
		case q.group.Family == "arith" && i%2 == 0:
			return "999"
		}
		return q.want()
	})
	r := measure(t, s, sub)
	if got := r.Main().Depths(); !slices.Equal(got, []int{1, 2, 4}) { // 16 is above the model's 8
		t.Fatalf("measured %v", got)
	}
	half := 0
	for i := range s.qs {
		if s.qs[i].group.Family == "arith" && i%2 != 0 {
			half++
		}
	}
	for loops, want := range map[int]map[string][2]int{
		1: {"chain": {0, 20}, "arith": {0, 10}, "unknown": {0, 10}, "known": {0, 10}},
		2: {"chain": {20, 20}, "arith": {half, 10}, "unknown": {10, 10}, "known": {9, 10}},
		4: {"chain": {20, 20}, "arith": {half, 10}, "unknown": {10, 10}, "known": {9, 10}},
	} {
		l := r.Main().At(loops)
		for f, kn := range want {
			got := l.Pool(func(g Group) bool { return g.Family == f })
			if got.K != kn[0] || got.N != kn[1] {
				t.Errorf("%d loops, %s: %d of %d, want %d of %d", loops, f, got.K, got.N, kn[0], kn[1])
			}
		}
		x := Refusal{Set: "refusals", Unknown: 10, Known: 10}
		if loops > 1 {
			x.Refused, x.False = 10, 1
		}
		if len(l.Refusals) != 1 || l.Refusals[0] != x {
			t.Errorf("%d loops: refusals %+v, want %+v", loops, l.Refusals, x)
		}
	}
	for _, x := range r.Main().At(1).Tasks {
		if want := map[string]float64{"chain1": 1.0 / 2, "chain2": 1.0 / 2, "arith1": 1.0 / 10}[fmt.Sprint(x.Family, x.Difficulty)]; want > 0 && abs(x.Chance-want) > 1e-9 {
			t.Errorf("%s %d: chance %g, want %g", x.Family, x.Difficulty, x.Chance, want)
		}
	}
	if n := len(r.Main().At(2).Samples); n != 2 { // one of arith, one of known
		t.Errorf("%d samples of wrong answers, want 2: %+v", n, r.Main().At(2).Samples)
	}
}

// TestPromptAsServed compares the prompt of a turn with what the server would make of the same messages.
func TestPromptAsServed(t *testing.T) {
	set := refusalSet()
	tk := vocabulary(t, set.Docs)
	sub := subject(t, "m", tk, scripted.New(scripted.Options{Vocab: tk.Size()}))
	s := session(t, Options{}, set)
	for i := range s.qs {
		q := &s.qs[i]
		p, err := sub.prompt(q)
		if err != nil {
			t.Fatal(err)
		}
		ids, err := sub.Gen.Count(&gen.Request{Messages: []chat.Message{{Role: "user", Content: q.doc.Messages[0].Content}}})
		if err != nil || !slices.Equal(ids, p.ids) {
			t.Fatalf("%q: %v, the server makes %v (%v)", q.doc.Messages[0].Content, p.ids, ids, err)
		}
	}
}

// TestPromptOfText expects the tokens in front of the answer as training has them, and nothing of the answer among them.
func TestPromptOfText(t *testing.T) {
	set := chains()
	tk := vocabulary(t, set.Docs)
	sub := subject(t, "m", tk, scripted.New(scripted.Options{Vocab: tk.Size()}))
	s := session(t, Options{}, set)
	for i := range s.qs {
		q := &s.qs[i]
		if q.doc.IsChat() {
			continue
		}
		p, err := sub.prompt(q)
		if err != nil {
			t.Fatal(err)
		}
		whole := tk.Encode(nil, q.doc.Text)
		if !slices.Equal(whole[:len(p.ids)], p.ids) {
			t.Fatalf("%q: the prompt %v is no beginning of %v", q.doc.Text, p.ids, whole)
		}
		text := ""
		for _, id := range p.ids {
			text += string(tk.Bytes(id))
		}
		if text+p.lead+q.want() != q.doc.Text {
			t.Fatalf("%q: %q then %q then %q", q.doc.Text, text, p.lead, q.want())
		}
	}
}

// TestCancelledBeforeTheFirst: an interrupt counts while the prompts are made, before any question is asked.
func TestCancelledBeforeTheFirst(t *testing.T) {
	set := chains()
	tk := vocabulary(t, set.Docs)
	s := session(t, Options{Loops: []int{1}, NoCost: true, NoLoss: true}, set)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Measure(ctx, knows(t, tk, s, 1, func(q *question, _ int) string { return q.want() }))
	if err == nil || !strings.Contains(err.Error(), "interrupted") || len(s.Report().Models) != 0 {
		t.Fatalf("error %v, %d models", err, len(s.Report().Models))
	}
}

func TestCancelled(t *testing.T) {
	set := chains()
	tk := vocabulary(t, set.Docs)
	s := session(t, Options{Loops: []int{1, 2}, NoCost: true, NoLoss: true, Parallel: 1}, set)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	s.o.Progress = func(p Progress) {
		if n++; n == 35 { // five questions into the second depth
			cancel()
		}
	}
	err := s.Measure(ctx, knows(t, tk, s, 1, func(q *question, _ int) string { return q.want() }))
	if err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Fatalf("error %v", err)
	}
	r := s.Report()
	a, b := r.Main().At(1), r.Main().At(2)
	all := func(Group) bool { return true }
	if r.Complete || !a.Complete || b.Complete || a.Pool(all).N != 30 {
		t.Fatalf("complete %v, %v, %v; %d questions", r.Complete, a.Complete, b.Complete, a.Pool(all).N)
	}
	if got := b.Pool(all); got.N < 5 || got.N > 6 || got.K != got.N {
		t.Fatalf("%d of %d at the depth that was interrupted", got.K, got.N)
	}
}
