package eval

import (
	"cmp"
	"encoding/json"
	"io"
	"slices"
)

// Format is the version of the JSON report.
const Format = 1

// Report is everything that was measured.
type Report struct {
	Format   int      `json:"format"`
	Complete bool     `json:"complete"` // false: interrupted; what is there is right, of fewer questions
	Seed     uint64   `json:"seed"`
	Limit    int      `json:"limit"`      // questions of a group; 0 = all
	LossDocs int      `json:"loss_limit"` // documents of a group for the loss; 0 = all
	Inputs   []Input  `json:"inputs"`
	Models   []*Model `json:"models"`
	Gates    []Gate   `json:"gates,omitempty"`
}

// Input is a set that was used.
type Input struct {
	Set       string `json:"set"`
	Docs      int    `json:"documents"`
	Questions int    `json:"questions"` // that were chosen
}

// Model is what was measured of one model.
type Model struct {
	Name    string `json:"name"`
	Role    Role   `json:"role"`
	Path    string `json:"path,omitempty"`
	Family  string `json:"family"`
	Quant   string `json:"quant"`
	Hash    string `json:"hash,omitempty"`
	Params  int64  `json:"parameters"`
	Bytes   int64  `json:"bytes"`
	Context int    `json:"context"`
	Loops   struct {
		Default    int `json:"default"`
		TrainedMax int `json:"trained_max"`
		HardMax    int `json:"hard_max"`
	} `json:"loops"`
	Skipped map[string]int `json:"skipped,omitempty"` // questions that could not be asked, by reason
	Levels  []*Level       `json:"levels"`
}

// Level is what was measured at one number of loops.
type Level struct {
	Loops    int       `json:"loops"`
	Complete bool      `json:"complete"`
	Cost     *Cost     `json:"cost,omitempty"`
	Tasks    []Task    `json:"tasks,omitempty"`
	Choices  []Share   `json:"choices,omitempty"`
	Refusals []Refusal `json:"refusals,omitempty"`
	Loss     []Loss    `json:"loss,omitempty"`
	Samples  []Sample  `json:"wrong_samples,omitempty"`
}

