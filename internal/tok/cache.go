package tok

import "encoding/binary"

// words remembers how short pieces were encoded. A text repeats its words, and a word that is no token costs many look-ups. The table is of a
// fixed size; a piece takes the place of another that falls on its slot.
type words struct {
	slots [1 << wordBits]word
}

const (
	wordBits  = 13
	wordBytes = 15 // longest piece that is remembered
	wordIDs   = 5  // most ids of one

	// wordsFrom is the length of text from which remembering pays for making the table.
	wordsFrom = 1 << 12
	// slack is what text buffers hold behind their end, so that a key can be read in two loads.
	slack = 16
)

// word is one remembered piece: its bytes in two little-endian words with its length in the last byte (0 = free slot), and its ids.
type word struct {
	lo, hi uint64
	n      int32
	ids    [wordIDs]ID
}

// wordKey packs a piece of 1 to wordBytes bytes that has slack behind it; false for others.
func wordKey(piece []byte) (lo, hi uint64, ok bool) {
	n := len(piece)
	if n > wordBytes || cap(piece) < slack {
		return 0, 0, false
	}
	b := piece[:slack]
	lo, hi = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	if n < 8 {
		return lo & (1<<(8*n) - 1), uint64(n) << 56, true
	}
	return lo, hi&(1<<(8*(n-8))-1) | uint64(n)<<56, true
}

// slot gives the place of a key.
func (w *words) slot(lo, hi uint64) *word {
	h := lo*0x9E3779B97F4A7C15 ^ hi*0xC2B2AE3D27D4EB4F
	h ^= h >> 32
	return &w.slots[h*0x9E3779B97F4A7C15>>(64-wordBits)]
}

// set remembers the ids of a piece.
func (w *word) set(lo, hi uint64, ids []ID) {
	if len(ids) > wordIDs {
		return
	}
	w.lo, w.hi, w.n = lo, hi, int32(copy(w.ids[:], ids))
}
