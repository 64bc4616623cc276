package eval

import (
	"cmp"
	"context"
	"fmt"

	"tinyloop/internal/fault"
	"tinyloop/internal/gen"
)

// Way is how answers are decoded: at fewer loops, with an early exit, or with keys and values shared between loops. The zero value is plain decoding at
// the model's default depth.
type Way struct {
	Loops int
	Exit  *gen.Exit
	KV    string // kv_mode
}

// String names a way in a word or two.
func (w Way) String() string {
	switch {
	case w.Exit != nil && w.Exit.Threshold != nil:
		return fmt.Sprintf("exit %s %g", w.Exit.Rule, *w.Exit.Threshold)
	case w.Exit != nil:
		return "exit " + w.Exit.Rule
	case w.KV != "":
		return "kv " + w.KV
	case w.Loops > 0:
		return fmt.Sprintf("loops %d", w.Loops)
	}
	return "full depth"
}

// WayRow is what a way costs and gives.
type WayRow struct {
	Way       string  `json:"way"`
	KV        string  `json:"exit_kv,omitempty"` // of an exit: complete or deepest
	MeanLoops float64 `json:"mean_loops"`        // passes before a token was taken
	Passes    float64 `json:"passes"`            // rows a decoded token took in all, those made up for later ones included
	Questions int     `json:"questions"`
	Same      int     `json:"same_answers"` // answers that are those of full depth, to the letter
	Agreement float64 `json:"agreement"`    // share of the full depth's tokens before the first that differs
	Right     int     `json:"right"`
	Low       float64 `json:"low"` // 95 % interval of the share that is right
	High      float64 `json:"high"`
}

// wayed is one answer.
type wayed struct {
	answer gen.Answer
	done   bool
	right  bool
}

// Ways asks a model the session's questions in every way, greedily, the full depth first, and compares. ctx ends it between two answers.
func (s *Session) Ways(ctx context.Context, sub *Subject, ways []Way) ([]WayRow, error) {
	e, err := newExam(ctx, sub, s.qs, s.pools, s.o.Refusals)
	if err != nil {
		return nil, err
	}
	var full []wayed
	var rows []WayRow
	for i, w := range append([]Way{{}}, ways...) {
		got, err := e.way(ctx, w, s.o.Parallel, s.ticker(sub, cmp.Or(w.Loops, sub.Gen.Info().Loops.Default), w.String(), len(e.qs)))
		if err != nil {
			return rows, stopped(ctx, err)
		}
		if i == 0 {
			full = got
		}
		rows = append(rows, e.compare(w, full, got))
	}
	return rows, nil
}

// way puts every question in one way.
func (e *exam) way(ctx context.Context, w Way, par int, tick func()) ([]wayed, error) {
	out := make([]wayed, len(e.qs))
	err := each(ctx, len(e.qs), par, func(ctx context.Context, i int) error {
		defer tick()
		p := &e.prompts[i]
		if p.short != "" {
			return nil
		}
		r := &gen.Request{PromptIDs: p.ids, MaxTokens: &p.room, Exit: w.Exit, KVMode: w.KV}
		if w.Loops > 0 {
			r.Loops = &w.Loops
		}
		a, err := e.s.answer(ctx, r)
		if err != nil {
			return err
		}
		out[i] = wayed{answer: *a, done: true, right: e.qs[i].judge(p, a.Text)}
		return nil
	})
	return out, err
}

// answer gives the most probable answer to a request.
func (s *Subject) answer(ctx context.Context, r *gen.Request) (*gen.Answer, error) {
	greedy, seed := 0.0, uint64(0)
	r.Temperature, r.Seed = &greedy, &seed
	st, err := s.Gen.Generate(ctx, r)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	answers, err := gen.Fold(context.WithoutCancel(ctx), st) // which ends with ctx by itself
	if err != nil {
		return nil, err
	}
	switch a := &answers[0]; a.Finish {
	case gen.FinishCancel:
		return nil, fault.New(fault.Canceled, "", "interrupted")
	case gen.FinishTimeout:
		return nil, fault.New(fault.Timeout, "timeout", "an answer took longer than the time limit of a request")
	default:
		return a, nil
	}
}

func (e *exam) compare(w Way, full, got []wayed) WayRow {
	r := WayRow{Way: w.String()}
	if w.Exit != nil {
		if r.KV = w.Exit.KV; r.KV == "" {
			r.KV = "complete"
		}
	}
	loops, tokens, rows, decoded, equal, all := 0.0, 0, 0, 0, 0, 0
	for i := range got {
		if !got[i].done || !full[i].done {
			continue
		}
		a, b, st := &full[i].answer, &got[i].answer, &got[i].answer.Stats
		r.Questions++
		if a.Text == b.Text {
			r.Same++
		}
		if got[i].right {
			r.Right++
		}
		n := 0
		for n < len(a.IDs) && n < len(b.IDs) && a.IDs[n] == b.IDs[n] {
			n++
		}
		equal, all = equal+n, all+len(a.IDs)
		loops, tokens = loops+st.MeanLoops*float64(st.CompletionTokens), tokens+st.CompletionTokens
		rows, decoded = rows+st.Rows-st.Loops*(st.PromptTokens-st.CachedTokens), decoded+st.CompletionTokens-1
	}
	r.MeanLoops = loops / float64(max(1, tokens))
	r.Passes = float64(rows) / float64(max(1, decoded))
	r.Agreement = 1
	if all > 0 {
		r.Agreement = float64(equal) / float64(all)
	}
	r.Low, r.High = Wilson(r.Right, r.Questions)
	return r
}
