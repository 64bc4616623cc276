package kernel

import (
	"math"
	"sync/atomic"

	"tinyloop/internal/invariants"
)

// Input holds up to a fixed number of activation rows of one width: f32, and beside them the forms that products with other formats read. Different workers
// may write and Prepare different rows at once.
type Input struct {
	rows, k int
	ldx     int // floats from row to row
	x       []float32
	short   [shortSlots]shortRows

	blocks int     // per row, 0 when k is no multiple of 32
	q      []int8  // [rows][k]
	wide   []int16 // [rows][blocks][2][16]: the codes as words, see widen
	metas
}

// metas stands beside the codes, [rows][blocks] each: the scale of each block, and what a kind of product adds to its integers, so that a product reads no
// more than it needs.
type metas struct {
	sums   []blockMeta // the sum of the codes
	evens  []blockMeta // -128 times the codes at even places
	fours  []blockMeta // two halves of 16 bits: -8 times the codes at places 0, 1 and at places 2, 3 mod 4
	halves []halfMeta
}

type blockMeta struct {
	scale float32
	sum   int32
}

// halfMeta has -32 times the codes at places 0, 1 and at places 2, 3 mod 4 of the first and the second 16 of a block.
type halfMeta struct {
	scale float32
	_     int32
	sum   [2][2]int16
}

func newMetas(n int) metas {
	return metas{sums: make([]blockMeta, n), evens: make([]blockMeta, n), fours: make([]blockMeta, n), halves: make([]halfMeta, n)}
}

// cut gives blocks [lo, hi).
func (m *metas) cut(lo, hi int) metas {
	return metas{sums: m.sums[lo:hi], evens: m.evens[lo:hi], fours: m.fours[lo:hi], halves: m.halves[lo:hi]}
}

// NewInput makes room for rows of width k. Rows are kept off multiples of 2 KiB: at such strides the rows of one product would fight for the same
// sets of the cache.
func NewInput(rows, k int) *Input {
	in := &Input{rows: rows, k: k, ldx: roundUp(k, Panel)}
	if in.ldx%512 == 0 {
		in.ldx += Panel
	}
	in.x = make([]float32, rows*in.ldx)
	if k%qk == 0 {
		in.blocks = k / qk
		in.q, in.wide = make([]int8, rows*k), make([]int16, rows*k)
		in.metas = newMetas(rows * in.blocks)
	}
	return in
}

// Part gives rows [lo, hi) as an input of their own, in the same memory.
func (in *Input) Part(lo, hi int) *Input {
	p := &Input{rows: hi - lo, k: in.k, ldx: in.ldx, blocks: in.blocks, x: in.x[lo*in.ldx : hi*in.ldx]}
	if in.blocks > 0 {
		p.q, p.wide, p.metas = in.q[lo*in.k:hi*in.k], in.wide[lo*in.k:hi*in.k], in.metas.cut(lo*in.blocks, hi*in.blocks)
	}
	return p
}

// Rows gives the number of rows there is room for, Width their width.
func (in *Input) Rows() int  { return in.rows }
func (in *Input) Width() int { return in.k }

// F32 gives row i, width values, to write before Prepare. It stays valid as long as the Input.
func (in *Input) F32(i int) []float32 { return in.x[i*in.ldx : i*in.ldx+in.k : i*in.ldx+in.k] }

// Prepare makes rows [lo, hi) ready for products with w: it quantises them if w is quantised and does nothing otherwise. It depends on the rows' values only,
// so that doing it twice changes nothing. Callers put a barrier between the last Prepare and MatMul.
func (in *Input) Prepare(w *Matrix, lo, hi int) {
	invariants.Check(w.K == in.k, "kernel: input width differs from the matrix")
	if !w.quantised() {
		return
	}
	for r := lo; r < hi; r++ {
		quantiseRow(in.q[r*in.k:(r+1)*in.k], in.wide[r*in.k:(r+1)*in.k], in.metas.cut(r*in.blocks, (r+1)*in.blocks), in.F32(r))
	}
}

// shortRows are the rows rounded to 11 bits, as products with f16 weights read them. A call of MatMul makes them for itself, which costs less than a
// barrier; it claims one of a few places for them, which stay allocated.
type shortRows struct {
	busy atomic.Bool
	x    []float32
}

