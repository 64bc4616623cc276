package servetest

import (
	"encoding/json"
	"strings"
	"testing"

	"tinyloop/internal/engine"
	"tinyloop/internal/serve"
)

// FuzzBody posts any bytes to every route that takes a body: the answer is never a server error, always JSON or a well-formed stream, and
// the server still works afterwards.
func FuzzBody(f *testing.F) {
	for _, c := range transcripts {
		if c.method == "POST" {
			f.Add([]byte(c.body))
		}
	}
	for _, s := range []string{`{"prompt":[[1,2],[3]],"n":2,"max_tokens":3,"echo":true,"logprobs":5}`, `{"prompt":"\ud800","stop":["a","b"],"logit_bias":{"3":-100}}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"max_tokens":-1,"tinyloop":{"cache_window":16}}`, strings.Repeat("[", 100), `{"content":"x","tokens":[1]}`} {
		f.Add([]byte(s))
	}
	w := New(f, Options{Random: true, Context: 64, Engine: engine.Config{}, Serve: serve.Config{BodyLimit: 1 << 16}})
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, path := range []string{"/v1/chat/completions", "/v1/completions", "/generate", "/generate/stream", "/v1/chat", "/tokenize", "/detokenize"} {
			r := w.Do("POST", path, string(body))
			if r.Status >= 500 && r.Status != 504 { // a body may ask for a deadline of a millisecond
				t.Fatalf("%s %q: %d %s", path, body, r.Status, r.Body)
			}
			if strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
				if err := framing(r.Body); err != nil {
					t.Fatalf("%s %q: %v in %q", path, body, err, r.Body)
				}
				continue
			}
			if !json.Valid([]byte(r.Body)) {
				t.Fatalf("%s %q: not JSON: %q", path, body, r.Body)
			}
		}
	})
}
