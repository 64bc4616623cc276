package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"tinyloop/internal/arch"
	"tinyloop/internal/eval"
	"tinyloop/internal/fault"
	"tinyloop/internal/host"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// EvalCmd measures how good a model is, at several numbers of loops.
type EvalCmd struct {
	File string `arg:"" help:"Model file (.tinyloop, .gguf, llama2.c .bin) or safetensors folder."`

	Tasks []string `help:"Labelled documents to ask about, as tinyloop data gen writes them (repeatable)." type:"path" placeholder:"FILE"`
	Suite string   `help:"Make the sets here: tinyworld is the synthetic world's valid and test splits, acceptance questions and refusals." enum:",tinyworld" default:""`
	Text  []string `help:"Text to measure bits per byte on, as it stands (repeatable)." type:"path" placeholder:"FILE"`
	Data  string   `help:"Prepared corpus to measure the loss on." type:"place" placeholder:"FOLDER"`
	Split string   `help:"Part of the prepared corpus (${enum})." enum:"train,valid,test" default:"valid"`

	Against []string          `help:"Show how far this other model file is from the model (repeatable)." type:"path" placeholder:"FILE"`
	Types   []string          `help:"Show how far the model is from itself in these number formats, as in: q8_0,q4_0." placeholder:"TYPE"`
	Control map[string]string `help:"Measure this model beside it, as in: --control flat=flat.tinyloop (repeatable)." placeholder:"NAME=FILE"`

	Loops       []int    `help:"Passes through the looped core; those that a model cannot run are left out." default:"1,2,3,4,6,8,12,16"`
	Limit       int      `help:"Questions of each group; 0 = all." default:"50"`
	LossLimit   int      `help:"Documents of each group for the loss; 0 = all." default:"20"`
	Seed        uint64   `help:"Which ones, when there are more." default:"1"`
	Choices     int      `help:"Candidates of a multiple choice; 0 = none." default:"4"`
	ChoiceLimit int      `help:"Multiple choices of each group; 0 = all." default:"10"`
	Refusal     []string `help:"What says that one does not know, where it is not the synthetic world's (repeatable)." sep:"none" placeholder:"TEXT"`
	NoLoss      bool     `help:"Leave out the loss on the documents of the tasks."`
	NoCost      bool     `help:"Leave out the times."`

	Gates  bool               `help:"Hold the numbers against what a looped model must show."`
	Gate   map[string]float64 `help:"Change a threshold, as in: --gate g1.hops=3 (implies --gates)." placeholder:"NAME=VALUE"`
	Strict bool               `help:"Fail when a gate is not passed (implies --gates)."`

	JSON     string `name:"json" help:"Write the whole report here as JSON; - = standard output instead of the tables." type:"place" placeholder:"FILE"`
	Markdown string `help:"Write the tables here as well." type:"place" placeholder:"FILE"`
	SVG      string `name:"svg" help:"Draw accuracy against loops here." type:"place" placeholder:"FILE"`
	Samples  int    `help:"Wrong answers of each group to keep in the JSON." default:"2"`
	Parallel int    `help:"Requests at a time; changes times only." default:"64"`
	Quiet    bool   `short:"q" help:"Do not say how far it is."`

	EngineFlags
}

// Run measures and reports. An interrupt prints what there is, and fails.
func (c *EvalCmd) Run(io *IO) error {
	if err := c.check(); err != nil {
		return err
	}
	t, err := eval.DefaultThresholds().With(c.Gate)
	if err != nil {
		return err
	}
	sets, err := c.sets(io.Ctx)
	if err != nil {
		return err
	}
	v := newEvalView(io, c.Quiet)
	s, err := eval.NewSession(sets, c.options(v))
	if err != nil {
		return err
	}
	err = c.measure(io, s)
	v.end()
	r := s.Report()
	if err != nil && (fault.Of(err) != fault.Canceled || len(r.Models) == 0) {
		return err
	}
	if c.Gates || c.Strict || len(c.Gate) > 0 {
		r.Check(t)
	}
	if werr := c.write(io, r); werr != nil {
		return werr
	}
	if err == nil && c.Strict && r.Failed() {
		err = fault.New(fault.Invalid, "strict", "a gate was not passed")
	}
	return err
}

