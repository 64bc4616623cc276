package train

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tinyloop/internal/data/tinyworld"
	"tinyloop/internal/fault"
	"tinyloop/internal/tensorfile"
)

// refused runs a recipe that must not start, and says so if it does or if the error lacks a word.
func (w *world) refused(t *testing.T, c Config, o Options, words ...string) {
	t.Helper()
	if o.Tokenizer == nil {
		o.Tokenizer = w.tok
	}
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "run")
	}
	o.Config, o.View = c, &quiet{}
	_, err := Run(t.Context(), o)
	mustContain(t, err, words...)
}

func TestTooLargeIsRefusedBeforeMemoryIsTaken(t *testing.T) {
	w := newWorld(t)
	for name, change := range map[string]func(c *Config){
		"weights": func(c *Config) {
			c.Model.Dim, c.Model.Heads, c.Model.KVHeads, c.Model.HeadDim, c.Model.Hidden = 131072, 4096, 4096, 32, 100000
		},
		"activations": func(c *Config) { c.Model.Context, c.Batch.Rows = 1<<16, 4096 },
		"batches":     func(c *Config) { c.Batch.Accumulate, c.Batch.Rows = 4096, 4096 },
		"everything": func(c *Config) {
			c.Model.Dim, c.Model.Heads, c.Model.KVHeads, c.Model.HeadDim, c.Model.Hidden = 131072, 4096, 4096, 32, 1<<18
			c.Model.Core, c.Model.Context, c.Batch.Rows, c.Batch.Accumulate, c.Loops.Max, c.Loops.Hard = 8, 1<<24, 4096, 4096, 256, 4096
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := w.config(1)
			change(&c)
			w.refused(t, c, Options{}, "memory", "GiB", "this machine has")
		})
	}
}

// finished is a run of four steps with checkpoints at two and four.
func finished(t *testing.T) (w *world, c Config, dir string) {
	t.Helper()
	w = newWorld(t, tinyworld.Share{Family: "town", Weight: 1})
	c = w.config(4)
	c.Save.Every = 2
	dir = filepath.Join(t.TempDir(), "run")
	w.do(t, c, dir, Options{}, nil)
	return w, c, dir
}

func TestDamageIsSeen(t *testing.T) {
	w, c, whole := finished(t)
	c.Steps = 6
	for _, suffix := range []string{modelSuffix, stateSuffix} {
		dir := filepath.Join(t.TempDir(), "run")
		copyFolder(t, whole, dir)
		path := checkpointPath(dir, 4) + suffix
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)-200] ^= 0x10
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		w.refused(t, c, Options{Dir: dir, Resume: true}, "step-00000004", "step-00000002")
		os.Remove(checkpointPath(dir, 4) + modelSuffix)
		os.Remove(checkpointPath(dir, 4) + stateSuffix)
		w.do(t, c, dir, Options{Resume: true}, nil)
	}
}

