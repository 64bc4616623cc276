package kernel

import (
	"encoding/binary"
	"math"
)

// superLen is the number of values of a super-block: one scale (and one minimum) in 16 bits for 256 values, refined by small integers every 16 or 32.
const superLen = 256

// The super-blocks of ggml's K formats, in bytes. d and m are halves, s and t the integer factors of scale and minimum.
//
//	q4_K  d2 | m2 | factors12 | qs128           value = (d*s)*u - m*t, u in 0..15, s and t of six bits every 32 values
//	q5_K  d2 | m2 | factors12 | qh32 | qs128    the same with u in 0..31
//	q6_K  ql128 | qh64 | s16 | d2               value = (d*s)*(u-32), u in 0..63, s int8 every 16 values
//	q3_K  qh32 | qs64 | factors12 | d2          value = (d*s)*(u-4), u in 0..7, s of six bits less 32 every 16 values
type superBlock struct {
	words [superLen / 4]uint32 // codes, four to a word, lowest byte first
	d, m  uint16               // m with its sign turned: values add it
	scale [16]int8             // of every 16 values
	min   [8]uint8             // of every 32 values
}

// bytesOf4 is v in each byte of a word.
const (
	ones1 = 0x01010101
	ones2 = 0x03030303
	ones4 = 0x0f0f0f0f
)

// unpack reads one super-block of format t.
func (s *superBlock) unpack(t Type, b []byte) {
	switch t {
	case Q4_K:
		s.readPairs(b)
		s.nibblePairs(b[16:144], nil)
	case Q5_K:
		s.readPairs(b)
		s.nibblePairs(b[48:176], b[16:48])
	case Q6_K:
		s.readSix(b)
	default:
		s.readThree(b)
	}
}

// readPairs reads scale and minimum with their eight factors each: six bits, the upper two of the last four in the spare bits of the first eight bytes.
func (s *superBlock) readPairs(b []byte) {
	s.d, s.m = binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint16(b[2:])^0x8000
	f := b[4:16]
	for j := range 4 {
		lo, hi, both := f[j], f[j+4], f[j+8]
		s.setPair(j, lo&63, hi&63)
		s.setPair(j+4, both&15|lo>>6<<4, both>>4|hi>>6<<4)
	}
}

func (s *superBlock) setPair(j int, scale, least byte) {
	s.scale[2*j], s.scale[2*j+1], s.min[j] = int8(scale), int8(scale), least
}

// nibblePairs reads codes whose low four bits lie 64 values to 32 bytes, the second half in the high nibbles, and whose fifth bits lie in high: bit i of byte j
// belongs to value 32*i+j.
func (s *superBlock) nibblePairs(qs, high []byte) {
	for i := range 4 {
		for j := range 8 {
			v := binary.LittleEndian.Uint32(qs[32*i+4*j:])
			lo, hi := v&ones4, v>>4&ones4
			if high != nil {
				h := binary.LittleEndian.Uint32(high[4*j:]) >> (2 * i)
				lo, hi = lo|h&ones1<<4, hi|h>>1&ones1<<4
			}
			s.words[16*i+j], s.words[16*i+8+j] = lo, hi
		}
	}
}

// readSix reads q6_K: each half of 128 values takes 64 bytes of low nibbles and 32 bytes of upper pairs of bits.
func (s *superBlock) readSix(b []byte) {
	s.readSixScales(b)
	for i := range 2 {
		for j := range 8 {
			p, q := binary.LittleEndian.Uint32(b[64*i+4*j:]), binary.LittleEndian.Uint32(b[64*i+32+4*j:])
			h := binary.LittleEndian.Uint32(b[128+32*i+4*j:])
			w := s.words[32*i:]
			w[j], w[j+8] = less32(p&ones4|h&ones2<<4), less32(q&ones4|h>>2&ones2<<4)
			w[j+16], w[j+24] = less32(p>>4&ones4|h>>4&ones2<<4), less32(q>>4&ones4|h>>6&ones2<<4)
		}
	}
}

func (s *superBlock) readSixScales(b []byte) {
	for i, v := range b[192:208] {
		s.scale[i] = int8(v)
	}
	s.d, s.m = binary.LittleEndian.Uint16(b[208:]), 0
}

// less32 subtracts 32 from each byte, all below 64: flip bit 5 and copy it to the bits above.
func less32(v uint32) uint32 {
	v ^= 0x20 * ones1
	return v | v&(0x20*ones1)*6
}

// readThree reads q3_K: pairs of bits, 128 values to 32 bytes, and third bits as in q5_K.
func (s *superBlock) readThree(b []byte) {
	s.readThreeScales(b)
	for i := range 8 {
		for j := range 8 {
			q := binary.LittleEndian.Uint32(b[32+i/4*32+4*j:]) >> (i % 4 * 2) & ones2
			v := (q | binary.LittleEndian.Uint32(b[4*j:])>>i&ones1<<2) ^ 4*ones1
			s.words[8*i+j] = v | v&(4*ones1)*62 // less 4
		}
	}
}

// readThreeScales reads factors of six bits, whose upper two lie in the last four bytes.
func (s *superBlock) readThreeScales(b []byte) {
	f := b[96:108]
	for j := range 4 {
		top := f[8+j]
		s.scale[j], s.scale[4+j] = int8(f[j]&15|top&3<<4)-32, int8(f[4+j]&15|top>>2&3<<4)-32
		s.scale[8+j], s.scale[12+j] = int8(f[j]>>4|top>>4&3<<4)-32, int8(f[4+j]>>4|top>>6<<4)-32
	}
	s.d, s.m = binary.LittleEndian.Uint16(b[108:]), 0
}

// code gives code i, signed where the format's are.
func (s *superBlock) code(i int) int8 { return int8(s.words[i/4] >> (i % 4 * 8)) }

