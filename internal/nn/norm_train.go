package nn

import "math"

// NormAt is a Norm of the flat array. Gain.N is the width of a row; the zero value is the identity.
type NormAt struct {
	Kind       NormKind
	Eps        float64
	Gain, Bias Vec
}

// NormTrace is what the backward of a norm needs besides its input: [rows] 1/rms. LayerNorm makes its statistics anew.
type NormTrace[F Float] struct{ Inv []F }

// Norm writes norm(x) of rows rows to dst and keeps their statistics in t. dst may be x.
func (w *Work[F]) Norm(n *NormAt, t *NormTrace[F], dst, x []F, rows int) {
	d, gain := n.Gain.N, w.Val(n.Gain)
	if n.Kind != LayerNorm {
		w.RMSNorm(dst, d, x, d, gain, d, rows, F(n.Eps), t.Inv)
		return
	}
	bias := w.Val(n.Bias)
	for o := 0; o < rows*d; o += d {
		w.LayerNorm(dst[o:o+d], x[o:o+d], gain, bias, F(n.Eps))
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
	for o := 0; o < rows*d; o += d {
		w.Add(dbias, dbias, dy[o:o+d])
		layerNormBack(dx[o:o+d], dgain, dy[o:o+d], x[o:o+d], gain, F(n.Eps), add)
	}
}

// With u = dy*gain and y = (x-mean)*inv: dx = inv*(u - mean(u) - y*mean(u*y)).
func layerNormBack[F Float](dx, dgain, dy, x, gain []F, eps F, add bool) {
	m, inv := moments(x, eps)
	dgain, dy, gain = dgain[:len(x)], dy[:len(x)], gain[:len(x)]
	var su, suy F
	for i, v := range x {
		y := (v - m) * inv
		t := dy[i] * y
		dgain[i] += t
		su += dy[i] * gain[i]
		suy += t * gain[i]
	}
	n := F(len(x))
	shift, slope := inv*su/n, inv*inv*suy/n
	for i, v := range x {
		d := dy[i]*gain[i]*inv - shift - (v-m)*slope
		if add {
			d += dx[i]
		}
		dx[i] = d
	}
}

// moments gives the mean and 1/sqrt(variance + eps), each of four sums that take turns.
func moments[F Float](x []F, eps F) (mean, inv F) {
	var s, q [4]F
	for i, v := range x {
		s[i&3] += v
	}
	mean = (s[0] + s[1] + s[2] + s[3]) / F(len(x))
	for i, v := range x {
		v -= mean
		q[i&3] += v * v
	}
	return mean, inverse(q[0]+q[1]+q[2]+q[3], len(x), eps)
}

// inverse is 1/sqrt(sum/d + eps).
func inverse[F Float](sum F, d int, eps F) F {
	return 1 / F(math.Sqrt(float64(sum/F(d)+eps)))
}
