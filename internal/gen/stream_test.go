package gen

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tinyloop/internal/chat"
	"tinyloop/internal/engine"
	"tinyloop/internal/fault"
	"tinyloop/internal/sample"
	"tinyloop/internal/tok"
)

// A whole answer is the fold of the very same events.
func TestFoldEqualsStream(t *testing.T) {
	g, _ := says(t, "Hel", "lo ", "\xf0\x9f", "\x98\x80", " ST", "OP", "x")
	r := &Request{Prompt: ptr("hi"), N: 3, Stop: []string{"STOP"}, Logprobs: true, Echo: true, Seed: ptr(uint64(7))}
	es := events(t, g, r)
	s, err := g.Generate(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	answers, err := Fold(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if len(answers) != 3 {
		t.Fatalf("%d answers", len(answers))
	}
	for i, a := range answers {
		text, done := answer(es, i)
		if a.Text != text || a.Text != "hiHello 😀 " || a.Finish != done.Finish || a.Stats.StopString != "STOP" {
			t.Errorf("choice %d: %q, streamed %q", i, a.Text, text)
		}
		if len(a.IDs) != 6 || len(a.Logprobs) != 5 || len(a.PromptLogprobs) != 2 {
			t.Errorf("choice %d: %d ids, %d and %d entries", i, len(a.IDs), len(a.Logprobs), len(a.PromptLogprobs))
		}
	}
}

// vllm 5334: with echo the first prompt token has no log-probability, the others their own.
func TestEcho(t *testing.T) {
	g, _ := says(t)
	es := events(t, g, &Request{Prompt: ptr("abc"), Echo: true, Logprobs: true, TopLogprobs: 1, MaxTokens: ptr(0)})
	text, done := answer(es, 0)
	if text != "abc" || done.Finish != FinishLength || done.Stats.CompletionTokens != 0 {
		t.Fatalf("%q %+v", text, done)
	}
	for i, e := range es[:3] {
		lp := e.Logprobs[0]
		if e.Kind != Prompt || e.Index != i || lp.First != (i == 0) || lp.Logprob != -float32(i) || lp.Text != "abc"[i:i+1] {
			t.Errorf("prompt token %d: %+v", i, e)
		}
	}
	es = events(t, g, &Request{Prompt: ptr("é"), Echo: true, MaxTokens: ptr(0)})
	if text, _ := answer(es, 0); text != "é" || es[0].Text != "" || es[1].Text != "é" {
		t.Errorf("%+v", es)
	}
	es = events(t, g, &Request{PromptIDs: []tok.ID{byte0 + 0xF0, byte0 + 0x9F}, Echo: true, MaxTokens: ptr(0)})
	if text, _ := answer(es, 0); text != "\uFFFD" {
		t.Errorf("half a character is echoed as %q", text)
	}
}

// optillm 8 and vllm 639: several choices, also greedy ones.
func TestChoices(t *testing.T) {
	g, _ := says(t, "one", " two", "<|im_end|>")
	es := events(t, g, &Request{Prompt: ptr("hi"), N: 3, Temperature: ptr(0.0)})
	for i := range 3 {
		if text, done := answer(es, i); text != "one two" || done.Finish != FinishStop || done.Stats.StopID != turnEnd || done.Stats.CompletionTokens != 3 {
			t.Errorf("choice %d: %q %+v", i, text, done)
		}
	}
	ends := 0
	for _, e := range es {
		if e.Kind == Done {
			ends++
		}
	}
	if ends != 3 {
		t.Errorf("%d ends", ends)
	}
}

// The best of several by mean log-probability, best first, and nothing before they are known.
func TestBestOf(t *testing.T) {
	g, e := says(t, "one", "<|im_end|>")
	mean := []float32{-3, -1, -2, -4}
	e.lp = func(choice, i int) float32 { return mean[choice] }
	s, err := g.Generate(t.Context(), &Request{Prompt: ptr("hi"), N: 2, BestOf: 4})
	if err != nil {
		t.Fatal(err)
	}
	answers, err := Fold(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if len(answers) != 2 || answers[0].Text != "one" || answers[0].Logprobs != nil {
		t.Fatalf("%+v", answers)
	}
	es := events(t, g, &Request{Prompt: ptr("hi"), N: 2, BestOf: 4, Logprobs: true})
	var got []float32
	for _, e := range es {
		for _, lp := range e.Logprobs {
			got = append(got, lp.Logprob)
		}
	}
	if !slices.Equal(got, []float32{-1, -2}) {
		t.Errorf("kept %v", got)
	}
}

// An impossible token has the floor, which JSON can carry (sglang 5984).
func TestLogprobFloor(t *testing.T) {
	g, e := says(t, "one", "<|im_end|>")
	inf := float32(0)
	e.lp = func(int, int) float32 { return -1 / inf }
	for _, ev := range events(t, g, &Request{Prompt: ptr("hi"), Logprobs: true}) {
		for _, lp := range ev.Logprobs {
			if lp.Logprob != sample.LogprobFloor {
				t.Errorf("logprob %v", lp.Logprob)
			}
		}
	}
}

func TestCancel(t *testing.T) {
	for name, end := range map[string]func(cancel context.CancelFunc, s *Stream){
		"close":   func(_ context.CancelFunc, s *Stream) { s.Close(); s.Close() },
		"context": func(cancel context.CancelFunc, _ *Stream) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			g, e := says(t, "one", "two", "six")
			e.gate = make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s, err := g.Generate(ctx, hi())
			if err != nil {
				t.Fatal(err)
			}
			e.gate <- struct{}{}
			es, err := s.Next(t.Context(), nil)
			if err != nil || len(es) != 1 || es[0].Text != "one" {
				t.Fatalf("%+v %v", es, err)
			}
			end(cancel, s)
			es = drain(t, s)
			if len(es) != 1 || es[0].Finish != FinishCancel || es[0].Stats.CompletionTokens != 1 {
				t.Errorf("%+v", es)
			}
		})
	}
	g, e := says(t, "one")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := g.Generate(ctx, hi())
	if fault.Of(err) != fault.Canceled || e.got != nil {
		t.Errorf("a request of a client that is gone: %v", err)
	}
}

// A reader that gives up waiting does not lose events.
func TestNextTimeout(t *testing.T) {
	g, e := says(t, "one", "<|im_end|>")
	e.gate = make(chan struct{})
	s, err := g.Generate(t.Context(), hi())
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := s.Next(short, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	close(e.gate)
	if es := drain(t, s); len(es) != 2 {
		t.Errorf("%+v", es)
	}
	if _, err := s.Next(t.Context(), nil); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
}

func TestTimeout(t *testing.T) {
	g, e := says(t)
	e.block = true
	s, err := g.Generate(t.Context(), &Request{Prompt: ptr("hi"), Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Fold(t.Context(), s)
	if fault.Of(err) != fault.Timeout {
		t.Errorf("nothing produced: %v", err)
	}
	if d := e.got.Deadline.Sub(s.start); d != time.Second {
		t.Errorf("the deadline is %v after the request", d)
	}

	g, _ = says(t)
	g.submit = func(_ context.Context, r *engine.Request, s engine.Sink) error {
		s.Started()
		s.Token(0, sample.Choice{ID: byte0 + 'x'})
		s.Token(0, sample.Choice{ID: byte0 + 0xE2})
		s.Finish(0, engine.Timeout, engine.Stats{})
		return nil
	}
	text, done := answer(events(t, g, &Request{Prompt: ptr("hi"), Timeout: time.Second}), 0)
	if text != "x\uFFFD" || done.Finish != FinishTimeout || done.Err != nil {
		t.Errorf("%q %+v", text, done)
	}
	g.lim.DefaultTimeout = 3 * time.Second
	if p, err := g.check(hi()); err != nil || p.timeout != 3*time.Second {
		t.Errorf("%v %v", p, err)
	}
}

// A failing engine is an error of the answer, and its inner text stays inside (LocalAI 1886).
func TestEngineFails(t *testing.T) {
	g, e := says(t, "one")
	e.fail = errors.New("page 7 is lost")
	s, err := g.Generate(t.Context(), hi())
	if err != nil {
		t.Fatal(err)
	}
	_, err = Fold(t.Context(), s)
	if f := fault.As(err); f.Kind != fault.Internal || strings.Contains(f.Msg, "page 7") {
		t.Errorf("got %v, message %q", err, f.Msg)
	}
	g.submit = func(context.Context, *engine.Request, engine.Sink) error {
		return fault.New(fault.Busy, "", "256 requests are waiting already")
	}
	if _, err := g.Generate(t.Context(), hi()); fault.Of(err) != fault.Busy {
		t.Errorf("got %v", err)
	}
}

// A reader that is slow, or never comes, holds up nobody: the whole answer is taken in without a Next.
func TestSlowReader(t *testing.T) {
	g, e := says(t, slices.Repeat([]string{"ab"}, 300)...)
	ended := make(chan struct{})
	g.submit = func(ctx context.Context, r *engine.Request, s engine.Sink) error {
		s.Started()
		s.Finish(0, e.choice(ctx, r, s, 0, &engine.Stats{}), engine.Stats{})
		close(ended)
		return nil
	}
	s, err := g.Generate(t.Context(), hi())
	if err != nil {
		t.Fatal(err)
	}
	<-ended
	answers, err := Fold(t.Context(), s)
	if err != nil || answers[0].Text != strings.Repeat("ab", 300) {
		t.Errorf("%v %+v", err, answers)
	}
}

func TestStats(t *testing.T) {
	g, _ := says(t)
	clock := time.Unix(1000, 0)
	g.now = func() time.Time { return clock }
	tick := func(d time.Duration) { clock = clock.Add(d) }
	g.submit = func(_ context.Context, r *engine.Request, s engine.Sink) error {
		tick(2 * time.Millisecond)
		s.Started()
		tick(8 * time.Millisecond)
		for range 3 {
			s.Token(0, sample.Choice{ID: byte0 + 'x'})
			tick(5 * time.Millisecond)
		}
		s.Finish(0, engine.Length, engine.Stats{CachedTokens: 1, Loops: 4, Turns: 12, Prefill: 7 * time.Millisecond})
		return nil
	}
	es := events(t, g, &Request{Prompt: ptr("hi"), MaxTokens: ptr(3), Seed: ptr(uint64(5))})
	want := Stats{PromptTokens: 2, CachedTokens: 1, CompletionTokens: 3, Loops: 4, MeanLoops: 4, Turns: 12, StopID: -1, Seed: 5,
		Queued: 2 * time.Millisecond, TTFT: 10 * time.Millisecond, Prefill: 7 * time.Millisecond, Decode: 10 * time.Millisecond, Wall: 25 * time.Millisecond,
		TokensPerSecond: 200, Mode: "autoregressive", KVMode: "per_loop"}
	if d := cmp.Diff(want, es[len(es)-1].Stats); d != "" {
		t.Error(d)
	}
}

// One reader takes from streams that share a channel as they come, and the end of each comes with its last event once nothing is left.
func TestTake(t *testing.T) {
	ready := make(chan struct{}, 1)
	var streams []*Stream
	for range 3 {
		g, _ := says(t, "one", "two", "<|im_end|>")
		r := hi()
		r.Ready = ready
		s, err := g.Generate(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	text, ends := make([]string, len(streams)), make([]int, len(streams))
	for open := len(streams); open > 0; {
		select {
		case <-ready:
		case <-t.Context().Done():
			t.Fatalf("nobody says that there is more: %q", text)
		}
		for i, s := range streams {
			es, err := s.Take(nil)
			for _, e := range es {
				text[i] += e.Text
			}
			if err == io.EOF && ends[i] == 0 {
				open--
			}
			if err != nil {
				ends[i]++
			}
			if ends[i] > 1 && len(es) > 0 {
				t.Errorf("%d events behind the end", len(es))
			}
		}
	}
	for i := range streams {
		if text[i] != "onetwo" {
			t.Errorf("stream %d says %q", i, text[i])
		}
		if es, err := streams[i].Take(nil); len(es) > 0 || err != io.EOF {
			t.Errorf("after the end: %v %v", es, err)
		}
	}
}

// one feeds a stream by hand: the engine's side of n tokens, and the reader's.
func pump(t testing.TB, r *Request) (token func(), reader func()) {
	g, _ := says(t, " the", "<|im_end|>")
	var sink engine.Sink
	g.submit = func(_ context.Context, _ *engine.Request, s engine.Sink) error { sink = s; return nil }
	s, err := g.Generate(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	c := sample.Choice{ID: said(" the")[0], Logprob: -1}
	var buf []Event
	return func() { sink.Token(0, c) }, func() { buf, _ = s.Next(context.Background(), buf[:0]) }
}

// A token costs the engine's goroutine no allocation but its share of the text's chunk, with stop strings or without.
func TestAllocations(t *testing.T) {
	for name, r := range map[string]*Request{"plain": {Prompt: ptr("hi")}, "stops": {Prompt: ptr("hi"), Stop: []string{" then", "END"}}} {
		token, reader := pump(t, r)
		for range 100 {
			token()
			reader()
		}
		n := testing.AllocsPerRun(2000, func() { token(); reader() })
		if n > 0.05 {
			t.Errorf("%s: %v allocations a token", name, n)
		}
	}
}

func BenchmarkToken(b *testing.B) {
	for name, r := range map[string]*Request{"plain": {Prompt: ptr("hi")}, "stops": {Prompt: ptr("hi"), Stop: []string{" then", "END", "\n\n", "User:"}},
		"logprobs": {Prompt: ptr("hi"), Logprobs: true}} {
		b.Run(name, func(b *testing.B) {
			token, reader := pump(b, r)
			b.ReportAllocs()
			for b.Loop() {
				token()
				reader()
			}
		})
	}
}

// BenchmarkRequest is everything around the engine of one short chat: check, render, encode, stream, fold.
func BenchmarkRequest(b *testing.B) {
	g, _ := says(b, " the", " cat", "<|im_end|>")
	g.submit = func(_ context.Context, r *engine.Request, s engine.Sink) error {
		s.Started()
		for _, id := range said(" the", " cat", "<|im_end|>") {
			s.Token(0, sample.Choice{ID: id})
		}
		s.Finish(0, engine.Stop, engine.Stats{})
		return nil
	}
	r := &Request{Messages: []chat.Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "Who are you?"}}}
	b.ReportAllocs()
	for b.Loop() {
		s, err := g.Generate(context.Background(), r)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Fold(context.Background(), s); err != nil {
			b.Fatal(err)
		}
	}
}
