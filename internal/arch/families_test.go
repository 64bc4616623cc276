package arch

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// hfSpecOf reads the Spec of a config.json.
func hfSpecOf(t *testing.T, data string) (*model.Spec, error) {
	t.Helper()
	c, err := parseConfig([]byte(data))
	if err != nil {
		return nil, err
	}
	fam, err := pick(hfFamilies(), "model_type", hfKind(c))
	if err != nil {
		return nil, err
	}
	m, err := read(fam, c, nil, Range{})
	if err != nil {
		return nil, err
	}
	return &m.spec, nil
}

// published are the configurations of released checkpoints, with their numbers of parameters.
func published() map[string]struct {
	params int64
	config string
} {
	return map[string]struct {
		params int64
		config string
	}{
		"Ouro-1.4B":       {1_434_652_673, `{"model_type":"ouro","architectures":["OuroForCausalLM"],"attention_dropout":0.0,"early_exit_threshold":1.0,"head_dim":128,"hidden_act":"silu","hidden_size":2048,"intermediate_size":5632,"max_position_embeddings":65536,"max_window_layers":24,"num_attention_heads":16,"num_hidden_layers":24,"num_key_value_heads":16,"rms_norm_eps":1e-6,"rope_scaling":null,"rope_theta":1000000.0,"sliding_window":null,"tie_word_embeddings":false,"total_ut_steps":4,"use_sliding_window":false,"vocab_size":49152}`},
		"Ouro-2.6B":       {2_667_974_657, `{"model_type":"ouro","early_exit_threshold":1.0,"head_dim":128,"hidden_act":"silu","hidden_size":2048,"intermediate_size":5632,"max_position_embeddings":65536,"num_attention_heads":16,"num_hidden_layers":48,"num_key_value_heads":16,"rms_norm_eps":1e-6,"rope_theta":1000000.0,"tie_word_embeddings":false,"total_ut_steps":4,"vocab_size":49152}`},
		"Huginn-0125":     {3_564_976_800, `{"model_type":"huginn_raven","n_embd":5280,"n_heads":55,"n_layers":8,"block_size":4096,"vocab_size":65536,"padding_multiple":4096,"tie_embeddings":true,"intermediate_size":17920,"bias":false,"block_class_name":"SandwichBlock","norm_class_name":"RMSNorm_llama","norm_eps":1e-6,"mlp_class_name":"GatedMLP","nonlin_name":"SiLU","init_strategy":"takase","init_orthogonal":false,"state_init":"like-init","injection_type":"linear","n_layers_in_recurrent_block":4,"mean_recurrence":32,"sampling_scheme":"poisson-lognormal-filling","mean_backprop_depth":8,"n_layers_in_prelude":2,"n_layers_in_coda":2,"qk_bias":true,"activation_checkpoint_impl":"per-iteration","rope_base":50000,"init_values":{"embed_scale":72.6636084983398,"std":0.008703}}`},
		"GPT-2":           {124_439_808, `{"model_type":"gpt2","activation_function":"gelu_new","n_ctx":1024,"n_embd":768,"n_head":12,"n_layer":12,"n_positions":1024,"layer_norm_epsilon":1e-5,"vocab_size":50257}`},
		"GPT-2 XL":        {1_557_611_200, `{"model_type":"gpt2","activation_function":"gelu_new","n_ctx":1024,"n_embd":1600,"n_head":25,"n_layer":48,"n_positions":1024,"layer_norm_epsilon":1e-5,"vocab_size":50257,"output_past":null}`},
		"Llama-2-7B":      {6_738_415_616, `{"model_type":"llama","hidden_act":"silu","hidden_size":4096,"intermediate_size":11008,"max_position_embeddings":4096,"num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":32,"pretraining_tp":1,"rms_norm_eps":1e-5,"rope_scaling":null,"tie_word_embeddings":false,"vocab_size":32000}`},
		"Llama-3.1-8B":    {8_030_261_248, `{"model_type":"llama","attention_bias":false,"hidden_act":"silu","hidden_size":4096,"intermediate_size":14336,"max_position_embeddings":131072,"mlp_bias":false,"num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":8,"rms_norm_eps":1e-5,"rope_scaling":{"factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192,"rope_type":"llama3"},"rope_theta":500000.0,"tie_word_embeddings":false,"vocab_size":128256}`},
		"Llama-3.2-1B":    {1_235_814_400, `{"model_type":"llama","head_dim":64,"hidden_act":"silu","hidden_size":2048,"intermediate_size":8192,"max_position_embeddings":131072,"num_attention_heads":32,"num_hidden_layers":16,"num_key_value_heads":8,"rms_norm_eps":1e-5,"rope_scaling":{"factor":32.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192,"rope_type":"llama3"},"rope_theta":500000.0,"tie_word_embeddings":true,"vocab_size":128256}`},
		"Mistral-7B-v0.1": {7_241_732_096, `{"model_type":"mistral","hidden_act":"silu","hidden_size":4096,"intermediate_size":14336,"max_position_embeddings":32768,"num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":8,"rms_norm_eps":1e-5,"rope_theta":10000.0,"sliding_window":4096,"tie_word_embeddings":false,"vocab_size":32000}`},
		"SmolLM2-135M":    {134_515_008, `{"model_type":"llama","attention_bias":false,"hidden_act":"silu","hidden_size":576,"intermediate_size":1536,"is_llama_config":true,"max_position_embeddings":8192,"mlp_bias":false,"num_attention_heads":9,"num_hidden_layers":30,"num_key_value_heads":3,"pretraining_tp":1,"rms_norm_eps":1e-5,"rope_interleaved":false,"rope_scaling":null,"rope_theta":100000,"tie_word_embeddings":true,"vocab_size":49152}`},
		"Qwen2.5-0.5B":    {494_032_768, `{"model_type":"qwen2","hidden_act":"silu","hidden_size":896,"intermediate_size":4864,"max_position_embeddings":32768,"max_window_layers":24,"num_attention_heads":14,"num_hidden_layers":24,"num_key_value_heads":2,"rms_norm_eps":1e-6,"rope_theta":1000000.0,"sliding_window":32768,"tie_word_embeddings":true,"use_mrope":false,"use_sliding_window":false,"vocab_size":151936}`},
		"Qwen3-0.6B":      {596_049_920, `{"model_type":"qwen3","attention_bias":false,"head_dim":128,"hidden_act":"silu","hidden_size":1024,"intermediate_size":3072,"max_position_embeddings":40960,"max_window_layers":28,"num_attention_heads":16,"num_hidden_layers":28,"num_key_value_heads":8,"rms_norm_eps":1e-6,"rope_scaling":null,"rope_theta":1000000,"sliding_window":null,"tie_word_embeddings":true,"use_sliding_window":false,"vocab_size":151936}`},
		"Gemma-2-2B":      {2_614_341_888, `{"model_type":"gemma2","attention_bias":false,"attn_logit_softcapping":50.0,"cache_implementation":"hybrid","final_logit_softcapping":30.0,"head_dim":256,"hidden_act":"gelu_pytorch_tanh","hidden_activation":"gelu_pytorch_tanh","hidden_size":2304,"intermediate_size":9216,"max_position_embeddings":8192,"num_attention_heads":8,"num_hidden_layers":26,"num_key_value_heads":4,"query_pre_attn_scalar":256,"rms_norm_eps":1e-6,"rope_theta":10000.0,"sliding_window":4096,"vocab_size":256000}`},
		"Parcae-370M":     {0, `{"_class_name":"ParcaeConfig","name":"parcae-medium-370m","hf_config":{"org":"SandyResearch","name":"parcae-medium-370m"},"block_size":2048,"n_embd":1024,"intermediate_size":4096,"num_attention_heads":8,"num_key_value_heads":8,"vocab_size":32768,"padding_multiple":64,"padded_vocab_size":32768,"rope_settings":{"use_rope":true,"rope_condense_ratio":1,"rope_base":50000},"attn_impl":"flash","norm_eps":1e-5,"bias":false,"qk_bias":false,"init_strategy":"scaled-zero","init_orthogonal":true,"use_fused_head":"pytorch","qk_norm":true,"injection_type":"diagonal","n_layers_in_recurrent_block":4,"n_layers_in_prelude":4,"n_layers_in_coda":4,"state_init":"like-init","recurrent_embedding_dimension":1024,"recurrent_intermediation_embedding_dimension":4096,"prelude_norm":true,"sampling_scheme":"poisson-truncated-full","mean_recurrence":8,"mean_backprop_depth":4,"recurrent_iteration_method":"per-sequence","tie_embeddings":true,"model_class_name":"Parcae"}`},
		"Nanbeige4.2-3B":  {0, `{"architectures":["NanbeigeForCausalLM"],"model_type":"nanbeige","vocab_size":166144,"hidden_size":3072,"intermediate_size":10752,"num_hidden_layers":22,"num_attention_heads":48,"num_key_value_heads":8,"head_dim":128,"kv_channels":128,"hidden_act":"silu","max_position_embeddings":262144,"rope_theta":70000000,"rope_scaling":null,"attention_bias":false,"rms_norm_eps":1e-05,"num_loops":2,"loop_loss_weights":[],"skip_loop_final_norm":false,"pretraining_tp":1,"tie_word_embeddings":false}`},
	}
}

