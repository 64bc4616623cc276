package eval

import (
	"context"
	"time"

	"tinyloop/internal/gen"
	"tinyloop/internal/model"
	"tinyloop/internal/tok"
)

// Cost is what a token costs at a number of loops.
type Cost struct {
	Decode  float64 `json:"decode_ms_per_token"`  // one sequence alone, the best of three
	Prefill float64 `json:"prefill_ms_per_token"` // of a prompt of 64 tokens, the best of three
	FLOPs   int64   `json:"flops_per_token"`      // of the products with matrices, without attention; 0 = not known
}

const (
	costPrompt = 64
	costTokens = 48
	costRounds = 3
)

// cost measures. The tokens do not matter for it.
func (s *Subject) cost(ctx context.Context, loops int) (*Cost, error) {
	info := s.Gen.Info()
	n := max(1, min(costPrompt, info.Context/2))
	room := max(1, min(costTokens, info.Context-n))
	ids := make([]tok.ID, n)
	for i := range ids {
		ids[i] = tok.ID(i % info.Vocab)
	}
	c := &Cost{FLOPs: FLOPs(s.Spec, loops)}
	greedy := 0.0
	for range costRounds {
		st, err := s.Gen.Generate(ctx, &gen.Request{PromptIDs: ids, MaxTokens: &room, Loops: &loops, Temperature: &greedy, IgnoreEOS: true, NoCache: true})
		if err != nil {
			return nil, err
		}
		answers, err := gen.Fold(context.WithoutCancel(ctx), st)
		st.Close()
		if err != nil {
			return nil, err
		}
		stats := &answers[0].Stats
		least(&c.Prefill, stats.Prefill, n)
		least(&c.Decode, stats.Decode, stats.CompletionTokens-1)
	}
	return c, ctx.Err()
}

// least keeps the smallest time of one token in milliseconds.
func least(to *float64, d time.Duration, n int) {
	if d <= 0 || n <= 0 {
		return
	}
	if ms := float64(d.Microseconds()) / 1000 / float64(n); *to == 0 || ms < *to {
		*to = ms
	}
}

// FLOPs gives the floating-point operations of the products with matrices for one token at a number of loops: two a weight, a core weight counted
// once a loop. A row of the embedding is only looked up; the head counts. 0 without a Spec.
func FLOPs(s *model.Spec, loops int) int64 {
	if s == nil {
		return 0
	}
	var sum int64
	for _, t := range new(model.Weights).Slots(s) {
		if t.Matrix == nil {
			continue
		}
		n := t.Count()
		if t.Inside && t.Part == model.Core {
			n *= int64(loops)
		}
		sum += n
	}
	table := int64(s.Vocab) * int64(s.Dim)
	if !s.TiedHead {
		sum -= table
	}
	if s.Block.Pos == model.Learned {
		sum -= int64(s.Context) * int64(s.Dim)
	}
	return 2 * sum
}
