package engine

import (
	"context"
	"fmt"
	"math"
	"testing"

	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/sample"
)

// few is a small real model over five tokens, whose depths differ.
func few(t *testing.T, coda int) (*Engine, model.Limits) {
	t.Helper()
	spec := tinySpec()
	spec.Vocab, spec.Core, spec.Coda, spec.Injection, spec.StateInit = 5, 1, coda, model.InjectAdd, model.StateInput
	spec.Loops = model.Loops{Default: 6, TrainedMin: 1, TrainedMean: 6, TrainedMax: 6, HardMax: 6}
	s := scratch(t, randomModel(t, spec, kernel.F32), 1, 3000, kernel.F32)
	return start(t, s, Config{}), s.Limits()
}

// forced allows nothing but the given tokens, then all.
type forced struct{ ids []int32 }

func (f forced) Mask(output []int32) []uint64 {
	if len(output) < len(f.ids) {
		return []uint64{1 << f.ids[len(output)]}
	}
	return nil
}

const heat = 0.5 // of the small model, whose logits lie close together

// mixed gives an exit by a rule at which about half of the decoded positions leave early.
func mixed(t *testing.T, e *Engine, x Exit) Exit {
	t.Helper()
	tries := []float32{0.5, 0.3, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005}
	if x.Rule == ExitArgmax {
		tries = []float32{2, 3, 4, 5, 6}
	}
	best, off := x, 1.0
	for _, x.Threshold = range tries {
		sinks, early, all := make([]*collect, 30), 0, 0
		for k := range sinks {
			sinks[k] = submit(t, e, &Request{Prompt: ids(1, 2, 3), MaxTokens: 4, Exit: x, Sampling: sample.Params{Temperature: heat, Seed: uint64(k)}})
		}
		for _, s := range sinks {
			s.wait(t)
			st := s.answers[0].st
			for loops, n := range st.Histogram[:st.Loops] {
				if loops > 0 {
					early += int(n)
				}
			}
			all += st.Tokens - 1
		}
		if d := math.Abs(float64(early)/float64(all) - 0.5); d < off {
			best, off = x, d
		}
	}
	return best
}

// exact is the distribution of output positions 1 and 2 under plain decoding with an exit, from the log-probabilities of every way there.
func exact(t *testing.T, e *Engine, x Exit) (pairs [25]float64) {
	t.Helper()
	soft := func(top []sample.Alt) (p [5]float64) {
		sum := 0.0
		for _, a := range top {
			p[a.ID] = math.Exp(float64(a.Logprob) / heat)
			sum += p[a.ID]
		}
		for i := range p {
			p[i] /= sum
		}
		return p
	}
	for a := range int32(5) {
		for b := range int32(5) {
			var dists [][5]float64
			s := newCollect(1)
			s.onToken = func(_ int, c sample.Choice) bool {
				dists = append(dists, soft(c.Top))
				return true
			}
			r := &Request{Prompt: ids(1, 2, 3), MaxTokens: 3, Exit: x, Constraints: []Constraint{forced{ids(a, b)}}, Sampling: sample.Params{Temperature: heat, Logprobs: true, Top: 5}}
			if err := e.Submit(t.Context(), r, s); err != nil {
				t.Fatal(err)
			}
			s.wait(t)
			for c := range 5 {
				pairs[int(b)*5+c] += dists[0][a] * dists[1][b] * dists[2][c]
			}
		}
	}
	return pairs
}