// TestPublishedParameters: the configurations of released checkpoints are read, and name the published number of parameters.
func TestPublishedParameters(t *testing.T) {
	for name, p := range published() {
		s, err := hfSpecOf(t, p.config)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		unique, _ := s.Params()
		if s.Block.RopeFactors {
			unique -= int64(s.Block.Rot() / 2) // follow from the configuration
		}
		if p.params != 0 && unique != p.params {
			t.Errorf("%s has %d parameters, published are %d", name, unique, p.params)
		}
	}
	s, _ := hfSpecOf(t, published()["Ouro-1.4B"].config)
	if n := s.Slots(s.Loops.Default) * 2 * 16 * 128 * 2; n != 768<<10 {
		t.Errorf("Ouro-1.4B needs %d bytes of keys and values a position in 16 bits, published are 768 KiB", n)
	}
	s, _ = hfSpecOf(t, published()["Huginn-0125"].config)
	if s.Slots(s.Loops.Default) != 132 || math.Abs(float64(s.Embed.Scale)-72.6636) > 1e-3 {
		t.Errorf("Huginn: %d slots at %d passes, scale %v", s.Slots(s.Loops.Default), s.Loops.Default, s.Embed.Scale)
	}
	s, _ = hfSpecOf(t, published()["Mistral-7B-v0.1"].config)
	if s.Block.Window != 4096 || s.Context != 32768 {
		t.Errorf("Mistral: window %d, context %d", s.Block.Window, s.Context)
	}
	s, _ = hfSpecOf(t, published()["Gemma-2-2B"].config)
	if s.Block.Window != 0 || s.Context != 4096 || s.Block.AttnScale != 1.0/16 || s.Embed.Scale != 48 {
		t.Errorf("Gemma 2: window %d, context %d, scale %v, embedding %v", s.Block.Window, s.Context, s.Block.AttnScale, s.Embed.Scale)
	}
}

