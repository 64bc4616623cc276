package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tinyloop/internal/fault"
	"tinyloop/internal/host"
	"tinyloop/internal/serve"
)

// SmokeCmd is the check to run after a build or a change of settings: every endpoint, in process, over every KV mode, against a given model, or against
// a small random one. It ends with a line that says so when all is well, and fails otherwise.
type SmokeCmd struct {
	ModelFlag
	EngineFlags
	Verbose bool `short:"v" help:"Print every check."`
}

// kvModes are the settings of the KV cache that a build serves; each is smoked on its own.
var kvModes = []struct{ mode, dtype string }{{"per_loop", "f32"}, {"per_loop", "f16"}, {"last", "f32"}, {"mean", "f16"}, {"mod:2", "f32"}, {"per_loop", "q8"}, {"mean", "q8"}}

// Run smokes the model in every KV mode.
func (c *SmokeCmd) Run(io *IO) error {
	if c.Model == "" {
		dir, err := os.MkdirTemp("", "tinyloop-smoke-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		c.Model = filepath.Join(dir, "random.gguf")
		if err := smokeModel(io, c.Model); err != nil {
			return fmt.Errorf("cannot make a random model: %w", err)
		}
	}
	start := time.Now()
	checks := 0
	for _, kv := range kvModes {
		c.KVMode, c.KVDtype = kv.mode, kv.dtype
		n, err := c.smoke(io)
		checks += n
		if io.Ctx.Err() != nil { // what a check says then is only how it was stopped
			return fault.New(fault.Canceled, "", "interrupted after %d checks, none of which failed", checks)
		}
		if err != nil {
			fmt.Fprintln(io.Out, "=== smoke test FAIL ===")
			return fmt.Errorf("KV %s %s: %w", kv.mode, kv.dtype, err)
		}
		fmt.Fprintf(io.Out, "KV %s %s: %d checks\n", kv.mode, kv.dtype, n)
	}
	_, err := fmt.Fprintf(io.Out, "%d checks in %.2f s\n=== smoke test PASS ===\n", checks, time.Since(start).Seconds())
	return err
}

// smoke loads the model in one KV mode, serves it over pipes and runs every check. It gives the number of checks that passed.
func (c *SmokeCmd) smoke(io *IO) (int, error) {
	m, err := c.load(&c.EngineFlags, nil)
	if err != nil {
		return 0, err
	}
	h := host.New()
	if err := h.Add(m); err != nil {
		return 0, err
	}
	defer closeModel(m)
	ctx, cancel := context.WithCancel(io.Ctx)
	l := newPipeListener()
	served := make(chan error, 1)
	s := serve.New(h, serve.Config{Addr: "localhost:8000", DrainTimeout: time.Second, Log: slog.New(slog.DiscardHandler)})
	go func() { served <- s.Serve(ctx, l) }()
	n, err := runChecks(io, c.Verbose, l.client())
	cancel()
	select {
	case <-served:
	case <-time.After(5 * time.Second):
		err = fmt.Errorf("the server did not stop within 5 s of being told to")
	}
	return n, err
}

// check is one request and what its answer must be.
type check struct {
	name, method, path, body string
	status                   int
	text                     string // dotted path of a JSON string that must not be empty; in streams, the path inside each event
	want                     string // text that the body must hold
	stream                   bool
}

var checks = []check{
	{name: "health", method: "GET", path: "/health", status: 200, want: `"status"`},
	{name: "ready", method: "GET", path: "/readyz", status: 200},
	{name: "metrics", method: "GET", path: "/metrics", status: 200, want: "tinyloop_"},
	{name: "page", method: "GET", path: "/", status: 200},
	{name: "models", method: "GET", path: "/v1/models", status: 200, text: "data.0.id"},
	{name: "model tl", method: "GET", path: "/v1/models/tl", status: 200, text: "id"},
	{name: "model unknown", method: "GET", path: "/v1/models/nope", status: 404, text: "error.message"},
	{name: "chat completions", method: "POST", path: "/v1/chat/completions", status: 200, text: "choices.0.message.content",
		body: `{"model":"tl","messages":[{"role":"user","content":"Hi"}],"max_tokens":8,"temperature":0}`},
	{name: "chat completions stream", method: "POST", path: "/v1/chat/completions", status: 200, text: "choices.0.delta.content", stream: true,
		body: `{"model":"tl","messages":[{"role":"user","content":"Hi"}],"max_tokens":8,"temperature":0,"stream":true}`},
	{name: "completions", method: "POST", path: "/v1/completions", status: 200, text: "choices.0.text",
		body: `{"model":"tl","prompt":"Once upon a time","max_tokens":8,"temperature":0}`},
	{name: "completions stream", method: "POST", path: "/v1/completions", status: 200, text: "choices.0.text", stream: true,
		body: `{"model":"tl","prompt":"Once upon a time","max_tokens":8,"temperature":0,"stream":true}`},
	{name: "generate", method: "POST", path: "/generate", status: 200, text: "text", body: `{"prompt":"Once","max_tokens":8,"temperature":0}`},
	{name: "generate ids", method: "POST", path: "/generate", status: 200, text: "text", body: `{"prompt":[1,5,6],"max_tokens":8,"temperature":0,"loops":1}`},
	{name: "generate window", method: "POST", path: "/generate", status: 200, text: "text",
		body: `{"prompt":"Once upon a time there was a little girl","max_tokens":24,"temperature":0,"cache_window":16}`},
	{name: "generate n", method: "POST", path: "/generate", status: 200, body: `{"prompt":"Once","max_tokens":8,"temperature":1,"seed":1,"n":2}`},
	{name: "generate speculative", method: "POST", path: "/generate/speculative", status: 200, text: "text", body: `{"prompt":"Once","max_tokens":8,"temperature":0,"kv_mode":"per_loop","draft_ahead":3}`},
	{name: "generate tree", method: "POST", path: "/generate/tree_speculative", status: 200, text: "text", stream: true,
		body: `{"prompt":"Once","max_tokens":8,"temperature":0,"kv_mode":"per_loop","K_branches":2,"stream":true}`},
	{name: "generate exit", method: "POST", path: "/generate", status: 200, want: `"stats"`, body: `{"prompt":"Once","max_tokens":8,"temperature":0,"kv_mode":"per_loop","mode":"wavefront","exit":{"rule":"latent"}}`},
	{name: "lens", method: "POST", path: "/lens", status: 200, want: `"entropy"`, body: `{"prompt":"Once","top":2}`},
	{name: "studio chat", method: "POST", path: "/api/v0/chat/completions", status: 200, want: `"generation_time"`,
		body: `{"model":"tl","messages":[{"role":"user","content":"Hi"}],"max_tokens":8,"mode":"auto","kv_mode":"per_loop"}`},
	{name: "studio completions stream", method: "POST", path: "/api/v0/completions", status: 200, text: "choices.0.text", stream: true,
		body: `{"prompt":"Once upon a time","max_tokens":8,"temperature":0,"stream":true}`},
	{name: "studio models", method: "GET", path: "/api/v0/models", status: 200, text: "data.0.id"},
	{name: "generate stream", method: "POST", path: "/generate/stream", status: 200, text: "text", stream: true, body: `{"prompt":"Once","max_tokens":8,"temperature":0}`},
	{name: "minilab", method: "POST", path: "/v1/chat", status: 200, text: "text", body: `{"messages":[{"role":"user","content":"Hi"}],"stream":false,"max_tokens":8}`},
	{name: "minilab stream", method: "POST", path: "/v1/chat", status: 200, text: "text", stream: true, body: `{"messages":[{"role":"user","content":"Hi"}],"max_tokens":8}`},
	{name: "tokenize", method: "POST", path: "/tokenize", status: 200, want: `"tokens"`, body: `{"content":"Hello"}`},
	{name: "detokenize", method: "POST", path: "/detokenize", status: 200, want: `"content"`, body: `{"tokens":[5,6]}`},
	{name: "bad range", method: "POST", path: "/v1/chat/completions", status: 422, text: "error.param", body: `{"model":"tl","messages":[{"role":"user","content":"Hi"}],"top_p":7}`},
	{name: "bad stop", method: "POST", path: "/generate", status: 422, want: "stop[0]", body: `{"prompt":"a","stop":[""]}`},
	{name: "bad loops", method: "POST", path: "/generate", status: 422, want: "loops", body: `{"prompt":"a","loops":1000000}`},
	{name: "bad JSON", method: "POST", path: "/generate", status: 400, body: `{"prompt":`},
	{name: "too long", method: "POST", path: "/generate", status: 400, body: `{"prompt":"a","max_tokens":1000000000}`},
	{name: "unsupported mode", method: "POST", path: "/generate", status: 422, want: "mode", body: `{"prompt":"a","mode":"no-such-mode"}`},
	{name: "unknown model", method: "POST", path: "/v1/completions", status: 404, text: "error.message", body: `{"model":"nope","prompt":"a"}`},
	{name: "unknown route", method: "POST", path: "/v1/nope", status: 404, body: `{}`},
	{name: "wrong method", method: "GET", path: "/generate", status: 405},
}

func runChecks(io *IO, verbose bool, client *http.Client) (int, error) {
	for i, c := range checks {
		if err := c.run(client); err != nil {
			return i, fmt.Errorf("%s (%s %s): %w", c.name, c.method, c.path, err)
		}
		if verbose {
			fmt.Fprintf(io.Out, "ok   %s\n", c.name)
		}
	}
	return len(checks), nil
}

func (c *check) run(client *http.Client) error {
	req, err := http.NewRequest(c.method, "http://localhost:8000"+c.path, strings.NewReader(c.body))
	if err != nil {
		return err
	}
	if c.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("body: %w", err)
	}
	switch {
	case res.StatusCode != c.status:
		return fmt.Errorf("status %d, not %d: %s", res.StatusCode, c.status, clip(body))
	case c.want != "" && !bytes.Contains(body, []byte(c.want)):
		return fmt.Errorf("no %s in %s", c.want, clip(body))
	case c.stream:
		return checkStream(body, c.text)
	case c.text != "":
		return checkText(body, c.text)
	}
	return nil
}

