// Package train teaches models: pretraining, chat fine-tuning, checkpoints that go on bit for bit, and the folder that says what was done.
//
//	Loader.Next(step) ── shards ── draw loops ── Tape.Grad ── sum in a tree ── clip ── optim.Step ── average
//	every so often: validation at several loop counts, samples through the engine, best weights, checkpoint, one line of metrics a step
package train

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
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

// beginning is where a run starts.
type beginning struct {
	params  []float32
	moments *moments
	what    string
}

// start finds the weights: those of the run that goes on, those that the recipe names, or fresh ones.
func (r *run) start() (*beginning, error) {
	if list := checkpoints(r.o.Dir); r.o.Resume && len(list) > 0 { // one that was stopped before its first checkpoint begins again
		return r.goOn(list)
	}
	if from := r.cfg.Init.From; from != "" {
		return r.from(from)
	}
	var err error
	if r.spec, err = r.cfg.spec(r.o.Tokenizer.Size()); err != nil {
		return nil, err
	}
	if err := r.affordable(); err != nil {
		return nil, err
	}
	params, what := model.InitParams(r.spec, r.cfg.Seed), fmt.Sprintf("fresh weights of seed %d", r.cfg.Seed)
	if r.cfg.Model.Init == "induction" {
		r.spec.Induct(params)
		what += " with induction heads"
	}
	return &beginning{params: params, what: what}, nil
}

// goOn begins with the last checkpoint.
func (r *run) goOn(list []string) (*beginning, error) {
	base := list[len(list)-1]
	b, st, err := r.readCheckpoint(base)
	if err != nil {
		return nil, broken(list, err)
	}
	if l := &r.cfg.Loops; l.Max > r.spec.Loops.HardMax {
		return nil, fault.New(fault.Invalid, "loops.max", "loops.max must be at most %d, the most loops of the model, is %d", r.spec.Loops.HardMax, l.Max)
	}
	r.spec.Loops.TrainedMax = max(r.spec.Loops.TrainedMax, r.cfg.Loops.Max)
	if err := r.affordable(); err != nil {
		return nil, err
	}
	r.st, r.saved, r.parent = *st, st.Step, r.manifest.Parent
	b.what = fmt.Sprintf("goes on from step %d", st.Step)
	return b, nil
}

// broken says what to do about a last checkpoint that cannot be read: bytes of a disk go bad, though no kill leaves half a file.
func broken(list []string, err error) error {
	base := list[len(list)-1]
	if len(list) < 2 {
		return fault.New(fault.Invalid, "resume", "the only checkpoint, %s, cannot be used: %v", base, err)
	}
	return fault.New(fault.Invalid, "resume", "the last checkpoint cannot be used: %v. To go on from %s, remove %s.*", err, filepath.Base(list[len(list)-2]), base)
}

// readCheckpoint reads weights and state, and sets the Spec.
func (r *run) readCheckpoint(base string) (*beginning, *state, error) {
	spec, params, hash, err := readModel(base + modelSuffix)
	if err != nil {
		return nil, nil, err
	}
	st, m, err := readState(base+stateSuffix, hash)
	if err != nil {
		return nil, nil, err
	}
	r.spec = spec
	return &beginning{params: params, moments: &m}, &st, nil
}