// changed gives a config.json with one key set to another value.
func changed(t *testing.T, config, key string, v any) string {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(config), &o); err != nil {
		t.Fatal(err)
	}
	o[key] = v
	b, _ := json.Marshal(o)
	return string(b)
}

// TestConfigRefusals: what this build would compute wrongly is refused by the key's name.
func TestConfigRefusals(t *testing.T) {
	p := published()
	scaled := func(kind string, more map[string]any) map[string]any {
		o := map[string]any{"rope_type": kind, "factor": 2.0}
		maps.Copy(o, more)
		return o
	}
	for _, c := range []struct {
		model, key string
		v          any
		want       string
		kind       fault.Kind
	}{
		{"Llama-3.1-8B", "hidden_act", "gelu", "hidden_act = gelu is not supported", fault.Unsupported},
		{"Llama-3.1-8B", "residual_multiplier", 0.22, "residual_multiplier = 0.22 is not known", fault.Unsupported},
		{"Llama-3.1-8B", "quantization_config", map[string]any{"bits": 4}, "quantization_config = map[bits:4] is not supported", fault.Unsupported},
		{"Llama-3.1-8B", "text_config", map[string]any{}, "text_config", fault.Unsupported},
		{"Llama-3.1-8B", "rope_scaling", scaled("yarn", nil), "rope_scaling.rope_type = yarn is not supported", fault.Unsupported},
		{"Llama-3.1-8B", "rope_scaling", scaled("dynamic", nil), "rope_scaling.rope_type = dynamic is not supported", fault.Unsupported},
		{"Llama-3.1-8B", "rope_scaling", scaled("linear", map[string]any{"factor": -1.0}), "factor must be a finite number above 0, is -1", fault.Invalid},
		{"Llama-3.1-8B", "rope_scaling", scaled("linear", map[string]any{"mscale": 1.0}), "rope_scaling.mscale = 1 is not known", fault.Unsupported},
		{"Llama-3.1-8B", "rope_scaling", scaled("llama3", nil), "rope_scaling.the key low_freq_factor is missing", fault.Invalid},
		{"Llama-3.1-8B", "rope_scaling", scaled("llama3", map[string]any{"low_freq_factor": 4, "high_freq_factor": 4, "original_max_position_embeddings": 8}), "high_freq_factor above low_freq_factor", fault.Invalid},
		{"Llama-3.1-8B", "rope_scaling", "llama3", "rope_scaling must be an object", fault.Invalid},
		{"Llama-3.1-8B", "hidden_size", "4096", "hidden_size must be an integer", fault.Invalid},
		{"Llama-3.1-8B", "hidden_size", 4096.5, "hidden_size must be an integer", fault.Invalid},
		{"Llama-3.1-8B", "hidden_size", nil, "the key hidden_size is missing", fault.Invalid},
		{"Llama-3.1-8B", "num_hidden_layers", 1e9, "core must be 0 to 4096", fault.Invalid},
		{"Llama-3.1-8B", "num_key_value_heads", 7, "kv_heads must divide heads", fault.Invalid},
		{"Llama-3.1-8B", "partial_rotary_factor", 0.5, "partial_rotary_factor = 0.5 is not supported", fault.Unsupported},
		{"Qwen3-0.6B", "attention_bias", true, "attention_bias = true is not supported", fault.Unsupported},
		{"Qwen3-0.6B", "layer_types", []string{"full_attention"}, "layer_types names 1 layers, num_hidden_layers 28", fault.Invalid},
		{"Qwen2.5-0.5B", "use_mrope", true, "use_mrope = true is not supported", fault.Unsupported},
		{"Mistral-7B-v0.1", "sliding_window", -1, "sliding_window must be an integer", fault.Invalid},
		{"GPT-2", "activation_function", "gelu", "activation_function = gelu is not supported", fault.Unsupported},
		{"GPT-2", "scale_attn_by_inverse_layer_idx", true, "scale_attn_by_inverse_layer_idx = true", fault.Unsupported},
		{"GPT-2", "n_ctx", 512, "n_ctx = 512 is not supported", fault.Unsupported},
		{"GPT-2", "add_cross_attention", true, "add_cross_attention = true", fault.Unsupported},
		{"Gemma-2-2B", "hidden_activation", "relu", "hidden_activation = relu", fault.Unsupported},
		{"Gemma-2-2B", "use_bidirectional_attention", true, "use_bidirectional_attention = true", fault.Unsupported},
		{"Ouro-1.4B", "early_exit_threshold", 0.9, "ask for an exit by the gate in requests", fault.Unsupported},
		{"Ouro-1.4B", "early_exit_step", 2, "early_exit_step = 2 is not supported", fault.Unsupported},
		{"Ouro-1.4B", "architectures", []string{"OuroForSequenceClassification"}, "architectures = OuroForSequenceClassification is not supported", fault.Unsupported},
		{"Llama-3.1-8B", "architectures", []string{"MiniCPMForCausalLM"}, "which runs LlamaForCausalLM", fault.Unsupported},
		{"Llama-3.1-8B", "architectures", "LlamaForCausalLM", "architectures must be a list of texts", fault.Invalid},
		{"Llama-3.1-8B", "pruned_heads", map[string]any{"0": []int{1}}, "pruned_heads", fault.Unsupported},
		{"Ouro-1.4B", "exit_gate_type", "lookahead", "exit_gate_type = lookahead", fault.Unsupported},
		{"Ouro-1.4B", "total_ut_steps", 0, "loops.hard_max must be 1", fault.Invalid},
		{"Parcae-370M", "injection_type", "linear", "injection_type = linear", fault.Unsupported},
		{"Parcae-370M", "recurrent_embedding_dimension", 512, "recurrent_embedding_dimension = 512", fault.Unsupported},
		{"Parcae-370M", "rope_settings", map[string]any{"use_rope": false}, "rope_settings.use_rope = false", fault.Unsupported},
		{"Parcae-370M", "logit_softcap", 30, "logit_softcap = 30", fault.Unsupported},
		{"Huginn-0125", "injection_type", "add", "injection_type = add", fault.Unsupported},
		{"Huginn-0125", "init_strategy", "scaled", "init_strategy = scaled", fault.Unsupported},
		{"Huginn-0125", "n_layers", 9, "n_layers = 9", fault.Unsupported},
		{"Huginn-0125", "tie_embeddings", false, "tie_embeddings = false", fault.Unsupported},
		{"Nanbeige4.2-3B", "loop_share_kv", true, "loop_share_kv = true", fault.Unsupported},
		{"Nanbeige4.2-3B", "emb_neighbor_num", 2, "emb_neighbor_num = 2", fault.Unsupported},
		{"Nanbeige4.2-3B", "loop_loss_weights", []float64{0.5}, "loop_loss_weights = [0.5]", fault.Unsupported},
		{"Nanbeige4.2-3B", "kv_channels", 64, "kv_channels = 64", fault.Unsupported},
		{"GPT-2", "model_type", "mamba", "model_type mamba are not supported; known are", fault.Unsupported},
	} {
		_, err := hfSpecOf(t, changed(t, p[c.model].config, c.key, c.v))
		if err == nil || !strings.Contains(err.Error(), c.want) || fault.Of(err) != c.kind {
			t.Errorf("%s with %s = %v: want %q (%v), got %v (%v)", c.model, c.key, c.v, c.want, c.kind, err, fault.Of(err))
		}
	}
}