// expand writes the values: (d*s)*code rounded, plus the minimum where the format has one, rounded again. d*s and m*t are exact.
func (s *superBlock) expand(dst []float32, hasMin bool) {
	d, m := F16ToF32(s.d), F16ToF32(s.m)
	for i := range dst[:superLen] {
		v := float32(float32(d*float32(s.scale[i/16])) * float32(s.code(i)))
		if hasMin {
			v += float32(m * float32(s.min[i/32]))
		}
		dst[i] = v
	}
}

func dequantizeSuper(dst []float32, t Type, src []byte) {
	size := t.BlockBytes()
	var s superBlock
	for b := 0; b*superLen < len(dst); b++ {
		s.unpack(t, src[b*size:(b+1)*size])
		s.expand(dst[b*superLen:], t == Q4_K || t == Q5_K)
	}
}

// rowSuper writes row r of panel p.
func (m *Matrix) rowSuper(dst []float32, p, r int) {
	supers := m.K / superLen
	var s superBlock
	for b := range supers {
		at := (p*supers+b)*m.halvesPerSuper() + r
		s.d = m.scales[at]
		if m.lay != layK6 {
			s.m = m.scales[at+Panel]
		}
		for i := range superLen / qk {
			m.getSuper(&s, (p*supers+b)*(superLen/qk)+i, r, i)
		}
		s.expand(dst[b*superLen:], m.lay != layK6)
	}
}

// getSuper reads row r of a block of 32, numbered over all panels, as the i-th of s.
func (m *Matrix) getSuper(s *superBlock, block, r, i int) {
	steps := m.steps[block*2*Panel:]
	s.scale[2*i], s.scale[2*i+1], s.min[i] = steps[r], steps[Panel+r], 0
	if m.lay != layK6 {
		s.scale[2*i+1], s.min[i] = steps[r], uint8(steps[Panel+r])
	}
	words := m.words()[block*m.wordsPerBlock()+r:]
	for g := range 8 {
		switch m.lay {
		case layK4:
			s.words[8*i+g] = nativeWord(words[g%4*Panel]) >> (g / 4 * 4) & ones4
		case layK6:
			s.words[8*i+g] = less32(nativeWord(words[g*Panel]))
		default:
			s.words[8*i+g] = nativeWord(words[g*Panel])
		}
	}
}

// halvesPerSuper is the number of halves beside one super-block of 16 rows.
func (m *Matrix) halvesPerSuper() int {
	if m.lay == layK6 {
		return Panel
	}
	return 2 * Panel
}

// quantizeSuper writes one super-block: plain rounding between the ends of each block, without the search for a better scale that other tools make.
func quantizeSuper(dst []byte, t Type, x []float32) {
	if t == Q6_K {
		quantizeSix(dst, x)
		return
	}
	top, qs := float32(15), dst[16:144]
	var high []byte
	if t == Q5_K {
		top, qs, high = 31, dst[48:176], dst[16:48]
		clear(high)
	}
	var scale, least [8]float32
	var most, lowest float32
	for i := range scale {
		var lo, hi float32
		for _, v := range x[32*i : 32*i+32] {
			lo, hi = min(lo, v), max(hi, v)
		}
		scale[i], least[i] = (hi-lo)/top, -lo
		most, lowest = max(most, scale[i]), max(lowest, -lo)
	}
	putHalf(dst, most/63)
	putHalf(dst[2:], lowest/63)
	clear(dst[4:16])
	clear(qs)
	d, m := F16ToF32(binary.LittleEndian.Uint16(dst)), F16ToF32(binary.LittleEndian.Uint16(dst[2:]))
	for i := range scale {
		s, l := nearest(scale[i]*inverse(d), 63), nearest(least[i]*inverse(m), 63)
		putPair(dst[4:16], i, s, l)
		inv, lift := inverse(d*float32(s)), m*float32(l)
		for j, v := range x[32*i : 32*i+32] {
			c := nearest((v+lift)*inv, top)
			qs[i/2*32+j] |= c & 15 << (i % 2 * 4)
			if high != nil {
				high[j] |= c >> 4 << i
			}
		}
	}
}

// nearest rounds to an integer from 0 to top; NaN is 0.
func nearest(v, top float32) byte {
	if !(v > 0) {
		return 0
	}
	return byte(math.Round(float64(min(v, top))))
}

// putPair writes the factors of block i where readPairs finds them.
func putPair(f []byte, i int, s, l byte) {
	if i < 4 {
		f[i], f[i+4] = f[i]|s, f[i+4]|l
		return
	}
	f[i+4] = s&15 | l<<4
	f[i-4] |= s >> 4 << 6
	f[i] |= l >> 4 << 6
}

func quantizeSix(dst []byte, x []float32) {
	var scale [16]float32
	var most float32
	for i := range scale {
		scale[i] = farthest(x[16*i:16*i+16]) / -32
		most = max(most, float32(math.Abs(float64(scale[i]))))
	}
	clear(dst[:192])
	putHalf(dst[208:], most/127)
	d := F16ToF32(binary.LittleEndian.Uint16(dst[208:]))
	for i := range scale {
		s := toInt8(float32(math.Round(float64(scale[i] * inverse(d)))))
		dst[192+i] = byte(s)
		inv := inverse(d * float32(s))
		for j, v := range x[16*i : 16*i+16] {
			putSix(dst, 16*i+j, nearest(v*inv+32, 63))
		}
	}
}

// putSix writes code i where readSix finds it.
func putSix(dst []byte, i int, c byte) {
	half, part, j := i/128, i/32%4, i%32
	dst[64*half+part%2*32+j] |= c & 15 << (part / 2 * 4)
	dst[128+32*half+j] |= c >> 4 << (2 * part)
}
