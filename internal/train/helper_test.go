package train

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tinyloop/internal/chat"
	"tinyloop/internal/data"
	"tinyloop/internal/data/tinyworld"
	"tinyloop/internal/tok"
)

// world is a small corpus with its tokenizer, made once for a test and what it runs.
type world struct {
	tok    *tok.Tokenizer
	corpus string
}

// newWorld makes a corpus of documents of the synthetic world.
func newWorld(t testing.TB, mix ...tinyworld.Share) *world {
	t.Helper()
	dir := t.TempDir()
	var inputs []string
	for _, sp := range []data.Split{data.Train, data.Valid} {
		var b bytes.Buffer
		o := tinyworld.Options{Seed: 3, Split: sp, Docs: 600, Lang: "en", Mix: mix}
		if sp == data.Valid {
			o.Docs = 120
		}
		if _, err := tinyworld.New().Write(context.Background(), &b, o, 1, nil); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, sp.String()+".jsonl")
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, path)
	}
	w := &world{corpus: filepath.Join(dir, "corpus")}
	var err error
	w.tok, err = tok.Train(context.Background(), tok.TrainOptions{Vocab: 384, Pre: "qwen2", Control: []string{"<|bos|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>"},
		Markers: []string{"<tool_call>", "</tool_call>"}, Whole: []string{"system", "user", "assistant", "tool"}}, func(yield func(string) error) error {
		_, err := data.Read(inputs, data.Limits{}, func(d *data.Doc) error {
			text := d.Text
			for _, m := range d.Messages {
				text += " " + m.Content
			}
			return yield(text)
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = data.Prepare(context.Background(), data.PrepareOptions{Inputs: inputs, Out: w.corpus, Coder: data.NewCoder(w.tok, chat.ChatML()), Shares: data.Shares{Valid: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// config is a run of milliseconds a step.
func (w *world) config(steps int) Config {
	c := Default()
	c.Name, c.Steps = "toy", steps
	c.Data.Corpus, c.Data.Tokenizer = w.corpus, "tokenizer.json"
	c.Model, _ = preset("toy")
	c.Model.Dim, c.Model.Heads, c.Model.KVHeads, c.Model.HeadDim, c.Model.Hidden, c.Model.Context, c.Model.Core = 16, 2, 2, 8, 32, 32, 1
	c.Batch = BatchConfig{Shards: 8, Rows: 1, Accumulate: 1}
	c.Loops.Max, c.Loops.Default, c.Loops.Mean = 3, 3, 2
	c.Schedule.Warmup = 5
	c.Eval = EvalConfig{Every: 0, Batches: 1, Loops: []int{1, 3}, Tokens: 4}
	c.Save = SaveConfig{Every: 0, Keep: 3}
	return c
}

// quiet is a View that runs f after each step.
type quiet struct {
	plan  *Plan
	f     func(m *StepMetrics)
	steps []StepMetrics
	evals []EvalMetrics
	notes []string
}

func (q *quiet) Start(p *Plan) { q.plan = p }
func (q *quiet) Step(m *StepMetrics) {
	q.steps = append(q.steps, *m)
	if q.f != nil {
		q.f(m)
	}
}
func (q *quiet) Eval(m *EvalMetrics) { q.evals = append(q.evals, *m) }
func (q *quiet) Note(s string)       { q.notes = append(q.notes, s) }

// do runs a recipe in a folder and gives the sum of the weights that came out.
func (w *world) do(t testing.TB, c Config, dir string, o Options, v *quiet) string {
	t.Helper()
	o.Config, o.Dir, o.Tokenizer, o.View = c, dir, w.tok, v
	if v == nil {
		o.View = &quiet{}
	}
	m, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if m.Artifacts[LastName] == "" {
		t.Fatalf("no %s: %v", LastName, m.Artifacts)
	}
	return m.Artifacts[LastName]
}

// copyFolder copies a run as it lies on the disk, as it would be found after the process was killed.
func copyFolder(t testing.TB, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func mustContain(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, expected one with %v", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}