// TestUsualValues: what a configuration does not speak of is its family's usual value, where null says that there is none.
func TestUsualValues(t *testing.T) {
	without := func(name, key string) string {
		var o map[string]any
		if err := json.Unmarshal([]byte(published()[name].config), &o); err != nil {
			t.Fatal(err)
		}
		delete(o, key)
		b, _ := json.Marshal(o)
		return string(b)
	}
	for _, c := range []struct {
		model, key   string
		absent, null func(s *model.Spec) bool
	}{
		{"Mistral-7B-v0.1", "sliding_window", func(s *model.Spec) bool { return s.Block.Window == 4096 }, func(s *model.Spec) bool { return s.Block.Window == 0 && s.Context == 32768 }},
		{"Gemma-2-2B", "sliding_window", func(s *model.Spec) bool { return s.Context == 4096 }, func(s *model.Spec) bool { return s.Context == 8192 }},
		{"Gemma-2-2B", "attn_logit_softcapping", func(s *model.Spec) bool { return s.Block.AttnSoftcap == 50 }, func(s *model.Spec) bool { return s.Block.AttnSoftcap == 0 }},
		{"Gemma-2-2B", "final_logit_softcapping", func(s *model.Spec) bool { return s.LogitSoftcap == 30 }, func(s *model.Spec) bool { return s.LogitSoftcap == 0 }},
		{"Ouro-1.4B", "early_exit_threshold", func(s *model.Spec) bool { return s.Loops.TrainedMin == 1 && s.Loops.TrainedMax == 4 }, func(s *model.Spec) bool { return s.ExitGate }},
	} {
		for _, x := range []struct {
			config string
			ok     func(s *model.Spec) bool
		}{{without(c.model, c.key), c.absent}, {changed(t, published()[c.model].config, c.key, nil), c.null}} {
			if s, err := hfSpecOf(t, x.config); err != nil || !x.ok(s) {
				t.Errorf("%s, %s: %v, %+v", c.model, c.key, err, s)
			}
		}
	}
}

