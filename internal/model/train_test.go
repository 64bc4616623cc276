package model

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tinyloop/internal/fixture"
	"tinyloop/internal/kernel"
	"tinyloop/internal/nn"
	"tinyloop/internal/par"
)

// trainer is a model with what one micro-batch of it needs.
type trainer struct {
	flat, grads []float32
	pack        *Packed
	tape        *Tape
}

func newTrainer(s *Spec, flat []float32, sh Shape) *trainer {
	t := &trainer{flat: flat, grads: make([]float32, len(flat)), pack: NewPacked(s), tape: NewTape(s, sh)}
	t.pack.Update(nil, flat)
	return t
}

func narrow(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

// TestKernelGradients: the gradients of the kernels are those of the definitions that TestGradients checks, to the precision of f32.
func TestKernelGradients(t *testing.T) {
	for i := range gradCases {
		c := &gradCases[i]
		s, pass := c.build(t)
		rng := rand.New(rand.NewPCG(uint64(i), 4))
		flat := drawParams[float64](s, rng)
		e := newTester(s, pass)
		e.pack.Update(nil, flat)
		want := make([]float64, len(flat))
		exact := e.run(&e.pack, flat, want, pass)
		k := newTrainer(s, narrow(flat), Shape{Rows: pass.Rows, T: pass.T, MaxLoops: pass.Loops, GradLoops: pass.GradLoops})
		res := k.tape.Grad(k.pack, k.flat, k.grads, pass)
		if d := math.Abs(res.Objective-exact.Objective) / math.Abs(exact.Objective); !(d < 1e-5) {
			t.Errorf("%s: objective %v, in double precision %v", c.name, res.Objective, exact.Objective)
		}
		if res.Correct != exact.Correct || res.Targets != exact.Targets || res.Traces != exact.Traces || res.TraceCorrect != exact.TraceCorrect {
			t.Errorf("%s: counts %+v, in double precision %+v", c.name, res, exact)
		}
		for _, p := range s.Layout() {
			top, worst := 1e-3, 0.0
			for j := p.Off; j < p.Off+p.Len; j++ {
				top = max(top, math.Abs(want[j]))
				worst = max(worst, math.Abs(want[j]-float64(k.grads[j])))
			}
			if !(worst < 2e-5*top) {
				t.Errorf("%s: gradient of %s differs by %.2g of its largest value", c.name, p.Name, worst/top)
			}
		}
	}
}

// TestTrainIsInference: what training computes of a position is what Enter, Turn and Leave compute, with every document of a row alone.
func TestTrainIsInference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		s.Loops = Loops{2, 1, 2, 8, 8}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 5))
		flat := drawParams[float32](s, rng)
		m, err := FromParams(s, flat)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		loops := rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "loops")
		cut := rapid.IntRange(1, 19).Draw(t, "cut")
		const n = 20
		tokens, start := drawTokens(rng, s.Vocab, n), make([]int32, n)
		for i := cut; i < n; i++ {
			start[i] = int32(cut)
		}
		var next int32
		docs := []*runSeq{newSeq(s, tokens[:cut], loops, &next, rng), newSeq(s, tokens[cut:], loops, &next, rng)}
		sc := scratch(t, m, Options{Threads: 1, Pages: int(next), MaxRows: n})
		defer sc.Close()
		want := append(docs[0].whole(sc), docs[1].whole(sc)...)

		tr := newTrainer(s, flat, Shape{Rows: 1, T: n, MaxLoops: loops, GradLoops: 1})
		for pos := rng.IntN(4); pos < n; pos += 4 {
			logits := want[pos]
			target := make([]int32, n)
			for i := range target {
				target[i] = -1
			}
			target[pos] = int32(rng.IntN(s.Vocab))
			res := tr.tape.Forward(tr.pack, flat, &Pass{Input: tokens, Target: target, Start: start, Rows: 1, T: n, Loops: loops, Scale: 1})
			top, sum := kernel.SoftmaxStats(logits)
			nats := float64(top) + math.Log(sum) - float64(logits[target[pos]])
			if d := math.Abs(res.Loss - nats); !(d < 1e-4*max(1, nats)) {
				t.Fatalf("position %d: training says %v nats, inference %v", pos, res.Loss, nats)
			}
		}
	})
}

