package data

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"tinyloop/internal/fault"
)

// readLines reads one JSON object a line; blank lines are passed over.
func readLines(l *lines, yield func(*Doc) error) error {
	for {
		line, err := l.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		d, err := parseDoc(line)
		if err != nil {
			return l.fail("%v", err)
		}
		d.File, d.Line = l.name, l.no
		if err := yield(d); err != nil {
			return err
		}
	}
}

// readArray reads a file that is one JSON array of texts or objects, an element at a time.
func readArray(l *lines, yield func(*Doc) error) error {
	in := &window{r: l.r, limit: int64(l.limit) + 64<<10}
	dec := json.NewDecoder(in)
	at := func(off int64) { l.no = in.line(off) }
	if _, err := dec.Token(); err != nil {
		return arrayFault(l, in, dec, err)
	}
	for dec.More() {
		in.from = dec.InputOffset()
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return arrayFault(l, in, dec, err)
		}
		at(dec.InputOffset() - int64(len(raw)))
		if i := invalidUTF8(raw); i >= 0 {
			at(dec.InputOffset() - int64(len(raw)) + int64(i))
			return l.fail("invalid UTF-8: byte 0x%02x", raw[i])
		}
		d, err := parseDoc(raw)
		if err != nil {
			return l.fail("%v", err)
		}
		d.File, d.Line = l.name, l.no
		if err := yield(d); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return arrayFault(l, in, dec, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		at(dec.InputOffset())
		return l.fail("something follows the end of the array")
	}
	return nil
}

func arrayFault(l *lines, in *window, dec *json.Decoder, err error) error {
	var s *json.SyntaxError
	off := dec.InputOffset()
	switch {
	case errors.As(err, &s):
		off = s.Offset
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		off = in.read
	}
	l.no = in.line(off)
	if errors.Is(err, errWindow) {
		return l.fail("the element is longer than the limit of %d bytes", l.limit)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return l.fail("the array ends too early")
	}
	return l.fail("%v", jsonFault(err))
}

var errWindow = errors.New("element too long")

// window counts lines for a decoder that only knows offsets, and stops an element that grows beyond the limit.
type window struct {
	r        io.Reader
	read     int64
	from     int64   // where the element being read begins
	newlines []int64 // offsets of line feeds past the last one asked for
	passed   int     // line feeds dropped from newlines
	limit    int64
}

func (w *window) Read(p []byte) (int, error) {
	if w.read-w.from > w.limit {
		return 0, errWindow
	}
	n, err := w.r.Read(p)
	for i, c := range p[:n] {
		if c == '\n' {
			w.newlines = append(w.newlines, w.read+int64(i))
		}
	}
	w.read += int64(n)
	return n, err
}

// line gives the 1-based line of an offset; offsets asked for must not fall.
func (w *window) line(off int64) int {
	i := 0
	for i < len(w.newlines) && w.newlines[i] < off {
		i++
	}
	w.newlines = append(w.newlines[:0], w.newlines[i:]...)
	w.passed += i
	return 1 + w.passed
}

// wireDoc is any of the shapes of one JSON document.
type wireDoc struct {
	Text       *string         `json:"text"`
	Messages   []wireMessage   `json:"messages"`
	Tools      json.RawMessage `json:"tools"`
	Prompt     *string         `json:"prompt"`
	Completion *string         `json:"completion"`
	Labels     json.RawMessage `json:"labels"`
}

type wireMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Name       string          `json:"name"`
	ToolCalls  []ToolCall      `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
}

// parseDoc reads one JSON text or object.
func parseDoc(b []byte) (*Doc, error) {
	b = bytes.TrimSpace(b)
	if at := loneSurrogate(b); at >= 0 {
		return nil, fmt.Errorf("half of a surrogate pair (%s) at column %d: no text in Unicode", b[at:at+6], at+1)
	}
	if b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return nil, jsonFault(err)
		}
		return &Doc{Text: s}, nil
	}
	if b[0] != '{' {
		return nil, fmt.Errorf("expected a JSON object, found %q", clip(b))
	}
	var w wireDoc
	if err := json.Unmarshal(b, &w); err != nil {
		return nil, jsonFault(err)
	}
	return w.doc()
}

func (w *wireDoc) doc() (*Doc, error) {
	pair := w.Prompt != nil || w.Completion != nil
	switch forms := count(w.Text != nil, w.Messages != nil, pair); {
	case forms == 0:
		return nil, errors.New("none of the fields text, messages, prompt and completion is present")
	case forms > 1:
		return nil, errors.New("more than one of text, messages and prompt/completion is present: a document has one form")
	}
	d := &Doc{}
	var err error
	if d.Labels, err = labelsOf(w.Labels); err != nil {
		return nil, err
	}
	switch {
	case w.Text != nil:
		d.Text = *w.Text
		if strings.TrimSpace(d.Text) == "" {
			return nil, errors.New("text is empty")
		}
	case pair:
		if w.Prompt == nil || w.Completion == nil {
			return nil, errors.New("prompt and completion belong together: one is missing")
		}
		if *w.Completion == "" {
			return nil, errors.New("completion is empty: nothing to learn")
		}
		d.Messages = []Message{{Role: "user", Content: *w.Prompt}, {Role: "assistant", Content: *w.Completion}}
	default:
		if err := w.chat(d); err != nil {
			return nil, err
		}
	}
	return d, checkAnswers(d)
}

// labelsOf reads labels that are ours: an object that names its family. Anything else under that name belongs to the reader's own world.
func labelsOf(raw json.RawMessage) (*Labels, error) {
	var ours struct {
		Family string `json:"family"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &ours) != nil || ours.Family == "" {
		return nil, nil
	}
	var l Labels
	if err := json.Unmarshal(raw, &l); err != nil {
		return nil, fmt.Errorf("labels: %w", jsonFault(err))
	}
	if l.Learn != "" && l.Learn != LearnAnswers {
		return nil, fmt.Errorf("labels.learn is %q, expected %q or nothing", clip([]byte(l.Learn)), LearnAnswers)
	}
	return &l, nil
}

func count(is ...bool) (n int) {
	for _, b := range is {
		if b {
			n++
		}
	}
	return n
}

// chat checks a conversation turn by turn.
func (w *wireDoc) chat(d *Doc) error {
	if len(w.Messages) == 0 {
		return errors.New("messages is empty")
	}
	answers := 0
	calls := map[string]bool{}
	for i := range w.Messages {
		m, err := w.Messages[i].message(calls, i == 0)
		if err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}
		if m.Role == "assistant" {
			answers++
		}
		d.Messages = append(d.Messages, m)
	}
	if answers == 0 {
		return errors.New("messages holds no assistant turn: nothing to learn")
	}
	if len(w.Tools) > 0 && string(w.Tools) != "null" {
		return d.setTools(w.Tools)
	}
	return nil
}

func (w *wireMessage) message(calls map[string]bool, first bool) (Message, error) {
	m := Message{Role: w.Role, Name: w.Name, ToolCalls: w.ToolCalls, ToolCallID: w.ToolCallID}
	var err error
	if m.Content, err = contentOf(w.Content); err != nil {
		return m, err
	}
	switch m.Role {
	case "developer":
		m.Role = "system"
	case "function":
		m.Role = "tool"
	case "system", "user", "assistant", "tool":
	case "":
		return m, errors.New("role is missing")
	default:
		return m, fmt.Errorf("role is %q, expected system, user, assistant or tool", m.Role)
	}
	switch {
	case len(m.ToolCalls) > 0 && m.Role != "assistant":
		return m, fmt.Errorf("tool_calls in a turn of role %s, expected only in an assistant's", m.Role)
	case m.Role == "tool" && first:
		return m, errors.New("a conversation cannot begin with a tool's answer")
	case m.Role == "tool" && m.ToolCallID != "" && !calls[m.ToolCallID]:
		return m, fmt.Errorf("tool_call_id %q answers no earlier tool call", clip([]byte(m.ToolCallID)))
	case m.Role == "assistant" && m.Content == "" && len(m.ToolCalls) == 0:
		return m, errors.New("the assistant's turn has neither content nor tool_calls")
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		if c.Function.Name == "" {
			return m, fmt.Errorf("tool_calls[%d].function.name is missing", i)
		}
		if !isObject([]byte(c.Function.Arguments)) {
			return m, fmt.Errorf("tool_calls[%d].function.arguments is %q, expected the text of a JSON object", i, clip([]byte(c.Function.Arguments)))
		}
		calls[c.ID] = true
	}
	return m, nil
}

