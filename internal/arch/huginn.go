package arch

import (
	"fmt"
	"math"
	"strings"

	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// hfHuginnSpec reads model_type "huginn_raven" (arXiv 2502.05171): prelude, core and coda; every pass starts with a product of the state beside the
// prelude's output; norms before and after each addition; the final norm acts before and after the coda. The published code starts the state at random
// unless told otherwise; here it starts at zero, so that answers repeat.
func hfHuginnSpec(c *config, _ *tensorfile.File) model.Spec {
	s := model.Spec{Family: "huginn", Injection: model.InjectConcat, StateInit: model.StateZero, CodaNorm: model.CodaNormFinal, TiedHead: true}
	s.Vocab = c.size("vocab_size", true, 0)
	s.Dim = c.size("n_embd", true, 0)
	s.Context = c.size("block_size", true, 0)
	s.Prelude, s.Core, s.Coda = c.size("n_layers_in_prelude", true, 0), c.size("n_layers_in_recurrent_block", true, 0), c.size("n_layers_in_coda", true, 0)
	b := &s.Block
	b.NormPlace, b.Pos = model.ResidualSandwich, model.RopeInterleaved
	b.Heads = c.size("n_heads", true, 1)
	b.KVHeads, b.HeadDim = b.Heads, s.Dim/max(b.Heads, 1)
	b.Hidden = c.size("intermediate_size", true, 0)
	b.Eps = c.float("norm_eps", true, 0)
	b.RopeTheta = c.float("rope_base", true, 0)
	b.QKBias = c.flag("qk_bias")
	s.Embed.Scale = huginnScale(c, s.Dim)
	s.Loops = huginnLoops(c)
	huginnChecks(c, &s)
	return s
}

// huginnScale is the factor on the embedding, which the way of initialising decides.
func huginnScale(c *config, dim int) float32 {
	c.off("init_strategy", "takase")
	absent := float32(math.Sqrt(float64(dim)))
	v, full, ok := c.get("init_values")
	if !ok {
		return absent
	}
	o, ok := v.(map[string]any)
	if !ok {
		c.wrong(full, "an object", v)
		return absent
	}
	sub := &config{meta: object(o), where: c.where + "init_values.", read: map[string]bool{}}
	scale := sub.float("embed_scale", false, absent)
	if sub.err != nil {
		c.fail(sub.err)
	}
	return scale
}

// huginnLoops is the range of depth: the passes of training were drawn around their mean, with a long tail.
func huginnLoops(c *config) model.Loops {
	mean := min(c.size("mean_recurrence", true, 1), 512)
	return model.Loops{Default: mean, TrainedMin: 1, TrainedMean: mean, TrainedMax: 2 * mean, HardMax: 4 * mean}
}

func huginnChecks(c *config, s *model.Spec) {
	for key, known := range map[string]string{"block_class_name": "SandwichBlock", "mlp_class_name": "GatedMLP", "nonlin_name": "SiLU", "injection_type": "linear",
		"state_init": "like-init"} {
		c.off(key, known)
	}
	c.off("norm_class_name", "RMSNorm_llama", "RMSNorm")
	c.off("bias", false)
	c.off("tie_embeddings", true)
	c.off("tie_word_embeddings", true)
	c.off("test_time_noise", 0)
	c.off("n_layers", s.Prelude+s.Core+s.Coda)
	c.off("num_hidden_layers", s.Prelude+s.Core+s.Coda)
	c.off("hidden_size", s.Dim)
	c.off("head_dim", s.Block.HeadDim)
	c.off("num_attention_heads", s.Block.Heads)
	c.off("num_key_value_heads", s.Block.Heads)
	c.off("padded_vocab_size", s.Vocab)
	c.ignore("padding_multiple", "architecture_class_name", "init_orthogonal", "sampling_scheme", "mean_backprop_depth", "activation_checkpoint_impl", "effective_expected_depth",
		"test_time_noise_type", "mcleish_throttle")
}

// hfHuginnPlace is the naming of the published checkpoint. Queries, keys and values are one matrix, and so are gate and value of the MLP.
func hfHuginnPlace(s *model.Spec, name string) place {
	part, rest, _ := strings.Cut(name, ".")
	folder, inside := map[string]string{"prelude": "prelude", "core": "core_block", "coda": "coda"}[part]
	if !inside {
		what, kind := cutName(name)
		return place{name: "transformer." + map[string]string{"token_embd": "wte", "output_norm": "ln_f", "inject": "adapter"}[what] + "." + kind}
	}
	number, what, _ := strings.Cut(rest, ".")
	p := huginnBlock(s, what)
	p.name = fmt.Sprintf("transformer.%s.%s.%s", folder, number, p.name)
	return p
}

func huginnBlock(s *model.Spec, what string) place {
	d, h, heads := s.Dim, s.Block.Hidden, s.Block.Heads*s.Block.HeadDim
	bias := []int{2, 1, s.Block.Heads, s.Block.HeadDim} // of queries, then of keys
	return map[string]place{
		"attn_norm.weight": {name: "norm_1.weight"}, "attn_post_norm.weight": {name: "norm_2.weight"},
		"ffn_norm.weight": {name: "norm_3.weight"}, "ffn_post_norm.weight": {name: "norm_4.weight"},
		"attn_q.weight":    {name: "attn.Wqkv.weight", whole: []int{3 * heads, d}},
		"attn_k.weight":    {name: "attn.Wqkv.weight", whole: []int{3 * heads, d}, from: heads},
		"attn_v.weight":    {name: "attn.Wqkv.weight", whole: []int{3 * heads, d}, from: 2 * heads},
		"attn_q_head.bias": {name: "attn.qk_bias", whole: bias}, "attn_k_head.bias": {name: "attn.qk_bias", whole: bias, from: heads},
		"attn_output.weight": {name: "attn.proj.weight"},
		"ffn_gate.weight":    {name: "mlp.fc.weight", whole: []int{2 * h, d}},
		"ffn_up.weight":      {name: "mlp.fc.weight", whole: []int{2 * h, d}, from: h},
		"ffn_down.weight":    {name: "mlp.proj.weight"},
	}[what]
}

// hfHuginnSpare accepts the stored copy of the tied head and the table of rotations.
func hfHuginnSpare(_ *model.Spec, name string) bool {
	return name == "lm_head.weight" || name == "freqs_cis" || name == "transformer.freqs_cis"
}
