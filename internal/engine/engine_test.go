package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"go.uber.org/goleak"

	"tinyloop/internal/fault"
	"tinyloop/internal/fixture"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/sample"
	"tinyloop/internal/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// token is what a sink saw of one token.
type token struct {
	id  int32
	lp  float32
	top string
}

// answer is one choice as its sink saw it.
type answer struct {
	tokens []token
	why    Why
	st     Stats
	done   bool
}

// collect is a Sink that keeps everything, and checks the order of calls.
type collect struct {
	mu       sync.Mutex
	started  int
	prompt   []token
	answers  []answer
	left     int
	end      chan struct{}
	bad      []string
	onToken  func(choice int, c sample.Choice) bool // may be nil
	onStart  func()
	onFinish func()
}

func newCollect(n int) *collect {
	n = max(1, n)
	return &collect{answers: make([]answer, n), left: n, end: make(chan struct{})}
}

func see(c sample.Choice) token { return token{c.ID, c.Logprob, fmt.Sprint(c.Top)} }

func (s *collect) Started() {
	s.mu.Lock()
	s.started++
	s.mu.Unlock()
	if s.onStart != nil {
		s.onStart()
	}
}

func (s *collect) PromptToken(i int, c sample.Choice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i != len(s.prompt) {
		s.bad = append(s.bad, fmt.Sprintf("prompt token %d after %d", i, len(s.prompt)))
	}
	s.prompt = append(s.prompt, see(c))
}

func (s *collect) Token(choice int, c sample.Choice) bool {
	s.mu.Lock()
	a := &s.answers[choice]
	if a.done {
		s.bad = append(s.bad, "a token after Finish")
	}
	a.tokens = append(a.tokens, see(c))
	s.mu.Unlock()
	return s.onToken == nil || s.onToken(choice, c)
}

func (s *collect) Finish(choice int, why Why, st Stats) {
	s.mu.Lock()
	a := &s.answers[choice]
	if a.done {
		s.bad = append(s.bad, "a second Finish")
	}
	a.why, a.st, a.done = why, st, true
	s.left--
	last := s.left == 0
	s.mu.Unlock()
	if s.onFinish != nil {
		s.onFinish()
	}
	if last {
		close(s.end)
	}
}

func (s *collect) wait(t testing.TB) {
	t.Helper()
	<-s.end
	if len(s.bad) > 0 {
		t.Fatal(s.bad)
	}
}

func ids(v ...int32) []int32 { return v }

func prompt(n int, seed int32) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = (seed + int32(i)*7) % 50
	}
	return out
}

func start(t testing.TB, r model.Runner, c Config) *Engine {
	e := New(r, c)
	t.Cleanup(e.Close)
	return e
}

func submit(t testing.TB, e *Engine, r *Request) *collect {
	t.Helper()
	s := newCollect(r.Choices)
	if err := e.Submit(context.Background(), r, s); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *collect) ids(choice int) []int32 {
	var out []int32
	for _, t := range s.answers[choice].tokens {
		out = append(out, t.id)
	}
	return out
}

func wantTokens(t *testing.T, s *collect, choice int, want []int32, why Why) {
	t.Helper()
	if got := s.ids(choice); fmt.Sprint(got) != fmt.Sprint(want) || s.answers[choice].why != why {
		t.Errorf("choice %d: %v, finish %d (%v); want %v, finish %d", choice, got, s.answers[choice].why, s.answers[choice].st.Err, want, why)
	}
}

// settled waits until the loop has published an idle state.
func settled(t testing.TB, e *Engine) Health {
	t.Helper()
	fixture.Eventually(t, "an engine at rest", func() bool {
		h := e.Health()
		return h.Running == 0 && h.Waiting == 0 && h.Age == 0
	})
	return e.Health()
}

