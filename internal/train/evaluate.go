package train

import (
	"context"
	"math"
	"slices"

	"tinyloop/internal/data"
	"tinyloop/internal/optim"
	"tinyloop/internal/tok"
)

// AtLoops is a measurement at one loop count.
type AtLoops struct {
	Loops    int     `json:"loops"`
	Loss     float64 `json:"loss"` // nats a target
	BPB      float64 `json:"bpb"`  // bits a byte of the targets' text
	Accuracy float64 `json:"accuracy"`
	Diverged bool    `json:"diverged,omitempty"` // the loss is no finite number: Loss and BPB are 0 then
}

// Answers is how often the first token of a group's answers is the most probable one.
type Answers struct {
	Group    string    `json:"group"`
	Count    int       `json:"count"`
	Loops    []int     `json:"loops"`
	Accuracy []float64 `json:"accuracy"` // at each of the loop counts
}

// evaluator measures weights on the validation rows. Its memory grows at its first use and stays.
type evaluator struct {
	t       *trainer
	c       *corpus
	batches []data.Batch
	units   []micro
	list    []*micro
	groups  []*data.Loader // of Eval.Answers
}

func newEvaluator(t *trainer, c *corpus, groups []*data.Loader) *evaluator {
	return &evaluator{t: t, c: c, groups: groups}
}

// loops gives the loop counts of an evaluation: those of the recipe that the model can run.
func (e *evaluator) loops() (list []int) {
	for _, r := range e.t.cfg.Eval.Loops {
		if r <= e.t.spec.Loops.HardMax {
			list = append(list, r)
		}
	}
	if list == nil {
		list = []int{e.t.spec.Loops.Default}
	}
	return list
}

// losses measures flat at several loop counts; nil without validation rows.
func (e *evaluator) losses(ctx context.Context, flat []float32) ([]AtLoops, error) {
	if e.c.check == nil {
		return nil, nil
	}
	if err := e.load(e.c.check, e.t.cfg.Eval.Batches, false); err != nil {
		return nil, err
	}
	e.t.packed.Update(e.t.pool, flat)
	bytes := e.bytes()
	var out []AtLoops
	for _, r := range e.loops() {
		loss, targets, correct, err := e.pass(ctx, flat, r)
		if err != nil {
			return nil, err
		}
		n := float64(max(targets, 1))
		a := AtLoops{Loops: r, Loss: loss / n, BPB: loss / math.Ln2 / float64(max(bytes, 1)), Accuracy: float64(correct) / n}
		if !optim.Finite(loss) {
			a.Loss, a.BPB, a.Diverged = 0, 0, true
		}
		out = append(out, a)
	}
	return out, nil
}

// answers measures the groups of the recipe.
func (e *evaluator) answers(ctx context.Context, flat []float32) ([]Answers, error) {
	var out []Answers
	e.t.packed.Update(e.t.pool, flat)
	for i, l := range e.groups {
		a := Answers{Group: e.t.cfg.Eval.Answers[i], Loops: e.loops()}
		for _, r := range a.Loops {
			acc, n, err := e.answered(ctx, flat, l, r)
			if err != nil {
				return nil, err
			}
			a.Accuracy, a.Count = append(a.Accuracy, acc), n
		}
		out = append(out, a)
	}
	return out, nil
}

// level gives the accuracy on the greatest difficulty of the curriculum, of the family that is worst at it; ok is false when validation has none of it.
func (e *evaluator) level(ctx context.Context, flat []float32, level, loops int) (accuracy float64, ok bool, err error) {
	e.t.packed.Update(e.t.pool, flat)
	accuracy = 1
	for _, g := range e.c.groups(level) {
		l, err := e.c.answers(g)
		if err != nil {
			return 0, false, err
		}
		a, n, err := e.answered(ctx, flat, l, loops)
		if err != nil {
			return 0, false, err
		}
		if n > 0 {
			accuracy, ok = min(accuracy, a), true
		}
	}
	return accuracy, ok, nil
}

// answered measures one group with the weights that are packed, on up to two batches.
func (e *evaluator) answered(ctx context.Context, flat []float32, l *data.Loader, loops int) (accuracy float64, count int, err error) {
	if err := e.load(l, 2, true); err != nil {
		return 0, 0, err
	}
	_, targets, correct, err := e.pass(ctx, flat, loops)
	if err != nil {
		return 0, 0, err
	}
	return float64(correct) / float64(max(targets, 1)), targets, nil
}

// load reads batches, none of them twice, and makes units of them. With answers only the ends of traces are targets: the first tokens of answers.
func (e *evaluator) load(l *data.Loader, most int, answers bool) error {
	cfg := &e.t.cfg.Batch
	n := min(most, l.Steps())
	for len(e.batches) < n {
		e.batches = append(e.batches, data.Batch{})
	}
	for len(e.units) < n*cfg.Shards {
		e.units = append(e.units, micro{target: make([]tok.ID, cfg.Rows*e.c.t)})
	}
	e.list = e.list[:0]
	left := l.Stats().Rows // rows that were not seen yet: the last batch begins again
	for i := range n {
		if err := l.Next(uint64(i), &e.batches[i]); err != nil {
			return err
		}
		for s := range cfg.Shards {
			u := &e.units[i*cfg.Shards+s]
			u.load(&e.batches[i], s, cfg.Rows)
			if answers {
				u.onlyAnswers()
			}
			if left < cfg.Rows {
				u.forget(left)
			}
			left = max(left-cfg.Rows, 0)
			u.pass.Traces = nil
			if u.learns() {
				e.list = append(e.list, u)
			}
		}
	}
	return nil
}

// onlyAnswers leaves the first tokens of answers as the only targets.
func (u *micro) onlyAnswers() {
	was := slices.Clone(u.pass.Target)
	for i := range u.pass.Target {
		u.pass.Target[i] = data.NoTarget
	}
	for i, tr := range u.traces {
		if i+1 == len(u.traces) || u.traces[i+1].Pos != tr.Pos {
			u.pass.Target[tr.Pos] = was[tr.Pos]
		}
	}
}

// forget takes the targets of the rows from `rows` on away.
func (u *micro) forget(rows int) {
	for i := rows * u.pass.T; i < len(u.pass.Target); i++ {
		u.pass.Target[i] = data.NoTarget
	}
}

// learns says whether there is a target at all.
func (u *micro) learns() bool {
	return slices.ContainsFunc(u.pass.Target, func(id tok.ID) bool { return id >= 0 })
}

// pass runs the units that are loaded. An end of ctx ends it within one unit a worker.
func (e *evaluator) pass(ctx context.Context, flat []float32, loops int) (loss float64, targets, correct int, err error) {
	for _, u := range e.list {
		u.pass.Loops, u.pass.Scale = loops, 1
	}
	if err := e.t.forward(ctx, flat, e.list); err != nil {
		return 0, 0, 0, err
	}
	for _, u := range e.list {
		loss += u.result.loss
		targets += u.result.targets
		correct += u.result.correct
	}
	return loss, targets, correct, nil
}

// bytes counts the text of the targets that are loaded.
func (e *evaluator) bytes() (n int64) {
	for _, u := range e.list {
		for _, id := range u.pass.Target {
			if id >= 0 {
				n += int64(e.c.bytes[id])
			}
		}
	}
	return n
}
