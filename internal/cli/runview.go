package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
	"golang.org/x/text/width"

	"tinyloop/internal/host"
	"tinyloop/internal/train"
)

// runView shows a training run: a dashboard that is drawn again in its place on a terminal, lines elsewhere.
type runView struct {
	out   io.Writer
	tty   *os.File // nil: lines
	plan  *train.Plan
	shown time.Time
	lines int // of the dashboard as it stands

	steps  []train.StepMetrics // for the curve; every second one is dropped when there are many
	every  int
	evals  []train.EvalMetrics
	note   string
	last   train.StepMetrics
	lastAt int // step of the last line
}

const (
	drawEvery  = 250 * time.Millisecond
	mostPoints = 4000
	narrowest  = 40 // columns that a plot needs
)

func newRunView(io *IO, plain bool) *runView {
	v := &runView{out: io.Err, every: 1}
	if f, ok := io.Err.(*os.File); ok && !plain && term.IsTerminal(int(f.Fd())) {
		v.tty = f
	}
	return v
}

// Start implements train.View: what the run is, and the memory that it is going to take.
func (v *runView) Start(p *train.Plan) {
	v.plan = p
	fmt.Fprintf(v.out, "%s: %s parameters, %s applied to a token, %s\n", printable(p.Config.Name), countText(p.Params), countText(p.Unrolled), printable(p.Init))
	length := "for " + time.Duration(p.Config.Budget).String() + " and a last evaluation"
	if p.Steps > 0 {
		length = fmt.Sprintf("%d steps", p.Steps)
	}
	fmt.Fprintf(v.out, "%s of %d rows of %d tokens on %d threads; a pass over the corpus is %d steps\n", length, p.Rows, p.Context, p.Workers, p.PerPass)
	m := &p.Memory
	fmt.Fprintf(v.out, "memory %s: weights %s, gradients %s, optimizer %s, activations %s, batches %s, evaluation %s\n", host.SizeText(m.Total()), host.SizeText(m.Weights), host.SizeText(m.Gradients),
		host.SizeText(m.Optimizer), host.SizeText(m.Activations), host.SizeText(m.Batches), host.SizeText(m.Evaluation))
	if !p.Validation {
		fmt.Fprintln(v.out, "the corpus has no validation part: nothing tells which weights are best")
	}
}

// Step implements train.View.
func (v *runView) Step(m *train.StepMetrics) {
	if m.Step%v.every == 0 {
		v.steps = append(v.steps, *m)
		if len(v.steps) >= mostPoints {
			v.thin()
		}
	}
	v.last = *m
	now := time.Now()
	if v.tty != nil {
		if now.Sub(v.shown) >= drawEvery {
			v.shown = now
			v.draw(m)
		}
		return
	}
	if m.Skipped || v.lastAt == 0 || now.Sub(v.shown) >= lineEvery && m.Step-v.lastAt >= 10 || now.Sub(v.shown) >= 10*lineEvery {
		v.shown, v.lastAt = now, m.Step
		fmt.Fprintln(v.out, v.stepLine(m))
	}
}

// thin drops every second point of the curve.
func (v *runView) thin() {
	kept := v.steps[:0]
	for i := 1; i < len(v.steps); i += 2 {
		kept = append(kept, v.steps[i])
	}
	v.steps, v.every = kept, 2*v.every
}

func (v *runView) stepLine(m *train.StepMetrics) string {
	s := fmt.Sprintf("step %s %5.1f %%  loss %.4f  acc %4.1f %%", stepsText(m.Step, v.plan.Steps), 100*m.Progress, m.Loss, 100*m.Accuracy)
	if m.TraceLoss > 0 {
		s += fmt.Sprintf("  states %.2f", m.TraceLoss)
	}
	s += fmt.Sprintf("  loops %.1f/%d", m.Loops, m.MaxLoops)
	if m.Level > 0 {
		s += fmt.Sprintf("  level %d", m.Level)
	}
	s += fmt.Sprintf("  pass %.1f", m.Passes)
	s += fmt.Sprintf("  lr %.3f  |g| %.3f  %s tok/s  left %s", m.LR, m.Norm, countText(int64(m.Rate)), m.Left.Round(time.Second))
	if n := len(m.Hidden); n > 1 {
		s += fmt.Sprintf("  |h| %.2f-%.2f", m.Hidden[0], m.Hidden[n-1])
	}
	if m.Skipped {
		s += "  SKIPPED"
	}
	return s
}