// TestKillDuringSaveLeavesNothing plants what a kill leaves in the middle of a save.
func TestKillDuringSaveLeavesNothing(t *testing.T) {
	w := newWorld(t, tinyworld.Share{Family: "town", Weight: 1})
	c := w.config(2)
	dir := filepath.Join(t.TempDir(), "run")
	w.do(t, c, dir, Options{}, nil)
	for _, name := range []string{".tinyloop-0123456789abcdef.tmp", "checkpoints/.tinyloop-0123456789abcdef.tmp", "checkpoints/step-00000009.tinyloop"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.Steps = 3
	w.do(t, c, dir, Options{Resume: true}, nil)
	for _, pattern := range []string{".tinyloop-*", "checkpoints/.tinyloop-*", "checkpoints/step-00000009*"} {
		if left, _ := filepath.Glob(filepath.Join(dir, pattern)); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

func TestTwoRunsInOneFolder(t *testing.T) {
	w := newWorld(t, tinyworld.Share{Family: "town", Weight: 1})
	c := w.config(3)
	c.Save.Every = 1
	dir := filepath.Join(t.TempDir(), "run")
	var fresh, resumed error
	v := &quiet{f: func(m *StepMetrics) {
		if m.Step == 2 {
			_, fresh = Run(context.Background(), Options{Config: c, Dir: dir, Tokenizer: w.tok, View: &quiet{}})
			_, resumed = Run(context.Background(), Options{Config: c, Dir: dir, Tokenizer: w.tok, Resume: true, View: &quiet{}})
		}
	}}
	w.do(t, c, dir, Options{}, v)
	mustContain(t, fresh, "holds a run already")
	mustContain(t, resumed, "another process")
}

// TestWhatResumeCannotChange is about values that would be ignored, or go beyond what the model allows.
func TestWhatResumeCannotChange(t *testing.T) {
	w := newWorld(t, tinyworld.Share{Family: "town", Weight: 1})
	dir := filepath.Join(t.TempDir(), "run")
	w.do(t, w.config(2), dir, Options{}, nil)
	for word, change := range map[string]func(c *Config){
		"model.dim":     func(c *Config) { c.Model.Dim = 32 },
		"model.inject":  func(c *Config) { c.Model.Inject = "none" },
		"loops.default": func(c *Config) { c.Loops.Default = 2 },
		"loops.max":     func(c *Config) { c.Loops.Max = 64 },
		"moments":       func(c *Config) { c.Optimizer.Kind = "adamw" },
	} {
		c := w.config(3)
		change(&c)
		w.refused(t, c, Options{Dir: dir, Resume: true}, word)
	}
	c := w.config(3)
	c.Loops.Max = 5
	v := &quiet{}
	w.do(t, c, dir, Options{Resume: true}, v)
	spec, _, _, err := readModel(filepath.Join(dir, LastName))
	if err != nil || spec.Loops.TrainedMax != 5 || v.steps[0].MaxLoops != 5 {
		t.Errorf("%+v, %v", spec.Loops, err)
	}
}

// TestInterruptDuringEvaluation stops a run while it measures; going on must do what was left out, and end with the same bytes.
func TestInterruptDuringEvaluation(t *testing.T) {
	w := newWorld(t, tinyworld.Share{Family: "chain", Weight: 1})
	c := w.config(8)
	c.Eval.Every, c.Eval.Loops, c.Eval.Batches = 2, []int{1, 3}, 4
	c.Curriculum = CurriculumConfig{Families: []string{"chain"}, Start: 1, Advance: 0.9, Every: 2, Patience: 2}
	dir := t.TempDir()
	want := w.do(t, c, filepath.Join(dir, "straight"), Options{}, nil)

	ctx, cancel := context.WithCancel(t.Context())
	v := &quiet{f: func(m *StepMetrics) {
		if m.Step == 4 {
			cancel() // after the step, before what follows it
		}
	}}
	stopped := filepath.Join(dir, "stopped")
	m, err := Run(ctx, Options{Config: c, Dir: stopped, Tokenizer: w.tok, View: v})
	if fault.Of(err) != fault.Canceled || m.Status != Interrupted || m.Progress.Step != 4 || len(m.Evaluations) != 1 {
		t.Fatalf("%v, %+v", err, m)
	}
	if got := w.do(t, c, stopped, Options{Resume: true}, nil); got != want {
		t.Errorf("weights %.12s, those of the run without a stop %.12s", got, want)
	}
	again, err := ReadManifest(stopped)
	if err != nil {
		t.Fatal(err)
	}
	straight, err := ReadManifest(filepath.Join(dir, "straight"))
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Evaluations) != len(straight.Evaluations) || again.Progress.Level != straight.Progress.Level || again.Progress.Best != straight.Progress.Best {
		t.Errorf("%d evaluations, %+v; without a stop %d, %+v", len(again.Evaluations), again.Progress, len(straight.Evaluations), straight.Progress)
	}
}

func TestSampleThatDoesNotFit(t *testing.T) {
	w := newWorld(t)
	c := w.config(1)
	c.Eval.Chat = []string{strings.Repeat("a long question ", 40), "Hi"}
	v := &quiet{}
	w.do(t, c, filepath.Join(t.TempDir(), "run"), Options{}, v)
	if s := v.evals[0].Samples; len(s) != 2 || !strings.Contains(s[0].Error, "window") || s[1].Error != "" {
		t.Errorf("%+v", s)
	}
}

// TestWeightsWithoutFiniteLoss gives an evaluation NaN: it is told, fits into JSON, and such weights are never the best.
func TestWeightsWithoutFiniteLoss(t *testing.T) {
	w := newWorld(t)
	c := w.config(3)
	c.Eval.Every = 1
	dir := filepath.Join(t.TempDir(), "run")
	o := Options{Config: c, Dir: dir, Tokenizer: w.tok, Threads: 1}
	v := &quiet{}
	r := &run{o: o, cfg: &o.Config}
	r.o.View = v
	defer r.close()
	if err := r.prepare(); err != nil {
		t.Fatal(err)
	}
	for i := range r.t.ema {
		r.t.ema[i] = float32(math.NaN())
	}
	if err := r.evaluate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := v.evals[0]; e.Best || !e.Valid[0].Diverged || r.st.Best != 0 {
		t.Errorf("%+v, best %g", e, r.st.Best)
	}
	if m, err := ReadManifest(dir); err != nil || !m.Evaluations[0].Valid[0].Diverged {
		t.Errorf("%+v, %v", m, err)
	}
	copy(r.t.ema, r.t.params)
	if err := r.evaluate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !v.evals[1].Best {
		t.Error("weights with a loss are not better than such without")
	}
}

func TestWeightsOfAnotherTokenizer(t *testing.T) {
	a, b := newWorld(t, tinyworld.Share{Family: "town", Weight: 1}), newWorld(t, tinyworld.Share{Family: "arith", Weight: 1})
	if a.tok.Size() < b.tok.Size() {
		a, b = b, a
	}
	dir := filepath.Join(t.TempDir(), "run")
	a.do(t, a.config(1), dir, Options{}, nil)
	c := b.config(1)
	c.Init.From = dir
	b.refused(t, c, Options{}, "another tokenizer", "token")
}

// TestFailedSaveLeavesTheLastCheckpoint puts a folder where the state would go.
func TestFailedSaveLeavesTheLastCheckpoint(t *testing.T) {
	w := newWorld(t, tinyworld.Share{Family: "town", Weight: 1})
	c := w.config(4)
	c.Save.Every = 2
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.MkdirAll(checkpointPath(dir, 4)+stateSuffix, 0o777); err != nil {
		t.Fatal(err)
	}
	m, err := Run(t.Context(), Options{Config: c, Dir: dir, Tokenizer: w.tok, View: &quiet{}})
	mustContain(t, err, "step-00000004.state")
	if strings.Contains(err.Error(), "\n") || m.Status != Failed {
		t.Errorf("%q, %s", err, m.Status)
	}
	if _, err := os.Stat(checkpointPath(dir, 4) + modelSuffix); !os.IsNotExist(err) {
		t.Errorf("half a checkpoint stays: %v", err)
	}
	os.Remove(checkpointPath(dir, 4) + stateSuffix)
	w.do(t, c, dir, Options{Resume: true}, nil)
}

func TestStateIsChecked(t *testing.T) {
	for _, bad := range []state{{Step: -1}, {Step: 1 << 40}, {Updates: -3}, {Level: 1 << 30}, {Step: 3, Evaluated: 9}, {Elapsed: -1}} {
		text, err := json.Marshal(bad)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "x.state")
		meta := []tensorfile.KV{{Key: "general.architecture", Value: "tinyloop-training"}, {Key: keyState, Value: string(text)}}
		if err := tensorfile.Write(path, meta, []tensorfile.Source{floats("first", []int{1}, []float32{1})}); err != nil {
			t.Fatal(err)
		}
		_, _, err = readState(path, "")
		mustContain(t, err, "no state of training")
	}
}

// TestLostCheckpoints: a run whose checkpoints somebody removed does not begin again over the weights that are left of it.
func TestLostCheckpoints(t *testing.T) {
	w, c, whole := finished(t)
	for name, pattern := range map[string]string{"all": "step-*", "states": "step-*" + stateSuffix} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			copyFolder(t, whole, dir)
			files, err := filepath.Glob(filepath.Join(dir, checkpointFolder, pattern))
			if err != nil || len(files) == 0 {
				t.Fatal(files, err)
			}
			for _, f := range files {
				if err := os.Remove(f); err != nil {
					t.Fatal(err)
				}
			}
			w.refused(t, c, Options{Dir: dir, Resume: true}, "no whole checkpoint", "step 4", "--from")
			for _, f := range []string{BestName, LastName, "metrics.jsonl"} {
				same(t, filepath.Join(whole, f), filepath.Join(dir, f))
			}
		})
	}
}

// TestDamagedCorpusIsRefused: one changed token is seen before the first step.
func TestDamagedCorpusIsRefused(t *testing.T) {
	w := newWorld(t, tinyworld.Share{Family: "town", Weight: 1})
	dir := filepath.Join(t.TempDir(), "corpus")
	copyFolder(t, w.corpus, dir)
	shards, err := filepath.Glob(filepath.Join(dir, "train-*"))
	if err != nil || len(shards) == 0 {
		t.Fatal(shards, err)
	}
	b, err := os.ReadFile(shards[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(shards[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	c := w.config(2)
	c.Data.Corpus = dir
	w.refused(t, c, Options{}, "the file is damaged", filepath.Base(shards[0]))
}