func (c *EvalCmd) check() error {
	for _, f := range []struct {
		name      string
		v, lo, hi int
	}{{"limit", c.Limit, 0, 1 << 30}, {"loss-limit", c.LossLimit, 0, 1 << 30}, {"choices", c.Choices, 0, 64}, {"choice-limit", c.ChoiceLimit, 0, 1 << 30}, {"samples", c.Samples, 0, 1 << 20},
		{"parallel", c.Parallel, 1, 256}} {
		if f.v < f.lo || f.v > f.hi {
			return fault.New(fault.Invalid, f.name, "--%s must be between %d and %d, got %d", f.name, f.lo, f.hi, f.v)
		}
	}
	if c.Choices == 1 {
		return fault.New(fault.Invalid, "choices", "--choices must be 0 or at least 2, got 1")
	}
	slices.Sort(c.Loops)
	c.Loops = slices.Compact(c.Loops)
	if len(c.Loops) == 0 || c.Loops[0] < 1 {
		return fault.New(fault.Invalid, "loops", "--loops must name numbers of at least 1, got %v", c.Loops)
	}
	for _, name := range c.Types {
		if _, ok := kernel.ParseType(name); !ok {
			return fault.New(fault.Invalid, "types", "--types: unknown number format %q", fault.Clip(name, 40))
		}
	}
	return c.EngineFlags.validate()
}

func (c *EvalCmd) options(v *evalView) eval.Options {
	return eval.Options{Loops: c.Loops, Limit: c.Limit, Docs: c.LossLimit, Seed: c.Seed, Parallel: c.Parallel, Choices: c.Choices, MCLimit: c.ChoiceLimit, Samples: c.Samples,
		Refusals: c.Refusal, NoLoss: c.NoLoss, NoCost: c.NoCost, Progress: v.show}
}

