package kernel

import "math"

// F16ToF32 widens an IEEE half; exact, and a signalling NaN becomes quiet as in VCVTPH2PS.
func F16ToF32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	mag := uint32(h & 0x7fff)
	if mag >= 0x7c00 {
		b := sign | 0x7f800000 | mag<<13&0x7fffff
		if mag > 0x7c00 {
			b |= 0x400000
		}
		return math.Float32frombits(b)
	}
	// The half's bits moved under a float's exponent are the value times 2^-112, subnormals included: one exact product restores it.
	f := math.Float32frombits(mag<<13) * 0x1p112
	return math.Float32frombits(math.Float32bits(f) | sign)
}

// F32ToF16 rounds to the nearest half, ties to even, as VCVTPS2PH does; NaN keeps the top of its payload and becomes quiet.
func F32ToF16(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	mag := b & 0x7fffffff
	switch {
	case mag > 0x7f800000:
		return sign | 0x7e00 | uint16(mag>>13&0x3ff)
	case mag >= 0x477ff000: // 65520: half-way to the first value beyond the largest half
		return sign | 0x7c00
	case mag < 0x38800000: // below 2^-14: adding 1/2 aligns the sum's last bit with the subnormal half's, and rounds
		s := math.Float32frombits(mag) + 0.5
		return sign | uint16(math.Float32bits(s)-math.Float32bits(0.5))
	}
	odd := mag >> 13 & 1
	return sign | uint16((mag-(112<<23)+0xfff+odd)>>13)
}

// BF16ToF32 widens a bfloat16; exact. The bits of a NaN are kept.
func BF16ToF32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// F32ToBF16 rounds to the nearest bfloat16, ties to even; NaN stays NaN and becomes quiet.
func F32ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// round11 rounds to the 11 significant bits of a half, ties to even, but keeps the range of f32: what a half can hold it equals, and what a half would lose
// or overflow it does not. NaN stays as it is.
func round11(f float32) float32 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return f
	}
	return math.Float32frombits((b + 0xfff + b>>13&1) &^ 0x1fff)
}

// fma32 is a*b + c rounded once, on every machine. The float64 product of two float32 is exact; the float64 sum is rounded, and a
// second rounding to float32 goes astray only where the sum lies on a half-way point of float32. Those, and results so small that their half-way
// points lie elsewhere, take the careful road.
func fma32(a, b, c float32) float32 {
	p := float64(a) * float64(b)
	s := p + float64(c)
	bits := math.Float64bits(s)
	if bits&0x1fffffff != 0x10000000 && bits<<1 >= 2*(1023-126)<<52 {
		return float32(s)
	}
	return fmaOdd(p, float64(c), s)
}

// fmaOdd rounds p+c to odd in 53 bits (the last bit keeps a trace of what was cut), so that the rounding to float32 sees on which side of a half-way
// point the exact sum lies (Boldo and Melquiond, "When double rounding is odd", 2005). s is the rounded sum.
func fmaOdd(p, c, s float64) float32 {
	if s == 0 || math.IsNaN(s) || math.IsInf(s, 0) {
		return float32(s)
	}
	bb := s - p
	err := (p - (s - bb)) + (c - bb) // Knuth's two-sum: s + err is p + c exactly
	bits := math.Float64bits(s)
	if err != 0 && bits&1 == 0 {
		if (err > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
	}
	return float32(math.Float64frombits(bits))
}
