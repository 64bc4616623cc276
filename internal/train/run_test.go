package train

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tinyloop/internal/arch"
	"tinyloop/internal/data/tinyworld"
	"tinyloop/internal/fault"
	"tinyloop/internal/fixture"
	"tinyloop/internal/tensorfile"
)

// TestResume compares 200 steps with 120, a stop, and 80: after an interrupt, and after the process was killed beyond its last checkpoint. The curriculum,
// evaluations, noise and thread counts of the sittings take part.
func TestResume(t *testing.T) {
	w := newWorld(t, tinyworld.Share{Family: "chain", Weight: 2}, tinyworld.Share{Family: "town", Weight: 1})
	c := w.config(200)
	c.Curriculum = CurriculumConfig{Families: []string{"chain"}, Start: 1, Advance: 0.9, Every: 20, Patience: 40}
	c.Eval.Every, c.Eval.Answers = 50, []string{"chain/2"}
	c.Save.Every = 40
	dir := t.TempDir()
	killed := filepath.Join(dir, "killed")
	straight := filepath.Join(dir, "straight")
	v := &quiet{f: func(m *StepMetrics) {
		if m.Step == 131 { // the last checkpoint is that of step 120
			copyFolder(t, straight, killed)
		}
	}}
	want := w.do(t, c, straight, Options{Threads: 2}, v)
	if len(v.steps) != 200 || len(v.evals) != 4 || v.steps[199].Level < 3 {
		t.Fatalf("%d steps, %d evaluations, level %d", len(v.steps), len(v.evals), v.steps[199].Level)
	}
	if first, last := v.steps[0].Loss, v.steps[199].Loss; !(last < 0.8*first) {
		t.Errorf("the loss went from %g to %g", first, last)
	}

	k := &quiet{}
	if got := w.do(t, c, killed, Options{Threads: 1, Resume: true}, k); got != want {
		t.Errorf("after a kill: weights %.12s, those of the run without a stop %.12s", got, want)
	}
	if k.steps[0].Step != 121 || len(k.steps) != 80 {
		t.Errorf("went on with step %d for %d steps, expected 121 and 80", k.steps[0].Step, len(k.steps))
	}

	stopped := filepath.Join(dir, "stopped")
	ctx, cancel := context.WithCancel(t.Context())
	s := &quiet{f: func(m *StepMetrics) {
		if m.Step == 77 {
			cancel()
		}
	}}
	m, err := Run(ctx, Options{Config: c, Dir: stopped, Tokenizer: w.tok, Threads: 2, View: s})
	if fault.Of(err) != fault.Canceled || m.Status != Interrupted {
		t.Fatalf("an interrupt gives %v, status %s", err, m.Status)
	}
	if got := w.do(t, c, stopped, Options{Threads: 2, Resume: true}, nil); got != want {
		t.Errorf("after an interrupt: weights %.12s, those of the run without a stop %.12s", got, want)
	}
	for _, d := range []string{straight, killed, stopped} {
		m, err := ReadManifest(d)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := ReadMetrics(d)
		if err != nil || len(steps) != 200 || steps[199].Step != 200 || m.Status != Done || len(m.Evaluations) != 4 {
			t.Errorf("%s: %v, %d lines of metrics, status %s, %d evaluations", filepath.Base(d), err, len(steps), m.Status, len(m.Evaluations))
		}
	}
	same(t, filepath.Join(straight, BestName), filepath.Join(killed, BestName))
	f, err := tensorfile.Open(filepath.Join(straight, LastName))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if a := arch.InfoOf(f).Agreement; len(a) != 3 || a[2] != 1 || a[0] <= 0 || a[0] > 1 {
		t.Errorf("agreement of the depths with the default one: %v", a)
	}
}

// TestResumeBeforeTheFirstCheckpoint: what was killed before it saved anything begins again, and gives what it would have given.
func TestResumeBeforeTheFirstCheckpoint(t *testing.T) {
	w := newWorld(t)
	c := w.config(20)
	c.Save = SaveConfig{Every: 15, Keep: 2}
	killed := filepath.Join(t.TempDir(), "killed")
	straight := filepath.Join(t.TempDir(), "straight")
	want := w.do(t, c, straight, Options{}, &quiet{f: func(m *StepMetrics) {
		if m.Step == 9 {
			copyFolder(t, straight, killed)
		}
	}})
	if len(checkpoints(killed)) != 0 {
		t.Fatal("a checkpoint before step 9")
	}
	v := &quiet{}
	if got := w.do(t, c, killed, Options{Resume: true}, v); got != want || v.steps[0].Step != 1 {
		t.Errorf("weights %.12s from step %d, those of the run without a stop %.12s", got, v.steps[0].Step, want)
	}
	if steps, err := ReadMetrics(killed); err != nil || len(steps) != 20 {
		t.Errorf("%d lines of metrics, %v", len(steps), err)
	}
}

