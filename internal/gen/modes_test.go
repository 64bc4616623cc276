package gen

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"

	"tinyloop/internal/chat"
	"tinyloop/internal/engine"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/scripted"
	"tinyloop/internal/tok"
)

// TestModeEquality: a request gives the same text, ids, log-probabilities, reason and depths in every mode as decoded plainly and alone: alone, and in a
// batch with others each in a mode of its own. Some 60 requests; TINYLOOP_TEST_TIMES=10 makes it 600.
func TestModeEquality(t *testing.T) {
	times, _ := strconv.Atoi(os.Getenv("TINYLOOP_TEST_TIMES"))
	rng := rand.New(rand.NewPCG(17, uint64(times)))
	sum := &equality{}
	tk := vocab(t)
	for k, o := range []scripted.Options{{Prelude: 1, Core: 2}, {Core: 2}, {Prelude: 1, Core: 1, Coda: 1}} {
		o.Agree = 0.85
		g, m := live(t, tk, o)
		for range 4 * max(1, times) {
			sum.group(t, g, rng, fmt.Sprintf("scripted %d", k), true)
		}
		if v := m.Violations(); len(v) > 0 {
			t.Fatal(v)
		}
	}
	for k, coda := range []int{0, 1} {
		g := tiny(t, tk, coda)
		for range 2 * max(1, times) {
			sum.group(t, g, rng, fmt.Sprintf("model %d", k), false)
		}
	}
	t.Logf("%d requests, %d answers compared: %d guesses, %d right; %d tokens left early; %d ended by a stop string, %d by a stop token, %d by length", sum.requests, sum.compared, sum.drafted,
		sum.accepted, sum.early, sum.words, sum.stops, sum.lengths)
	if sum.accepted == 0 || sum.accepted == sum.drafted || sum.early == 0 || sum.words == 0 || sum.stops == 0 || sum.lengths == 0 {
		t.Error("some circumstance never came up")
	}
}

// equality counts what the test has met.
type equality struct {
	mu                           sync.Mutex
	requests, compared           int
	drafted, accepted            int
	early, words, stops, lengths int
}

