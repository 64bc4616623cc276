// Package minilab speaks POST /v1/chat as the MiniLab course's server does: its limits, defaults, events and spacing.
package minilab

import (
	"net/http"
	"strconv"
	"unicode/utf8"

	"tinyloop/internal/chat"
	"tinyloop/internal/dialect"
	"tinyloop/internal/fault"
	"tinyloop/internal/gen"
)

// Limits are the bounds of a request; zero values mean the course's own.
type Limits struct {
	Messages  int // most messages, 20
	Content   int // most code points of one message, 500
	MaxTokens int // largest max_tokens, 100
	Default   int // max_tokens when absent, 60
}

func (l Limits) withDefaults() Limits {
	return Limits{or(l.Messages, 20), or(l.Content, 500), or(l.MaxTokens, 100), or(l.Default, 60)}
}

func or(x, otherwise int) int {
	if x > 0 {
		return x
	}
	return otherwise
}

// New gives the dialect.
func New(l Limits) *dialect.Dialect {
	l = l.withDefaults()
	return &dialect.Dialect{
		Name: "minilab", Status: dialect.Status, Error: appendError,
		Routes: []dialect.Route{{Method: http.MethodPost, Path: "/v1/chat", Decode: l.decode}},
	}
}

func appendError(dst []byte, c *dialect.Call, status int, err error) []byte {
	return dialect.AppendBothErrors(dst, c, err)
}

func (l Limits) decode(c *dialect.Call) (*dialect.Job, error) {
	o, err := dialect.ParseObject(c.Body)
	if err != nil {
		return nil, err
	}
	r := &gen.Request{ID: c.ID, FitWindow: true}
	r.Messages = l.messages(o.Need("messages"))
	r.MaxTokens = whole(o, "max_tokens", 1, l.MaxTokens, l.Default)
	r.Temperature = within(o, "temperature", 0, 2, false)
	if r.Temperature == nil {
		r.Temperature = new(float64)
	}
	if r.TopK = o.Int("top_k"); r.TopK != nil && *r.TopK < 1 {
		o.Get("top_k").Fail(fault.Invalid, "greater_than_equal", "top_k must be at least 1, got %d", *r.TopK)
	}
	r.TopP = within(o, "top_p", 0, 1, true)
	if r.Seed = o.Seed("seed"); r.Seed == nil {
		r.Seed = new(uint64)
	}
	stream := o.Flag("stream", true)
	model := o.Str("model")
	r.Loops = o.Int("loops")
	o.Done()
	c.Ignored = o.Ignored()
	j := &dialect.Job{Model: model, Requests: []*gen.Request{r}, Stream: stream, Encoder: &encoder{stream: stream},
		Rename: map[string]string{"prompt": "messages"}}
	return j, o.Err()
}

func (l Limits) messages(v dialect.Value) []chat.Message {
	if !v.Present() {
		return nil
	}
	if !v.IsArray() {
		v.Len() // records the wrong type
		return nil
	}
	if n := v.Len(); n < 1 {
		v.Fail(fault.Invalid, "too_short", "messages must have at least 1 element, got 0")
		return nil
	} else if n > l.Messages {
		v.Fail(fault.Invalid, "too_long", "messages may have at most %d elements, got %d", l.Messages, n)
		return nil
	}
	var out []chat.Message
	v.Each(func(_ int, e dialect.Value) { out = append(out, l.message(e)) })
	return out
}

func (l Limits) message(v dialect.Value) chat.Message {
	o := v.Object()
	var m chat.Message
	if role := o.Need("role"); role.Present() {
		m.Role = role.String()
		switch m.Role {
		case "system", "user", "assistant":
		default:
			role.Fail(fault.Invalid, "literal_error", "%s must be 'system', 'user' or 'assistant'", role.Path())
		}
	}
	if content := o.Need("content"); content.Present() {
		m.Content = content.String()
		if n := utf8.RuneCountInString(m.Content); n > l.Content {
			content.Fail(fault.Invalid, "string_too_long", "%s may have at most %d characters, got %d", content.Path(), l.Content, n)
		}
	}
	o.Done()
	return m
}

