package engine

import (
	"context"
	"fmt"
	"testing"

	"tinyloop/internal/fault"
	"tinyloop/internal/model"
	"tinyloop/internal/sample"
	"tinyloop/internal/scripted"
)

// paced is a scripted model whose positions settle after a given number of passes.
type paced struct {
	*scripted.Model
	after func(pos int32) int32
	rows  []model.Row
}

func (p *paced) Turn(rows []model.Row) {
	p.Model.Turn(rows)
	p.rows = rows
}

func (p *paced) Moved(i int) model.Motion {
	if r := &p.rows[i]; r.Loop >= p.after(r.Pos) {
		return model.Motion{Change: 0, Accel: 0, Gate: 1}
	}
	return model.Motion{Change: 1, Accel: 1}
}

// TestExitSkipsPasses: passes are really left out, and the missing ones of the exact policy are made only when a younger position goes deeper.
func TestExitSkipsPasses(t *testing.T) {
	const tokens, loops = 41, 8
	for _, rule := range []Rule{ExitGate, ExitLatent, ExitAccel} {
		for _, c := range []struct {
			name    string
			after   func(pos int32) int32
			deepest bool
			turns   int // of the 40 decoded positions
			rows    int
		}{
			{"all at 3, lossy", func(int32) int32 { return 3 }, true, 40 * 3, 40 * 3},
			{"all at 3", func(int32) int32 { return 3 }, false, 40 * 3, 40*3 + 7*3}, // 32 may stay parked; beyond, the oldest makes a pass a turn
			{"none", func(int32) int32 { return 99 }, false, 40 * 8, 40 * 8},
			{"every other one", func(p int32) int32 { return 2 + 6*(p%2) }, true, 20*2 + 20*8, 20*2 + 20*8},
			{"every other one, exact", func(p int32) int32 { return 2 + 6*(p%2) }, false, 20*2 + 20*8, 40*8 - 6}, // nobody needs what the last one lacks
		} {
			p := &paced{Model: scripted.New(scripted.Options{Loops: model.Loops{Default: loops, TrainedMin: 1, TrainedMean: 4, TrainedMax: loops, HardMax: loops}}), after: c.after}
			e := New(p, Config{})
			s := submit(t, e, &Request{Prompt: prompt(5, 1), MaxTokens: tokens, Exit: Exit{Rule: rule, Deepest: c.deepest}})
			s.wait(t)
			st := s.answers[0].st
			if turns, rows := st.Turns-loops, st.Rows-5*loops; turns != c.turns || rows != c.rows {
				t.Errorf("rule %d, %s: %d turns and %d rows, want %d and %d", rule, c.name, turns, rows, c.turns, c.rows)
			}
			n := int32(0)
			for _, k := range st.Histogram {
				n += k
			}
			if n != tokens || st.Histogram[loops] < 1 {
				t.Errorf("rule %d, %s: histogram %v", rule, c.name, st.Histogram)
			}
			if h := settled(t, e); h.PagesUsed != 0 {
				t.Errorf("%d pages are held", h.PagesUsed)
			}
			e.Close()
			if v := p.Violations(); len(v) > 0 {
				t.Fatal(v)
			}
		}
	}
}

// TestExitThatNeverFires is plain decoding, with the rules that read logits as well.
func TestExitThatNeverFires(t *testing.T) {
	e := start(t, scripted.New(scripted.Options{Coda: 1, Prelude: 1, Core: 1}), Config{})
	r := &Request{Prompt: prompt(20, 1), MaxTokens: 20, Sampling: sample.Params{Temperature: 1, Seed: 3, Logprobs: true}}
	plain := submit(t, e, r)
	plain.wait(t)
	for rule := ExitGate; rule <= ExitArgmax; rule++ {
		for _, deepest := range []bool{false, true} {
			x := *r
			x.Exit = Exit{Rule: rule, Threshold: 1e-30, MinLoops: 4, Deepest: deepest}
			s := submit(t, e, &x)
			s.wait(t)
			if fmt.Sprint(s.answers[0].tokens) != fmt.Sprint(plain.answers[0].tokens) {
				t.Errorf("rule %d: %v, plain %v", rule, s.answers[0].tokens, plain.answers[0].tokens)
			}
		}
	}
}

