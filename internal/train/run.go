// Package train teaches models: pretraining, chat fine-tuning, checkpoints that go on bit for bit, and the folder that says what was done.
//
//	Loader.Next(step) ── shards ── draw loops ── Tape.Grad ── sum in a tree ── clip ── optim.Step ── average
//	every so often: validation at several loop counts, samples through the engine, best weights, checkpoint, one line of metrics a step
package train

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"time"

	"tinyloop/internal/data"
	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
	"tinyloop/internal/machine"
	"tinyloop/internal/model"
	"tinyloop/internal/optim"
	"tinyloop/internal/tok"
)

// Options are what a run needs besides its recipe.
type Options struct {
	Config    Config
	Dir       string         // the run's folder
	Resume    bool           // go on from the last checkpoint in Dir
	Tokenizer *tok.Tokenizer // that of the corpus
	Version   string         // of the program, for run.json
	Args      []string       // of the command line, for run.json
	Replays   string         // folder of the run that this one repeats
	Threads   int            // 0 = one per core
	View      View
}

// run is a run under way.
type run struct {
	o        Options
	cfg      *Config
	spec     *model.Spec
	id       *identity
	corpus   *corpus
	t        *trainer
	eval     *evaluator
	manifest *Manifest
	metrics  *metricsFile
	lock     *os.File       // of the folder
	groups   []*data.Loader // of Eval.Answers
	st       state

	steps  int // 0 = by time
	levels int // greatest level of the curriculum; 0 = none
	saved  int // step of the last checkpoint
	began  time.Time
	rate   rate
	parent string
}

// Run trains to the end of the recipe, or until ctx ends: then it saves a checkpoint and gives an error of kind Canceled. It prints nothing; o.View is
// told everything.
func Run(ctx context.Context, o Options) (*Manifest, error) {
	if o.Threads <= 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	o.Threads = min(o.Threads, o.Config.Batch.Shards)
	r := &run{o: o, cfg: &o.Config}
	defer r.close()
	if err := r.prepare(); err != nil {
		return nil, err
	}
	err := r.loop(ctx)
	return r.manifest, r.finish(ctx, err)
}

func (r *run) close() {
	if r.t != nil {
		r.t.close()
	}
	if r.corpus != nil {
		r.corpus.close()
	}
	if r.metrics != nil {
		r.metrics.close()
	}
	if r.lock != nil {
		r.lock.Close()
	}
}

// prepare checks everything, tells the plan, then takes the memory.
func (r *run) prepare() error {
	if err := r.cfg.Validate(); err != nil {
		return err
	}
	if err := r.checkFolder(); err != nil {
		return err
	}
	start, err := r.start()
	if err != nil {
		return err
	}
	if err := r.open(); err != nil {
		return err
	}
	plan := r.plan(start)
	r.o.View.Start(plan)
	if r.t, err = newTrainer(r.cfg, r.spec, start.params, r.o.Threads); err != nil {
		return err
	}
	if start.moments != nil {
		if err := r.t.restore(start.moments); err != nil {
			return err
		}
	}
	r.eval = newEvaluator(r.t, r.corpus, r.groups)
	return r.openFolder(plan)
}

func (r *run) checkFolder() error {
	if r.o.Dir == "" {
		return fault.New(fault.Invalid, "out", "no folder for the run")
	}
	m, err := ReadManifest(r.o.Dir)
	switch {
	case r.o.Resume && err != nil:
		return err
	case r.o.Resume:
		if err := r.hold(); err != nil {
			return err
		}
		if r.manifest, err = ReadManifest(r.o.Dir); err != nil {
			return err
		}
		return r.checkShape(m)
	case err == nil:
		return fault.New(fault.Invalid, "out", "%s holds a run already: choose another folder, or go on with --resume", r.o.Dir)
	case fault.Of(err) != fault.NotFound:
		return err
	}
	return nil
}

// hold takes the folder for this process: two that write into one would spoil each other's checkpoints.
func (r *run) hold() (err error) {
	if r.lock, err = machine.Lock(r.o.Dir); errors.Is(err, machine.ErrLocked) {
		return fault.New(fault.Invalid, "out", "another process is training in %s", r.o.Dir)
	}
	if err != nil {
		return fault.New(fault.Invalid, "out", "%v", err)
	}
	return nil
}