func whole(o *dialect.Object, name string, lo, hi, otherwise int) *int {
	n := o.Int(name)
	switch {
	case n == nil:
		return &otherwise
	case *n < lo:
		o.Get(name).Fail(fault.Invalid, "greater_than_equal", "%s must be at least %d, got %d", name, lo, *n)
	case *n > hi:
		o.Get(name).Fail(fault.Invalid, "less_than_equal", "%s must be at most %d, got %d", name, hi, *n)
	}
	return n
}

// within reads a number from lo to hi; open leaves lo itself out.
func within(o *dialect.Object, name string, lo, hi float64, open bool) *float64 {
	x := o.Float(name)
	switch {
	case x == nil:
		return nil
	case open && *x <= lo:
		o.Get(name).Fail(fault.Invalid, "greater_than", "%s must be above %g, got %g", name, lo, *x)
	case *x < lo:
		o.Get(name).Fail(fault.Invalid, "greater_than_equal", "%s must be at least %g, got %g", name, lo, *x)
	case *x > hi:
		o.Get(name).Fail(fault.Invalid, "less_than_equal", "%s must be at most %g, got %g", name, hi, *x)
	}
	return x
}

// encoder writes JSON with Python's spacing, ", " and ": ".
type encoder struct {
	stream bool
	text   []byte
	end    gen.Event
}

func (e *encoder) Begin(dst []byte, s *dialect.Started) []byte { return dst }

func (e *encoder) Event(dst []byte, _ int, ev *gen.Event) []byte {
	switch {
	case !e.stream:
		e.text = append(e.text, ev.Text...)
		if ev.Kind == gen.Done {
			e.end = *ev
		}
		return dst
	case ev.Kind == gen.Done:
		return appendDone(dst, ev)
	}
	dst = append(dst, `data: {"type": "delta", "index": `...)
	dst = dialect.AppendInt(dst, ev.Index)
	dst = append(dst, `, "id": `...)
	if ev.ID < 0 {
		dst = append(dst, "null"...)
	} else {
		dst = dialect.AppendInt(dst, int(ev.ID))
	}
	dst = append(dst, `, "text": `...)
	dst = dialect.AppendString(dst, ev.Text)
	return append(dst, "}\n\n"...)
}

func appendDone(dst []byte, ev *gen.Event) []byte {
	dst = append(dst, `data: {"type": "done", `...)
	dst = appendEnding(dst, ev)
	dst = append(dst, `, "ttft_ms": `...)
	dst = dialect.AppendMillis(dst, ev.Stats.TTFT)
	dst = appendSpeed(dst, ev)
	return append(dst, "}\n\n"...)
}

func appendEnding(dst []byte, ev *gen.Event) []byte {
	dst = append(dst, `"finish_reason": "`...)
	dst = append(dst, dialect.FinishReason(ev.Finish)...)
	dst = append(dst, `", "usage": {"prompt_tokens": `...)
	dst = strconv.AppendInt(dst, int64(ev.Stats.PromptTokens), 10)
	dst = append(dst, `, "completion_tokens": `...)
	dst = strconv.AppendInt(dst, int64(ev.Stats.CompletionTokens), 10)
	return append(dst, '}')
}

func appendSpeed(dst []byte, ev *gen.Event) []byte {
	dst = append(dst, `, "tokens_per_second": `...)
	dst = dialect.AppendRate(dst, ev.Stats.TokensPerSecond)
	dst = append(dst, `, "total_ms": `...)
	return dialect.AppendMillis(dst, ev.Stats.Wall)
}

func (e *encoder) End(dst []byte) []byte {
	if e.stream {
		return append(dst, "data: [DONE]\n\n"...)
	}
	dst = append(dst, `{"text": `...)
	dst = dialect.AppendString(dst, string(e.text))
	dst = append(dst, ", "...)
	dst = appendEnding(dst, &e.end)
	dst = appendSpeed(dst, &e.end)
	return append(dst, '}')
}

// Fail appends the error frame of a stream that had begun.
func (e *encoder) Fail(dst []byte, err *fault.Error) []byte {
	dst = append(dst, `data: {"type": "error", "error": `...)
	dst = dialect.AppendError(dst, dialect.ErrorType(err.Kind), dialect.ErrorCode(err), err)
	return append(dst, "}\n\ndata: [DONE]\n\n"...)
}