// tiny is a generator over a real forward pass of random weights.
func tiny(t *testing.T, tk *tok.Tokenizer, coda int) *Generator {
	t.Helper()
	spec := model.Spec{Family: "test", Vocab: tk.Size(), Dim: 32, Context: 256, Prelude: 1, Core: 1, Coda: coda,
		Block:     model.Block{Eps: 1e-5, Heads: 4, KVHeads: 2, HeadDim: 8, QKNorm: true, RopeTheta: 10000, Hidden: 64},
		Injection: model.InjectAdd, StateInit: model.StateInput, LoopNorm: model.LoopNormBetween, TiedHead: true,
		Loops: model.Loops{Default: 6, TrainedMin: 1, TrainedMean: 6, TrainedMax: 8, HardMax: 8}}
	rng := rand.New(rand.NewPCG(1, 2))
	w := &model.Weights{}
	for _, slot := range w.Slots(&spec) {
		vals := make([]float32, slot.Count())
		for i := range vals {
			vals[i] = float32(rng.NormFloat64() / math.Sqrt(float64(max(slot.K, 8))))
		}
		if slot.Matrix == nil {
			*slot.Vector = vals
			continue
		}
		data := make([]byte, 4*len(vals))
		kernel.Quantize(data, kernel.F32, vals)
		m, err := kernel.NewMatrix(kernel.F32, slot.N, slot.K, data)
		if err != nil {
			t.Fatal(err)
		}
		*slot.Matrix = m
	}
	m, err := model.New(spec, w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	s, err := m.NewScratch(model.Options{Threads: 1, Pages: 4000, MaxRows: 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	e := engine.New(s, engine.Config{})
	t.Cleanup(e.Close)
	info := Info{Name: "tiny", Vocab: spec.Vocab, Context: spec.Context, KVBytesPerToken: spec.KVBytesPerToken(spec.Loops.Default, kernel.F32)}
	l := spec.Loops
	info.Loops.Default, info.Loops.TrainedMin, info.Loops.TrainedMean, info.Loops.TrainedMax, info.Loops.HardMax = l.Default, l.TrainedMin, l.TrainedMean, l.TrainedMax, l.HardMax
	return New(e, tk, chat.ChatML(), info, Limits{})
}

// group is four random requests: each plainly and alone, then in every mode alone, then all together with the modes going round.
func (s *equality) group(t *testing.T, g *Generator, rng *rand.Rand, name string, wide bool) {
	t.Helper()
	var reqs [4]*Request
	var want [4][]Answer
	for i := range reqs {
		reqs[i] = modeRequest(rng, wide)
		want[i] = s.run(t, g, reqs[i], "autoregressive")
		s.requests++
		for _, a := range want[i] {
			s.end(&a)
		}
		for _, m := range modes[1:] {
			s.compare(t, name+" alone", m, reqs[i], want[i], s.run(t, g, reqs[i], m))
		}
	}
	for turn := range modes {
		var wg sync.WaitGroup
		for i := range reqs {
			m := modes[(i+turn)%len(modes)]
			wg.Go(func() { s.compare(t, name+" among others", m, reqs[i], want[i], s.run(t, g, reqs[i], m)) })
		}
		wg.Wait()
	}
	if t.Failed() {
		t.FailNow()
	}
}

func (s *equality) end(a *Answer) {
	switch {
	case a.Stats.StopString != "":
		s.words++
	case a.Finish == FinishStop:
		s.stops++
	case a.Finish == FinishLength:
		s.lengths++
	}
	if h := a.Stats.Histogram; h != nil {
		for _, n := range h[:len(h)-1] {
			s.early += int(n)
		}
	}
}

func (s *equality) run(t *testing.T, g *Generator, r *Request, mode string) []Answer {
	q := *r
	if q.Mode = mode; mode == "autoregressive" {
		q.DraftLoops, q.DraftAhead, q.Branches = nil, nil, nil
	}
	st, err := g.Generate(t.Context(), &q)
	if err != nil {
		t.Errorf("%s: %v", mode, err)
		return nil
	}
	defer st.Close()
	as, err := Fold(t.Context(), st)
	if err != nil {
		t.Errorf("%s: %v", mode, err)
	}
	return as
}

func (s *equality) compare(t *testing.T, where, mode string, r *Request, want, got []Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range want {
		if i >= len(got) {
			return // said already
		}
		a, b := &want[i], &got[i]
		s.compared++
		s.drafted, s.accepted = s.drafted+b.Stats.Draft.Judged, s.accepted+b.Stats.Draft.Accepted
		if a.Text != b.Text || !slices.Equal(a.IDs, b.IDs) || a.Finish != b.Finish || a.Stats.StopString != b.Stats.StopString || fmt.Sprint(a.Logprobs, a.PromptLogprobs) != fmt.Sprint(b.Logprobs, b.PromptLogprobs) {
			t.Errorf("%s, %s, choice %d: %q %v %v, plain %q %v %v\n%+v", where, mode, i, b.Text, b.IDs, b.Finish, a.Text, a.IDs, a.Finish, *r)
		}
		if !slices.Equal(a.Stats.Histogram, b.Stats.Histogram) {
			t.Errorf("%s, %s, choice %d: passes %v, plain %v\n%+v", where, mode, i, b.Stats.Histogram, a.Stats.Histogram, *r)
		}
	}
}

// modeRequest draws a request with everything that bears on tokens. Where the model gives every token about the same probability (wide), bias makes some
// bytes likely, so that stop strings come up.
func modeRequest(rng *rand.Rand, wide bool) *Request {
	some := func(n int) bool { return rng.IntN(n) == 0 }
	text := make([]byte, 1+rng.IntN(40))
	for i := range text {
		text[i] = "abcdefgh \n\xc3\xa9"[rng.IntN(12)]
	}
	r := &Request{PromptIDs: nil, Seed: ptr(rng.Uint64()), MaxTokens: ptr(1 + rng.IntN(24)), Loops: ptr(2 + rng.IntN(7)), Temperature: ptr([]float64{0, 0, 0.4, 0.8, 1.2}[rng.IntN(5)]),
		Logprobs: some(2), N: 1 + max(0, rng.IntN(4)-2), NoCache: some(5), IgnoreEOS: some(3), MinTokens: 0}
	for _, c := range text {
		r.PromptIDs = append(r.PromptIDs, byte0+tok.ID(c))
	}
	if r.Logprobs {
		r.TopLogprobs, r.Echo = rng.IntN(4), some(3)
	}
	if some(3) {
		r.MinTokens = rng.IntN(*r.MaxTokens + 1)
	}
	if some(3) {
		r.TopK, r.TopP, r.MinP = ptr(rng.IntN(30)), ptr(0.3+0.7*rng.Float64()), ptr(rng.Float64()*0.2)
	}
	if some(3) {
		r.Repeat, r.RepeatLast, r.Presence, r.Frequency = ptr(1+rng.Float64()), ptr(rng.IntN(20)-1), ptr(rng.Float64()), ptr(rng.Float64()*2-1)
	}
	if some(2) || wide {
		r.LogitBias = map[tok.ID]float64{byte0 + 'a': 3, byte0 + 'b': 3, byte0 + 'c': -100, turnEnd: float64(rng.IntN(6))}
	}
	for range rng.IntN(4) {
		r.Stop = append(r.Stop, string([]byte{"ab"[rng.IntN(2)], "abde"[rng.IntN(4)]}[:1+rng.IntN(2)]))
	}
	if some(4) {
		r.CacheWindow, r.CacheSinks = ptr(16+rng.IntN(20)), ptr(rng.IntN(5))
	}
	if some(2) {
		x := &Exit{Rule: rules[1+rng.IntN(len(rules)-1)], Threshold: ptr(0.05 + rng.Float64()), MinLoops: ptr(1 + rng.IntN(2)), KV: []string{"complete", "deepest"}[rng.IntN(2)]}
		switch x.Rule {
		case "gate":
			if !wide {
				x.Rule = "accel"
			}
		case "argmax":
			x.Threshold = ptr(float64(1 + rng.IntN(2)))
		}
		r.Exit = x
	}
	r.DraftLoops, r.DraftAhead, r.Branches = ptr(1+rng.IntN(*r.Loops-1)), ptr(1+rng.IntN(7)), ptr(1+rng.IntN(4))
	return r
}

// TestKVBytes: a reply tells the memory that its keys and values took: whole pages of 16 positions, for every loop that keeps its own.
func TestKVBytes(t *testing.T) {
	g := tiny(t, vocab(t), 1) // prelude 1, core 1, coda 1; 2 heads of 8 values, keys and values, 4 bytes each
	const page = 16 * 2 * 8 * 2 * 4
	prompt := make([]tok.ID, 40)
	for i := range prompt {
		prompt[i] = byte0 + 'a' + tok.ID(i%3)
	}
	for _, c := range []struct {
		kv     string
		loops  int
		window *int
		tokens int // sampled; all but the last have keys and values
		pages  int
	}{
		{"per_loop", 6, nil, 20, 4 * 8}, {"per_loop", 2, nil, 20, 4 * 4}, {"", 6, nil, 1, 3 * 8},
		{"last", 6, nil, 20, 3 * 8}, {"last", 6, nil, 150, 12*3 + 0}, {"mod:2", 6, nil, 150, 12 * 4}, {"mean", 6, nil, 150, 12*3 + 5}, {"mod:6", 6, nil, 20, 4 * 8},
		{"per_loop", 6, ptr(16), 150, 3 * 8},
	} {
		s, err := g.Generate(t.Context(), &Request{PromptIDs: prompt, MaxTokens: &c.tokens, Loops: &c.loops, KVMode: c.kv, CacheWindow: c.window, CacheSinks: ptr(4), IgnoreEOS: true, NoCache: true, Temperature: ptr(0.0)})
		if err != nil {
			t.Fatal(err)
		}
		as, err := Fold(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if got := as[0].Stats.KVBytes; got != int64(c.pages)*page {
			t.Errorf("%+v: %d bytes are %v pages", c, got, float64(got)/page)
		}
	}
}
