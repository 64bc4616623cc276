package kernel

import "math"

// Span bounds what a row may see: positions [0, Sinks) and (pos-Window, pos]. Window 0 means everything up to pos.
type Span struct{ Window, Sinks int }

// quad is the number of queries that share one reading of keys and values: heads of one KV head, or rows of one sequence.
const quad = 4

// AttendScratch gives the number of floats of scratch that Attend needs for positions below maxPos: sums and scores of four heads.
func AttendScratch(maxPos int) int { return quad * (roundUp(maxPos, Panel) + Panel + maxHeadDim) }

// Attend computes attention of one row at position pos: query heads [h0, h1) of heads; q and dst are [heads*dim], and head h reads KV head h/(heads/kv.Heads()).
// pages[b] holds positions 16b to 16b+15; pages wholly outside the span are never touched and may be -1. scores are scale*q.k, or softcap*tanh(scale*q.k/softcap)
// when softcap > 0. scratch holds AttendScratch(pos+1) floats, one per caller.
//
// The order is fixed: all scores, their maximum, exponentials summed by position mod 16 in ascending order, then the values weighted in ascending order of position with
// one rounding a step, and a division by the sum at the end. Positions outside the span add nothing, not even zero.
func Attend(dst, q []float32, kv *KV, pages []int32, pos int, s Span, h0, h1, heads int, scale, softcap float32, scratch []float32) {
	v := s.view(pos)
	group := heads / kv.heads
	for h := h0; h < h1; {
		c := call{kv: kv, head: h / group, pages: pages, n: 1, q: q[h*kv.dim:], ldq: kv.dim, scale: scale, softcap: softcap}
		if h+quad <= h1 && h%group+quad <= group {
			c.n = quad
		}
		for i := range c.n {
			c.dst[i], c.view[i] = dst[(h+i)*kv.dim:(h+i+1)*kv.dim], v
		}
		c.run(scratch)
		h += c.n
	}
}

// AttendRows is Attend for one head h of four rows of one sequence that see everything up to their own position, positions ascending. q starts at the first row's queries, rows
// lie ldq floats apart; dst are the rows' outputs; pages is the table of the last row. The bits are those of Attend.
func AttendRows(dst *[4][]float32, q []float32, ldq int, kv *KV, pages []int32, pos *[4]int, h, heads int, scale, softcap float32, scratch []float32) {
	c := call{kv: kv, head: h / (heads / kv.heads), pages: pages, n: quad, q: q[h*kv.dim:], ldq: ldq, scale: scale, softcap: softcap}
	for i, p := range pos {
		c.dst[i], c.view[i] = dst[i][h*kv.dim:(h+1)*kv.dim], Span{}.view(p)
	}
	c.run(scratch)
}

// call is the attention of one or four queries with one KV head: four heads of a row, which see the same, or four rows from position 0 on, each a little further than the
// one before.
type call struct {
	kv             *KV
	head           int
	pages          []int32
	n              int // 1 or 4
	q              []float32
	ldq            int
	dst            [quad][]float32
	view           [quad]seen
	scale, softcap float32
}

func (c *call) run(scratch []float32) {
	kv, last := c.kv, c.view[c.n-1]
	acc, scores := scratch[:quad*kv.vdim], scratch[quad*maxHeadDim:]
	ld := len(scores) / quad &^ (Panel - 1)
	b0, b1, b2 := last.blocks()
	c.score(scores, ld, 0, b0)
	c.score(scores, ld, b1, b2)
	var inv [quad]float32
	for i := range c.n {
		inv[i] = c.view[i].exponentials(scores[i*ld:], c.softcap)
	}
	clear(acc)
	first := c.view[0]
	kv.gather(acc, scores, ld, c.n, c.head, c.pages, 0, first.sinks)
	kv.gather(acc, scores, ld, c.n, c.head, c.pages, first.from, first.end)
	for i := range c.n {
		sums := acc[i*kv.vdim:][:kv.vdim]
		kv.gather(sums, scores[i*ld:], ld, 1, c.head, c.pages, first.end, c.view[i].end)
		Scale(c.dst[i], sums[:kv.dim], inv[i])
	}
}