// TestRowsAdd: the gradient of a micro-batch is the sum of those of its rows, and Grad adds to what is there.
func TestRowsAdd(t *testing.T) {
	c := gradCases[len(gradCases)-4] // the recipe
	s, pass := c.build(t)
	flat := drawParams[float32](s, rand.New(rand.NewPCG(1, 6)))
	whole := newTrainer(s, flat, Shape{Rows: 2, T: 7, MaxLoops: 3})
	res := whole.tape.Grad(whole.pack, flat, whole.grads, pass)
	parts := newTrainer(s, flat, Shape{Rows: 2, T: 7, MaxLoops: 3})
	sum := 0.0
	for r := range 2 {
		one := *pass
		one.Rows, one.Input, one.Target, one.Start, one.Traces = 1, pass.Input[7*r:7*r+7], pass.Target[7*r:7*r+7], pass.Start[7*r:7*r+7], nil
		for _, x := range pass.Traces {
			if int(x.Pos)/7 == r {
				one.Traces = append(one.Traces, TraceTarget{x.Pos % 7, x.Step, x.ID})
			}
		}
		sum += parts.tape.Grad(parts.pack, flat, parts.grads, &one).Objective
	}
	if math.Abs(sum-res.Objective) > 1e-5*sum {
		t.Errorf("objectives of the rows add up to %v, of both together %v", sum, res.Objective)
	}
	for i, g := range whole.grads {
		if d := math.Abs(float64(g - parts.grads[i])); d > 1e-5*(1+math.Abs(float64(g))) {
			t.Fatalf("gradient %d: %v, rows together %v", i, parts.grads[i], g)
		}
	}
}

// recipeSpec is the shape that training is tuned for.
func recipeSpec() Spec {
	return Spec{Family: "tinyloop", Vocab: 2048, Dim: 192, Context: 256, Prelude: 1, Core: 2, Coda: 1,
		Block:       Block{Eps: 1e-5, Heads: 6, KVHeads: 6, HeadDim: 32, QKNorm: true, Pos: RopeHalf, RopeTheta: 10000, MLP: ReLU2, Hidden: 768},
		Embed:       Embed{Scale: float32(math.Sqrt(192))},
		PreludeNorm: true, Injection: InjectScaled, LoopNorm: LoopNormBetween, TiedHead: true, LogitSoftcap: 15,
		Loops: Loops{4, 1, 4, 8, 16}}
}

// recipePass has documents of 64 positions and a target nearly everywhere.
func recipePass(s *Spec, rows, loops int) *Pass {
	rng := rand.New(rand.NewPCG(1, 7))
	p := &Pass{Rows: rows, T: s.Context, Loops: loops, Scale: 1e-3, ZLoss: 1e-4}
	for i := range rows * p.T {
		p.Input = append(p.Input, int32(rng.IntN(s.Vocab)))
		p.Target = append(p.Target, int32(rng.IntN(s.Vocab+50)))
		p.Start = append(p.Start, int32(i%p.T&^63))
		if int(p.Target[i]) >= s.Vocab {
			p.Target[i] = -1
		}
	}
	return p
}

// TestTrainAllocatesNothing: after the first step of its kind, no step allocates.
func TestTrainAllocatesNothing(t *testing.T) {
	for _, name := range []string{"plain", "layer norm everywhere", "grouped queries", "rope factors", "extra readouts", "traces", "truncated, extra", "recipe", "parcae"} {
		for i := range gradCases {
			c := &gradCases[i]
			if c.name != name {
				continue
			}
			s, pass := c.build(t)
			tr := newTrainer(s, InitParams(s, 1), Shape{Rows: pass.Rows, T: pass.T, MaxLoops: pass.Loops})
			if n := fixture.Allocations(5, func() {
				tr.pack.Update(nil, tr.flat)
				tr.tape.Grad(tr.pack, tr.flat, tr.grads, pass)
				tr.tape.Forward(tr.pack, tr.flat, pass)
			}); n != 0 {
				t.Errorf("%s: %v allocations a step", name, n)
			}
		}
	}
}

// TestTrainBytes: the memory stated is the memory taken.
func TestTrainBytes(t *testing.T) {
	s := recipeSpec()
	sh := Shape{Rows: 2, T: 256, MaxLoops: 8, GradLoops: 4}
	taken := func(f func() any) float64 {
		var a, b runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&a)
		keep := f()
		runtime.GC()
		runtime.ReadMemStats(&b)
		runtime.KeepAlive(keep)
		return float64(b.HeapAlloc) - float64(a.HeapAlloc)
	}
	for _, x := range []struct {
		name string
		say  int64
		make func() any
	}{
		{"tape", s.TrainBytes(sh), func() any { return NewTape(&s, sh) }},
		{"packed", s.PackedBytes(), func() any { return NewPacked(&s) }},
	} {
		if got := taken(x.make); math.Abs(got-float64(x.say)) > 0.02*got {
			t.Errorf("%s takes %.0f bytes, stated are %d", x.name, got, x.say)
		}
	}
}

