package chat

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"tinyloop/internal/fault"
)

// Marks are what a template puts around a call of a function, which is a JSON object with a name and arguments:
//
//	<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>
type Marks struct{ Open, Close string }

// probe is a function that no model knows: where its name turns up in a rendering is where a template puts functions.
const probe = "tl_probe_9e3779"

// hermes is the form of Nous Hermes, Qwen and the models trained here. Line feeds may stand within the marks.
func hermes() Marks { return Marks{"<tool_call>", "</tool_call>"} }

// Marks says how the template writes calls, by rendering one. It is an error of kind Unsupported and field tools where the template shows functions to
// no model, or writes calls in a form that is not read back.
func (t *Template) Marks() (Marks, error) {
	f := t.forms()
	return f.marks, f.err
}

// ShowsCalls says whether the template writes the calls of earlier turns at all.
func (t *Template) ShowsCalls() bool { return t.forms().shows }

// forms is what renderings of the probe tell about a template.
type forms struct {
	marks Marks
	err   error // of marks
	shows bool  // calls are written in some form
}

func (t *Template) findForms() (f forms) {
	if t.prog == nil {
		f.err = fault.New(fault.Unsupported, "tools", "tools are not supported by this model: its file has no chat template that shows them to it")
		return f
	}
	offer := Object{{"type", "function"}, {"function", Object{{"name", probe}, {"description", "d"}, {"parameters", Object{{"type", "object"}, {"properties", Object{}}}}}}}
	call := Object{{"id", "call00000"}, {"type", "function"}, {"function", Object{{"name", probe}, {"arguments", Object{{"k", "v"}}}}}}
	asked := []Message{{Role: "user", Content: "q"}}
	answered := append(asked, Message{Role: "assistant", ToolCalls: []any{call}})
	called := t.plain(answered, []any{offer})
	f.shows = strings.Contains(t.plain(answered, nil), probe)
	if !strings.Contains(t.plain(asked, []any{offer}), probe) {
		f.err = fault.New(fault.Unsupported, "tools", "tools are not supported by this model: its chat template does not show them to it")
		return f
	}
	if m := hermes(); writes(called, m) {
		f.marks = m
		return f
	}
	f.err = fault.New(fault.Unsupported, "tools", "tools are not supported with this model: its chat template writes calls in another form than %s{\"name\": …, \"arguments\": …}%s", hermes().Open, hermes().Close)
	return f
}

// plain is a rendering, "" where the template refuses.
func (t *Template) plain(ms []Message, tools []any) string {
	r := Render{Messages: ms, Tools: tools, Now: time.Unix(0, 0).UTC()}
	out, err := t.run(&r, time.Now(), func(s string) string { return s })
	if err != nil {
		return ""
	}
	return out
}

// writes says whether a rendering holds the call of the probe between marks.
func writes(out string, m Marks) bool {
	for rest := out; ; {
		_, after, found := strings.Cut(rest, m.Open)
		if !found {
			return false
		}
		body, _, shut := strings.Cut(after, m.Close)
		var c written
		if shut && json.Unmarshal([]byte(body), &c) == nil && c.Name == probe && len(c.Arguments) > 0 {
			return true
		}
		rest = after
	}
}

// written is a call as models write it.
type written struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// Piece is a part of an answer: text, or a part of a call, of which the first names the function.
type Piece struct {
	Text      string
	Call      int    // number of the call, from 0; -1 with Text
	Name      string // first piece of a call only
	Arguments string // the next bytes of the arguments' JSON
}

// Reader takes an answer apart into text and calls while it comes. What only looks like a call, or calls a function that was not offered, is text, and
// nothing is lost; therefore a call comes out when it is complete. With Sure, where a grammar has seen to it that it will be, its
// arguments come out as they are written. White space between calls, and in front of the first where nothing else stands, belongs to their marks.
type Reader struct {
	Marks
	Names []string // functions that were offered
	Sure  bool

	buf   []byte // text that is held back, or what stands behind the mark that opens
	in    bool   // behind that mark
	blank []byte // white space that was left out in front of it: text again when no call follows
	scan  objectScan
	named bool // Sure: the name is out
	sent  int  // Sure: bytes of buf whose arguments are out
	calls int
	spoke bool // there has been text since the beginning, or since a call
}

// Calls is how many have begun to come out.
func (r *Reader) Calls() int { return r.calls }

// Whole is how many are complete.
func (r *Reader) Whole() int {
	if r.in && r.named {
		return r.calls - 1
	}
	return r.calls
}

// Feed takes the next bytes of the answer and appends what may go out.
func (r *Reader) Feed(text string, out []Piece) []Piece {
	r.buf = append(r.buf, text...)
	return r.advance(out, false)
}

// End appends what is left.
func (r *Reader) End(out []Piece) []Piece { return r.advance(out, true) }

func (r *Reader) advance(out []Piece, end bool) []Piece {
	for more := true; more; {
		if r.in {
			out, more = r.readCall(out, end)
		} else {
			out, more = r.readText(out, end)
		}
	}
	return out
}

// readText gives text out up to the next mark, but for what may become one. more says that a mark was found.
func (r *Reader) readText(out []Piece, end bool) (_ []Piece, more bool) {
	at := bytes.Index(r.buf, []byte(r.Open))
	ready := at
	if at < 0 {
		if ready = len(r.buf); !end {
			ready -= overlap(r.buf, r.Open)
		}
	}
	blank := len(bytes.TrimSpace(r.buf[:ready])) == 0
	r.blank = r.blank[:0]
	switch {
	case ready == 0:
	case blank && !r.spoke && at < 0 && !end: // may stand in front of a call
		return out, false
	case blank && !r.spoke && (at >= 0 || r.calls > 0):
		r.blank = append(r.blank, r.buf[:ready]...)
	default:
		out = append(out, Piece{Text: string(r.buf[:ready]), Call: -1})
		r.spoke = true
	}
	if at < 0 {
		r.buf = r.buf[:copy(r.buf, r.buf[ready:])]
		return out, false
	}
	r.buf = r.buf[:copy(r.buf, r.buf[at+len(r.Open):])]
	r.in, r.named, r.sent, r.scan = true, false, 0, objectScan{}
	return out, true
}

