package data

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"tinyloop/internal/chat"
	"tinyloop/internal/fault"
	"tinyloop/internal/tok"
)

// Encoder is what this package needs of a tokenizer; *tok.Tokenizer is one.
type Encoder interface {
	Encode(dst []tok.ID, text string) []tok.ID           // text of people: control tokens stay text
	EncodeSpans(dst []tok.ID, spans []tok.Span) []tok.ID // a template's text and people's, as one string
	Bytes(id tok.ID) []byte                              // as they stand in the text; nil for control tokens
	Piece(id tok.ID) string
	IsControl(id tok.ID) bool
	Kind() string // bpe or spm
	Size() int
	Hash() [32]byte
	BOS() tok.ID
	EOS() tok.ID
	AddBOS() bool
}

// Range is the tokens [Start, End) of a document.
type Range struct{ Start, End uint32 }

// Trace says what a model should expect at token At of a document after Step loops, while it is still on the way to the answer.
type Trace struct {
	At   uint32 // index of the token to predict
	Step uint32 // 1-based
	ID   tok.ID // the first token of the intermediate result
}

// Tokens is an encoded document. Its slices are reused by the next Encode.
type Tokens struct {
	IDs    []tok.ID
	Learn  []Range // tokens that count as targets, ascending and disjoint; the very first token never does
	Traces []Trace
}

// Coder turns documents into tokens. It holds scratch: one goroutine at a time.
type Coder struct {
	tok      Encoder
	template *chat.Template
	bos, eos string
	controls []string

	spans []tok.Span
	trace []tok.ID
}

// NewCoder makes a coder whose conversations are written down by the given template, which must write a longer conversation as a
// continuation of a shorter one.
func NewCoder(t Encoder, template *chat.Template) *Coder {
	c := &Coder{tok: t, template: template}
	for id := range tok.ID(t.Size()) {
		if t.IsControl(id) && t.Piece(id) != "" {
			c.controls = append(c.controls, t.Piece(id))
		}
	}
	if t.BOS() >= 0 {
		c.bos = t.Piece(t.BOS())
	}
	if t.EOS() >= 0 {
		c.eos = t.Piece(t.EOS())
	}
	return c
}

// Encode encodes d into t. A text gets the start token (where prompts get one) and the end token, and all of it is learned, or
// only its labelled answers where the labels say so. Of a conversation the assistant's turns are learned, the text that ends them included, and nothing else.
func (c *Coder) Encode(d *Doc, t *Tokens) error {
	t.IDs, t.Learn, t.Traces = t.IDs[:0], t.Learn[:0], t.Traces[:0]
	if c.tok.AddBOS() && c.tok.BOS() >= 0 {
		t.IDs = append(t.IDs, c.tok.BOS())
	}
	if d.IsChat() {
		return c.chat(d, t)
	}
	first := len(t.IDs)
	t.IDs = c.tok.Encode(t.IDs, d.Text)
	if d.Labels != nil {
		for _, a := range d.Labels.Answers {
			c.traces(t, first, d.Text, a.Start, a.States)
		}
	}
	if c.tok.EOS() >= 0 {
		t.IDs = append(t.IDs, c.tok.EOS())
	}
	if len(t.IDs) > 1 && !c.onlyAnswers(d, t, first) {
		t.Learn = append(t.Learn, Range{1, uint32(len(t.IDs))})
	}
	return nil
}

// onlyAnswers marks the answers of a text, each with the token after it, as what is learned; false where that was not asked for or they cannot be told.
func (c *Coder) onlyAnswers(d *Doc, t *Tokens, first int) bool {
	if d.Labels == nil || d.Labels.Learn != LearnAnswers {
		return false
	}
	end := uint32(1)
	for _, a := range d.Labels.Answers {
		lo, _, ok := c.find(t, first, d.Text, a.Start)
		hi, part, ok2 := c.find(t, first, d.Text, a.End)
		if !ok || !ok2 {
			t.Learn = t.Learn[:0]
			return false
		}
		if part > 0 {
			hi++
		}
		r := Range{max(uint32(lo), end), min(uint32(hi+1), uint32(len(t.IDs)))}
		if r.Start < r.End {
			t.Learn, end = append(t.Learn, r), r.End
		}
	}
	return len(t.Learn) > 0
}

// find gives the token, from first on, in which byte off of text lies, and the bytes of that token before off; ok is false where the tokens
// do not spell the text.
func (c *Coder) find(t *Tokens, first int, text string, off int) (at, before int, ok bool) {
	pos := 0
	for at = first; at < len(t.IDs); at++ {
		n := c.width(t.IDs[at], text[pos:])
		if n < 0 {
			return 0, 0, false
		}
		if pos+n > off {
			return at, off - pos, true
		}
		pos += n
	}
	return at, 0, pos == off
}

