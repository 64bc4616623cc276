package kernel

import "math"

// Span bounds what a row may see: positions [0, Sinks) and (pos-Window, pos]. Window 0 means everything up to pos.
type Span struct{ Window, Sinks int }

// quad is the number of queries that share one reading of keys and values: heads of one KV head, or rows of one sequence. wide is the number of heads of a row that go
// through the pages together, as long as their scores fit scoreFloats.
const (
	quad        = 4
	wide        = 16
	scoreFloats = 64 << 10
)

// AttendScratch gives the number of floats of scratch that Attend needs for positions below maxPos: sums and scores of the heads that run together.
func AttendScratch(maxPos int) int {
	ld := scoreStride((maxPos + Panel - 1) / Panel)
	return wide*maxHeadDim + max(quad*ld, min(wide*ld, scoreFloats))
}

// scoreStride is the distance of the scores of two heads: a page more than they need, since those of all heads at a distance of 4 KiB would fall on the same cache sets.
func scoreStride(pages int) int { return (pages + 1) * Panel }

// Attend computes attention of one row at position pos: query heads [h0, h1) of heads; q and dst are [heads*dim], and head h reads KV head h/(heads/kv.Heads()).
// pages[b] holds positions 16b to 16b+15; pages wholly outside the span are never touched and may be -1. scores are scale*q.k, or softcap*tanh(scale*q.k/softcap)
// when softcap > 0. scratch holds AttendScratch(pos+1) floats, one per caller.
//
// The order is fixed: all scores, their maximum, exponentials summed by position mod 16 in ascending order, then the values weighted in ascending order of position with
// one rounding a step, and a division by the sum at the end. Positions outside the span add nothing, not even zero. In q8 a score is (the sum over q*code) * (the scale of
// the keys * scale), and a weight is multiplied by the scale of the values first.
//
// All heads pass a page before the next page is read: their parts of it lie in one run.
func Attend(dst, q []float32, kv *KV, pages []int32, pos int, s Span, h0, h1, heads int, scale, softcap float32, scratch []float32) {
	ld := scoreStride(pos/Panel + 1)
	step := max(quad, min(wide, scoreFloats/ld)&^(quad-1))
	for v, h := s.view(pos), h0; h < h1; h += step {
		c := call{kv: kv, pages: pages, ld: ld, scale: scale, softcap: softcap, scratch: scratch}
		c.divide(h, min(h+step, h1), heads/kv.heads)
		for i := range c.n {
			c.dst[i], c.view[i] = dst[(h+i)*kv.dim:(h+i+1)*kv.dim], v
		}
		c.run(q[h*kv.dim:], kv.dim)
	}
}

// AttendRows is Attend for one head h of four rows of one sequence that see everything up to their own position, positions ascending. q starts at the first row's queries, rows
// lie ldq floats apart; dst are the rows' outputs; pages is the table of the last row. The bits are those of Attend.
func AttendRows(dst *[4][]float32, q []float32, ldq int, kv *KV, pages []int32, pos *[4]int, h, heads int, scale, softcap float32, scratch []float32) {
	c := call{kv: kv, pages: pages, ld: scoreStride(pos[quad-1]/Panel + 1), scale: scale, softcap: softcap, scratch: scratch, n: quad, units: 1}
	c.unit[0] = unit{head: h / (heads / kv.heads), n: quad, shared: true}
	for i, p := range pos {
		c.dst[i], c.view[i] = dst[i][h*kv.dim:(h+1)*kv.dim], Span{}.view(p)
	}
	c.run(q[h*kv.dim:], ldq)
}

// call is the attention of n queries: heads of one row, which see the same, or four rows of one head from position 0 on, each a little further than the one before.
type call struct {
	kv             *KV
	pages          []int32
	n, units, ld   int
	dst            [wide][]float32
	view           [wide]seen
	unit           [wide]unit
	scale, softcap float32
	scratch        []float32
}

// unit is up to four queries that pass a page in one step: query i reads KV head head+i, or all read the same.
type unit struct {
	query, head, n int
	shared         bool
}

// divide makes units of query heads [h0, h1), group of them a KV head.
func (c *call) divide(h0, h1, group int) {
	c.n = h1 - h0
	for h := h0; h < h1; c.units++ {
		n := min(quad, group-h%group, h1-h)
		if group == 1 {
			n = tile(h1-h, quad)
		}
		c.unit[c.units] = unit{query: h - h0, head: h / group, n: n, shared: group > 1}
		h += n
	}
}

func (c *call) run(q []float32, ldq int) {
	kv, first := c.kv, c.view[0]
	acc, scores := c.scratch[:c.n*kv.vdim], c.scratch[wide*maxHeadDim:]
	b0, b1, b2 := c.view[c.n-1].blocks()
	c.score(scores, q, ldq, 0, b0)
	c.score(scores[b0*Panel:], q, ldq, b1, b2)
	var inv [wide]float32
	for i := range c.n {
		inv[i] = c.view[i].weigh(scores[i*c.ld:], c.softcap)
	}
	clear(acc)
	gap := (b1 - b0) * Panel
	c.gather(acc, scores, 0, first.sinks)
	c.gather(acc, scores[max(0, first.from-gap):], first.from, first.end)
	for i := range c.n {
		sums := acc[i*kv.vdim:][:kv.vdim]
		if lo, hi := first.end, c.view[i].end; lo < hi {
			pages := c.pages[lo/Panel : (hi-1)/Panel+1]
			kv.addValues(sums, scores[i*c.ld+lo-gap:], 0, pages, pages[len(pages)-1], c.unit[0].head, lo%Panel, hi-lo, 1)
		}
		Scale(c.dst[i], sums[:kv.dim], inv[i])
	}
}

