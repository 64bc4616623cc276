package arch

import (
	"regexp"

	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// GPT-2 (Radford and others, 2019): layer norms, learned positions, biases everywhere, GELU in its tanh form; queries, keys and values are one product.

// gpt2Spec reads arch "gpt2" of GGUF.
func gpt2Spec(c *config, f *tensorfile.File) model.Spec {
	s := ggufSizes(c, f, "gpt2")
	s.Block.Eps = c.float("attention.layer_norm_epsilon", true, 0)
	c.off("attention.head_count_kv", s.Block.Heads)
	c.ignore("tensor_data_layout")
	gpt2Block(&s)
	return s
}

// hfGPT2Spec reads model_type "gpt2".
func hfGPT2Spec(c *config, _ *tensorfile.File) model.Spec {
	s := model.Spec{Family: "gpt2"}
	s.Vocab = c.size("vocab_size", true, 0)
	s.Dim = c.size("n_embd", true, 0)
	s.Context = c.size("n_positions", true, 0)
	c.off("n_ctx", s.Context)
	s.Core = c.size("n_layer", true, 0)
	s.Block.Heads = c.size("n_head", true, 1)
	s.Block.Hidden = c.size("n_inner", false, 4*s.Dim)
	s.Block.Eps = c.float("layer_norm_epsilon", false, 1e-5)
	s.TiedHead = c.flagOr("tie_word_embeddings", true)
	c.off("activation_function", "gelu_new", "gelu_pytorch_tanh")
	c.off("scale_attn_weights", true)
	c.off("scale_attn_by_inverse_layer_idx", false)
	c.ignore("reorder_and_upcast_attn", "resid_pdrop", "embd_pdrop", "attn_pdrop", "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj")
	gpt2Block(&s)
	return s
}

func gpt2Block(s *model.Spec) {
	b := &s.Block
	s.Loops = once()
	b.Norm, b.Pos, b.MLP = model.LayerNorm, model.Learned, model.GELU
	b.QKVBias, b.OutBias, b.MLPBias = true, true, true
	b.KVHeads, b.HeadDim = b.Heads, s.Dim/max(b.Heads, 1)
}

// gpt2Place is the naming of GGUF, with queries, keys and values one below the other in attn_qkv.
func gpt2Place(s *model.Spec, name string) place {
	if number, what, kind, ok := blockPart(name); ok {
		if at, fused := map[string]int{"attn_q": 0, "attn_k": 1, "attn_v": 2}[what]; fused {
			return rowsOf("blk."+number+".attn_qkv", kind, 3*s.Dim, s.Dim, at*s.Dim)
		}
	}
	if name == "pos_embd.weight" {
		return place{name: "position_embd.weight"}
	}
	return place{name: ggufName(name)}
}

// hfGPT2Place is the naming of Hugging Face; the matrices of the blocks are stored [inputs, outputs].
func hfGPT2Place(s *model.Spec, name string) place {
	number, what, kind, inside := blockPart(name)
	if !inside {
		what, kind = cutName(name)
		return place{name: map[string]string{"token_embd": "wte", "pos_embd": "wpe", "output_norm": "ln_f", "output": "lm_head"}[what] + "." + kind}
	}
	p := place{turned: kind == "weight"}
	switch what {
	case "attn_norm", "ffn_norm":
		p = place{name: map[string]string{"attn_norm": "ln_1", "ffn_norm": "ln_2"}[what]}
	case "attn_q", "attn_k", "attn_v":
		p.name, p.from, p.whole = "attn.c_attn", map[string]int{"attn_q": 0, "attn_k": 1, "attn_v": 2}[what]*s.Dim, []int{3 * s.Dim}
		if p.turned {
			p.whole = []int{s.Dim, 3 * s.Dim}
		}
	default:
		p.name = map[string]string{"attn_output": "attn.c_proj", "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}[what]
	}
	p.name = "h." + number + "." + p.name + "." + kind
	return p
}

// hfGPT2Spare accepts a stored copy of the tied head, and the masks that old checkpoints carry.
func hfGPT2Spare(s *model.Spec, name string) bool {
	return s.TiedHead && name == "lm_head.weight" || regexp.MustCompile(`^h\.\d+\.attn\.(bias|masked_bias)$`).MatchString(name)
}
