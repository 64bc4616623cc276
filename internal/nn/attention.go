package nn

import (
	"tinyloop/internal/kernel"
	"tinyloop/internal/par"
)

// PagePositions is the number of positions of one KV page.
const PagePositions = kernel.Panel

// Place says where a row stands in its sequence.
type Place struct {
	Pos   int
	Pages [][]int32 // [block of the running group][pos/16]: the page tables of the row's slots
	Span  kernel.Span
}

// Heads is the shape of an attention layer and its constants.
type Heads struct {
	Q, KV, Dim  int // query heads, KV heads, width of a head
	Rot         int // rotated width; 0 = no rotation
	Interleaved bool
	Eps         float32 // of the query and key norms
	Scale       float32
	Softcap     float32 // 0 = none
}

// Width of the concatenated queries, keys and values of a row.
func (h *Heads) width() int { return (h.Q + 2*h.KV) * h.Dim }

// Attention is the weights of one attention layer.
type Attention struct {
	Q, K, V, Out         Linear
	QGain, KGain         []float32 // [head dim] RMS norm of each head; nil = none
	QHeadBias, KHeadBias []float32 // [heads*head dim] added after the norm; nil = none
}

// Reader gives the matrix that decides in which form the layer's input is prepared.
func (a *Attention) Reader() *kernel.Matrix { return reader(a.Q.W, a.K.W, a.V.W) }

// AttentionScratch is the working memory of attention layers of one shape.
type AttentionScratch struct {
	qkv    []float32 // [rows][q | k | v]
	out    *Acts     // [rows][heads*dim]
	scores [][]float32
}

// NewAttentionScratch makes room for calls of up to rows rows at positions below context.
func NewAttentionScratch(h *Heads, rows, context, workers int) *AttentionScratch {
	s := &AttentionScratch{qkv: make([]float32, rows*h.width()), out: NewActs(rows, h.Q*h.Dim, workers)}
	for range workers {
		s.scores = append(s.scores, make([]float32, kernel.AttendScratch(context)))
	}
	return s
}

// Forward computes this worker's columns of the output projection: y[r*ldy+n], n in [lo, hi). in holds the rows ready for Q, K and V. K and V of every row are written to page
// Pages[block] before any row attends, so rows of one call see each other. Three barriers inside; one must follow.
func (a *Attention) Forward(w *par.Worker, h *Heads, s *AttentionScratch, rope *Rope, kv *kernel.KV, places []Place, block int, in *kernel.Input, y []float32, ldy int) (lo, hi int) {
	rows := len(places)
	q, k, v := 0, h.Q*h.Dim, (h.Q+h.KV)*h.Dim
	a.Q.Forward(w, s.qkv[q:], h.width(), in, rows)
	a.K.Forward(w, s.qkv[k:], h.width(), in, rows)
	a.V.Forward(w, s.qkv[v:], h.width(), in, rows)
	w.Barrier()
	for r, hi := w.Split(rows); r < hi; r++ {
		p, row := &places[r], s.qkv[r*h.width():(r+1)*h.width()]
		a.rotate(h, rope, p.Pos, row[q:k], row[k:v])
		kv.Put(p.Pages[block][p.Pos/PagePositions], p.Pos%PagePositions, row[k:v], row[v:])
	}
	w.Barrier()
	a.attend(w, h, s, kv, places, block)
	w.Barrier()
	return a.Out.Forward(w, y, ldy, s.out.Gather(w, rows, a.Out.W), rows)
}

// rotate norms, shifts and rotates the heads of one row in place.
func (a *Attention) rotate(h *Heads, rope *Rope, pos int, q, k []float32) {
	var cos, sin []float32
	if h.Rot > 0 {
		cos, sin = rope.At(pos)
	}
	h.rotate(q, a.QGain, a.QHeadBias, cos, sin)
	h.rotate(k, a.KGain, a.KHeadBias, cos, sin)
}

func (h *Heads) rotate(x, gain, bias, cos, sin []float32) {
	for o := 0; o < len(x) && gain != nil; o += h.Dim {
		kernel.RMSNorm(x[o:o+h.Dim], x[o:o+h.Dim], gain, h.Eps)
	}
	if bias != nil {
		kernel.Add(x, x, bias)
	}
	for o := 0; o < len(x) && h.Rot > 0; o += h.Dim {
		if h.Interleaved {
			kernel.RopeInterleaved(x[o:o+h.Dim], h.Dim, h.Rot, cos, sin)
		} else {
			kernel.RopeHalf(x[o:o+h.Dim], h.Dim, h.Rot, cos, sin)
		}
	}
}

// attend gives every worker its share of (row, group of heads with one KV head). The share is strided: later rows see more positions.
func (a *Attention) attend(w *par.Worker, h *Heads, s *AttentionScratch, kv *kernel.KV, places []Place, block int) {
	group := h.Q / h.KV
	for i := w.ID; i < len(places)*h.KV; i += w.N {
		r, g := i/h.KV, i%h.KV
		p := &places[r]
		q := s.qkv[r*h.width() : r*h.width()+h.Q*h.Dim]
		kernel.Attend(s.out.Row(r), q, kv, p.Pages[block], p.Pos, p.Span, g*group, (g+1)*group, h.Q, h.Scale, h.Softcap, s.scores[w.ID])
	}
}
