package gen

import (
	"context"
	"errors"
	"io"
	"strings"
)

// Fold collects the whole answers of a stream, in the order of their choices. It reads the very events a streaming client sees, so the two
// can never differ. A choice that failed makes Fold return its error; a choice that was cut by a deadline or by cancelling is an answer.
func Fold(ctx context.Context, s *Stream) ([]Answer, error) {
	out := make([]Answer, s.choices)
	text := make([]strings.Builder, s.choices)
	var failed error
	var buf []Event
	for {
		var err error
		buf, err = s.Next(ctx, buf[:0])
		for i := range buf {
			e := &buf[i]
			fold(&out[e.Choice], &text[e.Choice], e)
			if e.Err != nil && failed == nil {
				failed = e.Err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if failed != nil {
		return nil, failed
	}
	for i := range out {
		out[i].Text = text[i].String()
	}
	return out, nil
}

func fold(a *Answer, text *strings.Builder, e *Event) {
	text.WriteString(e.Text)
	a.Calls = AddCalls(a.Calls, e.Calls)
	switch e.Kind {
	case Prompt:
		a.PromptLogprobs = append(a.PromptLogprobs, e.Logprobs...)
	case Delta:
		a.IDs = append(a.IDs, e.ID)
		a.Logprobs = append(a.Logprobs, e.Logprobs...)
	case Flush:
		a.Logprobs = append(a.Logprobs, e.Logprobs...)
	case Done:
		a.Finish, a.Stats = e.Finish, e.Stats
	}
}

// AddCalls puts parts of calls together.
func AddCalls(calls, parts []Call) []Call {
	for _, p := range parts {
		if p.Index == len(calls) {
			calls = append(calls, p)
			continue
		}
		calls[p.Index].Arguments += p.Arguments
	}
	return calls
}
