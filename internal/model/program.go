package model

import (
	"tinyloop/internal/kernel"
	"tinyloop/internal/nn"
	"tinyloop/internal/par"
)

// This file is what one worker does during a call. Every worker runs the same program: over the same rows, meeting the others at the barriers (see package nn for who writes what
// between them), or, where rows are many, over rows of its own, meeting the others once a block if they have rows of the same sequence.

// ownRows gives the least number of rows of a worker for which it takes them through the layers alone. That spares barriers and uneven shares between them, but every worker
// then reads all weights of the layers: few rows pay only where these come from a cache, many always.
func (m *Model) ownRows() int {
	switch bytes := m.layerBytes(); {
	case bytes <= 4<<20:
		return 1
	case bytes <= 12<<20:
		return 2
	}
	return 8
}

// ownWeights is the size of layers beyond which a worker's own rows are many: weights then come from memory for every piece, and the more rows a piece has the less that costs. Below,
// the activations of fewer rows stay in the second cache.
const ownWeights = 12 << 20

// crew gives how many workers a call is worth whose largest part has so many products.
func (s *Scratch) crew(products int) int {
	if s.apiece() {
		return len(s.parts)
	}
	return max(1, min(len(s.parts), products/blockShare))
}

// apiece says whether the rows of this call are enough for every worker of the pool to have its own.
func (s *Scratch) apiece() bool { return len(s.rows) >= s.ownRows*len(s.parts) }

// layerWork gives the products of a block for the rows of this call.
func (s *Scratch) layerWork() int { return len(s.rows) * s.blockWeights }

// pieceRows gives the most rows of a worker that has its own, of calls of up to n rows through layers of so many bytes.
func pieceRows(n, workers int, bytes int64) int {
	most := tile / min(workers, 2)
	if bytes > ownWeights {
		most = tile
	}
	return min(most, (n+workers-1)/workers)
}

// layerBytes gives the memory of the weights that every row passes.
func (m *Model) layerBytes() int64 {
	bytes := m.Bytes()
	for _, w := range []*kernel.Matrix{m.W.Embed, m.W.Positions, m.W.Head} {
		if w != nil {
			bytes -= int64(w.Bytes())
		}
	}
	return bytes
}

// cut is how this worker takes the rows of a call through the layers: all of them in tiles together with the others, or alone every step-th piece from the first on.
type cut struct {
	size, first, step int
	own, follows      bool
}

// cut decides it by the number of rows. Pieces are as even as their number, the same for every worker, allows.
func (s *Scratch) cut(w *par.Worker) cut {
	n := len(s.rows)
	if w.N == 1 || w.N != len(s.parts) || !s.apiece() {
		return cut{size: s.tile, step: 1}
	}
	pieces := (n + s.tile - 1) / s.tile * w.N
	return cut{size: (n + pieces - 1) / pieces, first: w.ID, step: w.N, own: true, follows: !s.apart()}
}

// take gives rows [lo, hi) of piece i, and who computes them where.
func (s *Scratch) take(w *par.Worker, c *cut, i int) (as *par.Worker, d *desk, lo, hi int) {
	lo, hi = i*c.size, min((i+1)*c.size, len(s.rows))
	if !c.own {
		return w, &s.all, lo, hi
	}
	return w.Alone(i, c.follows), &s.parts[w.ID], lo, hi
}

// apart says whether no two rows of the call belong to one sequence or to branches that write to each other's pages, so that no row reads what another one writes. It does not
// look at more rows than a tile has.
func (s *Scratch) apart() bool {
	if len(s.rows) > tile {
		return false
	}
	for i := range s.rows {
		r := &s.rows[i]
		if r.Also != nil || len(r.Pages) == 0 {
			return false
		}
		for j := range i {
			if &s.rows[j].Pages[0] == &r.Pages[0] {
				return false
			}
		}
	}
	return true
}

// enter is the program of one worker.
func (s *Scratch) enter(w *par.Worker) {
	c := s.cut(w)
	for i := c.first; i*c.size < len(s.rows); i += c.step {
		as, d, lo, hi := s.take(w, &c, i)
		h := s.h.Rows(lo, hi)
		s.embed(as, d, &h, s.rows[lo:hi])
		as.Barrier()
		s.blocks(as, d, s.m.W.Prelude, &h, s.places[lo:hi])
		s.start(as, d, &h, lo, hi)
	}
}

