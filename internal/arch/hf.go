package arch

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"

	"tinyloop/internal/fault"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// object is a JSON object as a place of configuration. A null counts as absent.
type object map[string]any

func (o object) Get(key string) (any, bool) { v, ok := o[key]; return v, ok && v != nil }

// Uint gives a number that is a whole one of at least 0.
func (o object) Uint(key string) (uint64, bool) {
	x, ok := o[key].(float64)
	if !ok || x != math.Trunc(x) || x < 0 || x > 1<<53 {
		return 0, false
	}
	return uint64(x), true
}

func (o object) Float(key string) (float64, bool) { x, ok := o[key].(float64); return x, ok }

// Ints gives a list of whole numbers that fit an int32.
func (o object) Ints(key string) ([]int32, bool) {
	list, ok := o[key].([]any)
	out := make([]int32, 0, len(list))
	for _, v := range list {
		x, isNumber := v.(float64)
		if !isNumber || x != math.Trunc(x) || math.Abs(x) > math.MaxInt32 {
			return nil, false
		}
		out = append(out, int32(x))
	}
	return out, ok
}

func (o object) Keys() []string {
	keys := make([]string, 0, len(o))
	for k, v := range o {
		if v != nil {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys) // which one is refused must not change from run to run
	return keys
}

// maxConfig bounds a config.json; published ones have a few kilobytes.
const maxConfig = 1 << 20

// hfConfig opens the config.json of a Hugging Face folder.
func hfConfig(f *tensorfile.File) (*config, error) {
	data, err := f.Sidecar("config.json")
	if err != nil {
		return nil, err
	}
	return parseConfig(data)
}

func parseConfig(data []byte) (*config, error) {
	if len(data) > maxConfig {
		return nil, invalid("config.json", "config.json has %d bytes, at most %d are read", len(data), maxConfig)
	}
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, invalid("config.json", "config.json: %s", fault.JSONText(err))
	}
	c := &config{meta: o, where: "config.json: ", read: map[string]bool{}}
	c.ignore(hfUnused()...)
	for _, key := range []string{"quantization_config", "text_config", "vision_config"} {
		c.off(key)
	}
	c.off("is_encoder_decoder", false)
	c.off("add_cross_attention", false)
	if v, full, ok := c.get("pruned_heads"); ok {
		if heads, isMap := v.(map[string]any); !isMap || len(heads) > 0 {
			c.refused(full, v)
		}
	}
	return c, c.err
}

// classes refuses a checkpoint of another class than the family's: what such a class computes is not what the model_type says.
func (c *config) classes(known []string) {
	for _, name := range c.texts("architectures") {
		if known != nil && !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) }) {
			c.fail(unsupported("architectures", "%sarchitectures = %s is not supported by this build, which runs %s of this model_type", c.where, clip(name), strings.Join(known, ", ")))
		}
	}
}

// hfUnused lists keys that say nothing about how a model is computed: where it came from, how it was trained, how answers are sampled, which ids begin and
// end texts (the tokenizer's files say that here).
func hfUnused() []string {
	return []string{
		"model_type", "auto_map", "_name_or_path", "name_or_path", "_commit_hash", "torch_dtype", "dtype", "transformers_version", "transformers.js_config",
		"_attn_implementation", "attn_implementation", "_attn_implementation_autoset", "_flash_attn_2_enabled", "unsloth_fixed", "unsloth_version", "torchscript", "use_bfloat16",
		"bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "sep_token_id", "decoder_start_token_id", "tokenizer_class", "prefix",
		"use_cache", "cache_implementation", "output_attentions", "output_hidden_states", "return_dict", "task_specific_params", "id2label", "label2id", "num_labels", "problem_type",
		"initializer_range", "attention_dropout", "hidden_dropout", "hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "gradient_checkpointing", "pretraining_tp",
		"finetuning_task", "is_decoder", "tie_encoder_decoder", "chunk_size_feed_forward", "cross_attention_hidden_size", "tf_legacy_loss", "is_llama_config",
		"do_sample", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids",
		"max_length", "min_length", "num_beams", "num_beam_groups", "diversity_penalty", "early_stopping", "num_return_sequences", "output_scores", "return_dict_in_generate",
		"forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens",
	}
}

