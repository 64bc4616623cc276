// Package nn holds the layers of a transformer over rows: linear, norm, rotary positions, attention over KV pages, MLP and loop injection. One
// definition of each, for inference and, beside it, for training.
//
// A layer is a function on slices with its state passed in: weights are read-only values, activations live in a Scratch. Every layer function is
// called by all workers of one par.Pool.Run with the same arguments, does this worker's share and states in its comment what must lie between
// its result and the next reader: a worker writes either whole rows (norms, rotations) or its own columns of every row (products), and never
// the same place as another. The split of a product depends only on the weights, so a weight is always read by the same core.
//
// Many rows can also be split among the workers: each then runs the layers alone (par.Worker.Alone) over its own rows, with a Part of every scratch, and meets the others once an
// attention layer.
package nn

import (
	"tinyloop/internal/kernel"
	"tinyloop/internal/par"
)

// Few is the most rows for which every worker prepares the input of a product for itself instead of sharing the work and meeting at a barrier: the
// norm of a row is cheaper than the meeting.
const Few = 2

// Stream is the residual streams of the rows of a call: row r is Data[Index[r]*Stride:][:Dim].
type Stream struct {
	Data        []float32
	Stride, Dim int
	Index       []int32
}

// Row gives the stream of row r.
func (s *Stream) Row(r int) []float32 {
	o := int(s.Index[r]) * s.Stride
	return s.Data[o : o+s.Dim : o+s.Dim]
}

// Rows gives the part of the stream that holds rows [lo, hi).
func (s *Stream) Rows(lo, hi int) Stream {
	return Stream{s.Data, s.Stride, s.Dim, s.Index[lo:hi]}
}

// Acts is the input of a product: a shared set of rows, and for small calls one set per worker.
type Acts struct {
	shared *kernel.Input
	own    []*kernel.Input // [worker], Few rows each; nil with one worker
}

// NewActs makes room for rows of width k.
func NewActs(rows, k, workers int) *Acts {
	a := &Acts{shared: kernel.NewInput(rows, k)}
	for range workers {
		if workers > 1 {
			a.own = append(a.own, kernel.NewInput(min(rows, Few), k))
		}
	}
	return a
}

// Part gives rows [lo, hi) of the shared set to a worker that runs alone.
func (a *Acts) Part(lo, hi int) *Acts { return &Acts{shared: a.shared.Part(lo, hi)} }

// Row gives shared row r, for layers that write it directly before Gather.
func (a *Acts) Row(r int) []float32 { return a.shared.F32(r) }

// Gather makes the first rows of the shared set, written by all workers before a barrier, ready for products with m.
func (a *Acts) Gather(w *par.Worker, rows int, m *kernel.Matrix) *kernel.Input {
	if m.Source.Block() == 1 {
		return a.shared // plain formats read the f32 rows as they are
	}
	if w.N > 1 && rows <= Few {
		in := a.own[w.ID]
		for r := range rows {
			copy(in.F32(r), a.shared.F32(r))
		}
		in.Prepare(m, 0, rows)
		return in
	}
	a.prepare(w, rows, m)
	return a.shared
}

// prepare quantises the shared rows by shares.
func (a *Acts) prepare(w *par.Worker, rows int, m *kernel.Matrix) {
	if lo, hi := w.Split(rows); lo < hi {
		a.shared.Prepare(m, lo, hi)
	}
	w.Barrier()
}

// Normed gives norm(x) of every row, ready for products with m. x must be complete on entry; no barrier is needed after.
func (a *Acts) Normed(w *par.Worker, x *Stream, norm *Norm, m *kernel.Matrix) *kernel.Input {
	in, lo, hi := a.share(w, len(x.Index))
	for r := lo; r < hi; r++ {
		norm.Apply(in.F32(r), x.Row(r))
	}
	return a.finish(w, in, lo, hi, m)
}

// Plain gives x of every row, ready for products with m. As Normed.
func (a *Acts) Plain(w *par.Worker, x *Stream, m *kernel.Matrix) *kernel.Input {
	return a.Normed(w, x, &Norm{}, m)
}

// Joined gives [x ; y] of every row, ready for products with m. As Normed.
func (a *Acts) Joined(w *par.Worker, x, y *Stream, m *kernel.Matrix) *kernel.Input {
	in, lo, hi := a.share(w, len(x.Index))
	for r := lo; r < hi; r++ {
		dst := in.F32(r)
		copy(dst, x.Row(r))
		copy(dst[x.Dim:], y.Row(r))
	}
	return a.finish(w, in, lo, hi, m)
}

// share gives the set that this worker fills and which rows of it.
func (a *Acts) share(w *par.Worker, rows int) (in *kernel.Input, lo, hi int) {
	if w.N > 1 && rows <= Few {
		return a.own[w.ID], 0, rows
	}
	lo, hi = w.Split(rows)
	return a.shared, lo, hi
}

// finish quantises what this worker filled, and meets the others where the set is shared.
func (a *Acts) finish(w *par.Worker, in *kernel.Input, lo, hi int, m *kernel.Matrix) *kernel.Input {
	if lo < hi && m.Source.Block() > 1 {
		in.Prepare(m, lo, hi)
	}
	if in == a.shared {
		w.Barrier()
	}
	return in
}
