package train

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"tinyloop/internal/fault"
	"tinyloop/internal/optim"
)

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
