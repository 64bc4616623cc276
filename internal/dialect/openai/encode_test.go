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

// Two tokens may have one name; the map has it once, with the chosen token's number.
func TestTopNamesAreDifferent(t *testing.T) {
	l := func(id int32, text string, p float32) gen.Logprob {
		return gen.Logprob{ID: id, Text: text, Bytes: []byte(text), Logprob: p}
	}
	for want, c := range map[string]gen.Logprob{
		`{"a":-2,"b":-3}`:       {ID: 9, Text: "a", Bytes: []byte("a"), Logprob: -2, Top: []gen.Logprob{l(1, "a", -1), l(9, "a", -2), l(3, "b", -3), l(4, "b", -4)}},
		`{"b":-3,"a":-9}`:       {ID: 9, Text: "a", Bytes: []byte("a"), Logprob: -9, Top: []gen.Logprob{l(1, "a", -1), l(3, "b", -3)}},
		`{"a":-1,"b":-3}`:       {ID: 1, Text: "a", Bytes: []byte("a"), Logprob: -1, Top: []gen.Logprob{l(1, "a", -1), l(3, "b", -3)}},
		`{"x":-1}`:              {ID: 1, Text: "x", Bytes: []byte("x"), Logprob: -1},
		`{"b":-1,"c":-2,"d":0}`: {ID: 5, Text: "d", Bytes: []byte("d"), Top: []gen.Logprob{l(1, "b", -1), l(2, "c", -2)}},
	} {
		if got := string(appendTop(nil, &c)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
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
