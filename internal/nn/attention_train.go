package nn

// AttentionAt is an Attention of the flat array.
type AttentionAt struct {
	Q, K, V, Out         Dense
	QGain, KGain         Vec // [head dim]
	QHeadBias, KHeadBias Vec
}

// Sight says which rows there are and how far each sees: position p of a row sees the positions from Start (and from p-Window+1, if there is a
// window) to itself, and counts its own place from Start, as if its document stood alone.
type Sight[F Float] struct {
	Rows, T   int
	Start     []int32 // [Rows*T]; nil = 0
	Window    int
	Cos, Sin  []F // [T][Rot/2]
	MinusSine []F // the sines with their signs turned: the rotation backwards
}

func (s *Sight[F]) len() int { return s.Rows * s.T }

// Place gives the position within its document of index i.
func (s *Sight[F]) Place(i int) int {
	if s.Start == nil {
		return i % s.T
	}
	return i%s.T - int(s.Start[i])
}

// first gives the first position of its row that position p of row r sees.
func (s *Sight[F]) first(r, p int) int {
	lo := 0
	if s.Start != nil {
		lo = int(s.Start[r*s.T+p])
	}
	if s.Window > 0 {
		lo = max(lo, p-s.Window+1)
	}
	return lo
}

// AttentionTrace is what the backward of attention needs besides its input.
type AttentionTrace[F Float] struct {
	QKV []F // [rows][q | k | v] as attended with
	Raw []F // [rows][q | k] before the norm of heads, if there is one
	Inv []F // [rows][heads of q, heads of k] of that norm
	Out []F // [rows][heads*dim] before the output projection
	LSE []F // [rows][heads] log of the softmax's sum
}

// Sizes gives the lengths per row of the trace's parts, in its order.
func (h *Heads) Sizes(normed bool) (qkv, raw, inv, out, lse int) {
	if normed {
		raw, inv = (h.Q+h.KV)*h.Dim, h.Q+h.KV
	}
	return h.width(), raw, inv, h.Q * h.Dim, h.Q
}

// qTile is the number of queries that attend together; keys and values are packed in blocks of as many.
const qTile = 64

// AttentionWork is the working memory of attention layers of one shape.
type AttentionWork[F Float] struct {
	dqkv, dout         []F // [rows][width], [rows][heads*dim]
	scores, dscores    []F // [qTile][ld]
	capped             []F // [qTile][ld] tanh of the scores under a soft cap
	kNT, vNT, kNN, vNN []F
	ld                 int
}

// NewAttentionWork cuts the working memory for rows rows in sequences of up to t out of alloc.
func NewAttentionWork[F Float](o *Ops[F], h *Heads, rows, t int, alloc func(n int) []F) AttentionWork[F] {
	ld := (t + panel - 1) / panel * panel
	blocks := (t + qTile - 1) / qTile
	s := AttentionWork[F]{ld: ld, dqkv: alloc(rows * h.width()), dout: alloc(rows * h.Q * h.Dim), scores: alloc(qTile * ld), dscores: alloc(qTile * ld),
		kNT: alloc(o.PackLen(t, h.Dim)), vNT: alloc(o.PackLen(t, h.Dim)), kNN: alloc(blocks * o.PackLen(h.Dim, qTile)), vNN: alloc(blocks * o.PackLen(h.Dim, qTile))}
	if h.Softcap != 0 {
		s.capped = alloc(qTile * ld)
	}
	return s
}

// Attention computes y of the rows of x.
func (w *Work[F]) Attention(a *AttentionAt, h *Heads, t *AttentionTrace[F], s *AttentionWork[F], at *Sight[F], y, x []F) {
	d, n, width := a.Q.W.K, at.len(), h.width()
	w.Linear(&a.Q, t.QKV, width, x, d, n)
	w.Linear(&a.K, t.QKV[h.Q*h.Dim:], width, x, d, n)
	w.Linear(&a.V, t.QKV[(h.Q+h.KV)*h.Dim:], width, x, d, n)
	w.shapeHeads(a, h, t, at)
	for r := range at.Rows {
		for g := range h.KV {
			w.attend(h, t, s, at, r, g)
		}
	}
	w.Linear(&a.Out, y, d, t.Out, h.Q*h.Dim, n)
}