// embed writes the embedding of this worker's rows.
func (s *Scratch) embed(w *par.Worker, d *desk, h *nn.Stream, rows []Row) {
	sp, wt := &s.m.Spec, s.m.W
	for lo, hi := w.Split(len(rows)); lo < hi; lo++ {
		x := h.Row(lo)
		wt.Embed.Row(x, int(rows[lo].Token))
		if sp.Embed.Scale != 0 {
			kernel.Scale(x, x, sp.Embed.Scale)
		}
		if wt.Positions != nil {
			// The product's working memory is free here: row lo of y holds the position.
			pos := d.y[lo*sp.Dim : (lo+1)*sp.Dim]
			wt.Positions.Row(pos, int(rows[lo].Pos))
			kernel.Add(x, x, pos)
		}
		wt.EmbedNorm.Apply(x, x)
	}
}

// start makes e and the initial state of the rows [lo, hi) out of the prelude's output in h. For the diagonal injection e is kept as dt*(B e), for the scaled
// one as alpha*e, which are the same for every pass.
func (s *Scratch) start(w *par.Worker, d *desk, h *nn.Stream, lo, hi int) {
	sp, wt := &s.m.Spec, s.m.W
	wt.PreludeNorm.InPlace(w, h)
	if sp.Injection == InjectNone {
		w.Barrier()
		return
	}
	e := s.e.Rows(lo, hi)
	for a, b := w.Split(hi - lo); a < b; a++ {
		copy(e.Row(a), h.Row(a))
		if sp.StateInit == StateZero {
			clear(h.Row(a))
		}
	}
	w.Barrier()
	if sp.InjectMatrix {
		l := nn.Linear{W: wt.Inject}
		nn.Project(w, &e, &l, d.acts, d.y, sp.Dim)
		w.Barrier()
	}
	switch sp.Injection {
	case InjectDiagonal:
		nn.Multiply(w, &e, s.m.dt)
		w.Barrier()
	case InjectScaled:
		nn.Multiply(w, &e, wt.Alpha)
		w.Barrier()
	}
}

// turn is the program of one worker.
func (s *Scratch) turn(w *par.Worker) {
	c := s.cut(w)
	for i := c.first; i*c.size < len(s.rows); i += c.step {
		as, d, lo, hi := s.take(w, &c, i)
		h := s.h.Rows(lo, hi)
		s.between(as, &h, s.rows[lo:hi])
		s.inject(as, d, &h, lo, hi)
		s.blocks(as, d, s.m.W.Core, &h, s.places[lo:hi])
		if s.m.Spec.LoopNorm == LoopNormOwn {
			s.m.W.LoopNorm.InPlace(as, &h)
			as.Barrier()
		}
	}
}

// between applies the final norm to the rows that have made a pass. It stands at the start of a pass, not at the end of the one before, so that the
// state kept between calls is the one that Leave norms.
func (s *Scratch) between(w *par.Worker, h *nn.Stream, rows []Row) {
	if s.m.Spec.LoopNorm != LoopNormBetween {
		return
	}
	for lo, hi := w.Split(len(rows)); lo < hi; lo++ {
		if rows[lo].Loop > 0 {
			s.m.W.FinalNorm.Apply(h.Row(lo), h.Row(lo))
		}
	}
	w.Barrier()
}

func (s *Scratch) inject(w *par.Worker, d *desk, h *nn.Stream, lo, hi int) {
	if s.m.Spec.Injection == InjectNone {
		return
	}
	e := s.e.Rows(lo, hi)
	switch s.m.Spec.Injection {
	case InjectAdd, InjectScaled:
		nn.InjectAdd(w, h, &e)
	case InjectDiagonal:
		nn.InjectDiagonal(w, h, &e, s.m.decay)
	case InjectConcat:
		l := nn.Linear{W: s.m.W.Inject}
		nn.InjectConcat(w, h, &e, &l, d.joined, d.y, s.m.Spec.Dim)
	}
	w.Barrier()
}

// leave is the program of one worker. Without a coda only the wanted rows matter.
func (s *Scratch) leave(w *par.Worker) {
	if s.m.Spec.Coda == 0 {
		for lo := 0; lo < len(s.want); lo += s.tile {
			pick := s.want[lo:min(lo+s.tile, len(s.want))]
			x := s.exits(w, &s.all, pick, s.ring[:len(pick)])
			s.readout(w, &x, lo)
		}
		return
	}
	c := s.cut(w)
	wide := c.size * c.step // rows that go through the coda before those wanted among them are read out
	done := 0               // wanted rows read out
	for lo, i := 0, c.first; lo < len(s.rows); lo, i = lo+wide, i+c.step {
		end := min(lo+wide, len(s.rows))
		x := s.x
		if i*c.size < end {
			as, d, from, to := s.take(w, &c, i)
			x = s.exits(as, d, s.ident[from:to], s.ring[from:to])
			s.blocks(as, d, s.m.W.Coda, &x, s.places[from:to])
		}
		if c.own {
			w.Barrier()
		}
		n := 0
		for done+n < len(s.want) && int(s.want[done+n]) < end {
			n++
		}
		x.Index = s.wantIn[done : done+n]
		s.readout(w, &x, done)
		done += n
	}
}

