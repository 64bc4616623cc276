package kernel

import "math"

// The constants of exp32: Cephes' expf (S. Moshier). ln2 is cut in two so that n*ln2Hi is exact.
const (
	expLow, expHigh = -87, 88
	expMagic        = 0x1.8p23 // adding it rounds to an integer, ties to even, and leaves that integer in the low bits
	log2E           = 1.44269504088896341
	ln2Hi           = 0.693359375
	ln2Lo           = -2.12194440e-4
	expC0           = 1.9875691500e-4
	expC1           = 1.3981999507e-3
	expC2           = 8.3334519073e-3
	expC3           = 4.1665795894e-2
	expC4           = 1.6666665459e-1
	expC5           = 5.0000001201e-1
)

// exp32 is e^x with a relative error below 1e-7, the one exponential of every kernel: each product and each sum is rounded to f32, so that
// vector code gives the same bits. Below -87 it is 0, above 88 +Inf; NaN stays NaN.
func exp32(x float32) float32 {
	switch {
	case x < expLow:
		return 0
	case x > expHigh:
		return float32(math.Inf(1))
	case x != x:
		return x
	}
	t := float32(x*log2E) + expMagic
	n := t - expMagic
	r := x - float32(n*ln2Hi)
	r -= float32(n * ln2Lo)
	p := float32(expC0)
	p = float32(p*r) + expC1
	p = float32(p*r) + expC2
	p = float32(p*r) + expC3
	p = float32(p*r) + expC4
	p = float32(p*r) + expC5
	y := float32(p*float32(r*r)) + r
	y++
	return y * math.Float32frombits((math.Float32bits(t)-math.Float32bits(expMagic)+127)<<23)
}

// Exp is e^x as every kernel computes it: relative error below 1e-7, 0 below -87, +Inf above 88.
func Exp(x float32) float32 { return exp32(x) }

// tanh32 is the hyperbolic tangent from exp32, with an absolute error below 2e-7.
func tanh32(x float32) float32 { return 1 - 2/(exp32(2*x)+1) }

// sigmoidMul is x/(1+e^-z), the shape of SiLU (z = x) and of the tanh form of GELU (z = 2u).
func sigmoidMul(x, z float32) float32 { return x / (1 + exp32(-z)) }
