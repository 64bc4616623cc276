package train

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync/atomic"

	"tinyloop/internal/data"
	"tinyloop/internal/fault"
	"tinyloop/internal/model"
	"tinyloop/internal/optim"
	"tinyloop/internal/par"
	"tinyloop/internal/tok"
)

// trainer computes steps. A step's rows are cut into shards, whatever the number of workers:
//
//	micro-step 0   shard 0 | shard 1 | … | shard 7      rows of one batch of the loader
//	micro-step 1   shard 0 | shard 1 | … | shard 7
//
// A worker takes a shard and computes it for all micro-steps on one thread, into the shard's own gradient; the gradients of the shards are then
// added in a fixed tree. So the bits of a step do not depend on who computed what.
type trainer struct {
	cfg    *Config
	spec   *model.Spec
	layout []model.Param
	pool   *par.Pool
	opt    *optim.Optimizer

	params []float32
	noisy  []float32 // params with the noise of quantisation; params itself without
	ema    []float32 // averaged weights; nil = none
	grads  [][]float32
	packed *model.Packed
	tapes  []*model.Tape // of each worker

	batches []data.Batch
	units   []micro // [accumulate][shards]
	order   []shardCost
	squares []float64 // of the gradient, by chunk

	load   workload
	scale  float32
	next   atomic.Int64
	gradF  func(w *par.Worker)
	sumF   func(w *par.Worker)
	passF  func(w *par.Worker)
	passes []*micro        // of passF
	ends   <-chan struct{} // of passF
}

// micro is one shard's part of a micro-step.
type micro struct {
	pass   model.Pass
	target []tok.ID
	traces []model.TraceTarget
	extra  []model.Readout
	result outcome
}

// outcome is what is kept of a model.Result.
type outcome struct {
	loss             float64
	targets, correct int
	traceLoss        float64
	traces, traceHit int
	hidden           []float64
}

type shardCost struct{ shard, cost int }

// chunk is the values that a worker sums at a time.
const chunk = 1 << 14

func newTrainer(c *Config, s *model.Spec, params []float32, workers int) (*trainer, error) {
	t := &trainer{cfg: c, spec: s, layout: s.Layout(), params: params, noisy: params, load: newWorkload(s)}
	n := len(params)
	var err error
	if t.opt, err = optim.New(n, tensors(c, t.layout), optimOptions(c), workers); err != nil {
		return nil, err
	}
	if c.Optimizer.EMA > 0 {
		t.ema = slices.Clone(params)
	}
	if c.Quant.Type != "" {
		t.noisy = make([]float32, n)
	}
	for range c.Batch.Shards {
		t.grads = append(t.grads, make([]float32, n))
	}
	t.packed = model.NewPacked(s)
	for range workers {
		t.tapes = append(t.tapes, model.NewTape(s, c.shape(s)))
	}
	t.batches = make([]data.Batch, c.Batch.Accumulate)
	t.units = make([]micro, c.Batch.Accumulate*c.Batch.Shards)
	for i := range t.units {
		t.units[i].target = make([]tok.ID, c.Batch.Rows*c.rowLen(s))
		t.units[i].extra = make([]model.Readout, 0, 1)
	}
	t.order = make([]shardCost, c.Batch.Shards)
	t.squares = make([]float64, (n+chunk-1)/chunk)
	t.gradF, t.sumF, t.passF = t.gradWorker, t.sumWorker, t.passWorker
	t.pool = par.New(workers)
	return t, nil
}

func (t *trainer) close() { t.pool.Close() }

// shape is that of the tapes: also of evaluation, which may look further than training.
func (c *Config) shape(s *model.Spec) model.Shape {
	most := max(c.Loops.Max, slices.Max(c.Eval.Loops))
	most = min(most, s.Loops.HardMax)
	return model.Shape{Rows: c.Batch.Rows, T: c.rowLen(s), MaxLoops: most, GradLoops: min(c.Loops.Grad, c.Loops.Max, most)}
}

// rowLen gives the tokens of a row.
func (c *Config) rowLen(s *model.Spec) int {
	if c.Batch.Context > 0 {
		return min(c.Batch.Context, s.Context)
	}
	return s.Context
}