func TestScriptedAnswer(t *testing.T) {
	m := scripted.New(scripted.Options{Vocab: 64, Answers: []scripted.Answer{
		{Prompt: ids(1, 2), Steps: scripted.Say(10, 11, 12, 2)},
		{Steps: []scripted.Step{{{ID: 7, P: 0.75}, {ID: 9, P: 0.25}}, {{ID: 2, P: 1}}}},
	}})
	e := start(t, m, Config{})
	a := submit(t, e, &Request{Prompt: ids(1, 2), MaxTokens: 9, Stop: ids(2)})
	b := submit(t, e, &Request{Prompt: ids(5, 6, 7), MaxTokens: 9, Stop: ids(2), Sampling: sample.Params{Logprobs: true, Top: 2}})
	a.wait(t)
	b.wait(t)
	wantTokens(t, a, 0, ids(10, 11, 12, 2), Stop)
	wantTokens(t, b, 0, ids(7, 2), Stop)
	if lp := b.answers[0].tokens[0].lp; lp < -0.2878 || lp > -0.2876 {
		t.Errorf("logprob of a token of probability 0.75 is %v", lp)
	}
	if st := a.answers[0].st; st.PromptTokens != 2 || st.Tokens != 4 || st.Loops != 4 || st.Turns != 16 || a.started != 1 {
		t.Errorf("stats %+v, started %d", st, a.started)
	}
}

func TestWaysToEnd(t *testing.T) {
	answers := []scripted.Answer{{Steps: scripted.Say(10, 11, 12, 13, 14, 15, 16, 17)}}
	run := func(r *Request, o scripted.Options) *collect {
		o.Answers = answers
		s := newCollect(r.Choices)
		s.onToken = func(_ int, c sample.Choice) bool { return c.ID != 15 }
		e := New(scripted.New(o), Config{})
		defer e.Close()
		if err := e.Submit(context.Background(), r, s); err != nil {
			t.Fatal(err)
		}
		s.wait(t)
		return s
	}
	p := ids(1, 2, 3)
	wantTokens(t, run(&Request{Prompt: p, MaxTokens: 2}, scripted.Options{}), 0, ids(10, 11), Length)
	wantTokens(t, run(&Request{Prompt: p, MaxTokens: 1}, scripted.Options{}), 0, ids(10), Length)
	wantTokens(t, run(&Request{Prompt: p}, scripted.Options{}), 0, nil, Length)
	wantTokens(t, run(&Request{Prompt: p, MaxTokens: 99}, scripted.Options{}), 0, ids(10, 11, 12, 13, 14, 15), StopSink)
	wantTokens(t, run(&Request{Prompt: p, MaxTokens: 99, Stop: ids(12)}, scripted.Options{}), 0, ids(10, 11, 12), Stop)
	wantTokens(t, run(&Request{Prompt: p, MaxTokens: 4, Stop: ids(12), IgnoreStop: true}, scripted.Options{}), 0, ids(10, 11, 12, 13), Length)
	wantTokens(t, run(&Request{Prompt: p, MaxTokens: 99}, scripted.Options{Context: 7}), 0, ids(10, 11, 12, 13), Window)
	wantTokens(t, run(&Request{Prompt: p, MaxTokens: 4}, scripted.Options{Context: 7}), 0, ids(10, 11, 12, 13), Length)
}

// TestMinTokens: a stop id cannot be sampled before MinTokens, and the reported distribution does not know of the ban.
func TestMinTokens(t *testing.T) {
	m := scripted.New(scripted.Options{Answers: []scripted.Answer{{Steps: []scripted.Step{{{ID: 2, P: 0.9}, {ID: 5, P: 0.1}}}}}})
	e := start(t, m, Config{})
	s := submit(t, e, &Request{Prompt: ids(1), MaxTokens: 9, Stop: ids(2), MinTokens: 3, Sampling: sample.Params{Logprobs: true, Top: 1}})
	s.wait(t)
	wantTokens(t, s, 0, ids(5, 5, 5, 2), Stop)
	if tok := s.answers[0].tokens[0]; tok.lp > -2.30 || tok.lp < -2.31 || !strings.HasPrefix(tok.top, "[{2 -0.105360") {
		t.Errorf("first token %+v", tok)
	}
}

