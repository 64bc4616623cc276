package engine

import (
	"fmt"
	"math"
	"testing"

	"tinyloop/internal/model"
	"tinyloop/internal/sample"
	"tinyloop/internal/scripted"
)

// drafter is a scripted model that says 7 for ever, and whose early readouts say so too for a share of all histories.
func drafter(agree float64, o scripted.Options) *scripted.Model {
	o.Agree, o.Answers = agree, []scripted.Answer{{Steps: []scripted.Step{{{ID: 7, P: 0.9}, {ID: 9, P: 0.1}}}}}
	o.Loops = model.Loops{Default: 8, TrainedMin: 1, TrainedMean: 8, TrainedMax: 8, HardMax: 32}
	o.Context, o.Pages, o.Core = 512, 1500, 1
	return scripted.New(o)
}

// TestTurnsPerToken: the counts that the modes promise, exactly. Wavefront: a token costs the draft depth if it was guessed and the full depth
// if not. Speculative: a round of y rows costs y times the draft depth and the rest once, and gives (1-a^y)/(1-a) tokens.
func TestTurnsPerToken(t *testing.T) {
	const tokens = 150
	for _, agree := range []float64{0, 0.6, 0.9} {
		for _, c := range []struct{ loops, draft, ahead int }{{8, 2, 4}, {4, 1, 8}, {9, 3, 3}} {
			m := drafter(agree, scripted.Options{})
			e := New(m, Config{})
			name := fmt.Sprintf("agreement %v, %+v", agree, c)
			run := func(mode Mode) Stats {
				s := submit(t, e, &Request{Prompt: prompt(5, 1), MaxTokens: tokens, Loops: c.loops, Mode: mode, DraftLoops: c.draft, DraftAhead: c.ahead})
				s.wait(t)
				st := s.answers[0].st
				st.Turns -= c.loops // the prompt and the first token
				return st
			}
			w := run(Wavefront)
			if want := w.Rounds*c.loops + w.Accepted*c.draft; w.Turns != want || w.Rounds+w.Accepted != tokens-1 {
				t.Errorf("%s: wavefront %+v, want %d turns", name, w, want)
			}
			if a := float64(w.Accepted) / (tokens - 1); math.Abs(a-agree) > 0.1 {
				t.Errorf("%s: %v of the guesses were right", name, a)
			}
			s := run(Speculative)
			y := c.ahead + 1
			full := y*c.draft + c.loops - c.draft
			if s.Turns > s.Rounds*full || s.Turns < (s.Rounds-y)*full || // the last rounds have no room for y rows
				s.Rounds+s.Accepted != tokens-1 {
				t.Errorf("%s: speculative %+v, want %d turns a round", name, s, full)
			}
			per := float64(y)
			if agree < 1 {
				per = (1 - math.Pow(agree, float64(y))) / (1 - agree)
			}
			if got := float64(tokens-1) / float64(s.Rounds); math.Abs(got/per-1) > 0.2 {
				t.Errorf("%s: %.2f tokens a round, expected %.2f", name, got, per)
			}
			if p := run(Autoregressive); p.Turns != (tokens-1)*c.loops || p.Drafted != 0 || p.Rows != p.Turns+5*c.loops {
				t.Errorf("%s: autoregressive %+v", name, p)
			}
			if h := settled(t, e); h.PagesUsed != 0 {
				t.Errorf("%s: %d pages are held", name, h.PagesUsed)
			}
			e.Close()
		}
	}
}

// TestTreeCatches: where the second most probable token of the draft is the right one, a tree has it and a chain does not.
func TestTreeCatches(t *testing.T) {
	m := drafter(0, scripted.Options{}) // early: 8 with 0.9, 10 with 0.1; never 7
	steps := []scripted.Step{{{ID: 7, P: 0.6}, {ID: 6, P: 0.39}}}
	m = scripted.New(scripted.Options{Answers: []scripted.Answer{{Steps: steps}}, Loops: m.Limits().Loops}) // early: 8, then 7
	for _, c := range []struct {
		mode     Mode
		k        int
		accepted int
	}{{Speculative, 0, 0}, {TreeSpeculative, 1, 0}, {TreeSpeculative, 2, 50}, {TreeSpeculative, 4, 50}} {
		e := New(m, Config{})
		s := submit(t, e, &Request{Prompt: prompt(5, 1), MaxTokens: 101, Mode: c.mode, Branches: c.k, DraftLoops: 2, DraftAhead: 3})
		s.wait(t)
		if st := s.answers[0].st; st.Accepted < c.accepted || c.accepted == 0 && st.Accepted > 0 {
			t.Errorf("%d branches: %+v", c.k, st)
		}
		e.Close()
	}
}

// TestNobodyWaitsForGuesses: with room for a single row, or for no page besides the answer's own, every mode still ends and gives the same.
func TestNobodyWaitsForGuesses(t *testing.T) {
	want := ""
	for mode := Autoregressive; mode <= Auto; mode++ {
		for _, rows := range []int{1, 2, 3} {
			m := scripted.New(scripted.Options{Agree: 0.9, Coda: 1, Prelude: 1, Core: 1, Pages: 6 * 3})
			e := New(m, Config{StepRows: rows})
			s := submit(t, e, &Request{Prompt: prompt(20, 1), MaxTokens: 25, Mode: mode, DraftLoops: 1 * min(1, int(mode)), Sampling: sample.Params{Temperature: 1, Seed: 4}})
			s.wait(t)
			got := fmt.Sprint(s.ids(0))
			if want == "" {
				want = got
			}
			if got != want || s.answers[0].why != Length {
				t.Errorf("mode %d, %d rows: %s, alone %s", mode, rows, got, want)
			}
			e.Close()
			if v := m.Violations(); len(v) > 0 {
				t.Fatal(v)
			}
		}
	}
}