// TestWindows: a window that only some layers have bounds the context.
func TestWindows(t *testing.T) {
	qwen := published()["Qwen2.5-0.5B"].config
	types := func(sliding int) []string {
		list := make([]string, 24)
		for i := range list {
			list[i] = "full_attention"
			if i < sliding {
				list[i] = "sliding_attention"
			}
		}
		return list
	}
	for _, c := range []struct {
		key             string
		v               any
		window, context int
	}{
		{"max_window_layers", 24, 0, 32768},
		{"max_window_layers", 0, 512, 32768},
		{"max_window_layers", 12, 0, 512},
		{"layer_types", types(0), 0, 32768},
		{"layer_types", types(24), 512, 32768},
		{"layer_types", types(3), 0, 512},
	} {
		config := changed(t, changed(t, qwen, "sliding_window", 512), "use_sliding_window", true)
		s, err := hfSpecOf(t, changed(t, config, c.key, c.v))
		if err != nil {
			t.Fatal(err)
		}
		if s.Block.Window != c.window || s.Context != c.context {
			t.Errorf("%s = %v: window %d and context %d, want %d and %d", c.key, c.v, s.Block.Window, s.Context, c.window, c.context)
		}
	}
}

// TestLoopRange: a range at one pass is the model itself; at two it is the model with those layers written twice; what has a loop has no range.
func TestLoopRange(t *testing.T) {
	dir := references(t)["llama"].folder(t) // three layers
	f := open(t, dir)
	tokens := references(t)["llama"].Tokens
	plain := load(t, dir)
	once := looped(t, f, Range{First: 1, Last: 1, Loops: 1})
	equalBits(t, "one pass", bits(t, plain, tokens, 1), bits(t, once, tokens, 1))

	var config map[string]any
	json.Unmarshal(references(t)["llama"].Config, &config)
	if once.Spec.Prelude != 1 || once.Spec.Core != 1 || once.Spec.Coda != 1 || once.Spec.Loops.TrainedMax != 1 || once.Spec.Loops.HardMax != 8 {
		t.Errorf("spec %+v", once.Spec)
	}
	for _, r := range []Range{{1, 1, 3}, {0, 1, 2}, {1, 2, 2}, {0, 2, 2}} {
		order := []int{}
		for l := range 3 {
			if l == r.First {
				for range r.Loops {
					for x := r.First; x <= r.Last; x++ {
						order = append(order, x)
					}
				}
			}
			if l < r.First || l > r.Last {
				order = append(order, l)
			}
		}
		unrolled := load(t, unroll(t, references(t)["llama"], order))
		equalBits(t, r.String(), bits(t, unrolled, tokens, 1), bits(t, looped(t, f, r), tokens, 1))
	}
	out := filepath.Join(t.TempDir(), "m.tinyloop")
	r := Range{1, 1, 3}
	if err := Convert(f, out, ConvertOptions{Loop: r}); err != nil {
		t.Fatal(err)
	}
	equalBits(t, "written", bits(t, looped(t, f, r), tokens, 1), bits(t, load(t, out), tokens, 1))
	for _, c := range []struct {
		dir  string
		r    Range
		want string
	}{
		{dir, Range{1, 3, 2}, "the model has the layers 0 to 2"},
		{references(t)["ouro"].folder(t), Range{0, 1, 2}, "a ouro model has a loop of its own"},
		{references(t)["huginn"].folder(t), Range{0, 1, 2}, "has a loop of its own"},
		{dir, Range{1, 1, 5000}, "loops.hard_max must be 1 to 4096"},
	} {
		if _, err := LoadWith(open(t, c.dir), Options{Loop: c.r}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: want %q, got %v", c.r, c.want, err)
		}
	}
	gguf := filepath.Join(t.TempDir(), "m.gguf")
	if err := Convert(open(t, references(t)["llama"].gguf(t)), gguf, ConvertOptions{Loop: r}); fault.Of(err) != fault.Unsupported {
		t.Errorf("a range written to .gguf: %v", err)
	}
}

