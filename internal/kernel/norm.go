package kernel

import "math"

// normLanes is the number of partial sums of a norm: element i adds to lane i mod 32, lanes are then added in halves.
const normLanes = 32

// foldLanes adds the upper half of the lanes to the lower one until one is left.
func foldLanes(s []float32) float32 {
	for n := len(s) / 2; n > 0; n /= 2 {
		for i := range n {
			s[i] += s[i+n]
		}
	}
	return s[0]
}

// sumSquares is the sum of (x-shift)^2 in the fixed order of norms.
func sumSquares(x []float32, shift float32) float32 {
	var s [normLanes]float32
	whole := len(x) &^ (normLanes - 1)
	addSquares(&s, x[:whole], shift)
	for i, v := range x[whole:] {
		d := v - shift
		s[i] += float32(d * d)
	}
	return foldLanes(s[:])
}

func addSquaresGeneric(s *[normLanes]float32, x []float32, shift float32) {
	for ; len(x) >= normLanes; x = x[normLanes:] {
		for l, v := range x[:normLanes] {
			d := v - shift
			s[l] += float32(d * d)
		}
	}
}

// inverseRoot is 1/sqrt(v), the root and the quotient each rounded to f32.
func inverseRoot(v float32) float32 { return 1 / float32(math.Sqrt(float64(v))) }

// RMSNorm writes x/rms(x)*gain, with rms = sqrt(mean(x^2) + eps) (Zhang and Sennrich, 2019). gain nil means ones. dst may be x.
func RMSNorm(dst, x, gain []float32, eps float32) {
	if gain == nil {
		Scale(dst, x, inverseRoot(meanSquare(x)+eps))
		return
	}
	rmsNorm(dst[:len(x)], x, gain[:len(x)], eps)
}

func meanSquare(x []float32) float32 { return sumSquares(x, 0) / float32(len(x)) }

func rmsNormGeneric(dst, x, gain []float32, eps float32) {
	scaleGainGeneric(dst, x, gain, inverseRoot(meanSquare(x)+eps))
}

func scaleGainGeneric(dst, x, gain []float32, s float32) {
	dst, gain = dst[:len(x)], gain[:len(x)]
	for i, v := range x {
		dst[i] = float32(v*s) * gain[i]
	}
}

// LayerNorm writes (x-mean)/sqrt(var + eps)*gain + bias (Ba, Kiros and Hinton, 2016). bias nil means zeros, gain nil ones. dst may be x.
func LayerNorm(dst, x, gain, bias []float32, eps float32) {
	var lanes [normLanes]float32
	whole := len(x) &^ (normLanes - 1)
	addLanes(&lanes, x[:whole])
	for i, v := range x[whole:] {
		lanes[i] += v
	}
	n := float32(len(x))
	mean := foldLanes(lanes[:]) / n
	s := inverseRoot(sumSquares(x, mean)/n + eps)
	if gain != nil && bias != nil {
		layerNorm(dst, x, gain, bias, mean, s)
		return
	}
	for i, v := range x {
		y := (v - mean) * s
		if gain != nil {
			y = float32(y * gain[i])
		}
		if bias != nil {
			y += bias[i]
		}
		dst[i] = y
	}
}

func addLanesGeneric(s *[normLanes]float32, x []float32) {
	for ; len(x) >= normLanes; x = x[normLanes:] {
		for l, v := range x[:normLanes] {
			s[l] += v
		}
	}
}

func layerNormGeneric(dst, x, gain, bias []float32, mean, s float32) {
	for i, v := range x {
		dst[i] = float32(float32((v-mean)*s)*gain[i]) + bias[i]
	}
}
