package arch

import (
	"math"
	"strings"

	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// Gemma 2 (arXiv 2408.00118): norms on both sides of each branch, GELU in the gate, soft caps on scores and logits, the embedding times the root of its
// width. Every other layer sees a window only, which bounds the context here: up to its length it hides nothing.

// gemma2Spec reads arch "gemma2" of GGUF, which stores the gains of norms as they are used.
func gemma2Spec(c *config, f *tensorfile.File) model.Spec {
	s := llamaLike(c, f, "gemma2")
	b := &s.Block
	b.Pos, b.NormPlace, b.MLP, s.Loops = model.RopeHalf, model.BranchSandwich, model.GeGLU, once()
	if b.Window > 0 {
		s.Context, b.Window = min(s.Context, b.Window), 0
	}
	b.AttnSoftcap = c.float("attn_logit_softcapping", false, 50)
	s.LogitSoftcap = c.float("final_logit_softcapping", false, 30)
	s.Embed.Scale = root(s.Dim)
	if s.Core == gemma2Large {
		b.AttnScale = 1 / root(s.Dim/max(b.Heads, 1))
	}
	return s
}

// gemma2Keys writes what gemma2Spec reads. The window is the context, beyond which no sequence goes.
func gemma2Keys(s *model.Spec) []tensorfile.KV {
	return append(likeKeys("gemma2.", s),
		tensorfile.KV{Key: "gemma2.attention.sliding_window", Value: uint32(s.Context)},
		tensorfile.KV{Key: "gemma2.attn_logit_softcapping", Value: s.Block.AttnSoftcap},
		tensorfile.KV{Key: "gemma2.final_logit_softcapping", Value: s.LogitSoftcap})
}

// gemma2Fits says whether the scale of the scores is the one that readers of GGUF take for granted.
func gemma2Fits(s *model.Spec) bool {
	b := &s.Block
	usual := 1 / root(b.HeadDim)
	if s.Core == gemma2Large {
		usual = 1 / root(s.Dim/max(b.Heads, 1))
	}
	return b.AttnScale == 0 && s.Core != gemma2Large || b.AttnScale == usual
}

// gemma2Large is the number of layers of the 27B model, which scales scores by the share of the stream instead of the width of a head; its GGUF files do not
// say so.
const gemma2Large = 46

// hfGemma2Spec reads model_type "gemma2", which stores the gains of norms less one.
func hfGemma2Spec(c *config, _ *tensorfile.File) model.Spec {
	s := hfLike(c, "gemma2")
	s.TiedHead = c.flagOr("tie_word_embeddings", true)
	b := &s.Block
	b.NormPlace, b.MLP = model.BranchSandwich, model.GeGLU
	b.HeadDim = c.size("head_dim", false, 256)
	b.AttnScale = 1 / root(c.size("query_pre_attn_scalar", false, 256))
	b.AttnSoftcap, s.LogitSoftcap = gemmaCap(c, "attn_logit_softcapping", 50), gemmaCap(c, "final_logit_softcapping", 30)
	s.Embed.Scale = root(s.Dim)
	c.off("attention_bias", false)
	c.off("hidden_activation", "gelu_pytorch_tanh")
	c.off("use_bidirectional_attention", false)
	c.off("sliding_window_size", c.size("sliding_window", false, 0))
	hfRope(c, b)
	hfWindow(c, &s, usualWindow, func(layer int) bool { return layer%2 == 0 })
	return s
}

// gemmaCap reads a soft cap, which has a usual value where the configuration does not speak of it; null is none.
func gemmaCap(c *config, key string, usual float32) float32 {
	v := c.float(key, false, 0)
	if !c.said(key) {
		return usual
	}
	return v
}

func root(n int) float32 { return float32(math.Sqrt(float64(n))) }

// gemma2Place is the naming of GGUF.
func gemma2Place(s *model.Spec, name string) place {
	name = strings.Replace(name, ".attn_post_norm.", ".post_attention_norm.", 1)
	return ggufPlace(s, strings.Replace(name, ".ffn_post_norm.", ".post_ffw_norm.", 1))
}

// hfGemma2Place is the naming of Hugging Face.
func hfGemma2Place(_ *model.Spec, name string) place {
	names := hfNames()
	names["attn_post_norm"], names["ffn_norm"], names["ffn_post_norm"] = "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"
	p := place{name: hfName(names, name)}
	if strings.HasSuffix(name, "norm.weight") {
		p.plus = 1
	}
	return p
}
