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

// nibbleBlock and byteBlock are what a block of 32 takes in a panel: four groups of pairs of codes, or eight of codes.
type (
	nibbleBlock = [4 * Panel]uint32
	byteBlock   = [8 * Panel]uint32
)

// putBytes writes the 32 codes of row r.
func putBytes(w *byteBlock, r int, a, b, c, d uint64) {
	r &= 15
	w[r], w[1*Panel+r] = nativeWord(uint32(a)), nativeWord(uint32(a>>32))
	w[2*Panel+r], w[3*Panel+r] = nativeWord(uint32(b)), nativeWord(uint32(b>>32))
	w[4*Panel+r], w[5*Panel+r] = nativeWord(uint32(c)), nativeWord(uint32(c>>32))
	w[6*Panel+r], w[7*Panel+r] = nativeWord(uint32(d)), nativeWord(uint32(d>>32))
}

// putNibbles writes the 16 pairs of row r.
func putNibbles(w *nibbleBlock, r int, a, b uint64) {
	r &= 15
	w[r], w[1*Panel+r] = nativeWord(uint32(a)), nativeWord(uint32(a>>32))
	w[2*Panel+r], w[3*Panel+r] = nativeWord(uint32(b)), nativeWord(uint32(b>>32))
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

// fillBlocks writes the codes, scales and minima of one panel. Rows advance a few blocks at a time, so that each is read from in whole lines.
func (m *Matrix) fillBlocks(p, rows int, src []byte) {
	const stretch = 4
	blocks, size, pairs := m.K/qk, m.Source.BlockBytes(), iq4Pairs()
	for b := 0; b < blocks; b += stretch {
		n := min(stretch, blocks-b)
		for r := range rows {
			m.fillRow(p*blocks+b, r, size, src[(r*blocks+b)*size:(r*blocks+b+n)*size], &pairs)
		}
	}
}

// fillRow writes row r of consecutive blocks of the given size, the first of them numbered over all panels.
func (m *Matrix) fillRow(first, r, size int, src []byte, pairs *[256]uint16) {
	unit, hasMin := m.wordsPerBlock(), m.hasMin()
	words := m.words()[first*unit:]
	for at := first*Panel + r; len(src) > 0; at += Panel {
		blk := src[:size]
		m.scales[at] = binary.LittleEndian.Uint16(blk)
		if blk = blk[2:]; hasMin {
			m.mins[at] = binary.LittleEndian.Uint16(blk)
			blk = blk[2:]
		}
		switch m.Source {
		case Q8_0:
			putBytes((*byteBlock)(words), r, load64(blk)^lift64, load64(blk[8:])^lift64, load64(blk[16:])^lift64, load64(blk[24:])^lift64)
		case Q4_0, Q4_1:
			putNibbles((*nibbleBlock)(words), r, load64(blk), load64(blk[8:]))
		case IQ4_NL:
			packPairs((*byteBlock)(words), r, (*[16]byte)(blk), pairs)
		case Q5_0:
			packSigned((*byteBlock)(words), r, (*[20]byte)(blk))
		default:
			packFive((*byteBlock)(words), r, (*[20]byte)(blk))
		}
		src, words = src[size:], words[unit:]
	}
}

// lift raises, or lowers, the even codes of four signed ones by 128.
const lift = 0x00800080

// iq4Pairs gives, for each byte of iq4_nl, the values of its two nibbles, the low one in the low byte.
func iq4Pairs() (t [256]uint16) {
	for i := range t {
		t[i] = uint16(uint8(iq4Codes[i&15])) | uint16(uint8(iq4Codes[i>>4]))<<8
	}
	return t
}

// packPairs writes the values that nibbles stand for.
func packPairs(w *byteBlock, r int, src *[16]byte, pairs *[256]uint16) {
	a, b := fourPairs(pairs, src[0], src[1], src[2], src[3]), fourPairs(pairs, src[4], src[5], src[6], src[7])
	c, d := fourPairs(pairs, src[8], src[9], src[10], src[11]), fourPairs(pairs, src[12], src[13], src[14], src[15])
	putBytes(w, r, evenBytes(a)|evenBytes(b)<<32^lift64, evenBytes(c)|evenBytes(d)<<32^lift64,
		evenBytes(a>>8)|evenBytes(b>>8)<<32^lift64, evenBytes(c>>8)|evenBytes(d>>8)<<32^lift64)
}

// fourPairs looks four bytes up.
func fourPairs(pairs *[256]uint16, a, b, c, d byte) uint64 {
	return uint64(pairs[a]) | uint64(pairs[b])<<16 | uint64(pairs[c])<<32 | uint64(pairs[d])<<48
}

// evenBytes moves bytes 0, 2, 4 and 6 together.
func evenBytes(v uint64) uint64 {
	v &= 0x00ff00ff_00ff00ff
	v = (v | v>>8) & 0x0000ffff_0000ffff
	return (v | v>>16) & 0xffffffff
}

// packFive writes codes of five bits as bytes: 16 nibbles, low ones first, joined to the fifth bits in front of them.
func packFive(w *byteBlock, r int, src *[20]byte) {
	high, a, b := binary.LittleEndian.Uint32(src[:]), load64(src[4:]), load64(src[12:])
	putBytes(w, r, a&low4|spreadBits(high)<<4, b&low4|spreadBits(high>>8)<<4, a>>4&low4|spreadBits(high>>16)<<4, b>>4&low4|spreadBits(high>>24)<<4)
}

// packSigned is packFive with codes less 16, lifted.
func packSigned(w *byteBlock, r int, src *[20]byte) {
	high, a, b := ^binary.LittleEndian.Uint32(src[:]), load64(src[4:]), load64(src[12:])
	putBytes(w, r, minus16(a&low4, spreadBits(high)), minus16(b&low4, spreadBits(high>>8)),
		minus16(a>>4&low4, spreadBits(high>>16)), minus16(b>>4&low4, spreadBits(high>>24)))
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

// packNibblePairs writes q4_K, which keeps blocks 2i and 2i+1 in the low and high nibbles of 32 bytes, as the low and high nibbles of each block's halves.
func packNibblePairs(words []uint32, r int, src *[128]byte) {
	for i := range 4 {
		in := (*[32]byte)(src[32*i:])
		a, b, c, d := load64(in[:]), load64(in[8:]), load64(in[16:]), load64(in[24:])
		w := (*[2 * len(nibbleBlock{})]uint32)(words[2*i*len(nibbleBlock{}):])
		putNibbles((*nibbleBlock)(w[:]), r, a&low4|c&low4<<4, b&low4|d&low4<<4)
		putNibbles((*nibbleBlock)(w[len(nibbleBlock{}):]), r, a>>4&low4|c&top4, b>>4&low4|d&top4)
	}
}

// packFivePairs writes q5_K: nibbles as in q4_K, with bit i of the bytes of high for block i, one byte a code.
func packFivePairs(words []uint32, r int, high *[32]byte, src *[128]byte) {
	p, q, s, t := load64(high[:]), load64(high[8:]), load64(high[16:]), load64(high[24:])
	for i := range 4 {
		in := (*[32]byte)(src[32*i:])
		a, b, c, d := load64(in[:]), load64(in[8:]), load64(in[16:]), load64(in[24:])
		putBytes((*byteBlock)(words), r, a&low4|p&low1<<4, b&low4|q&low1<<4, c&low4|s&low1<<4, d&low4|t&low1<<4)
		words = words[len(byteBlock{}):]
		p, q, s, t = p>>1, q>>1, s>>1, t>>1
		putBytes((*byteBlock)(words), r, a>>4&low4|p&low1<<4, b>>4&low4|q&low1<<4, c>>4&low4|s&low1<<4, d>>4&low4|t&low1<<4)
		words = words[len(byteBlock{}):]
		p, q, s, t = p>>1, q>>1, s>>1, t>>1
	}
}

// packSix writes q6_K: each half of 128 values has 64 bytes of low nibbles and 32 bytes of upper pairs of bits. The panel wants codes 32 up, which they are
// as they stand.
func packSix(words []uint32, r int, src *[192]byte) {
	for i := range 2 {
		high := (*[32]byte)(src[128+32*i:])
		p, q, s, t := load64(high[:]), load64(high[8:]), load64(high[16:]), load64(high[24:])
		for block := range 4 {
			in := (*[32]byte)(src[64*i+block%2*32:])
			shift := block / 2 * 4
			a, b, c, d := load64(in[:])>>shift, load64(in[8:])>>shift, load64(in[16:])>>shift, load64(in[24:])>>shift
			putBytes((*byteBlock)(words), r, a&low4|p&low2<<4, b&low4|q&low2<<4, c&low4|s&low2<<4, d&low4|t&low2<<4)
			words = words[len(byteBlock{}):]
			p, q, s, t = p>>2, q>>2, s>>2, t>>2
		}
	}
}

// packThree writes q3_K: pairs of bits, 128 values to 32 bytes behind the 32 bytes of third bits, bit i of theirs for block i. Less 4 and 32 up is 28 more.
func packThree(words []uint32, r int, src *[96]byte) {
	const up = 28 * low1
	p, q, s, t := load64(src[:]), load64(src[8:]), load64(src[16:]), load64(src[24:])
	for i := range 2 {
		in := (*[32]byte)(src[32+32*i:])
		a, b, c, d := load64(in[:]), load64(in[8:]), load64(in[16:]), load64(in[24:])
		for range 4 {
			putBytes((*byteBlock)(words), r, (a&low2|p&low1<<2)+up, (b&low2|q&low1<<2)+up, (c&low2|s&low1<<2)+up, (d&low2|t&low1<<2)+up)
			words = words[len(byteBlock{}):]
			a, b, c, d = a>>2, b>>2, c>>2, d>>2
			p, q, s, t = p>>1, q>>1, s>>1, t>>1
		}
	}
}
