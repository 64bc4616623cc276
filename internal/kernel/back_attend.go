package kernel

import "math"

// Rows is a matrix in a slice: row r begins at X[r*Ld].
type Rows struct {
	X  []float32
	Ld int
}

// at gives the matrix from row r and column i on.
func (m Rows) at(r, i int) Rows { return Rows{m.X[r*m.Ld+i:], m.Ld} }

func (m Rows) row(r, n int) []float32 { return m.X[r*m.Ld : r*m.Ld+n] }

// CausalHead is the attention of training: one head over one sequence of T positions, each of which sees the positions from its Start (or the window's) to itself.
// A block of queries meets all its keys at once: scores by a product, softmax by rows, values by a product. The backward pass computes the probabilities again from
// the kept log-sum-exp, as FlashAttention does (Dao et al., 2022), so that nothing of size T*T is kept.
type CausalHead struct {
	T, Dim  int
	Scale   float32
	Softcap float32 // 0 means none
	Window  int     // positions seen at most, itself included; 0 means all
	Start   []int32 // of each position; nil means 0
}

// attendRows is the number of queries of a block, a multiple of gemmRows: small, since a block computes scores up to its last query for all of its queries.
const attendRows = 24

// Scratch gives the floats that Forward and Backward want as scratch.
func (h *CausalHead) Scratch() int {
	return 3*GemmPackLen(h.Dim, h.keys()) + (2*attendRows+1)*h.ld()
}

func (h *CausalHead) keys() int { return roundUp(h.T, Panel) }

// ld is the stride of a block of scores: an odd number of cache lines, so that the rows of a tile lie in different sets.
func (h *CausalHead) ld() int { return h.keys() | Panel }

// first gives the first position that position t sees.
func (h *CausalHead) first(t int) int {
	lo := 0
	if h.Start != nil {
		lo = max(lo, int(h.Start[t]))
	}
	if h.Window > 0 {
		lo = max(lo, t-h.Window+1)
	}
	return min(lo, t)
}

// span gives the keys that queries [t0, t1) meet, in whole panels.
func (h *CausalHead) span(t0, t1 int) (lo, hi int) {
	lo = t0
	for t := t0; t < t1; t++ {
		lo = min(lo, h.first(t))
	}
	return lo &^ (Panel - 1), roundUp(t1, Panel)
}

// attendScratch is Scratch, cut up.
type attendScratch struct {
	kt, vt, kn []float32 // packed: keys times Scale and values, both turned, for scores; keys (or values, in the forward pass) as they lie
	s, dp      Rows      // scores, then probabilities, of a block; their gradients
	capped     []float32
}

func (h *CausalHead) cut(tmp []float32) attendScratch {
	next := func(n int) []float32 {
		x := tmp[:n]
		tmp = tmp[n:]
		return x
	}
	pack, ld := GemmPackLen(h.Dim, h.keys()), h.ld()
	return attendScratch{
		kt: next(pack), vt: next(pack), kn: next(pack),
		s: Rows{next(attendRows * ld), ld}, dp: Rows{next(attendRows * ld), ld}, capped: next(ld),
	}
}

// packKeys packs the keys times Scale for scores.
func (h *CausalHead) packKeys(dst []float32, k Rows) {
	dst = dst[:GemmPackLen(h.T, h.Dim)]
	GemmPackNT(dst, k.X, k.Ld, h.T, h.Dim)
	Scale(dst, dst, h.Scale)
}

// packWhole packs the T rows of m as the rows of B, with zeros up to a whole panel.
func (h *CausalHead) packWhole(dst []float32, m Rows) {
	for p := 0; p < h.Dim; p += Panel {
		panel := dst[p*h.keys() : (p+Panel)*h.keys()]
		packColumns(panel, m.X[p:], m.Ld, min(Panel, h.Dim-p), h.T)
		clear(panel[h.T*Panel:])
	}
}

// Forward writes the heads' outputs o[T][Dim] and lse[T], the log-sum-exp of each position's scores. tmp holds Scratch values.
func (h *CausalHead) Forward(o Rows, lse []float32, q, k, v Rows, tmp []float32) {
	s := h.cut(tmp)
	h.packKeys(s.kt, k)
	h.packWhole(s.kn, v)
	for t0 := 0; t0 < h.T; t0 += attendRows {
		t1 := min(h.T, t0+attendRows)
		lo, hi := h.span(t0, t1)
		h.scores(&s, q.at(t0, 0), t1-t0, lo, hi)
		var norm [attendRows]float32
		for t := t0; t < t1; t++ {
			row := h.masked(s.s.row(t-t0, hi), t, lo)
			top, sum := softmaxRow(row)
			lse[t], norm[t-t0] = top+log32(sum), 1/sum
		}
		out := o.at(t0, 0)
		h.weighted(out, s.s, s.kn, t1-t0, lo, hi)
		scaleRows(out.X, out.Ld, h.Dim, norm[:t1-t0])
	}
}

