package kernel

import "math"

// The vector parts of training. Forward forms that inference has too give the same bits as there. Every sum has one order: 32 lanes, element i to lane i mod 32,
// which are then added in halves; sums over rows ascend. Each product and each sum is rounded to f32.

// RMSNormRows norms rows of n values as RMSNorm does and writes 1/rms of row r to inv[r]; rows lie ldd and ldx floats apart. dst may be x.
func RMSNormRows(dst []float32, ldd int, x []float32, ldx int, gain []float32, n, rows int, eps float32, inv []float32) {
	if rows <= 0 || n <= 0 {
		return
	}
	_, _, _, _ = dst[(rows-1)*ldd+n-1], x[(rows-1)*ldx+n-1], gain[n-1], inv[rows-1]
	rmsRows(dst, ldd, x, ldx, gain, n, rows, eps, inv)
}

func rmsRowsGeneric(dst []float32, ldd int, x []float32, ldx int, gain []float32, n, rows int, eps float32, inv []float32) {
	for r := range rows {
		row := x[r*ldx : r*ldx+n]
		inv[r] = inverseRoot(sumSquares(row, 0)/float32(n) + eps)
		scaleGain(dst[r*ldd:r*ldd+n], row, gain[:n], inv[r])
	}
}

// RMSNormBackRows is the gradient of RMSNormRows: it adds to dgain, and writes dx, or adds to it where add is set. With r = 1/rms and n values,
// dx = r*gain*dy - x*(r^3/n * sum(gain*dy*x)) and dgain += dy*x*r. dx may be dy.
func RMSNormBackRows(dx []float32, lddx int, dgain, dy []float32, lddy int, x []float32, ldx int, gain, inv []float32, n, rows int, add bool) {
	if rows <= 0 || n <= 0 {
		return
	}
	_, _, _ = dx[(rows-1)*lddx+n-1], dy[(rows-1)*lddy+n-1], x[(rows-1)*ldx+n-1]
	_, _, _ = dgain[n-1], gain[n-1], inv[rows-1]
	rmsBackRows(dx, lddx, dgain, dy, lddy, x, ldx, gain, inv, n, rows, add)
}

func rmsBackRowsGeneric(dx []float32, lddx int, dgain, dy []float32, lddy int, x []float32, ldx int, gain, inv []float32, n, rows int, add bool) {
	for r := range rows {
		rmsBackRow(dx[r*lddx:r*lddx+n], dgain[:n], dy[r*lddy:r*lddy+n], x[r*ldx:r*ldx+n], gain[:n], inv[r], add)
	}
}

func rmsBackRow(dx, dgain, dy, x, gain []float32, inv float32, add bool) {
	var lanes [normLanes]float32
	for i, v := range x {
		lanes[i%normLanes] += float32(float32(dy[i]*gain[i]) * v)
	}
	c := float32(float32(float32(inv*inv)*inv)/float32(len(x))) * foldLanes(lanes[:])
	for i, v := range x {
		g := dy[i]
		dgain[i] += float32(float32(v*inv) * g)
		d := float32(float32(g*gain[i])*inv) - float32(v*c)
		if add {
			d += dx[i]
		}
		dx[i] = d
	}
}

// ReLU2Back writes the gradient 2*max(0, x)*dy. dx may be dy or x.
func ReLU2Back(dx, dy, x []float32) { relu2Back(dx[:len(x)], dy[:len(x)], x) }

func relu2BackGeneric(dx, dy, x []float32) {
	for i, v := range x {
		if v < 0 {
			v = 0
		}
		dx[i] = float32(v+v) * dy[i]
	}
}

// GELUBack writes the gradient of GELU at x: with s = sigmoid(z), dy*(s + x*s*(1-s)*dz/dx). dx may be dy or x.
func GELUBack(dx, dy, x []float32) { geluBack(dx[:len(x)], dy[:len(x)], x) }

func geluBackGeneric(dx, dy, x []float32) {
	for i, v := range x {
		sq := float32(v * v)
		s := sigmoidMul(1, (v+float32(float32(sq*v)*geluCube))*geluScale)
		slope := float32(float32(sq*float32(3*geluCube))+1) * geluScale
		dx[i] = float32(float32(float32(float32((1-s)*s)*v)*slope)+s) * dy[i]
	}
}