// shortSlots is the number of calls that find a place at the same time; more calls take fresh memory.
const shortSlots = 16

// rounded gives rows [0, rows) rounded to 11 bits, at the input's stride, and the place to release after use, nil for fresh memory.
func (in *Input) rounded(rows int) ([]float32, *shortRows) {
	var x []float32
	slot := in.claim()
	if slot == nil {
		x = make([]float32, len(in.x))
	} else {
		if slot.x == nil {
			slot.x = make([]float32, len(in.x))
		}
		x = slot.x
	}
	for r := range rows {
		roundRow(x[r*in.ldx:r*in.ldx+in.k], in.F32(r))
	}
	return x, slot
}

func (in *Input) claim() *shortRows {
	for i := range in.short {
		if s := &in.short[i]; s.busy.CompareAndSwap(false, true) {
			return s
		}
	}
	return nil
}

func (s *shortRows) release() {
	if s != nil {
		s.busy.Store(false)
	}
}

// roundRowGeneric writes x rounded to 11 bits.
func roundRowGeneric(dst, x []float32) {
	for i, v := range x {
		dst[i] = round11(v)
	}
}

// The limits of the activation quantiser, as bits of |x|: below tinyBits (2^-100) the whole block counts as zero, since 127/amax would leave the range; from
// infBits on (infinity, NaN) the block's scale is NaN, so that a poisoned row shows instead of passing as numbers.
const (
	tinyBits = (127 - 100) << 23
	infBits  = 0x7f800000
)

// quantiseRowGeneric writes the codes of x, len(x) a multiple of 32: per block scale = amax/127 rounded to 11 bits, code = x*(127/amax) rounded to nearest even, and
// the sums of the codes; wide are the codes as words. (The scale is 11 bits wide because the tools that made today's quantised files keep it so, and their models answer with the same tokens here.)
func quantiseRowGeneric(q []int8, wide []int16, meta metas, x []float32) {
	for b := range meta.sums {
		codes := q[b*qk : b*qk+qk]
		meta.set(b, codes, quantiseBlock(codes, x[b*qk:b*qk+qk]))
		widen(wide[b*qk:b*qk+qk], codes)
	}
}

// set writes what stands beside block b.
func (m *metas) set(b int, codes []int8, scale float32) {
	var sum, even int32
	var four [2]int16
	half := halfMeta{scale: scale}
	for i, c := range codes {
		sum += int32(c)
		even -= int32(1-i%2) * 128 * int32(c)
		four[i%4/2] -= 8 * int16(c)
		half.sum[i/(qk/2)][i%4/2] -= 32 * int16(c)
	}
	m.sums[b], m.evens[b] = blockMeta{scale, sum}, blockMeta{scale, even}
	m.fours[b] = blockMeta{scale, int32(uint32(uint16(four[0])) | uint32(uint16(four[1]))<<16)}
	m.halves[b] = half
}

// widen writes the codes as products with layQ8 read them, c(2i) and c(2i+1) being a pair: first c(2i) of all pairs, then c(2i+1) - 256*c(2i).
func widen(wide []int16, codes []int8) {
	even, odd := wide[:qk/2], wide[qk/2:qk]
	for i := range even {
		even[i] = int16(codes[2*i])
		odd[i] = int16(codes[2*i+1]) - even[i]<<8
	}
}

// quantiseBlock writes the codes of one block and gives its scale.
func quantiseBlock(q []int8, x []float32) float32 {
	var top uint32
	for _, v := range x {
		top = max(top, math.Float32bits(v)&0x7fffffff)
	}
	if top < tinyBits || top >= infBits {
		clear(q)
		if top >= infBits {
			return math.Float32frombits(0x7fc00000)
		}
		return 0
	}
	amax := math.Float32frombits(top)
	inv := 127 / amax
	for i, v := range x {
		// Adding the magic number rounds to nearest even, as the vector conversion does; |v*inv| is at most 127.00003.
		c := int32(math.Float32bits(float32(v*inv)+expMagic)) - int32(math.Float32bits(expMagic))
		q[i] = int8(c)
	}
	return round11(amax / 127)
}
