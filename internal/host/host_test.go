package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tinyloop/internal/arch"
	"tinyloop/internal/embedded"
	"tinyloop/internal/fault"
	"tinyloop/internal/fixture"
	"tinyloop/internal/gen"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

func load1(t testing.TB, path string, o Options) *Model {
	t.Helper()
	o.Threads = 1
	m, err := Load("stories", path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(context.Background()) })
	return m
}

func story(t testing.TB, m *Model, r *gen.Request) gen.Answer {
	t.Helper()
	s, err := m.Generate(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	a, err := gen.Fold(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return a[0]
}

func ptr[T any](v T) *T { return &v }

func greedy(n int) *gen.Request {
	return &gen.Request{Prompt: ptr(""), MaxTokens: ptr(n), Temperature: ptr(0.0)}
}

// converted makes a .tinyloop of a file.
func converted(t testing.TB, path string) string {
	t.Helper()
	f, err := tensorfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := filepath.Join(t.TempDir(), "stories.tinyloop")
	if err := arch.Convert(f, out, arch.ConvertOptions{}); err != nil {
		t.Fatal(err)
	}
	return out
}

// Every form of the same small model tells the same story, to the byte.
func TestGreedyStory(t *testing.T) {
	want := strings.TrimSuffix(string(fixture.Read(t, "stories260K", "greedy-200-steps.txt")), "\n") // printed with a newline behind it
	gguf := fixture.Path(t, "stories260K", "stories260K-f32.gguf")
	for name, path := range map[string]string{"llama2c": fixture.Path(t, "stories260K", "stories260K.bin"), "gguf": gguf, "tinyloop": converted(t, gguf)} {
		t.Run(name, func(t *testing.T) {
			m := load1(t, path, Options{})
			a := story(t, m, greedy(200))
			if a.Text != want {
				t.Errorf("got  %q\nwant %q", a.Text, want)
			}
			if a.Finish != gen.FinishLength || a.Stats.CompletionTokens != 200 || a.Stats.PromptTokens != 1 {
				t.Errorf("finish %v, %+v", a.Finish, a.Stats)
			}
		})
	}
}

// The same request gives the same answer alone, repeated (from the prefix cache) and in a crowd (llama.cpp 4902, tensorrtllm_backend 464).
func TestSameAnswer(t *testing.T) {
	m := load1(t, fixture.Path(t, "stories260K", "stories260K-f32.gguf"), Options{})
	prompt := "Once upon a time, there was a little girl named Lily. She loved to play outside in the park"
	requests := []*gen.Request{
		{Prompt: &prompt, MaxTokens: ptr(40), Temperature: ptr(0.0)},
		{Prompt: &prompt, MaxTokens: ptr(40), Temperature: ptr(1.0), Seed: ptr(uint64(1))},
		{Prompt: &prompt, MaxTokens: ptr(40), Temperature: ptr(1.0), Seed: ptr(uint64(2)), TopP: ptr(0.9), N: 2},
		{Prompt: ptr("Tom"), MaxTokens: ptr(40), Temperature: ptr(0.7), Seed: ptr(uint64(3)), TopK: ptr(5)},
	}
	fold := func(r *gen.Request) string {
		s, err := m.Generate(t.Context(), r)
		if err != nil {
			t.Error(err)
			return ""
		}
		as, err := gen.Fold(t.Context(), s)
		if err != nil {
			t.Error(err)
		}
		var all []string
		for _, a := range as {
			all = append(all, a.Text)
		}
		return strings.Join(all, "\x00")
	}
	alone := make([]string, len(requests))
	for i, r := range requests {
		alone[i] = fold(r)
	}
	if alone[1] == alone[0] || len(alone[1]) == 0 {
		t.Errorf("temperature has no effect: %q", alone[1])
	}
	var wg sync.WaitGroup
	for range 4 {
		for i, r := range requests {
			wg.Go(func() {
				if got := fold(r); got != alone[i] {
					t.Errorf("request %d in a crowd: %q, alone %q", i, got, alone[i])
				}
			})
		}
	}
	wg.Wait()
	if h := m.Engine().Health(); h.PagesUsed != 0 {
		t.Errorf("%d pages are still in use", h.PagesUsed)
	}
}

func TestChat(t *testing.T) {
	m := load1(t, fixture.Path(t, "stories260K", "stories260K-f32.gguf"), Options{MaxSeqLen: 128})
	if m.Info().Context != 128 || m.Info().TrainedContext != 512 || m.Engine().Limits().Context != 128 {
		t.Errorf("context %d of %d, engine %d", m.Info().Context, m.Info().TrainedContext, m.Engine().Limits().Context)
	}
	_, err := m.Generate(t.Context(), &gen.Request{Prompt: ptr("a"), MaxTokens: ptr(127)})
	if fault.Of(err) != fault.TooLong {
		t.Errorf("got %v", err)
	}
}

func TestInfo(t *testing.T) {
	m := load1(t, fixture.Path(t, "stories260K", "looped-nanbeige-3x.gguf"), Options{KVType: "f16", MaxLoops: 5})
	i := m.Info()
	if i.Family != "nanbeige" || i.Loops.Default != 3 || i.Loops.HardMax != 5 || i.Vocab != 512 || i.KVType != "f16" || i.UnrolledParams <= i.Params || i.Bytes == 0 || i.Created.IsZero() {
		t.Errorf("%+v", i)
	}
	for loops := 1; loops <= 5; loops++ {
		r := greedy(8)
		r.Loops = &loops
		if a := story(t, m, r); a.Stats.Loops != loops || a.Stats.Turns == 0 {
			t.Errorf("%d loops: %+v", loops, a.Stats)
		}
	}
	_, err := m.Generate(t.Context(), &gen.Request{Prompt: ptr("a"), Loops: ptr(6)})
	if fault.Of(err) != fault.Invalid || !strings.Contains(err.Error(), "between 1 and 5, got 6") {
		t.Errorf("got %v", err)
	}
}

func TestRefusedFiles(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "page.gguf")
	if err := os.WriteFile(page, []byte("<!doctype html><html>"), 0o600); err != nil {
		t.Fatal(err)
	}
	bare := filepath.Join(dir, "bare.bin") // no tokenizer beside it
	if err := os.WriteFile(bare, fixture.Read(t, "stories260K", "stories260K.bin"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, in := range map[string]string{page: "HTML", filepath.Join(dir, "none.gguf"): "none.gguf", bare: "tok512.bin"} {
		_, err := Load("x", path, Options{})
		if err == nil || !strings.Contains(err.Error(), in) || strings.Count(err.Error(), filepath.Base(path)) != 1 {
			t.Errorf("%s: %v", path, err)
		}
	}
	story := fixture.Path(t, "stories260K", "stories260K-f32.gguf")
	if _, err := Load("x", story, Options{KVType: "q4"}); err == nil || !strings.Contains(err.Error(), `"q4"`) {
		t.Errorf("got %v", err)
	}
	if _, err := Load("x", story, Options{KVBudget: 1000}); err == nil || !strings.Contains(err.Error(), "1000 B") || !strings.Contains(err.Error(), "512 tokens") {
		t.Errorf("got %v", err)
	}
}

func TestBudget(t *testing.T) {
	s := &model.Spec{Vocab: 10, Dim: 64, Context: 100, Prelude: 1, Core: 2, Coda: 1, Loops: model.Loops{Default: 3, TrainedMax: 4, HardMax: 16}}
	s.Block.Heads, s.Block.KVHeads, s.Block.HeadDim = 4, 4, 16
	const weights = 1 << 20
	window := int64(7 * 8) // 7 pages of 16 positions, 8 slots
	bytes := window * s.PageBytes(kernel.F32)
	for _, c := range []struct {
		o     Options
		pages int64 // 0 = refused
	}{
		{Options{}, 8 * window},
		{Options{MaxSeqLen: 32}, 8 * 2 * 8},
		{Options{KVBudget: window * s.PageBytes(kernel.F32)}, window},
		{Options{KVBudget: window*s.PageBytes(kernel.F32) - 1}, 0},
		{Options{MaxLoops: 1, KVBudget: 28 * s.PageBytes(kernel.F32)}, 28},
		{Options{Memory: weights + 20*bytes}, 8 * window},
		{Options{Memory: weights + 3*bytes}, 3 * window}, // what the weights leave
		{Options{Memory: weights + bytes}, window},
		{Options{Memory: weights + bytes - 1}, 0},
		{Options{Memory: weights + bytes, KVBudget: bytes + 1}, 0},
		{Options{Memory: weights / 2}, 0},
	} {
		so, err := scratchOptions(s, kernel.F32, weights, c.o)
		if c.pages == 0 {
			if err == nil {
				t.Errorf("%+v: %d pages, want a refusal", c.o, so.Pages)
			}
			continue
		}
		if err != nil || int64(so.Pages) != c.pages {
			t.Errorf("%+v: %d pages %v, want %d", c.o, so.Pages, err, c.pages)
		}
	}
}

// TestTooLarge: a model for which there is no memory is refused with the sizes, before any of it is taken.
func TestTooLarge(t *testing.T) {
	path := fixture.Path(t, "stories260K", "stories260K-f32.gguf")
	_, err := Load("x", path, Options{Memory: 1 << 20})
	if fault.Of(err) != fault.Invalid || fault.As(err).Field != "memory" {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{"stories260K-f32.gguf: the weights take 1.1 MiB", "one window of 512 tokens takes 640.0 KiB", "only 1.0 MiB of memory are free"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v: lacks %q", err, part)
		}
	}
	load1(t, path, Options{Memory: 4 << 20})
}

func TestNames(t *testing.T) {
	h := New()
	if _, _, err := h.Get("tl"); fault.Of(err) != fault.NoModel {
		t.Errorf("empty host: %v", err)
	}
	m := load1(t, fixture.Path(t, "stories260K", "stories260K-f32.gguf"), Options{})
	m.Aliases = []string{"small"}
	other := &Model{Name: "other", Generator: m.Generator, engine: m.engine}
	for _, x := range []*Model{m, other} {
		if err := h.Add(x); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"", "tl", "stories", "small"} {
		got, release, err := h.Get(name)
		if err != nil || got != m {
			t.Fatalf("%q: %v", name, err)
		}
		release()
		release()
	}
	if got, release, err := h.Get("other"); err != nil || got != other {
		t.Errorf("other: %v", err)
	} else {
		release()
	}
	if _, _, err := h.Get("nope"); fault.Of(err) != fault.NotFound || !strings.Contains(err.Error(), "nope") {
		t.Errorf("got %v", err)
	}
	for _, bad := range []string{"small", "tl", "", "stories"} {
		if err := h.Add(&Model{Name: bad}); err == nil {
			t.Errorf("the name %q is taken twice", bad)
		}
	}
	if len(h.List()) != 2 {
		t.Errorf("%d models", len(h.List()))
	}
	first := New()
	if err := first.Add(&Model{Name: Default}); err != nil {
		t.Errorf("the first model may have the default's name: %v", err)
	}
	if err := first.Add(&Model{Name: Default}); err == nil {
		t.Error("a second model took the default's name")
	}
}

// Draining refuses new work, lets what runs finish, and gives up when its time ends.
func TestDrain(t *testing.T) {
	h := New()
	m := load1(t, fixture.Path(t, "stories260K", "stories260K-f32.gguf"), Options{})
	if err := h.Add(m); err != nil {
		t.Fatal(err)
	}
	got, release, err := h.Get("")
	if err != nil {
		t.Fatal(err)
	}
	s, err := got.Generate(t.Context(), greedy(50))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- h.Drain(context.Background()) }()
	as, err := gen.Fold(t.Context(), s)
	if err != nil || as[0].Stats.CompletionTokens != 50 {
		t.Errorf("a running answer: %v %+v", err, as)
	}
	release()
	if err := <-ended; err != nil {
		t.Errorf("drain: %v", err)
	}
	if _, _, err := h.Get(""); fault.Of(err) != fault.Unavailable {
		t.Errorf("after draining: %v", err)
	}
	if _, err := m.Generate(t.Context(), greedy(1)); fault.Of(err) != fault.Unavailable {
		t.Errorf("after draining: %v", err)
	}

	h = New()
	if err := h.Add(load1(t, fixture.Path(t, "stories260K", "stories260K-f32.gguf"), Options{})); err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.Get(""); err != nil { // never released
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Drain(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("drain with no time left: %v", err)
	}
}

// A model in memory answers as its file does, and a broken one is refused by the name it was given.
func TestLoadBytes(t *testing.T) {
	path := converted(t, fixture.Path(t, "stories260K", "stories260K-f32.gguf"))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := LoadBytes(Default, "embedded:tl.tinyloop", b, Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(t.Context())
	clear(b) // nothing of it is needed any more
	if got, want := story(t, m, greedy(30)), story(t, load1(t, path, Options{}), greedy(30)); got.Text != want.Text || m.Name != "tl" {
		t.Errorf("%s says %q, want %q", m.Name, got.Text, want.Text)
	}
	if _, err := LoadBytes(Default, "embedded:tl.tinyloop", []byte("GGUF"), Options{}); err == nil || !strings.Contains(err.Error(), "embedded:tl.tinyloop") {
		t.Errorf("four bytes: %v", err)
	}
}

// A build without a model says so; one with a model serves it.
func TestLoadEmbedded(t *testing.T) {
	m, err := LoadEmbedded(Options{Threads: 1})
	if fault.Of(err) == fault.NoModel {
		if _, ok := embedded.Model(); ok {
			t.Error("there is a model, and it was not found")
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(t.Context())
	if m.Name != Default || m.Info().Path != embedded.File {
		t.Errorf("%s from %s", m.Name, m.Info().Path)
	}
}
