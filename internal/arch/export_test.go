package arch

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// exported are Specs that together have every option.
func exported() map[string]model.Spec {
	with := func(change func(s *model.Spec)) model.Spec {
		s := everything()
		change(&s)
		return s
	}
	return map[string]model.Spec{
		"everything": everything(),
		"plain": {Family: "llama", Vocab: 40, Dim: 32, Context: 48, Core: 2, Loops: fixed(2), TiedHead: true,
			Block: model.Block{Eps: 1e-5, Heads: 4, KVHeads: 2, HeadDim: 8, Pos: model.RopeHalf, RopeTheta: 10000, Hidden: 48}},
		"learned": with(func(s *model.Spec) {
			s.Block.Pos, s.Block.RopeFactors, s.Block.NormPlace, s.Block.MLP = model.Learned, false, model.PostNorm, model.GELU
		}),
		"concat": with(func(s *model.Spec) {
			s.Injection, s.InjectMatrix, s.CodaNorm, s.Block.MLP, s.Block.NormPlace = model.InjectConcat, false, model.CodaNormFinal, model.ReLU2, model.ResidualSandwich
		}),
		"scaled": with(func(s *model.Spec) {
			s.Injection, s.InjectMatrix, s.LoopNorm, s.Block.Norm, s.Block.NormPlace, s.TiedHead, s.Block.Pos = model.InjectScaled, false, model.LoopNormBetween, model.RMS, model.PreNorm, true, model.RopeHalf
		}),
		"add": with(func(s *model.Spec) {
			s.Injection, s.InjectMatrix, s.StateInit, s.Block.Window, s.Block.Pos, s.Block.RopeFactors, s.Block.MLP = model.InjectAdd, false, model.StateInput, 0, model.NoPos, false, model.GeGLU
		}),
	}
}

// TestExport: what is written for PyTorch is read back as the same model, to the bit, and states name and licence.
func TestExport(t *testing.T) {
	tokens := []int32{3, 14, 15, 9, 26, 5, 35, 8}
	for name, s := range exported() {
		path := save(t, &s, tensorfile.KV{Key: "general.license", Value: "mit"}, tensorfile.KV{Key: "general.name", Value: "small"})
		dir := filepath.Join(t.TempDir(), "out", "model")
		if err := Export(open(t, path), dir, ExportOptions{}); err != nil {
			t.Fatal(name, err)
		}
		f := open(t, dir)
		if got, err := SpecOf(f); err != nil || *got != s {
			t.Errorf("%s: wrote %+v\nread  %+v, %v", name, s, got, err)
		}
		want := bits(t, load(t, path), tokens, 1)
		equalBits(t, name, want, bits(t, load(t, dir), tokens, 1))
		back := filepath.Join(t.TempDir(), "back.tinyloop")
		if err := Convert(f, back, ConvertOptions{}); err != nil {
			t.Fatal(name, err)
		}
		a, _ := os.ReadFile(path)
		b, _ := os.ReadFile(back)
		if len(a) != len(b) || InfoOf(open(t, back)).Hash != InfoOf(open(t, path)).Hash || InfoOf(open(t, back)).License != "mit" {
			t.Errorf("%s: the file that came back is another one", name)
		}
	}
	s := everything()
	half := t.TempDir()
	if err := Export(open(t, save(t, &s)), half, ExportOptions{Type: kernel.BF16}); err != nil {
		t.Fatal(err)
	}
	f := open(t, half)
	if m, _ := f.Tensor("core.0.attn_q.weight"); m.Type != kernel.BF16 {
		t.Errorf("a matrix is %s", m.Type)
	}
	if v, _ := f.Tensor("core.0.attn_norm.weight"); v.Type != kernel.F32 {
		t.Errorf("a norm is %s", v.Type)
	}
	var bad fault.Kind
	if err := Export(f, t.TempDir(), ExportOptions{Type: kernel.Q8_0}); err != nil {
		bad = fault.Of(err)
	}
	if bad != fault.Unsupported {
		t.Errorf("q8_0: %v", bad)
	}
}

// TestExportRefusals: a changed config.json is refused where it would make another model.
func TestExportRefusals(t *testing.T) {
	s := everything()
	dir := t.TempDir()
	if err := Export(open(t, save(t, &s)), dir, ExportOptions{}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "config.json")
	good, _ := os.ReadFile(path)
	for key, c := range map[string]struct {
		v    any
		want fault.Kind
	}{"hidden_size": {64, fault.Invalid}, "injection": {"multiply", fault.Unsupported}, "condition": {"adaln", fault.Unsupported}, "core_count": {nil, fault.Invalid},
		"format_version": {9, fault.Unsupported}, "norm_epsilon": {"small", fault.Invalid}} {
		os.WriteFile(path, []byte(changed(t, string(good), key, c.v)), 0o644)
		if _, err := SpecOf(open(t, dir)); fault.Of(err) != c.want {
			t.Errorf("%s = %v: %v", key, c.v, err)
		}
	}
}