// SwiGLUBack writes the gradients of SwiGLU. dgate and dup may be any of the inputs.
func SwiGLUBack(dgate, dup, dy, gate, up []float32) {
	n := len(dy)
	swiGLUBack(dgate[:n], dup[:n], dy, gate[:n], up[:n])
}

func swiGLUBackGeneric(dgate, dup, dy, gate, up []float32) {
	for i, d := range dy {
		g := gate[i]
		s := sigmoidMul(1, g)
		slope := float32(float32(float32((1-s)*g)+1) * s)
		u := up[i]
		dup[i] = float32(s*g) * d
		dgate[i] = float32(d*u) * slope
	}
}

// AddScaled adds x*s to dst, the product rounded before the sum.
func AddScaled(dst, x []float32, s float32) { addScaled(dst, x[:len(dst)], s) }

func addScaledGeneric(dst, x []float32, s float32) {
	for i, v := range x {
		dst[i] += float32(v * s)
	}
}

// AddProduct adds a*b to dst, the product rounded before the sum.
func AddProduct(dst, a, b []float32) { addProduct(dst, a[:len(dst)], b[:len(dst)]) }

func addProductGeneric(dst, a, b []float32) {
	for i := range dst {
		dst[i] += float32(a[i] * b[i])
	}
}

// Lerp moves dst towards x by the share t: dst += (x-dst)*t, a step of an exponential moving average with decay 1-t.
func Lerp(dst, x []float32, t float32) { lerp(dst, x[:len(dst)], t) }

func lerpGeneric(dst, x []float32, t float32) {
	for i, v := range x {
		dst[i] += float32((v - dst[i]) * t)
	}
}

// Softcap replaces x by limit*tanh(x/limit), limit above 0.
func Softcap(x []float32, limit float32) { capTanh(x, limit, 1/limit) }

func capTanhGeneric(x []float32, limit, inv float32) {
	for i, v := range x {
		x[i] = tanh32(float32(v*inv)) * limit
	}
}

// SoftcapBack multiplies the gradient dx by the slope of Softcap, 1-(y/limit)^2, y being what Softcap gave.
func SoftcapBack(dx, y []float32, limit float32) { capBack(dx, y[:len(dx)], 1/limit) }

func capBackGeneric(dx, y []float32, inv float32) {
	for i, v := range y {
		t := float32(v * inv)
		dx[i] *= 1 - float32(t*t)
	}
}

// Dot is the sum of x*y.
func Dot(x, y []float32) float32 {
	var lanes [normLanes]float32
	dotLanes(&lanes, x, y[:len(x)])
	return foldLanes(lanes[:])
}

func dotLanesGeneric(s *[normLanes]float32, x, y []float32) {
	for i, v := range x {
		s[i%normLanes] += float32(v * y[i])
	}
}

// squareRun is how many squares are added in f32 before the sum goes on in double precision.
const squareRun = 4096

// SumSquares is the sum of x^2, in parts of 4,096 that are added in double precision.
func SumSquares(x []float32) float64 {
	var sum float64
	for len(x) > 0 {
		n := min(len(x), squareRun)
		sum += float64(sumSquares(x[:n], 0))
		x = x[n:]
	}
	return sum
}

// softmaxRow replaces x by e^(x-max) and gives the maximum and the sum: value i adds to one of 16 lanes, i mod 16, which are then added in halves.
func softmaxRow(x []float32) (top, sum float32) {
	var stats [Panel + 1]float32
	softmaxStats(x, &stats)
	top = stats[Panel]
	if top == 0 {
		top = 0 // not -0
	}
	return top, foldLanes(stats[:Panel])
}

func softmaxStatsGeneric(x []float32, stats *[Panel + 1]float32) {
	top := float32(math.Inf(-1))
	for _, v := range x {
		top = max32(top, v)
	}
	for i, v := range x {
		x[i] = exp32(v - top)
		stats[i%Panel] += x[i]
	}
	stats[Panel] = top
}

// softmaxBackGeneric writes p = e^(s-lse) to s and p*(dp-d)*f to dp; s-lse is not above 88.
func softmaxBackGeneric(s, dp []float32, lse, d, f float32) {
	for i, v := range s {
		p := exp32(v - lse)
		s[i] = p
		dp[i] = float32((dp[i]-d)*p) * f
	}
}

