package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"tinyloop/internal/eval"
	"tinyloop/internal/fault"
	"tinyloop/internal/gen"
)

// WaysCmd shows what leaving early, fewer loops and shared K/V cost in answers.
type WaysCmd struct {
	EngineFlags
	File     string   `arg:"" optional:"" help:"Model file (.tinyloop, .gguf, llama2.c .bin) or safetensors folder; absent = the model inside the program."`
	Tasks    []string `help:"Labelled documents to ask about, as tinyloop data gen writes them (repeatable)." type:"path" placeholder:"FILE"`
	Suite    string   `help:"Make the sets here: tinyworld is the synthetic world's." enum:",tinyworld" default:""`
	Exit     []string `help:"Exit rules with their thresholds, as in latent:0.1:0.03; none = no exits. Without a threshold several are tried." default:"gate,latent,accel,kl,entropy,argmax"`
	Deepest  bool     `help:"Try every exit with exit.kv deepest too."`
	MinLoops int      `help:"Passes that every exit makes in any case." default:"1"`
	KV       []string `name:"kv" help:"Policies of K/V; none = none." default:"last,mean,mod:2"`
	Limit    int      `help:"Questions of each group; 0 = all." default:"20"`
	Seed     uint64   `help:"Which ones, when there are more." default:"1"`
	Parallel int      `help:"Requests at a time; changes times only." default:"16"`
	JSON     bool     `name:"json" help:"Print JSON instead of the table."`
	Quiet    bool     `short:"q" help:"Do not say how far it is."`
}

// thresholds that are tried of a rule where none is named: from loose to strict.
var thresholds = map[string][]float64{
	"gate": {0.3, 0.5, 0.7, 0.9}, "latent": {0.3, 0.1, 0.03}, "accel": {0.3, 0.1, 0.03}, "kl": {0.05, 0.005, 0.0005}, "entropy": {0.1, 0.01, 0.001}, "argmax": {2, 3},
}

// Run asks and prints.
func (c *WaysCmd) Run(io_ *IO) error {
	if c.Limit < 0 || c.Parallel < 1 || c.Parallel > 256 || c.MinLoops < 1 {
		return fault.New(fault.Invalid, "limit", "--limit must be at least 0, --parallel 1 to 256 and --min-loops at least 1, are %d, %d and %d", c.Limit, c.Parallel, c.MinLoops)
	}
	from := EvalCmd{File: c.File, Tasks: c.Tasks, Suite: c.Suite, Limit: c.Limit}
	sets, err := from.sets(io_.Ctx)
	if err != nil {
		return err
	}
	v := newEvalView(io_, c.Quiet)
	s, err := eval.NewSession(sets, eval.Options{Limit: c.Limit, Seed: c.Seed, Parallel: c.Parallel, Progress: v.show})
	if err != nil {
		return err
	}
	file := ModelFlag{Model: c.File}
	m, err := file.load(&c.EngineFlags, nil)
	if err != nil {
		return err
	}
	defer closeModel(m)
	ways, err := c.ways(m.Info().Loops.Default, m.Engine().Limits().Gate)
	if err != nil {
		return err
	}
	rows, err := s.Ways(io_.Ctx, &eval.Subject{Name: m.Name, Role: eval.Main, Gen: m.Generator}, ways)
	v.end()
	if err != nil && len(rows) == 0 {
		return err
	}
	if c.JSON {
		if werr := io_.writeJSON(rows); werr != nil {
			return werr
		}
		return err
	}
	if werr := waysTable(io_.Out, rows); werr != nil {
		return werr
	}
	return err
}

// ways lists what is tried: fewer loops, exits, policies.
func (c *WaysCmd) ways(loops int, gate bool) ([]eval.Way, error) {
	var out []eval.Way
	for n := 1; n < loops; n++ {
		out = append(out, eval.Way{Loops: n})
	}
	if loops < 2 {
		return nil, fault.New(fault.Invalid, "model", "the model makes one pass unless a request says otherwise: there is nothing to leave out")
	}
	for _, x := range c.Exit {
		if x == "none" {
			continue
		}
		rule, list, given := strings.Cut(x, ":")
		if rule == "gate" && !gate && !given {
			continue // the default list names all rules
		}
		if _, ok := thresholds[rule]; !ok {
			return nil, fault.New(fault.Invalid, "exit", "--exit must name gate, latent, accel, kl, entropy, argmax or none, got %q", fault.Clip(rule, 40))
		}
		values := thresholds[rule]
		if given {
			values = nil
			for _, f := range strings.Split(list, ":") {
				t, err := strconv.ParseFloat(f, 64)
				if err != nil || !(t > 0) {
					return nil, fault.New(fault.Invalid, "exit", "--exit %s: a threshold must be a number above 0, got %q", rule, fault.Clip(f, 40))
				}
				values = append(values, t)
			}
		}
		kvs := []string{"complete"}
		if c.Deepest {
			kvs = append(kvs, "deepest")
		}
		for _, t := range values {
			for _, kv := range kvs {
				out = append(out, eval.Way{Exit: &gen.Exit{Rule: rule, Threshold: &t, MinLoops: &c.MinLoops, KV: kv}})
			}
		}
	}
	for _, kv := range c.KV {
		if kv == "none" {
			continue
		}
		if _, _, err := gen.ParseKVMode(kv); err != nil {
			return nil, err
		}
		out = append(out, eval.Way{KV: kv})
	}
	return slices.Clip(out), nil
}

// waysTable writes Markdown that reads as a table on a terminal too.
func waysTable(w io.Writer, rows []eval.WayRow) error {
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprint(t, "| way\t| exit.kv\t| mean loops\t| passes a token\t| same answers\t| tokens before a difference\t| right\t| 95 %\t|\n")
	fmt.Fprint(t, "|---\t|---\t|---\t|---\t|---\t|---\t|---\t|---\t|\n")
	for _, r := range rows {
		n := float64(max(1, r.Questions)) / 100
		fmt.Fprintf(t, "| %s\t| %s\t| %.2f\t| %.2f\t| %d of %d (%.1f %%)\t| %.1f %%\t| %d (%.1f %%)\t| %.1f to %.1f\t|\n", r.Way, r.KV, r.MeanLoops, r.Passes, r.Same, r.Questions, float64(r.Same)/n,
			100*r.Agreement, r.Right, float64(r.Right)/n, 100*r.Low, 100*r.High)
	}
	return t.Flush()
}