// TestRejectionWithExit: where positions leave at depths of their own, rejection sampling gives the distribution of plain decoding with that exit, over chains
// and trees, whether or not the exit rule looks at logits, with and without a coda, with the missing K/V made up for or not.
func TestRejectionWithExit(t *testing.T) {
	for _, c := range []struct {
		coda int
		exit Exit
	}{{0, Exit{Rule: ExitLatent}}, {1, Exit{Rule: ExitAccel, Deepest: true}}, {1, Exit{Rule: ExitKL}}, {0, Exit{Rule: ExitArgmax, Deepest: true}}} {
		e, _ := few(t, c.coda)
		c.exit = mixed(t, e, c.exit)
		want := exact(t, e, c.exit)
		for _, m := range []struct {
			mode Mode
			k    int
		}{{Speculative, 0}, {Wavefront, 0}, {TreeSpeculative, 3}} {
			const n = 1500
			pairs, early, late := [25]float64{}, 0, 0
			accepted, judged := 0, 0
			for i := 0; i < n; i += 50 {
				sinks := make([]*collect, 50)
				for k := range sinks {
					sinks[k] = submit(t, e, &Request{Prompt: ids(1, 2, 3), MaxTokens: 4, Mode: m.mode, Branches: m.k, Verify: Rejection, DraftLoops: 1, DraftAhead: 3, Exit: c.exit,
						NoCache: true, Sampling: sample.Params{Temperature: heat, Seed: uint64(9000 + i + k)}})
				}
				for _, s := range sinks {
					s.wait(t)
					got, st := s.ids(0), s.answers[0].st
					pairs[got[1]*5+got[2]]++
					accepted, judged = accepted+st.Accepted, judged+st.Judged
					for loops, times := range st.Histogram {
						if loops < st.Loops {
							early += int(times)
						} else {
							late += int(times)
						}
					}
				}
			}
			chi, cells := chiSquare(pairs[:], want[:], n)
			t.Logf("coda %d, %+v, mode %d: chi-square %.1f of %d cells, %d of %d guesses right, %d tokens early, %d not", c.coda, c.exit, m.mode, chi, cells, accepted, judged, early, late)
			if limit := chiLimit(cells - 1); chi > limit {
				t.Errorf("coda %d, %+v, mode %d: chi-square %.1f of %d cells, limit %.1f", c.coda, c.exit, m.mode, chi, cells, limit)
			}
			if late -= n; cells < 8 || accepted == 0 || accepted == judged || early < n/50 || late < n/50 { // the first token of each is never early
				t.Errorf("coda %d, %+v, mode %d: %d cells, %d of %d guesses right, %d tokens early, %d not: something hardly happened", c.coda, c.exit, m.mode, cells, accepted, judged, early, late)
			}
		}
	}
}

// chiSquare compares counts of n draws with probabilities; cells that are expected fewer than five times are taken together.
func chiSquare(have, p []float64, n float64) (chi float64, cells int) {
	restHave, restWant := 0.0, 0.0
	add := func(have, want float64) {
		chi += (have - want) * (have - want) / want
		cells++
	}
	for i := range have {
		if want := n * p[i]; want >= 5 {
			add(have[i], want)
		} else {
			restHave, restWant = restHave+have[i], restWant+want
		}
	}
	if restWant >= 5 {
		add(restHave, restWant)
	}
	return chi, cells
}

// chiLimit is about what chi-square of so many degrees of freedom exceeds once in a million (Wilson and Hilferty's approximation): which guesses find room
// depends on the moment, so the counts are not the same every time.
func chiLimit(df int) float64 {
	d := 2 / (9 * float64(df))
	return float64(df) * math.Pow(1-d+4.75*math.Sqrt(d), 3)
}

