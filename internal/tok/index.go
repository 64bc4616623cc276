package tok

import "hash/maphash"

// textIndex finds vocabulary texts: a table as in vocab, over strings that are there already. A map of Go takes three times as long to fill, which is
// felt at the start of a program.
type textIndex struct {
	pieces []string
	slots  []uint64 // the upper half of the hash, and id+1; 0 = free
	seed   maphash.Seed
}

// newTextIndex indexes the pieces that are not empty, the first of two that are equal.
func newTextIndex(pieces []string) *textIndex {
	size := 4
	for size < 2*len(pieces) {
		size *= 2
	}
	x := &textIndex{pieces, make([]uint64, size), maphash.MakeSeed()}
	for i, p := range pieces {
		if p == "" {
			continue
		}
		h := maphash.String(x.seed, p)
		if at := x.place(p, h); x.slots[at] == 0 {
			x.slots[at] = h&^0xffffffff | uint64(i+1)
		}
	}
	return x
}

// place gives the slot of text, or the free one where it would be.
func (x *textIndex) place(text string, h uint64) uint64 {
	mask := uint64(len(x.slots) - 1)
	i := h & mask
	for x.slots[i] != 0 {
		if s := x.slots[i]; (s^h)>>32 == 0 && x.pieces[uint32(s)-1] == text {
			break
		}
		i = (i + 1) & mask
	}
	return i
}

// find gives the id of a text.
func (x *textIndex) find(text string) (id ID, ok bool) {
	s := x.slots[x.place(text, maphash.String(x.seed, text))]
	return ID(uint32(s)) - 1, s != 0
}
