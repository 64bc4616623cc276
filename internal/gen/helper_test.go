package gen

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"tinyloop/internal/chat"
	"tinyloop/internal/engine"
	"tinyloop/internal/fault"
	"tinyloop/internal/sample"
	"tinyloop/internal/tok"
)

// meta is a tokenizer's metadata in memory.
type meta map[string]any

func get[T any](m meta, key string) (T, bool) {
	v, ok := m[key].(T)
	return v, ok
}

func (m meta) String(k string) (string, bool)    { return get[string](m, k) }
func (m meta) Strings(k string) ([]string, bool) { return get[[]string](m, k) }
func (m meta) Ints(k string) ([]int32, bool)     { return get[[]int32](m, k) }
func (m meta) Floats(k string) ([]float32, bool) { return get[[]float32](m, k) }
func (m meta) Uint(k string) (uint64, bool)      { return get[uint64](m, k) }
func (m meta) Bool(k string) (bool, bool)        { return get[bool](m, k) }
func (m meta) Get(k string) (any, bool)          { v, ok := m[k]; return v, ok }

// The control tokens of vocab, before its bytes and pieces.
const (
	endText tok.ID = iota // <|endoftext|>: start of a text and end of one
	turnStart
	turnEnd
	byte0 // byte0+b stands for the byte b
)

// vocab makes a byte-level tokenizer: three control tokens, the 256 bytes, then the pieces, which no merge reaches: only scripts say them.
func vocab(t testing.TB, pieces ...string) *tok.Tokenizer {
	t.Helper()
	tokens := []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}
	types := []int32{3, 3, 3}
	for b := range 256 {
		tokens = append(tokens, byteLevel(string([]byte{byte(b)})))
		types = append(types, 1)
	}
	for _, p := range pieces {
		tokens = append(tokens, byteLevel(p))
		types = append(types, 1)
	}
	tk, err := tok.FromGGUF(meta{
		"tokenizer.ggml.model":        "gpt2",
		"tokenizer.ggml.pre":          "gpt-2",
		"tokenizer.ggml.tokens":       tokens,
		"tokenizer.ggml.token_type":   types,
		"tokenizer.ggml.merges":       []string{},
		"tokenizer.ggml.bos_token_id": uint64(endText),
		"tokenizer.ggml.eos_token_id": uint64(endText),
		"tokenizer.ggml.eot_token_id": uint64(turnEnd),
	})
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

// byteLevel writes bytes as GPT-2 vocabularies do: each one a printable character.
func byteLevel(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c, next := rune(s[i]), rune(256)
		for v := range rune(256) {
			printable := v >= '!' && v <= '~' || v >= 0xA1 && v <= 0xAC || v >= 0xAE
			if v == c {
				if !printable {
					c = next
				}
				break
			}
			if !printable {
				next++
			}
		}
		b.WriteRune(c)
	}
	return b.String()
}

// said turns words into ids of vocab(t, pieces(words)...): a control token's name is that token, a single byte is its own token, and every
// other word is a piece.
func said(words ...string) []tok.ID {
	ids := make([]tok.ID, len(words))
	for i, w := range words {
		switch {
		case w == "<|im_end|>":
			ids[i] = turnEnd
		case w == "<|endoftext|>":
			ids[i] = endText
		case len(w) == 1:
			ids[i] = byte0 + tok.ID(w[0])
		default:
			ids[i] = byte0 + 256 + tok.ID(slices.Index(pieces(words), w))
		}
	}
	return ids
}

