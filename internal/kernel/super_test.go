package kernel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// superValue gives value i of a super-block straight from the format's bit positions.
func superValue(t Type, b []byte, i int) float32 {
	half := func(at int) float32 { return F16ToF32(binary.LittleEndian.Uint16(b[at:])) }
	pair := func(j int) (s, m float32) { // the packed six-bit factors of block j
		f := b[4:]
		if j < 4 {
			return float32(f[j] & 63), float32(f[j+4] & 63)
		}
		return float32(f[j+4]&0x0f + f[j-4]>>6*16), float32(f[j+4]>>4 + f[j]>>6*16)
	}
	nibble := func(qs []byte) int { // 64 values to 32 bytes, low nibbles first
		return int(qs[i/64*32+i%32]>>(i/32%2*4)) & 15
	}
	switch t {
	case Q4_K:
		s, m := pair(i / 32)
		return float32(float32(half(0)*s)*float32(nibble(b[16:]))) - float32(half(2)*m)
	case Q5_K:
		s, m := pair(i / 32)
		u := nibble(b[48:]) + int(b[16+i%32]>>(i/32)&1)*16
		return float32(float32(half(0)*s)*float32(u)) - float32(half(2)*m)
	case Q6_K:
		n, l, part := i/128, i%32, i%128/32
		u := int(b[64*n+part%2*32+l]>>(part/2*4))&15 + int(b[128+32*n+l]>>(2*part)&3)*16
		return float32(float32(half(208)*float32(int8(b[192+i/16]))) * float32(u-32))
	default: // q3_K
		j, f := i/16, b[96:]
		s := int(f[j%8]>>(j/8*4))&15 + int(f[8+j%4]>>(j/4*2)&3)*16
		u := int(b[32+i/128*32+i%32]>>(i%128/32*2)&3) + int(b[i%32]>>(i/32)&1)*4
		return float32(float32(half(108)*float32(s-32)) * float32(u-4))
	}
}

func TestSuperBlocksByDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(81, 82))
	for _, f := range []Type{Q3_K, Q4_K, Q5_K, Q6_K} {
		src := randomWeights(r, f, 8, superLen)
		got := make([]float32, 8*superLen)
		Dequantize(got, f, src)
		for i, v := range got {
			if want := superValue(f, src[i/superLen*f.BlockBytes():], i%superLen); v != want {
				t.Fatalf("%v: value %d is %v, want %v", f, i, v, want)
			}
		}
	}
}

// TestIQ4Values spells out one block: 16 nibbles pick 16 values, the low ones first.
func TestIQ4Values(t *testing.T) {
	b := binary.LittleEndian.AppendUint16(nil, F32ToF16(0.5))
	for i := range 16 {
		b = append(b, byte(i|(15-i)<<4))
	}
	want := [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	var got [32]float32
	Dequantize(got[:], IQ4_NL, b)
	for i := range 16 {
		if got[i] != want[i]/2 || got[16+i] != want[15-i]/2 {
			t.Errorf("values %d and %d are %v and %v", i, 16+i, got[i], got[16+i])
		}
	}
}

// TestSuperQuantize bounds the error by half a step of the block, plus what the rounding of its factors costs.
func TestSuperQuantize(t *testing.T) {
	r := rand.New(rand.NewPCG(83, 84))
	for f, step := range map[Type]float64{Q4_K: 1. / 30, Q5_K: 1. / 62, Q6_K: 1. / 64} {
		x, y := make([]float32, 4*superLen), make([]float32, 4*superLen)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		clear(x[superLen : superLen+64])
		b := make([]byte, 4*f.BlockBytes())
		Quantize(b, f, x)
		Dequantize(y, f, b)
		var sum float64
		for i := range x {
			d := math.Abs(float64(x[i] - y[i]))
			sum += d * d
			if lim := 6 * (step + 1./63); d > lim {
				t.Errorf("%v: %v became %v", f, x[i], y[i])
			}
		}
		if rms := math.Sqrt(sum / float64(len(x))); rms > 4*step {
			t.Errorf("%v: the mean error is %v", f, rms)
		}
	}
}

// TestSuperMemory: the panels of q4_K take at most 5 % more than the file.
func TestSuperMemory(t *testing.T) {
	src := make([]byte, 256*16*Q4_K.BlockBytes())
	m := newMatrix(t, Q4_K, 256, 16*superLen, src)
	if m.Bytes() > len(src)*105/100 {
		t.Errorf("%d bytes of %d", m.Bytes(), len(src))
	}
}
