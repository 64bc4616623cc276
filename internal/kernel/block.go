package kernel

import (
	"encoding/binary"
	"math"
)

// qk is the number of values in one block of every quantised format read here.
const qk = 32

// The blocks of ggml's formats, in bytes. d and m are halves; the nibble of value j is the low half of qs[j], that of value j+16 the high half;
// bit j of qh is bit 4 of value j.
//
//	q8_0  d2 | q32          value = d*q          q in -128..127
//	q4_0  d2 | qs16         value = d*(u-8)      u in 0..15
//	q4_1  d2 | m2 | qs16    value = d*u + m
//	q5_0  d2 | qh4 | qs16   value = d*(u-16)     u in 0..31
//	q5_1  d2 | m2 | qh4 | qs16  value = d*u + m
//	iq4_nl  d2 | qs16       value = d*iq4Codes[u]

// iq4Codes are the 16 values of iq4_nl, denser around zero.
var iq4Codes = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// Dequantize expands len(dst) values of format t from the start of src. len(dst) must be a multiple of t.Block() and src must hold that many blocks.
// Every value is the block's scale times its code, rounded to f32, plus its minimum, rounded again.
func Dequantize(dst []float32, t Type, src []byte) {
	switch t {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case F16:
		for i := range dst {
			dst[i] = F16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = BF16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case Q3_K, Q4_K, Q5_K, Q6_K:
		dequantizeSuper(dst, t, src)
	default:
		dequantizeBlocks(dst, t, src)
	}
}

func dequantizeBlocks(dst []float32, t Type, src []byte) {
	size := t.BlockBytes()
	var c codes
	for b := 0; b*qk < len(dst); b++ {
		c.unpack(t, src[b*size:b*size+size])
		out := dst[b*qk : b*qk+qk]
		for i := range out {
			out[i] = c.value(i)
		}
	}
}

// codes is one block taken apart: value i is d*q[i], plus m where the format has a minimum.
type codes struct {
	q      [qk]int8
	d, m   float32
	hasMin bool
}

func (c *codes) value(i int) float32 {
	v := float32(c.d * float32(c.q[i]))
	if c.hasMin {
		v += c.m
	}
	return v
}

// unpack reads one block of format t.
func (c *codes) unpack(t Type, b []byte) {
	c.d, c.m, c.hasMin = F16ToF32(binary.LittleEndian.Uint16(b)), 0, t == Q4_1 || t == Q5_1
	b = b[2:]
	if c.hasMin {
		c.m = F16ToF32(binary.LittleEndian.Uint16(b))
		b = b[2:]
	}
	switch t {
	case Q8_0:
		for i := range c.q {
			c.q[i] = int8(b[i])
		}
	case Q4_0:
		c.nibbles(b, 0, 8)
	case Q4_1:
		c.nibbles(b, 0, 0)
	case IQ4_NL:
		c.nibbles(b, 0, 0)
		for i, v := range c.q {
			c.q[i] = iq4Codes[v]
		}
	case Q5_0:
		c.nibbles(b[4:], binary.LittleEndian.Uint32(b), 16)
	case Q5_1:
		c.nibbles(b[4:], binary.LittleEndian.Uint32(b), 0)
	}
}

// nibbles reads 32 codes of four bits, with the fifth bits from high, less the zero point.
func (c *codes) nibbles(qs []byte, high uint32, zero int8) {
	for j, v := range qs[:16] {
		c.q[j] = int8(v&15|byte(high>>j&1)<<4) - zero
		c.q[j+16] = int8(v>>4|byte(high>>(j+16)&1)<<4) - zero
	}
}

// Quantize packs src into whole blocks of format t; len(src) must be a multiple of t.Block() and dst must hold the blocks. The roundings are those of
// ggml's reference quantisers, so that a converted file equals the one of other tools byte for byte; q4_K, q5_K and q6_K are rounded plainly, while those tools
// search for better scales. q3_K and iq4_nl are not written.
func Quantize(dst []byte, t Type, src []float32) {
	switch t {
	case F32:
		for i, v := range src {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
		}
	case F16:
		for i, v := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], F32ToF16(v))
		}
	case BF16:
		for i, v := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], F32ToBF16(v))
		}
	case Q4_K, Q5_K, Q6_K:
		size := t.BlockBytes()
		for b := 0; b*superLen < len(src); b++ {
			quantizeSuper(dst[b*size:(b+1)*size], t, src[b*superLen:(b+1)*superLen])
		}
	default:
		size := t.BlockBytes()
		for b := 0; b*qk < len(src); b++ {
			quantizeBlock(dst[b*size:b*size+size], t, src[b*qk:b*qk+qk])
		}
	}
}