// shapeHeads norms, shifts and rotates queries and keys in place.
func (w *Work[F]) shapeHeads(a *AttentionAt, h *Heads, t *AttentionTrace[F], at *Sight[F]) {
	qk, q := (h.Q+h.KV)*h.Dim, h.Q*h.Dim
	for i := range at.len() {
		row := t.QKV[i*h.width() : i*h.width()+qk]
		if a.QGain.N > 0 {
			raw, inv := t.Raw[i*qk:(i+1)*qk], t.Inv[i*(h.Q+h.KV):(i+1)*(h.Q+h.KV)]
			copy(raw, row)
			for j := range inv {
				x := raw[j*h.Dim : (j+1)*h.Dim]
				inv[j] = inverse(w.Dot(x, x), h.Dim, float64(h.Eps))
				w.ScaleGain(row[j*h.Dim:(j+1)*h.Dim], x, w.Val(a.gain(h, j)), inv[j])
			}
		}
		if a.QHeadBias.N > 0 {
			w.Add(row[:q], row[:q], w.Val(a.QHeadBias))
			w.Add(row[q:], row[q:], w.Val(a.KHeadBias))
		}
		w.rotate(h, row, at, i, at.Sin)
	}
}

// gain gives the gain of head j, keys after queries.
func (a *AttentionAt) gain(h *Heads, j int) Vec {
	if j < h.Q {
		return a.QGain
	}
	return a.KGain
}

// rotate turns every head of row i by its position; with the sines' signs turned it undoes that.
func (w *Work[F]) rotate(h *Heads, x []F, at *Sight[F], i int, sines []F) {
	half := h.Rot / 2
	if half == 0 {
		return
	}
	o := at.Place(i) * half
	cos, sin := at.Cos[o:o+half], sines[o:o+half]
	for j := 0; j < len(x); j += h.Dim {
		if h.Interleaved {
			w.RopeNeighbours(x[j:j+h.Rot], cos, sin)
		} else {
			w.Rope(x[j:j+h.Rot], cos, sin)
		}
	}
}

// shapeHeadsBack turns the gradients of queries and keys in s.dqkv into those of the projections' results.
func (w *Work[F]) shapeHeadsBack(a *AttentionAt, h *Heads, t *AttentionTrace[F], s *AttentionWork[F], at *Sight[F]) {
	qk, q := (h.Q+h.KV)*h.Dim, h.Q*h.Dim
	for i := range at.len() {
		row := s.dqkv[i*h.width() : i*h.width()+qk]
		w.rotate(h, row, at, i, at.MinusSine)
		if a.QHeadBias.N > 0 {
			w.Add(w.GradOf(a.QHeadBias), w.GradOf(a.QHeadBias), row[:q])
			w.Add(w.GradOf(a.KHeadBias), w.GradOf(a.KHeadBias), row[q:])
		}
		if a.QGain.N == 0 {
			continue
		}
		raw, inv, dy := t.Raw[i*qk:(i+1)*qk], t.Inv[i*(h.Q+h.KV):(i+1)*(h.Q+h.KV)], w.Tmp[:h.Dim]
		for j := range inv {
			dx, gain := row[j*h.Dim:(j+1)*h.Dim], a.gain(h, j)
			copy(dy, dx)
			clear(dx)
			w.RMSBack(dx, w.GradOf(gain), dy, raw[j*h.Dim:(j+1)*h.Dim], w.Val(gain), inv[j])
		}
	}
}

