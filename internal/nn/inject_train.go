package nn

import "math"

// Diagonal is the diagonal injection of the flat array: h = decay*h + dt*e with dt = softplus(DtBias), decay = exp(-dt*exp(ALog)).
type Diagonal struct{ ALog, DtBias Vec }

// DiagonalWork holds its constants and their gradients, each [dim].
type DiagonalWork[F Float] struct{ Decay, Dt, DDecay, DDt []F }

// DiagonalStart computes the constants.
func (w *Work[F]) DiagonalStart(d *Diagonal, s *DiagonalWork[F]) {
	a := w.Val(d.ALog)
	for i, x := range w.Val(d.DtBias) {
		dt := max(float64(x), 0) + math.Log1p(math.Exp(-math.Abs(float64(x))))
		s.Dt[i] = F(dt)
		s.Decay[i] = F(math.Exp(-dt * math.Exp(float64(a[i]))))
	}
}

// DiagonalGrad adds the gradients of the constants to those of the weights.
func (w *Work[F]) DiagonalGrad(d *Diagonal, s *DiagonalWork[F]) {
	a, x := w.Val(d.ALog), w.Val(d.DtBias)
	da, dx := w.GradOf(d.ALog), w.GradOf(d.DtBias)
	for i := range a {
		rate := exp(a[i])
		g := s.DDecay[i] * s.Decay[i] * -rate // by dt
		da[i] += g * s.Dt[i]
		dx[i] += (g + s.DDt[i]) * sigmoid(x[i])
	}
}

// Channels multiplies every row of x by c: dst = c*x.
func Channels[F Float](dst, x, c []F) {
	for n := len(c); len(x) >= n; dst, x = dst[n:], x[n:] {
		for i, v := range c {
			dst[i] = x[i] * v
		}
	}
}

// ChannelsAdd is dst = c*x + y by row.
func (w *Work[F]) ChannelsAdd(dst, x, c, y []F) {
	for n := len(c); len(x) >= n; dst, x, y = dst[n:], x[n:], y[n:] {
		w.MulAdd(dst[:n], c, x, y)
	}
}

// ChannelsGrad adds the sum over rows of dy*x to dc.
func (w *Work[F]) ChannelsGrad(dc, dy, x []F) {
	for n := len(dc); len(dy) >= n; dy, x = dy[n:], x[n:] {
		w.AddProduct(dc, dy, x)
	}
}

// Join writes [a ; b] by row of d.
func Join[F Float](dst, a, b []F, d, rows int) {
	for r := range rows {
		copy(dst[2*r*d:], a[r*d:(r+1)*d])
		copy(dst[(2*r+1)*d:], b[r*d:(r+1)*d])
	}
}