// pieces lists the different words of a script that need a token of their own.
func pieces(words []string) (out []string) {
	for _, w := range words {
		if len(w) > 1 && !strings.HasPrefix(w, "<|") && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// script is an engine that answers every choice with the same ids.
type script struct {
	ids   []tok.ID
	lp    func(choice, i int) float32
	fail  error // after the ids
	gate  chan struct{}
	block bool // never answer: wait for the context or the deadline
	got   *engine.Request
}

func (e *script) submit(ctx context.Context, r *engine.Request, s engine.Sink) error {
	e.got = r
	go func() {
		s.Started()
		if r.PromptLogprobs {
			for i, id := range r.Prompt {
				c := sample.Choice{ID: id}
				if i > 0 {
					c.Logprob = -float32(i)
				}
				s.PromptToken(i, c)
			}
		}
		for c := range max(1, r.Choices) {
			st := engine.Stats{PromptTokens: len(r.Prompt), Loops: r.Loops}
			s.Finish(c, e.choice(ctx, r, s, c, &st), st)
		}
	}()
	return nil
}

func (e *script) choice(ctx context.Context, r *engine.Request, s engine.Sink, c int, st *engine.Stats) engine.Why {
	for i := 0; ; i++ {
		if e.gate != nil {
			select {
			case <-e.gate:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return engine.Cancel
		}
		if !r.Deadline.IsZero() && e.block {
			return engine.Timeout
		}
		if i == r.MaxTokens {
			return engine.Length
		}
		if i == len(e.ids) {
			if e.fail != nil {
				st.Err = e.fail
				return engine.Fail
			}
			return engine.Window
		}
		id := e.ids[i]
		lp := float32(-0.5)
		if e.lp != nil {
			lp = e.lp(c, i)
		}
		more := s.Token(c, sample.Choice{ID: id, Logprob: lp, Top: tops(r, id, lp)})
		if slices.Contains(r.Stop, id) && !r.IgnoreStop {
			return engine.Stop
		}
		if !more {
			return engine.StopSink
		}
	}
}

func tops(r *engine.Request, id tok.ID, lp float32) []sample.Alt {
	if r.Sampling.Top == 0 {
		return nil
	}
	return []sample.Alt{{ID: id, Logprob: lp}, {ID: byte0 + 'x', Logprob: sample.LogprobFloor}}[:min(2, r.Sampling.Top)]
}

// says makes a generator whose model says words, each one token, and then ends the window.
func says(t testing.TB, words ...string) (*Generator, *script) {
	t.Helper()
	e := &script{ids: said(words...)}
	return newGenerator(vocab(t, pieces(words)...), e, 512), e
}

func newGenerator(tk *tok.Tokenizer, e *script, context int) *Generator {
	info := Info{Name: "test", Vocab: tk.Size(), Context: context}
	info.Loops.Default, info.Loops.TrainedMin, info.Loops.TrainedMean, info.Loops.TrainedMax, info.Loops.HardMax = 4, 1, 4, 6, 8
	g := New(nil, tk, chat.ChatML(), info, Limits{})
	g.submit = e.submit
	return g
}

func ptr[T any](v T) *T { return &v }

func hi() *Request { return &Request{Prompt: ptr("hi")} }

// events reads a whole stream.
func events(t testing.TB, g *Generator, r *Request) []Event {
	t.Helper()
	s, err := g.Generate(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return drain(t, s)
}

func drain(t testing.TB, s *Stream) []Event {
	t.Helper()
	var out []Event
	for {
		var err error
		out, err = s.Next(t.Context(), out)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// answer joins a choice's events.
func answer(es []Event, choice int) (text string, done Event) {
	for _, e := range es {
		if e.Choice != choice {
			continue
		}
		text += e.Text
		if e.Kind == Done {
			done = e
		}
	}
	return text, done
}

func wantFault(t *testing.T, err error, kind fault.Kind, field string, in ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %v about %s", kind, field)
	}
	f := fault.As(err)
	if f.Kind != kind || f.Field != field {
		t.Errorf("got %v about %q (%v), want %v about %q", f.Kind, f.Field, err, kind, field)
	}
	for _, s := range in {
		if !strings.Contains(f.Msg, s) {
			t.Errorf("message %q does not say %q", f.Msg, s)
		}
	}
}
