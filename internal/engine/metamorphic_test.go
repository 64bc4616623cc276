package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"tinyloop/internal/arch"
	"tinyloop/internal/fixture"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/sample"
	"tinyloop/internal/scripted"
	"tinyloop/internal/tensorfile"
)

// The metamorphic test of the engine: a random set of requests gives the same tokens, log-probabilities and finish reasons alone, in a crowd, with
// tiny step budgets, with its prefixes in the cache, under page pressure with preemption, and next to requests that are cancelled.

const longest = 72 // positions of the longest random request

// world is the runners of a test. roomy never lacks pages, tight has just enough for the longest request alone, wide computes with more threads
// than the others.
type world struct {
	solo, roomy, tight, wide model.Runner
}

// tally counts what the sets have exercised, so that a test that no longer tests anything fails.
type tally struct {
	sets                                           int
	preempted, cached, cancels, forks, turns, rows int64
	drafted, accepted, trees, exits                int64
}

func randomRequest(rng *rand.Rand, l model.Limits) *Request {
	prefix := rng.Int32N(3) // prompts share their beginnings
	p := prompt(1+rng.IntN(40), prefix)
	for i := rng.IntN(len(p) + 1); i < len(p); i++ {
		p[i] = rng.Int32N(int32(min(l.Vocab, 40)))
	}
	r := &Request{
		Prompt: p, MaxTokens: 1 + rng.IntN(min(9, longest-len(p))), Choices: 1 + max(0, rng.IntN(6)-2), Loops: 1 + rng.IntN(4),
		PromptLogprobs: rng.IntN(6) == 0, NoCache: rng.IntN(8) == 0, IgnoreStop: rng.IntN(4) == 0, MinTokens: rng.IntN(4),
		Sampling: sample.Params{Temperature: []float32{0, 0.5, 1, 1.5}[rng.IntN(4)], Seed: rng.Uint64(), Logprobs: rng.IntN(2) == 0},
	}
	if rng.IntN(12) == 0 {
		r.MaxTokens = 0
	}
	if rng.IntN(3) == 0 {
		r.Window, r.Sinks = 16+rng.IntN(30), rng.IntN(6)
	}
	if r.Mode = Mode(rng.IntN(int(Auto) + 1)); r.Mode != Autoregressive {
		r.DraftAhead, r.Branches, r.DraftLoops = min(rng.IntN(2*MaxAhead), rng.IntN(MaxAhead+1)), min(rng.IntN(2*MaxBranches), rng.IntN(MaxBranches+1)), rng.IntN(r.Loops)
	}
	if rng.IntN(2) == 0 || r.Mode == Autoregressive {
		r.Exit = randomExit(rng, r.Loops)
	}
	if r.Exit.Rule == NoExit && r.Mode == Autoregressive {
		r.KV, r.Residues = KV(rng.IntN(int(KVMod)+1)), 1+rng.IntN(3)
	}
	for range rng.IntN(3) {
		r.Stop = append(r.Stop, rng.Int32N(int32(l.Vocab)))
	}
	s := &r.Sampling
	if s.Logprobs {
		s.Top = rng.IntN(4)
	}
	if rng.IntN(3) == 0 {
		s.TopK, s.TopP, s.MinP = rng.IntN(20), rng.Float32(), rng.Float32()*0.1
	}
	if rng.IntN(3) == 0 {
		s.Repeat, s.RepeatLast, s.Presence, s.Frequency = 1+rng.Float32(), rng.IntN(20)-1, rng.Float32(), rng.Float32()
	}
	if rng.IntN(4) == 0 {
		for range max(1, r.Choices) {
			r.Constraints = append(r.Constraints, thirds{l.Vocab})
		}
	}
	if rng.IntN(4) == 0 {
		s.Bias = []sample.Bias{{ID: rng.Int32N(int32(l.Vocab)), Value: 4}, {ID: rng.Int32N(int32(l.Vocab)), Value: -100}}
	}
	return r
}

// thirds is a constraint that depends on all of the output: a third of the ids may follow.
type thirds struct{ vocab int }

func (c thirds) Mask(output []int32) []uint64 {
	sum := uint64(len(output))
	for _, id := range output {
		sum = sum*31 + uint64(id)
	}
	mask := make([]uint64, (c.vocab+63)/64)
	for id := int(sum % 3); id < c.vocab; id += 3 {
		mask[id/64] |= 1 << (id % 64)
	}
	return mask
}

