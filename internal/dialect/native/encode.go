package native

import (
	"tinyloop/internal/dialect"
	"tinyloop/internal/fault"
	"tinyloop/internal/gen"
)

// encoder streams one delta event a token and a done event a choice, or collects them into one body:
//
//	{"text", "tokens"?, "logprobs"?, "finish_reason", "stop_reason", "stop_string", "stats", "choices"? (n > 1), "model", "id"}
type encoder struct {
	stream, ids, logprobs bool

	id      string
	choices int
	started *dialect.Started
	answers []answer
}

type answer struct {
	text     []byte
	ids      []int32
	logprobs []byte // entries without their brackets
	ending   []byte // the fields of the end, encoded
}

func (e *encoder) Begin(dst []byte, s *dialect.Started) []byte {
	e.started = s
	e.answers = make([]answer, e.choices)
	return dst
}

func (e *encoder) Event(dst []byte, _ int, ev *gen.Event) []byte {
	if !e.stream {
		e.collect(ev)
		return dst
	}
	if ev.Kind == gen.Done {
		dst = append(dst, `data: {"type":"done","choice":`...)
		dst = dialect.AppendInt(dst, ev.Choice)
		dst = append(dst, ',')
		return append(e.appendEnding(dst, ev), "}\n\n"...)
	}
	dst = append(dst, `data: {"type":"`...)
	dst = append(dst, kinds[ev.Kind]...)
	dst = append(dst, `","choice":`...)
	dst = dialect.AppendInt(dst, ev.Choice)
	dst = append(dst, `,"index":`...)
	dst = dialect.AppendInt(dst, ev.Index)
	dst = append(dst, `,"id":`...)
	if ev.ID < 0 {
		dst = append(dst, "null"...)
	} else {
		dst = dialect.AppendInt(dst, int(ev.ID))
	}
	dst = append(dst, `,"text":`...)
	dst = dialect.AppendString(dst, ev.Text)
	if e.logprobs {
		dst = append(dst, `,"logprobs":[`...)
		dst = append(appendLogprobs(dst, ev.Logprobs), ']')
	}
	return append(dst, "}\n\n"...)
}

var kinds = [...]string{gen.Delta: "delta", gen.Flush: "delta", gen.Prompt: "prompt"}

func (e *encoder) collect(ev *gen.Event) {
	a := &e.answers[ev.Choice]
	a.text = append(a.text, ev.Text...)
	if ev.Kind == gen.Delta {
		a.ids = append(a.ids, ev.ID)
	}
	if len(ev.Logprobs) > 0 {
		if len(a.logprobs) > 0 {
			a.logprobs = append(a.logprobs, ',')
		}
		a.logprobs = appendLogprobs(a.logprobs, ev.Logprobs)
	}
	if ev.Kind == gen.Done {
		a.ending = e.appendEnding(a.ending, ev)
	}
}

// appendEnding appends what is known at the end of a choice.
func (e *encoder) appendEnding(dst []byte, ev *gen.Event) []byte {
	dst = append(dst, `"finish_reason":"`...)
	dst = append(dst, finish(ev.Finish)...)
	dst = append(dst, `","stop_reason":`...)
	dst = dialect.AppendString(dst, dialect.StopReason(ev))
	dst = append(dst, `,"stop_string":`...)
	if ev.Stats.StopString == "" {
		dst = append(dst, "null"...)
	} else {
		dst = dialect.AppendString(dst, ev.Stats.StopString)
	}
	dst = append(dst, `,"stats":`...)
	return dialect.AppendStats(dst, ev, &e.started.Prompts[0])
}

// finish is OpenAI's word for the end, except that a deadline has one of its own here.
func finish(f gen.Finish) string {
	if f == gen.FinishTimeout {
		return "timeout"
	}
	return dialect.FinishReason(f)
}

func appendLogprobs(dst []byte, list []gen.Logprob) []byte {
	for i := range list {
		l := &list[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendToken(dst, l)
		dst = append(dst, `,"top":[`...)
		for k := range l.Top {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendToken(dst, &l.Top[k]), '}')
		}
		dst = append(dst, ']')
		if len(l.ByLoop) > 0 {
			dst = dialect.AppendByLoop(append(dst, `,"logprobs_by_loop":`...), l)
		}
		dst = append(dst, '}')
	}
	return dst
}

// appendToken appends a token's object without its closing brace.
func appendToken(dst []byte, l *gen.Logprob) []byte {
	dst = append(dst, `{"id":`...)
	dst = dialect.AppendInt(dst, int(l.ID))
	dst = append(dst, `,"token":`...)
	dst = dialect.AppendString(dst, l.Text)
	dst = append(dst, `,"bytes":`...)
	dst = dialect.AppendBytes(dst, l.Bytes)
	dst = append(dst, `,"logprob":`...)
	if l.First {
		return append(dst, "null"...)
	}
	return dialect.AppendFloat32(dst, l.Logprob)
}

func (e *encoder) End(dst []byte) []byte {
	if e.stream {
		return append(dst, "data: [DONE]\n\n"...)
	}
	dst = append(dst, '{')
	dst = e.appendAnswer(dst, &e.answers[0])
	if len(e.answers) > 1 {
		dst = append(dst, `,"choices":[`...)
		for i := range e.answers {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, `{"index":`...)
			dst = dialect.AppendInt(dst, i)
			dst = append(dst, ',')
			dst = append(e.appendAnswer(dst, &e.answers[i]), '}')
		}
		dst = append(dst, ']')
	}
	dst = append(dst, `,"model":`...)
	dst = dialect.AppendString(dst, e.started.Model)
	dst = append(dst, `,"id":`...)
	return append(dialect.AppendString(dst, "gen-"+e.id), '}')
}

func (e *encoder) appendAnswer(dst []byte, a *answer) []byte {
	dst = append(dst, `"text":`...)
	dst = dialect.AppendString(dst, string(a.text))
	if e.ids {
		dst = append(dst, `,"tokens":`...)
		dst = dialect.AppendInts(dst, a.ids)
	}
	if e.logprobs {
		dst = append(dst, `,"logprobs":[`...)
		dst = append(append(dst, a.logprobs...), ']')
	}
	dst = append(dst, ',')
	return append(dst, a.ending...)
}

// Fail appends the error frame of a stream that had begun.
func (e *encoder) Fail(dst []byte, err *fault.Error) []byte {
	dst = append(dst, `data: {"error":`...)
	dst = dialect.AppendError(dst, dialect.ErrorType(err.Kind), dialect.ErrorCode(err), err)
	return append(dst, "}\n\ndata: [DONE]\n\n"...)
}
