package tok

import "hash/maphash"

// slots is a hash table from texts, which lie elsewhere, to ids: open addressing, at most half full. A slot is small, because the memory of the tables is what
// the start of a program waits for most.
//
//	slot   10 bits of the hash | id+1 (22 bits)        0 = free
type slots []uint32

const (
	slotBits = 22 // maxTokens and one more fit
	slotMask = 1<<slotBits - 1
)

// newSlots makes a table for n ids.
func newSlots(n int) slots {
	size := 4
	for size < 2*n {
		size *= 2
	}
	t := make(slots, size)
	for i := 0; i < size; i += 1024 {
		t[i] = 0 // the system gives a page that is read before it is written twice
	}
	return t
}

func slotOf(h uint64, id ID) uint32 { return uint32(h>>(64-32+slotBits))<<slotBits | uint32(id+1) }

// alike says whether the slot may hold a text with this hash.
func alike(slot uint32, h uint64) bool { return (slot>>slotBits)^uint32(h>>(64-32+slotBits)) == 0 }

func (t slots) id(at uint64) ID { return ID(t[at]&slotMask) - 1 }

// textIndex finds vocabulary texts. A map of Go takes three times as long to fill, which is felt at the start of a program.
type textIndex struct {
	pieces []string
	slots  slots
	seed   maphash.Seed
	again  ID // the first piece that is equal to one before it, 0 = none
}

// newTextIndex indexes the pieces that are not empty, the first of two that are equal.
func newTextIndex(pieces []string) *textIndex {
	x := &textIndex{pieces: pieces, slots: newSlots(len(pieces)), seed: maphash.MakeSeed()}
	for i, p := range pieces {
		if p == "" {
			continue
		}
		h := maphash.String(x.seed, p)
		if at := x.place(p, h); x.slots[at] == 0 {
			x.slots[at] = slotOf(h, ID(i))
		} else if x.again == 0 {
			x.again = ID(i)
		}
	}
	return x
}

// place gives the slot of text, or the free one where it would be.
func (x *textIndex) place(text string, h uint64) uint64 {
	mask := uint64(len(x.slots) - 1)
	i := h & mask
	for x.slots[i] != 0 {
		if alike(x.slots[i], h) && x.pieces[x.slots.id(i)] == text {
			break
		}
		i = (i + 1) & mask
	}
	return i
}

// find gives the id of a text.
func (x *textIndex) find(text string) (id ID, ok bool) {
	id = x.slots.id(x.place(text, maphash.String(x.seed, text)))
	return id, id >= 0
}

// twins gives the first piece that is equal to one before it, and that one.
func (x *textIndex) twins() (first, second ID, ok bool) {
	if x.again == 0 {
		return 0, 0, false
	}
	first, _ = x.find(x.pieces[x.again])
	return first, x.again, true
}
