package data

import (
	"math/bits"

	"tinyloop/internal/fault"
)

// piece is a run of a document that lies in one row: n inputs from token off on, whose targets are the n tokens one further.
type piece struct {
	shard uint16
	doc   uint32
	off   uint32
	n     uint32
}

// Pack is a plan of rows: which pieces of which documents share one. A document of L tokens has L−1 inputs; one that is longer than a row is
// cut into several pieces, and every target that is to be learned lies in exactly one of them. Pieces are placed by best fit, longest first,
// so that a row holds whole documents side by side; what is left of it is padding.
type Pack struct {
	T      int
	pieces []piece  // in the order of rows
	rows   []uint32 // where each row begins in pieces, and the end

	Stats PackStats
}

// PackStats says how well the rows are used.
type PackStats struct {
	Docs    int   // documents that take part
	Cut     int   // of them, documents in several pieces
	Rows    int   // rows
	Inputs  int64 // positions that hold a token
	Learned int64 // positions whose target is learned
}

// Fill gives the share of positions that hold a token.
func (s PackStats) Fill(t int) float64 {
	if s.Rows == 0 {
		return 0
	}
	return float64(s.Inputs) / (float64(s.Rows) * float64(t))
}

// NewPack plans rows of t inputs over the documents of shards whose group keep accepts (nil = all). The plan depends on the shards and t
// alone.
func NewPack(shards []*Shard, t int, keep func(group string) bool) (*Pack, error) {
	if t < 1 || t > 1<<20 {
		return nil, fault.New(fault.Invalid, "context", "rows of %d tokens, expected 1 to %d", t, 1<<20)
	}
	if len(shards) > 1<<16 {
		return nil, fault.New(fault.Invalid, "data", "%d shards, the limit is %d", len(shards), 1<<16)
	}
	p := &Pack{T: t}
	var pieces []piece
	for si, s := range shards {
		wanted := make([]bool, len(s.Groups))
		for i, g := range s.Groups {
			wanted[i] = keep == nil || keep(g)
		}
		for d := range s.Docs() {
			if wanted[s.docs[d].Group] {
				pieces = p.cut(pieces, s, uint16(si), d)
			}
		}
	}
	if len(pieces) == 0 {
		return nil, fault.New(fault.Invalid, "data", "no document with anything to learn")
	}
	p.place(pieces)
	return p, nil
}

// cut appends the pieces of a document. Where all of it is learned, the pieces follow each other. Otherwise they are laid from the end: the
// last one ends with the last learned token and begins as far before it as a row allows, the next one ends with the last learned token
// before that, and so on: an answer keeps as much of its question as fits.
func (p *Pack) cut(to []piece, s *Shard, si uint16, doc int) []piece {
	n := s.DocLen(doc) - 1
	learn := s.Learn(doc)
	learned := targets(learn, 1, uint32(n+1))
	if n < 1 || learned == 0 {
		return to
	}
	p.Stats.Docs++
	p.Stats.Learned += learned
	before := len(to)
	add := func(off, n int) {
		to = append(to, piece{shard: si, doc: uint32(doc), off: uint32(off), n: uint32(n)})
		p.Stats.Inputs += int64(n)
	}
	switch {
	case n <= p.T:
		add(0, n)
	case learned == int64(n):
		for off := 0; off < n; off += p.T {
			add(off, min(p.T, n-off))
		}
	default:
		for end := lastTarget(learn, uint32(n)); end > 0; {
			off := max(0, int(end)-p.T)
			add(off, int(end)-off)
			end = lastTarget(learn, uint32(off))
		}
	}
	if len(to) > before+1 {
		p.Stats.Cut++
	}
	return to
}

// targets counts learned tokens among [lo, hi).
func targets(rs []Range, lo, hi uint32) (n int64) {
	for _, r := range rs {
		if a, b := max(r.Start, lo), min(r.End, hi); a < b {
			n += int64(b - a)
		}
	}
	return n
}

// lastTarget gives the last learned token that is at most at, 0 when there is none (token 0 is never a target).
func lastTarget(rs []Range, at uint32) uint32 {
	for i := len(rs) - 1; i >= 0; i-- {
		if rs[i].Start <= at {
			return min(rs[i].End-1, at)
		}
	}
	return 0
}

// place puts the pieces into rows: longest first, each into the row with the least room that still takes it.
func (p *Pack) place(pieces []piece) {
	order := byLength(pieces, p.T)
	rowOf := make([]uint32, len(pieces))
	room := newRooms(p.T)
	rows := uint32(0)
	for _, i := range order {
		n := int(pieces[i].n)
		row, left := room.take(n)
		if left < 0 {
			row, left = rows, p.T
			rows++
		}
		rowOf[i] = row
		room.give(row, left-n)
	}
	p.group(pieces, order, rowOf, int(rows))
}

// byLength orders pieces by falling length, equals as they came: a counting sort.
func byLength(pieces []piece, t int) []uint32 {
	starts := make([]int, t+2)
	for i := range pieces {
		starts[t-int(pieces[i].n)+1]++
	}
	for i := 1; i < len(starts); i++ {
		starts[i] += starts[i-1]
	}
	order := make([]uint32, len(pieces))
	for i := range pieces {
		k := t - int(pieces[i].n)
		order[starts[k]] = uint32(i)
		starts[k]++
	}
	return order
}

// group sorts the pieces by row.
func (p *Pack) group(pieces []piece, order, rowOf []uint32, rows int) {
	p.rows = make([]uint32, rows+1)
	for _, r := range rowOf {
		p.rows[r+1]++
	}
	for i := range rows {
		p.rows[i+1] += p.rows[i]
	}
	next := append([]uint32(nil), p.rows...)
	p.pieces = make([]piece, len(pieces))
	for _, i := range order {
		r := rowOf[i]
		p.pieces[next[r]] = pieces[i]
		next[r]++
	}
	p.Stats.Rows = rows
}

// rooms keeps the rows that still have room, by how much: a stack of rows for each amount, and a bit for each stack that is not empty.
type rooms struct {
	stacks [][]uint32
	bits   []uint64
}

func newRooms(t int) *rooms {
	return &rooms{stacks: make([][]uint32, t+1), bits: make([]uint64, t/64+1)}
}

func (r *rooms) give(row uint32, left int) {
	if left == 0 {
		return
	}
	r.stacks[left] = append(r.stacks[left], row)
	r.bits[left/64] |= 1 << (left % 64)
}

// take gives the row with the least room of at least n, and its room; −1 when there is none.
func (r *rooms) take(n int) (row uint32, left int) {
	for w := n / 64; w < len(r.bits); w++ {
		b := r.bits[w]
		if w == n/64 {
			b &= ^uint64(0) << (n % 64)
		}
		if b == 0 {
			continue
		}
		left = w*64 + bits.TrailingZeros64(b)
		s := r.stacks[left]
		row = s[len(s)-1]
		r.stacks[left] = s[:len(s)-1]
		if len(s) == 1 {
			r.bits[w] &^= 1 << (left % 64)
		}
		return row, left
	}
	return 0, -1
}
