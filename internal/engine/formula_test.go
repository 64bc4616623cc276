package engine

import (
	"fmt"
	"math"
	"testing"

	"tinyloop/internal/arch"
	"tinyloop/internal/embedded"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
	"tinyloop/internal/tok"
)

// inside is the model inside the program with its tokenizer.
func inside(t *testing.T) (*model.Model, *tok.Tokenizer) {
	t.Helper()
	b, ok := embedded.Model()
	if !ok {
		t.Skip("this build has no model inside")
	}
	f, err := tensorfile.OpenBytes(embedded.File, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	tk, err := tok.FromGGUF(f.Meta)
	if err != nil {
		t.Fatal(err)
	}
	m, err := arch.Load(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m, tk
}

// TestFormulas: on the model inside, whose depths often agree, and on one of random weights, whose depths hardly do, turns a token are what the formulas of the
// modes give for the share of right guesses that came up, and tokens are those of plain decoding.
func TestFormulas(t *testing.T) {
	t.Run("inside", func(t *testing.T) {
		m, tk := inside(t)
		var prompts [][]int32
		for _, s := range []string{"Mia is with Tom. Tom is with Zoe. Zoe is in Oslo. Where is Mia?", "The capital of France is", "Passepartout est le valet de"} {
			prompts = append(prompts, tk.Encode(nil, s))
		}
		formulas(t, m, prompts, 8, 2)
		formulas(t, m, prompts, 4, 1)
	})
	t.Run("random", func(t *testing.T) {
		formulas(t, randomModel(t, tinySpec(), kernel.F32), [][]int32{prompt(9, 1), prompt(5, 3)}, 4, 1)
	})
}

func formulas(t *testing.T, m *model.Model, prompts [][]int32, loops, draft int) {
	s, err := m.NewScratch(model.Options{Threads: 1, Pages: 64 * m.Spec.Slots(loops), MaxRows: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	e := New(s, Config{NoPrefixCache: true})
	defer e.Close()
	const tokens, ahead = 60, 4
	for _, p := range prompts {
		run := func(mode Mode) (Stats, string) {
			s := submit(t, e, &Request{Prompt: p, MaxTokens: tokens, Loops: loops, Mode: mode, DraftLoops: draft * min(1, int(mode)), DraftAhead: ahead * min(1, int(mode)), IgnoreStop: true})
			s.wait(t)
			st := s.answers[0].st
			st.Turns, st.Rows = st.Turns-loops, st.Rows-loops*len(p) // of the prompt, which gives the first token
			return st, fmt.Sprint(s.ids(0))
		}
		plain, want := run(Autoregressive)
		if n := (tokens - 1) * loops; plain.Turns != n || plain.Rows != n {
			t.Errorf("plain: %d turns and %d rows, want %d", plain.Turns, plain.Rows, n)
		}
		for mode := Speculative; mode <= Wavefront; mode++ {
			st, got := run(mode)
			if got != want {
				t.Errorf("mode %d: %s, plain %s", mode, got, want)
			}
			a := float64(st.Accepted) / (tokens - 1)
			a1 := float64(st.Accepted) / float64(max(1, st.Judged))
			perToken, rows := float64(st.Turns)/(tokens-1), float64(st.Rows)/float64(st.Turns)
			d, T, y := float64(draft), float64(loops), float64(ahead+1)
			if st.Rounds+st.Accepted != tokens-1 || st.Judged < st.Accepted || st.Drafted < st.Judged {
				t.Errorf("mode %d: %+v does not add up to %d tokens", mode, st, tokens-1)
			}
			expected := a*d + (1-a)*T
			if mode != Wavefront {
				expected = (y*d + T - d) * float64(st.Rounds) / (tokens - 1)
			}
			t.Logf("T=%d, d=%d, mode %d: %.1f %% of guesses right, %.2f turns a token (formula %.2f), %.2f rows a turn", loops, draft, mode, 100*a1, perToken, expected, rows)
			switch {
			case mode == Wavefront && math.Abs(perToken-expected) > 1e-9:
				t.Errorf("wavefront: %v turns a token, the formula gives %v", perToken, expected)
			case mode != Wavefront && (perToken > expected || perToken < expected-y*T/(tokens-1)): // the last round has no room for y rows
				t.Errorf("mode %d: %v turns a token, the formula gives %v", mode, perToken, expected)
			case mode == Wavefront && rows > math.Ceil(T/d):
				t.Errorf("wavefront: %v rows a turn", rows)
			}
		}
	}
}
