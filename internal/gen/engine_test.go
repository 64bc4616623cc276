package gen

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"tinyloop/internal/chat"
	"tinyloop/internal/engine"
	"tinyloop/internal/fault"
	"tinyloop/internal/scripted"
	"tinyloop/internal/tok"
)

// live joins a scripted model, the real engine and a generator.
func live(t *testing.T, tk *tok.Tokenizer, o scripted.Options) (*Generator, *scripted.Model) {
	t.Helper()
	o.Vocab = tk.Size()
	m := scripted.New(o)
	e := engine.New(m, engine.Config{})
	t.Cleanup(e.Close)
	info := Info{Name: "scripted", Vocab: o.Vocab, Context: m.Limits().Context}
	l := m.Limits().Loops
	info.Loops.Default, info.Loops.TrainedMin, info.Loops.TrainedMean, info.Loops.TrainedMax, info.Loops.HardMax = l.Default, l.TrainedMin, l.TrainedMean, l.TrainedMax, l.HardMax
	return New(e, tk, chat.ChatML(), info, Limits{}), m
}

// Answers of a crowd in which clients come and go are those of each request alone, and every page comes back.
func TestCrowd(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	g, m := live(t, vocab(t), scripted.Options{})
	defer g.Engine().Close()
	request := func(i int) *Request {
		return &Request{Prompt: ptr(fmt.Sprintf("prompt %d of a crowd", i%8)), Seed: ptr(uint64(i)), MaxTokens: ptr(10 + i%7), Loops: ptr(1 + i%5),
			Temperature: ptr(float64(i%3) * 0.7), Stop: []string{"ab", "\x01"}, IgnoreEOS: true, Logprobs: i%2 == 0, N: 1 + i%2}
	}
	const n = 48
	var alone [n][]Answer
	for i := range alone {
		s, err := g.Generate(t.Context(), request(i))
		if err != nil {
			t.Fatal(err)
		}
		if alone[i], err = Fold(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			leaves := rand.IntN(3) == 0
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s, err := g.Generate(ctx, request(i))
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if leaves {
				s.Next(ctx, nil)
				cancel()
				drain(t, s)
				return
			}
			as, err := Fold(ctx, s)
			if err != nil {
				t.Error(err)
				return
			}
			for c, a := range as {
				if b := alone[i][c]; a.Text != b.Text || fmt.Sprint(a.IDs) != fmt.Sprint(b.IDs) || a.Finish != b.Finish || fmt.Sprint(a.Logprobs) != fmt.Sprint(b.Logprobs) {
					t.Errorf("request %d choice %d: %q %v, alone %q %v", i, c, a.Text, a.Finish, b.Text, b.Finish)
				}
			}
		})
	}
	wg.Wait()
	if h := g.Engine().Health(); h.PagesUsed != 0 || h.Running != 0 || h.Waiting != 0 {
		t.Errorf("left behind: %+v", h)
	}
	if v := m.Violations(); len(v) > 0 {
		t.Error(v)
	}
}

// Echo with log-probabilities of every prompt token, through the real engine: entry i is that of token i given those before it.
func TestEchoLive(t *testing.T) {
	p := []tok.ID{byte0 + 'a', byte0 + 'b', byte0 + 'c'}
	g, _ := live(t, vocab(t), scripted.Options{Answers: []scripted.Answer{
		{Prompt: p[:1], Steps: []scripted.Step{{{ID: p[1], P: 0.5}}}},
		{Prompt: p[:2], Steps: []scripted.Step{{{ID: p[2], P: 0.25}}}},
		{Prompt: p, Steps: scripted.Say(byte0+'!', turnEnd)},
	}})
	s, err := g.Generate(t.Context(), &Request{PromptIDs: p, Echo: true, Logprobs: true, TopLogprobs: 1})
	if err != nil {
		t.Fatal(err)
	}
	as, err := Fold(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	a := as[0]
	if a.Text != "abc!" || len(a.PromptLogprobs) != 3 || a.Finish != FinishStop {
		t.Fatalf("%+v", a)
	}
	for i, want := range []float32{0, -0.6931472, -1.3862944} {
		lp := a.PromptLogprobs[i]
		if d := lp.Logprob - want; lp.First != (i == 0) || d > 1e-5 || d < -1e-5 || lp.ID != p[i] {
			t.Errorf("prompt token %d: %+v, want %v", i, lp, want)
		}
	}
}

// A request whose time is up while it waits gives an error, one that has begun gives what it has (ollama 11097).
func TestDeadlineLive(t *testing.T) { synctest.Test(t, deadlineLive) }

func deadlineLive(t *testing.T) {
	g, m := live(t, vocab(t), scripted.Options{Answers: []scripted.Answer{{Steps: scripted.Repeat(byte0+'x', 1)}}})
	m.SetDelay(time.Millisecond)
	s, err := g.Generate(t.Context(), &Request{Prompt: ptr("go on"), Timeout: 150 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	as, err := Fold(t.Context(), s)
	if err != nil || as[0].Finish != FinishTimeout || as[0].Text == "" {
		t.Errorf("%v %+v", err, as)
	}
}

// Without max_tokens an answer goes as far as the memory for keys and values reaches; a request that names more than that is refused.
func TestMemoryLimit(t *testing.T) {
	g, _ := live(t, vocab(t), scripted.Options{Pages: 40, Answers: []scripted.Answer{{Steps: scripted.Repeat(byte0+'x', 1)}}})
	s, err := g.Generate(t.Context(), &Request{Prompt: ptr("hi"), Loops: ptr(4)}) // 9 slots: 4 pages each, 64 positions
	if err != nil {
		t.Fatal(err)
	}
	as, err := Fold(t.Context(), s)
	if err != nil || as[0].Finish != FinishWindow || as[0].Stats.CompletionTokens != 63 || len(as[0].Stats.Warnings) != 1 {
		t.Errorf("%v %+v", err, as)
	}
	_, err = g.Generate(t.Context(), &Request{Prompt: ptr("hi"), Loops: ptr(4), MaxTokens: ptr(64)})
	wantFault(t, err, fault.TooLong, "max_tokens", "40")
	for kv, want := range map[string]int{"last": 13*16 + 1 - 2, "mod:2": 8*16 + 1 - 2, "mean": 11*16 + 1 - 2} { // 3 and 5 pages a block; 3, and 6 more for the one being written
		r := &Request{Prompt: ptr("hi"), Loops: ptr(4), KVMode: kv}
		if s, err = g.Generate(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if as, err = Fold(t.Context(), s); err != nil || as[0].Stats.CompletionTokens != want {
			t.Errorf("%s: %v, %d tokens, want %d", kv, err, as[0].Stats.CompletionTokens, want)
		}
		r.MaxTokens = ptr(want + 1)
		_, err = g.Generate(t.Context(), r)
		wantFault(t, err, fault.TooLong, "max_tokens", "40")
	}
}
