package arch

import (
	"encoding/json"
	"regexp"
	"strings"

	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// hf is the config.json of a Hugging Face checkpoint, as far as it says how the model is computed. Fields that only concern training or sampling are
// not listed.
type hf struct {
	ModelType    string  `json:"model_type"`
	Hidden       int     `json:"hidden_size"`
	Intermediate int     `json:"intermediate_size"`
	Layers       int     `json:"num_hidden_layers"`
	Heads        int     `json:"num_attention_heads"`
	KVHeads      *int    `json:"num_key_value_heads"`
	HeadDim      *int    `json:"head_dim"`
	Vocab        int     `json:"vocab_size"`
	Context      int     `json:"max_position_embeddings"`
	Eps          float32 `json:"rms_norm_eps"`
	Act          string  `json:"hidden_act"`
	Theta        float32 `json:"rope_theta"`
	Tied         bool    `json:"tie_word_embeddings"`
	AttnBias     bool    `json:"attention_bias"`
	MLPBias      bool    `json:"mlp_bias"`
	Loops        int     `json:"total_ut_steps"` // Ouro

	RopeScaling map[string]any  `json:"rope_scaling"`
	Rope        map[string]any  `json:"rope_parameters"` // the newer place of rope_theta and rope_scaling
	LayerTypes  []string        `json:"layer_types"`
	Partial     *float64        `json:"partial_rotary_factor"`
	Quantised   json.RawMessage `json:"quantization_config"`
}

func hfConfig(f *tensorfile.File) (*hf, error) {
	data, err := f.Sidecar("config.json")
	if err != nil {
		return nil, err
	}
	var c hf
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, invalid("config.json", "config.json: %s", clip(err))
	}
	return &c, nil
}

// hfLlamaSpec reads model_type "llama". Its query and key rows are stored for rotations of halves.
func hfLlamaSpec(f *tensorfile.File) (model.Spec, error) {
	c, err := hfConfig(f)
	if err != nil {
		return model.Spec{}, err
	}
	s, err := c.spec()
	s.Loops = model.Loops{Default: 1, TrainedMin: 1, TrainedMean: 1, TrainedMax: 1, HardMax: 1}
	return s, err
}

// hfOuroSpec reads model_type "ouro" (arXiv 2510.25741): all layers applied total_ut_steps times, norms on both sides of each branch, the final norm after
// every pass, and an exit gate.
func hfOuroSpec(f *tensorfile.File) (model.Spec, error) {
	c, err := hfConfig(f)
	if err != nil {
		return model.Spec{}, err
	}
	s, err := c.spec()
	n := c.Loops
	s.Block.NormPlace, s.LoopNorm, s.ExitGate = model.BranchSandwich, model.LoopNormBetween, true
	s.Loops = model.Loops{Default: n, TrainedMin: n, TrainedMean: n, TrainedMax: n, HardMax: 4 * min(n, 256)}
	return s, err
}

func (c *hf) spec() (model.Spec, error) {
	s := model.Spec{Family: c.ModelType, Vocab: c.Vocab, Dim: c.Hidden, Context: c.Context, Core: c.Layers, TiedHead: c.Tied}
	b := &s.Block
	b.Eps, b.Heads, b.KVHeads, b.Hidden = c.Eps, c.Heads, c.Heads, c.Intermediate
	b.QKVBias, b.OutBias, b.MLPBias = c.AttnBias, c.AttnBias, c.MLPBias
	if c.KVHeads != nil {
		b.KVHeads = *c.KVHeads
	}
	b.HeadDim = c.Hidden / max(c.Heads, 1)
	if c.HeadDim != nil {
		b.HeadDim = *c.HeadDim
	}
	b.RopeTheta = 10000
	if c.Theta != 0 {
		b.RopeTheta = c.Theta
	}
	if v, ok := c.Rope["rope_theta"].(float64); ok {
		b.RopeTheta = float32(v)
	}
	return s, c.refuse()
}

// refuse names what this build would compute wrongly.
func (c *hf) refuse() error {
	for key, rope := range map[string]map[string]any{"rope_scaling": c.RopeScaling, "rope_parameters": c.Rope} {
		for _, kind := range []string{"rope_type", "type"} {
			if v, ok := rope[kind]; ok && v != "default" {
				return unsupported(key, "config.json: %s.%s = %s is not supported by this build", key, kind, clip(v))
			}
		}
	}
	for _, t := range c.LayerTypes {
		if t != "full_attention" {
			return unsupported("layer_types", "config.json: layer_types has %s, this build runs full_attention only", clip(t))
		}
	}
	switch {
	case c.Act != "" && c.Act != "silu":
		return unsupported("hidden_act", "config.json: hidden_act = %s is not supported by this build", clip(c.Act))
	case c.Partial != nil && *c.Partial != 1:
		return unsupported("partial_rotary_factor", "config.json: partial_rotary_factor = %v is not supported by this build", *c.Partial)
	case len(c.Quantised) > 0 && string(c.Quantised) != "null":
		return unsupported("quantization_config", "config.json: quantised checkpoints (quantization_config) are not supported by this build")
	}
	return nil
}

// hfNames maps the names inside a block.
func hfNames() map[string]string {
	return map[string]string{
		"attn_norm": "input_layernorm", "attn_post_norm": "input_layernorm_2", "ffn_norm": "post_attention_layernorm", "ffn_post_norm": "post_attention_layernorm_2",
		"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
		"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
		"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head", "exit_gate": "model.early_exit_gate",
	}
}

// hfName translates "core.3.attn_q.weight" to "model.layers.3.self_attn.q_proj.weight".
func hfName(name string) string {
	parts := strings.Split(name, ".")
	if len(parts) == 4 && parts[0] == "core" {
		return "model.layers." + parts[1] + "." + hfNames()[parts[2]] + "." + parts[3]
	}
	return hfNames()[parts[0]] + "." + parts[1]
}

// hfSpare accepts a stored copy of a tied head, and the rotation tables that old checkpoints carry.
func hfSpare(s *model.Spec, name string) bool {
	return s.TiedHead && name == "lm_head.weight" || regexp.MustCompile(`^model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq$`).MatchString(name)
}
