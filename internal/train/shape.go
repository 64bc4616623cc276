package train

import (
	"maps"
	"math"
	"slices"
	"strings"

	"tinyloop/internal/fault"
	"tinyloop/internal/model"
)

// presets are shapes of looped models of one prelude block, two core blocks and one coda block.
func presets() map[string]ModelConfig {
	base := ModelConfig{HeadDim: 32, Context: 256, Prelude: 1, Core: 2, Coda: 1, MLP: "relu2", QKNorm: true, Tied: true, Inject: "add", PreludeNorm: true,
		LoopNorm: "own", RopeTheta: 10000, Softcap: 20, Init: "random"}
	sized := func(name string, dim, heads int) ModelConfig {
		m := base
		m.Preset, m.Dim, m.Heads, m.KVHeads, m.Hidden = name, dim, heads, heads, 4*dim
		return m
	}
	toy := sized("toy", 32, 2)
	toy.HeadDim, toy.Context = 16, 64
	return map[string]ModelConfig{"toy": toy, "nano": sized("nano", 128, 4), "mid": sized("mid", 160, 5), "demo": sized("demo", 192, 6), "big": sized("big", 256, 8)}
}

func preset(name string) (ModelConfig, error) {
	all := presets()
	m, ok := all[name]
	if !ok {
		return m, fault.New(fault.Invalid, "model.preset", "model.preset must be one of %s, is %q", strings.Join(slices.Sorted(maps.Keys(all)), ", "), fault.Clip(name, 40))
	}
	return m, nil
}

// spec gives the blueprint of a new model over a vocabulary.
func (c *Config) spec(vocab int) (*model.Spec, error) {
	m := &c.Model
	s := &model.Spec{Family: "tinyloop", Vocab: vocab, Dim: m.Dim, Context: m.Context, Prelude: m.Prelude, Core: m.Core, Coda: m.Coda,
		PreludeNorm: m.PreludeNorm, TiedHead: m.Tied, LogitSoftcap: float32(m.Softcap)}
	// The embedding starts small, for the head's sake; the factor gives the stream unit size.
	s.Embed.Scale = float32(math.Sqrt(float64(m.Dim)))
	s.Block = model.Block{Eps: 1e-5, Heads: m.Heads, KVHeads: m.KVHeads, HeadDim: m.HeadDim, QKNorm: m.QKNorm, RopeTheta: float32(m.RopeTheta), Hidden: m.Hidden}
	var err error
	pick := func(field, word string, words ...string) uint8 {
		for i, w := range words {
			if w == word {
				return uint8(i)
			}
		}
		if err == nil {
			err = fault.New(fault.Invalid, field, "%s must be one of %s, is %q", field, strings.Join(words, ", "), fault.Clip(word, 40))
		}
		return 0
	}
	s.Block.MLP = model.MLP(pick("model.mlp", m.MLP, "swiglu", "gelu", "relu2"))
	s.Injection = model.Injection(pick("model.inject", m.Inject, "none", "add", "diagonal", "concat", "scaled"))
	s.LoopNorm = model.LoopNorm(pick("model.loop_norm", m.LoopNorm, "none", "between", "own"))
	start := pick("model.init", m.Init, "random", "induction")
	c.setLoops(s)
	if err != nil {
		return nil, err
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if start == 1 {
		return s, s.CanInduct()
	}
	return s, nil
}

// setLoops states the depths that the model is trained for.
func (c *Config) setLoops(s *model.Spec) {
	l := &c.Loops
	if s.Core == 0 || l.Max == 1 {
		s.Loops = model.Loops{Default: 1, TrainedMin: 1, TrainedMean: 1, TrainedMax: 1, HardMax: 1}
		return
	}
	s.Loops = model.Loops{Default: min(l.Default, max(l.Hard, l.Max)), TrainedMin: 1, TrainedMean: min(max(int(math.Round(l.Mean)), 1), l.Max), TrainedMax: l.Max,
		HardMax: max(l.Hard, l.Max)}
}

// keepLoops joins the loops of the recipe with those of a model that is trained further.
func (c *Config) keepLoops(s *model.Spec) {
	l := &c.Loops
	if l.Max == 0 {
		l.Max = s.Loops.TrainedMax
	}
	l.Max = min(l.Max, s.Loops.HardMax)
	l.Default = s.Loops.Default
	s.Loops.TrainedMax = max(s.Loops.TrainedMax, l.Max)
}
