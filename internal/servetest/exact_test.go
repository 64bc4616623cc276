package servetest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"tinyloop/internal/fixture"
	"tinyloop/internal/host"
	"tinyloop/internal/serve"
)

// real serves a real model in process. Its tokenizer is SentencePiece's, which takes the space of the first token away: text and tokens differ.
func real(t *testing.T, o host.Options, file string) *World {
	t.Helper()
	path := fixture.Path(t, "stories260K", file)
	o.Threads = 1
	m, err := host.Load("real", path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(context.Background()) })
	h := host.New()
	if err := h.Add(m); err != nil {
		t.Fatal(err)
	}
	return &World{T: t, Host: h, Tok: m.Tokenizer(), Server: serve.New(h, serve.Config{Log: slog.New(slog.DiscardHandler)})}
}

type legacy struct {
	Tokens  []string `json:"tokens"`
	Offsets []int    `json:"text_offset"`
}

// Whatever is asked, the offset of each token is where its text stands in prompt and completion, counted in characters.
func TestOffsetsPointAtTheText(t *testing.T) {
	w := real(t, host.Options{}, "stories260K-f32.gguf")
	for _, c := range []struct{ prompt, more string }{
		{"Once upon", `"echo":true`}, {"é日本", `"echo":true,"n":3`}, {"ZWJ", `"echo":true,"max_tokens":0,"n":2`}, {"", `"n":2`}, {"", `"echo":true`},
		{"Once upon", `"stop":["e ","the","on","was a very","l g"],"n":3`}, {"", `"stop":["e ","the","On "]`}, {"😀 a", `"stop":[" a",". "],"echo":true`},
		{"Lily", `"logit_bias":{"1":20},"temperature":2,"min_tokens":9,"n":4`},
	} {
		prompt, _ := json.Marshal(c.prompt)
		body := fmt.Sprintf(`{"prompt":%s,"max_tokens":24,"logprobs":0,"seed":5,%s}`, prompt, c.more)
		var got struct {
			Choices []struct {
				Text     string
				Logprobs legacy
			}
		}
		if err := json.Unmarshal([]byte(w.Post("/v1/completions", body, 200).Body), &got); err != nil {
			t.Fatal(err)
		}
		for i, ch := range got.Choices {
			whole := []rune(c.prompt + ch.Text)
			if strings.Contains(c.more, "echo") {
				whole = []rune(ch.Text)
			}
			checkOffsets(t, body, i, whole, ch.Logprobs)
		}
	}
}

func checkOffsets(t *testing.T, body string, choice int, whole []rune, l legacy) {
	t.Helper()
	for k, tok := range l.Tokens {
		at := l.Offsets[k]
		if at > len(whole) {
			t.Errorf("%s choice %d: token %d %q stands at %d of %d", body, choice, k, tok, at, len(whole))
			return
		}
		rest := string(whole[at:])
		part := strings.HasPrefix(tok, "bytes:") || strings.HasPrefix(tok, "<") || strings.HasPrefix(tok, "\n<")
		if part || strings.HasPrefix(rest, tok) || strings.HasPrefix(rest, strings.TrimPrefix(tok, " ")) || strings.HasPrefix(tok, rest) || strings.HasPrefix(strings.TrimPrefix(tok, " "), rest) {
			continue
		}
		t.Errorf("%s choice %d: token %d %q stands at %d, where the text is %.12q", body, choice, k, tok, at, rest)
		return
	}
}

// The bytes of all tokens, joined, are the text, also where the tokenizer takes a space away: at the very start, and behind a control token.
func TestLogprobBytesAreTheText(t *testing.T) {
	w := real(t, host.Options{}, "stories260K-f32.gguf")
	for _, more := range []string{``, `,"n":3`, `,"stop":["zzzz"," w"]`, `,"logit_bias":{"1":20},"temperature":2,"ignore_eos":true,"n":4`, `,"echo":true,"n":2`} {
		body := `{"prompt":"","max_tokens":30,"logprobs":2,"seed":9` + more + `}`
		var got struct {
			answer
			Choices []answer
		}
		if err := json.Unmarshal([]byte(w.Post("/generate", body, 200).Body), &got); err != nil {
			t.Fatal(err)
		}
		for i, a := range append([]answer{got.answer}, got.Choices...) {
			var joined []byte
			for _, l := range a.Logprobs {
				for _, b := range l.Bytes {
					joined = append(joined, byte(b))
				}
			}
			cut := strings.Contains(more, "stop") && strings.HasPrefix(string(joined), a.Text)
			if utf8.Valid(joined) && string(joined) != a.Text && !cut {
				t.Errorf("%s choice %d: bytes %q, text %q", body, i, joined, a.Text)
			}
		}
	}
}

type answer struct {
	Text     string
	Logprobs []struct{ Bytes []int }
}
