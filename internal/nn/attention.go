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
	Pages [][]int32   // [block of the running group][pos/16]: the page tables of the row's slots
	Also  [][][]int32 // tables of every slot to write to as well; the running group begins at slot First there
	First int
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

// Part gives what is of rows [lo, hi) and of one worker to that worker, for layers of shape h.
func (s *AttentionScratch) Part(h *Heads, lo, hi, worker int) *AttentionScratch {
	return &AttentionScratch{qkv: s.qkv[lo*h.width() : hi*h.width()], out: s.out.Part(lo, hi), scores: s.scores[worker : worker+1]}
}

// Forward computes this worker's columns of the output projection: y[r*ldy+n], n in [lo, hi). in holds the rows ready for Q, K and V. K and V of every row are written to page
// Pages[block] before any row attends, so rows of one call see each other. Barriers inside; one must follow.
//
// Where the KV heads split evenly, a worker computes the queries, keys and values of its heads for all rows and attends with them, and needs nothing from the others before the
// output projection.
func (a *Attention) Forward(w *par.Worker, h *Heads, s *AttentionScratch, rope *Rope, kv *kernel.KV, places []Place, block int, in *kernel.Input, y []float32, ldy int) (lo, hi int) {
	rows := len(places)
	if h.splits(w) {
		g0, g1 := w.Split(h.KV)
		a.project(h, s, in, rows, g0, g1)
		for r := range rows {
			a.place(h, s, rope, kv, places, block, r, g0, g1)
		}
		w.Meet() // who runs alone sees the keys and values of the others' rows
		for r := 0; r < rows; {
			r += h.attendRun(w, s, kv, places, block, r, g0, g1)
		}
	} else {
		a.Q.Forward(w, s.qkv, h.width(), in, rows)
		a.K.Forward(w, s.qkv[h.Q*h.Dim:], h.width(), in, rows)
		a.V.Forward(w, s.qkv[(h.Q+h.KV)*h.Dim:], h.width(), in, rows)
		w.Barrier()
		for r, end := w.Split(rows); r < end; r++ {
			a.place(h, s, rope, kv, places, block, r, 0, h.KV)
		}
		w.Barrier()
		if g0, g1 := w.Split(h.KV); rows == 1 {
			h.attend(w, s, kv, places, block, 0, g0, g1)
		} else {
			for i := w.ID; i < rows*h.KV; i += w.N { // strided: later rows see more positions
				h.attend(w, s, kv, places, block, i/h.KV, i%h.KV, i%h.KV+1)
			}
		}
	}
	w.Barrier()
	return a.Out.Forward(w, y, ldy, s.out.Gather(w, rows, a.Out.W), rows)
}

// splits says whether every worker gets as many KV heads, and whole panels of the products that make them.
func (h *Heads) splits(w *par.Worker) bool {
	return w.N == 1 || h.KV%w.N == 0 && h.Dim%kernel.Panel == 0
}

// project computes queries, keys and values of the heads of KV heads [g0, g1).
func (a *Attention) project(h *Heads, s *AttentionScratch, in *kernel.Input, rows, g0, g1 int) {
	group, panel := h.Q/h.KV, func(heads int) int { return (heads*h.Dim + kernel.Panel - 1) / kernel.Panel }
	a.Q.panels(s.qkv, h.width(), in, rows, panel(g0*group), panel(g1*group))
	a.K.panels(s.qkv[h.Q*h.Dim:], h.width(), in, rows, panel(g0), panel(g1))
	a.V.panels(s.qkv[(h.Q+h.KV)*h.Dim:], h.width(), in, rows, panel(g0), panel(g1))
}