// breach gives the place of the first token that a constraint forbids, -1 when there is none.
func breach(r *Request, choice int, tokens []token) int {
	if r.Constraints == nil {
		return -1
	}
	var ids []int32
	for _, t := range tokens {
		ids = append(ids, t.id)
	}
	for i, id := range ids {
		if r.Constraints[choice].Mask(ids[:i])[id/64]>>(id%64)&1 == 0 {
			return i
		}
	}
	return -1
}

// randomExit is an early exit that some positions take and others do not.
func randomExit(rng *rand.Rand, loops int) Exit {
	x := Exit{Rule: Rule(rng.IntN(int(ExitArgmax) + 1)), Threshold: rng.Float32(), MinLoops: rng.IntN(loops + 1), Deepest: rng.IntN(2) == 0}
	if x.Rule == ExitArgmax {
		x.Threshold = float32(1 + rng.IntN(2))
	}
	if x.Rule == ExitGate {
		x.Rule = ExitLatent // the public models have none
	}
	return x
}

// crowd runs the requests together. Those in leave are cancelled after so many tokens. It gives what each sink saw.
func crowd(t *testing.T, e *Engine, rng *rand.Rand, reqs []*Request, leave map[int]int) []*collect {
	t.Helper()
	sinks := make([]*collect, len(reqs))
	for i, r := range reqs {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		s := newCollect(r.Choices)
		if after, ok := leave[i]; ok {
			s.onToken = func(int, sample.Choice) bool {
				if after--; after == 0 {
					cancel()
				}
				return true
			}
		}
		sinks[i] = s
		if err := e.Submit(ctx, r, s); err != nil {
			t.Fatal(err, e.Health().Err)
		}
		if after, ok := leave[i]; ok && after == 0 {
			time.AfterFunc(time.Duration(rng.IntN(300))*time.Microsecond, cancel)
		}
		if rng.IntN(3) == 0 {
			time.Sleep(time.Duration(rng.IntN(200)) * time.Microsecond)
		}
	}
	for _, s := range sinks {
		s.wait(t)
	}
	return sinks
}

func same(t *testing.T, what string, r *Request, want, got *collect, mayLeave bool) {
	t.Helper()
	wantPrompt := want.prompt
	left := false
	for i := range want.answers {
		a, b := want.answers[i], got.answers[i]
		tokens := a.tokens
		if at := breach(r, i, tokens); at >= 0 {
			t.Errorf("%s: choice %d: token %d of %v is forbidden", what, i, at, tokens)
		}
		if mayLeave && b.why == Cancel {
			left = true
			tokens = tokens[:min(len(tokens), len(b.tokens))]
		} else if a.why != b.why {
			t.Errorf("%s: choice %d: finish %d (%v), alone %d", what, i, b.why, b.st.Err, a.why)
		}
		if fmt.Sprint(tokens) != fmt.Sprint(b.tokens) {
			t.Errorf("%s: choice %d:\n  %v\nalone\n  %v\nrequest %+v", what, i, b.tokens, tokens, *r)
		} else if !left && fmt.Sprint(a.st.Histogram) != fmt.Sprint(b.st.Histogram) {
			t.Errorf("%s: choice %d: passes %v, alone %v\nrequest %+v", what, i, b.st.Histogram, a.st.Histogram, *r)
		}
	}
	if left {
		wantPrompt = wantPrompt[:min(len(wantPrompt), len(got.prompt))]
	}
	if fmt.Sprint(wantPrompt) != fmt.Sprint(got.prompt) {
		t.Errorf("%s: prompt logprobs %v, alone %v", what, got.prompt, wantPrompt)
	}
}

