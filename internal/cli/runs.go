package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/guptarohit/asciigraph"

	"tinyloop/internal/fault"
	"tinyloop/internal/train"
)

// RunsCmd groups the commands that look at what was trained.
type RunsCmd struct {
	List   RunsListCmd   `cmd:"" help:"List the runs in a folder."`
	Show   RunsShowCmd   `cmd:"" help:"Say what a run did: recipe, machine, curve, evaluations, samples."`
	Replay RunsReplayCmd `cmd:"" help:"Train a run again from its manifest and compare what comes out."`
}

// RunsListCmd lists runs.
type RunsListCmd struct {
	Folder string `arg:"" optional:"" help:"Folder with runs in it." type:"place" default:"runs"`
}

// Run prints a line a run.
func (c *RunsListCmd) Run(io *IO) error {
	dirs, err := train.List(c.Folder)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(io.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "run\tstatus\tstep\ttokens\ttime\tbest bits/byte\tparameters\tbegan\t")
	for _, dir := range dirs {
		m, err := train.ReadManifest(dir)
		if err != nil {
			fmt.Fprintf(t, "%s\t%s\t\n", printable(runName(dir)), printable(err.Error()))
			continue
		}
		p := &m.Progress
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", printable(runName(dir)), printable(string(m.Status)), stepsText(p.Step, m.Steps), countText(p.Tokens), seconds(p.Seconds),
			bpbText(p.Best), countText(m.Model.Params), began(m))
	}
	return t.Flush()
}

func stepsText(step, of int) string {
	if of == 0 {
		return fmt.Sprint(step)
	}
	return fmt.Sprintf("%d/%d", step, of)
}

func bpbText(v float64) string {
	if v <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.4f", v)
}

func began(m *train.Manifest) string {
	if len(m.Sittings) == 0 {
		return "-"
	}
	return m.Sittings[0].Began.Format(time.DateTime)
}

// RunsShowCmd shows one run.
type RunsShowCmd struct {
	Run_ string `arg:"" name:"run" help:"Folder of the run." type:"place"`
}

