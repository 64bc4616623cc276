package nn

import (
	"tinyloop/internal/kernel"
	"tinyloop/internal/par"
)

// Norm is a normalisation over the width of a row, with its gain and, for LayerNorm, its bias. The zero value is the identity.
type Norm struct {
	Kind       NormKind
	Eps        float32
	Gain, Bias []float32
}

// NormKind tells the normalisations apart.
type NormKind uint8

const (
	Identity  NormKind = iota
	RMS                // x * gain / sqrt(mean(x^2)+eps)
	LayerNorm          // (x-mean) * gain / sqrt(var(x)+eps) + bias
)

// Apply writes norm(x) to dst, which may be x itself.
func (n *Norm) Apply(dst, x []float32) {
	switch n.Kind {
	case RMS:
		kernel.RMSNorm(dst, x, n.Gain, n.Eps)
	case LayerNorm:
		kernel.LayerNorm(dst, x, n.Gain, n.Bias, n.Eps)
	default:
		copy(dst, x)
	}
}

// InPlace norms every row of x. x must be complete on entry; a barrier must follow.
func (n *Norm) InPlace(w *par.Worker, x *Stream) {
	for lo, hi := w.Split(len(x.Index)); lo < hi; lo++ {
		row := x.Row(lo)
		n.Apply(row, row)
	}
}