// width gives the bytes of text that a token at its beginning spells, −1 when it does not spell it. SentencePiece puts a blank before the
// first word that the text does not have.
func (c *Coder) width(id tok.ID, text string) int {
	b := string(c.tok.Bytes(id))
	if c.tok.IsControl(id) {
		b = c.tok.Piece(id)
	}
	switch {
	case strings.HasPrefix(text, b):
		return len(b)
	case c.tok.Kind() == "spm" && strings.HasPrefix(b, " ") && strings.HasPrefix(text, b[1:]):
		return len(b) - 1
	case c.tok.IsControl(id):
		return 0
	}
	return -1
}

// traces adds the states of an answer that begins at byte off of what tokens first… say.
func (c *Coder) traces(t *Tokens, first int, text string, off int, states []string) {
	if len(states) == 0 {
		return
	}
	at, before, ok := c.find(t, first, text, off)
	if !ok || at == len(t.IDs) {
		return
	}
	for i, state := range states {
		if id := c.begins(state, before > 0); id >= 0 {
			t.Traces = append(t.Traces, Trace{At: uint32(at), Step: uint32(i + 1), ID: id})
		}
	}
}

// begins gives the token that a word begins with, with the blank before it or without; −1 when the tokenizer has it the other way only.
func (c *Coder) begins(word string, blank bool) tok.ID {
	if blank && c.tok.Kind() != "spm" { // which puts the blank there by itself
		word = " " + word
	}
	c.trace = c.tok.Encode(c.trace[:0], word)
	for _, id := range c.trace {
		b := c.tok.Bytes(id)
		if len(b) == 0 || string(b) == " " {
			continue
		}
		if (b[0] == ' ') != blank {
			return -1
		}
		return id
	}
	return -1
}

// chat writes a conversation with the template and finds the assistant's turns in it: what a turn adds to the text that asks for it.
func (c *Coder) chat(d *Doc, t *Tokens) error {
	msgs, marks := fold(d)
	whole, parts, err := c.render(msgs, false)
	if err != nil {
		return err
	}
	if c.bos != "" && strings.HasPrefix(whole, c.bos) && len(t.IDs) == 1 {
		t.IDs = t.IDs[:0] // the template writes the start token itself
	}
	var turns []turn
	for i, m := range msgs {
		if m.Role != "assistant" {
			continue
		}
		before, _, err := c.render(msgs[:i], true)
		if err != nil {
			return err
		}
		after, _, err := c.render(msgs[:i+1], false)
		if err != nil {
			return err
		}
		after = strings.TrimRight(after, "\n ")
		if len(after) <= len(before) || !strings.HasPrefix(after, before) || !strings.HasPrefix(whole, after) {
			return fault.New(fault.Invalid, "chat_template", "%s:%d: messages[%d]: the chat template does not write a conversation as a "+
				"continuation of its beginning, so the assistant's part cannot be told", d.File, d.Line, i)
		}
		s := turn{lo: len(before), hi: len(after), msg: i, source: i - (len(msgs) - len(d.Messages)), content: len(before)}
		if k := strings.Index(after[len(before):], m.Content); k > 0 {
			s.content += k
		}
		turns = append(turns, s)
	}
	if !c.spell(d, t, whole, markup(parts, turns, marks), turns) {
		return fault.New(fault.Invalid, "input", "%s:%d: the tokenizer changes the text, so the assistant's part cannot be told", d.File, d.Line)
	}
	return nil
}

// turn is an assistant's turn in the text of the whole conversation, in bytes.
type turn struct {
	lo, hi  int
	msg     int // its number as rendered
	source  int // its number in the document
	content int // where the message's own text begins
}

