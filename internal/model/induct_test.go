package model

import (
	"math/rand/v2"
	"testing"

	"tinyloop/internal/fault"
)

// inductSpec is a shape that Induct serves: the recipes' one, smaller.
func inductSpec() Spec {
	s := recipeSpec()
	s.Vocab, s.Dim, s.Block.Heads, s.Block.KVHeads, s.Block.Hidden, s.Embed.Scale = 400, 160, 5, 5, 640, 12.65
	s.Injection, s.LoopNorm = InjectAdd, LoopNormOwn
	return s
}

// TestInduct: before any training, of the tokens of a context one that followed the last token's earlier occurrence is favoured, one to three
// positions behind it; with random weights it is not.
func TestInduct(t *testing.T) {
	s := inductSpec()
	if err := s.CanInduct(); err != nil {
		t.Fatal(err)
	}
	plain, induced := InitParams(&s, 1), InitParams(&s, 1)
	s.Induct(induced)
	if by, without := lookups(t, &s, induced), lookups(t, &s, plain); by < 25 || without > 15 {
		t.Errorf("%d of 60 found, %d with random weights", by, without)
	}
}

// lookups counts how often the likeliest token of a context of 32 different ones stood one to three positions behind the last one's earlier place.
func lookups(t *testing.T, s *Spec, flat []float32) int {
	m, err := FromParams(s, flat)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	sc := scratch(t, m, Options{MaxRows: 40, Pages: 64, Threads: 1})
	rng := rand.New(rand.NewPCG(3, 4))
	found := 0
	for range 60 {
		context := drawDistinct(rng, s.Vocab, 32)
		at, next := rng.IntN(len(context)-6), int32(0)
		q := newSeq(s, append(context, context[at]), 1, &next, rng)
		logits := q.whole(sc)[len(context)]
		best := -1
		for i, id := range context {
			if i != at && (best < 0 || logits[id] > logits[context[best]]) {
				best = i
			}
		}
		if best > at && best <= at+3 {
			found++
		}
	}
	return found
}

func drawDistinct(rng *rand.Rand, vocab, n int) []int32 {
	var out []int32
	for _, id := range rng.Perm(vocab)[:n] {
		out = append(out, int32(id))
	}
	return out
}

// TestCannotInduct: shapes without what it needs are refused by name.
func TestCannotInduct(t *testing.T) {
	for name, change := range map[string]func(*Spec){
		"no core":     func(s *Spec) { s.Core = 0 },
		"no prelude":  func(s *Spec) { s.Prelude = 0 },
		"no norm":     func(s *Spec) { s.Block.QKNorm = false },
		"shared keys": func(s *Spec) { s.Block.KVHeads = 1 },
		"one head":    func(s *Spec) { s.Block.HeadDim = s.Dim },
		"small heads": func(s *Spec) { s.Block.HeadDim = 8 },
	} {
		s := inductSpec()
		change(&s)
		if err := s.CanInduct(); err == nil || fault.Of(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
