package train

import (
	"math"
	"slices"
	"strings"
	"testing"

	"tinyloop/internal/chat"
	"tinyloop/internal/data"
	"tinyloop/internal/data/tinyworld"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tok"
)

func TestLoopsAreDrawn(t *testing.T) {
	l := LoopsConfig{Max: 8, Ramp: 0.4, Uniform: 0.5, Mean: 4}
	for _, c := range []struct {
		progress float64
		level    int
		want     int
	}{{0, 0, 1}, {0.05, 0, 2}, {0.2, 0, 5}, {0.39, 0, 8}, {0.4, 0, 8}, {1, 0, 8}, {0, 3, 3}, {0, 20, 8}} {
		if got := l.most(c.progress, c.level); got != c.want {
			t.Errorf("at %g, level %d: at most %d loops, expected %d", c.progress, c.level, got, c.want)
		}
	}
	counts := make([]int, 9)
	const n = 20000
	for i := range n {
		rng := source(7, streamPass, i, 3)
		again := source(7, streamPass, i, 3)
		r := l.draw(&rng, 8)
		if r != l.draw(&again, 8) {
			t.Fatal("the same place gives two counts")
		}
		counts[r]++
	}
	lambda, total := 3.0, 0.0
	weights := make([]float64, 9)
	for k := 1; k <= 8; k++ {
		weights[k] = math.Exp(-lambda) * math.Pow(lambda, float64(k-1)) / math.Gamma(float64(k))
		total += weights[k]
	}
	for k := 1; k <= 8; k++ {
		want := 0.5/8 + 0.5*weights[k]/total
		if got := float64(counts[k]) / n; math.Abs(got-want) > 0.015 {
			t.Errorf("%d loops: share %.3f, expected %.3f", k, got, want)
		}
	}
	rng := source(7, streamPass, 1, 1)
	if r := l.draw(&rng, 1); r != 1 {
		t.Errorf("at most 1 loop gives %d", r)
	}
}

func TestStatesTakeThePlaceOfAnswers(t *testing.T) {
	u := &micro{target: []tok.ID{-1, 5, 9, 7}, traces: []model.TraceTarget{{Pos: 1, Step: 1, ID: 3}, {Pos: 1, Step: 2, ID: 4}, {Pos: 1, Step: 3, ID: 5}, {Pos: 3, Step: 1, ID: 7}}}
	for r, want := range map[int][]tok.ID{1: {-1, 3, 9, 7}, 2: {-1, 4, 9, 7}, 3: {-1, 5, 9, 7}, 8: {-1, 5, 9, 7}} {
		v := &micro{target: slices.Clone(u.target), traces: u.traces}
		v.states(r)
		if !slices.Equal(v.target, want) {
			t.Errorf("%d loops: targets %v, expected %v", r, v.target, want)
		}
	}
}

