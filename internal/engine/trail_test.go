package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/sample"
)

// rated is a sink that keeps what the loops say, and shows the lens.
type rated struct {
	*collect
	loops [][][]float32 // [choice][token][loop]
	lens  map[[2]int][]float32
}

func newRated(n int) *rated {
	return &rated{collect: newCollect(n), loops: make([][][]float32, n), lens: map[[2]int][]float32{}}
}

func (s *rated) Loops(choice int, lps []float32) {
	s.loops[choice] = append(s.loops[choice], slices.Clone(lps))
}

func (s *rated) Lens(pos, loop int, logits []float32, _ model.Motion) {
	s.lens[[2]int{pos, loop}] = slices.Clone(logits)
}

// TestByLoop: what each loop says of a token is what the lens shows at its position, for every choice, with an exit as far as it went, and the last is the
// token's own log-probability. Asking changes no token.
func TestByLoop(t *testing.T) {
	spec := tinySpec()
	spec.Coda, spec.CodaNorm = 0, model.CodaNormNone
	s := scratch(t, randomModel(t, spec, kernel.F32), 1, 800, kernel.F32)
	e := start(t, s, Config{})
	sampler := sample.New(spec.Vocab)
	r := Request{Prompt: prompt(20, 1), MaxTokens: 8, Choices: 2, Loops: 4, Sampling: sample.Params{Temperature: 1, Seed: 3, Logprobs: true}}
	for _, exit := range []Exit{{}, {Rule: ExitLatent, Threshold: 9, MinLoops: 2}, {Rule: ExitArgmax, Threshold: 1, MinLoops: 3}} {
		plain, q := r, r
		plain.Exit, q.Exit, q.ByLoop = exit, exit, true
		want := submit(t, e, &plain)
		got := newRated(2)
		if err := e.Submit(context.Background(), &q, got); err != nil {
			t.Fatal(err)
		}
		got.wait(t)
		want.wait(t)
		short := 0
		for n, a := range got.answers {
			if fmt.Sprint(a.tokens) != fmt.Sprint(want.answers[n].tokens) {
				t.Errorf("%+v, choice %d: %v, not asked %v", exit, n, a.tokens, want.answers[n].tokens)
			}
			lens := newRated(1)
			if err := e.Submit(context.Background(), &Request{Prompt: append(slices.Clone(r.Prompt), got.ids(n)...), Loops: 4, Lens: true}, lens); err != nil {
				t.Fatal(err)
			}
			lens.wait(t)
			for i, tok := range a.tokens {
				lps := got.loops[n][i]
				if len(lps) == 0 || lps[len(lps)-1] != tok.lp {
					t.Fatalf("%+v: token %d: %v, log-probability %v", exit, i, lps, tok.lp)
				}
				if len(lps) < 4 {
					short++
				}
				for k, lp := range lps {
					if w := sampler.Score(lens.lens[[2]int{len(r.Prompt) - 1 + i, k + 1}], tok.id, 0).Logprob; lp != w {
						t.Errorf("%+v: token %d after loop %d: %v, the lens says %v", exit, i, k+1, lp, w)
					}
				}
			}
		}
		if (short > 0) != (exit.Rule != NoExit) {
			t.Errorf("%+v: %d tokens with fewer passes", exit, short)
		}
	}
	for _, bad := range []Request{{Mode: Wavefront, Sampling: r.Sampling}, {}} {
		bad.Prompt, bad.MaxTokens, bad.ByLoop = ids(1), 3, true
		if err := e.Submit(context.Background(), &bad, newRated(1)); err == nil || fault.As(err).Field != "logprobs_by_loop" {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