// TestPackedByWorkers: any number of workers pack the same bits.
func TestPackedByWorkers(t *testing.T) {
	s := plainSpec()
	flat := InitParams(&s, 1)
	a, b := NewPacked(&s), NewPacked(&s)
	a.Update(nil, flat)
	pool := par.New(2)
	defer pool.Close()
	b.Update(pool, flat)
	for i, v := range a.data {
		if math.Float32bits(v) != math.Float32bits(b.data[i]) {
			t.Fatalf("value %d: %v and %v", i, v, b.data[i])
		}
	}
}

// TestLayout: the parameters lie in the order of the slots without gaps, and survive the way into a model and back.
func TestLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		off := 0
		for _, p := range s.Layout() {
			if p.Off != off || p.Len != p.N*max(p.K, 1) {
				t.Fatalf("%s at %d with %d values, the one before ends at %d", p.Name, p.Off, p.Len, off)
			}
			off += p.Len
		}
		if off != s.Size() {
			t.Fatalf("parameters end at %d of %d", off, s.Size())
		}
		flat := InitParams(s, 3)
		m, err := FromParams(s, flat)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		for i, v := range ParamsOf(m) {
			if v != flat[i] {
				t.Fatalf("value %d: %v became %v", i, flat[i], v)
			}
		}
	})
	s := plainSpec()
	if _, err := FromParams(&s, make([]float32, 3)); err == nil {
		t.Error("three values made a model")
	}
}

// TestRoles: what an optimizer is told.
func TestRoles(t *testing.T) {
	s := plainSpec()
	s.Injection, s.InjectMatrix, s.ExitGate, s.LoopNorm, s.Block.QKVBias, s.Block.QKNorm, s.Block.RopeFactors = InjectDiagonal, true, true, LoopNormOwn, true, true, true
	want := map[string]string{
		"token_embd.weight": "embedding", "rope_freqs.weight": "frozen", "core.0.attn_q.weight": "matrix looped", "core.0.attn_q.bias": "bias looped",
		"prelude.0.ffn_up.weight": "matrix", "core.0.attn_norm.weight": "gain looped", "core.0.attn_q_norm.weight": "gain looped", "inject.weight": "matrix looped",
		"inject.a_log": "scalar looped", "inject.dt_bias": "scalar looped", "loop_norm.weight": "gain looped", "output_norm.weight": "gain",
		"output.weight": "embedding", "exit_gate.weight": "frozen", "exit_gate.bias": "frozen", "coda.0.ffn_down.weight": "matrix",
	}
	for _, p := range s.Layout() {
		have := p.Role.String()
		if p.Looped {
			have += " looped"
		}
		if w, ok := want[p.Name]; ok && w != have {
			t.Errorf("%s is %s, want %s", p.Name, have, w)
		}
		delete(want, p.Name)
	}
	if len(want) > 0 {
		t.Errorf("not in the layout: %v", want)
	}
}

// TestInitParams: the initial weights are those described, and the same bits everywhere.
func TestInitParams(t *testing.T) {
	s := recipeSpec()
	s.Injection, s.InjectMatrix, s.Readout = InjectDiagonal, true, true
	flat := InitParams(&s, 42)
	h := fnv.New64a()
	for _, v := range flat {
		b := math.Float32bits(v)
		h.Write([]byte{byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24)})
	}
	if got := fmt.Sprintf("%016x", h.Sum64()); got != initHash {
		t.Errorf("hash %s, want %s", got, initHash)
	}
	for _, p := range s.Layout() {
		x := flat[p.Off : p.Off+p.Len]
		mean, sq := 0.0, 0.0
		for _, v := range x {
			mean += float64(v) / float64(len(x))
			sq += float64(v) * float64(v) / float64(len(x))
		}
		std := 0.0
		switch p.Name {
		case "core.0.attn_q.weight", "token_embd.weight":
			std = 1 / math.Sqrt(192)
		case "core.1.ffn_down.weight":
			std = 0.3 / math.Sqrt(768)
		case "core.0.attn_k_norm.weight":
			if got := float64(x[0]) * float64(x[0]) * math.Sqrt(32); math.Abs(got-13) > 1e-4 {
				t.Errorf("attention logits up to %v, want 13", got)
			}
		}
		if std != 0 && (math.Abs(math.Sqrt(sq)/std-1) > 0.02 || math.Abs(mean) > 0.02*std) {
			t.Errorf("%s: mean %v, deviation %v, want %v", p.Name, mean, math.Sqrt(sq), std)
		}
	}
	m, err := FromParams(&s, flat)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if d := float64(m.decay[0]); math.Abs(d*d-0.2) > 1e-6 {
		t.Errorf("initial decay %v, want sqrt(1/5)", d)
	}
	other := InitParams(&s, 43)
	if other[0] == flat[0] || flat[0] == flat[len(flat)/2] {
		t.Error("seeds or tensors share their numbers")
	}
}