// from begins with the weights of a run, of a checkpoint, or of any model. Of a run, or with Warm, the moments come along, and the averaged weights
// are what the new run begins with.
func (r *run) from(path string) (*beginning, error) {
	base := path
	if list := checkpoints(path); len(list) > 0 {
		base = list[len(list)-1] + modelSuffix
	}
	spec, params, hash, err := readModel(base)
	if err != nil {
		return nil, err
	}
	if err := checkSame(base, r.o.Tokenizer); err != nil {
		return nil, err
	}
	r.spec, r.parent = spec, hash
	r.cfg.keepLoops(spec)
	if err := r.affordable(); err != nil {
		return nil, err
	}
	b := &beginning{params: params, what: "weights of " + path}
	ext := filepath.Ext(base)
	st, m, err := readState(base[:len(base)-len(ext)]+stateSuffix, hash)
	if err != nil {
		if _, serr := os.Stat(base[:len(base)-len(ext)] + stateSuffix); serr == nil {
			return nil, err
		}
		return b, nil // a model without moments
	}
	if len(m.average) == len(params) {
		b.params = m.average
	}
	if r.cfg.Init.Warm {
		m.average = slices.Clone(b.params)
		r.st.Updates = st.Updates
		b.moments = &m
		b.what += fmt.Sprintf(" and its moments after %d steps", st.Updates)
	}
	return b, nil
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

// elapsed is the time that the run has run, pauses left out.
func (r *run) elapsed() time.Duration {
	if r.began.IsZero() {
		return r.st.Elapsed
	}
	return r.st.Elapsed + time.Since(r.began)
}

// progress gives the part of the run that is done, 0 to 1: of its steps, or of its time.
func (r *run) progress() float64 {
	if r.steps > 0 {
		return float64(r.st.Step) / float64(r.steps)
	}
	return min(r.elapsed().Seconds()/time.Duration(r.cfg.Budget).Seconds(), 1)
}

func (r *run) loop(ctx context.Context) error {
	r.began = time.Now()
	r.rate.start(r.began, r.st.Tokens)
	if r.st.Unsettled {
		if err := r.between(ctx); err != nil {
			return err
		}
	}
	for r.progress() < 1 {
		if ctx.Err() != nil {
			return fault.New(fault.Canceled, "", "interrupted after step %d", r.st.Step)
		}
		if err := r.step(); err != nil {
			return err
		}
		r.st.Unsettled = true
		if err := r.between(ctx); err != nil {
			return err
		}
	}
	if r.st.Evaluated != r.st.Step {
		return r.evaluate(ctx)
	}
	return nil
}

// step makes one step, guarded.
func (r *run) step() error {
	st, progress := &r.st, r.progress()
	for i := range r.t.batches {
		if err := r.corpus.loader.Next(uint64(st.Step*len(r.t.batches)+i), &r.t.batches[i]); err != nil {
			return err
		}
	}
	s := r.cfg.Schedule.optim()
	lr := s.At(st.Step, progress)
	most := r.cfg.Loops.most(progress, st.Level)
	r.t.pack(st.Step, progress)
	m := r.t.gradient(st.Step, most)
	skip := r.harmful(&m)
	if !skip {
		st.Updates++
		r.t.update(st.Updates, lr, progress, optim.Clip(m.norm, r.cfg.Optimizer.Clip))
	}
	st.Step++
	st.Tokens += int64(m.positions)
	st.Work += m.work
	if err := r.report(&m, lr, most, skip); err != nil {
		return err
	}
	if st.InRow > r.cfg.Guard.Most {
		return unsound(st.Step, st.InRow, &m)
	}
	return nil
}

// harmful says whether a step must not be made, and keeps the books of the guard. The mean of the norms is that of the last fifty steps or so.
func (r *run) harmful(m *measured) bool {
	st, g := &r.st, &r.cfg.Guard
	bad := !optim.Finite(m.loss) || !optim.Finite(m.norm)
	if spike := g.Spike > 0 && st.Norm > 0 && st.Step >= 20 && m.norm > g.Spike*st.Norm; bad || spike {
		st.Skipped++
		st.InRow++
		return true
	}
	st.InRow = 0
	if st.Norm == 0 {
		st.Norm = m.norm
	}
	st.Norm += (m.norm - st.Norm) / 50
	return false
}

func (r *run) report(m *measured, lr float64, most int, skipped bool) error {
	st := &r.st
	out := StepMetrics{Step: st.Step, Loss: finite(m.loss), Accuracy: share(m.correct, m.targets), TraceLoss: finite(m.traceLoss), TraceAcc: share(m.traceHit, m.traces),
		Loops: m.loops, MaxLoops: most, Level: st.Level, LR: lr, Norm: finite(m.norm), Tokens: st.Tokens, Rate: r.rate.at(time.Now(), st.Tokens), Skipped: skipped,
		Passes: float64(st.Step-st.LevelSince) / float64(r.perPass()), Progress: r.progress()}
	for _, h := range m.hidden {
		out.Hidden = append(out.Hidden, finite(h))
	}
	out.Left = r.left()
	r.o.View.Step(&out)
	return r.metrics.add(&out)
}

// finite makes a number fit for JSON: what is none counts as 0, beside the mark that the step was skipped.
func finite(x float64) float64 {
	if !optim.Finite(x) {
		return 0
	}
	return x
}

func share(n, of int) float64 { return float64(n) / float64(max(of, 1)) }

// left estimates the time to the end from that of this sitting.
func (r *run) left() time.Duration {
	if r.steps == 0 {
		return max(time.Duration(r.cfg.Budget)-r.elapsed(), 0)
	}
	done := r.st.Step - r.manifest.Sittings[len(r.manifest.Sittings)-1].From
	return time.Since(r.began) / time.Duration(max(done, 1)) * time.Duration(r.steps-r.st.Step)
}

// between is what follows a step: the curriculum, evaluation, checkpoint. What an interrupt stops is done when the run goes on, so that it ends as if it
// had never been stopped: nothing here is done twice.
func (r *run) between(ctx context.Context) error {
	step := r.st.Step
	if c := &r.cfg.Curriculum; r.levels > r.st.Level && step%c.Every == 0 && r.st.LevelSince != step {
		if err := r.advance(ctx); err != nil {
			return err
		}
	}
	if every := r.cfg.Eval.Every; every > 0 && step%every == 0 && r.st.Evaluated != step {
		if err := r.evaluate(ctx); err != nil {
			return err
		}
	}
	r.st.Unsettled = false
	if every := r.cfg.Save.Every; every > 0 && step%every == 0 {
		return r.save()
	}
	return nil
}

// advance raises the level when the greatest difficulty is mastered, or was tried for long enough.
func (r *run) advance(ctx context.Context) error {
	st, c := &r.st, &r.cfg.Curriculum
	accuracy, ok, err := r.eval.level(ctx, r.t.params, st.Level, r.cfg.Loops.most(r.progress(), st.Level))
	if err != nil {
		return err
	}
	late := c.Patience > 0 && st.Step-st.LevelSince >= c.Patience
	if !(ok && accuracy >= c.Advance) && !late {
		return nil
	}
	r.o.View.Note(fmt.Sprintf("step %d: level %d at %.1f %%, on to level %d", st.Step, st.Level, 100*accuracy, st.Level+1))
	st.Level++
	st.LevelSince = st.Step
	if err := r.corpus.setLevel(st.Level); err != nil {
		return err
	}
	r.o.View.Note(fmt.Sprintf("a pass over the rows of level %d is %d steps", st.Level, r.perPass()))
	return nil
}

// evaluate measures the averaged weights, lets them write samples, and keeps them if they are the best.
func (r *run) evaluate(ctx context.Context) error {
	st, flat := &r.st, r.t.averaged()
	m := EvalMetrics{Step: st.Step}
	var err error
	if m.Valid, err = r.eval.losses(ctx, flat); err != nil {
		return err
	}
	if m.Answers, err = r.eval.answers(ctx, flat); err != nil {
		return err
	}
	if m.Samples, err = samples(ctx, r.cfg, r.id, r.spec, flat, r.o.Threads); err != nil {
		return err
	}
	bpb := r.judged(m.Valid)
	if m.Best = !math.IsInf(bpb, 1) && (st.Best == 0 || bpb < st.Best); m.Best {
		st.Best, st.BestStep = bpb, st.Step
		if m.Agreement, err = r.write(BestName); err != nil {
			return err
		}
	}
	st.Evaluated = st.Step
	m.Seconds = r.elapsed().Seconds()
	r.manifest.Evaluations = append(r.manifest.Evaluations, m)
	r.o.View.Eval(&m)
	return r.note()
}

// write writes the averaged weights, calibrated, as a model to be served.
func (r *run) write(name string) ([]float32, error) {
	flat := r.t.averaged()
	a, err := calibration(r.spec, flat, r.corpus.check, r.o.Threads)
	if err != nil {
		return nil, err
	}
	return a, r.id.writeModel(filepath.Join(r.o.Dir, name), r.spec, flat, agreementKeys(a)...)
}

// judged gives the bits per byte by which weights are compared: at the default depth, or the deepest measured below it. Without validation every
// evaluation is better than the one before. Weights without a finite loss are never the best: +Inf.
func (r *run) judged(list []AtLoops) float64 {
	if len(list) == 0 {
		return -float64(r.st.Step)
	}
	best := list[0]
	for _, a := range list {
		if a.Loops <= r.spec.Loops.Default && (a.Loops > best.Loops || best.Loops > r.spec.Loops.Default) {
			best = a
		}
	}
	if best.Diverged {
		return math.Inf(1)
	}
	return best.BPB
}

// save writes a checkpoint; the clock of the state goes on.
func (r *run) save() error {
	st := r.st
	st.Elapsed = r.elapsed()
	base, err := writeCheckpoint(r.o.Dir, r.id, r.t, st, r.cfg.Save.Keep)
	if err != nil {
		return err
	}
	r.saved = st.Step
	r.o.View.Note("saved " + filepath.Base(base))
	return r.note()
}

// finish saves what there is and closes the books. An interrupt, and a failure that leaves the weights sound, keep a checkpoint.
func (r *run) finish(ctx context.Context, err error) error {
	m := r.manifest
	switch {
	case err == nil:
		m.Status = Done
		_, err = r.write(LastName)
	case fault.Of(err) == fault.Canceled || ctx.Err() != nil:
		m.Status = Interrupted
	default:
		m.Status, m.Error = Failed, err.Error()
	}
	var serr error
	if r.saved != r.st.Step && r.st.Step > 0 && m.Status != Failed {
		serr = r.save()
	}
	m.Sittings[len(m.Sittings)-1].Ended = time.Now().UTC()
	m.Artifacts = artifacts(r.o.Dir)
	return first(err, serr, r.note())
}

// first gives the first error there is. Those that follow it are of the same disk.
func first(list ...error) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

// rate is the speed of the last seconds.
type rate struct {
	since  time.Time
	tokens int64
	value  float64
}

const rateWindow = 5 * time.Second

func (r *rate) start(now time.Time, tokens int64) { r.since, r.tokens = now, tokens }

// at gives tokens a second, over windows of some seconds.
func (r *rate) at(now time.Time, tokens int64) float64 {
	d := now.Sub(r.since)
	if v := float64(tokens-r.tokens) / max(d.Seconds(), 1e-9); r.value == 0 || d >= rateWindow {
		if d >= rateWindow {
			r.value = v
			r.start(now, tokens)
		}
		return v
	}
	return r.value
}