// TestLoopRangeOfEveryFamily: a range over some layers of any model without a loop gives at one pass the bits of the model itself, from every container, and at
// more passes something else.
func TestLoopRangeOfEveryFamily(t *testing.T) {
	tried := 0
	for name, r := range references(t) {
		paths := []string{r.folder(t)}
		if r.GGUF != nil {
			paths = append(paths, r.gguf(t))
		}
		for _, path := range paths {
			f := open(t, path)
			s, err := SpecOf(f)
			if err != nil {
				t.Fatal(err)
			}
			if s.Loops.HardMax > 1 {
				if _, err := LoadWith(f, Options{Loop: Range{0, 0, 2}}); fault.Of(err) != fault.Unsupported {
					t.Errorf("%s has a loop of its own: %v", name, err)
				}
				continue
			}
			tried++
			last := s.Core - 1
			tokens := r.Tokens[:min(20, len(r.Tokens))]
			plain := bits(t, load(t, path), tokens, 1)
			for _, rg := range []Range{{0, last, 1}, {0, 0, 1}, {last, last, 1}} {
				equalBits(t, name+" "+rg.String(), plain, bits(t, looped(t, f, rg), tokens, 1))
			}
			deep := bits(t, looped(t, f, Range{last, last, 2}), tokens, 1)
			if slices.Equal(deep[len(deep)-1], plain[len(plain)-1]) {
				t.Errorf("%s: two passes of the last layer change nothing", name)
			}
		}
	}
	if tried < 10 {
		t.Errorf("%d models were tried", tried)
	}
}

