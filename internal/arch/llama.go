package arch

import (
	"strings"

	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// llamaSpec reads arch "llama" of GGUF (Touvron and others, arXiv 2302.13971), and llama2.c files, which tensorfile shows the same way. The rows of
// the query and key matrices of both are stored for rotations of neighbours, which is RopeInterleaved.
func llamaSpec(c *config, f *tensorfile.File) model.Spec {
	s := llamaLike(c, f, "llama")
	s.Loops = once()
	return s
}

// once is the range of depth of a model without a loop.
func once() model.Loops {
	return model.Loops{Default: 1, TrainedMin: 1, TrainedMean: 1, TrainedMax: 1, HardMax: 1}
}

// fixed is the range of depth of a model trained at n passes; requests may ask for four times as many.
func fixed(n int) model.Loops {
	return model.Loops{Default: n, TrainedMin: n, TrainedMean: n, TrainedMax: n, HardMax: 4 * min(n, 256)}
}

// nanbeigeSpec reads arch "nanbeige" of GGUF (arXiv 2607.22083): llama with all its layers applied num_loops times, the final norm between the
// passes unless it is skipped. Every (loop, layer) has its own keys and values.
func nanbeigeSpec(c *config, f *tensorfile.File) model.Spec {
	s := llamaLike(c, f, "nanbeige")
	s.Loops = fixed(c.size("num_loops", false, 1))
	if !c.flag("skip_loop_final_norm") {
		s.LoopNorm = model.LoopNormBetween
	}
	return s
}

func llamaLike(c *config, f *tensorfile.File, name string) model.Spec {
	s := ggufSizes(c, f, name)
	b := &s.Block
	b.Norm, b.NormPlace, b.MLP, b.Pos = model.RMS, model.PreNorm, model.SwiGLU, model.RopeInterleaved
	b.Eps = c.float("attention.layer_norm_rms_epsilon", true, 0)
	b.KVHeads = c.perLayer("attention.head_count_kv", false, b.Heads)
	b.HeadDim = c.size("attention.key_length", false, s.Dim/max(b.Heads, 1))
	c.off("attention.value_length", b.HeadDim)
	b.RopeTheta = c.float("rope.freq_base", false, 10000)
	b.RopeDim = c.size("rope.dimension_count", false, b.HeadDim)
	b.Window = c.size("attention.sliding_window", false, 0)
	b.RopeFactors = has(f, ropeSlot)
	b.QKVBias = has(f, "blk.0.attn_q.bias")
	b.QKNorm = has(f, "blk.0.attn_q_norm.weight")
	b.OutBias = has(f, "blk.0.attn_output.bias")
	b.MLPBias = has(f, "blk.0.ffn_up.bias")
	switch b.RopeDim {
	case 0:
		c.wrong(c.prefix+"rope.dimension_count", "at least 1", 0)
	case b.HeadDim:
		b.RopeDim = 0
	}
	c.off("expert_count", 0)
	c.off("expert_used_count", 0)
	ggufScaling(c, b)
	c.ignore("tensor_data_layout", "rope.scaling.finetuned")
	return s
}

// ggufScaling reads the stretching of positions: none, or linear, where every frequency is divided by one factor. (The factors of Llama 3 stand in the
// file as a tensor.)
func ggufScaling(c *config, b *model.Block) {
	if c.text("rope.scaling.type") == "linear" {
		stretch(c, b, c.float("rope.scaling.factor", true, 1))
		return
	}
	c.off("rope.scaling.type", "none")
	c.off("rope.scaling.factor", float32(1), float32(0))
}

// ggufSizes reads what every architecture of GGUF has.
func ggufSizes(c *config, f *tensorfile.File, name string) model.Spec {
	s := model.Spec{Family: name, TiedHead: !has(f, "output.weight")}
	s.Dim = c.size("embedding_length", true, 0)
	s.Context = c.size("context_length", true, 0)
	s.Core = c.size("block_count", true, 0)
	if t, ok := f.Tensor("token_embd.weight"); ok && len(t.Shape) == 2 {
		s.Vocab = t.Shape[0]
	}
	s.Vocab = c.size("vocab_size", false, s.Vocab)
	if tokens, ok := f.Meta.Strings("tokenizer.ggml.tokens"); ok && s.Vocab == 0 {
		s.Vocab = len(tokens) // a file of vocabulary only
	}
	s.Block.Heads = c.perLayer("attention.head_count", true, 1)
	s.Block.Hidden = c.perLayer("feed_forward_length", true, 0)
	return s
}

// qwenSpec reads archs "qwen2" and "qwen3" of GGUF (arXiv 2407.10671, 2505.09388): llama with rotations of halves, and biases or norms on queries and keys.
func qwenSpec(c *config, f *tensorfile.File) model.Spec {
	s := llamaLike(c, f, strings.TrimSuffix(c.prefix, "."))
	s.Block.Pos, s.Loops = model.RopeHalf, once()
	return s
}

func qwenKeys(name string) func(s *model.Spec) []tensorfile.KV {
	return func(s *model.Spec) []tensorfile.KV { return likeKeys(name+".", s) }
}

func has(f *tensorfile.File, tensor string) bool {
	_, ok := f.Tensor(tensor)
	return ok
}

// llamaKeys writes what llamaSpec reads.
func llamaKeys(s *model.Spec) []tensorfile.KV { return likeKeys("llama.", s) }

func nanbeigeKeys(s *model.Spec) []tensorfile.KV {
	return append(likeKeys("nanbeige.", s),
		tensorfile.KV{Key: "nanbeige.num_loops", Value: uint32(s.Loops.Default)},
		tensorfile.KV{Key: "nanbeige.skip_loop_final_norm", Value: s.LoopNorm != model.LoopNormBetween})
}

func likeKeys(prefix string, s *model.Spec) []tensorfile.KV {
	b := &s.Block
	keys := []tensorfile.KV{
		{Key: "context_length", Value: uint32(s.Context)},
		{Key: "embedding_length", Value: uint32(s.Dim)},
		{Key: "block_count", Value: uint32(s.Core)},
		{Key: "feed_forward_length", Value: uint32(b.Hidden)},
		{Key: "attention.head_count", Value: uint32(b.Heads)},
		{Key: "attention.head_count_kv", Value: uint32(b.KVHeads)},
		{Key: "attention.key_length", Value: uint32(b.HeadDim)},
		{Key: "attention.value_length", Value: uint32(b.HeadDim)},
		{Key: "attention.layer_norm_rms_epsilon", Value: b.Eps},
		{Key: "rope.dimension_count", Value: uint32(b.Rot())},
		{Key: "rope.freq_base", Value: b.RopeTheta},
		{Key: "vocab_size", Value: uint32(s.Vocab)},
	}
	if b.Window > 0 {
		keys = append(keys, tensorfile.KV{Key: "attention.sliding_window", Value: uint32(b.Window)})
	}
	for i := range keys {
		keys[i].Key = prefix + keys[i].Key
	}
	return keys
}
