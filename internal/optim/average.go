package optim

import (
	"math"

	"tinyloop/internal/kernel"
)

// Sum adds parts into dst in the order of a fixed tree, ((0+1)+(2+3))+…, and gives the sum of the squares of the result. So the bits depend on the
// number of parts only, never on who computed which. All have the same length; dst may be parts[0].
func Sum(dst []float32, parts [][]float32, lo, hi int) (squares float64) {
	if len(parts) == 8 {
		return sum8(dst[lo:hi], (*[8][]float32)(parts), lo)
	}
	var at [MaxParts]float32
	for i := lo; i < hi; i++ {
		for k, p := range parts {
			at[k] = p[i]
		}
		for n := len(parts); n > 1; n = (n + 1) / 2 {
			for k := range n / 2 {
				at[k] = at[2*k] + at[2*k+1]
			}
			if n%2 == 1 {
				at[n/2] = at[n-1]
			}
		}
		dst[i] = at[0]
		squares += float64(at[0]) * float64(at[0])
	}
	return squares
}

// sum8 is Sum of the usual number of parts.
func sum8(dst []float32, p *[8][]float32, lo int) (squares float64) {
	n := len(dst)
	a, b, c, d := p[0][lo:lo+n], p[1][lo:lo+n], p[2][lo:lo+n], p[3][lo:lo+n]
	e, f, g, h := p[4][lo:lo+n], p[5][lo:lo+n], p[6][lo:lo+n], p[7][lo:lo+n]
	for i := range dst {
		v := ((a[i] + b[i]) + (c[i] + d[i])) + ((e[i] + f[i]) + (g[i] + h[i]))
		dst[i] = v
		squares += float64(v) * float64(v)
	}
	return squares
}

// MaxParts is the most parts that Sum adds.
const MaxParts = 64

// Clip gives the factor that brings a gradient of the given norm down to limit; 1 when it is below, or there is no limit (0).
func Clip(norm, limit float64) float64 {
	if limit <= 0 || norm <= limit {
		return 1
	}
	return limit / norm
}

// Average moves ema towards x: ema += (1-decay)(x-ema). The decay of the first steps is smaller, so that the start of the run is soon forgotten;
// step counts from 1.
func Average(ema, x []float32, decay float64, step int) {
	kernel.Lerp(ema, x, float32(1-min(decay, (1+float64(step))/(10+float64(step)))))
}

// Finite says whether a number is one.
func Finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