// tensors gives every parameter its method.
func tensors(c *Config, layout []model.Param) []optim.Tensor {
	o := &c.Optimizer
	out := make([]optim.Tensor, len(layout))
	for i, p := range layout {
		t := optim.Tensor{Off: p.Off, Rows: p.N, Cols: p.K}
		switch p.Role {
		case model.RoleMatrix:
			t.LR, t.Decay, t.Muon = o.Matrix, o.Decay, o.Kind == "muon"
		case model.RoleEmbedding:
			t.LR = o.Embed
		case model.RoleGain, model.RoleBias:
			t.LR = o.Gain
		case model.RoleScalar:
			t.LR = o.Scalar
		}
		t.LR *= o.Scale
		out[i] = t
	}
	return out
}

func optimOptions(c *Config) optim.Options {
	o := &c.Optimizer
	return optim.Options{Beta1: o.Beta1, Beta2: o.Beta2, Eps: o.Eps, Cautious: o.Cautious}
}

// measured is what a step found.
type measured struct {
	loss, traceLoss  float64 // nats a target
	targets, correct int
	traces, traceHit int
	loops            float64   // mean over the micro-batches
	norm             float64   // of the gradient, before clipping
	hidden           []float64 // root mean square of the state after each loop, of the deepest micro-batch
	positions        int
	work             float64 // floating point operations
}

// gradient computes the gradient of a step into grads[0], from the batches that are loaded.
func (t *trainer) gradient(step, most int) measured {
	learned := 0
	for i := range t.batches {
		learned += t.batches[i].Learned
	}
	t.scale = 1 / float32(max(learned, 1))
	for i := range t.units {
		t.prepare(i, step, most)
	}
	t.arrange()
	t.next.Store(0)
	t.pool.Run(t.gradF)
	t.next.Store(0)
	t.pool.Run(t.sumF)
	m := t.collect()
	for _, s := range t.squares {
		m.norm += s
	}
	m.norm = math.Sqrt(m.norm)
	return m
}

// prepare draws what micro-batch i is to do.
func (t *trainer) prepare(i, step, most int) {
	u, l := &t.units[i], &t.cfg.Loss
	rng := source(t.cfg.Seed, streamPass, step, i)
	r := t.cfg.Loops.draw(&rng, most)
	u.load(&t.batches[i/t.cfg.Batch.Shards], i%t.cfg.Batch.Shards, t.cfg.Batch.Rows)
	p := &u.pass
	p.Loops, p.GradLoops = r, min(r, t.cfg.Loops.Grad)
	p.Scale, p.ZLoss = t.scale, float32(l.ZLoss)
	p.Extra, p.TraceWeight = u.extra[:0], 0
	if extra := unit(&rng) < l.ExtraShare; extra && r > 1 && l.Extra > 0 {
		p.Extra = append(p.Extra, model.Readout{Loops: 1 + int(unit(&rng)*float64(r-1)), Weight: float32(l.Extra)})
	}
	if unit(&rng) < l.TracesShare && l.Traces > 0 {
		p.TraceWeight = float32(l.Traces)
	} else {
		p.Traces = nil
	}
	if t.cfg.Loops.States {
		u.states(r)
	}
}

// load makes the pass of one shard's rows of a batch. The targets are copied, since they may be changed.
func (u *micro) load(b *data.Batch, shard, rows int) {
	n := rows * b.T
	lo := shard * n
	copy(u.target, b.Target[lo:lo+n])
	u.traces = u.traces[:0]
	for _, tr := range b.Traces { // they stand in the order of the rows
		if at := int(tr.Pos) - lo; at >= 0 && at < n {
			u.traces = append(u.traces, model.TraceTarget{Pos: int32(at), Step: tr.Step, ID: tr.ID})
		}
	}
	u.pass = model.Pass{Input: b.Input[lo : lo+n], Target: u.target[:n], Start: b.Start[lo : lo+n], Rows: rows, T: b.T, Traces: u.traces}
}

// states puts the state after r steps in the place of an answer that takes more. The traces of a position stand together, in the order of their steps.
func (u *micro) states(r int) {
	for i := 0; i+1 < len(u.traces); i++ {
		a, b := u.traces[i], u.traces[i+1]
		if int(a.Step) == r && b.Pos == a.Pos {
			u.target[a.Pos] = a.ID
		}
	}
}

// arrange orders the shards by falling cost, so that the workers end together.
func (t *trainer) arrange() {
	for s := range t.order {
		cost := 0
		for i := s; i < len(t.units); i += len(t.order) {
			cost += t.spec.Prelude + t.spec.Coda + t.units[i].pass.Loops*t.spec.Core
		}
		t.order[s] = shardCost{s, cost}
	}
	slices.SortFunc(t.order, func(a, b shardCost) int { return cmp.Or(b.cost-a.cost, a.shard-b.shard) })
}