// hfLike reads what the configurations of llama and its kin share. Their query and key rows are stored for rotations of halves.
func hfLike(c *config, name string) model.Spec {
	s := model.Spec{Family: name}
	s.Vocab = c.size("vocab_size", true, 0)
	s.Dim = c.size("hidden_size", true, 0)
	s.Context = c.size("max_position_embeddings", true, 0)
	s.Core = c.size("num_hidden_layers", true, 0)
	s.TiedHead = c.flag("tie_word_embeddings")
	s.Loops = once()
	b := &s.Block
	b.Heads = c.size("num_attention_heads", true, 1)
	b.KVHeads = c.size("num_key_value_heads", false, b.Heads)
	b.HeadDim = c.size("head_dim", false, s.Dim/max(b.Heads, 1))
	b.Hidden = c.size("intermediate_size", true, 0)
	b.Eps = c.float("rms_norm_eps", false, 1e-6)
	if name == "gemma2" {
		c.off("hidden_act", "gelu_pytorch_tanh", "gelu") // the second in old files, whose hidden_activation or default is the first
	} else {
		c.off("hidden_act", "silu")
	}
	c.off("partial_rotary_factor", 1)
	c.off("rope_interleaved", false)
	c.off("use_mrope", false)
	return s
}

func hfLlamaSpec(c *config, _ *tensorfile.File) model.Spec {
	s := hfLike(c, "llama")
	b := &s.Block
	b.QKVBias = c.flag("attention_bias")
	b.OutBias, b.MLPBias = b.QKVBias, c.flag("mlp_bias")
	hfRope(c, b)
	return s
}

// hfMistralSpec reads model_type "mistral" (arXiv 2310.06825): llama, where every layer may see a window only.
func hfMistralSpec(c *config, _ *tensorfile.File) model.Spec {
	s := hfLike(c, "mistral")
	hfRope(c, &s.Block)
	hfWindow(c, &s, usualWindow, func(int) bool { return true })
	return s
}

// usualWindow is sliding_window of Mistral and Gemma 2 where a configuration does not speak of it; null is none.
const usualWindow = 4096

// hfQwen2Spec reads model_type "qwen2" (arXiv 2407.10671, 2412.15115): llama with biases on queries, keys and values.
func hfQwen2Spec(c *config, _ *tensorfile.File) model.Spec {
	s := hfLike(c, "qwen2")
	s.Block.QKVBias = true
	hfRope(c, &s.Block)
	hfQwenWindow(c, &s)
	return s
}

// hfQwen3Spec reads model_type "qwen3" (arXiv 2505.09388): llama with a norm on each query and key head, and no biases.
func hfQwen3Spec(c *config, _ *tensorfile.File) model.Spec {
	s := hfLike(c, "qwen3")
	s.Block.HeadDim = c.size("head_dim", false, 128)
	s.Block.QKNorm = true
	c.off("attention_bias", false)
	hfRope(c, &s.Block)
	hfQwenWindow(c, &s)
	return s
}

// hfOuroSpec reads model_type "ouro" (arXiv 2510.25741): all layers applied total_ut_steps times, norms on both sides of each branch, the final norm after
// every pass, and an exit gate. All exits are trained. When to leave early is the request's business, so a checkpoint that asks for it by itself is refused.
func hfOuroSpec(c *config, _ *tensorfile.File) model.Spec {
	s := hfLike(c, "ouro")
	s.Block.NormPlace, s.LoopNorm, s.ExitGate = model.BranchSandwich, model.LoopNormBetween, true
	s.Loops = fixed(c.size("total_ut_steps", true, 1))
	s.Loops.TrainedMin = min(1, s.Loops.TrainedMin)
	c.off("attention_bias", false)
	if q := c.float("early_exit_threshold", false, 1); q < 1 {
		c.fail(unsupported("early_exit_threshold", "%searly_exit_threshold = %v is not supported by this build: set it to 1 and ask for an exit by the gate in requests", c.where, q))
	}
	c.off("early_exit_step")
	c.ignore("min_exit_step", "exit_delay_steps") // they bound a rule that is off
	c.off("exit_gate_type", "early_exit")
	hfRope(c, &s.Block)
	hfQwenWindow(c, &s)
	return s
}