// sets reads what is to be measured.
func (c *EvalCmd) sets(ctx context.Context) ([]*eval.Set, error) {
	var out []*eval.Set
	for _, p := range c.Tasks {
		s, err := eval.ReadDocs(ctx, p)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	if c.Suite != "" {
		w, err := eval.TinyWorld(c.suiteDocs())
		if err != nil {
			return nil, err
		}
		out = append(out, w...)
	}
	for _, p := range c.Text {
		s, err := eval.ReadText(p)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	if c.Data != "" {
		s, err := c.prepared(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, fault.New(fault.Invalid, "tasks", "nothing to measure on: give --tasks FILE, --suite tinyworld, --text FILE or --data FOLDER")
	}
	return out, nil
}

// prepared reads the corpus with the model's tokenizer.
func (c *EvalCmd) prepared(ctx context.Context) (*eval.Set, error) {
	f, err := tensorfile.Open(c.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := host.Tokenizer(f)
	if err != nil {
		return nil, err
	}
	return eval.ReadPrepared(ctx, c.Data, c.Split, t)
}

// suiteDocs is how many documents of each family fill their groups.
func (c *EvalCmd) suiteDocs() int {
	if c.Limit == 0 {
		return 4000
	}
	return min(4000, max(200, 8*c.Limit))
}

// measure runs the model and those beside it, one after the other.
func (c *EvalCmd) measure(io *IO, s *eval.Session) error {
	if err := c.one(io.Ctx, s, nameOf(c.File), c.File, eval.Main); err != nil {
		return err
	}
	own := s.Report().Main().Quant
	for _, typ := range c.Types {
		if strings.EqualFold(typ, own) {
			continue // it is measured already
		}
		if err := c.converted(io, s, typ); err != nil {
			return err
		}
	}
	for _, p := range c.Against {
		if err := c.one(io.Ctx, s, nameOf(p), p, eval.Against); err != nil {
			return err
		}
	}
	names := make([]string, 0, len(c.Control))
	for n := range c.Control {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		if err := c.one(io.Ctx, s, n, c.Control[n], eval.Control); err != nil {
			return err
		}
	}
	return nil
}

// converted measures the model in another number format, from a temporary file.
func (c *EvalCmd) converted(io_ *IO, s *eval.Session, typ string) error {
	dir, err := os.MkdirTemp("", "tinyloop-eval-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, nameOf(c.File)+"."+strings.ToLower(typ)+".tinyloop")
	conv := ConvertCmd{In: c.File, Out: out, Type: typ}
	quiet := *io_
	quiet.Out, quiet.Err = io.Discard, io.Discard
	if err := conv.Run(&quiet); err != nil {
		return err
	}
	return c.one(io_.Ctx, s, nameOf(c.File)+" "+typ, out, eval.Typed)
}

// one loads a model and measures it.
func (c *EvalCmd) one(ctx context.Context, s *eval.Session, name, path string, role eval.Role) error {
	spec, err := specOf(path)
	if err != nil {
		return err
	}
	o := c.EngineFlags.options(nil)
	if o.KVBudget == 0 {
		o.KVBudget = kvFor(spec, c.Parallel, c.Loops)
	}
	m, err := host.Load(name, path, o)
	if err != nil {
		return err
	}
	defer closeModel(m)
	return s.Measure(ctx, &eval.Subject{Name: name, Role: role, Gen: m.Generator, Spec: spec})
}

func specOf(path string) (*model.Spec, error) {
	f, err := tensorfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return arch.SpecOf(f)
}

// kvFor gives room for the requests of a time, of which few fill the window: half a window each at the greatest depth, up to 1 GiB; 0 leaves it to the
// loader where that is less than one whole window.
func kvFor(s *model.Spec, parallel int, loops []int) int64 {
	deepest := min(slices.Max(loops), s.Loops.HardMax)
	window := int64(s.Context+16) * s.KVBytesPerToken(max(deepest, s.Loops.Default), kernel.F32)
	want := min(int64(parallel)*window/2, 1<<30)
	if want < window {
		return 0
	}
	return want
}

// write puts the report where it was asked for: the tables to standard output, unless the JSON goes there.
func (c *EvalCmd) write(io_ *IO, r *eval.Report) error {
	for _, f := range []struct {
		path string
		body func(io.Writer) error
	}{{c.JSON, r.JSON}, {c.Markdown, r.Markdown}, {c.SVG, r.SVG}} {
		if f.path == "" || f.path == "-" {
			continue
		}
		if err := tensorfile.WriteAtomic(f.path, f.body); err != nil {
			return err
		}
	}
	if c.JSON == "-" {
		return r.JSON(io_.Out)
	}
	return r.Markdown(io_.Out)
}

// evalView shows how far it is: a bar on a terminal, elsewhere a line now and then.
type evalView struct {
	out   io.Writer
	bars  *mpb.Progress // nil: lines
	bar   *mpb.Bar
	last  eval.Progress
	shown time.Time
	quiet bool
}

func newEvalView(io *IO, quiet bool) *evalView {
	v := &evalView{out: io.Err, quiet: quiet, shown: time.Now()}
	if f, ok := io.Err.(*os.File); ok && !quiet && term.IsTerminal(int(f.Fd())) {
		v.bars = mpb.NewWithContext(io.Ctx, mpb.WithOutput(io.Err), mpb.WithWidth(40))
	}
	return v
}

// show takes a report; only one call runs at a time.
func (v *evalView) show(p eval.Progress) {
	same := p.Model == v.last.Model && p.Loops == v.last.Loops && p.What == v.last.What
	v.last = p
	if v.quiet {
		return
	}
	name := fmt.Sprintf("%s, %d %s: %s ", printable(p.Model), p.Loops, plural(p.Loops, "loop", "loops"), p.What)
	if v.bars == nil {
		if now := time.Now(); now.Sub(v.shown) >= lineEvery {
			v.shown = now
			fmt.Fprintf(v.out, "%s%d / %d\n", name, p.Done, p.Total)
		}
		return
	}
	if !same {
		if v.bar != nil {
			v.bar.Abort(true)
		}
		v.bar = v.bars.AddBar(int64(p.Total), mpb.PrependDecorators(decor.Name(name), decor.CountersNoUnit("%d / %d")),
			mpb.AppendDecorators(decor.AverageETA(decor.ET_STYLE_GO)), mpb.BarRemoveOnComplete())
	}
	v.bar.SetCurrent(int64(p.Done))
}

// end takes the bar away.
func (v *evalView) end() {
	if v.bars == nil {
		return
	}
	if v.bar != nil {
		v.bar.Abort(true)
	}
	v.bars.Wait()
}