// TestShardsOfABatch checks that the shards have every target and every trace of the batch once.
func TestShardsOfABatch(t *testing.T) {
	w := newWorld(t, tinyworld.Share{Family: "chain", Weight: 1})
	shards, err := data.OpenSplit(w.corpus, data.Train, w.tok.Hash())
	if err != nil {
		t.Fatal(err)
	}
	defer shards[0].Close()
	l, err := data.NewLoader(shards, data.LoaderOptions{Rows: 8, T: 64, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	var b data.Batch
	if err := l.Next(3, &b); err != nil {
		t.Fatal(err)
	}
	learned, traces := 0, 0
	for s := range 4 {
		u := micro{target: make([]tok.ID, 2*64)}
		u.load(&b, s, 2)
		for _, id := range u.pass.Target {
			if id >= 0 {
				learned++
			}
		}
		for _, tr := range u.traces {
			traces++
			if u.pass.Target[tr.Pos] < 0 {
				t.Error("a trace at a position that is not learned")
			}
		}
		u.onlyAnswers()
		for i, id := range u.pass.Target {
			if id >= 0 && b.Target[s*128+i] != id {
				t.Error("an answer is another than in the batch")
			}
		}
	}
	if learned != b.Learned || traces != len(b.Traces) || traces == 0 {
		t.Errorf("%d targets and %d traces in the shards, %d and %d in the batch", learned, traces, b.Learned, len(b.Traces))
	}
}

// TestNoise compares the noise with the error of storing: as large, and on looped matrices only.
func TestNoise(t *testing.T) {
	c := Default()
	c.Model.Context = 32
	s, err := c.spec(300)
	if err != nil {
		t.Fatal(err)
	}
	params := model.InitParams(s, 5)
	layout := s.Layout()
	for _, format := range []string{"q8_0", "q4_0"} {
		typ, _ := kernel.ParseType(format)
		w := slices.Clone(params)
		addNoise(w, layout, format, 1, 9)
		for _, p := range layout {
			was, is := params[p.Off:p.Off+p.Len], w[p.Off:p.Off+p.Len]
			if !p.Looped || p.K == 0 {
				if !slices.Equal(was, is) {
					t.Errorf("%s: %s has noise", format, p.Name)
				}
				continue
			}
			buf, stored := make([]byte, p.Len/typ.Block()*typ.BlockBytes()), make([]float32, p.Len)
			kernel.Quantize(buf, typ, was)
			kernel.Dequantize(stored, typ, buf)
			if a, b := distance(was, is), distance(was, stored); math.Abs(a/b-1) > 0.15 {
				t.Errorf("%s: noise of %s is %.3g, storing errs by %.3g", format, p.Name, a, b)
			}
		}
		again := slices.Clone(params)
		addNoise(again, layout, format, 1, 9)
		other := slices.Clone(params)
		addNoise(other, layout, format, 1, 10)
		if !slices.Equal(w, again) || slices.Equal(w, other) {
			t.Errorf("%s: noise must depend on the step alone", format)
		}
	}
}

func distance(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]-b[i]) * float64(a[i]-b[i])
	}
	return math.Sqrt(sum / float64(len(a)))
}

// TestTemplateIsWhatIsTrained compares the template of our files with how documents are encoded, tools and calls included.
func TestTemplateIsWhatIsTrained(t *testing.T) {
	w := newWorld(t)
	tm, err := chat.Compile(chatTemplate)
	if err != nil {
		t.Fatal(err)
	}
	coder := data.NewCoder(w.tok, chat.ChatML())
	o := &tinyworld.Options{Seed: 5}
	for _, family := range []string{"tools", "chat", "town"} {
		for i := range uint64(60) {
			d, err := tinyworld.New().Doc(o, family, i)
			if err != nil {
				t.Fatal(err)
			}
			if !d.IsChat() {
				continue
			}
			var x data.Tokens
			if err := coder.Encode(d, &x); err != nil {
				t.Fatal(err)
			}
			var want strings.Builder
			for _, id := range x.IDs {
				if w.tok.IsControl(id) {
					want.WriteString(w.tok.Piece(id))
				} else {
					want.Write(w.tok.Bytes(id))
				}
			}
			if got, want := render(t, tm, d), strings.TrimPrefix(want.String(), "<|bos|>"); got != want {
				t.Fatalf("%s %d: the template writes\n%s\ntraining\n%s", family, i, got, want)
			}
		}
	}
}