// place norms, shifts and rotates the heads of KV heads [g0, g1) of row r and writes their keys and values to the row's page.
func (a *Attention) place(h *Heads, s *AttentionScratch, rope *Rope, kv *kernel.KV, places []Place, block, r, g0, g1 int) {
	p, row := &places[r], s.qkv[r*h.width():(r+1)*h.width()]
	k, v := h.Q*h.Dim, (h.Q+h.KV)*h.Dim
	var cos, sin []float32
	if h.Rot > 0 {
		cos, sin = rope.At(p.Pos)
	}
	q0, q1 := g0*h.Q/h.KV*h.Dim, g1*h.Q/h.KV*h.Dim
	h.rotate(row[q0:q1], a.QGain, part(a.QHeadBias, q0, q1), cos, sin)
	h.rotate(row[k+g0*h.Dim:k+g1*h.Dim], a.KGain, part(a.KHeadBias, g0*h.Dim, g1*h.Dim), cos, sin)
	kv.Put(p.Pages[block][p.Pos/PagePositions], p.Pos%PagePositions, g0, g1, row[k:v], row[v:])
	for _, table := range p.Also {
		kv.Put(table[p.First+block][p.Pos/PagePositions], p.Pos%PagePositions, g0, g1, row[k:v], row[v:])
	}
}

// part is x[lo:hi], nil for nil.
func part(x []float32, lo, hi int) []float32 {
	if x == nil {
		return nil
	}
	return x[lo:hi]
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

// attendRun computes the outputs of the query heads of KV heads [g0, g1) of row r, or of all rows of one sequence that follow it, and gives the number of rows. A row alone reads each
// page once for all heads; many rows go head by head, so that one head's keys and values stay in the cache.
func (h *Heads) attendRun(w *par.Worker, s *AttentionScratch, kv *kernel.KV, places []Place, block, r, g0, g1 int) int {
	end := r + 1
	for end < len(places) && &places[end].Pages[block][0] == &places[r].Pages[block][0] {
		end++
	}
	if end < r+4 {
		h.attend(w, s, kv, places, block, r, g0, g1)
		return 1
	}
	for g := g0; g < g1; g++ {
		for i := r; i < end; {
			i += h.attendSome(w, s, kv, places[:end], block, i, g)
		}
	}
	return end - r
}

// attendSome computes the output of the query heads of KV head g of row r, or of rows r to r+3 where they can share the reading of keys and values, and gives the number of
// rows. (Four heads of a row share it by themselves.)
func (h *Heads) attendSome(w *par.Worker, s *AttentionScratch, kv *kernel.KV, places []Place, block, r, g int) int {
	group := h.Q / h.KV
	if group >= 4 || r+4 > len(places) || !oneSequence((*[4]Place)(places[r:]), block) {
		h.attend(w, s, kv, places, block, r, g, g+1)
		return 1
	}
	var out [4][]float32
	var pos [4]int
	for i := range out {
		out[i], pos[i] = s.out.Row(r+i), places[r+i].Pos
	}
	for q := g * group; q < (g+1)*group; q++ {
		kernel.AttendRows(&out, s.qkv[r*h.width():], h.width(), kv, places[r+3].Pages[block], &pos, q, h.Q, h.Scale, h.Softcap, s.scores[w.ID])
	}
	return 4
}

// oneSequence says whether rows have the same page table and see everything up to ascending positions.
func oneSequence(p *[4]Place, block int) bool {
	for i := range p {
		if p[i].Span.Window != 0 || &p[i].Pages[block][0] != &p[0].Pages[block][0] || i > 0 && p[i].Pos < p[i-1].Pos {
			return false
		}
	}
	return true
}

// attend computes the output of the query heads of KV heads [g0, g1) of row r.
func (h *Heads) attend(w *par.Worker, s *AttentionScratch, kv *kernel.KV, places []Place, block, r, g0, g1 int) {
	p, group := &places[r], h.Q/h.KV
	q := s.qkv[r*h.width() : r*h.width()+h.Q*h.Dim]
	kernel.Attend(s.out.Row(r), q, kv, p.Pages[block], p.Pos, p.Span, g0*group, g1*group, h.Q, h.Scale, h.Softcap, s.scores[w.ID])
}