// contentOf reads content as a text, null, or a list of text parts.
func contentOf(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	if raw[0] == '"' {
		var s string
		return s, json.Unmarshal(raw, &s)
	}
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if raw[0] != '[' || json.Unmarshal(raw, &parts) != nil {
		return "", fmt.Errorf("content is %q, expected a text or a list of text parts", clip(raw))
	}
	var b strings.Builder
	for i, p := range parts {
		if p.Type != "text" || p.Text == nil {
			return "", fmt.Errorf("content[%d] is of type %q, expected text", i, p.Type)
		}
		b.WriteString(*p.Text)
	}
	return b.String(), nil
}

func (d *Doc) setTools(raw json.RawMessage) error {
	var tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if err := json.Unmarshal(raw, &tools); err != nil {
		return fmt.Errorf("tools: %w", jsonFault(err))
	}
	for i, t := range tools {
		if t.Function.Name == "" {
			return fmt.Errorf("tools[%d].function.name is missing", i)
		}
	}
	if len(tools) == 0 {
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return fmt.Errorf("tools: %w", jsonFault(err))
	}
	d.Tools = b.Bytes()
	return nil
}

// checkAnswers keeps labels within the text they speak of.
func checkAnswers(d *Doc) error {
	if d.Labels == nil {
		return nil
	}
	if s := d.Labels.Split; s != "" {
		if _, ok := parseSplit(s); !ok {
			return fmt.Errorf("labels.split is %q, expected train, valid or test", s)
		}
	}
	for i, a := range d.Labels.Answers {
		text := d.Text
		if d.IsChat() {
			if a.Message < 0 || a.Message >= len(d.Messages) {
				return fmt.Errorf("labels.answers[%d].message is %d, there are %d messages", i, a.Message, len(d.Messages))
			}
			text = d.Messages[a.Message].Content
		}
		if a.Start < 0 || a.End < a.Start || a.End > len(text) {
			return fmt.Errorf("labels.answers[%d] marks bytes %d to %d of a text of %d", i, a.Start, a.End, len(text))
		}
	}
	return nil
}

func isObject(b []byte) bool {
	b = bytes.TrimSpace(b)
	return len(b) > 0 && b[0] == '{' && json.Valid(b)
}

// jsonFault says what is wrong in a reader's words.
func jsonFault(err error) error {
	var s *json.SyntaxError
	if errors.As(err, &s) {
		return fmt.Errorf("broken JSON at column %d: %v", s.Offset, err)
	}
	return errors.New(fault.JSONText(err))
}

// loneSurrogate gives the offset of a \uD800–\uDFFF escape without its other half, or -1: the decoder would put U+FFFD there without a word.
func loneSurrogate(b []byte) int {
	for i := 0; i+5 < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		if b[i+1] != 'u' {
			i++ // an escaped backslash or quote
			continue
		}
		hi := surrogate(b[i:])
		if hi == 0 {
			continue
		}
		if hi == 'l' || surrogate(b[min(i+6, len(b)):]) != 'l' {
			return i
		}
		i += 11
	}
	return -1
}

// surrogate says whether b begins with the escape of a high ('h') or low ('l') surrogate.
func surrogate(b []byte) byte {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' || b[2]|0x20 != 'd' {
		return 0
	}
	switch c := b[3] | 0x20; {
	case b[3] == '8' || b[3] == '9' || c == 'a' || c == 'b':
		return 'h'
	case c == 'c' || c == 'd' || c == 'e' || c == 'f':
		return 'l'
	}
	return 0
}

// clip shortens what an error quotes.
func clip(b []byte) []byte {
	if len(b) > 40 {
		return append(bytes.Clone(b[:40]), "…"...)
	}
	return b
}