// render writes a document as a request with tools would be.
func render(t *testing.T, tm *chat.Template, d *data.Doc) string {
	t.Helper()
	r := chat.Render{}
	if len(d.Tools) > 0 {
		v, err := chat.ParseJSON(d.Tools)
		if err != nil {
			t.Fatal(err)
		}
		r.Tools = v.([]any)
	}
	for _, m := range d.Messages {
		msg := chat.Message{Role: m.Role, Content: m.Content}
		for _, c := range m.ToolCalls {
			args, err := chat.ParseJSON([]byte(c.Function.Arguments))
			if err != nil {
				t.Fatal(err)
			}
			msg.ToolCalls = append(msg.ToolCalls, chat.Object{{Key: "type", Value: "function"}, {Key: "function", Value: chat.Object{{Key: "name", Value: c.Function.Name}, {Key: "arguments", Value: args}}}})
		}
		r.Messages = append(r.Messages, msg)
	}
	parts, err := tm.Render(r)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

func TestConfig(t *testing.T) {
	good := func() Config {
		c := Default()
		c.Steps, c.Data.Corpus, c.Data.Tokenizer = 10, "corpus", "tokenizer.json"
		return c
	}
	c := good()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	for set, words := range map[string][]string{
		"seed=-1":              {"seed", "-1"},
		"budget=1ns":           {"budget", "1ns"},
		"optimizer.beta1=nan":  {"optimizer.beta1", "NaN"},
		"optimizer.eps=0":      {"optimizer.eps"},
		"epochs=0":             {"steps", "0 of them"},
		"batch.shards=0":       {"batch.shards", "1 to 64", "is 0"},
		"loops.max=1000":       {"loops.max", "256", "1000"},
		"loops.uniform=1.5":    {"loops.uniform", "0 to 1", "1.5"},
		"loops.ramp=nan":       {"loops.ramp", "NaN"},
		"optimizer.kind=sgd":   {"optimizer.kind", "muon or adamw", "sgd"},
		"schedule.shape=steps": {"schedule.shape", "trapezoid"},
		"quant.type=q9":        {"quant.type", "q9"},
		"data.corpus=":         {"corpus"},
		"eval.loops=[]":        {"eval.loops", "1 to 64"},
		"eval.loops=[0]":       {"eval.loops", "is 0"},
		"curriculum.advance=2": {"curriculum.advance", "0 to 1"},
		"optimizer.matrix=-1":  {"optimizer.matrix", "is -1"},
		"save.keep=0":          {"save.keep"},
		"loops.default=99":     {"loops.default"},
		"guard.most=0":         {"guard.most"},
		"optimizer.ema=1":      {"optimizer.ema"},
		"batch.rows=100000000": {"batch.rows"},
		"eval.batches=-9":      {"eval.batches"},
		"data.tokenizer=\"\"":  {"tokenizer"},
		"budget=3000h":         {"budget", "2160", "3000"},
		"quant.type=\"q4_K\"":  {"quant.type", "q8_0"},
	} {
		c, err := Load(good(), "", []string{set})
		if err == nil {
			err = c.Validate()
		}
		mustContain(t, err, words...)
	}
	for _, set := range []string{"nonsense=1", "optimizer.speed=1", "steps", "steps=many", "=", "model.preset=huge"} {
		if _, err := Load(good(), "", []string{set}); err == nil {
			t.Errorf("%s is accepted", set)
		}
	}
	c, err := Load(good(), "", []string{`model.preset="demo"`, "model.core=3", "name=other name", "eval.chat=[\"Hi\"]", "quant.type="})
	if err != nil || c.Model.Dim != 192 || c.Model.Core != 3 || c.Name != "other name" || c.Eval.Chat[0] != "Hi" || c.Quant.Type != "" {
		t.Errorf("%+v, %v", c.Model, err)
	}
}

func TestShapes(t *testing.T) {
	for name, want := range map[string]int64{"nano": 920_000, "mid": 1_560_000, "demo": 2_160_000, "big": 3_670_000} {
		c := Default()
		var err error
		if c.Model, err = preset(name); err != nil {
			t.Fatal(err)
		}
		vocab := 2048
		if name == "nano" {
			vocab = 1024
		}
		s, err := c.spec(vocab)
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := s.Params(); math.Abs(float64(n)/float64(want)-1) > 0.02 {
			t.Errorf("%s has %d parameters, expected about %d", name, n, want)
		}
	}
	c := Default()
	for _, f := range []func(m *ModelConfig){func(m *ModelConfig) { m.MLP = "x" }, func(m *ModelConfig) { m.Inject = "x" }, func(m *ModelConfig) { m.LoopNorm = "" },
		func(m *ModelConfig) { m.Dim = 0 }, func(m *ModelConfig) { m.Heads = 3; m.KVHeads = 2 }} {
		c.Model, _ = preset("nano")
		f(&c.Model)
		if _, err := c.spec(1000); err == nil {
			t.Errorf("%+v is accepted", c.Model)
		}
	}
}