// exits copies the state of the picked rows of the call to rows of x, through the readout and the coda's norm.
func (s *Scratch) exits(w *par.Worker, d *desk, pick, to []int32) nn.Stream {
	x := s.x
	x.Index = to
	for lo, hi := w.Split(len(pick)); lo < hi; lo++ {
		copy(x.Row(lo), s.h.Row(int(pick[lo])))
	}
	w.Barrier()
	if s.m.Spec.Readout {
		l := nn.Linear{W: s.m.W.Readout}
		nn.Project(w, &x, &l, d.acts, d.y, s.m.Spec.Dim)
		w.Barrier()
	}
	if s.m.Spec.CodaNorm == CodaNormNone {
		return x
	}
	norm := &s.m.W.CodaNorm
	if s.m.Spec.CodaNorm == CodaNormFinal {
		norm = &s.m.W.FinalNorm
	}
	norm.InPlace(w, &x)
	w.Barrier()
	return x
}

// readout computes the logits of the rows of x, the first of which has place at.
func (s *Scratch) readout(w *par.Worker, x *nn.Stream, at int) {
	sp, rows := &s.m.Spec, len(x.Index)
	if rows == 0 {
		return
	}
	l := nn.Linear{W: s.m.head()}
	in := s.all.acts.Normed(w, x, &s.m.W.FinalNorm, l.W)
	out := s.logits[at*sp.Vocab:]
	lo, hi := l.Forward(w, out, sp.Vocab, in, rows)
	for r := range rows {
		sp.shapeLogits(out[r*sp.Vocab+lo : r*sp.Vocab+hi])
	}
	w.Barrier()
}

// shapeLogits applies the scale and the soft cap.
func (s *Spec) shapeLogits(x []float32) {
	if s.LogitScale != 0 {
		kernel.Scale(x, x, s.LogitScale)
	}
	if s.LogitSoftcap != 0 {
		kernel.Softcap(x, s.LogitSoftcap)
	}
}

// blocks runs a list of blocks in place over the streams.
func (s *Scratch) blocks(w *par.Worker, d *desk, list []BlockWeights, x *nn.Stream, places []nn.Place) {
	for i := range list {
		s.block(w, d, &list[i], x, places, i)
	}
}

// block is one transformer block: two branches, attention and MLP. x is complete on entry and on return.
func (s *Scratch) block(w *par.Worker, d *desk, b *BlockWeights, x *nn.Stream, places []nn.Place, i int) {
	dim := s.m.Spec.Dim
	in := d.acts.Normed(w, x, &b.AttnNorm, b.Attn.Reader())
	lo, hi := b.Attn.Forward(w, &s.m.heads, d.attn, s.rope, s.kv, places, i, in, d.y, dim)
	s.join(w, d, x, &b.AttnPost, lo, hi)

	in = d.acts.Normed(w, x, &b.MLPNorm, b.MLP.Reader())
	lo, hi = b.MLP.Forward(w, s.m.Spec.activation(), d.mlp, in, len(places), d.y, dim)
	s.join(w, d, x, &b.MLPPost, lo, hi)
}

// join adds the branch in d.y, of which this worker has columns [lo, hi), to the streams.
func (s *Scratch) join(w *par.Worker, d *desk, x *nn.Stream, post *nn.Norm, lo, hi int) {
	b, dim := &s.m.Spec.Block, s.m.Spec.Dim
	scale := b.ResidualScale
	if scale == 0 {
		scale = 1
	}
	switch b.NormPlace {
	case PreNorm:
		nn.AddTo(x, d.y, dim, lo, hi, scale)
	case BranchSandwich:
		w.Barrier()
		nn.AddNormed(w, x, d.y, dim, post, scale)
	default:
		nn.AddTo(x, d.y, dim, lo, hi, scale)
		w.Barrier()
		post.InPlace(w, x)
	}
	w.Barrier()
}