// TestTypicalWithExit: greedily and at a threshold of one, where only the most probable token is kept, typical acceptance gives the tokens and the depths of
// plain decoding with the same exit, in every mode; at a low threshold it keeps guesses that the exit would not have said.
func TestTypicalWithExit(t *testing.T) {
	differs := 0
	for _, coda := range []int{0, 1} {
		e, _ := few(t, coda)
		for rule := ExitLatent; rule <= ExitArgmax; rule++ {
			x := Exit{Rule: rule, Threshold: []float32{ExitLatent: 0.3, ExitAccel: 0.5, ExitKL: 0.003, ExitEntropy: 0.02, ExitArgmax: 2}[rule]}
			run := func(mode Mode, accept float32, seed int32) string {
				r := &Request{Prompt: prompt(7, seed), MaxTokens: 20, Exit: x, Mode: mode}
				for i := range r.Prompt {
					r.Prompt[i] %= 5
				}
				if mode != Autoregressive {
					r.Verify, r.Accept, r.DraftLoops = Typical, accept, 1
				}
				s := submit(t, e, r)
				s.wait(t)
				return fmt.Sprint(s.ids(0), s.answers[0].st.Histogram)
			}
			for seed := range int32(6) {
				plain := run(Autoregressive, 0, seed)
				for mode := Speculative; mode <= Auto; mode++ {
					if got := run(mode, 1, seed); got != plain {
						t.Errorf("coda %d, rule %d, mode %d: %s, plain %s", coda, rule, mode, got, plain)
					}
				}
				if run(Speculative, 0.05, seed) != plain {
					differs++
				}
			}
		}
	}
	if differs == 0 {
		t.Error("a low threshold never keeps a guess of its own")
	}
}

// TestVerifyAllocatesNothing: judging by distributions takes no memory in steady state, with an exit either.
func TestVerifyAllocatesNothing(t *testing.T) {
	for _, v := range []Verify{Rejection, Typical} {
		for mode := Speculative; mode <= Wavefront; mode++ {
			r := &Request{Prompt: ids(1, 2, 3), MaxTokens: 4000, Window: 64, Mode: mode, Verify: v, Exit: Exit{Rule: ExitKL, MinLoops: 2}, Sampling: sample.Params{Temperature: 1}}
			if n := allocsAStep(t, r); n > 0 {
				t.Errorf("verify %d, mode %d: %v allocations a step", v, mode, n)
			}
		}
	}
}

// TestCancelAmidGuesses: an answer that is cancelled, or whose sink has had enough, while guesses, branches and parked rows of it are in flight, gives
// everything back, and what its neighbours say does not change.
func TestCancelAmidGuesses(t *testing.T) {
	for mode := Autoregressive; mode <= Auto; mode++ {
		for _, x := range []Exit{{}, {Rule: ExitLatent, Threshold: 0.3}} {
			e, _ := few(t, 1)
			req := func(seed uint64) *Request {
				r := &Request{Prompt: ids(1, 2, 3), MaxTokens: 60, Mode: mode, Exit: x, Sampling: sample.Params{Temperature: heat, Seed: seed}}
				if mode != Autoregressive {
					r.DraftLoops, r.DraftAhead, r.Branches = 1, MaxAhead, MaxBranches
				}
				return r
			}
			alone := submit(t, e, req(1))
			alone.wait(t)
			for after := 1; after < 12; after++ {
				neighbour := submit(t, e, req(1))
				ctx, cancel := context.WithCancel(t.Context())
				gone, full := newCollect(1), newCollect(1)
				left := after
				gone.onToken = func(int, sample.Choice) bool {
					if left--; left == 0 {
						cancel()
					}
					return true
				}
				had := 2 * after
				full.onToken = func(int, sample.Choice) bool { had--; return had > 0 }
				for s, ctx := range map[*collect]context.Context{gone: ctx, full: t.Context()} {
					if err := e.Submit(ctx, req(uint64(after+2)), s); err != nil {
						t.Fatal(err)
					}
				}
				neighbour.wait(t)
				gone.wait(t)
				full.wait(t)
				if fmt.Sprint(neighbour.ids(0)) != fmt.Sprint(alone.ids(0)) {
					t.Errorf("mode %d: %v beside one who leaves, alone %v", mode, neighbour.ids(0), alone.ids(0))
				}
				if w := gone.answers[0].why; w != Cancel && w != Length {
					t.Errorf("mode %d: finish %d", mode, w)
				}
				cancel()
			}
			if h := settled(t, e); h.PagesUsed != 0 || h.Err != nil {
				t.Errorf("mode %d: %+v", mode, h)
			}
		}
	}
}