// attend computes the outputs of the query heads of KV head g of row r.
func (w *Work[F]) attend(h *Heads, t *AttentionTrace[F], s *AttentionWork[F], at *Sight[F], r, g int) {
	width, group, base := h.width(), h.Q/h.KV, r*at.T
	k := t.QKV[base*width+(h.Q+g)*h.Dim:]
	v := t.QKV[base*width+(h.Q+h.KV+g)*h.Dim:]
	w.PackNT(s.kNT, k, width, at.T, h.Dim)
	w.packBlocks(s.vNN, v, width, at.T, h.Dim)
	for q := g * group; q < (g+1)*group; q++ {
		for q0 := 0; q0 < at.T; q0 += qTile {
			q1 := min(q0+qTile, at.T)
			lo := w.affinities(h, t, s, at, r, q, q0, q1)
			for p := q0; p < q1; p++ {
				x := w.visible(s.scores, s.ld, at, r, p, q0, lo, q1)
				_, t.LSE[(base+p)*h.Q+q] = w.Softmax(x, F(h.Scale))
			}
			w.mulBlocks(t.Out[(base+q0)*h.Q*h.Dim+q*h.Dim:], h.Q*h.Dim, s.scores, s.ld, s.vNN, q1-q0, h.Dim, lo, q1)
		}
	}
}

// affinities computes the scores, not yet scaled, of queries [q0, q1) of head q with the keys from lo, a multiple of qTile, to q1. Under a soft cap they
// are the capped scores over h.Scale.
func (w *Work[F]) affinities(h *Heads, t *AttentionTrace[F], s *AttentionWork[F], at *Sight[F], r, q, q0, q1 int) (lo int) {
	lo = at.first(r, q0)
	for p := q0; p < q1; p++ {
		lo = min(lo, at.first(r, p))
	}
	lo = lo / qTile * qTile
	width := h.width()
	w.Gemm(s.scores, s.ld, t.QKV[(r*at.T+q0)*width+q*h.Dim:], width, q1-q0, s.kNT[lo*h.Dim:], q1-lo, h.Dim, false)
	if h.Softcap == 0 {
		return lo
	}
	for i := range q1 - q0 {
		x, th := s.scores[i*s.ld:i*s.ld+q1-lo], s.capped[i*s.ld:i*s.ld+q1-lo]
		w.Tanh(th, x, F(h.Scale)/F(h.Softcap))
		w.Scale(x, th, F(h.Softcap)/F(h.Scale))
	}
	return lo
}

// visible gives the part of position p's row of scores that it sees, and sets the others to 0.
func (w *Work[F]) visible(scores []F, ld int, at *Sight[F], r, p, q0, lo, hi int) []F {
	row := scores[(p-q0)*ld : (p-q0)*ld+hi-lo]
	a, b := at.first(r, p)-lo, p+1-lo
	clear(row[:a])
	clear(row[b:])
	return row[a:b]
}

// packBlocks packs x [t][n] for products over t, in blocks of qTile.
func (w *Work[F]) packBlocks(dst, x []F, ldx, t, n int) {
	for b := 0; b < t; b += qTile {
		w.PackNN(dst[b/qTile*w.PackLen(n, qTile):], x[b*ldx:], ldx, n, min(qTile, t-b))
	}
}

// mulBlocks computes y[m][n] = x[m][lo:hi] times the packed blocks of rows lo to hi, which lie at the borders of blocks; x begins at column lo.
func (w *Work[F]) mulBlocks(y []F, ldy int, x []F, ldx int, bp []F, m, n, lo, hi int) {
	for b := lo; b < hi; b += qTile {
		w.Gemm(y, ldy, x[b-lo:], ldx, m, bp[b/qTile*w.PackLen(n, qTile):], n, min(qTile, hi-b), b > lo)
	}
}

