package arch

import (
	"tinyloop/internal/model"
)

// ggufTarget picks the architecture in which a model is written as GGUF.
func ggufTarget(layout string, in *found) (family, error) {
	switch {
	case layout == "nanbeige":
		return llamaTarget(&in.spec)
	case layout != "":
		return family{}, invalid("layout", "--layout must be nanbeige or absent, is %s", clip(layout))
	case in.name == "gemma2" && !gemma2Fits(&in.spec):
		return family{}, unsupported("out", "the model scales its scores by %v, which gemma2 of GGUF cannot say; it can be written as .tinyloop", in.spec.Block.AttnScale)
	case in.keys != nil:
		return in.family, nil
	case in.name == "tinyloop":
		return tinyloopFamily(), nil
	}
	fam, err := pick(families(), "", in.name)
	switch {
	case in.name == "mistral" || err == nil && fam.pairs:
		return llamaTarget(&in.spec)
	case err == nil && fam.keys != nil && !in.spec.Block.RopeFactors:
		return fam, nil
	}
	return family{}, unsupported("out", "a model of type %s can be written as .tinyloop, not as .gguf", in.name)
}

// llamaTarget gives arch "llama" for models without a loop, "nanbeige" for those with one, and refuses by name what neither has.
func llamaTarget(s *model.Spec) (family, error) {
	b, loop := &s.Block, s.Loops.HardMax > 1
	for _, o := range []struct {
		what string
		bad  bool
	}{
		{"blocks before or behind the loop", s.Prelude+s.Coda > 0},
		{"an injection", s.Injection != model.InjectNone},
		{"a norm of its own on the prelude", s.PreludeNorm},
		{"a norm of its own between passes", s.LoopNorm == model.LoopNormOwn},
		{"a norm before the coda, or a readout", s.CodaNorm != model.CodaNormNone || s.Readout},
		{"an exit gate", s.ExitGate},
		{"norms that are " + b.Norm.String(), b.Norm != model.RMS},
		{"norms at the place " + b.NormPlace.String(), b.NormPlace != model.PreNorm},
		{"positions of the kind " + b.Pos.String(), !b.Pos.Rotary()},
		{"a feed-forward layer of the kind " + b.MLP.String(), b.MLP != model.SwiGLU},
		{"norms or biases on query and key heads", b.QKNorm || b.QKBias},
		{"an attention scale or soft cap", b.AttnScale != 0 || b.AttnSoftcap != 0},
		{"a factor on residuals", b.ResidualScale != 0},
		{"a factor or norm on the embedding", s.Embed != model.Embed{}},
		{"a factor or soft cap on the logits", s.LogitScale != 0 || s.LogitSoftcap != 0},
		{"factors of its rotations, with a loop", b.RopeFactors && loop},
		{"a window, with a loop", b.Window > 0 && loop},
	} {
		if o.bad {
			return family{}, unsupported("layout", "the model has %s, which the layout llama or nanbeige of GGUF cannot say", o.what)
		}
	}
	name := "llama"
	if loop {
		name = "nanbeige"
	}
	return pick(families(), "", name)
}

// pairRows asks for the rows of queries and keys in the order that rotations of neighbours need: row j of a head goes to 2j, row j + rot/2 to 2j+1.
func pairRows(s *model.Spec, slots []model.Slot, weights []weight) {
	for i := range slots {
		if _, what, _, ok := blockPart(slots[i].Name); ok && (what == "attn_q" || what == "attn_k") {
			weights[i].dim, weights[i].rot = s.Block.HeadDim, s.Block.Rot()
		}
	}
}

// paired is src with its rows so ordered.
func (w *weight) paired(src []byte) []byte {
	out := make([]byte, len(src))
	row := len(src) / w.n
	for r := range w.n {
		head, j := r/w.dim*w.dim, r%w.dim
		to := r
		if half := w.rot / 2; j < half {
			to = head + 2*j
		} else if j < w.rot {
			to = head + 2*(j-half) + 1
		}
		copy(out[to*row:(to+1)*row], src[r*row:(r+1)*row])
	}
	return out
}
