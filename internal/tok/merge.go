package tok

import (
	"math/bits"
	"slices"
)

const (
	noRank  = ^uint32(0)
	noMerge = ^uint64(0)

	// shortPiece is the number of symbols up to which searching the whole row for the best pair beats keeping a heap.
	shortPiece = 40
)

// pairs maps two neighbouring tokens to the token they merge into and the rank of that merge (lower merges first).
//
//	slot: key = left<<32 | right (+1 so that 0 is free), val = rank<<32 | merged id
type pairs struct {
	slots []pairSlot
	shift uint8
	n     int
}

type pairSlot struct{ key, val uint64 }

func newPairs(n int) pairs {
	size := 16
	for size < 2*n {
		size *= 2
	}
	return pairs{slots: make([]pairSlot, size), shift: uint8(64 - bits.TrailingZeros(uint(size)))}
}

// hash spreads a key over the table (Fibonacci hashing).
func (p *pairs) hash(key uint64) uint64 { return (key * 0x9E3779B97F4A7C15) >> p.shift }

// insert adds a merge; of two merges of the same pair the earlier stays.
func (p *pairs) insert(left, right ID, rank uint32, merged ID) {
	key := uint64(uint32(left))<<32 | uint64(uint32(right)) + 1
	mask := uint64(len(p.slots) - 1)
	i := p.hash(key)
	for p.slots[i].key != 0 {
		if p.slots[i].key == key {
			return
		}
		i = (i + 1) & mask
	}
	p.slots[i] = pairSlot{key, uint64(rank)<<32 | uint64(uint32(merged))}
	p.n++
}

// find gives rank<<32 | merged, or noMerge.
func (p *pairs) find(left, right ID) uint64 {
	key := uint64(uint32(left))<<32 | uint64(uint32(right)) + 1
	mask := uint64(len(p.slots) - 1)
	for i := p.hash(key); ; i = (i + 1) & mask {
		s := &p.slots[i]
		if s.key == key {
			return s.val
		}
		if s.key == 0 {
			return noMerge
		}
	}
}

// row is a piece being merged: symbols that stand for stretches of text. Symbol i covers text[start[i]:start[next]].
type row struct {
	text  []byte
	ids   []ID     // -1: a character that the vocabulary lacks
	start []int32  // one more than ids: the last is len(text)
	best  []uint64 // merge of symbol i with the one behind it, or noMerge
	prev  []int32  // long pieces only
	next  []int32
	heap  []uint64 // rank<<32 | symbol
}

func (r *row) reset(text []byte) {
	r.text = text
	r.ids, r.start, r.best = r.ids[:0], r.start[:0], r.best[:0]
}

// grow makes room for n symbols.
func (r *row) grow(n int) {
	r.ids, r.start, r.best = slices.Grow(r.ids, n), slices.Grow(r.start, n+1), slices.Grow(r.best, n)
}

// merged looks up the merge of two neighbouring symbols. For SPM only the text counts: any two symbols that spell a token merge into it.
func (t *Tokenizer) merged(r *row, left, right ID, from, to int32) uint64 {
	if t.ranks == nil {
		if left < 0 || right < 0 {
			return noMerge
		}
		return t.pairs.find(left, right)
	}
	id := t.vocab.find(r.text[from:to])
	if id < 0 {
		return noMerge
	}
	return uint64(t.ranks[id])<<32 | uint64(uint32(id))
}

// merge joins the symbols of r until no pair is left, always the lowest rank first and the leftmost among equals.
func (t *Tokenizer) merge(r *row) {
	for i := range len(r.ids) - 1 {
		r.best = append(r.best, t.merged(r, r.ids[i], r.ids[i+1], r.start[i], r.start[i+2]))
	}
	r.best = append(r.best, noMerge)
	if len(r.ids) <= shortPiece {
		t.mergeShort(r)
		return
	}
	t.mergeLong(r)
}