func TestPromptLogprobs(t *testing.T) {
	for _, c := range []Config{{}, {StepRows: 3}, {ChunkRows: 2}} {
		e := start(t, scripted.New(scripted.Options{}), c)
		r := &Request{Prompt: prompt(40, 3), MaxTokens: 2, PromptLogprobs: true, Sampling: sample.Params{Logprobs: true, Top: 3}, Choices: 2}
		s := submit(t, e, r)
		s.wait(t)
		only := submit(t, e, &Request{Prompt: r.Prompt, PromptLogprobs: true, Sampling: r.Sampling})
		only.wait(t)
		if len(s.prompt) != 40 || s.prompt[0].lp != 0 || fmt.Sprint(s.prompt) != fmt.Sprint(only.prompt) {
			t.Fatalf("%d and %d prompt tokens", len(s.prompt), len(only.prompt))
		}
		for i, p := range s.prompt {
			if p.id != r.Prompt[i] {
				t.Fatalf("prompt token %d is %d", i, p.id)
			}
		}
		// The last prompt token's log-probability is what sampling after the shorter prompt reports for it.
		short := submit(t, e, &Request{Prompt: r.Prompt[:39], MaxTokens: 1, Sampling: sample.Params{Logprobs: true, Bias: []sample.Bias{{ID: r.Prompt[39], Value: 1000}}}})
		short.wait(t)
		if got := short.answers[0].tokens[0]; got.id != r.Prompt[39] || got.lp != s.prompt[39].lp {
			t.Errorf("sampled %+v, scored %+v", got, s.prompt[39])
		}
	}
}