// Eval implements train.View.
func (v *runView) Eval(m *train.EvalMetrics) {
	v.evals = append(v.evals, *m)
	if v.tty != nil {
		v.draw(&v.last)
		return
	}
	fmt.Fprintln(v.out, evalLine(m))
	for _, a := range m.Answers {
		fmt.Fprintln(v.out, answersLine(&a))
	}
	for i := range m.Samples {
		fmt.Fprintf(v.out, "  %s\n    %s\n", printable(m.Samples[i].Prompt), sampleText(&m.Samples[i]))
	}
}

func evalLine(m *train.EvalMetrics) string {
	s := fmt.Sprintf("eval %d:", m.Step)
	for _, a := range m.Valid {
		if a.Diverged {
			s += fmt.Sprintf("  r=%d no finite loss", a.Loops)
			continue
		}
		s += fmt.Sprintf("  r=%d loss %.4f bpb %.4f acc %.1f %%", a.Loops, a.Loss, a.BPB, 100*a.Accuracy)
	}
	if len(m.Valid) == 0 {
		s += "  no document is kept for validation"
	}
	if m.Best {
		s += "  best"
	}
	return s
}

func sampleText(s *train.Sample) string {
	if s.Error != "" {
		return "(no answer: " + printable(s.Error) + ")"
	}
	return printable(strings.ReplaceAll(s.Text, "\n", " ↵ "))
}

func answersLine(a *train.Answers) string {
	s := fmt.Sprintf("  answers %-10s (%d)", printable(a.Group), a.Count)
	for i, r := range a.Loops {
		s += fmt.Sprintf("  r=%d %.1f %%", r, 100*a.Accuracy[i])
	}
	return s
}

// Note implements train.View.
func (v *runView) Note(text string) {
	v.note = text
	if v.tty == nil {
		fmt.Fprintln(v.out, text)
	}
}

// draw writes the dashboard over the one before.
func (v *runView) draw(m *train.StepMetrics) {
	width, height, err := term.GetSize(int(v.tty.Fd()))
	if err != nil || width < 1 || height < 1 {
		width, height = 80, 24
	}
	plot := 2 // rows before the plot, which fits the width by itself and holds colours
	rows := []string{bar(m.Progress, min(max(width-50, 10), 100)) + fmt.Sprintf(" %5.1f %%  step %s  left %s", 100*m.Progress, stepsText(m.Step, v.plan.Steps), m.Left.Round(time.Second)),
		v.stepLine(m)}
	if len(v.steps) > 2 && width >= narrowest {
		rows = append(rows, strings.Split(lossPlot(v.steps, v.evals, width, min(max(height-14, 4), 10), true), "\n")...)
		plot = len(rows)
	}
	if n := len(v.evals); n > 0 {
		e := &v.evals[n-1]
		rows = append(rows, evalLine(e))
		for _, a := range e.Answers {
			rows = append(rows, answersLine(&a))
		}
		if k := len(e.Samples); k > 0 { // one after the other
			s := &e.Samples[int(time.Now().Unix()/4)%k]
			rows = append(rows, "  "+printable(s.Prompt), "    "+sampleText(s))
		}
	}
	rows = append(rows, v.note)
	rows = rows[:min(len(rows), max(height-1, 1))]
	var b strings.Builder
	if v.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.lines)
	}
	for i, r := range rows {
		if i < 2 || i >= plot {
			r = cut(r, max(width-1, 1))
		}
		b.WriteString("\r" + r + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	v.lines = len(rows)
	io.WriteString(v.tty, b.String())
}

func bar(part float64, width int) string {
	full := min(max(int(part*float64(width)+0.5), 0), width)
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// cut shortens a line to so many columns of a terminal. Wide characters take two; the others count as one, also those that take none.
func cut(s string, columns int) string {
	for i, r := range s {
		if columns -= columnsOf(r); columns < 0 {
			return s[:i]
		}
	}
	return s
}

func columnsOf(r rune) int {
	switch k := width.LookupRune(r).Kind(); {
	case k == width.EastAsianWide, k == width.EastAsianFullwidth, r >= 0x1F300 && r <= 0x1FAFF:
		return 2
	}
	return 1
}