// score fills the scores of pages [lo, hi), ld floats from query to query.
func (c *call) score(scores []float32, ld, lo, hi int) {
	if c.n == 1 {
		c.kv.score(scores, c.q[:c.kv.dim], c.head, c.pages, lo, hi, c.scale)
		return
	}
	c.kv.scoreQ4(scores, ld, c.q, c.ldq, c.head, c.pages, lo, hi, c.scale)
}

// seen is what a row sees: positions [0, sinks) and [from, end), sinks <= from.
type seen struct{ sinks, from, end int }

func (s Span) view(pos int) seen {
	from := 0
	if s.Window > 0 {
		from = max(0, pos+1-s.Window)
	}
	if s.Sinks >= from {
		return seen{0, 0, pos + 1}
	}
	return seen{max(0, s.Sinks), from, pos + 1}
}

// blocks gives the pages seen, [0, b0) and [b1, b2), b0 <= b1.
func (v seen) blocks() (b0, b1, b2 int) {
	b0 = (v.sinks + Panel - 1) / Panel
	return b0, max(b0, v.from/Panel), (v.end + Panel - 1) / Panel
}

// exponentials replaces the scores of a head by their exponentials and gives 1 over the sum.
func (v seen) exponentials(scores []float32, softcap float32) float32 {
	b0, b1, b2 := v.blocks()
	low, high := scores[:b0*Panel], scores[b1*Panel:b2*Panel]
	if softcap > 0 {
		Softcap(low, softcap)
		Softcap(high, softcap)
	}
	v.mask(scores, b0, b1, b2)
	top := max32(maxOf(low), maxOf(high))
	var sums [Panel]float32
	expSum(low, top, &sums)
	expSum(high, top, &sums)
	return 1 / foldLanes(sums[:])
}

// mask sets the scores of unseen positions of touched pages to -Inf.
func (v seen) mask(scores []float32, b0, b1, b2 int) {
	inf := float32(math.Inf(-1))
	fill := func(lo, hi int) {
		for i := lo; i < hi; i++ {
			scores[i] = inf
		}
	}
	fill(v.sinks, min(v.from, b0*Panel))
	fill(max(b1*Panel, v.sinks), v.from)
	fill(v.end, b2*Panel)
}

// score fills scores of pages [lo, hi) with scale*q.k, four pages at a time where there are four.
func (kv *KV) score(scores, q []float32, head int, pages []int32, lo, hi int, scale float32) {
	far := kv.far(hi - lo)
	for ; lo+4 <= hi; lo += 4 {
		if far {
			for b := lo + 4; b < min(lo+8, hi); b++ {
				kv.ask(pages[b], head, 0)
			}
		}
		if p := (*[4]int32)(pages[lo:]); kv.half != nil {
			dotPages4F16(scores[lo*Panel:], q, keys(kv, kv.half, p[0], head), keys(kv, kv.half, p[1], head), keys(kv, kv.half, p[2], head), keys(kv, kv.half, p[3], head), scale)
		} else {
			dotPages4(scores[lo*Panel:], q, keys(kv, kv.f32, p[0], head), keys(kv, kv.f32, p[1], head), keys(kv, kv.f32, p[2], head), keys(kv, kv.f32, p[3], head), scale)
		}
	}
	for ; lo < hi; lo++ {
		if kv.half != nil {
			dotPageF16(scores[lo*Panel:], q, keys(kv, kv.half, pages[lo], head), scale)
		} else {
			dotPage(scores[lo*Panel:], q, keys(kv, kv.f32, pages[lo], head), scale)
		}
	}
}

// scoreQ4 is score for four queries.
func (kv *KV) scoreQ4(scores []float32, ld int, q []float32, ldq, head int, pages []int32, lo, hi int, scale float32) {
	far := kv.far(hi - lo)
	for ; lo < hi; lo++ {
		if far && lo+askAhead < hi {
			kv.ask(pages[lo+askAhead], head, 0)
		}
		if kv.half != nil {
			dotPageHalfQ4(scores[lo*Panel:], ld, q, ldq, kv.dim, keys(kv, kv.half, pages[lo], head), scale)
		} else {
			dotPageQ4(scores[lo*Panel:], ld, q, ldq, kv.dim, keys(kv, kv.f32, pages[lo], head), scale)
		}
	}
}