func TestRefusals(t *testing.T) {
	e := start(t, scripted.New(scripted.Options{Context: 64, Pages: 40}), Config{})
	for _, c := range []struct {
		name, field string
		kind        fault.Kind
		r           Request
	}{
		{"empty", "prompt", fault.Invalid, Request{MaxTokens: 1}},
		{"negative id", "prompt", fault.Invalid, Request{Prompt: ids(-1), MaxTokens: 1}},
		{"id outside", "prompt", fault.Invalid, Request{Prompt: ids(64), MaxTokens: 1}},
		{"no room", "prompt", fault.TooLong, Request{Prompt: prompt(64, 0), MaxTokens: 1}},
		{"too long", "prompt", fault.TooLong, Request{Prompt: prompt(65, 0)}},
		{"pages", "max_tokens", fault.TooLong, Request{Prompt: prompt(40, 0), MaxTokens: 20, Loops: 8}},
		{"loops", "loops", fault.Invalid, Request{Prompt: ids(1), MaxTokens: 1, Loops: 9}},
		{"negative loops", "loops", fault.Invalid, Request{Prompt: ids(1), MaxTokens: 1, Loops: -1}},
		{"negative tokens", "max_tokens", fault.Invalid, Request{Prompt: ids(1), MaxTokens: -1}},
		{"n", "n", fault.Invalid, Request{Prompt: ids(1), MaxTokens: 1, Choices: 1 << 20}},
		{"window", "cache_window", fault.Invalid, Request{Prompt: ids(1), MaxTokens: 1, Window: -1}},
		{"mode", "mode", fault.Invalid, Request{Prompt: ids(1), MaxTokens: 1, Mode: 7}},
	} {
		err := e.Submit(context.Background(), &c.r, newCollect(1))
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != c.kind || f.Field != c.field {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := e.Submit(ctx, &Request{Prompt: ids(1), MaxTokens: 1}, newCollect(1)); fault.Of(err) != fault.Canceled {
		t.Errorf("an ended context: %v", err)
	}
	s := submit(t, e, &Request{Prompt: prompt(64, 0)}) // exactly the window, nothing to sample
	s.wait(t)
}

// TestQueueLimit: a full queue answers Busy at once and does not harm anyone (ollama 7758).
func TestQueueLimit(t *testing.T) { synctest.Test(t, queueLimit) }

func queueLimit(t *testing.T) {
	m := scripted.New(scripted.Options{})
	e := start(t, m, Config{QueueLimit: 1, MaxSeqs: 1})
	thaw := m.Freeze()
	defer thaw()
	busy, taken := 0, []*collect{}
	for range 6 {
		s := newCollect(1)
		switch err := e.Submit(context.Background(), &Request{Prompt: ids(1), MaxTokens: 3}, s); fault.Of(err) {
		case fault.Busy:
			busy++
		default:
			if err != nil {
				t.Fatal(err)
			}
			taken = append(taken, s)
		}
		synctest.Wait() // the first has left the queue
	}
	if busy != 4 {
		t.Errorf("%d of 6 were told that the queue is full", busy)
	}
	thaw()
	for _, s := range taken {
		s.wait(t)
	}
	settled(t, e)
	submit(t, e, &Request{Prompt: ids(1), MaxTokens: 3}).wait(t)
}

// TestPagesComeBackBeforeFinish: whoever has been told of the end of the last choice finds nothing held.
func TestPagesComeBackBeforeFinish(t *testing.T) {
	e := start(t, scripted.New(scripted.Options{}), Config{})
	for n := range 3 {
		s := newCollect(n)
		var last Health
		s.onFinish = func() { last = e.Health() }
		if err := e.Submit(context.Background(), &Request{Prompt: prompt(40, 1), MaxTokens: 1 + 20*n, Choices: n}, s); err != nil {
			t.Fatal(err)
		}
		s.wait(t)
		if last.PagesUsed != 0 || last.Running != 0 || last.Waiting != 0 {
			t.Errorf("%d choices: %+v at the end", n, last)
		}
	}
}

// TestCancel ends a request in the queue, in prefill and in decode; its neighbour's answer is the one it gives alone (ik_llama.cpp 1929,
// ollama 11889).
func TestCancel(t *testing.T) { synctest.Test(t, cancels) }

func cancels(t *testing.T) {
	neighbour := &Request{Prompt: prompt(20, 1), MaxTokens: 30, Sampling: sample.Params{Temperature: 1, Seed: 5}}
	m := scripted.New(scripted.Options{Context: 8192, Pages: 30000})
	solo := submit(t, start(t, m, Config{}), neighbour)
	solo.wait(t)
	for _, phase := range []string{"queue", "prefill", "decode"} {
		m := scripted.New(scripted.Options{Context: 8192, Pages: 30000, Core: 1})
		if phase != "prefill" {
			m = scripted.New(scripted.Options{Context: 8192, Pages: 30000})
		}
		e := start(t, m, Config{MaxSeqs: 2})
		ctx, cancel := context.WithCancel(context.Background())
		b := newCollect(1)
		r := &Request{Prompt: prompt(20, 9), MaxTokens: 4000}
		var before atomic.Int64
		switch phase {
		case "queue":
			m.SetDelay(100 * time.Microsecond)
			submit(t, e, &Request{Prompt: prompt(10, 4), MaxTokens: 60})
		case "prefill":
			r.Prompt = prompt(1500, 9)
			b.onStart = func() { before.Store(m.Calls()); cancel() }
		case "decode":
			m.SetDelay(time.Microsecond) // as long as the word that the context has ended is on its way
			b.onToken = func(_ int, c sample.Choice) bool {
				if len(b.answers[0].tokens) == 5 {
					before.Store(m.Calls())
					cancel()
				}
				return true
			}
		}
		a := submit(t, e, neighbour)
		if err := e.Submit(ctx, r, b); err != nil {
			t.Fatal(err)
		}
		if phase == "queue" {
			cancel()
		}
		b.wait(t)
		a.wait(t)
		cancel()
		if b.answers[0].why != Cancel {
			t.Errorf("%s: finish %d", phase, b.answers[0].why)
		}
		if n := len(b.answers[0].tokens); phase == "decode" && n > 6 {
			t.Errorf("decode: %d tokens after the context ended", n-5)
		}
		if phase != "prefill" && fmt.Sprint(a.ids(0)) != fmt.Sprint(solo.ids(0)) {
			t.Errorf("%s: the neighbour's answer changed", phase)
		}
		if h := settled(t, e); h.PagesUsed != 0 || h.Cancels != 1 {
			t.Errorf("%s: %+v", phase, h)
		}
	}
}

// TestCancelWithinOneStep counts: once the flag is up, the loop makes no further call of the model for the request.
func TestCancelWithinOneStep(t *testing.T) { synctest.Test(t, cancelWithinOneStep) }

func cancelWithinOneStep(t *testing.T) {
	m := scripted.New(scripted.Options{})
	e := start(t, m, Config{})
	thaw := m.Freeze()
	ctx, cancel := context.WithCancel(context.Background())
	s := newCollect(1)
	if err := e.Submit(ctx, &Request{Prompt: prompt(100, 1), MaxTokens: 100}, s); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // in the first call
	cancel()
	synctest.Wait()
	thaw()
	s.wait(t)
	if c := m.Calls(); c > 2 || s.answers[0].why != Cancel { // the Enter that was frozen and the Turn of the same step
		t.Errorf("%d calls, finish %d", c, s.answers[0].why)
	}
}

func TestDeadline(t *testing.T) {
	var now atomic.Int64
	m := scripted.New(scripted.Options{})
	e := start(t, m, Config{Now: func() time.Time { return time.Unix(1000, now.Load()) }})
	s := newCollect(2)
	s.onToken = func(choice int, c sample.Choice) bool {
		if len(s.answers[0].tokens) == 3 {
			now.Store(int64(time.Second))
		}
		return true
	}
	r := &Request{Prompt: prompt(10, 1), MaxTokens: 400, Choices: 2, Deadline: time.Unix(1000, int64(time.Second))}
	if err := e.Submit(context.Background(), r, s); err != nil {
		t.Fatal(err)
	}
	s.wait(t)
	for i := range s.answers {
		if a := s.answers[i]; a.why != Timeout || len(a.tokens) < 2 || len(a.tokens) > 3 {
			t.Errorf("choice %d: finish %d after %d tokens", i, a.why, len(a.tokens))
		}
	}
	late := submit(t, e, &Request{Prompt: prompt(10, 1), MaxTokens: 4, Deadline: time.Unix(1000, 0)})
	late.wait(t)
	wantTokens(t, late, 0, nil, Timeout)
	if h := settled(t, e); h.Timeouts != 2 {
		t.Errorf("%+v", h)
	}
}

// TestPanics: a sink that panics fails its own request; a model that panics fails those in flight; the engine serves on. A model that keeps
// panicking makes the engine unhealthy, and nobody hangs.
func TestPanics(t *testing.T) {
	m := scripted.New(scripted.Options{})
	e := start(t, m, Config{})
	r := &Request{Prompt: prompt(10, 1), MaxTokens: 12, Choices: 2}
	for _, where := range []string{"start", "token", "finish"} {
		bad, good := newCollect(2), newCollect(2)
		switch where {
		case "start":
			bad.onStart = func() { panic("sink") }
		case "token":
			bad.onToken = func(choice int, _ sample.Choice) bool {
				if choice == 1 && len(bad.answers[1].tokens) == 3 {
					panic("sink")
				}
				return true
			}
		case "finish":
			bad.onFinish = func() {
				if bad.left == 0 {
					close(bad.end)
					panic("sink")
				}
			}
		}
		for _, s := range []*collect{bad, good} {
			if err := e.Submit(context.Background(), r, s); err != nil {
				t.Fatal(err)
			}
		}
		good.wait(t)
		bad.wait(t)
		if good.answers[1].why != Length || where != "finish" && (bad.answers[0].why != Fail || fault.Of(bad.answers[0].st.Err) != fault.Internal) {
			t.Errorf("%s: finish %d and %d", where, good.answers[1].why, bad.answers[0].why)
		}
	}
	settled(t, e)
	for k := range int64(3) {
		m.PanicAt(m.Calls() + k)
		s := submit(t, e, r)
		s.wait(t)
		if s.answers[0].why != Fail {
			t.Errorf("panic in call %d: finish %d", k, s.answers[0].why)
		}
		m.PanicAt(-1)
		s = submit(t, e, r)
		s.wait(t)
		if s.answers[0].why != Length {
			t.Errorf("after a panic in call %d: finish %d", k, s.answers[0].why)
		}
	}
	if h := settled(t, e); h.PagesUsed != 0 || h.Err != nil {
		t.Errorf("%+v", h)
	}
	for range maxPanics {
		m.PanicAt(m.Calls())
		s := submit(t, e, r)
		s.wait(t)
	}
	if err := e.Submit(context.Background(), r, newCollect(2)); fault.Of(err) != fault.Unavailable || e.Health().Err == nil {
		t.Errorf("after %d panics: %v, health %v", maxPanics, err, e.Health().Err)
	}
}

// TestStall: while a call of the model does not return, Health answers and its age grows (llama.cpp 27388); Drain gives up in bounded time.
func TestStall(t *testing.T) { synctest.Test(t, stall) }

func stall(t *testing.T) {
	m := scripted.New(scripted.Options{})
	e := start(t, m, Config{})
	thaw := m.Freeze()
	s := submit(t, e, &Request{Prompt: ids(1, 2), MaxTokens: 3})
	synctest.Wait()
	time.Sleep(20 * time.Millisecond)
	if age := e.Health().Age; age != 20*time.Millisecond {
		t.Errorf("age %v", age)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := e.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("drain: %v", err)
	}
	thaw()
	s.wait(t)
	if s.answers[0].why != Fail || fault.Of(s.answers[0].st.Err) != fault.Unavailable {
		t.Errorf("finish %d %v", s.answers[0].why, s.answers[0].st.Err)
	}
}

func TestDrainAndClose(t *testing.T) { synctest.Test(t, drainAndClose) }

func drainAndClose(t *testing.T) {
	m := scripted.New(scripted.Options{})
	e := New(m, Config{})
	s := submit(t, e, &Request{Prompt: ids(1, 2), MaxTokens: 50})
	if err := e.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.wait(t)
	if s.answers[0].why != Length {
		t.Errorf("finish %d", s.answers[0].why)
	}
	if err := e.Submit(context.Background(), &Request{Prompt: ids(1), MaxTokens: 1}, newCollect(1)); fault.Of(err) != fault.Unavailable {
		t.Errorf("submit after drain: %v", err)
	}
	e.Close()
	e.Close()
	m.SetDelay(time.Millisecond)
	e = New(m, Config{})
	s = submit(t, e, &Request{Prompt: ids(1, 2), MaxTokens: 500})
	e.Close()
	s.wait(t)
	if s.answers[0].why != Fail {
		t.Errorf("finish %d after Close", s.answers[0].why)
	}
}

// TestForks: n choices share one prefill, each draws with its own numbers, greedy ones are equal (vllm 639), and the pages are copied only
// where they differ.
func TestForks(t *testing.T) {
	m := scripted.New(scripted.Options{Prelude: 1, Core: 1})
	e := start(t, m, Config{NoPrefixCache: true})
	r := &Request{Prompt: prompt(37, 1), MaxTokens: 20, Choices: 4, Loops: 2, Sampling: sample.Params{Temperature: 1, Seed: 3}}
	s := submit(t, e, r)
	s.wait(t)
	enter, _, _, copies := m.Rows()
	if want := int64(37 + 4*19); enter != want || copies != 3*3 {
		t.Errorf("%d rows entered, want %d; %d pages copied, want 9", enter, want, copies)
	}
	distinct := map[string]bool{}
	for i := range s.answers {
		distinct[fmt.Sprint(s.ids(i))] = true
	}
	if len(distinct) != 4 {
		t.Errorf("%d different answers", len(distinct))
	}
	greedy := submit(t, e, &Request{Prompt: r.Prompt, MaxTokens: 20, Choices: 2})
	greedy.wait(t)
	if fmt.Sprint(greedy.ids(0)) != fmt.Sprint(greedy.ids(1)) {
		t.Error("greedy choices differ")
	}
}

func TestPrefixCacheCounted(t *testing.T) {
	m := scripted.New(scripted.Options{})
	e := start(t, m, Config{})
	r := &Request{Prompt: prompt(60, 1), MaxTokens: 5}
	var got [3]string
	for i := range got {
		s := submit(t, e, r)
		s.wait(t)
		got[i] = fmt.Sprint(s.answers[0].tokens)
		if want := min(i, 1) * 48; s.answers[0].st.CachedTokens != want {
			t.Errorf("request %d found %d positions, want %d", i, s.answers[0].st.CachedTokens, want)
		}
	}
	if got[0] != got[1] || got[1] != got[2] {
		t.Error("the answer changes when the prefix comes from the cache (llama.cpp 4902)")
	}
	quiet := submit(t, e, &Request{Prompt: r.Prompt, MaxTokens: 5, NoCache: true})
	quiet.wait(t)
	if quiet.answers[0].st.CachedTokens != 0 || fmt.Sprint(quiet.answers[0].tokens) != got[0] {
		t.Error("NoCache")
	}
}

// TestZeroAllocations: in steady state a token costs no allocation, with penalties, top_p and several requests in the batch, through the scripted
// runner and through the real forward pass.
func TestZeroAllocations(t *testing.T) {
	// Few pages, so that the prefix index is full and recycles its nodes.
	t.Run("scripted", func(t *testing.T) {
		steady(t, scripted.New(scripted.Options{Context: 4096, Core: 1, Pages: 60}))
	})
	t.Run("model", func(t *testing.T) {
		spec := tinySpec()
		spec.Context = 4096
		m := randomModel(t, spec, kernel.Q8_0)
		s, err := m.NewScratch(model.Options{Threads: 1, Pages: 30 * spec.Slots(2), MaxRows: 64})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		steady(t, s)
	})
}

func steady(t *testing.T, m model.Runner) {
	const perRun = 20
	r := &Request{Prompt: prompt(8, 1), MaxTokens: 4000, Loops: 2, Window: 32, Sampling: sample.Params{Temperature: 1, TopP: 0.9, TopK: 20,
		Repeat: 1.1, Frequency: 0.1, Seed: 1, Logprobs: true, Top: 5}}
	e := quietEngine(m, Config{})
	sinks := make([]*counting, 3)
	for i := range sinks {
		sinks[i] = &counting{}
		j, err := e.newJob(r, sinks[i])
		if err != nil {
			t.Fatal(err)
		}
		e.jobs = append(e.jobs, j)
		e.sch.Add(&j.choices[0].seq)
	}
	tick := func() {
		for range perRun * 2 {
			e.now = e.cfg.Now()
			e.receive()
			e.step() // without audit, which counts everything anew
		}
	}
	for range 60 {
		tick()
	}
	before := sinks[0].tokens
	allocs := testing.AllocsPerRun(20, tick)
	if got := sinks[0].tokens - before; got < 20*perRun {
		t.Fatalf("%d tokens in 20 runs", got)
	}
	if allocs != 0 {
		t.Errorf("%v allocations per %d tokens", allocs, 3*perRun)
	}
}

// quietEngine is an engine whose loop the test turns itself.
func quietEngine(r model.Runner, c Config) *Engine {
	l := r.Limits()
	return build(r, c.withDefaults(l), l)
}

type counting struct{ tokens int }

func (c *counting) Started()                       {}
func (c *counting) PromptToken(int, sample.Choice) {}
func (c *counting) Token(int, sample.Choice) bool  { c.tokens++; return true }
func (c *counting) Finish(int, Why, Stats)         {}

// TestHoldsNothing: after the last Finish the engine has no reference to the request, however it ended.
func TestHoldsNothing(t *testing.T) {
	e := start(t, scripted.New(scripted.Options{}), Config{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var refs []weak.Pointer[Request]
	for i := range 6 {
		r := &Request{Prompt: prompt(20+i, 1), MaxTokens: 5 + 400*(i%2), Choices: 1 + i%3}
		s := newCollect(r.Choices)
		refs = append(refs, weak.Make(r))
		if i%2 == 1 {
			own, stop := context.WithCancel(ctx)
			s.onToken = func(int, sample.Choice) bool { stop(); return true }
			if err := e.Submit(own, r, s); err != nil {
				t.Fatal(err)
			}
		} else if err := e.Submit(ctx, r, s); err != nil {
			t.Fatal(err)
		}
		s.wait(t)
	}
	settled(t, e)
	for range 3 {
		runtime.GC()
	}
	for i, ref := range refs {
		if ref.Value() != nil {
			t.Errorf("request %d is still referenced", i)
		}
	}
}

// TestManySequential: nothing is left behind by a thousand short requests (ollama 2339); TestMain looks for goroutines.
func TestManySequential(t *testing.T) {
	e := start(t, scripted.New(scripted.Options{}), Config{})
	n := 1000
	if testing.Short() {
		n = 100
	}
	for i := range n {
		ctx, cancel := context.WithCancel(context.Background())
		s := newCollect(1)
		if err := e.Submit(ctx, &Request{Prompt: prompt(3, int32(i%7)), MaxTokens: 4}, s); err != nil {
			t.Fatal(err)
		}
		s.wait(t)
		cancel()
	}
	if h := settled(t, e); h.PagesUsed != 0 || h.Tokens != int64(4*n) || h.Requests != int64(n) {
		t.Errorf("%+v", h)
	}
}

// TestManyStreams: 64 concurrent requests with random disconnects; every survivor's answer is the one it gives alone.
func TestManyStreams(t *testing.T) {
	m := scripted.New(scripted.Options{Pages: 1200})
	e := start(t, m, Config{MaxSeqs: 24, StepRows: 32})
	solo := start(t, scripted.New(scripted.Options{}), Config{NoPrefixCache: true})
	n := 64
	if testing.Short() {
		n = 32
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			r := &Request{Prompt: prompt(1+rng.IntN(60), int32(i%5)), MaxTokens: 1 + rng.IntN(30), Loops: 1 + rng.IntN(6), Choices: 1 + rng.IntN(2),
				Sampling: sample.Params{Temperature: 0.8, Seed: uint64(i), Logprobs: true}}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			s := newCollect(r.Choices)
			if rng.IntN(3) == 0 {
				at := rng.IntN(20)
				s.onToken = func(int, sample.Choice) bool {
					if at--; at <= 0 {
						cancel()
					}
					return true
				}
			}
			if err := e.Submit(ctx, r, s); err != nil {
				t.Error(err)
				return
			}
			s.wait(t)
			alone := newCollect(r.Choices)
			if err := solo.Submit(context.Background(), r, alone); err != nil {
				t.Error(err)
				return
			}
			alone.wait(t)
			for k := range s.answers {
				got, want := s.answers[k].tokens, alone.answers[k].tokens
				if s.answers[k].why == Cancel {
					want = want[:min(len(want), len(got))]
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("request %d choice %d: finish %d (%v), %v, alone %v", i, k, s.answers[k].why, s.answers[k].st.Err, got, want)
				}
			}
		}()
	}
	wg.Wait()
	if h := settled(t, e); h.PagesUsed != 0 {
		t.Errorf("%+v", h)
	}
	if v := m.Violations(); len(v) > 0 {
		t.Error(v)
	}
}
