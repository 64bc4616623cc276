package arch

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// everything is a Spec with as many options on as go together.
func everything() model.Spec {
	return model.Spec{Family: "test", Vocab: 40, Dim: 32, Context: 48, Prelude: 1, Core: 2, Coda: 1,
		Block: model.Block{Norm: model.LayerNorm, NormPlace: model.BranchSandwich, Eps: 1e-5, Heads: 4, KVHeads: 2, HeadDim: 10, QKVBias: true, OutBias: true,
			QKNorm: true, QKBias: true, AttnScale: 0.25, AttnSoftcap: 4, Window: 20, Pos: model.RopeInterleaved, RopeTheta: 5000, RopeDim: 6, RopeFactors: true,
			MLP: model.SwiGLU, Hidden: 64, MLPBias: true, ResidualScale: 0.5},
		Embed: model.Embed{Scale: 2, NormAfter: true}, PreludeNorm: true, Injection: model.InjectDiagonal, InjectMatrix: true, StateInit: model.StateZero,
		LoopNorm: model.LoopNormOwn, Readout: true, CodaNorm: model.CodaNormOwn, ExitGate: true,
		Loops:      model.Loops{Default: 3, TrainedMin: 1, TrainedMean: 2, TrainedMax: 4, HardMax: 6},
		LogitScale: 0.5, LogitSoftcap: 7}
}

// sources makes random tensors of a Spec.
func sources(s *model.Spec, seed uint64) []tensorfile.Source {
	rng := rand.New(rand.NewPCG(seed, seed))
	var out []tensorfile.Source
	for _, sl := range new(model.Weights).Slots(s) {
		data := make([]byte, 4*sl.Count())
		for i := range sl.Count() {
			binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(float32(rng.NormFloat64()/math.Sqrt(float64(max(sl.K, 4))))))
		}
		out = append(out, tensorfile.Source{Name: sl.Name, Type: kernel.F32, Shape: sl.Shape(), WriteTo: func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		}})
	}
	return out
}

func save(t *testing.T, s *model.Spec, extra ...tensorfile.KV) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.tinyloop")
	if err := Save(path, s, extra, sources(s, 1)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSpecRoundTrip: every leaf of a Spec reaches the file and comes back.
func TestSpecRoundTrip(t *testing.T) {
	base := everything()
	f := open(t, save(t, &base, tensorfile.KV{Key: keyAgreement, Value: []float32{0.5, 0.75, 1}}, tensorfile.KV{Key: "general.license", Value: "mit"}))
	got, err := SpecOf(f)
	if err != nil {
		t.Fatal(err)
	}
	if *got != base {
		t.Errorf("wrote %+v\nread  %+v", base, *got)
	}
	if i := InfoOf(f); i.License != "mit" || len(i.Agreement) != 3 || !strings.HasPrefix(i.Hash, "sha256:") {
		t.Errorf("info %+v", i)
	}
	leaves(reflect.ValueOf(&base).Elem(), "Spec", func(name string, change func()) {
		before := tinyloopKeys(&base)
		change()
		if reflect.DeepEqual(before, tinyloopKeys(&base)) {
			t.Errorf("%s is in no key", name)
		}
	})
}

// leaves visits every scalar of a struct with a func that changes it.
func leaves(v reflect.Value, name string, visit func(string, func())) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			leaves(v.Field(i), name+"."+v.Type().Field(i).Name, visit)
		}
	case reflect.Bool:
		visit(name, func() { v.SetBool(!v.Bool()) })
	case reflect.Int:
		visit(name, func() { v.SetInt(v.Int() + 1) })
	case reflect.Uint8:
		visit(name, func() { v.SetUint((v.Uint() + 1) % 2) })
	case reflect.Float32:
		visit(name, func() { v.SetFloat(v.Float() + 1) })
	case reflect.String:
		visit(name, func() { v.SetString(v.String() + "x") })
	}
}