// checkStream demands SSE frames of one JSON object each, text in some of them, and [DONE] at the end.
func checkStream(body []byte, path string) error {
	frames := strings.Split(string(body), "\n\n")
	if n := len(frames); n < 3 || frames[n-1] != "" || frames[n-2] != "data: [DONE]" {
		return fmt.Errorf("stream does not end with data: [DONE]: %s", clip(body))
	}
	text := ""
	for _, f := range frames[:len(frames)-2] {
		data, ok := strings.CutPrefix(f, "data: ")
		if !ok || strings.Contains(data, "\n") {
			return fmt.Errorf("not one data line: %q", f)
		}
		var v any
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			return fmt.Errorf("frame %q: %w", f, err)
		}
		s, _ := dig(v, path).(string)
		text += s
	}
	if text == "" {
		return fmt.Errorf("no text at %s in %s", path, clip(body))
	}
	return nil
}

func checkText(body []byte, path string) error {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return fmt.Errorf("%s: %w", clip(body), err)
	}
	if s, _ := dig(v, path).(string); s == "" {
		return fmt.Errorf("no text at %s in %s", path, clip(body))
	}
	return nil
}

// dig follows a dotted path through decoded JSON.
func dig(v any, path string) any {
	for _, k := range strings.Split(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[k]
		case []any:
			var i int
			if n, _ := fmt.Sscan(k, &i); n != 1 || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

func clip(b []byte) string {
	if len(b) > 300 {
		return string(b[:300]) + "…"
	}
	return string(b)
}

// pipeListener hands a server connections that never leave the process.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) client() *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		select {
		case l.conns <- theirs:
			return ours, nil
		case <-l.closed:
			return nil, net.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: 30 * time.Second}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "localhost:8000" }

// smokeModel writes a small looped model of random weights.
func smokeModel(io_ *IO, path string) error {
	c := SynthCmd{Out: path, Shape: "custom", Type: "q8_0", Seed: 1, Dim: 64, Layers: 2, Heads: 4, KVHeads: 2, Hidden: 128, Vocab: 512, Context: 256, Loops: 3}
	return c.Run(&IO{Out: io.Discard, Ctx: io_.Ctx})
}