// TestModesAllocateNothing: in steady state a guess, its branches and its judgement take no memory.
func TestModesAllocateNothing(t *testing.T) {
	for k := range 2 * (Auto + 1) {
		mode, exit := k/2, Exit{}
		if k%2 == 1 {
			exit = Exit{Rule: ExitKL, MinLoops: 2}
		}
		r := &Request{Prompt: []int32{1, 2, 3}, MaxTokens: 4000, Window: 64, Mode: mode, Exit: exit}
		if n := allocsAStep(t, r, r, r); n > 0 {
			t.Errorf("mode %d, %+v: %v allocations a step", mode, exit, n)
		}
	}
}

// allocsAStep runs requests until nothing new is needed, and gives what a step allocates from then on.
func allocsAStep(t *testing.T, requests ...*Request) float64 {
	t.Helper()
	e := quietEngine(&free{logits: make([]float32, 64)}, Config{})
	sinks := &counting{}
	for _, r := range requests {
		j, err := e.newJob(r, sinks)
		if err != nil {
			t.Fatal(err)
		}
		e.jobs = append(e.jobs, j)
		e.sch.Add(&j.choices[0].seq)
	}
	step := func() {
		e.now = e.cfg.Now()
		e.receive()
		e.step()
	}
	for range 600 {
		step()
	}
	before := sinks.tokens
	n := testing.AllocsPerRun(300, step)
	if sinks.tokens == before {
		t.Error("no tokens")
	}
	return n
}

// TestRejection: the tokens that rejection sampling gives have the distribution of the full depth, whatever the draft's is, over chains and trees,
// with and without truncation.
func TestRejection(t *testing.T) {
	p := []float64{0.42, 0.05, 0.28, 0.1, 0.15}
	var step scripted.Step
	for id, v := range p {
		step = append(step, scripted.Prob{ID: int32(id), P: v})
	}
	cut := []float64{p[0] / 0.85, 0, p[2] / 0.85, 0, p[4] / 0.85} // top_k = 3
	m := scripted.New(scripted.Options{Vocab: 5, Agree: 0.3, Prelude: 1, Core: 1, Pages: 400, Answers: []scripted.Answer{{Steps: []scripted.Step{step}}}})
	for _, c := range []struct {
		mode Mode
		k    int
		topK int
		want []float64
	}{{Speculative, 0, 0, p}, {Wavefront, 0, 0, p}, {TreeSpeculative, 2, 0, p}, {TreeSpeculative, 4, 0, p}, {TreeSpeculative, 3, 3, cut}} {
		e := New(m, Config{})
		const n = 5000
		pairs := [25]float64{}
		accepted, drafted := 0, 0
		for i := 0; i < n; i += 50 {
			sinks := make([]*collect, 0, 50)
			for k := range 50 {
				sinks = append(sinks, submit(t, e, &Request{Prompt: ids(1, 2, 3), MaxTokens: 4, Mode: c.mode, Branches: c.k, Verify: Rejection, DraftLoops: 1, DraftAhead: 3,
					NoCache: true, Sampling: sample.Params{Temperature: 1, TopK: c.topK, Seed: uint64(1000 + i + k)}}))
			}
			for _, s := range sinks {
				s.wait(t)
				got := s.ids(0)
				pairs[got[1]*5+got[2]]++
				accepted, drafted = accepted+s.answers[0].st.Accepted, drafted+s.answers[0].st.Drafted
			}
		}
		e.Close()
		chi := 0.0
		for i, have := range pairs {
			want := n * c.want[i/5] * c.want[i%5]
			if want == 0 && have > 0 {
				t.Errorf("%+v: a token that is cut off came out", c)
			}
			if want > 0 {
				chi += (have - want) * (have - want) / want
			}
		}
		t.Logf("%d branches, top_k %d: chi-square %.1f, %d of %d right", c.k, c.topK, chi, accepted, drafted)
		if chi > 52 { // 24 degrees of freedom: exceeded once in 1000
			t.Errorf("mode %d, %d branches, top_k %d: chi-square %.1f", c.mode, c.k, c.topK, chi)
		}
		if accepted == 0 || accepted == drafted {
			t.Errorf("%d of %d guesses were right", accepted, drafted)
		}
	}
	if v := m.Violations(); len(v) > 0 {
		t.Fatal(v)
	}
}

// TestTypical: a threshold of one keeps only the most probable token, a low one keeps more guesses and says so in its tokens.
func TestTypical(t *testing.T) {
	m := scripted.New(scripted.Options{Answers: []scripted.Answer{{Steps: []scripted.Step{{{ID: 7, P: 0.5}, {ID: 8, P: 0.3}, {ID: 9, P: 0.2}}}}}})
	for _, c := range []struct {
		accept float32
		eights bool
	}{{1, false}, {0.5, true}} { // early: 8 with 0.5, 9 with 0.3
		e := New(m, Config{})
		s := submit(t, e, &Request{Prompt: ids(1, 2, 3), MaxTokens: 40, Mode: Speculative, Verify: Typical, Accept: c.accept})
		s.wait(t)
		e.Close()
		eights := 0
		for _, id := range s.ids(0) {
			if id == 8 {
				eights++
			}
		}
		if (eights > 0) != c.eights {
			t.Errorf("threshold %v: %d of 40 tokens are the draft's", c.accept, eights)
		}
	}
}