// TestDocumentedKeys: docs/format/tinyloop.md has every key of the table with its words, and no other; and every tensor.
func TestDocumentedKeys(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "format", "tinyloop.md"))
	if err != nil {
		t.Fatal(err)
	}
	s := everything()
	known := map[string]bool{keyVersion: true, keyHash: true, keyAgreement: true, keyExitRule: true, keyExitThreshold: true, keyExitLoops: true, keyExitAgreement: true,
		tensorfile.KeyLayout: true}
	for _, fd := range fields(&s) {
		known["tinyloop."+fd.key] = true
	}
	for _, fd := range fields(&s) {
		required := regexp.MustCompile("`tinyloop\\." + regexp.QuoteMeta(fd.key) + "` \\|[^|]*required").Match(page)
		if required != fd.must {
			t.Errorf("tinyloop.%s: required is %v in the code, %v on the page", fd.key, fd.must, required)
		}
	}
	found := map[string]bool{}
	for _, m := range regexp.MustCompile("`(tinyloop\\.[a-z0-9_.]+)`").FindAllStringSubmatch(string(page), -1) {
		found[m[1]] = true
	}
	for k := range known {
		if !found[k] {
			t.Errorf("%s is not documented", k)
		}
	}
	for k := range found {
		if !known[k] {
			t.Errorf("%s is documented and unknown", k)
		}
	}
	learned := everything()
	learned.Block.Pos = model.Learned // only the names matter here
	for _, sl := range new(model.Weights).Slots(&learned) {
		name := regexp.MustCompile(`^(prelude|core|coda)\.\d+\.`).ReplaceAllString(sl.Name, "")
		if strings.HasSuffix(name, "norm.bias") {
			continue // said once for all norms
		}
		if !bytes.Contains(page, []byte("`"+name+"`")) {
			t.Errorf("tensor %s is not documented", name)
		}
	}
}

// TestSaveLoad: what is saved computes what was meant: Convert to the same format changes no bit, and quantised copies stay near.
func TestSaveLoad(t *testing.T) {
	tokens := []int32{3, 14, 15, 9, 26, 5, 35, 8, 9, 7, 9, 3, 2, 38, 4, 6, 26, 4, 33, 8}
	for _, change := range []func(*model.Spec){
		func(s *model.Spec) {},
		func(s *model.Spec) {
			s.Block.Pos, s.Block.RopeFactors, s.Block.NormPlace = model.Learned, false, model.PostNorm
		},
		func(s *model.Spec) { s.Injection, s.InjectMatrix, s.Block.MLP = model.InjectConcat, false, model.GELU },
		func(s *model.Spec) {
			s.TiedHead, s.Block.Norm, s.LoopNorm, s.Injection, s.InjectMatrix = true, model.RMS, model.LoopNormBetween, model.InjectScaled, false
		},
	} {
		s := everything()
		change(&s)
		path := save(t, &s)
		want := bits(t, load(t, path), tokens, 1)
		again := filepath.Join(t.TempDir(), "again.tinyloop")
		if err := Convert(open(t, path), again, ConvertOptions{}); err != nil {
			t.Fatal(err)
		}
		a, _ := os.ReadFile(path)
		b, _ := os.ReadFile(again)
		if !bytes.Equal(a, b) {
			t.Error("a converted copy in the same format is another file")
		}
		q, q8 := filepath.Join(t.TempDir(), "q.tinyloop"), kernel.Q8_0
		if err := Convert(open(t, path), q, ConvertOptions{Type: &q8, Template: "{{ x }}"}); err != nil {
			t.Fatal(err)
		}
		near := bits(t, load(t, q), tokens, 2)
		if math.Float32bits(near[3][5]) == math.Float32bits(want[3][5]) {
			t.Error("a quantised copy computes the same bits: nothing was quantised")
		}
		f := open(t, q)
		if tm, _ := f.Meta.String("tokenizer.chat_template"); tm != "{{ x }}" {
			t.Errorf("template %q", tm)
		}
		if tt, _ := f.Tensor("core.0.attn_norm.weight"); s.Block.NormPlace != model.PostNorm && tt.Type != kernel.F32 {
			t.Errorf("a norm became %s", tt.Type)
		}
	}
}

