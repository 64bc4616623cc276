package gen

import (
	"context"
	"math"
	"strings"
	"testing"

	"tinyloop/internal/fault"
	"tinyloop/internal/tok"
)

// TestLensShowsWhatLoopsSay: without a coda, what a position shows after a loop is to the bit what the model says at that number of loops; with one, that holds
// of the last loop. Entropy is that of the distribution.
func TestLensShowsWhatLoopsSay(t *testing.T) {
	tk := vocab(t)
	var ids []tok.ID
	for _, c := range "what each loop says" {
		ids = append(ids, byte0+tok.ID(c))
	}
	for coda := range 2 {
		g := tiny(t, tk, coda)
		l, err := g.Lens(t.Context(), &Request{PromptIDs: ids, Loops: ptr(5), TopLogprobs: 3})
		if err != nil {
			t.Fatal(err)
		}
		if l.Loops != 5 || len(l.Depths) != len(ids) || len(l.Warnings) != 0 {
			t.Fatalf("%d loops, %d positions, warnings %q", l.Loops, len(l.Depths), l.Warnings)
		}
		moved := false
		for loop := 1; loop <= 5; loop++ {
			if coda > 0 && loop < 5 {
				continue
			}
			s, err := g.Generate(t.Context(), &Request{PromptIDs: ids, Loops: ptr(loop), MaxTokens: ptr(1), Echo: true, Logprobs: true, TopLogprobs: 3, Temperature: ptr(0.0), IgnoreEOS: true})
			if err != nil {
				t.Fatal(err)
			}
			as, err := Fold(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			for pos := range ids {
				say := &as[0].Logprobs[0]
				if pos+1 < len(ids) {
					say = &as[0].PromptLogprobs[pos+1]
				}
				d := &l.Depths[pos][loop-1]
				moved = moved || d.Change > 0
				for k := range d.Top {
					if d.Top[k].ID != say.Top[k].ID || d.Top[k].Logprob != say.Top[k].Logprob {
						t.Errorf("coda %d, position %d, loop %d: %d with %v, at that depth %d with %v", coda, pos, loop, d.Top[k].ID, d.Top[k].Logprob, say.Top[k].ID, say.Top[k].Logprob)
					}
				}
				if !(d.Entropy > 0 && d.Entropy <= math.Log(float64(tk.Size()))) || d.Gate != -1 {
					t.Errorf("position %d, loop %d: entropy %v, gate %v", pos, loop, d.Entropy, d.Gate)
				}
			}
		}
		if !moved {
			t.Error("no loop moves a state")
		}
	}
}

// TestLensRefusals: a lens is bounded, and says where its request is at fault.
func TestLensRefusals(t *testing.T) {
	g := tiny(t, vocab(t), 0)
	long := make([]tok.ID, 200)
	for i := range long {
		long[i] = byte0 + 'a'
	}
	for _, c := range []struct {
		field, says string
		kind        fault.Kind
		r           Request
	}{
		{"loops", "between 1 and 8", fault.Invalid, Request{PromptIDs: long, Loops: ptr(9)}},
		{"top_logprobs", "between 1 and 20", fault.Invalid, Request{PromptIDs: long, TopLogprobs: 21}},
		{"top_logprobs", "between 1 and 20", fault.Invalid, Request{PromptIDs: long}},
		{"effort", "minimal", fault.Invalid, Request{PromptIDs: long, Effort: "some"}},
		{"prompt", "at most 1024", fault.TooLong, Request{PromptIDs: append(make([]tok.ID, 1000), long...), TopLogprobs: 1}},
		{"prompt", "window", fault.TooLong, Request{PromptIDs: append(make([]tok.ID, 100), long...), TopLogprobs: 1}},
	} {
		_, err := g.Lens(t.Context(), &c.r)
		if e := fault.As(err); err == nil || e.Field != c.field || e.Kind != c.kind || !strings.Contains(e.Msg, c.says) {
			t.Errorf("%s: %v", c.field, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Lens(ctx, &Request{PromptIDs: long, TopLogprobs: 1}); fault.Of(err) != fault.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	if l, err := g.Lens(t.Context(), &Request{PromptIDs: long[:3], TopLogprobs: 20, Effort: "high"}); err != nil || l.Loops != 8 {
		t.Errorf("high effort: %v", err)
	}
}