func (t *trainer) gradWorker(w *par.Worker) {
	tape := t.tapes[w.ID]
	for i := int(t.next.Add(1)) - 1; i < len(t.order); i = int(t.next.Add(1)) - 1 {
		s := t.order[i].shard
		g := t.grads[s]
		clear(g)
		for k := s; k < len(t.units); k += len(t.order) {
			u := &t.units[k]
			u.result.set(tape.Grad(t.packed, t.noisy, g, &u.pass))
		}
	}
}

func (o *outcome) set(r model.Result) {
	o.loss, o.targets, o.correct = r.Loss, r.Targets, r.Correct
	o.traceLoss, o.traces, o.traceHit = r.TraceLoss, r.Traces, r.TraceCorrect
	o.hidden = append(o.hidden[:0], r.HiddenRMS...)
}

func (t *trainer) sumWorker(w *par.Worker) {
	n := len(t.params)
	for i := int(t.next.Add(1)) - 1; i < len(t.squares); i = int(t.next.Add(1)) - 1 {
		lo := i * chunk
		t.squares[i] = optim.Sum(t.grads[0], t.grads, lo, min(lo+chunk, n))
	}
}

// collect adds up the results in the order of the micro-batches.
func (t *trainer) collect() (m measured) {
	deepest := 0
	for i := range t.units {
		u := &t.units[i]
		r := &u.result
		m.loss += r.loss
		m.targets += r.targets
		m.correct += r.correct
		m.traceLoss += r.traceLoss
		m.traces += r.traces
		m.traceHit += r.traceHit
		m.loops += float64(u.pass.Loops)
		m.positions += len(u.pass.Input)
		m.work += 3 * t.load.forward(len(u.pass.Input), u.pass.T, u.pass.Loops)
		if u.pass.Loops > deepest {
			deepest, m.hidden = u.pass.Loops, r.hidden
		}
	}
	m.loops /= float64(len(t.units))
	m.loss /= float64(max(m.targets, 1))
	m.traceLoss /= float64(max(m.traces, 1))
	return m
}

// update moves the weights by the gradient in grads[0]. count is the number of updates so far, this one included.
func (t *trainer) update(count int, lr, progress, clip float64) {
	t.opt.Step(t.pool, t.params, t.grads[0], optim.Now{Step: count, LR: lr, Decay: 1 - progress, Momentum: optim.MuonMomentum(count - 1), Grad: clip})
	if t.ema != nil {
		optim.Average(t.ema, t.params, t.cfg.Optimizer.EMA, count)
	}
}

// pack makes the weights ready for the next step, with the noise of quantisation when it is time for it.
func (t *trainer) pack(step int, progress float64) {
	w := t.params
	if t.cfg.Quant.Type != "" {
		copy(t.noisy, t.params)
		if progress >= t.cfg.Quant.From {
			addNoise(t.noisy, t.layout, t.cfg.Quant.Type, t.cfg.Seed, step)
		}
		w = t.noisy
	}
	t.packed.Update(t.pool, w)
}

// averaged gives the weights that are evaluated and saved.
func (t *trainer) averaged() []float32 {
	if t.ema != nil {
		return t.ema
	}
	return t.params
}

// forward measures the passes of units with the packed weights of flat, each on one worker. When ctx ends before the last one has begun, the results
// are worth nothing and an error of kind Canceled says so.
func (t *trainer) forward(ctx context.Context, flat []float32, units []*micro) error {
	t.passes, t.ends = units, ctx.Done()
	was := t.noisy
	t.noisy = flat
	t.next.Store(0)
	t.pool.Run(t.passF)
	t.noisy, t.passes, t.ends = was, nil, nil
	if int(t.next.Load()) < len(units) {
		return interrupted()
	}
	return nil
}

func interrupted() error { return fault.New(fault.Canceled, "", "interrupted during an evaluation") }

func (t *trainer) passWorker(w *par.Worker) {
	for !t.ended() {
		i := int(t.next.Add(1)) - 1
		if i >= len(t.passes) {
			return
		}
		u := t.passes[i]
		u.result.set(t.tapes[w.ID].Forward(t.packed, t.noisy, &u.pass))
	}
}

// ended says whether nobody waits for the passes any more.
func (t *trainer) ended() bool {
	select {
	case <-t.ends:
		return true
	default:
		return false
	}
}

// unsound is the error of a run that cannot go on.
func unsound(step, skipped int, m *measured) error {
	return fault.New(fault.Invalid, "guard.most", "step %d: %d steps in a row had to be skipped (loss %g, gradient norm %g): lower the learning rates", step, skipped, m.loss, m.norm)
}