const initHash = "7aa4381bd8ab6e6b"

// flops counts the products of one step, forward and backward, of a pass: 2 operations a multiply-add, causal attention by the pairs it needs.
func flops(s *Spec, p *Pass) float64 {
	layout, rows := s.Layout(), float64(p.Rows*p.T)
	var w Weights
	slots := w.Slots(s)
	perRow := 0.0
	for i, x := range layout {
		times := 1.0
		switch {
		case x.K == 0 || x.Role == RoleEmbedding && x.Name != "output.weight":
			times = 0
		case slots[i].Part == Core && x.Looped:
			times = float64(p.Loops)
		}
		perRow += times * float64(x.Len)
	}
	if s.TiedHead {
		perRow += float64(s.Vocab * s.Dim)
	}
	pairs := 0.0
	for i := range p.Input {
		pairs += float64(i%p.T + 1)
		if p.Start != nil {
			pairs -= float64(p.Start[i])
		}
	}
	attention := 2 * pairs * float64(s.Block.Heads*s.Block.HeadDim) * float64(s.Slots(p.Loops))
	return 3 * 2 * (rows*perRow + attention)
}

// plainGPT is the unlooped model that other frameworks are usually measured with.
func plainGPT() Spec {
	return Spec{Family: "tinyloop", Vocab: 2048, Dim: 256, Context: 256, Prelude: 6, TiedHead: true, Loops: Loops{1, 1, 1, 1, 1},
		Block: Block{Norm: LayerNorm, Eps: 1e-5, Heads: 8, KVHeads: 8, HeadDim: 32, QKVBias: true, OutBias: true, Pos: Learned, MLP: GELU, Hidden: 1024, MLPBias: true}}
}

// BenchmarkBatch is forward and backward of 16 rows of 256 tokens on one and on two threads, in eight shards as training has them, with packing and the sum
// of the gradients, but without optimizer. testdata/torch_speed.py is the same in PyTorch.
func BenchmarkBatch(b *testing.B) {
	for _, model := range []struct {
		name  string
		spec  Spec
		loops int
	}{{"looped", recipeSpec(), 4}, {"gpt", plainGPT(), 1}} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", model.name, threads), func(b *testing.B) {
				s := model.spec
				pass := recipePass(&s, 2, model.loops)
				pass.Start = nil // documents as long as the row, as the other side has them
				flat := InitParams(&s, 1)
				var list []*trainer
				for range threads {
					list = append(list, newTrainer(&s, flat, Shape{Rows: 2, T: 256, MaxLoops: model.loops}))
				}
				pool := par.New(threads)
				defer pool.Close()
				step := func(w *par.Worker) {
					for range 8 / threads {
						list[w.ID].tape.Grad(list[0].pack, flat, list[w.ID].grads, pass)
					}
				}
				best := math.Inf(1)
				for b.Loop() {
					from := time.Now()
					list[0].pack.Update(pool, flat)
					pool.Run(step)
					for _, t := range list[1:] {
						kernel.Add(list[0].grads, list[0].grads, t.grads)
					}
					best = min(best, time.Since(from).Seconds())
				}
				b.ReportMetric(16*256*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
				b.ReportMetric(16*256/best, "best-tokens/s")
				b.ReportMetric(8*flops(&s, pass)/best/1e9, "best-GFLOP/s")
			})
		}
	}
}

// BenchmarkStep is one micro-batch of the recipe's shape on one core, beside the bare product of the same machine.
func BenchmarkStep(b *testing.B) {
	s := recipeSpec()
	for _, loops := range []int{1, 4, 8} {
		b.Run(fmt.Sprintf("loops=%d", loops), func(b *testing.B) {
			pass := recipePass(&s, 2, loops)
			tr := newTrainer(&s, InitParams(&s, 1), Shape{Rows: 2, T: 256, MaxLoops: 8})
			b.ReportAllocs()
			for b.Loop() {
				tr.tape.Grad(tr.pack, tr.flat, tr.grads, pass)
			}
			sec := b.Elapsed().Seconds() / float64(b.N)
			b.ReportMetric(float64(pass.Rows*pass.T)/sec, "tokens/s")
			b.ReportMetric(flops(&s, pass)/sec/1e9, "GFLOP/s")
		})
	}
	b.Run("product", func(b *testing.B) {
		const m, n, k = 512, 768, 192
		o := nn.Kernels()
		x, w, y := make([]float32, m*k), make([]float32, o.PackLen(n, k)), make([]float32, m*n)
		for b.Loop() {
			o.Gemm(y, n, x, k, m, w, n, k, false)
		}
		b.ReportMetric(2*m*n*k*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
	})
}
