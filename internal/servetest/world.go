// Package servetest is the conformance suite that every dialect must pass, over a scripted model: what it says, and with which probabilities,
// is written in the test, so that split characters, stop strings across tokens, failures and cancelling are exact and instant.
package servetest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tinyloop/internal/chat"
	"tinyloop/internal/engine"
	"tinyloop/internal/fixture"
	"tinyloop/internal/gen"
	"tinyloop/internal/host"
	"tinyloop/internal/scripted"
	"tinyloop/internal/serve"
	"tinyloop/internal/tok"
)

// Ids of the scripted vocabulary: byte b is token b, then the control tokens, then the script's own tokens.
const (
	StartID tok.ID = 256 + iota // <|im_start|>
	EndID                       // <|im_end|>, ends an answer
	TextID                      // <|endoftext|>, start of a document, ends an answer
	firstOwn
)

// Options say how the world is. The zero value is a model that says "hello" to any prompt.
type Options struct {
	Say      []string // tokens of the answer to any prompt, by their bytes
	Endless  bool     // the last token repeats instead of the end of the turn
	Steps    []scripted.Step
	Random   bool // no script: logits depend on the whole history
	Context  int
	Engine   engine.Config
	Limits   gen.Limits
	Serve    serve.Config
	NoModel  bool
	Template string // Jinja, "" = ChatML without tools
	Name     string // of the model, "scripted" when empty
}

// World is a server over a scripted model.
type World struct {
	T      testing.TB
	Model  *scripted.Model
	Engine *engine.Engine
	Gen    *gen.Generator
	Server *serve.Server
	Tok    *tok.Tokenizer
	Host   *host.Host
}

// New builds a world that is torn down with the test. At the end no page may be in use and no rule of the runner broken.
func New(t testing.TB, o Options) *World {
	t.Helper()
	if o.Say == nil && o.Steps == nil && !o.Random {
		o.Say = []string{"hel", "lo"}
	}
	own, ids := vocabulary(o.Say)
	tk, err := tok.FromGGUF(meta(own))
	if err != nil {
		t.Fatal(err)
	}
	steps := o.Steps
	if steps == nil {
		if !o.Endless {
			ids = append(ids, EndID)
		}
		steps = scripted.Say(ids...)
	}
	so := scripted.Options{Vocab: tk.Size(), Context: o.Context, Pages: 1024}
	if so.Context == 0 {
		so.Context = 512
	}
	if so.Context > 512 {
		so.Pages = 4096
	}
	if !o.Random {
		so.Answers = []scripted.Answer{{Steps: steps}}
	}
	w := &World{T: t, Model: scripted.New(so), Tok: tk, Host: host.New()}
	w.Engine = engine.New(w.Model, o.Engine)
	tm := chat.ChatML()
	if o.Template != "" {
		if tm, err = chat.Compile(o.Template); err != nil {
			t.Fatal(err)
		}
	}
	w.Gen = gen.New(w.Engine, tk, tm, info(o, so, tk), o.Limits)
	if !o.NoModel {
		if err := w.Host.Add(&host.Model{Generator: w.Gen, Name: name(o), Aliases: []string{"org/alias:v1"}}); err != nil {
			t.Fatal(err)
		}
	}
	w.Server = serve.New(w.Host, o.Serve)
	t.Cleanup(w.close)
	return w
}

func name(o Options) string {
	if o.Name != "" {
		return o.Name
	}
	return "scripted"
}

func info(o Options, so scripted.Options, tk *tok.Tokenizer) gen.Info {
	in := gen.Info{Name: name(o), Family: "scripted", Quant: "none", Params: 1000, UnrolledParams: 3000, Bytes: 4000, Vocab: tk.Size(),
		Context: so.Context, TrainedContext: so.Context, Created: time.Unix(1700000000, 0), License: "Apache-2.0", Hash: "0123456789abcdef", Chat: true}
	in.Loops.Default, in.Loops.TrainedMin, in.Loops.TrainedMean, in.Loops.TrainedMax, in.Loops.HardMax = 4, 1, 4, 6, 8
	return in
}

func (w *World) close() {
	w.Idle()
	w.Engine.Close()
	for _, v := range w.Model.Violations() {
		w.T.Errorf("the runner's rule was broken: %s", v)
	}
}

// Idle waits until the engine runs and holds nothing: every way out of a request must give its pages back.
func (w *World) Idle() {
	w.T.Helper()
	idle(w.T, w.Engine)
}

func idle(t testing.TB, e *engine.Engine) {
	t.Helper()
	fixture.Eventually(t, "an engine that runs and holds nothing", func() bool {
		h := e.Health()
		return h.Running == 0 && h.Waiting == 0 && h.PagesUsed == 0
	})
}

// vocabulary gives each distinct token of a script an id: single bytes have theirs already.
func vocabulary(say []string) (own []string, ids []tok.ID) {
	at := map[string]tok.ID{}
	for _, s := range say {
		if len(s) == 1 {
			ids = append(ids, tok.ID(s[0]))
			continue
		}
		if _, ok := at[s]; !ok {
			at[s] = firstOwn + tok.ID(len(own))
			own = append(own, s)
		}
		ids = append(ids, at[s])
	}
	return own, ids
}