// runPages is how many pages one head after the other passes: few enough that what a page holds for all heads is read in nearly one run, and stays in the second cache for heads
// that share it.
const runPages = 4

// score writes the scores of pages [lo, hi), those of a query behind each other.
func (c *call) score(scores, q []float32, ldq, lo, hi int) {
	for b := lo; b < hi; b += runPages {
		end := min(b+runPages, hi)
		after := c.pages[min(end, hi-1)]
		for i := range c.unit[:c.units] {
			u := &c.unit[i]
			c.kv.dot(scores[u.query*c.ld+(b-lo)*Panel:], c.ld, q[u.query*ldq:], ldq, c.pages[b:end], after, u, c.scale)
		}
	}
}

// gather adds the values of positions [lo, hi) to the sums of each query; weights begin at position lo.
func (c *call) gather(acc, weights []float32, lo, hi int) {
	for lo < hi {
		b, last := lo/Panel, (hi-1)/Panel
		end := min(hi, (b+runPages)*Panel)
		pages, after := c.pages[b:(end-1)/Panel+1], c.pages[min(b+runPages, last)]
		for i := range c.unit[:c.units] {
			c.addValues(acc, weights, pages, after, &c.unit[i], lo%Panel, end-lo)
		}
		weights = weights[end-lo:]
		lo = end
	}
}

// addValues is gather for the queries of a unit.
func (c *call) addValues(acc, weights []float32, pages []int32, after int32, u *unit, lane, rows int) {
	vdim := c.kv.vdim
	if u.shared && u.n == quad {
		c.kv.addValues(acc[u.query*vdim:], weights[u.query*c.ld:], c.ld, pages, after, u.head, lane, rows, quad)
		return
	}
	for j := range u.n {
		head := u.head
		if !u.shared {
			head += j
		}
		c.kv.addValues(acc[(u.query+j)*vdim:], weights[(u.query+j)*c.ld:], 0, pages, after, head, lane, rows, 1)
	}
}

// dotGeneric sums over the head's width in ascending order, one lane a position.
func (kv *KV) dotGeneric(out []float32, ldo int, q []float32, ldq int, pages []int32, u *unit, scale float32) {
	for b, page := range pages {
		for i := range u.n {
			head := u.head
			if !u.shared {
				head += i
			}
			var acc, k [Panel]float32
			for d, x := range q[i*ldq : i*ldq+kv.dim] {
				kv.widen(k[:], kv.keyAt(page, head)+d*Panel)
				for l, kx := range k {
					acc[l] = fma32(kx, x, acc[l])
				}
			}
			for l, s := range acc {
				f := scale
				if kv.t == Q8_0 {
					f = kv.scales[kv.keyScaleAt(page, head)+l] * scale
				}
				out[i*ldo+b*Panel+l] = s * f
			}
		}
	}
}

// addValuesGeneric adds w[i] times the values of the i-th position, i < rows, from lane of the first page on, to the sums of n queries, positions ascending, one rounding a step.
func (kv *KV) addValuesGeneric(acc, w []float32, ldw int, pages []int32, head, lane, rows, n int) {
	var v [maxHeadDim]float32
	row := v[:kv.vdim]
	for i := range rows {
		page, at := pages[(lane+i)/Panel], (lane+i)%Panel
		kv.widen(row, kv.valueAt(page, head, at))
		for j := range n {
			x, sums := w[j*ldw+i], acc[j*kv.vdim:][:kv.vdim]
			if kv.t == Q8_0 {
				x *= kv.scales[kv.valueScaleAt(page, head)+at]
			}
			for d, y := range row {
				sums[d] = fma32(y, x, sums[d])
			}
		}
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

// weigh replaces the scores of a query, which are those of the pages that it sees, one after the other, by their exponentials and gives 1 over the sum.
func (v seen) weigh(scores []float32, softcap float32) float32 {
	b0, b1, b2 := v.blocks()
	scores = scores[:(b0+b2-b1)*Panel]
	if softcap > 0 {
		Softcap(scores, softcap)
	}
	gap := (b1 - b0) * Panel
	mask(scores, v.sinks, min(v.from, b0*Panel))
	mask(scores, max(b1*Panel, v.sinks)-gap, v.from-gap)
	mask(scores, v.end-gap, len(scores))
	return softmax(scores)
}

// mask makes positions [lo, hi) of pages that are seen in part weigh nothing.
func mask(scores []float32, lo, hi int) {
	for i := lo; i < hi; i++ {
		scores[i] = float32(math.Inf(-1))
	}
}
