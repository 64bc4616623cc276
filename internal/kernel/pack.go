package kernel

import (
	"encoding/binary"
	"math/bits"
)

// Packing turns blocks of the file formats into panels, eight codes at a time in the bytes of a word; formats with assembly do not come here for full panels.
//
// In a panel the codes of one row and block stand four to a word, and words of neighbouring groups are 16 apart, since the other rows lie between them.

// Each byte of a word at its lowest bits.
const (
	low1 = 0x01010101_01010101
	low2 = 0x03030303_03030303
	low4 = 0x0f0f0f0f_0f0f0f0f
	top4 = low4 << 4

	lift64 = lift<<32 | lift
)

// groups is what four groups of a block take in a panel; blocks of the nibble layouts are one of these, others two.
type groups = [4 * Panel]uint32

// put writes eight codes of row r as groups g and g+1.
func put(w *groups, g, r int, v uint64) {
	w[g*Panel+r&15], w[(g+1)*Panel+r&15] = nativeWord(uint32(v)), nativeWord(uint32(v>>32))
}

// nativeWord gives the word whose bytes in memory are those of v, lowest first.
func nativeWord(v uint32) uint32 {
	if bigEndian {
		return bits.ReverseBytes32(v)
	}
	return v
}

// spreadBits gives bit i of b as the value of byte i.
func spreadBits(b uint32) uint64 {
	v := uint64(b&0xff) * low1 & 0x80402010_08040201
	return (v + 0x7f7f7f7f_7f7f7f7f) >> 7 & low1
}

func load64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// fillBlocks writes the codes, scales and minima of one panel.
func (m *Matrix) fillBlocks(p, rows int, src []byte) {
	blocks, size := m.K/qk, m.Source.BlockBytes()
	parts := m.wordsPerBlock() / len(groups{})
	words, hasMin, pairs := m.words()[p*blocks*m.wordsPerBlock():], m.hasMin(), iq4Pairs()
	for b := range blocks {
		at := (p*blocks + b) * Panel
		w := words[b*parts*len(groups{}):][:parts*len(groups{})]
		lo, hi := (*groups)(w), (*groups)(w[len(w)-len(groups{}):]) // the same in the nibble layouts
		for r := range rows {
			blk := src[(r*blocks+b)*size:][:size]
			m.scales[at+r] = binary.LittleEndian.Uint16(blk)
			blk = blk[2:]
			if hasMin {
				m.mins[at+r] = binary.LittleEndian.Uint16(blk)
				blk = blk[2:]
			}
			switch m.Source {
			case Q8_0:
				packBytes(lo, r, blk)
				packBytes(hi, r, blk[16:])
			case Q4_0, Q4_1:
				put(lo, 0, r, load64(blk))
				put(lo, 2, r, load64(blk[8:]))
			case IQ4_NL:
				packPairs(lo, hi, r, (*[16]byte)(blk), &pairs)
			case Q5_0:
				packSigned(lo, hi, r, (*[20]byte)(blk))
			default:
				packFive(lo, hi, r, (*[20]byte)(blk))
			}
		}
	}
}

// lift raises, or lowers, the even codes of four signed ones by 128.
const lift = 0x00800080

func packBytes(w *groups, r int, src []byte) {
	put(w, 0, r, load64(src)^lift64)
	put(w, 2, r, load64(src[8:])^lift64)
}

// iq4Pairs gives, for each byte of iq4_nl, the values of its two nibbles, the low one in the low byte.
func iq4Pairs() (t [256]uint16) {
	for i := range t {
		t[i] = uint16(uint8(iq4Codes[i&15])) | uint16(uint8(iq4Codes[i>>4]))<<8
	}
	return t
}

// packPairs writes the values that nibbles stand for.
func packPairs(lo, hi *groups, r int, src *[16]byte, pairs *[256]uint16) {
	for g := 0; g < 4; g += 2 {
		var a, b uint64
		for i := 7; i >= 0; i-- {
			v := uint64(pairs[src[4*g+i]])
			a, b = a<<8|v&0xff, b<<8|v>>8
		}
		put(lo, g, r, a^lift64)
		put(hi, g, r, b^lift64)
	}
}

// packFive writes codes of five bits as bytes: 16 nibbles, low ones first, joined to the fifth bits in front of them.
func packFive(lo, hi *groups, r int, src *[20]byte) {
	high, a, b := binary.LittleEndian.Uint32(src[:]), load64(src[4:]), load64(src[12:])
	put(lo, 0, r, a&low4|spreadBits(high)<<4)
	put(lo, 2, r, b&low4|spreadBits(high>>8)<<4)
	put(hi, 0, r, a>>4&low4|spreadBits(high>>16)<<4)
	put(hi, 2, r, b>>4&low4|spreadBits(high>>24)<<4)
}

// packSigned is packFive with codes less 16, lifted.
func packSigned(lo, hi *groups, r int, src *[20]byte) {
	high, a, b := ^binary.LittleEndian.Uint32(src[:]), load64(src[4:]), load64(src[12:])
	put(lo, 0, r, minus16(a&low4, spreadBits(high)))
	put(lo, 2, r, minus16(b&low4, spreadBits(high>>8)))
	put(hi, 0, r, minus16(a>>4&low4, spreadBits(high>>16)))
	put(hi, 2, r, minus16(b>>4&low4, spreadBits(high>>24)))
}

