package openai

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tinyloop/internal/dialect"
	"tinyloop/internal/gen"
)

func begun(chat, logprobs bool) *encoder {
	e := &encoder{chat: chat, stream: true, usage: true, logprobs: logprobs, id: "0123456789ABCDEFGHIJKLMNOP", created: 1764547200, choices: 1,
		prompts: []*gen.Request{{PromptIDs: []int32{1}}}}
	e.Begin(nil, &dialect.Started{Model: "org/model", Prompts: []dialect.Prompt{{IDs: []int32{1}, MaxTokens: 5}}})
	return e
}

func delta(text string, logprobs bool) *gen.Event {
	ev := &gen.Event{Kind: gen.Delta, Index: 3, ID: 7, Text: text}
	if logprobs {
		top := []gen.Logprob{{ID: 7, Text: text, Bytes: []byte(text), Logprob: -0.25}, {ID: 8, Text: "x", Bytes: []byte("x"), Logprob: -1.5}}
		ev.Logprobs = []gen.Logprob{{ID: 7, Text: text, Bytes: []byte(text), Logprob: -0.25, Top: top}}
	}
	return ev
}

func TestAnEventTakesNoAllocation(t *testing.T) {
	for _, logprobs := range []bool{false, true} {
		for _, chat := range []bool{false, true} {
			e, ev := begun(chat, logprobs), delta(" \"tok\"\n€", logprobs)
			buf := make([]byte, 0, 4096)
			e.Event(buf, 0, ev) // grows the columns of logprobs once
			if n := testing.AllocsPerRun(100, func() { buf = e.Event(buf[:0], 0, ev) }); n != 0 {
				t.Errorf("chat %v, logprobs %v: %v allocations an event", chat, logprobs, n)
			}
		}
	}
}

func BenchmarkEvent(b *testing.B) {
	for _, c := range []struct {
		name     string
		logprobs bool
	}{{"text", false}, {"logprobs", true}} {
		b.Run(c.name, func(b *testing.B) {
			e, ev := begun(true, c.logprobs), delta(" token", c.logprobs)
			buf := make([]byte, 0, 4096)
			b.ReportAllocs()
			for b.Loop() {
				buf = e.Event(buf[:0], 0, ev)
			}
		})
	}
}

// Whatever the text, every frame is one line of valid JSON that gives the text back.
func TestFramesCarryAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text") + "."
		e := begun(true, false)
		frame := string(e.Event(nil, 0, delta(text, false)))
		line, ok := strings.CutSuffix(frame, "\n\n")
		if !ok || strings.Contains(line, "\n") {
			t.Fatalf("%q is not one line", frame)
		}
		var got struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &got); err != nil {
			t.Fatal(err)
		}
		if got.Choices[0].Delta.Content != strings.ToValidUTF8(text, "\ufffd") {
			t.Fatalf("%q came back as %q", text, got.Choices[0].Delta.Content)
		}
	})
}

func TestTokensThatAreNoText(t *testing.T) {
	var n entries
	for i, b := range []string{"a", "é", "\xe2\x82", "\xac", "🌶", "", "z"} {
		n.addLegacy(&gen.Logprob{Text: strings.ToValidUTF8(b, "?"), Bytes: []byte(b), At: i}, 10)
	}
	if got := string(n.offsets); got != "10,11,12,13,14,15,16" {
		t.Errorf("offsets %s", got)
	}
	if got := string(n.list); got != `"a","é","bytes:\\xe2\\x82","bytes:\\xac","🌶","","z"` {
		t.Errorf("tokens %s", got)
	}
}

func BenchmarkDecodeChat(b *testing.B) {
	body := []byte(`{"model":"tl","messages":[{"role":"system","content":"` + strings.Repeat("words ", 200) + `"},{"role":"user","content":"hello"}],"temperature":0.7,"stream":true,"max_tokens":100}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := decodeChat(&dialect.Call{ID: "x", Created: time.Unix(1, 0), Body: bytes.Clone(body)}); err != nil {
			b.Fatal(err)
		}
	}
}
