package nn

import "math"

// Ops are the inner loops of the layers of training. A packed matrix lies in panels of 16 columns of the result, [N/16][K][16], so that columns from
// n0, a multiple of 16, on begin at n0*K.
type Ops[F Float] struct {
	PackLen        func(n, k int) int
	PackNT         func(dst, b []F, ldb, n, k int)                                                // of B' for b [n][k]
	PackNN         func(dst, b []F, ldb, n, k int)                                                // of B for b [k][n]
	Gemm           func(c []F, ldc int, a []F, lda, m int, bp []F, n, k int, add bool)            // c[m][n] (+)= a[m][k] times packed B
	GemmTN         func(c []F, ldc int, a []F, lda int, b []F, ldb, m, n, k int, add bool, t []F) // c[m][n] (+)= sum over k of a[k][m]*b[k][n]
	GemmTNScratch  func(m, n, k int) int
	Add            func(dst, a, b []F)
	Axpy           func(dst []F, s F, x []F) // dst += s*x
	Scale          func(dst, a []F, s F)
	Dot            func(a, b []F) F
	ScaleGain      func(dst, x, gain []F, s F)             // s*x*gain
	RMSBack        func(dx, dgain, dy, x, gain []F, inv F) // dx += and dgain += of y = inv*x*gain, inv = 1/rms(x)
	SwiGLU         func(dst, gate, up []F)
	SwiGLUBack     func(dgate, dup, gate, up, dy []F)
	GELU           func(dst, x []F)
	GELUBack       func(dx, x, dy []F)
	ReLU2          func(dst, x []F)
	ReLU2Back      func(dx, x, dy []F)
	Softmax        func(x []F, scale F) (top, lse F) // x = e^(scale*x-lse); top is the largest scale*x
	ExpShift       func(x []F, scale, lse F)         // x = e^(scale*x-lse)
	SoftmaxBack    func(dx, p []F, delta, scale F)   // dx = scale*p*(dx-delta)
	Tanh           func(dst, x []F, scale F)         // tanh(scale*x)
	Rope           func(x, cos, sin []F)             // pairs (j, j+len(cos))
	RopeNeighbours func(x, cos, sin []F)             // pairs (2j, 2j+1)
}

// Portable gives the inner loops as plain Go.
func Portable[F Float]() *Ops[F] {
	return &Ops[F]{
		PackLen: packLen, PackNT: packNT[F], PackNN: packNN[F], Gemm: gemm[F], GemmTN: gemmTN[F],
		GemmTNScratch: func(m, n, k int) int { return 0 },
		Add:           add[F], Axpy: axpy[F], Scale: scale[F], Dot: dot[F], ScaleGain: scaleGain[F], RMSBack: rmsBack[F],
		SwiGLU: swiGLU[F], SwiGLUBack: swiGLUBack[F], GELU: gelu[F], GELUBack: geluBack[F], ReLU2: relu2[F], ReLU2Back: relu2Back[F],
		Softmax: softmax[F], ExpShift: expShift[F], SoftmaxBack: softmaxBack[F], Tanh: tanh[F], Rope: rope[F], RopeNeighbours: ropeNeighbours[F],
	}
}

const panel = 16

func packLen(n, k int) int { return (n + panel - 1) / panel * panel * k }

func packNT[F Float](dst, b []F, ldb, n, k int) {
	clear(dst[:packLen(n, k)])
	for i := range n {
		out := dst[i/panel*panel*k+i%panel:]
		for j, v := range b[i*ldb : i*ldb+k] {
			out[j*panel] = v
		}
	}
}

func packNN[F Float](dst, b []F, ldb, n, k int) {
	clear(dst[:packLen(n, k)])
	for j := range k {
		for i, v := range b[j*ldb : j*ldb+n] {
			dst[i/panel*panel*k+j*panel+i%panel] = v
		}
	}
}

func gemm[F Float](c []F, ldc int, a []F, lda, m int, bp []F, n, k int, add bool) {
	for p := 0; p < n; p += panel {
		b, width := bp[p*k:], min(panel, n-p)
		for i := range m {
			var sum [panel]F
			for j, v := range a[i*lda : i*lda+k] {
				row := (*[panel]F)(b[j*panel:])
				for l := range sum {
					sum[l] += v * row[l]
				}
			}
			out := c[i*ldc+p : i*ldc+p+width]
			for l := range out {
				if add {
					sum[l] += out[l]
				}
				out[l] = sum[l]
			}
		}
	}
}