// checkShape refuses changes of what the weights of a run that goes on have decided already.
func (r *run) checkShape(m *Manifest) error {
	if field := changed(m.Config.Model, r.cfg.Model); field != "" {
		return fault.New(fault.Invalid, "model."+field, "model.%s cannot be changed when a run goes on: its weights have their shape", field)
	}
	if was, is := m.Config.Loops, r.cfg.Loops; was.Default != is.Default || was.Hard != is.Hard {
		return fault.New(fault.Invalid, "loops.default", "loops.default and loops.hard cannot be changed when a run goes on: they are %d and %d, not %d and %d", was.Default, was.Hard, is.Default, is.Hard)
	}
	return nil
}

// changed names the first field that two shapes differ in, as recipes do; "" when there is none.
func changed(a, b ModelConfig) string {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		if !x.Field(i).Equal(y.Field(i)) {
			return x.Type().Field(i).Tag.Get("toml")
		}
	}
	return ""
}

// open opens the corpus and decides the length of the run.
func (r *run) open() (err error) {
	if err := checkVocab(r.spec, r.o.Tokenizer); err != nil {
		return err
	}
	if r.corpus, err = openCorpus(r.cfg, r.o.Tokenizer, r.cfg.rowLen(r.spec)); err != nil {
		return err
	}
	if m := r.manifest; m != nil && m.Corpus.Manifest != r.corpus.sum {
		return fault.New(fault.Invalid, "data.corpus", "%s is not the corpus that the run began with: its manifest has the hash %.12s, the run's had %.12s", r.corpus.dir, r.corpus.sum, m.Corpus.Manifest)
	}
	for _, g := range r.cfg.Eval.Answers {
		l, err := r.corpus.answers(g)
		if err != nil {
			return err
		}
		r.groups = append(r.groups, l)
	}
	if r.id, err = newIdentity(r.cfg.Name, r.o.Tokenizer, r.corpus.manifest); err != nil {
		return err
	}
	if len(r.cfg.Curriculum.Families) > 0 {
		if r.levels = r.corpus.levels(); r.levels == 0 {
			return fault.New(fault.Invalid, "curriculum.families", "the corpus has no documents of the families %v", r.cfg.Curriculum.Families)
		}
	}
	if err := r.corpus.setLevel(1 << 30); err != nil { // for the length of an epoch
		return err
	}
	if r.steps = r.cfg.Steps; r.cfg.Epochs > 0 {
		r.steps = max(int(r.cfg.Epochs*float64(r.perPass())+0.5), 1)
	}
	if r.levels == 0 {
		return nil
	}
	if r.st.Level == 0 {
		r.st.Level = max(min(r.cfg.Curriculum.Start, r.levels), 1)
	}
	return r.corpus.setLevel(r.st.Level)
}

// perPass gives the steps of one pass over the rows that are planned.
func (r *run) perPass() int {
	return (r.corpus.loader.Steps() + r.cfg.Batch.Accumulate - 1) / r.cfg.Batch.Accumulate
}

func (r *run) plan(b *beginning) *Plan {
	unique, unrolled := r.spec.Params()
	return &Plan{Dir: r.o.Dir, Config: *r.cfg, Params: unique, Unrolled: unrolled, Steps: r.steps, Rows: r.corpus.rows() * r.cfg.Batch.Accumulate,
		Context: r.corpus.t, PerPass: r.perPass(), Memory: r.memory(), From: r.st.Step, Init: b.what, Workers: r.o.Threads, Validation: r.corpus.check != nil}
}