// minus16 sets the upper four bits, which is 16 less in two's complement, of the bytes whose fifth bit is not set.
func minus16(nibbles, not uint64) uint64 { return (nibbles | not*0xf0) ^ lift64 }

// fillSuper writes codes, factors and scales of one panel of a K format.
func (m *Matrix) fillSuper(p, rows int, src []byte) {
	supers, size, unit := m.K/superLen, m.Source.BlockBytes(), m.wordsPerBlock()
	words := m.words()
	const per = superLen / qk
	var s superBlock
	for b := range supers {
		first := (p*supers + b) * per // number of the first block of 32
		w, steps := words[first*unit:(first+per)*unit], m.steps[first*2*Panel:(first+per)*2*Panel]
		for r := range rows {
			blk := src[(r*supers+b)*size:][:size]
			switch m.Source {
			case Q4_K:
				s.readPairs(blk)
				packNibblePairs(w, r, (*[128]byte)(blk[16:]))
			case Q5_K:
				s.readPairs(blk)
				packFivePairs(w, r, (*[32]byte)(blk[16:]), (*[128]byte)(blk[48:]))
			case Q6_K:
				s.readSixScales(blk)
				packSix(w, r, (*[192]byte)(blk))
			default:
				s.readThreeScales(blk)
				packThree(w, r, (*[96]byte)(blk))
			}
			m.putFactors(steps, (p*supers+b)*m.halvesPerSuper(), r, &s)
		}
	}
}

// putFactors writes what stands beside the codes of row r of a super-block, whose halves begin at half.
func (m *Matrix) putFactors(steps []int8, half, r int, s *superBlock) {
	m.scales[half+r] = s.d
	if m.lay == layK6 {
		for i, v := range s.scale {
			steps[i*Panel+r] = v
		}
		return
	}
	m.scales[half+Panel+r] = s.m
	for i, v := range s.min {
		steps[2*i*Panel+r], steps[(2*i+1)*Panel+r] = s.scale[2*i], int8(v)
	}
}

// half gives the h-th four groups of a super-block's codes.
func half(words []uint32, h int) *groups { return (*groups)(words[h*len(groups{}):]) }

// packNibblePairs writes q4_K, which keeps blocks 2i and 2i+1 in the low and high nibbles of 32 bytes, as the low and high nibbles of each block's halves.
func packNibblePairs(words []uint32, r int, src *[128]byte) {
	for i := range 4 {
		in := src[32*i : 32*i+32]
		a, b, c, d := load64(in), load64(in[8:]), load64(in[16:]), load64(in[24:])
		w := half(words, 2*i)
		put(w, 0, r, a&low4|c&low4<<4)
		put(w, 2, r, b&low4|d&low4<<4)
		w = half(words, 2*i+1)
		put(w, 0, r, a>>4&low4|c&top4)
		put(w, 2, r, b>>4&low4|d&top4)
	}
}

// packFivePairs writes q5_K: nibbles as in q4_K, with bit i of the bytes of high for block i, one byte a code.
func packFivePairs(words []uint32, r int, high *[32]byte, src *[128]byte) {
	for h := range 2 {
		for g := 0; g < 4; g += 2 {
			at := 16*h + 4*g
			top := load64(high[at:])
			for i := range 4 {
				v := load64(src[32*i+at:])
				put(half(words, 4*i+h), g, r, v&low4|top&low1<<4)
				put(half(words, 4*i+2+h), g, r, v>>4&low4|top>>1&low1<<4)
				top >>= 2
			}
		}
	}
}

// packSix writes q6_K: each half of 128 values has 64 bytes of low nibbles and 32 bytes of upper pairs of bits. The panel wants codes 32 up, which they are
// as they stand.
func packSix(words []uint32, r int, src *[192]byte) {
	for i := range 2 {
		for h := range 2 {
			w := words[(8*i+h)*len(groups{}):]
			for g := 0; g < 4; g += 2 {
				at := 16*h + 4*g
				p, q, top := load64(src[64*i+at:]), load64(src[64*i+32+at:]), load64(src[128+32*i+at:])
				put(half(w, 0), g, r, p&low4|top&low2<<4)
				put(half(w, 2), g, r, q&low4|top>>2&low2<<4)
				put(half(w, 4), g, r, p>>4&low4|top>>4&low2<<4)
				put(half(w, 6), g, r, q>>4&low4|top>>6&low2<<4)
			}
		}
	}
}

// packThree writes q3_K: pairs of bits, 128 values to 32 bytes behind the 32 bytes of third bits, bit i of theirs for block i. Less 4 and 32 up is 28 more.
func packThree(words []uint32, r int, src *[96]byte) {
	for h := range 2 {
		for g := 0; g < 4; g += 2 {
			at := 16*h + 4*g
			top := load64(src[at:])
			for i := range 8 {
				two := load64(src[32+i/4*32+at:]) >> (i % 4 * 2) & low2
				put(half(words, 2*i+h), g, r, (two|top>>i&low1<<2)+28*low1)
			}
		}
	}
}