// Pages lie anywhere in memory and one head's part of one is short, so the processor cannot guess what comes next: reads of halves from stores of a slot beyond
// farBytes ask for what lies askAhead pages further on. For f32, whose parts are twice as long, and for what the cache holds, that costs more than it gives.
const (
	farBytes = 2 << 20
	askAhead = 4
)

// far says whether so many pages of a sequence are worth asking for ahead.
func (kv *KV) far(pages int) bool { return kv.half != nil && pages*kv.PageBytes() >= farBytes }

// ask asks for the keys (from 0) or values (from dim*Panel) of one head of a page of halves.
func (kv *KV) ask(page int32, head, from int) {
	at := int(page)*kv.page + head*kv.head + from
	fetch(kv.mem.mem[2*at : 2*(at+kv.dim*Panel)])
}

// keys gives K of one head of one page, [dim][16]. (A function, not a method, since the two stores differ in type.)
func keys[T float32 | uint16](kv *KV, store []T, page int32, head int) []T {
	at := int(page)*kv.page + head*kv.head
	return store[at : at+kv.dim*Panel]
}

// dotPageGeneric sums over the head's width in ascending order, one lane a position.
func dotPageGeneric(out, q, k []float32, scale float32) {
	var acc [Panel]float32
	for d, x := range q {
		for l, kx := range (*[Panel]float32)(k[d*Panel:]) {
			acc[l] = fma32(kx, x, acc[l])
		}
	}
	for l, s := range acc {
		out[l] = s * scale
	}
}

func dotPageF16Generic(out, q []float32, k []uint16, scale float32) {
	var acc [Panel]float32
	for d, x := range q {
		for l, kx := range (*[Panel]uint16)(k[d*Panel:]) {
			acc[l] = fma32(F16ToF32(kx), x, acc[l])
		}
	}
	for l, s := range acc {
		out[l] = s * scale
	}
}

// gather adds the values of positions [lo, hi), weighted for each of n queries, 1 or 4, to their sums in acc.
func (kv *KV) gather(acc, weights []float32, ld, n, head int, pages []int32, lo, hi int) {
	far := kv.far((hi - lo) / Panel)
	for lo < hi {
		b := lo / Panel
		if far && (b+askAhead)*Panel < hi {
			kv.ask(pages[b+askAhead], head, kv.dim*Panel)
		}
		end := min(hi, (b+1)*Panel)
		at := int(pages[b])*kv.page + head*kv.head + kv.dim*Panel + lo%Panel*kv.vdim
		size := (end - lo) * kv.vdim
		switch {
		case n == quad && kv.half != nil:
			addValuesHalfQ4(acc, kv.vdim, kv.vdim, weights[lo:], ld, end-lo, kv.half[at:at+size])
		case n == quad:
			addValuesQ4(acc, kv.vdim, kv.vdim, weights[lo:], ld, end-lo, kv.f32[at:at+size])
		case kv.half != nil:
			addValuesF16(acc[:kv.vdim], weights[lo:end], kv.half[at:at+size])
		default:
			addValues(acc[:kv.vdim], weights[lo:end], kv.f32[at:at+size])
		}
		lo = end
	}
}

// addValuesGeneric adds w[i] times row i of v to acc, rows ascending, len(acc) values a row, one rounding a step.
func addValuesGeneric(acc, w, v []float32) {
	for i, x := range w {
		row := v[i*len(acc) : (i+1)*len(acc)]
		for d, y := range row {
			acc[d] = fma32(y, x, acc[d])
		}
	}
}

func addValuesF16Generic(acc, w []float32, v []uint16) {
	for i, x := range w {
		row := v[i*len(acc) : (i+1)*len(acc)]
		for d, y := range row {
			acc[d] = fma32(F16ToF32(y), x, acc[d])
		}
	}
}