// memory adds up what newTrainer takes.
func (r *run) memory() Memory {
	n := 4 * int64(r.spec.Size())
	m := Memory{Weights: n + r.spec.PackedBytes(), Gradients: n * int64(r.cfg.Batch.Shards),
		Optimizer:   optim.Bytes(r.spec.Size(), tensors(r.cfg, r.spec.Layout()), r.o.Threads),
		Activations: int64(r.o.Threads) * r.spec.TrainBytes(r.cfg.shape(r.spec))}
	if r.cfg.Optimizer.EMA > 0 {
		m.Weights += n
	}
	if r.cfg.Quant.Type != "" {
		m.Weights += n
	}
	b := &r.cfg.Batch
	m.Batches = 16 * int64(b.Shards*b.Rows) * int64(b.Accumulate*r.cfg.rowLen(r.spec)) // inputs, targets twice, starts
	depth := r.spec.Loops.Default
	window := int64((r.spec.Context+model.PagePositions-1)/model.PagePositions+1) * int64(r.spec.Slots(depth)) * r.spec.PageBytes(kernel.F32)
	m.Evaluation = n + 2*window
	return m
}

// affordable refuses a run that needs more memory than there is, before any of it is taken.
func (r *run) affordable() error {
	have := machine.Available()
	s, b := r.spec, &r.cfg.Batch
	// A bound from below first, in a type that cannot overflow: a row of the stream and one of the MLP for every block, and the weights of those blocks.
	blocks := float64(s.Prelude + s.Core + s.Coda)
	least := 4 * (float64(b.Rows)*float64(r.cfg.rowLen(s)) + float64(s.Dim)) * float64(s.Dim+s.Block.Hidden) * blocks
	least += 16 * float64(b.Shards) * float64(b.Rows) * float64(b.Accumulate) * float64(r.cfg.rowLen(s))
	if least > float64(have) {
		return tooLarge(least, have)
	}
	if m := r.memory(); m.Total() > have {
		return tooLarge(float64(m.Total()), have)
	}
	return nil
}

func tooLarge(need float64, have int64) error {
	const gib = 1 << 30
	return fault.New(fault.Invalid, "memory", "the run needs %.1f GiB of memory at least, this machine has %.1f free: fewer batch.rows, batch.shards or batch.accumulate, a shorter batch.context, or a smaller model need less",
		need/gib, float64(have)/gib)
}

// openFolder makes the folder, its manifest and its metrics.
func (r *run) openFolder(p *Plan) error {
	if err := os.MkdirAll(r.o.Dir, 0o777); err != nil {
		return fault.New(fault.Invalid, "out", "%v", err)
	}
	if r.lock == nil {
		if err := r.hold(); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(r.o.Dir, ManifestName)); err == nil {
			return fault.New(fault.Invalid, "out", "%s holds a run since a moment ago: choose another folder", r.o.Dir)
		}
	}
	sweep(r.o.Dir)
	if r.manifest == nil {
		hash := r.o.Tokenizer.Hash()
		r.manifest = &Manifest{Format: 1, Name: r.cfg.Name, Parent: r.parent, Replays: r.o.Replays,
			Corpus: Corpus{Path: r.corpus.dir, Manifest: r.corpus.sum, Tokenizer: hex.EncodeToString(hash[:])}, Evaluations: []EvalMetrics{}}
	}
	m := r.manifest
	m.Status, m.Error, m.Version, m.Commit, m.Args, m.Config = Running, "", r.o.Version, commit(), r.o.Args, *r.cfg
	m.Model = Shape{Params: p.Params, Unrolled: p.Unrolled, Vocab: r.spec.Vocab, Context: p.Context, Bytes: p.Memory.Total()}
	m.Machine, m.Steps = thisMachine(r.o.Threads), r.steps
	m.Evaluations = slices.DeleteFunc(m.Evaluations, func(e EvalMetrics) bool { return e.Step > r.st.Step })
	m.Sittings = append(m.Sittings, Sitting{Began: time.Now().UTC(), From: r.st.Step, To: r.st.Step})
	var err error
	if r.metrics, err = openMetrics(r.o.Dir, r.st.Step); err != nil {
		return err
	}
	return r.note()
}

// note writes the manifest as things stand.
func (r *run) note() error {
	m, st := r.manifest, &r.st
	m.Progress = Progress{Step: st.Step, Tokens: st.Tokens, Seconds: r.elapsed().Seconds(), FLOPs: st.Work, Skipped: st.Skipped, Level: st.Level, Best: max(st.Best, 0), BestAt: st.BestStep}
	m.Sittings[len(m.Sittings)-1].To = st.Step
	return m.write(r.o.Dir)
}