// Share is k of n with its 95 % interval (Wilson).
type Share struct {
	Group
	N    int     `json:"n"`
	K    int     `json:"right"`
	Rate float64 `json:"rate"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

func share(g Group, k, n int) Share {
	s := Share{Group: g, N: n, K: k}
	s.Low, s.High = Wilson(k, n)
	if n > 0 {
		s.Rate = float64(k) / float64(n)
	}
	return s
}

// Task is the exact match of a group.
type Task struct {
	Share
	Chance float64 `json:"chance"` // the mean chance of guessing, see docs/eval.md
}

// Refusal is how a set's conversations are met: those whose right answer is that one does not know, and the others, where saying so is wrong.
type Refusal struct {
	Set     string `json:"set"`
	Unknown int    `json:"unknown"`
	Refused int    `json:"refused"`
	Known   int    `json:"known"`
	False   int    `json:"false_refusals"`
}

// Loss is the loss on the learned tokens of a group: all of a text, the assistant's turns of a conversation.
type Loss struct {
	Set      string  `json:"set"`
	Group    string  `json:"group"`
	Docs     int     `json:"documents"`
	Tokens   int     `json:"tokens"`
	Bytes    int     `json:"bytes"`
	Nats     float64 `json:"nats"`
	Right    int     `json:"right"`          // tokens that were the most probable ones
	Loss     float64 `json:"loss"`           // nats a token
	BPB      float64 `json:"bits_per_byte"`  // 0 without bytes
	Accuracy float64 `json:"token_accuracy"` // Right / Tokens
}

// Sample is a wrong answer.
type Sample struct {
	Group
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Before string `json:"before"` // the end of what stood in front
	Want   string `json:"want"`
	Got    string `json:"got"`
}

// JSON writes the report, indented.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Main gives the model that the report is about.
func (r *Report) Main() *Model { return r.Models[0] }

// At gives the level with a number of loops, or nil.
func (m *Model) At(loops int) *Level {
	for _, l := range m.Levels {
		if l.Loops == loops {
			return l
		}
	}
	return nil
}

// Depths lists the numbers of loops that were measured.
func (m *Model) Depths() []int {
	var out []int
	for _, l := range m.Levels {
		out = append(out, l.Loops)
	}
	return out
}

// Pool adds up the exact matches of the groups for which keep says so.
func (l *Level) Pool(keep func(Group) bool) Share {
	k, n := 0, 0
	for _, t := range l.Tasks {
		if keep(t.Group) {
			k, n = k+t.K, n+t.N
		}
	}
	return share(Group{}, k, n)
}

// Family gives the exact matches of a family in a set, all difficulties together.
func (l *Level) Family(set, family string) Share {
	return l.Pool(func(g Group) bool { return g.Set == set && g.Family == family })
}

// Total adds up the loss of a set.
func (l *Level) Total(set string) Loss {
	var t tally
	for _, x := range l.Loss {
		if x.Set == set {
			t.add(&tally{docs: x.Docs, tokens: x.Tokens, bytes: x.Bytes, right: x.Right, nats: x.Nats})
		}
	}
	return loss(lossKey{set: set}, &t)
}

// groupsOf lists the groups of a set that were asked, by family and difficulty.
func (r *Report) groupsOf(set string) []Group {
	var out []Group
	for _, m := range r.Models {
		for _, l := range m.Levels {
			for _, t := range l.Tasks {
				if t.Set == set && !slices.Contains(out, t.Group) {
					out = append(out, t.Group)
				}
			}
		}
	}
	slices.SortFunc(out, byGroup)
	return out
}

func byGroup(a, b Group) int {
	return cmp.Or(cmp.Compare(a.Set, b.Set), cmp.Compare(a.Family, b.Family), cmp.Compare(a.Difficulty, b.Difficulty))
}

// familiesOf lists the families of a set in order.
func (r *Report) familiesOf(set string) []string {
	var out []string
	for _, g := range r.groupsOf(set) {
		if !slices.Contains(out, g.Family) {
			out = append(out, g.Family)
		}
	}
	return out
}

// tasks counts replies by group, in the order of the questions.
func (e *exam) tasks(rs []reply) []Task {
	var order []Group
	type sum struct {
		k, n   int
		chance float64
	}
	sums := map[Group]*sum{}
	for i, r := range rs {
		if !r.done {
			continue
		}
		g := e.qs[i].group
		if sums[g] == nil {
			sums[g] = &sum{}
			order = append(order, g)
		}
		s := sums[g]
		s.n++
		s.chance += e.chance[i]
		if r.right {
			s.k++
		}
	}
	var out []Task
	for _, g := range order {
		s := sums[g]
		out = append(out, Task{share(g, s.k, s.n), s.chance / float64(s.n)})
	}
	return out
}

// picked counts the multiple choices by group.
func (e *exam) picked(cs []choice, right []int) []Share {
	var order []Group
	sums := map[Group][2]int{}
	for i, v := range right {
		if v < 0 {
			continue
		}
		g := e.qs[cs[i].q].group
		s, ok := sums[g]
		if !ok {
			order = append(order, g)
		}
		sums[g] = [2]int{s[0] + v, s[1] + 1}
	}
	var out []Share
	for _, g := range order {
		out = append(out, share(g, sums[g][0], sums[g][1]))
	}
	return out
}

// refusals counts the conversations of each set that has one whose answer is not known.
func (e *exam) refusals(rs []reply) []Refusal {
	var out []Refusal
	for i, r := range rs {
		if !r.done || !e.qs[i].doc.IsChat() {
			continue
		}
		set := e.qs[i].group.Set
		at := slices.IndexFunc(out, func(x Refusal) bool { return x.Set == set })
		if at < 0 {
			at, out = len(out), append(out, Refusal{Set: set})
		}
		x := &out[at]
		switch {
		case e.expect[i] && r.refused:
			x.Unknown, x.Refused = x.Unknown+1, x.Refused+1
		case e.expect[i]:
			x.Unknown++
		case r.refused:
			x.Known, x.False = x.Known+1, x.False+1
		default:
			x.Known++
		}
	}
	return slices.DeleteFunc(out, func(x Refusal) bool { return x.Unknown == 0 })
}

// samples shows the first wrong answers of each group.
func (e *exam) samples(rs []reply, n int) []Sample {
	count := map[Group]int{}
	var out []Sample
	for i, r := range rs {
		q := &e.qs[i]
		if !r.done || r.right || count[q.group] == n {
			continue
		}
		count[q.group]++
		out = append(out, Sample{q.group, q.doc.File, q.doc.Line, tail(q.before(), 200), q.want(), r.text})
	}
	return out
}

// tail gives the last n runes of s.
func tail(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return "…" + string(r[len(r)-n:])
}

func loss(k lossKey, t *tally) Loss {
	l := Loss{Set: k.set, Group: k.group, Docs: t.docs, Tokens: t.tokens, Bytes: t.bytes, Nats: t.nats, Right: t.right}
	if t.tokens > 0 {
		l.Loss = t.nats / float64(t.tokens)
		l.Accuracy = float64(t.right) / float64(t.tokens)
	}
	if t.bytes > 0 {
		l.BPB = t.nats / ln2 / float64(t.bytes)
	}
	return l
}

const ln2 = 0.693147180559945309417

// losses lists the rows in the order of the sets, then by family and difficulty.
func losses(sets []*Set, sums map[lossKey]*tally) []Loss {
	var out []Loss
	for _, set := range sets {
		var rows []Loss
		for k, t := range sums {
			if k.set == set.Name {
				rows = append(rows, loss(k, t))
			}
		}
		slices.SortFunc(rows, func(a, b Loss) int {
			fa, da := splitGroup(a.Group)
			fb, db := splitGroup(b.Group)
			return cmp.Or(cmp.Compare(fa, fb), da-db)
		})
		out = append(out, rows...)
	}
	return out
}