// TestTorch: the Python file computes what the engine does, and takes weights back. See test/torch/run.
func TestTorch(t *testing.T) {
	python := os.Getenv("TINYLOOP_TORCH")
	if python == "" {
		t.Skip("needs a python3 with torch, named by TINYLOOP_TORCH: test/torch/run")
	}
	tokens, loops := []int32{3, 14, 15, 9, 26, 5, 35, 8, 9, 7, 9, 3, 2, 38, 4, 6, 26, 4, 33, 8, 1, 0, 39, 17}, []int{1, 2, 3, 5}
	for name, s := range exported() {
		path, dir, again := save(t, &s), t.TempDir(), filepath.Join(t.TempDir(), "again")
		if err := Export(open(t, path), dir, ExportOptions{}); err != nil {
			t.Fatal(err)
		}
		ids, _ := json.Marshal(tokens)
		depths, _ := json.Marshal(loops)
		out := runPython(t, python, "check.py", dir, string(ids), string(depths), again)
		var logits [][][]float64
		if err := json.Unmarshal(out, &logits); err != nil {
			t.Fatal(err)
		}
		m, worst := load(t, path), 0.0
		for i, depth := range loops {
			st := newStory(t, m, depth, 1)
			st.run(0, tokens)
			for pos, row := range logits[i] {
				for id, x := range row {
					worst = max(worst, math.Abs(x-float64(st.s.Logits(pos)[id])))
				}
			}
		}
		t.Logf("%s: a logit differs by %.2g at most", name, worst)
		if !(worst <= 1e-4) {
			t.Errorf("%s: a logit differs by %.3g", name, worst)
		}
		equalBits(t, name+" written by PyTorch", bits(t, m, tokens, 1), bits(t, load(t, again), tokens, 1))
		saved := filepath.Join(t.TempDir(), "saved")
		runPython(t, python, "check_transformers.py", dir, string(ids), string(depths), saved)
		equalBits(t, name+" written by transformers", bits(t, m, tokens, 1), bits(t, load(t, saved), tokens, 1))
	}
}

// runPython runs a script of test/torch and gives what it prints.
func runPython(t *testing.T, python, script string, args ...string) []byte {
	t.Helper()
	var errs bytes.Buffer
	cmd := exec.Command(python, append([]string{filepath.Join("..", "..", "test", "torch", script)}, args...)...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", script, args[0], err, errs.String())
	}
	return out
}

// TestAutoMap: transformers finds a class by auto_map of config.json, as FILE.CLASS of the same folder, if the configuration's class says the same model_type.
func TestAutoMap(t *testing.T) {
	s := everything()
	dir := t.TempDir()
	if err := Export(open(t, save(t, &s)), dir, ExportOptions{}); err != nil {
		t.Fatal(err)
	}
	var config struct {
		ModelType     string            `json:"model_type"`
		Architectures []string          `json:"architectures"`
		AutoMap       map[string]string `json:"auto_map"`
	}
	b, _ := os.ReadFile(filepath.Join(dir, "config.json"))
	if err := json.Unmarshal(b, &config); err != nil {
		t.Fatal(err)
	}
	for auto, base := range map[string]string{"AutoConfig": "PretrainedConfig", "AutoModelForCausalLM": "PreTrainedModel"} {
		file, class, _ := strings.Cut(config.AutoMap[auto], ".")
		text, err := os.ReadFile(filepath.Join(dir, file+".py"))
		if err != nil {
			t.Fatalf("%s: %v", auto, err)
		}
		if !regexp.MustCompile(`(?m)^class ` + class + `\(.*\b` + base + `\b.*\):$`).Match(text) {
			t.Errorf("%s: %s.py has no class %s of %s", auto, file, class, base)
		}
		if auto == "AutoConfig" && !strings.Contains(string(text), "model_type = \""+config.ModelType+"\"") {
			t.Errorf("the class of the configuration does not say model_type %s", config.ModelType)
		}
		if auto == "AutoModelForCausalLM" && !slices.Equal(config.Architectures, []string{class}) {
			t.Errorf("architectures %v, auto_map %s", config.Architectures, class)
		}
		for _, m := range regexp.MustCompile(`(?m)^from \.(\w+) import`).FindAllSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(dir, string(m[1])+".py")); err != nil {
				t.Errorf("%s.py imports %s: %v", file, m[1], err)
			}
		}
	}
}