// scores writes Scale*q.k of a block, capped where there is a cap.
func (h *CausalHead) scores(s *attendScratch, q Rows, rows, lo, hi int) {
	h.dots(s.s, q, s.kt, rows, lo, hi)
	for i := 0; i < rows && h.Softcap > 0; i++ {
		Softcap(s.s.row(i, hi)[lo:], h.Softcap)
	}
}

// dots multiplies rows of a with the packed rows lo to hi of b.
func (h *CausalHead) dots(out, a Rows, bt []float32, rows, lo, hi int) {
	t := gemmTiles{a: a.X, rs: a.Ld, ks: 1, step: gemmRows * a.Ld, rows: rows}
	for p := lo; p < hi; p += Panel {
		gemmPanel(out.X[p:], out.Ld, Panel, t, bt[p*h.Dim:], Panel, h.Dim, false)
	}
}

// weighted writes the sum of rows lo to hi of the packed b, weighted by w.
func (h *CausalHead) weighted(out, w Rows, b []float32, rows, lo, hi int) {
	for k0, depth := lo, 0; k0 < hi; k0 += depth {
		depth = evenPart(hi-k0, gemmDepth)
		t := gemmTiles{a: w.X[k0:], rs: w.Ld, ks: 1, step: gemmRows * w.Ld, rows: rows}
		for p := 0; p < h.Dim; p += Panel {
			gemmPanel(out.X[p:], out.Ld, min(Panel, h.Dim-p), t, b[p*h.keys()+k0*Panel:], Panel, depth, k0 > lo)
		}
	}
}

// gather adds to rows lo to hi of out what queries of a block give them: the rows of b, weighted by the columns of w.
func (h *CausalHead) gather(out, w, b Rows, rows, lo, hi int) {
	t := gemmTiles{a: w.X[lo:], rs: 1, ks: w.Ld, step: gemmRows, rows: min(hi, h.T) - lo}
	whole := h.Dim &^ (Panel - 1)
	for p := 0; p < whole; p += Panel {
		gemmPanel(out.X[lo*out.Ld+p:], out.Ld, Panel, t, b.X[p:], b.Ld, rows, true)
	}
	if whole < h.Dim { // b is not packed: a panel would be read beyond its end
		gemmPanelGeneric(out.X[lo*out.Ld+whole:], out.Ld, h.Dim-whole, t, b.X[whole:], b.Ld, rows, true)
	}
}

// masked gives the whole panels of scores, the row of position t from 0 on, that t sees something of, with -Inf for what it does not see; everything from lo on
// that lies outside becomes 0.
func (h *CausalHead) masked(row []float32, t, lo int) []float32 {
	negInf := float32(math.Inf(-1))
	first := h.first(t)
	from, to := first&^(Panel-1), roundUp(t+1, Panel)
	clear(row[lo:from])
	clear(row[to:])
	for i := from; i < first; i++ {
		row[i] = negInf
	}
	for i := t + 1; i < to; i++ {
		row[i] = negInf
	}
	return row[from:to]
}

// Backward writes dq[T][Dim] and adds to dk and dv, of which several query heads may be readers. do is the gradient of o; o and lse are what Forward gave.
func (h *CausalHead) Backward(dq, dk, dv, do, o Rows, lse []float32, q, k, v Rows, tmp []float32) {
	s := h.cut(tmp)
	h.packKeys(s.kt, k)
	GemmPackNT(s.vt, v.X, v.Ld, h.T, h.Dim)
	h.packWhole(s.kn, k)
	for t0 := 0; t0 < h.T; t0 += attendRows {
		t1 := min(h.T, t0+attendRows)
		rows, grad := t1-t0, do.at(t0, 0)
		lo, hi := h.span(t0, t1)
		h.scores(&s, q.at(t0, 0), rows, lo, hi)
		h.dots(s.dp, grad, s.vt, rows, lo, hi)
		for t := t0; t < t1; t++ {
			h.backRow(&s, t-t0, t, lo, hi, lse[t], Dot(do.row(t, h.Dim), o.row(t, h.Dim)))
		}
		out := dq.at(t0, 0)
		h.weighted(out, s.dp, s.kn, rows, lo, hi)
		h.gather(dk, s.dp, q.at(t0, 0), rows, lo, hi)
		h.gather(dv, s.s, grad, rows, lo, hi)
	}
}

// backRow turns row i of a block, that of position t, from scores to probabilities, and the gradients of these to those of q.k.
func (h *CausalHead) backRow(s *attendScratch, i, t, lo, hi int, lse, d float32) {
	dp, row := s.dp.row(i, hi), s.s.row(i, hi)
	if h.Softcap > 0 {
		copy(s.capped, row)
	}
	seen := h.masked(row, t, lo)
	from := h.first(t) &^ (Panel - 1)
	clear(dp[lo:from])
	clear(dp[from+len(seen):])
	grad := dp[from : from+len(seen)]
	softmaxBack(seen, grad, lse, d, h.Scale)
	if h.Softcap > 0 {
		SoftcapBack(grad, s.capped[from:], h.Softcap)
	}
}