func (c *Coder) render(msgs []chat.Message, ask bool) (string, []chat.Part, error) {
	parts, err := c.template.Render(chat.Render{Messages: msgs, AddGenerationPrompt: ask, BOS: c.bos, EOS: c.eos, Controls: c.controls})
	if err != nil {
		return "", nil, err
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String(), parts, nil
}

// markup gives the stretches of the text that a template wrote, or we: its parts, and our marks of tool calls within people's.
func markup(parts []chat.Part, turns []turn, marks map[int][]mark) []mark {
	var out []mark
	at := 0
	for _, p := range parts {
		if !p.User {
			out = append(out, mark{at, at + len(p.Text)})
		}
		at += len(p.Text)
	}
	for _, s := range turns {
		for _, m := range marks[s.msg] {
			out = append(out, mark{s.content + m.lo, s.content + m.hi})
		}
	}
	slices.SortFunc(out, func(a, b mark) int { return a.lo - b.lo })
	return out
}

// spell encodes the whole text and marks the turns in it. Where a prompt ends and an answer begins the tokens are cut, because at inference
// they are: no token reaches from one into the other. SentencePiece would put a blank after a cut, so its tokens are found in the whole.
func (c *Coder) spell(d *Doc, t *Tokens, whole string, marks []mark, turns []turn) bool {
	if c.tok.Kind() == "spm" {
		first := len(t.IDs)
		c.encode(t, whole, marks, 0, len(whole))
		for _, s := range turns {
			lo, _, ok := c.find(t, first, whole, s.lo)
			hi, part, ok2 := c.find(t, first, whole, s.hi)
			if !ok || !ok2 {
				return false
			}
			if part > 0 {
				hi++
			}
			t.Learn = append(t.Learn, Range{uint32(lo), uint32(hi)})
			c.answers(d, t, s, first, whole, 0)
		}
		return true
	}
	at := 0
	for _, s := range turns {
		c.encode(t, whole, marks, at, s.lo)
		first := len(t.IDs)
		c.encode(t, whole, marks, s.lo, s.hi)
		t.Learn = append(t.Learn, Range{uint32(first), uint32(len(t.IDs))})
		c.answers(d, t, s, first, whole[s.lo:s.hi], s.lo)
		at = s.hi
	}
	c.encode(t, whole, marks, at, len(whole))
	return true
}

// encode appends the tokens of whole[lo:hi].
func (c *Coder) encode(t *Tokens, whole string, marks []mark, lo, hi int) {
	c.spans = c.spans[:0]
	add := func(to int, isMarkup bool) {
		if to > lo {
			c.spans = append(c.spans, tok.Span{Text: whole[lo:to], Markup: isMarkup})
			lo = to
		}
	}
	for _, m := range marks {
		if m.hi > lo && m.lo < hi {
			add(min(m.lo, hi), false)
			add(min(m.hi, hi), true)
		}
	}
	add(hi, false)
	t.IDs = c.tok.EncodeSpans(t.IDs, c.spans)
}

// answers adds the traces of a turn whose text begins at byte base of the whole and at token first.
func (c *Coder) answers(d *Doc, t *Tokens, s turn, first int, text string, base int) {
	if d.Labels == nil {
		return
	}
	for _, a := range d.Labels.Answers {
		if a.Message == s.source {
			c.traces(t, first, text, s.content+a.Start-base, a.States)
		}
	}
}

// The marks around a tool call in a conversation's text; single tokens in our own vocabulary.
const (
	OpenCall  = "<tool_call>"
	CloseCall = "</tool_call>"
)

// mark is a mark of ours within a message's content, in bytes.
type mark struct{ lo, hi int }

// fold writes tools and tool calls as text: the tools one a line at the end of the system message, a call between its marks. It says where
// the marks stand, by message, so that they become control tokens there and only there.
func fold(d *Doc) ([]chat.Message, map[int][]mark) {
	var msgs []chat.Message
	if tools := toolLines(d.Tools); tools != "" {
		sys := chat.Message{Role: "system", Content: tools}
		rest := d.Messages
		if rest[0].Role == "system" {
			sys.Content = rest[0].Content + "\n" + tools
			rest = rest[1:]
		}
		msgs = append(msgs, sys)
		for i := range rest {
			msgs = append(msgs, chat.Message{Role: rest[i].Role, Content: rest[i].Content, Name: rest[i].Name})
		}
	} else {
		for _, m := range d.Messages {
			msgs = append(msgs, chat.Message{Role: m.Role, Content: m.Content, Name: m.Name})
		}
	}
	shift := len(msgs) - len(d.Messages)
	marks := map[int][]mark{}
	for i, m := range d.Messages {
		for _, call := range m.ToolCalls {
			at := i + shift
			text := msgs[at].Content
			if text != "" && !strings.HasSuffix(text, "\n") && !strings.HasSuffix(text, CloseCall) {
				text += "\n"
			}
			open := mark{len(text), len(text) + len(OpenCall)}
			text += OpenCall + CallText(call.Function)
			close := mark{len(text), len(text) + len(CloseCall)}
			msgs[at].Content = text + CloseCall
			marks[at] = append(marks[at], open, close)
		}
	}
	return msgs, marks
}

// CallText is a call as a model writes it: {"name":"…","arguments":{…}}.
func CallText(f FunctionCall) string {
	name, _ := json.Marshal(f.Name) // a string always encodes
	args := bytes.Buffer{}
	if err := json.Compact(&args, []byte(f.Arguments)); err != nil {
		args.Reset()
		args.WriteString("{}")
	}
	return `{"name":` + string(name) + `,"arguments":` + args.String() + `}`
}

// toolLines lists the functions of an OpenAI tools array, one JSON object a line under a heading; "" without tools.
func toolLines(raw json.RawMessage) string {
	var tools []struct {
		Function json.RawMessage `json:"function"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &tools) != nil || len(tools) == 0 {
		return ""
	}
	b := []byte("Tools:")
	for _, t := range tools {
		b = append(append(b, '\n'), t.Function...)
	}
	return string(b)
}