// TestExitByLogits: a distribution that is the same after every pass ends the passes as soon as the rule may say so.
func TestExitByLogits(t *testing.T) {
	m := scripted.New(scripted.Options{Agree: 1, Answers: []scripted.Answer{{Steps: scripted.Say(7, 8, 9)}}})
	for rule, at := range map[Rule]int{ExitKL: 2, ExitEntropy: 2, ExitArgmax: 2} {
		for least := 1; least <= 3; least++ {
			e := New(m, Config{})
			s := submit(t, e, &Request{Prompt: prompt(5, 1), MaxTokens: 11, Exit: Exit{Rule: rule, MinLoops: least}})
			s.wait(t)
			e.Close()
			if h := s.answers[0].st.Histogram; h[max(at, least)] != 10 {
				t.Errorf("rule %d, at least %d passes: %v", rule, least, h)
			}
			wantTokens(t, s, 0, ids(7, 8, 9, 9, 9, 9, 9, 9, 9, 9, 9), Length)
		}
	}
}

// TestExitInModes: with right guesses after one pass and exits after three of eight, a wavefront takes one turn a token, and a round of speculation with
// four guesses five turns and two more, instead of three a token.
func TestExitInModes(t *testing.T) {
	const tokens, loops = 41, 8
	want := ""
	for _, deepest := range []bool{false, true} {
		for _, coda := range []int{0, 1} {
			for _, c := range []struct {
				mode  Mode
				turns int
			}{{Autoregressive, 40 * 3}, {Wavefront, 40 + 3}, {Speculative, 8 * (5 + 2)}, {TreeSpeculative, 8 * (5 + 2)}} {
				m := scripted.New(scripted.Options{Agree: 1, Prelude: 1, Core: 1, Coda: coda, Answers: []scripted.Answer{{Steps: []scripted.Step{{{ID: 7, P: 0.6}, {ID: 8, P: 0.4}}}}},
					Loops: model.Loops{Default: loops, TrainedMin: 1, TrainedMean: 4, TrainedMax: loops, HardMax: loops}})
				p := &paced{Model: m, after: func(int32) int32 { return 3 }}
				e := New(p, Config{})
				s := submit(t, e, &Request{Prompt: prompt(5, 1), MaxTokens: tokens, Mode: c.mode, DraftLoops: 1 * min(1, int(c.mode)), DraftAhead: 4 * min(1, int(c.mode)),
					Sampling: sample.Params{Temperature: 1, Seed: 2}, Exit: Exit{Rule: ExitLatent, Deepest: deepest}})
				s.wait(t)
				st := s.answers[0].st
				if got := fmt.Sprint(s.ids(0)); want == "" {
					want = got
				} else if got != want {
					t.Errorf("mode %d: %s, want %s", c.mode, got, want)
				}
				if st.Histogram[3] != tokens-1 {
					t.Errorf("mode %d: passes %v", c.mode, st.Histogram)
				}
				if turns := st.Turns - loops; turns > c.turns || turns < c.turns-4 {
					t.Errorf("mode %d, coda %d, deepest %v: %d turns, want %d: %+v", c.mode, coda, deepest, turns, c.turns, st)
				}
				if h := settled(t, e); h.PagesUsed != 0 {
					t.Errorf("%d pages are held", h.PagesUsed)
				}
				e.Close()
				if v := p.Violations(); len(v) > 0 {
					t.Fatal(v)
				}
			}
		}
	}
}

// TestExitByLogitsInModes: with a coda a rule that looks at logits leaves guesses little to gain, but no mode takes more turns than plain decoding.
func TestExitByLogitsInModes(t *testing.T) {
	m := scripted.New(scripted.Options{Agree: 1, Prelude: 1, Core: 1, Coda: 1, Answers: []scripted.Answer{{Steps: scripted.Say(7, 8, 9)}}})
	plain := 0
	for mode := Autoregressive; mode <= Auto; mode++ {
		e := New(m, Config{})
		s := submit(t, e, &Request{Prompt: prompt(5, 1), MaxTokens: 41, Mode: mode, Exit: Exit{Rule: ExitArgmax, Threshold: 2}})
		s.wait(t)
		e.Close()
		st := s.answers[0].st
		if mode == Autoregressive {
			plain = st.Turns
		}
		if st.Turns > plain || st.Histogram[2] != 40 {
			t.Errorf("mode %d: %d turns, plain %d; passes %v", mode, st.Turns, plain, st.Histogram)
		}
	}
}

func TestExitRefusals(t *testing.T) {
	e := start(t, scripted.New(scripted.Options{}), Config{})
	for field, r := range map[string]Request{
		"exit.rule":      {Exit: Exit{Rule: 77}},
		"exit.threshold": {Exit: Exit{Rule: ExitKL, Threshold: -1}},
		"exit.min_loops": {Exit: Exit{Rule: ExitKL, MinLoops: 5}},
	} {
		r.Prompt, r.MaxTokens = ids(1), 3
		if err := e.Submit(context.Background(), &r, newCollect(1)); err == nil || fault.As(err).Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
