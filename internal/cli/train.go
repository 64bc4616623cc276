package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tinyloop/internal/fault"
	"tinyloop/internal/tok"
	"tinyloop/internal/train"
)

// RunFlags are what pretraining and fine-tuning share. A flag wins over the recipe.
type RunFlags struct {
	Data      string         `help:"Corpus: a folder that tinyloop data prepare made." type:"place" placeholder:"FOLDER"`
	Tokenizer string         `help:"Tokenizer that the corpus was prepared with: gpt2, a tokenizer.json, or a model that holds one." placeholder:"FILE"`
	Out       string         `short:"o" required:"" help:"Folder of the run: manifest, metrics, checkpoints, best.tinyloop." type:"place" placeholder:"FOLDER"`
	Resume    bool           `help:"Go on from the last checkpoint in --out, with the recipe that its run.json holds."`
	Steps     *int           `help:"Train for so many steps." placeholder:"N"`
	Epochs    *float64       `help:"Train for so many passes over the corpus." placeholder:"X"`
	Budget    *time.Duration `help:"Train for so long, as in 10m; a last evaluation follows. Such a run gives other bits each time." placeholder:"TIME"`
	Seed      *uint64        `help:"Seed of the weights, the order of the rows and the loop counts." placeholder:"N"`
	Set       []string       `help:"Change one setting of the recipe, as in optimizer.matrix=0.01 (repeatable)." sep:"none" placeholder:"KEY=VALUE"`
	Threads   int            `help:"Compute threads; 0 = one per core. They change nothing about the result." env:"TINYLOOP_THREADS" default:"0"`
	Plain     bool           `help:"Lines instead of the dashboard, on a terminal too."`
}

// TrainCmd pretrains a model by a recipe.
type TrainCmd struct {
	Recipe string `arg:"" optional:"" help:"Recipe (TOML), as those in recipes/; the defaults when absent." type:"place" placeholder:"RECIPE"`
	Preset string `help:"Shape of the model, instead of the recipe's: toy, nano, mid, demo or big." placeholder:"NAME"`
	From   string `help:"Begin with the weights of this run, checkpoint or model." type:"place" placeholder:"FILE"`
	RunFlags
}

// Run trains. An interrupt saves a checkpoint and ends with status 1; --resume goes on from there.
func (c *TrainCmd) Run(io *IO) error {
	settings := c.Set
	if c.Preset != "" {
		settings = append([]string{"model.preset=" + strconv.Quote(c.Preset)}, settings...)
	}
	return c.run(io, train.Default(), c.Recipe, c.From, settings, nil)
}

// run joins recipe and flags and trains, if the corpus is to the liking of fits; nil = any is.
func (f *RunFlags) run(io *IO, base train.Config, recipe, from string, settings []string, fits func(io *IO, corpus string) error) error {
	c, err := f.config(base, recipe, from, settings)
	if err != nil {
		return err
	}
	if fits != nil {
		if err := fits(io, c.Data.Corpus); err != nil {
			return err
		}
	}
	t, err := f.tokenizer(&c)
	if err != nil {
		return err
	}
	if f.Threads < 0 || f.Threads > 256 {
		return fault.New(fault.Invalid, "threads", "--threads must be 0 to 256, is %d", f.Threads)
	}
	return startRun(io, train.Options{Config: c, Dir: f.Out, Resume: f.Resume, Tokenizer: t, Threads: f.Threads}, f.Plain)
}

// startRun trains with a view on the terminal and prints what came of it.
func startRun(io *IO, o train.Options, plain bool) error {
	o.Version, o.Args = Version, os.Args[1:]
	v := newRunView(io, plain)
	o.View = v
	m, err := train.Run(io.Ctx, o)
	if m != nil {
		fmt.Fprintf(io.Out, "%s: %s after step %d, %s tokens in %s", printable(o.Dir), m.Status, m.Progress.Step, countText(m.Progress.Tokens), seconds(m.Progress.Seconds))
		if m.Progress.Best > 0 {
			fmt.Fprintf(io.Out, "; best %.4f bits a byte at step %d", m.Progress.Best, m.Progress.BestAt)
		}
		fmt.Fprintln(io.Out)
	}
	return err
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

// config reads the recipe, or with --resume that of the run, and puts the flags on top.
func (f *RunFlags) config(base train.Config, recipe, from string, settings []string) (train.Config, error) {
	if f.Resume {
		if recipe != "" {
			return base, fault.New(fault.Invalid, "resume", "--resume takes the recipe of the run in --out: name no other; --set changes single settings")
		}
		if from != "" {
			return base, fault.New(fault.Invalid, "resume", "--resume takes the weights of the run in --out: name no others")
		}
		m, err := train.ReadManifest(f.Out)
		if err != nil {
			return base, err
		}
		base = m.Config
	}
	c, err := train.Load(base, recipe, settings)
	if err != nil {
		return c, err
	}
	if f.Data != "" {
		c.Data.Corpus = f.Data
	}
	if f.Tokenizer != "" {
		c.Data.Tokenizer = f.Tokenizer
	}
	if from != "" {
		c.Init.From = from
	}
	if f.Seed != nil {
		c.Seed = *f.Seed
	}
	return c, f.length(&c)
}

// length takes how long to train from the flags, if one of them says.
func (f *RunFlags) length(c *train.Config) error {
	if f.Steps == nil && f.Epochs == nil && f.Budget == nil {
		return nil
	}
	c.Steps, c.Epochs, c.Budget = 0, 0, 0
	if f.Steps != nil {
		if c.Steps = *f.Steps; c.Steps < 1 {
			return fault.New(fault.Invalid, "steps", "--steps must be 1 or more, is %d", c.Steps)
		}
	}
	if f.Epochs != nil {
		if c.Epochs = *f.Epochs; !(c.Epochs > 0) {
			return fault.New(fault.Invalid, "epochs", "--epochs must be above 0, is %g", c.Epochs)
		}
	}
	if f.Budget != nil {
		if c.Budget = train.Duration(*f.Budget); c.Budget <= 0 {
			return fault.New(fault.Invalid, "budget", "--budget must be above 0, is %v", *f.Budget)
		}
	}
	return nil
}

// tokenizer reads the tokenizer that the recipe names, or that of the weights that the run begins or goes on with.
func (f *RunFlags) tokenizer(c *train.Config) (*tok.Tokenizer, error) {
	if last, ok := train.LastCheckpoint(f.Out); f.Resume && ok && f.Tokenizer == "" {
		t, _, err := loadTokenizer(last)
		if err != nil {
			return nil, train.BrokenCheckpoint(f.Out, err)
		}
		return t, nil
	}
	path := c.Data.Tokenizer
	if path == "" {
		path = weightsOf(c.Init.From)
	}
	if path == "" {
		return nil, fault.New(fault.Invalid, "tokenizer", "no tokenizer: name the one that the corpus was prepared with by --tokenizer")
	}
	t, _, err := loadTokenizer(path)
	return t, err
}

// weightsOf gives the model file of a run's folder; other paths are themselves.
func weightsOf(path string) string {
	if path == "" {
		return ""
	}
	if last, ok := train.LastCheckpoint(path); ok {
		return last
	}
	return path
}

// runName names a run by its folder.
func runName(dir string) string {
	if full, err := filepath.Abs(dir); err == nil {
		dir = full
	}
	return strings.TrimSpace(filepath.Base(dir))
}
