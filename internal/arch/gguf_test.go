package arch

import (
	"path/filepath"
	"strings"
	"testing"

	"tinyloop/internal/fault"
	"tinyloop/internal/model"
)

// TestWrittenGGUF: families of Hugging Face that GGUF has are written as that, and compute what their references do.
func TestWrittenGGUF(t *testing.T) {
	for name, r := range references(t) {
		out := filepath.Join(t.TempDir(), "m.gguf")
		err := Convert(open(t, r.folder(t)), out, ConvertOptions{})
		arch, known := map[string]string{"llama": "llama", "llama_biased": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "nanbeige": "nanbeige", "gemma2": "gemma2"}[name]
		if !known {
			if fault.Of(err) != fault.Unsupported || !strings.Contains(err.Error(), "can be written as .tinyloop, not as .gguf") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		f := open(t, out)
		if got, _ := ModelType(f); got != arch {
			t.Errorf("%s is written as %s, want %s", name, got, arch)
		}
		if d := r.worst(t, load(t, out)); !(d <= 1e-5) {
			t.Errorf("%s: a logit differs by %.3g", name, d)
		}
	}
}

// TestNanbeigeLayout: a model of ours without an injection is written in the layout that stock llama.cpp loops; what the layout has not is refused by name.
func TestNanbeigeLayout(t *testing.T) {
	plain := exported()["plain"]
	tokens := []int32{3, 14, 15, 9, 26, 5, 35, 8}
	for _, change := range []func(s *model.Spec){
		func(s *model.Spec) {},
		func(s *model.Spec) { s.LoopNorm, s.TiedHead = model.LoopNormBetween, false },
		func(s *model.Spec) { s.Block.Pos, s.Loops = model.RopeInterleaved, once() },
		func(s *model.Spec) {
			s.Block.RopeDim, s.Block.QKVBias, s.Block.MLPBias, s.Block.OutBias = 4, true, true, true
		},
	} {
		s := plain
		change(&s)
		path, out := save(t, &s), filepath.Join(t.TempDir(), "m.gguf")
		if err := Convert(open(t, path), out, ConvertOptions{Layout: "nanbeige"}); err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{true: "nanbeige", false: "llama"}[s.Loops.HardMax > 1]
		if got, _ := ModelType(open(t, out)); got != want {
			t.Errorf("written as %s, want %s", got, want)
		}
		a, b := bits(t, load(t, path), tokens, 1), bits(t, load(t, out), tokens, 1)
		for i := range a {
			for j := range a[i] {
				if d := a[i][j] - b[i][j]; d > 1e-5 || d < -1e-5 { // sums of a head in another order
					t.Fatalf("logit %d of row %d is %v and %v", j, i, a[i][j], b[i][j])
				}
			}
		}
	}
	for want, change := range map[string]func(s *model.Spec){
		"an injection":                           func(s *model.Spec) { s.Injection = model.InjectAdd },
		"blocks before or behind the loop":       func(s *model.Spec) { s.Prelude = 1 },
		"norms that are layernorm":               func(s *model.Spec) { s.Block.Norm = model.LayerNorm },
		"norms at the place post":                func(s *model.Spec) { s.Block.NormPlace = model.PostNorm },
		"a feed-forward layer of the kind relu2": func(s *model.Spec) { s.Block.MLP = model.ReLU2 },
		"positions of the kind none":             func(s *model.Spec) { s.Block.Pos = model.NoPos },
		"norms or biases on query and key heads": func(s *model.Spec) { s.Block.QKNorm = true },
		"a norm of its own between passes":       func(s *model.Spec) { s.LoopNorm = model.LoopNormOwn },
		"an exit gate":                           func(s *model.Spec) { s.ExitGate = true },
		"an attention scale":                     func(s *model.Spec) { s.Block.AttnScale = 0.5 },
		"a factor or norm on the embedding":      func(s *model.Spec) { s.Embed.Scale = 2 },
		"a factor or soft cap on the logits":     func(s *model.Spec) { s.LogitSoftcap = 20 },
		"a window, with a loop":                  func(s *model.Spec) { s.Block.Window = 8 },
	} {
		s := plain
		change(&s)
		err := Convert(open(t, save(t, &s)), filepath.Join(t.TempDir(), "m.gguf"), ConvertOptions{Layout: "nanbeige"})
		if fault.Of(err) != fault.Unsupported || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	for _, c := range [][2]string{{"m.gguf", "llama4"}, {"m.tinyloop", "nanbeige"}} {
		if err := Convert(open(t, save(t, &plain)), filepath.Join(t.TempDir(), c[0]), ConvertOptions{Layout: c[1]}); fault.Of(err) != fault.Invalid {
			t.Errorf("%v: %v", c, err)
		}
	}
}
