package kernel

import "math"

// Span bounds what a row may see: positions [0, Sinks) and (pos-Window, pos]. Window 0 means everything up to pos.
type Span struct{ Window, Sinks int }

// quad is the number of query heads that share one reading of their keys and values, where so many have one KV head.
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
	group, acc := heads/kv.heads, scratch[:quad*kv.vdim]
	scores := scratch[quad*maxHeadDim:]
	ld := len(scores) / quad &^ (Panel - 1)
	for h := h0; h < h1; {
		n := 1
		if h+quad <= h1 && h%group+quad <= group {
			n = quad
		}
		inv := kv.weigh(scores, ld, q[h*kv.dim:(h+n)*kv.dim], n, h/group, pages, v, scale, softcap)
		clear(acc)
		kv.gather(acc, scores, ld, n, h/group, pages, 0, v.sinks)
		kv.gather(acc, scores, ld, n, h/group, pages, v.from, v.end)
		for i := range n {
			Scale(dst[(h+i)*kv.dim:(h+i+1)*kv.dim], acc[i*kv.vdim:][:kv.dim], inv[i])
		}
		h += n
	}
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

// weigh fills the scores of n heads, 1 or 4, by position and ld floats apart, with their exponentials and gives 1 over the sum of each.
func (kv *KV) weigh(scores []float32, ld int, q []float32, n, head int, pages []int32, v seen, scale, softcap float32) (inv [quad]float32) {
	b0, b1, b2 := v.blocks()
	if n == quad {
		kv.scoreQ4(scores, ld, q, head, pages, 0, b0, scale)
		kv.scoreQ4(scores, ld, q, head, pages, b1, b2, scale)
	} else {
		kv.score(scores, q, head, pages, 0, b0, scale)
		kv.score(scores, q, head, pages, b1, b2, scale)
	}
	for i := range n {
		inv[i] = v.exponentials(scores[i*ld:], b0, b1, b2, softcap)
	}
	return inv
}

// exponentials replaces the scores of a head by their exponentials and gives 1 over the sum.
func (v seen) exponentials(scores []float32, b0, b1, b2 int, softcap float32) float32 {
	low, high := scores[:b0*Panel], scores[b1*Panel:b2*Panel]
	if softcap > 0 {
		capScores(low, softcap)
		capScores(high, softcap)
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

func capScores(x []float32, softcap float32) {
	for i, v := range x {
		x[i] = softcap * tanh32(v/softcap)
	}
}

// score fills scores of pages [lo, hi) with scale*q.k, four pages at a time where there are four.
func (kv *KV) score(scores, q []float32, head int, pages []int32, lo, hi int, scale float32) {
	for ; lo+4 <= hi; lo += 4 {
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

// scoreQ4 is score for four heads.
func (kv *KV) scoreQ4(scores []float32, ld int, q []float32, head int, pages []int32, lo, hi int, scale float32) {
	for ; lo < hi; lo++ {
		if kv.half != nil {
			dotPageHalfQ4(scores[lo*Panel:], ld, q, kv.dim, kv.dim, keys(kv, kv.half, pages[lo], head), scale)
		} else {
			dotPageQ4(scores[lo*Panel:], ld, q, kv.dim, kv.dim, keys(kv, kv.f32, pages[lo], head), scale)
		}
	}
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

// gather adds the values of positions [lo, hi), weighted for each of n heads, 1 or 4, to their sums in acc.
func (kv *KV) gather(acc, weights []float32, ld, n, head int, pages []int32, lo, hi int) {
	for lo < hi {
		b := lo / Panel
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
