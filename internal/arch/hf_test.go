package arch

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tinyloop/internal/fixture"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
)

// checkpoint writes a folder as Hugging Face lays it out.
func checkpoint(t *testing.T, config map[string]any, tensors map[string][]float32, shapes map[string][]int) string {
	t.Helper()
	dir := t.TempDir()
	c, _ := json.Marshal(config)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), c, 0o644); err != nil {
		t.Fatal(err)
	}
	head := map[string]any{}
	var data bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		at := data.Len()
		binary.Write(&data, binary.LittleEndian, tensors[name])
		head[name] = map[string]any{"dtype": "F32", "shape": shapes[name], "data_offsets": []int{at, data.Len()}}
	}
	h, _ := json.Marshal(head)
	h = append(h, strings.Repeat(" ", (8-len(h)%8)%8)...) // as the reference implementation aligns the data
	var file bytes.Buffer
	binary.Write(&file, binary.LittleEndian, uint64(len(h)))
	file.Write(h)
	file.Write(data.Bytes())
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// halves reorders the rows of a query or key matrix from neighbouring pairs to halves.
func halves(w []float32, k, dim int) []float32 {
	out := make([]float32, len(w))
	for r := range len(w) / k {
		h, j := r/dim*dim, r%dim
		to := h + j/2 + j%2*dim/2
		copy(out[to*k:(to+1)*k], w[r*k:(r+1)*k])
	}
	return out
}

// hfStory is stories260K as a Hugging Face checkpoint.
func hfStory(t *testing.T, change func(config map[string]any)) string {
	t.Helper()
	f := open(t, fixture.Path(t, "stories260K", "stories260K-f32.gguf"))
	s, err := SpecOf(f)
	if err != nil {
		t.Fatal(err)
	}
	tensors, shapes := map[string][]float32{}, map[string][]int{}
	for _, sl := range new(model.Weights).Slots(s) {
		src, _ := f.Tensor(ggufName(sl.Name))
		v := make([]float32, src.Len())
		kernel.Dequantize(v, src.Type, src.Data)
		if strings.Contains(sl.Name, "attn_q.") || strings.Contains(sl.Name, "attn_k.") {
			v = halves(v, sl.K, s.Block.HeadDim)
		}
		name := hfPlace(s, sl.Name).name
		tensors[name], shapes[name] = v, sl.Shape()
	}
	config := map[string]any{"model_type": "llama", "hidden_size": 64, "intermediate_size": 172, "num_hidden_layers": 5, "num_attention_heads": 8, "num_key_value_heads": 4,
		"vocab_size": 512, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 10000, "torch_dtype": "float32", "rope_scaling": nil}
	change(config)
	return checkpoint(t, config, tensors, shapes)
}

// TestSafetensors: the Hugging Face form of the real model, with its other order of rows, tells the same story; so does its .tinyloop.
func TestSafetensors(t *testing.T) {
	dir := hfStory(t, func(map[string]any) {})
	g := goldens(t)["f32"]
	if d := g.compare(t, newStory(t, load(t, dir), 1, 1)); !(d.prob < 1e-5) {
		t.Errorf("probabilities differ by %.3g", d.prob)
	}
	out := filepath.Join(t.TempDir(), "m.tinyloop")
	if err := Convert(open(t, dir), out, ConvertOptions{}); err != nil {
		t.Fatal(err)
	}
	equalBits(t, "converted", bits(t, load(t, dir), g.Tokens, 1), bits(t, load(t, out), g.Tokens, 2))
	out = filepath.Join(t.TempDir(), "m.gguf") // has the rows in the order of the original again
	if err := Convert(open(t, dir), out, ConvertOptions{}); err != nil {
		t.Fatal(err)
	}
	was := fixture.Path(t, "stories260K", "stories260K-f32.gguf")
	equalBits(t, "as GGUF", bits(t, load(t, was), g.Tokens, 1), bits(t, load(t, out), g.Tokens, 2))
}

func TestSafetensorsRefusals(t *testing.T) {
	for key, c := range map[string]struct {
		v    any
		want string
	}{
		"rope_scaling":          {map[string]any{"rope_type": "yarn", "factor": 8}, "rope_scaling.rope_type = yarn"},
		"hidden_act":            {"gelu", "hidden_act = gelu"},
		"quantization_config":   {map[string]any{"bits": 4}, "quantization_config"},
		"partial_rotary_factor": {0.5, "partial_rotary_factor = 0.5"},
		"layer_types":           {[]string{"sliding_attention"}, "layer_types = [sliding_attention] is not known"},
		"attention_chunk_size":  {8192, "attention_chunk_size = 8192 is not known"},
		"model_type":            {"mamba", "model_type mamba"},
		"hidden_size":           {"big", "config.json"},
		"num_hidden_layers":     {6, `tensor "model.layers.5.input_layernorm.weight" is missing`},
	} {
		dir := hfStory(t, func(config map[string]any) { config[key] = c.v })
		_, err := Load(open(t, dir))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", key, err)
		}
	}
}

// TestOuroCheckpoint: the tensors of Ouro's published layout are bound, all of them, and the model runs at every depth.
func TestOuroCheckpoint(t *testing.T) {
	const dim, hidden, layers, vocab = 16, 24, 2, 30
	tensors, shapes := map[string][]float32{}, map[string][]int{}
	add := func(name string, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(math.Sin(float64(i*7+len(name)))) / 3
		}
		tensors[name], shapes[name] = v, shape
	}
	add("model.embed_tokens.weight", vocab, dim)
	add("lm_head.weight", vocab, dim)
	add("model.norm.weight", dim)
	add("model.early_exit_gate.weight", 1, dim)
	add("model.early_exit_gate.bias", 1)
	for l := range layers {
		p := fmt.Sprintf("model.layers.%d.", l)
		for _, n := range []string{"input_layernorm", "input_layernorm_2", "post_attention_layernorm", "post_attention_layernorm_2"} {
			add(p+n+".weight", dim)
		}
		for _, n := range []string{"q", "k", "v", "o"} {
			add(p+"self_attn."+n+"_proj.weight", dim, dim)
		}
		add(p+"mlp.gate_proj.weight", hidden, dim)
		add(p+"mlp.up_proj.weight", hidden, dim)
		add(p+"mlp.down_proj.weight", dim, hidden)
	}
	dir := checkpoint(t, map[string]any{"model_type": "ouro", "hidden_size": dim, "intermediate_size": hidden, "num_hidden_layers": layers, "num_attention_heads": 2,
		"num_key_value_heads": 2, "head_dim": 8, "vocab_size": vocab, "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "hidden_act": "silu", "rope_theta": 1e6,
		"total_ut_steps": 4, "early_exit_threshold": 1.0, "tie_word_embeddings": false, "layer_types": []string{"full_attention", "full_attention"}}, tensors, shapes)
	m := load(t, dir)
	if m.Spec.Loops.Default != 4 || m.Spec.Slots(4) != 8 || m.Spec.LoopNorm != model.LoopNormBetween {
		t.Errorf("spec %+v", m.Spec)
	}
	seen := map[float32]int{}
	for depth := 1; depth <= 5; depth++ {
		st := newStory(t, m, depth, 1)
		st.run(0, []int32{1, 2, 3, 4})
		x := st.s.Logits(3)[7]
		if math.IsNaN(float64(x)) || seen[x] != 0 {
			t.Errorf("depth %d: logit %v, as at depth %d", depth, x, seen[x])
		}
		seen[x] = depth
	}
}