// runSet is one random set through all circumstances.
func runSet(t *testing.T, rng *rand.Rand, w *world, sum *tally) {
	t.Helper()
	l := w.solo.Limits()
	reqs := make([]*Request, 1+rng.IntN(4))
	for i := range reqs {
		reqs[i] = randomRequest(rng, l)
	}
	alone := make([]*collect, len(reqs))
	e := New(w.solo, Config{NoPrefixCache: true})
	for i, r := range reqs {
		plain := *r
		plain.Mode, plain.DraftLoops = Autoregressive, 0
		alone[i] = crowd(t, e, rng, []*Request{&plain}, nil)[0]
		sum.forks += int64(max(1, r.Choices) - 1)
	}
	e.Close()
	leave := map[int]int{}
	for i := range reqs {
		if rng.IntN(3) == 0 {
			leave[i] = rng.IntN(8)
		}
	}
	for _, c := range []struct {
		name  string
		r     model.Runner
		c     Config
		leave map[int]int
		twice bool
	}{
		{"crowd on more threads", w.wide, Config{NoPrefixCache: rng.IntN(2) == 0, StepRows: 4 + rng.IntN(60)}, leave, false},
		{"tiny steps", w.roomy, Config{StepRows: 1 + rng.IntN(4), ChunkRows: rng.IntN(3), MaxSeqs: 1 + rng.IntN(4), NoPrefixCache: rng.IntN(2) == 0}, nil, false},
		{"cached prefixes", w.roomy, Config{StepRows: 8 + rng.IntN(30)}, nil, true},
		{"page pressure", w.tight, Config{StepRows: 1 + rng.IntN(40), NoPrefixCache: rng.IntN(3) == 0}, nil, rng.IntN(3) == 0},
		{"neighbours leave", w.roomy, Config{MaxSeqs: 1 + rng.IntN(6)}, leave, false},
	} {
		e := New(c.r, c.c)
		for round := range 2 {
			if round == 1 && !c.twice {
				break
			}
			for i, got := range crowd(t, e, rng, reqs, c.leave) {
				for _, a := range got.answers {
					sum.drafted, sum.accepted = sum.drafted+int64(a.st.Drafted), sum.accepted+int64(a.st.Accepted)
					for n, times := range a.st.Histogram {
						if n < a.st.Loops {
							sum.exits += int64(times)
						}
					}
					if a.st.Mode == TreeSpeculative {
						sum.trees += int64(a.st.Rounds)
					}
				}
				same(t, fmt.Sprintf("set %d, %s, round %d, request %d", sum.sets, c.name, round, i), reqs[i], alone[i], got, c.leave != nil)
			}
		}
		h := settled(t, e)
		e.Close()
		if h.PagesUsed != 0 || h.Err != nil || h.Fails != 0 {
			t.Errorf("set %d, %s: %+v", sum.sets, c.name, h)
		}
		sum.preempted += h.Preempted
		sum.cached += h.Cached
		sum.cancels += h.Cancels
		sum.turns += h.Turns
		sum.rows += h.Rows
	}
	sum.sets++
}

func (s *tally) check(t *testing.T) {
	t.Logf("%d sets: %d forks, %d preemptions, %d cached positions, %d cancels, %.1f rows a turn; %d guesses, %d right, %d trees; %d early exits", s.sets, s.forks, s.preempted, s.cached,
		s.cancels, float64(s.rows)/float64(max(1, s.turns)), s.drafted, s.accepted, s.trees, s.exits)
	if testing.Short() {
		return // too few sets to meet everything
	}
	if s.forks == 0 || s.preempted == 0 || s.cached == 0 || s.cancels == 0 || s.accepted == 0 || s.accepted == s.drafted || s.trees == 0 || s.exits == 0 {
		t.Error("some circumstance never came up")
	}
}

// sets is how many of n sets run: few with -short, and so many times as many as TINYLOOP_TEST_TIMES says.
func sets(n int) int {
	if testing.Short() {
		return n / 20
	}
	return n * times()
}

func times() int {
	n, _ := strconv.Atoi(os.Getenv("TINYLOOP_TEST_TIMES"))
	return max(1, n)
}

func TestMetamorphicScripted(t *testing.T) {
	sum := &tally{}
	rng := rand.New(rand.NewPCG(7, 11+uint64(times())))
	shapes := []scripted.Options{{Prelude: 1, Core: 2}, {Core: 3}, {Prelude: 1, Core: 1, Coda: 1}, {Core: 2, Coda: 2}}
	for i := range sets(240) {
		o := shapes[i%len(shapes)]
		o.Vocab, o.Context, o.Agree = 50, 96, 0.8
		slots := o.Prelude + 4*o.Core + o.Coda
		tight := o
		o.Pages, tight.Pages = 100*slots, 5*slots+rng.IntN(2*slots)
		w := &world{solo: scripted.New(o), roomy: scripted.New(o), tight: scripted.New(tight)}
		w.wide = w.roomy
		runSet(t, rng, w, sum)
		for _, r := range []model.Runner{w.solo, w.roomy, w.tight} {
			if v := r.(*scripted.Model).Violations(); len(v) > 0 {
				t.Fatalf("set %d: %v", i, v)
			}
		}
		if t.Failed() {
			break
		}
	}
	sum.check(t)
}

