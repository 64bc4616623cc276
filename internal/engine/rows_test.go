package engine

import (
	"fmt"
	"testing"

	"tinyloop/internal/model"
	"tinyloop/internal/sample"
	"tinyloop/internal/scripted"
)

// TestNumbersByPosition: output position i of choice c is drawn with Uniform(seed, c, i), whatever the prompt.
func TestNumbersByPosition(t *testing.T) {
	m := scripted.New(scripted.Options{Answers: []scripted.Answer{{Steps: []scripted.Step{{{ID: 3, P: 0.5}, {ID: 8, P: 0.5}}}}}})
	e := start(t, m, Config{})
	s := submit(t, e, &Request{Prompt: prompt(21, 1), MaxTokens: 30, Choices: 3, Sampling: sample.Params{Temperature: 1, Seed: 77}})
	s.wait(t)
	for c := range 3 {
		var want []int32
		for i := range 30 {
			if sample.Uniform(77, c, i) < 0.5 {
				want = append(want, 3)
			} else {
				want = append(want, 8)
			}
		}
		wantTokens(t, s, c, want, Length)
	}
}

// watched notes the attention spans that rows come with.
type watched struct {
	*scripted.Model
	spans map[string]bool
}

func (w *watched) Enter(rows []model.Row) {
	for i := range rows {
		w.spans[fmt.Sprintf("%d+%d depth %d", rows[i].Sinks, rows[i].Window, rows[i].Depth)] = true
	}
	w.Model.Enter(rows)
}

// TestRowsAsAsked: every row carries the request's window, sinks and loops; a window that hides nothing is none.
func TestRowsAsAsked(t *testing.T) {
	for _, c := range []struct {
		window, sinks, loops int
		want                 string
	}{{0, 0, 0, "0+0 depth 4"}, {28, 3, 2, "3+28 depth 2"}, {29, 3, 2, "0+0 depth 2"}, {16, 0, 1, "0+16 depth 1"}} {
		w := &watched{Model: scripted.New(scripted.Options{}), spans: map[string]bool{}}
		e := New(w, Config{})
		submit(t, e, &Request{Prompt: prompt(20, 1), MaxTokens: 10, Window: c.window, Sinks: c.sinks, Loops: c.loops}).wait(t)
		e.Close()
		if len(w.spans) != 1 || !w.spans[c.want] {
			t.Errorf("%+v: rows came with %v", c, w.spans)
		}
	}
}
