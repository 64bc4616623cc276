package engine

import (
	"context"
	"fmt"
	"testing"

	"tinyloop/internal/model"
	"tinyloop/internal/sample"
	"tinyloop/internal/scripted"
)

// viewer is a sink that keeps what the lens shows.
type viewer struct {
	*collect
	seen map[[2]int]float32
	loop map[int]int
}

func (v *viewer) Lens(pos, loop int, logits []float32, m model.Motion) {
	if loop != v.loop[pos]+1 || m.Change < 0 {
		v.bad = append(v.bad, fmt.Sprintf("position %d: loop %d after %d", pos, loop, v.loop[pos]))
	}
	v.loop[pos] = loop
	v.seen[[2]int{pos, loop}] = logits[3]
}

// TestLens: every position is shown after every loop, and the last loop is what the answer is drawn from.
func TestLens(t *testing.T) {
	for _, o := range []scripted.Options{{}, {Prelude: 1, Core: 1, Coda: 1}} {
		for _, c := range []Config{{}, {StepRows: 3}} {
			e := start(t, scripted.New(o), c)
			r := &Request{Prompt: prompt(20, 1), MaxTokens: 1, Lens: true, Sampling: sample.Params{Logprobs: true}}
			for range 2 { // the second finds a filled prefix cache
				v := &viewer{collect: newCollect(1), seen: map[[2]int]float32{}, loop: map[int]int{}}
				if err := e.Submit(context.Background(), r, v); err != nil {
					t.Fatal(err)
				}
				v.wait(t)
				if len(v.seen) != 20*4 {
					t.Errorf("%d of 80 readouts were shown", len(v.seen))
				}
			}
			if err := e.Submit(context.Background(), &Request{Prompt: ids(1), Lens: true, Mode: Wavefront}, &viewer{collect: newCollect(1)}); err == nil {
				t.Error("a lens with guesses is accepted")
			}
		}
	}
}
