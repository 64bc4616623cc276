package sample

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestLongRows holds the shortcuts for long rows (peaks of blocks, buckets of weights) to the definition: flat, peaked and tied rows, with tokens that are banned.
func TestLongRows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, vocab := range []int{700, 5000, 20001} {
		s := New(vocab)
		for kind := range 4 {
			logits := make([]float32, vocab)
			for i := range logits {
				switch kind {
				case 0:
					logits[i] = float32(r.NormFloat64())
				case 1:
					logits[i] = float32(r.NormFloat64() * 8)
				case 2:
					logits[i] = float32(r.IntN(3))
				case 3:
					logits[i] = -inf
					if i%400 == 7 {
						logits[i] = float32(r.NormFloat64())
					}
				}
			}
			for _, p := range []Params{{Temperature: 1}, {Temperature: 0.7, TopK: 40}, {Temperature: 1, TopP: 0.9}, {Temperature: 1.5, TopK: 3, TopP: 0.5, Top: 20}, {Temperature: 1, TopP: 0.5, MinP: 0.05}} {
				p.Logprobs = true
				for pos := range 3 {
					got := s.Pick(logits, &p, 0, pos, nil, nil)
					if want, kept := naive(logits, &p, 0, pos, nil, nil); got.ID != want {
						t.Fatalf("%d tokens, kind %d, %+v: picked %d, want %d of %d kept", vocab, kind, p, got.ID, want, len(kept))
					}
					order := sorted(widen(logits))
					for i, a := range got.Top {
						if alive(logits[order[i]]) && a.ID != order[i] {
							t.Fatalf("%d tokens, kind %d: alternative %d is %d, want %d", vocab, kind, i, a.ID, order[i])
						}
					}
				}
			}
		}
	}
}

func widen(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

func TestKthLargest(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		x := make([]float32, 1+r.IntN(60))
		for i := range x {
			x[i] = float32(r.IntN(20))
		}
		k := 1 + r.IntN(len(x))
		want := slices.Sorted(slices.Values(x))[len(x)-k]
		if got := kthLargest(x, make([]float32, 0, k), k); got != want {
			t.Fatalf("the %d largest of %v is %v, got %v", k, x, want, got)
		}
	}
}