func quantizeBlock(dst []byte, t Type, x []float32) {
	switch t {
	case Q8_0:
		quantizeQ8(dst, x)
	case Q4_0:
		d := farthest(x) / -8
		putHalf(dst, d)
		inv := inverse(d)
		packNibbles(dst[2:], nil, x, func(v float32) byte { return min(15, byte(toInt8(float32(v*inv)+8.5))) })
	case Q5_0:
		d := farthest(x) / -16
		putHalf(dst, d)
		inv := inverse(d)
		packNibbles(dst[6:], dst[2:6], x, func(v float32) byte { return min(31, byte(toInt8(float32(v*inv)+16.5))) })
	case Q4_1:
		lo, inv := putRange(dst, x, 15)
		packNibbles(dst[4:], nil, x, func(v float32) byte { return min(15, byte(toInt8(float32((v-lo)*inv)+0.5))) })
	case Q5_1:
		lo, inv := putRange(dst, x, 31)
		packNibbles(dst[8:], dst[4:8], x, func(v float32) byte { return min(31, byte(toInt8(float32((v-lo)*inv)+0.5))) })
	}
}

// quantizeQ8 scales by the largest magnitude over 127 and rounds half away from zero.
func quantizeQ8(dst []byte, x []float32) {
	var amax float32
	for _, v := range x {
		amax = max(amax, float32(math.Abs(float64(v))))
	}
	d := amax / 127
	putHalf(dst, d)
	inv := inverse(d)
	for i, v := range x {
		dst[2+i] = byte(toInt8(float32(math.Round(float64(float32(v * inv))))))
	}
}

// toInt8 truncates; what does not fit (only from NaN, infinities and a scale that underflowed) is bounded, never undefined.
func toInt8(v float32) int8 {
	if v != v {
		return 0
	}
	return int8(max(-128, min(127, v)))
}

func putHalf(dst []byte, v float32) { binary.LittleEndian.PutUint16(dst, F32ToF16(v)) }

func inverse(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

// farthest gives the value of the largest magnitude, sign kept, the first on ties.
func farthest(x []float32) float32 {
	var amax, v float32
	for _, e := range x {
		if a := float32(math.Abs(float64(e))); a > amax {
			amax, v = a, e
		}
	}
	return v
}

// putRange writes scale and minimum of a block whose codes run from 0 to top, and gives the minimum and the inverse scale.
func putRange(dst []byte, x []float32, top float32) (lo, inv float32) {
	lo, hi := x[0], x[0]
	for _, v := range x {
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
	}
	d := (hi - lo) / top
	putHalf(dst, d)
	putHalf(dst[2:], lo)
	return lo, inverse(d)
}

// packNibbles writes the low four bits of 32 codes to qs and, where qh is given, their fifth bits to it.
func packNibbles(qs, qh []byte, x []float32, code func(float32) byte) {
	var high uint32
	for j := range 16 {
		a, b := code(x[j]), code(x[j+16])
		qs[j] = a&15 | b<<4
		high |= uint32(a>>4&1)<<j | uint32(b>>4&1)<<(j+16)
	}
	if qh != nil {
		binary.LittleEndian.PutUint32(qh, high)
	}
}
