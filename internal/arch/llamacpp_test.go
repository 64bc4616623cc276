package arch

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"tinyloop/internal/fixture"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// TestLlamaCpp: llama.cpp finds the same probabilities in the GGUF files that we write. See test/llamacpp/run.
func TestLlamaCpp(t *testing.T) {
	script := os.Getenv("TINYLOOP_LLAMACPP")
	if script == "" {
		t.Skip("needs node and node-llama-cpp, named by TINYLOOP_LLAMACPP: test/llamacpp/run")
	}
	f := open(t, fixture.Path(t, "stories260K", "stories260K-f32.gguf"))
	var vocabulary []tensorfile.KV
	for _, kv := range f.Meta.KVs() {
		if len(kv.Key) > 10 && kv.Key[:10] == "tokenizer." {
			vocabulary = append(vocabulary, kv)
		}
	}
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
		ids, _ := json.Marshal(tokens)
		var errs bytes.Buffer
		cmd := exec.Command("node", script, path, string(ids))
		cmd.Dir, cmd.Stderr = filepath.Dir(script), &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, errs.String())
		}
		var want [][]float64
		if err := json.Unmarshal(out, &want); err != nil {
			t.Fatal(name, err)
		}
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
