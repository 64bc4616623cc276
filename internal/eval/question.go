package eval

import (
	"slices"
	"strings"

	"tinyloop/internal/data"
	"tinyloop/internal/fault"
	"tinyloop/internal/tok"
)

// Group is what is counted together.
type Group struct {
	Set        string `json:"set"`
	Family     string `json:"family"`
	Difficulty int    `json:"difficulty"` // 0 of an answer whose own difficulty is not known, in a document that asks several things
}

// call marks a question whose answer is a tool call.
const call = -1

// question is one answer of a document.
type question struct {
	group   Group
	doc     *data.Doc
	message int // of the answer
	answer  int // index in Labels.Answers, or call
}

// text is what the answer stands in.
func (q *question) text() string {
	if q.doc.IsChat() {
		return q.doc.Messages[q.message].Content
	}
	return q.doc.Text
}

// want is the answer.
func (q *question) want() string {
	if q.answer == call {
		var all []string
		for _, c := range q.doc.Messages[q.message].ToolCalls {
			all = append(all, data.CallText(c.Function))
		}
		return strings.Join(all, " ")
	}
	a := &q.doc.Labels.Answers[q.answer]
	return q.text()[a.Start:a.End]
}

// questions lists what the documents of a set ask, in their order. Documents without labels ask nothing. A call counts in the family
// "<family>-call".
func questions(s *Set) ([]question, error) {
	var out []question
	for _, d := range s.Docs {
		if d.Labels == nil {
			continue
		}
		for i, a := range d.Labels.Answers {
			if d.IsChat() && d.Messages[a.Message].Role != "assistant" {
				return nil, fault.New(fault.Invalid, "tasks", "%s:%d: labels.answers[%d] stands in a message of role %q, expected assistant",
					d.File, d.Line, i, d.Messages[a.Message].Role)
			}
			if a.End == a.Start {
				continue
			}
			g := Group{s.Name, d.Labels.Family, difficulty(d, i)}
			out = append(out, question{group: g, doc: d, message: a.Message, answer: i})
		}
		for m := range d.Messages {
			if len(d.Messages[m].ToolCalls) > 0 {
				g := Group{s.Name, d.Labels.Family + "-call", d.Labels.Difficulty}
				out = append(out, question{group: g, doc: d, message: m, answer: call})
			}
		}
	}
	return out, nil
}

// difficulty is an answer's own: its number of steps where it has any, else the document's, unless that is the difficulty of another answer.
func difficulty(d *data.Doc, i int) int {
	if n := len(d.Labels.Answers[i].States); n > 0 {
		return n
	}
	if len(d.Labels.Answers) == 1 {
		return d.Labels.Difficulty
	}
	for j := range d.Labels.Answers {
		if len(d.Labels.Answers[j].States) > 0 {
			return 0
		}
	}
	return d.Labels.Difficulty
}

// choosing keeps at most limit of n things of each group, the same ones for the same seed, in their order; group gives the group of thing i.
func choosing[K comparable](n, limit int, seed uint64, group func(i int) K) []int {
	byGroup := map[K][]int{}
	var out []int
	for i := range n {
		g := group(i)
		byGroup[g] = append(byGroup[g], i)
	}
	for _, is := range byGroup {
		if limit > 0 && len(is) > limit {
			slices.SortFunc(is, func(a, b int) int {
				x, y := mix(seed, uint64(a)), mix(seed, uint64(b))
				switch {
				case x < y:
					return -1
				case x > y:
					return 1
				}
				return a - b
			})
			is = is[:limit]
		}
		out = append(out, is...)
	}
	slices.Sort(out)
	return out
}