// AttentionBack computes dx from dy and the layer's input x.
func (w *Work[F]) AttentionBack(a *AttentionAt, h *Heads, t *AttentionTrace[F], s *AttentionWork[F], at *Sight[F], dx, dy, x []F) {
	d, n, width := a.Q.W.K, at.len(), h.width()
	w.LinearBack(&a.Out, s.dout, h.Q*h.Dim, dy, d, t.Out, h.Q*h.Dim, n, false)
	clear(s.dqkv[:n*width])
	for r := range at.Rows {
		for g := range h.KV {
			w.attendBack(h, t, s, at, r, g)
		}
	}
	w.shapeHeadsBack(a, h, t, s, at)
	w.LinearBack(&a.Q, dx, d, s.dqkv, width, x, d, n, false)
	w.LinearBack(&a.K, dx, d, s.dqkv[h.Q*h.Dim:], width, x, d, n, true)
	w.LinearBack(&a.V, dx, d, s.dqkv[(h.Q+h.KV)*h.Dim:], width, x, d, n, true)
}

// attendBack adds the gradients of queries, keys and values of KV head g of row r to s.dqkv. The probabilities P are computed again from the kept
// logs of the sums (FlashAttention, arXiv 2205.14135): with D = rowsum(dO*O), dS = P*(dO V' - D), dQ = dS K, dK = dS' Q, dV = P' dO.
func (w *Work[F]) attendBack(h *Heads, t *AttentionTrace[F], s *AttentionWork[F], at *Sight[F], r, g int) {
	width, group, base := h.width(), h.Q/h.KV, r*at.T
	ko, vo := (h.Q+g)*h.Dim, (h.Q+h.KV+g)*h.Dim
	w.PackNT(s.kNT, t.QKV[base*width+ko:], width, at.T, h.Dim)
	w.PackNT(s.vNT, t.QKV[base*width+vo:], width, at.T, h.Dim)
	w.packBlocks(s.kNN, t.QKV[base*width+ko:], width, at.T, h.Dim)
	ldo := h.Q * h.Dim
	for q := g * group; q < (g+1)*group; q++ {
		for q0 := 0; q0 < at.T; q0 += qTile {
			q1 := min(q0+qTile, at.T)
			m, dO := q1-q0, s.dout[(base+q0)*ldo+q*h.Dim:]
			lo := w.affinities(h, t, s, at, r, q, q0, q1)
			w.Gemm(s.dscores, s.ld, dO, ldo, m, s.vNT[lo*h.Dim:], q1-lo, h.Dim, false)
			w.scoresBack(h, t, s, at, r, q, q0, q1, lo)
			n := q1 - lo
			w.mulBlocks(s.dqkv[(base+q0)*width+q*h.Dim:], width, s.dscores, s.ld, s.kNN, m, h.Dim, lo, q1)
			w.GemmTN(s.dqkv[(base+lo)*width+ko:], width, s.dscores, s.ld, t.QKV[(base+q0)*width+q*h.Dim:], width, n, h.Dim, m, true, w.Tmp)
			w.GemmTN(s.dqkv[(base+lo)*width+vo:], width, s.scores, s.ld, dO, ldo, n, h.Dim, m, true, w.Tmp)
		}
	}
}

// scoresBack turns scores into probabilities and dscores, the gradient of those, into that of the products of queries and keys.
func (w *Work[F]) scoresBack(h *Heads, t *AttentionTrace[F], s *AttentionWork[F], at *Sight[F], r, q, q0, q1, lo int) {
	ldo := h.Q * h.Dim
	for p := q0; p < q1; p++ {
		i := r*at.T + p
		o := i*ldo + q*h.Dim
		delta := w.Dot(s.dout[o:o+h.Dim], t.Out[o:o+h.Dim])
		x := w.visible(s.scores, s.ld, at, r, p, q0, lo, q1)
		dx := w.visible(s.dscores, s.ld, at, r, p, q0, lo, q1)
		w.ExpShift(x, F(h.Scale), t.LSE[i*h.Q+q])
		w.SoftmaxBack(dx, x, delta, F(h.Scale))
		if h.Softcap != 0 {
			th := w.visible(s.capped, s.ld, at, r, p, q0, lo, q1)
			for j, v := range th {
				dx[j] *= 1 - v*v
			}
		}
	}
}
