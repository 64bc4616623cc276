package eval

import "math"

// z95 is the 97.5 % quantile of the normal distribution.
const z95 = 1.959963984540054

// Wilson gives the 95 % score interval of k successes in n trials (Wilson 1927). It is (0, 1) for n = 0.
func Wilson(k, n int) (lo, hi float64) {
	if n == 0 {
		return 0, 1
	}
	p, m := float64(k)/float64(n), float64(n)
	z2 := z95 * z95
	mid := (p + z2/(2*m)) / (1 + z2/m)
	half := z95 / (1 + z2/m) * math.Sqrt(p*(1-p)/m+z2/(4*m*m))
	lo, hi = max(0, mid-half), min(1, mid+half)
	if k == 0 { // the roots are exactly 0 and 1 there
		lo = 0
	}
	if k == n {
		hi = 1
	}
	return lo, hi
}
