package kernel

// maxOf gives the largest value of x, -Inf for none; NaN never wins, and a zero is positive whatever its sign.
func maxOf(x []float32) float32 {
	m, done := maxWhole(x)
	for _, v := range x[done:] {
		m = max32(m, v)
	}
	if m == 0 {
		return 0
	}
	return m
}

// max32 gives the larger value, a where b is NaN.
func max32(a, b float32) float32 {
	if b > a {
		return b
	}
	return a
}

// softmaxGeneric replaces x, len(x) a multiple of 16, by e^(x-max) and gives 1 over the sum: value i adds to lane i mod 16, in ascending order, and lanes are then added in halves.
func softmaxGeneric(x []float32) float32 {
	top := maxOf(x)
	var sums [Panel]float32
	for i, v := range x {
		x[i] = exp32(v - top)
		sums[i%Panel] += x[i]
	}
	return 1 / foldLanes(sums[:])
}

// expSumDoubleGeneric adds e^(x-top) of value i to sums[i mod 16]; len(x) is a multiple of 16.
func expSumDoubleGeneric(x []float32, top float32, sums *[Panel]float64) {
	for i, v := range x {
		sums[i%Panel] += float64(exp32(v - top))
	}
}

// SoftmaxStats gives the largest value of x and the sum of e^(x-max), so that log p[i] = x[i] - max - log(sum). Value i adds to one of 16 double sums, i mod 16,
// which are added in ascending order. NaN in x makes the sum NaN; of no values, or of -Inf alone, max is -Inf.
func SoftmaxStats(x []float32) (max float32, sumExp float64) {
	max = maxOf(x)
	var lanes [Panel]float64
	whole := len(x) &^ (Panel - 1)
	expSumDouble(x[:whole], max, &lanes)
	for i, v := range x[whole:] {
		lanes[i] += float64(exp32(v - max))
	}
	for _, s := range lanes {
		sumExp += s
	}
	return max, sumExp
}

// Weigh writes e^((x-top)*inv) to dst and gives the sum, in the order of SoftmaxStats. dst may be x.
func Weigh(dst, x []float32, top, inv float32) (sum float64) {
	dst = dst[:len(x)]
	var lanes [Panel]float64
	whole := len(x) &^ (Panel - 1)
	weigh(dst[:whole], x[:whole], top, inv, &lanes)
	weighGeneric(dst[whole:], x[whole:], top, inv, &lanes)
	for _, s := range lanes {
		sum += s
	}
	return sum
}

func weighGeneric(dst, x []float32, top, inv float32, sums *[Panel]float64) {
	for i, v := range x {
		e := exp32(float32(v-top) * inv)
		dst[i] = e
		sums[i%Panel] += float64(e)
	}
}

// Max gives the largest value of x, -Inf for none; NaN never wins, and a zero is positive whatever its sign.
func Max(x []float32) float32 { return maxOf(x) }

// ArgMax gives the index of the largest value, the lowest on ties. NaN never wins; without any number the answer is 0.
func ArgMax(x []float32) int {
	top := maxOf(x)
	for i, v := range x {
		if v == top {
			return i
		}
	}
	return 0
}