// overlap is the longest end of b that begins mark.
func overlap(b []byte, mark string) int {
	for n := min(len(b), len(mark)-1); n > 0; n-- {
		if string(b[len(b)-n:]) == mark[:n] {
			return n
		}
	}
	return 0
}

// readCall reads what stands behind a mark. more says that the call has ended, or was none.
func (r *Reader) readCall(out []Piece, end bool) (_ []Piece, more bool) {
	s := &r.scan
	s.run(r.buf)
	if r.Sure {
		out = r.stream(out)
	}
	if s.bad {
		return r.noCall(out), true
	}
	if s.end == 0 {
		if end && !r.named {
			return r.noCall(out), true
		}
		return out, false
	}
	rest := bytes.TrimLeft(r.buf[s.end:], " \t\r\n")
	shut := bytes.HasPrefix(rest, []byte(r.Close))
	switch {
	case shut || end:
	case strings.HasPrefix(r.Close, string(rest)):
		return out, false
	default:
		if !r.named {
			return r.noCall(out), true
		}
	}
	if !r.named {
		var ok bool
		if out, ok = r.whole(out); !ok {
			return r.noCall(out), true
		}
	}
	if shut {
		rest = rest[len(r.Close):]
	}
	r.buf = r.buf[:copy(r.buf, rest)]
	r.in, r.spoke = false, false
	return out, true
}

// noCall makes text of a mark that no call follows; what stands behind it is looked at again.
func (r *Reader) noCall(out []Piece) []Piece {
	r.in, r.spoke = false, true
	return append(out, Piece{Text: string(r.blank) + r.Open, Call: -1})
}

// whole gives out a call that is complete, if it is one.
func (r *Reader) whole(out []Piece) ([]Piece, bool) {
	var c written
	if json.Unmarshal(r.buf[:r.scan.end], &c) != nil || !slices.Contains(r.Names, c.Name) {
		return out, false
	}
	args := bytes.TrimSpace(c.Arguments)
	var inner string
	switch {
	case len(args) == 0 || string(args) == "null":
		args = []byte("{}")
	case args[0] == '"': // JSON within JSON, as the wire has it
		if json.Unmarshal(args, &inner) != nil || !json.Valid([]byte(inner)) {
			return out, false
		}
		args = []byte(inner)
	case args[0] != '{':
		return out, false
	}
	r.calls++
	return append(out, Piece{Call: r.calls - 1, Name: c.Name}, Piece{Call: r.calls - 1, Arguments: string(args)}), true
}

// stream gives out what has been written of a call that will be complete.
func (r *Reader) stream(out []Piece) []Piece {
	s := &r.scan
	if s.args == 0 {
		return out
	}
	if !r.named {
		var c written
		head := bytes.TrimRight(r.buf[:s.comma], " \n")
		if json.Unmarshal(append(slices.Clone(head), '}'), &c) != nil {
			return out
		}
		r.named, r.sent = true, s.args
		r.calls++
		out = append(out, Piece{Call: r.calls - 1, Name: c.Name})
	}
	to := s.inside
	if s.end > 0 {
		to = s.end - 1
	}
	if to <= r.sent {
		return out
	}
	part := r.buf[r.sent:to]
	if r.sent == s.args {
		part = bytes.TrimLeft(part, " \n")
	}
	if s.end > 0 {
		part = bytes.TrimRight(part, " \n")
	}
	r.sent = to
	if len(part) == 0 {
		return out
	}
	return append(out, Piece{Call: r.calls - 1, Arguments: string(part)})
}

// objectScan finds the end of a JSON object, and in one with two members where the second one's value begins.
type objectScan struct {
	at, depth      int
	quoted, escape bool
	bad            bool
	end            int // behind the closing bracket; 0 before
	comma, args    int // the comma behind the first member; behind the colon of the second. 0 before
	inside         int // up to here the value of the second member is certain
}

// run looks at the bytes that are new. It stops at the end of the object.
func (s *objectScan) run(b []byte) {
	for ; s.at < len(b) && s.end == 0 && !s.bad; s.at++ {
		c := b[s.at]
		switch {
		case s.escape:
			s.escape = false
		case s.quoted:
			s.escape, s.quoted = c == '\\', c != '"'
		case c == '"':
			s.quoted = true
			s.bad = s.depth == 0
		case c == '{' || c == '[':
			s.bad = s.depth == 0 && c == '['
			s.depth++
		case c == '}' || c == ']':
			s.depth--
			s.bad = s.depth < 0
			if s.depth == 0 && !s.bad {
				s.end = s.at + 1
			}
		case c == ',' && s.depth == 1 && s.comma == 0:
			s.comma = s.at
		case c == ':' && s.depth == 1 && s.comma > 0 && s.args == 0:
			s.args = s.at + 1
		case s.depth == 0 && c != ' ' && c != '\n' && c != '\r' && c != '\t':
			s.bad = true
		}
		if s.args > 0 && s.args <= s.at && (s.depth > 1 || s.depth == 1 && (c == '}' || c == ']')) {
			s.inside = s.at + 1
		}
	}
}