// IDs gives the ids that the tokens of a script have.
func IDs(say ...string) []tok.ID {
	_, ids := vocabulary(say)
	return ids
}

// keys is tokenizer metadata as a model file would have it.
type keys struct {
	text  map[string]string
	texts map[string][]string
	ints  map[string][]int32
	uints map[string]uint64
}

func (k keys) String(s string) (string, bool)     { v, ok := k.text[s]; return v, ok }
func (k keys) Strings(s string) ([]string, bool)  { v, ok := k.texts[s]; return v, ok }
func (k keys) Ints(s string) ([]int32, bool)      { v, ok := k.ints[s]; return v, ok }
func (k keys) Floats(s string) ([]float32, bool)  { return nil, false }
func (k keys) Uint(s string) (uint64, bool)       { v, ok := k.uints[s]; return v, ok }
func (k keys) Bool(s string) (v bool, found bool) { return false, false }
func (k keys) Get(s string) (v any, found bool)   { return nil, false }

// meta is a byte-level vocabulary without merges: text encodes to its bytes, and the script's own tokens are only ever sampled.
func meta(own []string) keys {
	pieces := make([]string, 0, 300)
	types := make([]int32, 0, 300)
	for b := range 256 {
		pieces, types = append(pieces, byteLevel(string([]byte{byte(b)}))), append(types, 1)
	}
	for _, c := range []string{"<|im_start|>", "<|im_end|>", "<|endoftext|>"} {
		pieces, types = append(pieces, c), append(types, 3)
	}
	for _, s := range own {
		pieces, types = append(pieces, byteLevel(s)), append(types, 1)
	}
	return keys{
		text:  map[string]string{"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2"},
		texts: map[string][]string{"tokenizer.ggml.tokens": pieces, "tokenizer.ggml.merges": {}},
		ints:  map[string][]int32{"tokenizer.ggml.token_type": types},
		uints: map[string]uint64{"tokenizer.ggml.bos_token_id": uint64(TextID), "tokenizer.ggml.eos_token_id": uint64(TextID), "tokenizer.ggml.eot_token_id": uint64(EndID)},
	}
}

// byteLevel writes bytes as GPT-2 vocabularies do: printable Latin-1 as itself, the others from U+0100 on.
func byteLevel(s string) string {
	var out strings.Builder
	for _, b := range []byte(s) {
		out.WriteRune(byteRune(b))
	}
	return out.String()
}

func byteRune(b byte) rune {
	printable := func(b byte) bool { return b >= 33 && b <= 126 || b >= 161 && b <= 172 || b >= 174 }
	if printable(b) {
		return rune(b)
	}
	n := rune(0x100)
	for c := range b {
		if !printable(c) {
			n++
		}
	}
	return n
}

// Reply is an answer read to its end.
type Reply struct {
	Status int
	Header http.Header
	Body   string
}

// Do sends one request through the handler, in process.
func (w *World) Do(method, path, body string, header ...string) Reply {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	return w.Send(r, header...)
}

// Send is Do for a request that the test made itself. header is a list of names and values.
func (w *World) Send(r *http.Request, header ...string) Reply {
	r.Host = "localhost:8000"
	if r.Method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		} else {
			r.Header.Set(header[i], header[i+1])
		}
	}
	rec := httptest.NewRecorder()
	w.Server.Handler().ServeHTTP(rec, r)
	return Reply{rec.Code, rec.Header(), rec.Body.String()}
}

// Post is Do with POST, for tests that expect status.
func (w *World) Post(path, body string, status int) Reply {
	w.T.Helper()
	r := w.Do(http.MethodPost, path, body)
	if r.Status != status {
		w.T.Fatalf("POST %s %s: status %d, want %d: %s", path, short(body), r.Status, status, r.Body)
	}
	return r
}

func short(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}

// Open posts over a connection and leaves the body open; cancel drops the connection.
func (w *World) Open(s *Site, path, body string) (resp *http.Response, cancel func()) {
	w.T.Helper()
	ctx, stop := context.WithCancel(context.Background())
	w.T.Cleanup(stop)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		w.T.Fatal(err)
	}
	resp, err = s.Client.Do(req)
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { resp.Body.Close() })
	return resp, stop
}

// ReadAll gives what is left of a body; a cut connection is an error of the test.
func (w *World) ReadAll(r io.Reader) string {
	w.T.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		w.T.Fatal(err)
	}
	return string(b)
}

// direct generates one answer to "hi" without HTTP.
func (w *World) direct() error {
	s, err := w.Gen.Generate(context.Background(), &gen.Request{Messages: []chat.Message{{Role: "user", Content: "hi"}}})
	if err != nil {
		return err
	}
	_, err = gen.Fold(context.Background(), s)
	return err
}
