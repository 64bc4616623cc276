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
	d := n.Gain.N
	for r := range rows {
		row := x[r*d : (r+1)*d]
		if n.Kind == LayerNorm {
			t.Mean[r] = mean(row)
			t.Inv[r] = inverse(squares(row, t.Mean[r]), d, n.Eps)
		} else {
			t.Inv[r] = inverse(w.Dot(row, row), d, n.Eps)
		}
	}
	w.Renorm(n, t, dst, x, rows)
}

// Renorm is Norm with the statistics kept before.
func (w *Work[F]) Renorm(n *NormAt, t *NormTrace[F], dst, x []F, rows int) {
	d, gain := n.Gain.N, w.Val(n.Gain)
	for r := range rows {
		out, row := dst[r*d:(r+1)*d], x[r*d:(r+1)*d]
		if n.Kind != LayerNorm {
			w.ScaleGain(out, row, gain, t.Inv[r])
			continue
		}
		bias, m, s := w.Val(n.Bias), t.Mean[r], t.Inv[r]
		for i, v := range row {
			out[i] = (v-m)*s*gain[i] + bias[i]
		}
	}
}

// NormBack adds to the gradients of gain and bias and adds the gradient of x to dx, which must not be dy.
func (w *Work[F]) NormBack(n *NormAt, t *NormTrace[F], dx, dy, x []F, rows int) {
	d := n.Gain.N
	gain, dgain := w.Val(n.Gain), w.GradOf(n.Gain)
	for r := range rows {
		dst, dout, row := dx[r*d:(r+1)*d], dy[r*d:(r+1)*d], x[r*d:(r+1)*d]
		if n.Kind == LayerNorm {
			dbias := w.GradOf(n.Bias)
			w.Add(dbias, dbias, dout)
			layerNormBack(dst, dgain, dout, row, gain, t.Mean[r], t.Inv[r])
		} else {
			w.RMSBack(dst, dgain, dout, row, gain, t.Inv[r])
		}
	}
}

// NormBackSelf replaces dx, the gradient of norm(x), by that of x.
func (w *Work[F]) NormBackSelf(n *NormAt, t *NormTrace[F], dx, x []F, rows int) {
	d := n.Gain.N
	dy := w.Tmp[:d]
	for r := range rows {
		row := dx[r*d : (r+1)*d]
		copy(dy, row)
		clear(row)
		one := NormTrace[F]{Inv: t.Inv[r : r+1]}
		if n.Kind == LayerNorm {
			one.Mean = t.Mean[r : r+1]
		}
		w.NormBack(n, &one, row, dy, x[r*d:(r+1)*d], 1)
	}
}

// With u = dy*gain and y = (x-mean)*inv: dx = inv*(u - mean(u) - y*mean(u*y)).
func layerNormBack[F Float](dx, dgain, dy, x, gain []F, m, inv F) {
	var su, suy F
	for i, v := range x {
		y, u := (v-m)*inv, dy[i]*gain[i]
		dgain[i] += dy[i] * y
		su += u
		suy += u * y
	}
	n := F(len(x))
	for i, v := range x {
		dx[i] += inv * (dy[i]*gain[i] - su/n - (v-m)*inv*suy/n)
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
func inverse[F Float](sum F, d int, eps float64) F {
	return 1 / F(math.Sqrt(float64(sum/F(d)+F(eps))))
}