// hfNanbeigeSpec reads model_type "nanbeige" (arXiv 2607.22083), see nanbeigeSpec.
func hfNanbeigeSpec(c *config, _ *tensorfile.File) model.Spec {
	s := hfLike(c, "nanbeige")
	b := &s.Block
	b.HeadDim = c.size("head_dim", false, c.size("kv_channels", false, b.HeadDim))
	c.off("kv_channels", b.HeadDim)
	b.QKVBias = c.flag("attention_bias")
	b.OutBias, b.MLPBias = b.QKVBias, c.flag("mlp_bias")
	s.Loops = fixed(c.size("num_loops", false, 1))
	if !c.flag("skip_loop_final_norm") {
		s.LoopNorm = model.LoopNormBetween
	}
	for _, key := range []string{"qk_layernorm", "ngram_insert_all_layers", "enable_double_loop_split", "loop_share_kv", "enable_hyper_connection", "enable_mhc",
		"enable_h_res_identity", "enable_depth_attention", "loop_loss_weights", "insert_ngram_layer_idx", "loop_middle_layers", "emb_neighbor_num"} {
		c.off(key, false, 0)
	}
	hfRope(c, b)
	return s
}

// hfQwenWindow reads the windows of Qwen's configurations: used only where use_sliding_window says so, by the layers from max_window_layers on.
func hfQwenWindow(c *config, s *model.Spec) {
	use, from := c.flag("use_sliding_window"), c.size("max_window_layers", false, 0)
	if !use && len(c.texts("layer_types")) == 0 {
		c.ignore("sliding_window")
		return
	}
	hfWindow(c, s, 0, func(layer int) bool { return use && layer >= from })
}

// hfWindow reads sliding_window, of the layers that layer_types names, or else slides says; usual is what it is where the configuration does not speak of it.
// A window that only some layers have bounds the context instead: up to its length it hides nothing.
func hfWindow(c *config, s *model.Spec, usual int, slides func(layer int) bool) {
	window, types := c.size("sliding_window", false, 0), c.texts("layer_types")
	if !c.said("sliding_window") {
		window = usual
	}
	if len(types) > 0 && len(types) != s.Core {
		c.fail(invalid("layer_types", "config.json: layer_types names %d layers, num_hidden_layers %d", len(types), s.Core))
		return
	}
	sliding, layers := 0, min(s.Core, 1<<16)
	for l := range layers {
		slide := len(types) == 0 && slides(l)
		if len(types) > 0 {
			slide = types[l] == "sliding_attention"
			if !slide && types[l] != "full_attention" {
				c.fail(unsupported("layer_types", "config.json: layer_types has %s, this build runs full_attention and sliding_attention", clip(types[l])))
			}
		}
		if slide {
			sliding++
		}
	}
	switch {
	case window == 0 || sliding == 0:
	case sliding == layers:
		s.Block.Window = window
	default:
		s.Context = min(s.Context, window)
	}
}

// hfNames maps the names inside a block and beside them.
func hfNames() map[string]string {
	return map[string]string{
		"attn_norm": "input_layernorm", "attn_post_norm": "input_layernorm_2", "ffn_norm": "post_attention_layernorm", "ffn_post_norm": "post_attention_layernorm_2",
		"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
		"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
		"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
		"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head", "exit_gate": "model.early_exit_gate",
	}
}

func hfPlace(_ *model.Spec, name string) place { return place{name: hfName(hfNames(), name)} }

// hfName translates "core.3.attn_q.weight" to "model.layers.3.self_attn.q_proj.weight".
func hfName(names map[string]string, name string) string {
	if number, what, kind, ok := blockPart(name); ok {
		return "model.layers." + number + "." + names[what] + "." + kind
	}
	what, kind := cutName(name)
	return names[what] + "." + kind
}

// hfSpare accepts a stored copy of a tied head, and the rotation tables that old checkpoints carry.
func hfSpare(s *model.Spec, name string) bool {
	return s.TiedHead && name == "lm_head.weight" || regexp.MustCompile(`^model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq$`).MatchString(name)
}
