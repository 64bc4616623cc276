package nn

import "tinyloop/internal/kernel"

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

// AttentionTrace is what the backward of attention needs besides its input.
type AttentionTrace[F Float] struct {
	QKV []F // [rows][q | k | v] as attended with
	Raw []F // [rows][q | k] before the norm of heads, if there is one
	Inv []F // [rows][heads of q, heads of k] of that norm
	Out []F // [rows][heads*dim] before the output projection
	LSE []F // [heads][rows] log of the softmax's sum
}

// Sizes gives the lengths per row of the trace's parts, in its order.
func (h *Heads) Sizes(normed bool) (qkv, raw, inv, out, lse int) {
	if normed {
		raw, inv = (h.Q+h.KV)*h.Dim, h.Q+h.KV
	}
	return h.width(), raw, inv, h.Q * h.Dim, h.Q
}

// AttentionWork is the working memory of attention layers of one shape.
type AttentionWork[F Float] struct {
	dqkv, dout []F // [rows][width], [rows][heads*dim]
	tmp        []F
	head       kernel.CausalHead
}

// NewAttentionWork cuts the working memory for rows rows in sequences of up to t out of alloc.
func NewAttentionWork[F Float](o *Ops[F], h *Heads, rows, t, window int, alloc func(n int) []F) AttentionWork[F] {
	head := kernel.CausalHead{T: t, Dim: h.Dim, Scale: h.Scale, Softcap: h.Softcap, Window: window}
	return AttentionWork[F]{dqkv: alloc(rows * h.width()), dout: alloc(rows * h.Q * h.Dim), tmp: alloc(o.AttendScratch(&head)), head: head}
}

// Attention computes y of the rows of x.
func (w *Work[F]) Attention(a *AttentionAt, h *Heads, t *AttentionTrace[F], s *AttentionWork[F], at *Sight[F], y, x []F) {
	d, n, width := a.Q.W.K, at.len(), h.width()
	w.Linear(&a.Q, t.QKV, width, x, d, n)
	w.Linear(&a.K, t.QKV[h.Q*h.Dim:], width, x, d, n)
	w.Linear(&a.V, t.QKV[(h.Q+h.KV)*h.Dim:], width, x, d, n)
	w.shapeHeads(a, h, t, at)
	for r := range at.Rows {
		s.sequence(at, r)
		base := r * at.T
		for q := range h.Q {
			k, v := headAt(h, t.QKV, base, h.Q+q*h.KV/h.Q), headAt(h, t.QKV, base, h.Q+h.KV+q*h.KV/h.Q)
			w.Attend(&s.head, outAt(h, t.Out, base, q), t.LSE[q*n+base:], headAt(h, t.QKV, base, q), k, v, s.tmp)
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
			w.RMSNorm(row, h.Dim, raw, h.Dim, w.Val(a.QGain), h.Dim, h.Q, F(h.Eps), inv)
			w.RMSNorm(row[q:], h.Dim, raw[q:], h.Dim, w.Val(a.KGain), h.Dim, h.KV, F(h.Eps), inv[h.Q:])
		}
		if a.QHeadBias.N > 0 {
			w.Add(row[:q], row[:q], w.Val(a.QHeadBias))
			w.Add(row[q:], row[q:], w.Val(a.KHeadBias))
		}
		w.rotate(h, row, at, i, at.Sin)
	}
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
		raw, inv := t.Raw[i*qk:(i+1)*qk], t.Inv[i*(h.Q+h.KV):(i+1)*(h.Q+h.KV)]
		w.RMSNormBack(row, h.Dim, w.GradOf(a.QGain), row, h.Dim, raw, h.Dim, w.Val(a.QGain), inv, h.Dim, h.Q, false)
		w.RMSNormBack(row[q:], h.Dim, w.GradOf(a.KGain), row[q:], h.Dim, raw[q:], h.Dim, w.Val(a.KGain), inv[h.Q:], h.Dim, h.KV, false)
	}
}

// sequence sets the shape of row r's attention.
func (s *AttentionWork[F]) sequence(at *Sight[F], r int) {
	s.head.T, s.head.Start = at.T, nil
	if at.Start != nil {
		s.head.Start = at.Start[r*at.T : (r+1)*at.T]
	}
}

// headAt gives head i of the joined queries, keys and values from row base on.
func headAt[F Float](h *Heads, x []F, base, i int) Rows[F] {
	return Rows[F]{x[base*h.width()+i*h.Dim:], h.width()}
}

// outAt gives head i of the joined results from row base on.
func outAt[F Float](h *Heads, x []F, base, i int) Rows[F] {
	return Rows[F]{x[base*h.Q*h.Dim+i*h.Dim:], h.Q * h.Dim}
}

// AttentionBack computes dx from dy and the layer's input x.
func (w *Work[F]) AttentionBack(a *AttentionAt, h *Heads, t *AttentionTrace[F], s *AttentionWork[F], at *Sight[F], dx, dy, x []F) {
	d, n, width := a.Q.W.K, at.len(), h.width()
	w.LinearBack(&a.Out, s.dout, h.Q*h.Dim, dy, d, t.Out, h.Q*h.Dim, n, false)
	clear(s.dqkv[:n*width])
	for r := range at.Rows {
		s.sequence(at, r)
		base := r * at.T
		for q := range h.Q {
			k, v := h.Q+q*h.KV/h.Q, h.Q+h.KV+q*h.KV/h.Q
			w.AttendBack(&s.head, headAt(h, s.dqkv, base, q), headAt(h, s.dqkv, base, k), headAt(h, s.dqkv, base, v), outAt(h, s.dout, base, q), outAt(h, t.Out, base, q),
				t.LSE[q*n+base:], headAt(h, t.QKV, base, q), headAt(h, t.QKV, base, k), headAt(h, t.QKV, base, v), s.tmp)
		}
	}
	w.shapeHeadsBack(a, h, t, s, at)
	w.LinearBack(&a.Q, dx, d, s.dqkv, width, x, d, n, false)
	w.LinearBack(&a.K, dx, d, s.dqkv[h.Q*h.Dim:], width, x, d, n, true)
	w.LinearBack(&a.V, dx, d, s.dqkv[(h.Q+h.KV)*h.Dim:], width, x, d, n, true)
}