// gguf writes a file from keys and sources, for the refusals.
func gguf(t *testing.T, keys []tensorfile.KV, tensors []tensorfile.Source) *tensorfile.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := tensorfile.Write(path, keys, tensors); err != nil {
		t.Fatal(err)
	}
	return open(t, path)
}

// llamaFile is a tiny llama GGUF, changed before it is written.
func llamaFile(t *testing.T, prefix string, change func(keys *[]tensorfile.KV, tensors *[]tensorfile.Source)) *tensorfile.File {
	s := model.Spec{Vocab: 20, Dim: 16, Context: 32, Core: 2, Loops: model.Loops{Default: 1, TrainedMin: 1, TrainedMean: 1, TrainedMax: 1, HardMax: 4},
		Block: model.Block{Eps: 1e-5, Heads: 2, KVHeads: 1, HeadDim: 8, Pos: model.RopeInterleaved, RopeTheta: 10000, Hidden: 24}}
	keys := append([]tensorfile.KV{{Key: "general.architecture", Value: prefix}}, likeKeys(prefix+".", &s)...)
	tensors := sources(&s, 2)
	for i := range tensors {
		tensors[i].Name = ggufName(tensors[i].Name)
	}
	change(&keys, &tensors)
	return gguf(t, keys, tensors)
}

func set(key string, v any) func(*[]tensorfile.KV, *[]tensorfile.Source) {
	return func(keys *[]tensorfile.KV, _ *[]tensorfile.Source) {
		for i := range *keys {
			if (*keys)[i].Key == key {
				(*keys)[i].Value = v
				return
			}
		}
		*keys = append(*keys, tensorfile.KV{Key: key, Value: v})
	}
}

