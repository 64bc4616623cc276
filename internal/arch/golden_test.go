package arch

import (
	"encoding/json"
	"math"
	"path/filepath"
	"sort"
	"testing"

	"tinyloop/internal/fixture"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// golden is what llama.cpp computed for one variant of stories260K.
type golden struct {
	Tokens   []int32        `json:"tokens"`
	MeanNLL  float64        `json:"mean_nll"`
	Top8     [][][2]float64 `json:"top8"`
	LastFull []float64      `json:"last_full"`
	Greedy   []int32        `json:"greedy"`
}

func goldens(t *testing.T) map[string]golden {
	var file struct {
		Models map[string]golden `json:"models"`
	}
	if err := json.Unmarshal(fixture.Read(t, "goldens", "stories260K_goldens.json"), &file); err != nil {
		t.Fatal(err)
	}
	return file.Models
}

func open(t *testing.T, path string) *tensorfile.File {
	t.Helper()
	f, err := tensorfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func load(t *testing.T, path string) *model.Model {
	t.Helper()
	m, err := Load(open(t, path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// story runs one sequence on a Scratch of its own.
type story struct {
	s     *model.Scratch
	depth int
	pages [][]int32
	rows  []model.Row
}

func newStory(t *testing.T, m *model.Model, depth, threads int) *story {
	t.Helper()
	return newStoryKV(t, m, depth, threads, kernel.F32)
}

func newStoryKV(t *testing.T, m *model.Model, depth, threads int, kv kernel.Type) *story {
	t.Helper()
	slots, blocks := m.Spec.Slots(depth), (m.Spec.Context+15)/16
	s, err := m.NewScratch(model.Options{Threads: threads, KVType: kv, Pages: slots * blocks, MaxRows: m.Spec.Context, MaxLoops: max(depth, m.Spec.Loops.HardMax)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	st := &story{s: s, depth: depth, pages: make([][]int32, slots)}
	for i := range st.pages {
		for b := range blocks {
			st.pages[i] = append(st.pages[i], int32(i*blocks+b))
		}
	}
	return st
}

// run pushes tokens from position pos on; logits are wanted of all.
func (st *story) run(pos int, tokens []int32) {
	st.rows = st.rows[:0]
	for i, id := range tokens {
		st.rows = append(st.rows, model.Row{Token: id, Pos: int32(pos + i), Depth: int32(st.depth), State: int32(i), Pages: st.pages, Want: true})
	}
	st.s.Enter(st.rows)
	for range st.depth {
		st.s.Turn(st.rows)
	}
	st.s.Leave(st.rows)
}

// probabilities of row i, with the logarithm of each.
func probabilities(logits []float32) (p, logp []float64) {
	top, sum := math.Inf(-1), 0.0
	for _, x := range logits {
		top = max(top, float64(x))
	}
	for _, x := range logits {
		sum += math.Exp(float64(x) - top)
	}
	for _, x := range logits {
		l := float64(x) - top - math.Log(sum)
		p, logp = append(p, math.Exp(l)), append(logp, l)
	}
	return p, logp
}

// deviation is how far a run lies from its golden.
type deviation struct{ prob, nll float64 }

func (g *golden) compare(t *testing.T, st *story) deviation {
	t.Helper()
	st.run(0, g.Tokens)
	var d deviation
	nll := 0.0
	for i := range g.Tokens {
		p, logp := probabilities(st.s.Logits(i))
		for _, top := range g.Top8[i] {
			d.prob = max(d.prob, math.Abs(p[int(top[0])]-top[1]))
		}
		if i+1 < len(g.Tokens) {
			nll -= logp[g.Tokens[i+1]]
			continue
		}
		for id, want := range g.LastFull {
			d.prob = max(d.prob, math.Abs(p[id]-want))
		}
	}
	d.nll = math.Abs(nll/float64(len(g.Tokens)-1) - g.MeanNLL)
	return d
}

// greedy takes the most probable token again and again, from the start token.
func (g *golden) greedy(st *story) []int32 {
	next := g.Tokens[0]
	var out []int32
	for pos := 0; len(out) < len(g.Greedy); pos++ {
		st.run(pos, []int32{next})
		next = int32(kernel.ArgMax(st.s.Logits(0)))
		out = append(out, next)
	}
	return out
}

func TestGoldens(t *testing.T) {
	all := goldens(t)
	for _, c := range []struct {
		name, file string
		depth      int
		prob, nll  float64
	}{
		{"f32", "stories260K-f32.gguf", 1, 2e-6, 1e-4},
		{"f32", "stories260K.bin", 1, 2e-6, 1e-4},
		{"f16", "stories260K-f16.gguf", 1, 2e-3, 1e-4},
		{"q8_0", "stories260K-q8_0.gguf", 1, 5e-2, 1e-3},
		{"q5_1", "stories260K-q5_1.gguf", 1, 5e-2, 1e-3},
		{"q4_0", "stories260K-q4_0.gguf", 1, 5e-2, 1e-3},
		{"loop1", "looped-nanbeige-3x.gguf", 1, 2e-6, 1e-4},
		{"loop2", "looped-nanbeige-3x.gguf", 2, 2e-6, 1e-4},
		{"loop3", "looped-nanbeige-3x.gguf", 3, 2e-6, 1e-4},
		{"loop4", "looped-nanbeige-3x.gguf", 4, 2e-6, 1e-4},
		{"loop1", "looped-nanbeige-3x-skipnorm.gguf", 1, 2e-6, 1e-4},
		{"loop2skip", "looped-nanbeige-3x-skipnorm.gguf", 2, 2e-6, 1e-4},
		{"loop3skip", "looped-nanbeige-3x-skipnorm.gguf", 3, 2e-6, 1e-4},
	} {
		t.Run(c.name+"/"+c.file, func(t *testing.T) {
			g := all[c.name]
			st := newStory(t, load(t, fixture.Path(t, "stories260K", c.file)), c.depth, 2)
			d := g.compare(t, st)
			t.Logf("largest difference of a probability %.3g (limit %.3g), of the mean NLL %.3g (limit %.3g)", d.prob, c.prob, d.nll, c.nll)
			if !(d.prob <= c.prob) || !(d.nll <= c.nll) {
				t.Error("too far from the golden")
			}
			if c.prob > 2e-6 {
				return // other roundings may pick another of two near-equal tokens
			}
			got := g.greedy(st)
			for i := range got {
				if got[i] != g.Greedy[i] {
					t.Fatalf("greedy token %d is %d, want %d", i, got[i], g.Greedy[i])
				}
			}
		})
	}
}

// TestHalfKV: keys and values in half the memory cost little; plain weights stay within the limits of weights in halves. (Quantised ones do not: their activations are
// rounded to int8, and a last bit of a key moves some of those to the next integer.)
func TestHalfKV(t *testing.T) {
	for _, c := range []struct {
		name, file string
		depth      int
		prob, nll  float64
	}{
		{"f32", "stories260K-f32.gguf", 1, 2e-3, 1e-4},
		{"f16", "stories260K-f16.gguf", 1, 2e-3, 1e-4},
		{"loop2", "looped-nanbeige-3x.gguf", 2, 2e-3, 1e-4},
		{"q8_0", "stories260K-q8_0.gguf", 1, 5e-2, 5e-3},
	} {
		g := goldens(t)[c.name]
		d := g.compare(t, newStoryKV(t, load(t, fixture.Path(t, "stories260K", c.file)), c.depth, 2, kernel.F16))
		t.Logf("%s with f16 KV: a probability differs by up to %.3g, the mean NLL by %.3g", c.name, d.prob, d.nll)
		if !(d.prob < c.prob) || !(d.nll < c.nll) || d.prob < 1e-6 {
			t.Error("too far from the golden, or not f16 at all")
		}
	}
}

// TestByteKV: keys and values in a little more than a quarter of the memory.
func TestByteKV(t *testing.T) {
	for _, c := range []struct {
		name, file string
		depth      int
		nll        float64
	}{{"f32", "stories260K-f32.gguf", 1, 2e-3}, {"loop2", "looped-nanbeige-3x.gguf", 2, 1e-2}} {
		g := goldens(t)[c.name]
		d := g.compare(t, newStoryKV(t, load(t, fixture.Path(t, "stories260K", c.file)), c.depth, 2, kernel.Q8_0))
		t.Logf("%s with q8 KV: a probability differs by up to %.3g, the mean NLL by %.3g", c.name, d.prob, d.nll)
		if !(d.prob < 5e-2) || !(d.nll < c.nll) || d.prob < 1e-4 {
			t.Error("too far from the golden, or not q8 at all")
		}
	}
}

// bits are the logits of a text, for equality.
func bits(t *testing.T, m *model.Model, tokens []int32, threads int) [][]float32 {
	t.Helper()
	st := newStory(t, m, m.Spec.Loops.Default, threads)
	st.run(0, tokens)
	var out [][]float32
	for i := range tokens {
		out = append(out, append([]float32(nil), st.s.Logits(i)...))
	}
	return out
}

func equalBits(t *testing.T, what string, a, b [][]float32) {
	t.Helper()
	for i := range a {
		for j := range a[i] {
			if math.Float32bits(a[i][j]) != math.Float32bits(b[i][j]) {
				t.Fatalf("%s: logit %d of row %d is %v and %v", what, j, i, a[i][j], b[i][j])
			}
		}
	}
}

// TestContainers: the same weights in three containers are the same model to the bit.
func TestContainers(t *testing.T) {
	tokens := goldens(t)["f32"].Tokens
	gguf := fixture.Path(t, "stories260K", "stories260K-f32.gguf")
	bin := fixture.Path(t, "stories260K", "stories260K.bin")
	want := bits(t, load(t, gguf), tokens, 1)
	equalBits(t, "llama2.c", want, bits(t, load(t, bin), tokens, 2))
	for _, from := range []string{gguf, bin} {
		for _, name := range []string{"m.tinyloop", "m.gguf"} {
			out := filepath.Join(t.TempDir(), name)
			if err := Convert(open(t, from), out, ConvertOptions{License: "mit"}); err != nil {
				t.Fatal(err)
			}
			f := open(t, out)
			m, err := Load(f)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			equalBits(t, name, want, bits(t, m, tokens, 2))
			if i := InfoOf(f); i.License != "mit" || i.Quant != "f32" || (i.Hash != "") != (name == "m.tinyloop") {
				t.Errorf("%s from %s: info %+v", name, filepath.Base(from), i)
			}
		}
	}
}

// TestQuantisedLlama2c: llama2.c version 2 with groups of 8 loads and tells the same story as its source.
func TestQuantisedLlama2c(t *testing.T) {
	g := goldens(t)["f32"]
	d := g.compare(t, newStory(t, load(t, fixture.Path(t, "stories260K", "stories260K-q8.bin")), 1, 1))
	t.Logf("mean NLL differs by %.3g from f32", d.nll)
	if !(d.nll < 0.01) {
		t.Error("too far from f32")
	}
}

// TestOurQuantisation: what Convert writes has the bytes of the reference's files where both quantise, and its quality.
func TestOurQuantisation(t *testing.T) {
	src := fixture.Path(t, "stories260K", "stories260K-f32.gguf")
	for _, q := range []kernel.Type{kernel.F16, kernel.Q8_0, kernel.Q5_1, kernel.Q4_0} {
		out := filepath.Join(t.TempDir(), "q.gguf")
		var kept []string
		o := ConvertOptions{Type: &q, Note: func(name string, asked, got kernel.Type) { kept = append(kept, name) }}
		if err := Convert(open(t, src), out, o); err != nil {
			t.Fatal(err)
		}
		ref, our := open(t, fixture.Path(t, "stories260K", "stories260K-"+q.String()+".gguf")), open(t, out)
		same := 0
		for _, a := range ref.Tensors() {
			b, ok := our.Tensor(a.Name)
			if !ok {
				t.Fatalf("%s: %s is missing", q, a.Name)
			}
			if a.Type != q || b.Type != q {
				continue
			}
			if string(a.Data) != string(b.Data) {
				t.Errorf("%s: %s differs from the reference's bytes", q, a.Name)
			}
			same++
		}
		sort.Strings(kept)
		if q.Block() > 1 && (len(kept) != 5 || kept[0] != "blk.0.ffn_down.weight") {
			t.Errorf("%s: kept plain %v, want the five ffn_down of width 172", q, kept)
		}
		if same < 30 {
			t.Errorf("%s: only %d tensors compared", q, same)
		}
	}
}
