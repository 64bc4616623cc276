package servetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// Wire is what the suite must know of a dialect: how to ask and how to read.
type Wire struct {
	Name, Path string
	Chat       bool // the prompt becomes a user message
	Limited    bool // stop and n are not fields of this dialect
	// Text and Finish read a whole body; Delta and End read a stream's frame ("" for what the frame does not say).
	Text, Finish func(body map[string]any) string
	Delta, End   func(frame map[string]any) string
	Usage        func(body map[string]any) (prompt, completion int)
}

// Ask is a request in no dialect.
type Ask struct {
	Prompt string
	Stream bool
	Extra  map[string]any
}

// Body writes the request in the dialect.
func (d *Wire) Body(a Ask) string {
	m := map[string]any{"model": "tl", "stream": a.Stream, "temperature": 0}
	if d.Chat {
		m["messages"] = []any{map[string]any{"role": "user", "content": a.Prompt}}
	} else {
		m["prompt"] = a.Prompt
	}
	for k, v := range a.Extra {
		m[k] = v
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Wires lists every dialect route that generates.
func Wires() []*Wire {
	return []*Wire{openAIChat(), openAICompletion(), native(), miniLab()}
}

func openAIChat() *Wire {
	return &Wire{Name: "openai chat", Path: "/v1/chat/completions", Chat: true,
		Text:   func(b map[string]any) string { return str(at(b, "choices", 0, "message", "content")) },
		Finish: func(b map[string]any) string { return str(at(b, "choices", 0, "finish_reason")) },
		Delta:  func(f map[string]any) string { return str(at(f, "choices", 0, "delta", "content")) },
		End:    func(f map[string]any) string { return str(at(f, "choices", 0, "finish_reason")) },
		Usage:  openAIUsage,
	}
}

func openAICompletion() *Wire {
	return &Wire{Name: "openai completion", Path: "/v1/completions",
		Text:   func(b map[string]any) string { return str(at(b, "choices", 0, "text")) },
		Finish: func(b map[string]any) string { return str(at(b, "choices", 0, "finish_reason")) },
		Delta:  func(f map[string]any) string { return str(at(f, "choices", 0, "text")) },
		End:    func(f map[string]any) string { return str(at(f, "choices", 0, "finish_reason")) },
		Usage:  openAIUsage,
	}
}

func openAIUsage(b map[string]any) (int, int) {
	return num(at(b, "usage", "prompt_tokens")), num(at(b, "usage", "completion_tokens"))
}

func native() *Wire {
	return &Wire{Name: "native", Path: "/generate",
		Text:   func(b map[string]any) string { return str(b["text"]) },
		Finish: func(b map[string]any) string { return str(b["finish_reason"]) },
		Delta:  func(f map[string]any) string { return str(f["text"]) },
		End:    func(f map[string]any) string { return str(f["finish_reason"]) },
		Usage: func(b map[string]any) (int, int) {
			return num(at(b, "stats", "prompt_tokens")), num(at(b, "stats", "completion_tokens"))
		},
	}
}

func miniLab() *Wire {
	return &Wire{Name: "minilab", Path: "/v1/chat", Chat: true, Limited: true,
		Text:   func(b map[string]any) string { return str(b["text"]) },
		Finish: func(b map[string]any) string { return str(b["finish_reason"]) },
		Delta:  func(f map[string]any) string { return str(f["text"]) },
		End:    func(f map[string]any) string { return str(f["finish_reason"]) },
		Usage:  openAIUsage,
	}
}

// at walks into decoded JSON; a missing step gives nil.
func at(v any, steps ...any) any {
	for _, s := range steps {
		switch k := s.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[k]
		case int:
			l, _ := v.([]any)
			if k >= len(l) {
				return nil
			}
			v = l[k]
		}
	}
	return v
}

func str(v any) string { s, _ := v.(string); return s }
func num(v any) int    { f, _ := v.(float64); return int(f) }

// Object decodes a JSON object.
func Object(t testing.TB, s string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(s), &m); err != nil {
		t.Fatalf("not a JSON object: %v: %s", err, short(s))
	}
	return m
}

// Frames splits a stream into its decoded frames and checks the framing: one data line of one JSON object each, an empty line behind it, LF
// only, no event lines, valid UTF-8, [DONE] last and only there. Comments are left out.
func Frames(t testing.TB, stream string) []map[string]any {
	t.Helper()
	if err := framing(stream); err != nil {
		t.Fatalf("%v in %q", err, short(stream))
	}
	var out []map[string]any
	for _, f := range strings.Split(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		if data, ok := strings.CutPrefix(f, "data: "); ok && data != "[DONE]" {
			out = append(out, Object(t, data))
		}
	}
	return out
}

func framing(stream string) error {
	if !utf8.ValidString(stream) {
		return fmt.Errorf("the stream is not valid UTF-8")
	}
	if strings.Contains(stream, "\r") {
		return fmt.Errorf("a carriage return")
	}
	if !strings.HasSuffix(stream, "data: [DONE]\n\n") || strings.Count(stream, "data: [DONE]") != 1 {
		return fmt.Errorf("the stream must end with one [DONE]")
	}
	for _, f := range strings.Split(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		if strings.HasPrefix(f, ": ") && !strings.Contains(f, "\n") {
			continue
		}
		if !strings.HasPrefix(f, "data: ") || strings.Contains(f, "\n") {
			return fmt.Errorf("frame %q is not one data line", short(f))
		}
	}
	return nil
}

// Streamed is the fold of a stream of one choice.
func (d *Wire) Streamed(t testing.TB, stream string) (text, finish string) {
	t.Helper()
	for _, f := range Frames(t, stream) {
		if finish != "" && d.Delta(f) != "" {
			t.Errorf("text after the end: %v", f)
		}
		text += d.Delta(f)
		if e := d.End(f); e != "" {
			finish = e
		}
	}
	return text, finish
}
