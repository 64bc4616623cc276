package arch

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tinyloop/internal/fixture"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// TestLlamaCpp: llama.cpp finds the same probabilities in the GGUF files that we write. See test/llamacpp/run.
func TestLlamaCpp(t *testing.T) {
	script := peer(t)
	vocabulary := tokenizerOf(t, fixture.Path(t, "stories260K", "stories260K-f32.gguf"))
	base := model.Spec{Family: "test", Vocab: 512, Dim: 64, Context: 64, Core: 3, Loops: once(),
		Block: model.Block{Eps: 1e-5, Heads: 4, KVHeads: 2, HeadDim: 16, RopeTheta: 10000, Hidden: 96}}
	for name, change := range map[string]func(s *model.Spec){
		"llama":      func(s *model.Spec) {},
		"llama tied": func(s *model.Spec) { s.TiedHead, s.Block.KVHeads = true, 4 },
		"llama long": func(s *model.Spec) { s.Block.RopeFactors = true },
		"qwen2":      func(s *model.Spec) { s.Block.Pos, s.Block.QKVBias, s.Block.RopeTheta = model.RopeHalf, true, 1e6 },
		"qwen3": func(s *model.Spec) {
			s.Block.Pos, s.Block.QKNorm, s.Block.RopeTheta, s.Block.HeadDim = model.RopeHalf, true, 1e6, 24
		},
		"gemma2": func(s *model.Spec) {
			s.Block.Pos, s.Block.NormPlace, s.Block.MLP, s.Block.AttnSoftcap, s.Block.HeadDim, s.Embed.Scale = model.RopeHalf, model.BranchSandwich, model.GeGLU, 5, 24, 8
			s.LogitSoftcap, s.TiedHead = 6, true
		},
		"nanbeige":   func(s *model.Spec) { s.Loops, s.LoopNorm, s.Block.HeadDim = fixed(2), model.LoopNormBetween, 24 },
		"nanbeige 3": func(s *model.Spec) { s.Loops, s.TiedHead = fixed(3), true },
		"ours, halves": func(s *model.Spec) {
			s.Loops, s.LoopNorm, s.Block.Pos, s.TiedHead = fixed(2), model.LoopNormBetween, model.RopeHalf, true
		},
	} {
		s := base
		change(&s)
		if s.Block.Pos == model.RopeHalf && s.Loops.HardMax == 1 {
			s.Family = name
		} else if s.Block.Pos != model.RopeHalf {
			s.Block.Pos = model.RopeInterleaved
		}
		path := written(t, &s, vocabulary)
		var tokens []int32
		for i := range 40 {
			tokens = append(tokens, int32(3+i*37%500))
		}
		tokens[0] = 1
		want := theirs(t, script, path, tokens)
		m := load(t, path)
		st := newStory(t, m, m.Spec.Loops.Default, 1)
		st.run(0, tokens)
		worst := 0.0
		for pos, row := range want {
			_, logp := probabilities(st.s.Logits(pos))
			for id, x := range row {
				worst = max(worst, math.Abs(math.Log(x)-logp[id]))
			}
		}
		t.Logf("%s: the logarithm of a probability differs by %.2g at most", name, worst)
		limit := 5e-5
		if s.Block.MLP == model.GeGLU {
			limit = 2e-3 // llama.cpp looks GELU up in a table of halves
		}
		if !(worst <= limit) || len(want) != len(tokens) || len(want[0]) != s.Vocab {
			t.Errorf("%s: %d positions of %d tokens, the logarithm of a probability differs by %.3g", name, len(want), len(want[0]), worst)
		}
	}
}

// peer gives the script that asks llama.cpp, or skips the test.
func peer(t *testing.T) string {
	t.Helper()
	script := os.Getenv("TINYLOOP_LLAMACPP")
	if script == "" {
		t.Skip("needs node and node-llama-cpp, named by TINYLOOP_LLAMACPP: test/llamacpp/run")
	}
	return script
}

// tokenizerOf gives the keys of a file that hold its vocabulary.
func tokenizerOf(t *testing.T, path string) []tensorfile.KV {
	t.Helper()
	var out []tensorfile.KV
	for _, kv := range open(t, path).Meta.KVs() {
		if strings.HasPrefix(kv.Key, "tokenizer.") {
			out = append(out, kv)
		}
	}
	return out
}

