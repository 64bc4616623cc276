package nn

import "math"

// NormAt is a Norm of the flat array. Gain.N is the width of a row; the zero value is the identity.
type NormAt struct {
	Kind       NormKind
	Eps        float64
	Gain, Bias Vec
}

// NormTrace is what the backward of a norm needs besides its input.
type NormTrace[F Float] struct{ Inv, Mean []F } // [rows] 1/deviation, and of LayerNorm the mean

// Norm writes norm(x) of rows rows to dst and keeps their statistics in t. dst may be x.
func (w *Work[F]) Norm(n *NormAt, t *NormTrace[F], dst, x []F, rows int) {
	d, gain := n.Gain.N, w.Val(n.Gain)
	if n.Kind != LayerNorm {
		w.RMSNorm(dst, d, x, d, gain, d, rows, F(n.Eps), t.Inv)
		return
	}
	bias := w.Val(n.Bias)
	for r := range rows {
		row := x[r*d : (r+1)*d]
		m := mean(row)
		s := inverse(squares(row, m), d, F(n.Eps))
		t.Mean[r], t.Inv[r] = m, s
		for i, v := range row {
			dst[r*d+i] = (v-m)*s*gain[i] + bias[i]
		}
	}
}

// NormBack adds to the gradients of gain and bias, and writes the gradient of x to dx, which may be dy, or adds it there.
func (w *Work[F]) NormBack(n *NormAt, t *NormTrace[F], dx, dy, x []F, rows int, add bool) {
	d, gain, dgain := n.Gain.N, w.Val(n.Gain), w.GradOf(n.Gain)
	if n.Kind != LayerNorm {
		w.RMSNormBack(dx, d, dgain, dy, d, x, d, gain, t.Inv, d, rows, add)
		return
	}
	dbias := w.GradOf(n.Bias)
	for r := range rows {
		dout := dy[r*d : (r+1)*d]
		w.Add(dbias, dbias, dout)
		layerNormBack(dx[r*d:(r+1)*d], dgain, dout, x[r*d:(r+1)*d], gain, t.Mean[r], t.Inv[r], add)
	}
}

// With u = dy*gain and y = (x-mean)*inv: dx = inv*(u - mean(u) - y*mean(u*y)).
func layerNormBack[F Float](dx, dgain, dy, x, gain []F, m, inv F, add bool) {
	var su, suy F
	for i, v := range x {
		y, u := (v-m)*inv, dy[i]*gain[i]
		dgain[i] += dy[i] * y
		su += u
		suy += u * y
	}
	n := F(len(x))
	for i, v := range x {
		d := inv * (dy[i]*gain[i] - su/n - (v-m)*inv*suy/n)
		if add {
			d += dx[i]
		}
		dx[i] = d
	}
}

func mean[F Float](x []F) (sum F) {
	for _, v := range x {
		sum += v
	}
	return sum / F(len(x))
}

func squares[F Float](x []F, m F) (sum F) {
	for _, v := range x {
		sum += (v - m) * (v - m)
	}
	return sum
}

// inverse is 1/sqrt(sum/d + eps).
func inverse[F Float](sum F, d int, eps F) F {
	return 1 / F(math.Sqrt(float64(sum/F(d)+eps)))
}
