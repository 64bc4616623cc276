package servetest

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// Faults that other servers were reported to have, one test each, named after the public report: text of streams, stop strings.

const msgs = `"model":"tl","messages":[{"role":"user","content":"hi"}]`

func chatBody(extra string) string {
	if extra != "" {
		extra = "," + extra
	}
	return "{" + msgs + extra + "}"
}

// chatText asks the chat route streamed and whole, and demands that both say the same.
func chatText(t *testing.T, w *World, extra string) (text, finish string) {
	t.Helper()
	d := openAIChat()
	whole := Object(t, w.Post(d.Path, chatBody(extra), 200).Body)
	if extra != "" {
		extra += ","
	}
	text, finish = d.Streamed(t, w.Post(d.Path, chatBody(extra+`"stream":true`), 200).Body)
	if d.Text(whole) != text || d.Finish(whole) != finish {
		t.Errorf("whole %q (%s), streamed %q (%s)", d.Text(whole), d.Finish(whole), text, finish)
	}
	return text, finish
}

func contents(t *testing.T, stream string) (out []string) {
	t.Helper()
	for _, f := range Frames(t, stream) {
		if s := str(at(f, "choices", 0, "delta", "content")); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func TestLlamaCpp4036SplitEuro(t *testing.T) {
	w := New(t, Options{Say: []string{"\xe2\x82", "\xac"}})
	got := contents(t, w.Post("/v1/chat/completions", chatBody(`"stream":true`), 200).Body)
	if len(got) != 1 || got[0] != "€" {
		t.Errorf("chunks %q, want one €", got)
	}
}

func TestTGI333CharactersAcrossTokens(t *testing.T) {
	w := New(t, Options{Say: []string{"\xe6", "\x88", "\x91", "\xe5\xbe\x88"}})
	got := contents(t, w.Post("/v1/chat/completions", chatBody(`"stream":true`), 200).Body)
	if len(got) != 2 || got[0] != "我" || got[1] != "很" {
		t.Errorf("chunks %q", got)
	}
}

func TestIkLlama780LogprobBytesAreTheText(t *testing.T) {
	w := New(t, Options{Say: []string{"a\xf0\x9f", "\x8c\xb6", "\xef\xb8", "\x8fz"}})
	for _, body := range []string{
		w.Post("/v1/chat/completions", chatBody(`"stream":true,"logprobs":true,"top_logprobs":2`), 200).Body,
		"data: " + strings.TrimSpace(w.Post("/v1/chat/completions", chatBody(`"logprobs":true,"top_logprobs":2`), 200).Body) + "\n\ndata: [DONE]\n\n",
	} {
		var text string
		var bytes []byte
		for _, f := range Frames(t, body) {
			text += str(at(f, "choices", 0, "delta", "content")) + str(at(f, "choices", 0, "message", "content"))
			list, _ := at(f, "choices", 0, "logprobs", "content").([]any)
			for _, e := range list {
				bs, _ := at(e, "bytes").([]any)
				for _, b := range bs {
					bytes = append(bytes, byte(num(b)))
				}
				if top, _ := at(e, "top_logprobs").([]any); len(top) != 2 {
					t.Errorf("top_logprobs %v", top)
				}
			}
		}
		if text != "a🌶️z" || string(bytes) != text {
			t.Errorf("text %q, bytes %q", text, bytes)
		}
	}
}

func TestVLLM48853PromptEndsInsideCharacter(t *testing.T) {
	w := New(t, Options{Say: []string{"ok"}})
	for _, prompt := range []string{"[104,105,240,159]", "[240,159]"} {
		text, _ := openAICompletion().Streamed(t, w.Post("/v1/completions", `{"prompt":`+prompt+`,"stream":true}`, 200).Body)
		if text != "ok" {
			t.Errorf("prompt %s: %q", prompt, text)
		}
	}
}

func TestLlamaCppDart90Emoji(t *testing.T) {
	w := New(t, Options{Say: []string{"\xf0", "\x9f\x8c", "\xb6", "\xef\xb8\x8f"}})
	if text, _ := chatText(t, w, ""); text != "🌶️" {
		t.Errorf("%q", text)
	}
}

func TestEndInsideCharacter(t *testing.T) {
	w := New(t, Options{Say: []string{"\xf0\x9f"}, Endless: true})
	text, finish := chatText(t, w, `"max_tokens":1`)
	if text != "\ufffd" || finish != "length" {
		t.Errorf("%q (%s)", text, finish)
	}
}

// A client that takes one network chunk for one event must not see half of one.
func TestLlamaCpp14268ChunksEndWithEvents(t *testing.T) { Timed(t, chunksEndWithEvents) }

func chunksEndWithEvents(t *testing.T) {
	say := make([]string, 50)
	for i := range say {
		say[i] = fmt.Sprintf("w%d ", i)
	}
	w := New(t, Options{Say: say})
	w.Model.SetDelay(time.Millisecond / 4)
	resp, _ := w.Open(w.Listen(), "/v1/chat/completions", chatBody(`"stream":true`))
	buf := make([]byte, 64<<10)
	reads := 0
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			reads++
			if s := string(buf[:n]); !strings.HasSuffix(s, "\n\n") || !strings.HasPrefix(s, "data: ") {
				t.Fatalf("a chunk is not a run of whole events: %q", s)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if reads < 50 {
		t.Errorf("only %d flushes for 50 slow tokens", reads)
	}
}

func TestLlamaCpp11538StopAcrossTokens(t *testing.T) {
	w := New(t, Options{Say: []string{"O", " P", " Q", " R"}})
	if text, finish := chatText(t, w, `"stop":["O P Q"]`); text != "" || finish != "stop" {
		t.Errorf("%q (%s)", text, finish)
	}
}

func TestVLLM3574StopPrefixIsHeldBack(t *testing.T) {
	w := New(t, Options{Say: []string{"DEF", "G", "HI", "J"}})
	if got := contents(t, w.Post("/v1/chat/completions", chatBody(`"stream":true,"stop":["DEFGHIJ"]`), 200).Body); len(got) != 0 {
		t.Errorf("sent %q", got)
	}
}

func TestLlamaCpp9867LastCharactersArrive(t *testing.T) {
	w := New(t, Options{Say: []string{" Mars", "?", "\n"}})
	if text, finish := chatText(t, w, `"stop":["\n"]`); text != " Mars?" || finish != "stop" {
		t.Errorf("%q (%s)", text, finish)
	}
}

func TestLlamaCpp13780CompletionWithSeveralStops(t *testing.T) {
	w := New(t, Options{Say: []string{"Us", "er", ": x"}})
	text, _ := openAICompletion().Streamed(t, w.Post("/v1/completions", `{"prompt":"p","stop":["User:\n","Assistant:\n"],"stream":true}`, 200).Body)
	if text != "User: x" {
		t.Errorf("%q", text)
	}
}

func TestLlamaCpp6772EndOfTurnToken(t *testing.T) {
	w := New(t, Options{Say: []string{"done"}})
	if text, finish := chatText(t, w, `"stop":["<|im_end|>"],"max_tokens":50`); text != "done" || finish != "stop" {
		t.Errorf("%q (%s)", text, finish)
	}
}

func TestStopIsNotItsFirstToken(t *testing.T) {
	w := New(t, Options{Say: []string{"the", " cat"}})
	if text, _ := chatText(t, w, `"stop":["the dog"]`); text != "the cat" {
		t.Errorf("%q", text)
	}
}

func TestEmptyStopIsRefusedByName(t *testing.T) {
	w := New(t, Options{})
	r := w.Post("/v1/chat/completions", chatBody(`"stop":[""]`), 422)
	if at(Object(t, r.Body), "error", "param") != "stop[0]" {
		t.Error(r.Body)
	}
}

func TestStreamsAreUTF8(t *testing.T) {
	w := New(t, Options{Random: true})
	for seed := range 20 {
		body := chatBody(fmt.Sprintf(`"seed":%d,"max_tokens":40,"temperature":1.5`, seed))
		whole := w.Post("/v1/chat/completions", body, 200).Body
		if !utf8.ValidString(whole) {
			t.Fatalf("seed %d: not UTF-8", seed)
		}
		stream := w.Post("/v1/chat/completions", strings.TrimSuffix(body, "}")+`,"stream":true}`, 200).Body
		if text, _ := openAIChat().Streamed(t, stream); text != openAIChat().Text(Object(t, whole)) {
			t.Fatalf("seed %d: streamed %q, whole %q", seed, text, openAIChat().Text(Object(t, whole)))
		}
	}
}
