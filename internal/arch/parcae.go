package arch

import (
	"fmt"
	"slices"
	"strings"

	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// hfParcaeSpec reads model_type "parcae" (arXiv 2604.12946): prelude, core and coda; before each pass the state is damped by component and the normed output of
// the prelude added to it through a matrix; queries and keys are normed, without gains; the feed-forward layer is half of max(0, x)^2. The state starts at
// zero here, at random in the published code. Checkpoints with value embeddings, which the released ones have, are refused by the name of their tensors.
func hfParcaeSpec(c *config, _ *tensorfile.File) model.Spec {
	s := model.Spec{Family: "parcae", Injection: model.InjectDiagonal, InjectMatrix: true, StateInit: model.StateZero, PreludeNorm: true, Readout: true, TiedHead: true}
	s.Vocab = c.size("padded_vocab_size", false, c.size("vocab_size", true, 0))
	s.Dim = c.size("n_embd", true, 0)
	s.Context = c.size("block_size", true, 0)
	s.Prelude, s.Core, s.Coda = c.size("n_layers_in_prelude", true, 0), c.size("n_layers_in_recurrent_block", true, 0), c.size("n_layers_in_coda", true, 0)
	b := &s.Block
	b.Pos, b.MLP, b.QKNorm = model.RopeInterleaved, model.ReLU2, true
	b.Heads = c.size("num_attention_heads", true, 1)
	b.KVHeads = c.size("num_key_value_heads", false, b.Heads)
	b.HeadDim = s.Dim / max(b.Heads, 1)
	b.Hidden = c.size("intermediate_size", false, 4*s.Dim)
	b.Eps = c.float("norm_eps", true, 0)
	parcaeRope(c, b)
	mean := min(c.size("mean_recurrence", true, 1), 512)
	s.Loops = model.Loops{Default: mean, TrainedMin: 1, TrainedMean: mean, TrainedMax: 2 * mean, HardMax: 4 * mean}
	parcaeChecks(c, &s)
	parcaeGains(c, &s)
	return s
}

func parcaeRope(c *config, b *model.Block) {
	b.RopeTheta = c.float("rope_base", false, 50000)
	v, full, ok := c.get("rope_settings")
	if !ok {
		return
	}
	o, ok := v.(map[string]any)
	if !ok {
		c.wrong(full, "an object", v)
		return
	}
	sub := &config{meta: object(o), where: c.where + "rope_settings.", read: map[string]bool{}}
	outer := b.RopeTheta
	if b.RopeTheta = sub.float("rope_base", false, outer); c.said("rope_base") && b.RopeTheta != outer {
		c.fail(invalid("rope_base", "%srope_base is %v, rope_settings.rope_base %v", c.where, outer, b.RopeTheta))
	}
	sub.off("use_rope", true)
	sub.off("rope_condense_ratio", 1)
	if err := sub.done(); err != nil {
		c.fail(err)
	}
}

func parcaeChecks(c *config, s *model.Spec) {
	for key, known := range map[string]any{"block_class_name": "TransformerPreNormBlock", "norm_class_name": "RMSNorm", "mlp_class_name": "BaseMLP", "nonlin_name": "ReLU2",
		"injection_type": "diagonal", "state_init": "like-init", "init_strategy": "scaled-zero", "mup_model_scaling_factor": 1, "prelude_norm": true, "qk_norm": true,
		"tie_embeddings": true, "tie_word_embeddings": true, "model_class_name": "Parcae", "_class_name": "ParcaeConfig", "recurrent_embedding_dimension": s.Dim,
		"recurrent_intermediation_embedding_dimension": s.Block.Hidden, "recurrent_num_attention_heads": s.Block.Heads} {
		c.off(key, known)
	}
	for _, key := range []string{"bias", "qk_bias", "use_abacus", "debias_attention", "center_attention", "clip_qkv", "logit_softcap", "randomize_positions_from"} {
		c.off(key, false)
	}
	c.ignore("vocab_size", "padding_multiple", "name", "hf_config", "attn_impl", "init_orthogonal", "use_fused_head", "sampling_scheme", "mean_backprop_depth",
		"recurrent_iteration_method", "activation_checkpoint_impl", "lockstep_n", "lockstep_k", "curriculum_target", "skip_initialization", "simple_ops", "strategy")
}

// parcaeGains makes the gains of the norms of queries and keys, which have none.
func parcaeGains(c *config, s *model.Spec) {
	if s.Validate() != nil {
		return // the caller says what is wrong
	}
	for part, n := range map[string]int{"prelude": s.Prelude, "core": s.Core, "coda": s.Coda} {
		for i := range n {
			ones := slices.Repeat([]float32{1}, s.Block.HeadDim)
			c.make(fmt.Sprintf("%s.%d.attn_q_norm.weight", part, i), ones)
			c.make(fmt.Sprintf("%s.%d.attn_k_norm.weight", part, i), ones)
		}
	}
}

// hfParcaePlace is the naming of the published code.
func hfParcaePlace(_ *model.Spec, name string) place {
	part, rest, _ := strings.Cut(name, ".")
	folder, inside := map[string]string{"prelude": "prelude", "core": "core_block", "coda": "coda"}[part]
	if !inside {
		return place{name: "transformer." + map[string]string{"token_embd.weight": "wte.weight", "output_norm.weight": "ln_f.weight", "prelude_norm.weight": "ln_prelude.weight",
			"readout.weight": "C.weight", "inject.weight": "adapter.B", "inject.a_log": "adapter.A_log", "inject.dt_bias": "adapter.dt_bias"}[name]}
	}
	number, what, _ := strings.Cut(rest, ".")
	p := place{name: fmt.Sprintf("transformer.%s.%s.%s", folder, number, map[string]string{"attn_norm.weight": "norm_1.weight", "ffn_norm.weight": "norm_2.weight",
		"attn_q.weight": "attn.c_q.weight", "attn_k.weight": "attn.c_k.weight", "attn_v.weight": "attn.c_v.weight", "attn_output.weight": "attn.c_proj.weight",
		"ffn_up.weight": "mlp.fc.weight", "ffn_down.weight": "mlp.proj.weight"}[what])}
	if what == "ffn_down.weight" {
		p.times = 0.5 // of the activation; exact in every format
	}
	return p
}
