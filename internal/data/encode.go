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
	Encode(dst []tok.ID, text string) []tok.ID       // text of people: control tokens stay text
	EncodeMarkup(dst []tok.ID, text string) []tok.ID // text of a template: control tokens are recognised
	Bytes(id tok.ID) []byte
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
	Tok      Encoder
	Template *chat.Template // how conversations are written down; must write a longer conversation as a continuation of a shorter one
	Controls []string       // texts of the tokenizer's control tokens, see chat.Render

	trace []tok.ID
}

// Encode encodes d into t. A text gets the start token (where prompts get one) and the end token, and all of it is learned. Of a
// conversation the assistant's turns are learned, the text that ends them included, and nothing else.
func (c *Coder) Encode(d *Doc, t *Tokens) error {
	t.IDs, t.Learn, t.Traces = t.IDs[:0], t.Learn[:0], t.Traces[:0]
	if c.Tok.AddBOS() && c.Tok.BOS() >= 0 {
		t.IDs = append(t.IDs, c.Tok.BOS())
	}
	if d.IsChat() {
		return c.chat(d, t)
	}
	first := len(t.IDs)
	t.IDs = c.Tok.Encode(t.IDs, d.Text)
	if d.Labels != nil {
		for _, a := range d.Labels.Answers {
			c.traces(t, first, a.Start, a.States)
		}
	}
	if c.Tok.EOS() >= 0 {
		t.IDs = append(t.IDs, c.Tok.EOS())
	}
	if len(t.IDs) > 1 {
		t.Learn = append(t.Learn, Range{1, uint32(len(t.IDs))})
	}
	return nil
}

// traces adds the states of an answer that begins at byte off of what tokens first… say.
func (c *Coder) traces(t *Tokens, first, off int, states []string) {
	at, lead := first, 0
	for at < len(t.IDs) {
		n := len(c.Tok.Bytes(t.IDs[at]))
		if lead+n > off {
			break
		}
		lead += n
		at++
	}
	if at == len(t.IDs) {
		return
	}
	blank := ""
	if lead < off { // the token begins with the blank before the answer
		blank = " "
	}
	for i, s := range states {
		c.trace = c.Tok.Encode(c.trace[:0], blank+s)
		if len(c.trace) > 0 {
			t.Traces = append(t.Traces, Trace{At: uint32(at), Step: uint32(i + 1), ID: c.trace[0]})
		}
	}
}

// chat writes a conversation with the template and finds the assistant's turns in it: what a turn adds to the text that asks for it.
func (c *Coder) chat(d *Doc, t *Tokens) error {
	msgs, marks := fold(d)
	whole, parts, err := c.render(msgs, false)
	if err != nil {
		return err
	}
	var spans []span
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
		s := span{lo: len(before), hi: len(after), msg: i, source: i - (len(msgs) - len(d.Messages)), content: len(before)}
		if k := strings.Index(after[len(before):], m.Content); k > 0 {
			s.content += k
		}
		spans = append(spans, s)
	}
	c.parts(d, t, parts, spans, marks)
	return nil
}

// span is an assistant's turn in the text of the whole conversation, in bytes.
type span struct {
	lo, hi  int
	msg     int // its number as rendered
	source  int // its number in the document
	content int // where the message's own text begins
}

func (c *Coder) render(msgs []chat.Message, ask bool) (string, []chat.Part, error) {
	r := chat.Render{Messages: msgs, AddGenerationPrompt: ask, Controls: c.Controls}
	parts, err := c.Template.Render(r)
	if err != nil {
		return "", nil, err
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String(), parts, nil
}

// parts encodes the parts, cut where learning begins and ends and around our own marks of tool calls.
func (c *Coder) parts(d *Doc, t *Tokens, parts []chat.Part, spans []span, marks map[int][]mark) {
	var cuts []int
	markup := map[int]int{} // byte where a mark begins to where it ends
	for _, s := range spans {
		cuts = append(cuts, s.lo, s.hi)
		for _, m := range marks[s.msg] {
			cuts = append(cuts, s.content+m.lo, s.content+m.hi)
			markup[s.content+m.lo] = s.content + m.hi
		}
	}
	slices.Sort(cuts)
	at := 0
	for _, p := range parts {
		for rest := p.Text; rest != ""; {
			n := len(rest)
			for len(cuts) > 0 && cuts[0] <= at {
				cuts = cuts[1:]
			}
			if len(cuts) > 0 && cuts[0] < at+n {
				n = cuts[0] - at
			}
			c.piece(d, t, rest[:n], p.User && markup[at] != at+n, at, spans)
			at += n
			rest = rest[n:]
		}
	}
}

func (c *Coder) piece(d *Doc, t *Tokens, text string, user bool, at int, spans []span) {
	first := len(t.IDs)
	if user {
		t.IDs = c.Tok.Encode(t.IDs, text)
	} else {
		t.IDs = c.Tok.EncodeMarkup(t.IDs, text)
	}
	for _, s := range spans {
		if at < s.lo || at >= s.hi {
			continue
		}
		t.learn(first)
		if d.Labels == nil {
			return
		}
		for _, a := range d.Labels.Answers {
			if off := s.content + a.Start - at; a.Message == s.source && off >= 0 && off < len(text) {
				c.traces(t, first, off, a.States)
			}
		}
		return
	}
}

// learn makes the tokens from first to the end targets.
func (t *Tokens) learn(first int) {
	end := uint32(len(t.IDs))
	if n := len(t.Learn); n > 0 && t.Learn[n-1].End == uint32(first) {
		t.Learn[n-1].End = end
		return
	}
	t.Learn = append(t.Learn, Range{uint32(first), end})
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