func looped(t *testing.T, f *tensorfile.File, r Range) *model.Model {
	t.Helper()
	m, err := LoadWith(f, Options{Loop: r})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// unroll writes the reference with its layers in another order, some of them more than once.
func unroll(t *testing.T, r *reference, order []int) string {
	t.Helper()
	var config map[string]any
	json.Unmarshal(r.Config, &config)
	config["num_hidden_layers"] = len(order)
	tensors, shapes := map[string][]float32{}, map[string][]int{}
	for _, x := range r.Tensors {
		rest, inside := strings.CutPrefix(x.name, "model.layers.")
		if !inside {
			tensors[x.name], shapes[x.name] = x.values(r.Dtype), x.shape
		}
		number, rest, _ := strings.Cut(rest, ".")
		for at, l := range order {
			if inside && number == strconv.Itoa(l) {
				name := "model.layers." + strconv.Itoa(at) + "." + rest
				tensors[name], shapes[name] = x.values(r.Dtype), x.shape
			}
		}
	}
	return checkpoint(t, config, tensors, shapes)
}

func TestParseRange(t *testing.T) {
	for text, want := range map[string]Range{"": {}, "8-11": {8, 11, 2}, "0-0x4": {0, 0, 4}, "3-5x1": {3, 5, 1}} {
		if r, err := ParseRange(text); err != nil || r != want {
			t.Errorf("%q: %v, %v", text, r, err)
		}
	}
	for _, text := range []string{"8", "8-", "-8", "8-7", "a-b", "8-11x", "8-11x0", "8-11x2x3", "1-99999999999999999999", "8..11", " "} {
		if _, err := ParseRange(text); fault.Of(err) != fault.Invalid {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestSmallestMemory: while a file is loaded its pages are given back, so that the process never holds both the file and the model.
func TestSmallestMemory(t *testing.T) {
	if mapped(t) < 0 {
		t.Skip("this system does not say how much of a process is mapped files")
	}
	const dim, layers, hidden = 512, 4, 2048
	tensors, shapes := map[string][]float32{}, map[string][]int{}
	s := model.Spec{Family: "llama", Vocab: 4096, Dim: dim, Context: 64, Core: layers, Loops: once(), TiedHead: true,
		Block: model.Block{Eps: 1e-5, Heads: 8, KVHeads: 8, HeadDim: 64, RopeTheta: 1e4, Hidden: hidden}}
	size := 0
	for _, sl := range new(model.Weights).Slots(&s) {
		name := hfPlace(&s, sl.Name).name
		tensors[name], shapes[name] = make([]float32, sl.Count()), sl.Shape()
		size += 4 * int(sl.Count())
	}
	dir := checkpoint(t, map[string]any{"model_type": "llama", "hidden_size": dim, "intermediate_size": hidden, "num_hidden_layers": layers, "num_attention_heads": 8,
		"vocab_size": 4096, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": true}, tensors, shapes)
	clear(tensors)
	f := open(t, dir)
	before := mapped(t)
	m, err := Load(f)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if grown := mapped(t) - before; grown > size/8 {
		t.Errorf("after loading a file of %d bytes, %d of them are still in memory", size, grown)
	}
	d := f.Tensors()[0].Data
	if kernel.F16ToF32(uint16(d[0])) != 0 { // what was given back can be read again
		t.Error("data changed")
	}
}

// mapped is the memory of this process that mapped files take, -1 where the system does not say.
func mapped(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return -1
	}
	sum := 0
	for _, key := range []string{"RssFile:", "RssShmem:"} { // the second where the temporary folder lies in memory
		_, rest, ok := strings.Cut(string(b), key)
		if !ok {
			return -1
		}
		n, err := strconv.Atoi(strings.Fields(rest)[0])
		if err != nil {
			t.Fatal(err)
		}
		sum += n << 10
	}
	return sum
}

// FuzzConfig: no config.json makes the reader panic, and what it accepts is a valid Spec.
func FuzzConfig(f *testing.F) {
	for _, p := range published() {
		f.Add([]byte(p.config))
	}
	f.Add([]byte(`{"model_type":"llama","rope_scaling":{"rope_type":"llama3","factor":1e300}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := hfSpecOf(t, string(data))
		if err == nil && s.Validate() != nil {
			t.Errorf("accepted %+v", s)
		}
	})
}