func same(t *testing.T, a, b string) {
	t.Helper()
	x, err := os.ReadFile(a)
	y, err2 := os.ReadFile(b)
	if err != nil || err2 != nil || !bytes.Equal(x, y) {
		t.Errorf("%s and %s differ (%v, %v)", a, b, err, err2)
	}
}

func TestKeepsTheLastCheckpoints(t *testing.T) {
	w := newWorld(t)
	c := w.config(25)
	c.Save = SaveConfig{Every: 5, Keep: 2}
	dir := filepath.Join(t.TempDir(), "run")
	w.do(t, c, dir, Options{}, nil)
	var names []string
	for _, p := range checkpoints(dir) {
		names = append(names, filepath.Base(p))
	}
	if want := []string{"step-00000020", "step-00000025"}; !slices.Equal(names, want) {
		t.Errorf("%v stay, expected %v", names, want)
	}
	if _, err := Run(t.Context(), Options{Config: c, Dir: dir, Tokenizer: w.tok, View: &quiet{}}); err == nil || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("a run in the folder of another: %v", err)
	}
}

// TestAccumulation compares one micro-step of two rows a shard with two of one: the same rows, so nearly the same gradient.
func TestAccumulation(t *testing.T) {
	w := newWorld(t)
	c := w.config(3)
	c.Loops.Max, c.Loops.Default, c.Loops.Mean = 1, 1, 1 // no draws that differ by place
	c.Loss.ExtraShare, c.Loss.Traces = 0, 0
	c.Batch = BatchConfig{Shards: 4, Rows: 2, Accumulate: 1}
	one, two := &quiet{}, &quiet{}
	w.do(t, c, filepath.Join(t.TempDir(), "one"), Options{}, one) // shard by shard the rows 0 1, 2 3, 4 5, 6 7; then 0 4, 1 5, 2 6, 3 7
	c.Batch = BatchConfig{Shards: 4, Rows: 1, Accumulate: 2}
	w.do(t, c, filepath.Join(t.TempDir(), "two"), Options{}, two)
	for i := range one.steps {
		a, b := one.steps[i], two.steps[i]
		if d := a.Norm - b.Norm; d > 1e-3*a.Norm || d < -1e-3*a.Norm || a.Tokens != b.Tokens {
			t.Errorf("step %d: norm %g and %g, tokens %d and %d", i+1, a.Norm, b.Norm, a.Tokens, b.Tokens)
		}
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	w := newWorld(t)
	c := w.config(10)
	c.Batch.Accumulate = 2
	c.Data.Keep = []string{"chain"}
	r := &run{o: Options{Config: c, Dir: filepath.Join(t.TempDir(), "run"), Tokenizer: w.tok, Threads: 2, View: &quiet{}}}
	r.cfg = &r.o.Config
	defer r.close()
	if err := r.prepare(); err != nil {
		t.Fatal(err)
	}
	step := 0
	one := func() {
		for i := range r.t.batches {
			if err := r.corpus.loader.Next(uint64(step*2+i), &r.t.batches[i]); err != nil {
				t.Fatal(err)
			}
		}
		r.t.pack(step, 0.9)
		r.t.gradient(step, 3)
		step++
		r.t.update(step, 1, 0.9, 1)
	}
	for range r.perPass() { // until every slice has met its longest content
		one()
	}
	if n := fixture.Allocations(10, one); n > 0 {
		t.Errorf("%g allocations a step", n)
	}
}

// TestGuard checks that a gradient that is no number moves nothing, and that a run of them ends.
func TestGuard(t *testing.T) {
	w := newWorld(t)
	v := &quiet{}
	dir := filepath.Join(t.TempDir(), "run")
	c := w.config(100)
	c.Guard.Most = 3
	r := &run{o: Options{Config: c, Dir: dir, Tokenizer: w.tok, Threads: 2, View: v}}
	r.cfg = &r.o.Config
	defer r.close()
	if err := r.prepare(); err != nil {
		t.Fatal(err)
	}
	r.t.params[0] = float32(math.NaN()) // the embedding of the first token
	for i := range r.t.params[:r.spec.Dim*r.spec.Vocab] {
		r.t.params[i] = r.t.params[0]
	}
	was := slices.Clone(r.t.params)
	err := r.finish(t.Context(), r.loop(t.Context()))
	mustContain(t, err, "4 steps in a row", "learning rates")
	if !slices.EqualFunc(was, r.t.params, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
		t.Error("a skipped step moved the weights")
	}
	if last := v.steps[len(v.steps)-1]; !last.Skipped || last.Step != 4 {
		t.Errorf("the last step: %+v", last)
	}
	m, err := ReadManifest(dir)
	if err != nil || m.Status != Failed || m.Progress.Skipped != 4 {
		t.Errorf("%v, status %s, %d skipped", err, m.Status, m.Progress.Skipped)
	}
	if len(checkpoints(dir)) != 0 {
		t.Error("weights that cannot be trained were saved")
	}
}

func TestSpikeIsSkipped(t *testing.T) {
	c := Default()
	r := &run{cfg: &c}
	for range 40 {
		r.st.Step++
		if r.harmful(&measured{loss: 1, norm: 1}) {
			t.Fatal("a usual step is skipped")
		}
	}
	if !r.harmful(&measured{loss: 1, norm: 31}) || r.st.Norm > 1.001 || r.st.InRow != 1 {
		t.Errorf("a spike: %+v", r.st)
	}
	if r.harmful(&measured{loss: 1, norm: 2}) || r.st.InRow != 0 {
		t.Errorf("after a spike: %+v", r.st)
	}
}

func TestFineTune(t *testing.T) {
	w := newWorld(t, tinyworld.Share{Family: "chat", Weight: 1}, tinyworld.Share{Family: "tools", Weight: 1})
	c := w.config(60)
	c.Model.Context = 64
	base := filepath.Join(t.TempDir(), "base")
	v := &quiet{}
	w.do(t, c, base, Options{}, v)

	s := SFT()
	s.Data.Corpus, s.Init.From, s.Epochs, s.Steps = w.corpus, base, 0, 30
	s.Batch, s.Eval, s.Save = c.Batch, c.Eval, c.Save
	s.Eval.Chat, s.Eval.Continue = []string{"Hi"}, []string{"The"}
	f := &quiet{}
	dir := filepath.Join(t.TempDir(), "chat")
	w.do(t, s, dir, Options{}, f)
	if !strings.Contains(f.plan.Init, "moments after 60 steps") {
		t.Errorf("begins with %q", f.plan.Init)
	}
	if most := f.steps[0].MaxLoops; most != 3 {
		t.Errorf("up to %d loops, the weights were trained for 3", most)
	}
	if a, b := v.steps[0].Loss, f.steps[0].Loss; b > 0.8*a {
		t.Errorf("the first loss of the fine-tune is %g, of fresh weights it was %g", b, a)
	}
	if lr := f.steps[29].LR; lr > 0.04 {
		t.Errorf("the learning rate ends at %g", lr)
	}
	if e := f.evals[len(f.evals)-1]; len(e.Samples) != 2 || !e.Samples[0].Chat || e.Samples[0].Prompt != "Hi" {
		t.Errorf("samples %+v", e.Samples)
	}
	m, _ := ReadManifest(dir)
	if m.Parent == "" {
		t.Error("the manifest names no parent")
	}
	path, ok := LastCheckpoint(dir)
	if !ok {
		t.Fatal("no checkpoint")
	}
	if _, _, _, err := readModel(path); err != nil {
		t.Error(err)
	}
}

func TestPlanIsTrue(t *testing.T) {
	w := newWorld(t)
	v := &quiet{}
	c := w.config(1)
	w.do(t, c, filepath.Join(t.TempDir(), "run"), Options{Threads: 2}, v)
	m := v.plan.Memory
	n := 4 * v.plan.Params
	if m.Gradients != 8*n || m.Optimizer < n || m.Activations == 0 || m.Weights < 3*n {
		t.Errorf("%+v for %d parameters", m, v.plan.Params)
	}
	if v.plan.Rows != 8 || v.plan.Context != 32 || !v.plan.Validation {
		t.Errorf("%+v", v.plan)
	}
}

// TestSameGradientForAnyWorkers is the law that the bits of a step do not depend on who computes it.
func TestSameGradientForAnyWorkers(t *testing.T) {
	w := newWorld(t)
	var want []float32
	for _, n := range []int{1, 2, 3} {
		r := &run{o: Options{Config: w.config(1), Dir: filepath.Join(t.TempDir(), "run"), Tokenizer: w.tok, Threads: n, View: &quiet{}}}
		r.cfg = &r.o.Config
		if err := r.prepare(); err != nil {
			t.Fatal(err)
		}
		if err := r.corpus.loader.Next(0, &r.t.batches[0]); err != nil {
			t.Fatal(err)
		}
		r.t.pack(0, 1)
		r.t.gradient(0, 3)
		if want == nil {
			want = slices.Clone(r.t.grads[0])
		} else if !slices.Equal(want, r.t.grads[0]) {
			t.Errorf("%d workers give another gradient than one", n)
		}
		r.close()
	}
	if !slices.ContainsFunc(want, func(x float32) bool { return x != 0 }) {
		t.Error("the gradient is zero")
	}
}