// TestRefusals: what this build would compute wrongly is refused by name.
func TestRefusals(t *testing.T) {
	f := llamaFile(t, "llama", func(*[]tensorfile.KV, *[]tensorfile.Source) {})
	if m, err := Load(f); err != nil {
		t.Fatal(err)
	} else {
		m.Close()
	}
	drop := func(name string) func(*[]tensorfile.KV, *[]tensorfile.Source) {
		return func(_ *[]tensorfile.KV, tensors *[]tensorfile.Source) {
			for i := range *tensors {
				if (*tensors)[i].Name == name {
					*tensors = append((*tensors)[:i], (*tensors)[i+1:]...)
					return
				}
			}
		}
	}
	reshape := func(_ *[]tensorfile.KV, tensors *[]tensorfile.Source) {
		for i := range *tensors {
			if (*tensors)[i].Name == "blk.1.ffn_up.weight" {
				(*tensors)[i].Shape = []int{16, 24}
			}
		}
	}
	extra := func(_ *[]tensorfile.KV, tensors *[]tensorfile.Source) {
		(*tensors)[0].Name = "blk.0.attn_sub_norm.weight"
		*tensors = append(*tensors, tensorfile.Source{Name: "token_embd.weight", Type: (*tensors)[0].Type, Shape: (*tensors)[0].Shape, WriteTo: (*tensors)[0].WriteTo})
	}
	for _, c := range []struct {
		arch, want string
		change     func(*[]tensorfile.KV, *[]tensorfile.Source)
		kind       fault.Kind
	}{
		{"llama", "llama.rope.scaling.type = yarn", set("llama.rope.scaling.type", "yarn"), fault.Unsupported},
		{"llama", "llama.expert_count = 8", set("llama.expert_count", uint32(8)), fault.Unsupported},
		{"llama", "llama.attention.clamp_kqv = 3", set("llama.attention.clamp_kqv", float32(3)), fault.Unsupported},
		{"llama", "llama.attention.value_length = 9", set("llama.attention.value_length", uint32(9)), fault.Unsupported},
		{"llama", "llama.attention.head_count_kv must be the same in every layer", set("llama.attention.head_count_kv", []int32{1, 2}), fault.Unsupported},
		{"llama", "kv_heads must be 1 to 2, is 7", set("llama.attention.head_count_kv", uint32(7)), fault.Invalid},
		{"llama", "llama.block_count must be an integer", set("llama.block_count", "two"), fault.Invalid},
		{"llama", "blocks must be 1 to", set("llama.block_count", uint32(0)), fault.Invalid},
		{"llama", "core must be 0 to", set("llama.block_count", uint32(1<<30)), fault.Invalid},
		{"llama", `tensor "blk.2.attn_norm.weight" is missing, expected [16]`, set("llama.block_count", uint32(3)), fault.Invalid},
		{"llama", `tensor "blk.1.attn_k.weight" is missing, expected [8 16]`, drop("blk.1.attn_k.weight"), fault.Invalid},
		{"llama", `tensor "blk.1.ffn_up.weight" has shape [16 24], expected [24 16]`, reshape, fault.Invalid},
		{"llama", `tensor "blk.0.attn_sub_norm.weight"`, extra, fault.Unsupported},
		{"nanbeige", "nanbeige.loop_share_kv = true", set("nanbeige.loop_share_kv", true), fault.Unsupported},
		{"nanbeige", "loops.hard_max must be 1", set("nanbeige.num_loops", uint32(0)), fault.Invalid},
		{"llama", `general.architecture mamba`, set("general.architecture", "mamba"), fault.Unsupported},
	} {
		f := llamaFile(t, c.arch, c.change)
		m, err := Load(f)
		if err == nil {
			m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || fault.Of(err) != c.kind {
			t.Errorf("want %q (%v), got %v", c.want, c.kind, err)
		}
	}
	untied := llamaFile(t, "llama", drop("output.weight"))
	if s, err := SpecOf(untied); err != nil || !s.TiedHead {
		t.Errorf("without output.weight: %v", err)
	}
}

// TestTinyloopRefusals: the keys of our own files.
func TestTinyloopRefusals(t *testing.T) {
	s := everything()
	for key, c := range map[string]struct {
		v    any
		want string
	}{
		"tinyloop.format_version": {uint32(2), "this build reads version 1"},
		"tinyloop.injection":      {"multiply", "tinyloop.injection = multiply is not known"},
		"tinyloop.condition":      {"adaln", "tinyloop.condition = adaln is not known"},
		"tinyloop.loops.default":  {uint32(9), "loops.default must be 1 to 6, is 9"},
		"tinyloop.tied_head":      {"yes", "tinyloop.tied_head must be true or false"},
		"tinyloop.norm_epsilon":   {"small", "tinyloop.norm_epsilon must be a number"},
		"tinyloop.core_count":     {int32(-1), "tinyloop.core_count must be an integer"},
		"tinyloop.feed_forward":   {true, "tinyloop.feed_forward must be a text"},
	} {
		keys := append([]tensorfile.KV{{Key: "general.architecture", Value: "tinyloop"}}, tinyloopKeys(&s)...)
		set(key, c.v)(&keys, nil)
		_, err := SpecOf(gguf(t, keys, sources(&s, 3)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", key, err)
		}
	}
}

// TestRopeFactors: a llama file with factors is another model from position 1 on, and the same one when they are ones.
func TestRopeFactors(t *testing.T) {
	with := func(factors ...float32) [][]float32 {
		f := llamaFile(t, "llama", func(_ *[]tensorfile.KV, tensors *[]tensorfile.Source) {
			*tensors = append(*tensors, tensorfile.Source{Name: "rope_freqs.weight", Type: kernel.F32, Shape: []int{4}, WriteTo: func(w io.Writer) error {
				return binary.Write(w, binary.LittleEndian, factors)
			}})
		})
		m, err := Load(f)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		return bits(t, m, []int32{1, 2, 3, 4}, 1)
	}
	m, err := Load(llamaFile(t, "llama", func(*[]tensorfile.KV, *[]tensorfile.Source) {}))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	plain := bits(t, m, []int32{1, 2, 3, 4}, 1)
	equalBits(t, "factors of one", plain, with(1, 1, 1, 1))
	other := with(1, 1, 2, 8)
	equalBits(t, "position 0", plain[:1], other[:1])
	if plain[3][2] == other[3][2] {
		t.Error("the factors changed nothing")
	}
}