// scaleRows multiplies rows of n values, ld apart, by s[row].
func scaleRows(x []float32, ld, n int, s []float32) {
	whole := scaleRowsWhole(x, ld, n, s)
	for r, f := range s {
		scaleGeneric(x[r*ld+whole:r*ld+n], x[r*ld+whole:r*ld+n], f)
	}
}

// log32 is the natural logarithm of a positive number with a relative error below 1e-7 (Cephes' logf, S. Moshier), every step rounded to f32, so that it is the
// same on every machine. Infinities, NaN and numbers that are not positive are left to math.Log.
func log32(x float32) float32 {
	bits := math.Float32bits(x)
	if bits-0x00800000 >= 0x7f800000-0x00800000 {
		return float32(math.Log(float64(x)))
	}
	e := int(bits>>23) - 126
	m := math.Float32frombits(bits&0x007fffff | 126<<23) // in [0.5, 1)
	if m < 0.70710678118654752440 {
		e--
		m += m
	}
	m--
	z := float32(m * m)
	p := float32(7.0376836292e-2)
	for _, c := range [...]float32{-1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1} {
		p = float32(p*m) + c
	}
	y := float32(float32(p*m) * z)
	y += float32(float32(e) * ln2Lo)
	y -= float32(0.5 * z)
	return (m + y) + float32(float32(e)*ln2Hi)
}

// CrossEntropy replaces the logits x of one row by their gradient times scale, of the loss -log softmax(x)[target] + zloss*lse^2 with lse = log sum e^x
// (the z-loss of PaLM, Chowdhery et al., 2022). It gives the first term in nats, lse, and whether no logit was above that of target.
func CrossEntropy(x []float32, target int, zloss, scale float32) (nll, lse float64, hit bool) {
	at := x[target]
	top, sum := softmaxRow(x)
	lse = float64(top) + math.Log(float64(sum))
	Scale(x, x, float32(float64(scale)*(1+2*float64(zloss)*lse)/float64(sum)))
	x[target] -= scale
	return lse - float64(at), lse, at >= top
}

// AdamWStep is one step of AdamW (Loshchilov and Hutter, 2019).
type AdamWStep struct {
	Rate, Beta1, Beta2, Eps float64
	Decay                   float64 // decoupled weight decay, multiplied by Rate
	Cautious                bool    // decay only where it goes the way of the step
	GradScale               float64 // factor on the gradient, as clipping has it
	Step                    int     // 1 for the first, for the bias correction
}

// adamWConstants are what the kernels take:
//
//	m = m*c[0] + g*c[1]   v = v*c[2] + g^2*c[3]   step = m/(sqrt(v*c[6]) + c[5])*c[4]   w = (w - w*c[7]) - step
//
// with g the gradient times c[8]; c[10] is not 0 where w*c[7] only counts if step*w > 0.
func (s *AdamWStep) constants() (c [12]float32) {
	c[0], c[1] = float32(s.Beta1), float32(1-s.Beta1)
	c[2], c[3] = float32(s.Beta2), float32(1-s.Beta2)
	c[4] = float32(s.Rate / (1 - math.Pow(s.Beta1, float64(s.Step))))
	c[5] = float32(s.Eps)
	c[6] = float32(1 / (1 - math.Pow(s.Beta2, float64(s.Step))))
	c[7], c[8] = float32(s.Rate*s.Decay), float32(s.GradScale)
	if s.Cautious {
		c[10] = 1
	}
	return c
}

// AdamW steps the parameters w with gradient g and moments m and v.
func AdamW(w, g, m, v []float32, s *AdamWStep) {
	c, n := s.constants(), len(w)
	adamW(w, g[:n], m[:n], v[:n], &c)
}

func adamWGeneric(w, g, m, v []float32, c *[12]float32) {
	for i, p := range w {
		grad := float32(g[i] * c[8])
		m[i] = float32(m[i]*c[0]) + float32(grad*c[1])
		v[i] = float32(v[i]*c[2]) + float32(float32(grad*grad)*c[3])
		root := float32(math.Sqrt(float64(float32(v[i] * c[6]))))
		step := float32(m[i]/(root+c[5])) * c[4]
		decay := float32(p * c[7])
		if c[10] != 0 && !(float32(p*step) > 0) {
			decay = 0
		}
		w[i] = (p - decay) - step
	}
}