// mergeShort searches for the best pair and closes the gap after each merge: quadratic, but on a few symbols the fastest.
func (t *Tokenizer) mergeShort(r *row) {
	for {
		at, rank := -1, noRank
		for i, b := range r.best {
			if x := uint32(b >> 32); x < rank {
				at, rank = i, x
			}
		}
		if at < 0 {
			return
		}
		r.ids[at] = ID(uint32(r.best[at]))
		r.ids = append(r.ids[:at+1], r.ids[at+2:]...)
		r.start = append(r.start[:at+1], r.start[at+2:]...)
		r.best = append(r.best[:at], r.best[at+1:]...)
		n := len(r.ids)
		r.best[at] = noMerge
		if at+1 < n {
			r.best[at] = t.merged(r, r.ids[at], r.ids[at+1], r.start[at], r.start[at+2])
		}
		if at > 0 {
			r.best[at-1] = t.merged(r, r.ids[at-1], r.ids[at], r.start[at-1], r.start[at+1])
		}
	}
}

// mergeLong keeps the candidates in a heap and the symbols in a linked list: n log n for pieces of any length. A candidate whose rank is no
// longer its symbol's is stale and skipped.
func (t *Tokenizer) mergeLong(r *row) {
	n := int32(len(r.ids))
	r.prev, r.next = slices.Grow(r.prev[:0], int(n)), slices.Grow(r.next[:0], int(n))
	for i := range n {
		r.prev, r.next = append(r.prev, i-1), append(r.next, i+1)
	}
	r.heap = slices.Grow(r.heap[:0], int(n))
	for i, b := range r.best {
		if b != noMerge {
			r.heap = append(r.heap, b&^0xffffffff|uint64(i))
		}
	}
	heapify(r.heap)
	for len(r.heap) > 0 {
		top := r.heap[0]
		at := int32(uint32(top))
		if r.best[at]>>32 != top>>32 {
			r.pop()
			continue
		}
		t.join(r, at, n)
	}
	r.compact(n)
}

// join merges symbol at with the one behind it and refreshes the two pairs around. The heap's top, just used up, gives way to the first of them.
func (t *Tokenizer) join(r *row, at, n int32) {
	gone := r.next[at]
	r.ids[at] = ID(uint32(r.best[at]))
	r.best[gone] = noMerge
	r.next[at] = r.next[gone]
	if r.next[at] < n {
		r.prev[r.next[at]] = at
	}
	r.pop()
	t.refresh(r, at, n)
	if r.prev[at] >= 0 {
		t.refresh(r, r.prev[at], n)
	}
}

func (t *Tokenizer) refresh(r *row, at, n int32) {
	r.best[at] = noMerge
	mid := r.next[at]
	if mid >= n {
		return
	}
	b := t.merged(r, r.ids[at], r.ids[mid], r.start[at], r.start[r.next[mid]])
	r.best[at] = b
	if b != noMerge {
		r.heap = push(r.heap, b&^0xffffffff|uint64(uint32(at)))
	}
}

// compact drops the symbols that merging used up.
func (r *row) compact(n int32) {
	w := 0
	for i := int32(0); i < n; i = r.next[i] {
		r.ids[w], r.start[w] = r.ids[i], r.start[i]
		w++
	}
	r.start[w] = r.start[n]
	r.ids, r.start = r.ids[:w], r.start[:w+1]
}

func heapify(h []uint64) {
	for i := len(h)/2 - 1; i >= 0; i-- {
		sink(h, i)
	}
}

func push(h []uint64, x uint64) []uint64 {
	h = append(h, x)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if h[up] <= x {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = x
	return h
}

func (r *row) pop() {
	last := len(r.heap) - 1
	r.heap[0] = r.heap[last]
	r.heap = r.heap[:last]
	sink(r.heap, 0)
}

func sink(h []uint64, i int) {
	if i >= len(h) {
		return
	}
	x := h[i]
	for {
		c := 2*i + 1
		if c >= len(h) {
			break
		}
		if c+1 < len(h) && h[c+1] < h[c] {
			c++
		}
		if x <= h[c] {
			break
		}
		h[i] = h[c]
		i = c
	}
	h[i] = x
}