// theirs gives what llama.cpp takes for probable after each token: [position][token].
func theirs(t *testing.T, script, path string, tokens []int32) [][]float64 {
	t.Helper()
	ids, _ := json.Marshal(tokens)
	var errs bytes.Buffer
	cmd := exec.Command("node", script, path, string(ids))
	cmd.Dir, cmd.Stderr = filepath.Dir(script), &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", path, err, errs.String())
	}
	var p [][]float64
	if err := json.Unmarshal(out, &p); err != nil {
		t.Fatal(path, err)
	}
	return p
}

// TestLlamaCppPerplexity: every number format loses what it loses in llama.cpp, measured by the mean loss on a text of a model's own (drawn token by token, so
// that the loss is the entropy and not chance's). The stories are 64 wide, which K formats cannot be; theirs is a model of random weights. Rounding of activations moves single
// tokens by some per cent on either side, so 0.1 % is asked of the mean beyond three standard errors of it.
func TestLlamaCppPerplexity(t *testing.T) {
	script := peer(t)
	stories := fixture.Path(t, "stories260K", "stories260K-f32.gguf")
	vocabulary := tokenizerOf(t, stories)
	random := written(t, &model.Spec{Family: "llama", Vocab: 512, Dim: 256, Context: 512, Core: 2, Loops: once(), TiedHead: true,
		Block: model.Block{Eps: 1e-5, Heads: 8, KVHeads: 4, HeadDim: 32, RopeTheta: 10000, Hidden: 512, Pos: model.RopeInterleaved}}, vocabulary)
	for _, c := range []struct{ name, path, types string }{
		{"stories", stories, "f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1"},
		{"random", random, "f32 f16 q8_0 q4_0 q4_K q5_K q6_K"},
	} {
		tokens := drawn(t, c.path, 500)
		for name := range strings.FieldsSeq(c.types) {
			typ, ok := kernel.ParseType(name)
			if !ok {
				t.Fatal(name)
			}
			path := filepath.Join(t.TempDir(), name+".gguf")
			if err := Convert(open(t, c.path), path, ConvertOptions{Type: &typ}); err != nil {
				t.Fatal(err)
			}
			m := load(t, path)
			st := newStory(t, m, 1, 1)
			st.run(0, tokens)
			ours, off, square := 0.0, 0.0, 0.0
			n := float64(len(tokens) - 1)
			for i, p := range theirs(t, script, path, tokens)[:len(tokens)-1] {
				_, logp := probabilities(st.s.Logits(i))
				d := math.Log(p[tokens[i+1]]) - logp[tokens[i+1]]
				ours, off, square = ours-logp[tokens[i+1]]/n, off+d/n, square+d*d/n
			}
			noise := math.Sqrt((square - off*off) / n)
			t.Logf("%s %s: perplexity %.5f, %+.4f %% beside llama.cpp, standard error %.4f %%", c.name, name, math.Exp(ours), 100*off, 100*noise)
			if !(math.Abs(off) <= 1e-3+3*noise && math.Abs(off) <= 5e-3) {
				t.Errorf("%s %s: the perplexity is off by %.3f %%", c.name, name, 100*off)
			}
		}
	}
}

// drawn samples tokens from a model, the first one the start token.
func drawn(t *testing.T, path string, n int) []int32 {
	t.Helper()
	st := newStory(t, load(t, path), 1, 1)
	r := rand.New(rand.NewPCG(1, 2))
	tokens := []int32{1}
	for i := range n - 1 {
		st.run(i, tokens[i:])
		p, _ := probabilities(st.s.Logits(0))
		x, id := r.Float64(), 0
		for ; id < len(p)-1 && x >= p[id]; id++ {
			x -= p[id]
		}
		tokens = append(tokens, int32(max(id, 3)))
	}
	return tokens
}

// written makes a GGUF file of random weights, with a vocabulary that llama.cpp takes.
func written(t *testing.T, s *model.Spec, vocabulary []tensorfile.KV) string {
	t.Helper()
	kind, err := pick(families(), "", s.Family)
	if err != nil {
		if kind, err = llamaTarget(s); err != nil {
			t.Fatal(err)
		}
	}
	tensors := sources(s, 7)
	path := filepath.Join(t.TempDir(), "m.gguf")
	if s.Block.Pos == model.RopeHalf && kind.pairs {
		ours := filepath.Join(t.TempDir(), "m.tinyloop")
		if err := Save(ours, s, vocabulary, tensors); err != nil {
			t.Fatal(err)
		}
		if err := Convert(open(t, ours), path, ConvertOptions{Layout: "nanbeige"}); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for i := range tensors {
		tensors[i].Name = kind.tensor(s, tensors[i].Name).name
	}
	if err := write(path, kind, s, vocabulary, tensors); err != nil {
		t.Fatal(err)
	}
	return path
}