// TestMetamorphicModel is the same through the real forward pass, with one thread and, in the first circumstance of every set, with two.
func TestMetamorphicModel(t *testing.T) {
	sum := &tally{}
	rng := rand.New(rand.NewPCG(3, 5))
	realSets(t, rng, sum, open(t, fixture.Path(t, "stories260K", "looped-nanbeige-3x.gguf")), kernel.F32, 30)
	realSets(t, rng, sum, open(t, fixture.Path(t, "stories260K", "looped-nanbeige-3x-skipnorm.gguf")), kernel.F16, 20)
	realSets(t, rng, sum, open(t, fixture.Path(t, "stories260K", "looped-nanbeige-3x-skipnorm.gguf")), kernel.Q8_0, 15)
	sum.check(t)
}

// TestMetamorphicCoda covers what no small public model has: prelude, coda, injection, a window of the model's own, quantised weights.
func TestMetamorphicCoda(t *testing.T) {
	sum := &tally{}
	rng := rand.New(rand.NewPCG(9, 2))
	full := tinySpec()
	windowed := full
	windowed.Prelude, windowed.Core, windowed.Coda, windowed.Injection, windowed.StateInit = 0, 1, 2, model.InjectAdd, model.StateInput
	windowed.Block.Window, windowed.Block.NormPlace = 24, model.ResidualSandwich
	realSets(t, rng, sum, randomModel(t, full, kernel.Q8_0), kernel.F32, 30)
	realSets(t, rng, sum, randomModel(t, windowed, kernel.F32), kernel.F16, 20)
	realSets(t, rng, sum, randomModel(t, windowed, kernel.F32), kernel.Q8_0, 15)
	sum.check(t)
}

// tinySpec is a small looped model with prelude, coda and injection.
func tinySpec() model.Spec {
	return model.Spec{Family: "test", Vocab: 50, Dim: 32, Context: 96, Prelude: 1, Core: 2, Coda: 1,
		Block:     model.Block{Eps: 1e-5, Heads: 4, KVHeads: 2, HeadDim: 8, QKNorm: true, RopeTheta: 10000, Hidden: 64},
		Injection: model.InjectConcat, StateInit: model.StateZero, LoopNorm: model.LoopNormBetween, TiedHead: true,
		Loops: model.Loops{Default: 2, TrainedMin: 1, TrainedMean: 2, TrainedMax: 4, HardMax: 4}}
}

func realSets(t *testing.T, rng *rand.Rand, sum *tally, m *model.Model, kv kernel.Type, n int) {
	t.Helper()
	slots := m.Spec.Slots(4)
	w := &world{solo: scratch(t, m, 1, 100*slots, kv), roomy: scratch(t, m, 1, 100*slots, kv),
		tight: scratch(t, m, 1, 5*slots+slots/2, kv), wide: scratch(t, m, 2, 100*slots, kv)}
	for range sets(n) {
		if runSet(t, rng, w, sum); t.Failed() {
			return
		}
	}
}

// randomModel fills every tensor that a Spec calls for.
func randomModel(t *testing.T, spec model.Spec, typ kernel.Type) *model.Model {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
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
		data := make([]byte, len(vals)/typ.Block()*typ.BlockBytes())
		kernel.Quantize(data, typ, vals)
		m, err := kernel.NewMatrix(typ, slot.N, slot.K, data)
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
	return m
}

func open(t *testing.T, path string) *model.Model {
	t.Helper()
	f, err := tensorfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	m, err := arch.Load(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func scratch(t *testing.T, m *model.Model, threads, pages int, kv kernel.Type) *model.Scratch {
	t.Helper()
	s, err := m.NewScratch(model.Options{Threads: threads, Pages: pages, MaxRows: 64, KVType: kv, Context: 96})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}