// mix is a hash of two numbers (the finaliser of SplitMix64, Steele, Lea & Flood 2014).
func mix(key, n uint64) uint64 {
	z := key*0xd1342543de82ef95 + (n+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// prompt is a question as a model is asked it.
type prompt struct {
	ids   []tok.ID
	lead  string // text between the end of the prompt and the answer, a blank in most cases
	room  int    // tokens that the answer may take
	short string // why it cannot be asked; "" = it can
}

// Tokens of room beyond the expected ones: after a text's answer, to see that it ends there, and after a turn, which may say it in other words.
const (
	textRoom = 3
	turnRoom = 16
)

// prompt encodes what stands before the answer: the text up to the token in which the answer begins, or the conversation up to the asked turn,
// as the server would write it.
func (s *Subject) prompt(q *question) (prompt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var p prompt
	var err error
	if q.doc.IsChat() {
		p, err = s.turnPrompt(q)
	} else {
		p, err = s.textPrompt(q)
	}
	if err != nil {
		return p, err
	}
	context := s.Gen.Info().Context
	switch {
	case len(p.ids) == 0:
		p.short = "nothing stands before the answer"
	case len(p.ids) >= context:
		p.short = "the prompt fills the window"
	}
	p.room = min(p.room, context-len(p.ids))
	return p, nil
}

func (s *Subject) turnPrompt(q *question) (prompt, error) {
	ids, turn, err := s.turn(q.doc, q.message)
	if err != nil {
		return prompt{}, err
	}
	return prompt{ids: ids, room: len(turn) + turnRoom}, nil
}

// turn encodes a conversation up to message m and gives what stands before the turn and the turn itself.
func (s *Subject) turn(d *data.Doc, m int) (before, turn []tok.ID, err error) {
	var t data.Tokens
	cut := data.Doc{Messages: d.Messages[:m+1], Tools: d.Tools, File: d.File, Line: d.Line}
	if err := s.coderOf().Encode(&cut, &t); err != nil {
		return nil, nil, err
	}
	last := t.Learn[len(t.Learn)-1]
	return t.IDs[:last.Start:last.Start], t.IDs[last.Start:last.End], nil
}

func (s *Subject) textPrompt(q *question) (prompt, error) {
	text, a := q.doc.Text, q.doc.Labels.Answers[q.answer]
	ids, first, err := s.encodeText(q.doc, text[:a.End])
	if err != nil {
		return prompt{}, err
	}
	at, before, ok := tokenAt(s.Gen.Tokenizer(), ids, first, text, a.Start)
	if !ok { // the tokenizer changes the text: cut at the last blank instead
		ids, _, err = s.encodeText(q.doc, strings.TrimRight(text[:a.Start], " "))
		return prompt{ids: ids, lead: " ", room: len(text[a.Start:a.End]) + textRoom}, err
	}
	if at == 0 {
		return prompt{}, nil
	}
	return prompt{ids: ids[:at:at], lead: text[a.Start-before : a.Start], room: len(ids) - at + textRoom}, nil
}

// encodeText encodes a text without its end token; first is the index of the first token of the text itself.
func (s *Subject) encodeText(d *data.Doc, text string) (ids []tok.ID, first int, err error) {
	var t data.Tokens
	if err := s.coderOf().Encode(&data.Doc{Text: text, File: d.File, Line: d.Line}, &t); err != nil {
		return nil, 0, err
	}
	tk := s.Gen.Tokenizer()
	ids = t.IDs
	if n := len(ids); tk.EOS() >= 0 && n > 0 && ids[n-1] == tk.EOS() {
		ids = ids[:n-1]
	}
	if tk.AddBOS() && tk.BOS() >= 0 {
		first = 1
	}
	return ids, first, nil
}

// tokenAt gives the token, from first on, in which byte off of text lies, and how many bytes of the text that token has before it; ok is false
// where the tokens do not spell the text.
func tokenAt(t *tok.Tokenizer, ids []tok.ID, first int, text string, off int) (at, before int, ok bool) {
	pos := 0
	for at = first; at < len(ids); at++ {
		b := string(t.Bytes(ids[at]))
		if !strings.HasPrefix(text[pos:], b) {
			// SentencePiece puts a blank before the first word that the text does not have.
			if b = strings.TrimPrefix(b, " "); t.Kind() != "spm" || !strings.HasPrefix(text[pos:], b) {
				return 0, 0, false
			}
		}
		if pos+len(b) > off {
			return at, off - pos, true
		}
		pos += len(b)
	}
	return at, 0, pos == off
}