// Run prints the manifest for people.
func (c *RunsShowCmd) Run(io *IO) error {
	m, err := train.ReadManifest(c.Run_)
	if err != nil {
		return err
	}
	showHead(io.Out, c.Run_, m)
	if steps, err := train.ReadMetrics(c.Run_); err == nil && len(steps) > 1 {
		fmt.Fprintf(io.Out, "\nloss, nats a token\n%s\n", lossPlot(steps, m.Evaluations, 72, 10, isTerminal(io.Out)))
	}
	if n := len(m.Evaluations); n > 0 {
		fmt.Fprintln(io.Out)
		for i := range m.Evaluations {
			fmt.Fprintln(io.Out, evalLine(&m.Evaluations[i]))
		}
		e := &m.Evaluations[n-1]
		for _, a := range e.Answers {
			fmt.Fprintln(io.Out, answersLine(&a))
		}
		for i := range e.Samples {
			fmt.Fprintf(io.Out, "  %s\n    %s\n", printable(e.Samples[i].Prompt), sampleText(&e.Samples[i]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Artifacts)) {
		fmt.Fprintf(io.Out, "%s  sha256 %s\n", printable(name), printable(m.Artifacts[name]))
	}
	return nil
}

func showHead(w io.Writer, dir string, m *train.Manifest) {
	p := &m.Progress
	fmt.Fprintf(w, "%s: %s, %s, seed %d\n", printable(runName(dir)), printable(m.Name), printable(string(m.Status)), m.Config.Seed)
	if m.Error != "" {
		fmt.Fprintf(w, "error      %s\n", printable(m.Error))
	}
	fmt.Fprintf(w, "model      %s parameters, %s applied to a token, vocabulary %d, rows of %d tokens\n", countText(m.Model.Params), countText(m.Model.Unrolled), m.Model.Vocab, m.Model.Context)
	fmt.Fprintf(w, "done       %s steps, %s tokens, %.3g FLOP in %s (%.1f GFLOP/s), %d skipped\n", stepsText(p.Step, m.Steps), countText(p.Tokens), p.FLOPs, seconds(p.Seconds), p.FLOPs/1e9/max(p.Seconds, 1e-9), p.Skipped)
	fmt.Fprintf(w, "corpus     %s, manifest %.12s, tokenizer %.12s\n", printable(m.Corpus.Path), printable(m.Corpus.Manifest), printable(m.Corpus.Tokenizer))
	fmt.Fprintf(w, "machine    %s, %d cores, %d threads, %s kernels, %s/%s, %s\n", printable(m.Machine.CPU), m.Machine.Cores, m.Machine.Threads, printable(m.Machine.Kernels), printable(m.Machine.OS), printable(m.Machine.Arch), printable(m.Machine.Go))
	fmt.Fprintf(w, "program    %s %.12s, %s\n", printable(m.Version), printable(m.Commit), printable(strings.Join(m.Args, " ")))
	for _, s := range m.Sittings {
		fmt.Fprintf(w, "sitting    %s, steps %d to %d\n", s.Began.Format(time.DateTime), s.From, s.To)
	}
}

// lossPlot draws the loss, and with colours, which tell them apart, that of validation at the deepest loop count over it.
func lossPlot(steps []train.StepMetrics, evals []train.EvalMetrics, width, height int, colour bool) string {
	loss := make([]float64, 0, len(steps))
	valid := make([]float64, 0, len(steps))
	next, last := 0, 0.0
	for _, s := range steps {
		for next < len(evals) && evals[next].Step <= s.Step {
			if v := evals[next].Valid; len(v) > 0 {
				last = v[len(v)-1].Loss
			}
			next++
		}
		loss = append(loss, s.Loss)
		valid = append(valid, last)
	}
	width = max(width-10, 10)
	series := [][]float64{shrink(loss, width)}
	if last > 0 && colour {
		for i, v := range valid { // before the first evaluation there is none: the line begins where it does
			if v == 0 {
				valid[i] = loss[i]
			}
		}
		series = append(series, shrink(valid, width))
	}
	options := []asciigraph.Option{asciigraph.Height(height), asciigraph.Precision(2)}
	if len(series) > 1 {
		options = append(options, asciigraph.SeriesColors(asciigraph.Default, asciigraph.Blue))
	}
	return asciigraph.PlotMany(series, options...)
}

// shrink averages a series down to n points.
func shrink(x []float64, n int) []float64 {
	if len(x) <= n {
		return x
	}
	out := make([]float64, n)
	for i := range out {
		lo, hi := i*len(x)/n, (i+1)*len(x)/n
		for _, v := range x[lo:hi] {
			out[i] += v / float64(hi-lo)
		}
	}
	return out
}

// RunsReplayCmd trains again.
type RunsReplayCmd struct {
	Run_    string `arg:"" name:"run" help:"Folder of the run to repeat." type:"place"`
	Out     string `short:"o" required:"" help:"Folder of the new run." type:"place" placeholder:"FOLDER"`
	Threads int    `help:"Compute threads; 0 = one per core." default:"0"`
	Plain   bool   `help:"Lines instead of the dashboard, on a terminal too."`
}

// Run repeats a run of counted steps and says whether the same weights came out, byte for byte.
func (c *RunsReplayCmd) Run(io *IO) error {
	m, err := train.ReadManifest(c.Run_)
	if err != nil {
		return err
	}
	switch {
	case m.Config.Budget != 0:
		return fault.New(fault.Invalid, "run", "%s was trained by the clock (--budget): it cannot be repeated bit for bit", c.Run_)
	case m.Status != train.Done:
		return fault.New(fault.Invalid, "run", "%s is %s, only a run that is done can be repeated", c.Run_, m.Status)
	}
	f := RunFlags{Out: c.Out}
	t, err := f.tokenizer(&m.Config)
	if err != nil {
		return err
	}
	o := train.Options{Config: m.Config, Dir: c.Out, Tokenizer: t, Threads: c.Threads, Replays: c.Run_}
	if err := startRun(io, o, c.Plain); err != nil {
		return err
	}
	again, err := train.ReadManifest(c.Out)
	if err != nil {
		return err
	}
	was, is := m.Artifacts[train.LastName], again.Artifacts[train.LastName]
	if was != is {
		return fault.New(fault.Invalid, "run", "the weights differ: %s has the hash %.16s, the run's was %.16s (kernels %s now, %s then; corpus %.12s, then %.12s)",
			train.LastName, is, was, again.Machine.Kernels, m.Machine.Kernels, again.Corpus.Manifest, m.Corpus.Manifest)
	}
	fmt.Fprintf(io.Out, "the same weights: sha256 %s\n", is)
	return nil
}
