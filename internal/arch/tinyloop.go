package arch

import (
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

const (
	keyVersion   = "tinyloop.format_version"
	keyHash      = "tinyloop.hash"
	keyAgreement = "tinyloop.calibration.agreement"

	formatVersion = 1
)

// field is one entry of a Spec in a .tinyloop file. The list is the one place that knows the keys; docs/format/tinyloop.md describes them.
type field struct {
	key   string
	must  bool // the reader does not accept its absence
	read  func(c *config)
	value func() any
}

// fields pairs every key with its place in s.
func fields(s *model.Spec) []field {
	b := &s.Block
	return []field{
		text("family", &s.Family),
		size("vocab_size", true, &s.Vocab),
		size("embedding_length", true, &s.Dim),
		size("context_length", true, &s.Context),
		size("prelude_count", true, &s.Prelude),
		size("core_count", true, &s.Core),
		size("coda_count", true, &s.Coda),
		choice("norm", &b.Norm, model.LayerNorm),
		choice("norm_place", &b.NormPlace, model.PostNorm),
		number("norm_epsilon", true, &b.Eps),
		size("attention.head_count", true, &b.Heads),
		size("attention.head_count_kv", true, &b.KVHeads),
		size("attention.head_length", true, &b.HeadDim),
		flag("attention.qkv_bias", &b.QKVBias),
		flag("attention.output_bias", &b.OutBias),
		flag("attention.qk_norm", &b.QKNorm),
		flag("attention.qk_head_bias", &b.QKBias),
		number("attention.scale", false, &b.AttnScale),
		number("attention.softcap", false, &b.AttnSoftcap),
		size("attention.window", false, &b.Window),
		choice("position", &b.Pos, model.NoPos),
		number("rope.freq_base", false, &b.RopeTheta),
		size("rope.dimension_count", false, &b.RopeDim),
		flag("rope.factors", &b.RopeFactors),
		choice("feed_forward", &b.MLP, model.GeGLU),
		size("feed_forward_length", true, &b.Hidden),
		flag("feed_forward_bias", &b.MLPBias),
		number("residual_scale", false, &b.ResidualScale),
		number("embedding.scale", false, &s.Embed.Scale),
		flag("embedding.norm", &s.Embed.NormAfter),
		flag("prelude_norm", &s.PreludeNorm),
		choice("injection", &s.Injection, model.InjectScaled),
		flag("injection_matrix", &s.InjectMatrix),
		choice("state_init", &s.StateInit, model.StateZero),
		choice("loop_norm", &s.LoopNorm, model.LoopNormOwn),
		flag("readout", &s.Readout),
		choice("coda_norm", &s.CodaNorm, model.CodaNormOwn),
		flag("exit_gate", &s.ExitGate),
		size("loops.default", true, &s.Loops.Default),
		size("loops.trained_min", true, &s.Loops.TrainedMin),
		size("loops.trained_mean", true, &s.Loops.TrainedMean),
		size("loops.trained_max", true, &s.Loops.TrainedMax),
		size("loops.hard_max", true, &s.Loops.HardMax),
		flag("tied_head", &s.TiedHead),
		number("logit.scale", false, &s.LogitScale),
		number("logit.softcap", false, &s.LogitSoftcap),
	}
}

func size(key string, must bool, p *int) field {
	return field{key, must, func(c *config) { *p = c.size(key, must, 0) }, func() any { return uint32(*p) }}
}

func number(key string, must bool, p *float32) field {
	return field{key, must, func(c *config) { *p = c.float(key, must, 0) }, func() any { return *p }}
}

func flag(key string, p *bool) field {
	return field{key, false, func(c *config) { *p = c.flag(key) }, func() any { return *p }}
}

func text(key string, p *string) field {
	return field{key, false, func(c *config) { *p = c.text(key) }, func() any { return *p }}
}

// choice is an enumeration up to last, written as a word; absent means the first.
func choice[T interface {
	~uint8
	String() string
}](key string, p *T, last T) field {
	var words []string
	for v := range last + 1 {
		words = append(words, v.String())
	}
	read := func(c *config) {
		word := c.text(key)
		if word == "" {
			return
		}
		for i, w := range words {
			if w == word {
				*p = T(i)
				return
			}
		}
		c.fail(unsupported(c.prefix+key, "%s = %s is not known to this build, which knows %v", c.prefix+key, clip(word), words))
	}
	return field{key, false, read, func() any { return (*p).String() }}
}

func tinyloopSpec(c *config, _ *tensorfile.File) model.Spec {
	var s model.Spec
	if v := c.size("format_version", true, 0); c.err == nil && v != formatVersion {
		c.fail(unsupported(keyVersion, "%s = %d: this build reads version %d", keyVersion, v, formatVersion))
	}
	for _, fd := range fields(&s) {
		fd.read(c)
	}
	c.ignore("hash", "layout", "calibration.agreement", "calibration.exit.rule", "calibration.exit.threshold", "calibration.exit.loops", "calibration.exit.agreement")
	return s
}

func tinyloopKeys(s *model.Spec) []tensorfile.KV {
	keys := []tensorfile.KV{{Key: keyVersion, Value: uint32(formatVersion)}}
	for _, fd := range fields(s) {
		keys = append(keys, tensorfile.KV{Key: "tinyloop." + fd.key, Value: fd.value()})
	}
	return keys
}