func gemmTN[F Float](c []F, ldc int, a []F, lda int, b []F, ldb, m, n, k int, add bool, _ []F) {
	for i := range m {
		out := c[i*ldc : i*ldc+n]
		if !add {
			clear(out)
		}
		for j := range k {
			axpy(out, a[j*lda+i], b[j*ldb:j*ldb+n])
		}
	}
}

func add[F Float](dst, a, b []F) {
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

func axpy[F Float](dst []F, s F, x []F) {
	for i, v := range x[:len(dst)] {
		dst[i] += s * v
	}
}

func scale[F Float](dst, a []F, s F) {
	for i := range dst {
		dst[i] = a[i] * s
	}
}

func dot[F Float](a, b []F) (sum F) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

func scaleGain[F Float](dst, x, gain []F, s F) {
	for i, v := range x {
		dst[i] = v * s * gain[i]
	}
}

// With u = dy*gain: dx = inv*u - x*inv^3*mean(u*x).
func rmsBack[F Float](dx, dgain, dy, x, gain []F, inv F) {
	var sum F
	for i, v := range x {
		t := dy[i] * v
		sum += t * gain[i]
		dgain[i] += t * inv
	}
	c := sum * inv * inv * inv / F(len(x))
	for i, v := range x {
		dx[i] += dy[i]*gain[i]*inv - v*c
	}
}

func exp[F Float](x F) F { return F(math.Exp(float64(x))) }

func sigmoid[F Float](x F) F { return 1 / (1 + exp(-x)) }

func swiGLU[F Float](dst, gate, up []F) {
	for i, g := range gate {
		dst[i] = g * sigmoid(g) * up[i]
	}
}

// silu'(g) = s*(1+g*(1-s)) with s the sigmoid.
func swiGLUBack[F Float](dgate, dup, gate, up, dy []F) {
	for i, g := range gate {
		s := sigmoid(g)
		d := dy[i]
		dgate[i], dup[i] = d*up[i]*s*(1+g*(1-s)), d*g*s
	}
}

// GELU in its tanh form is x*sigmoid(z) with z = a*(x + b*x^3).
const (
	geluA = 2 * 0.79788456080286535588
	geluB = 0.044715
)

func gelu[F Float](dst, x []F) {
	for i, v := range x {
		dst[i] = v * sigmoid(geluA*(v+geluB*v*v*v))
	}
}

func geluBack[F Float](dx, x, dy []F) {
	for i, v := range x {
		s := sigmoid(geluA * (v + geluB*v*v*v))
		dx[i] = dy[i] * (s + v*s*(1-s)*geluA*(1+3*geluB*v*v))
	}
}

func relu2[F Float](dst, x []F) {
	for i, v := range x {
		v = max(v, 0)
		dst[i] = v * v
	}
}

func relu2Back[F Float](dx, x, dy []F) {
	for i, v := range x {
		dx[i] = dy[i] * 2 * max(v, 0)
	}
}

func softmax[F Float](x []F, scale F) (top, lse F) {
	top = x[0]
	for _, v := range x {
		top = max(top, v)
	}
	var sum F
	for i, v := range x {
		e := exp((v - top) * scale)
		x[i] = e
		sum += e
	}
	inv := 1 / sum
	for i := range x {
		x[i] *= inv
	}
	return top * scale, top*scale + F(math.Log(float64(sum)))
}

func expShift[F Float](x []F, scale, lse F) {
	for i, v := range x {
		x[i] = exp(scale*v - lse)
	}
}

func softmaxBack[F Float](dx, p []F, delta, scale F) {
	for i, v := range p {
		dx[i] = scale * v * (dx[i] - delta)
	}
}

func tanh[F Float](dst, x []F, scale F) {
	for i, v := range x {
		dst[i] = F(math.Tanh(float64(scale * v)))
	}
}

func rope[F Float](x, cos, sin []F) {
	a, b := x[:len(cos)], x[len(cos):2*len(cos)]
	for j, c := range cos {
		u, v := a[j], b[j]
		a[j], b[j] = u*c-v*sin[j], u*sin[j]+v*c
	}
}

func ropeNeighbours[F Float](x, cos, sin []F) {
	for j, c := range cos {
		u, v := x[2*j], x[2*j+1]
		x[2*j], x[2*j+1] = u*c-v*sin[j], u*sin[j]+v*c
	}
}

// Kernels gives the inner loops of float32.
func Kernels() *Ops[float32] { return Portable[float32]() }
