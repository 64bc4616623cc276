package cli

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"tinyloop/internal/train"
)

func TestCurveFitsItsWidth(t *testing.T) {
	var steps []train.StepMetrics
	for i := range 1000 {
		steps = append(steps, train.StepMetrics{Step: i + 1, Loss: 8 - float64(i)/200})
	}
	evals := []train.EvalMetrics{{Step: 500, Valid: []train.AtLoops{{Loops: 1, Loss: 9}, {Loops: 8, Loss: 6}}}}
	plot := lossPlot(steps, evals, 60, 8, false)
	lines := strings.Split(plot, "\n")
	if len(lines) != 9 {
		t.Errorf("%d lines, expected 9", len(lines))
	}
	for _, l := range lines {
		if n := utf8.RuneCountInString(l); n > 60 {
			t.Errorf("a line of %d characters: %q", n, l)
		}
	}
	if !strings.Contains(lines[0], "7.9") || strings.Contains(plot, "\x1b") {
		t.Errorf("the plot is\n%s", plot)
	}
	if coloured := lossPlot(steps, evals, 60, 8, true); !strings.Contains(coloured, "\x1b[") {
		t.Error("two curves without colours")
	}
}

func TestShrinkAverages(t *testing.T) {
	if got := shrink([]float64{1, 3, 5, 7, 9}, 2); !slices.Equal(got, []float64{2, 7}) {
		t.Errorf("%v", got)
	}
	if got := shrink([]float64{1, 2}, 5); !slices.Equal(got, []float64{1, 2}) {
		t.Errorf("%v", got)
	}
}

func TestLongRunsKeepACurve(t *testing.T) {
	v := &runView{out: &strings.Builder{}, every: 1, plan: &train.Plan{Steps: 20000}}
	for i := range 20000 {
		v.Step(&train.StepMetrics{Step: i + 1, Loss: 1})
	}
	if n := len(v.steps); n < mostPoints/4 || n >= mostPoints {
		t.Errorf("%d points are kept", n)
	}
	for i := 1; i < len(v.steps); i++ {
		if d := v.steps[i].Step - v.steps[i-1].Step; d != v.every {
			t.Fatalf("points %d and %d are %d steps apart, others %d", i-1, i, d, v.every)
		}
	}
}

func TestBarAndCut(t *testing.T) {
	if got := bar(0.5, 4); got != "██░░" {
		t.Error(got)
	}
	if bar(2, 3) != "███" || bar(-1, 3) != "░░░" {
		t.Error("outside its range")
	}
	if cut("élan vital", 4) != "élan" || cut("é", 4) != "é" {
		t.Error("cut")
	}
}

func TestLinesFitTheirColumns(t *testing.T) {
	for in, want := range map[string]string{"abcdef": "abcd", "日本語": "日本", "a日本語": "a日", "ab": "ab", "é😀x!": "é😀x"} {
		if got := cut(in, 4); got != want {
			t.Errorf("cut %q to 4 columns: %q, expected %q", in, got, want)
		}
	}
}
