package nn

import (
	"tinyloop/internal/kernel"
	"tinyloop/internal/par"
)

// Linear is y = W x + b with W [N, K].
type Linear struct {
	W    *kernel.Matrix
	Bias []float32 // [N]; nil = none
}

// Forward computes this worker's columns [lo, hi) of y for every row of in: dst[r*ldd+n]. The columns are whole panels; a barrier must lie between
// this and a reader of other columns.
func (l *Linear) Forward(w *par.Worker, dst []float32, ldd int, in *kernel.Input, rows int) (lo, hi int) {
	p0, p1 := w.Split(l.W.Panels())
	return l.panels(dst, ldd, in, rows, p0, p1)
}

// panels is Forward for the columns of panels [p0, p1).
func (l *Linear) panels(dst []float32, ldd int, in *kernel.Input, rows, p0, p1 int) (lo, hi int) {
	if p0 == p1 {
		return 0, 0
	}
	kernel.MatMul(dst, ldd, in, rows, l.W, p0, p1)
	lo, hi = p0*kernel.Panel, min(p1*kernel.Panel, l.W.N)
	if l.Bias == nil {
		return lo, hi
	}
	for r := range rows {
		y := dst[r*ldd+lo : r*ldd+hi]
		kernel.Add(y, y, l.Bias[lo:hi])
	}
	return lo, hi
}

// AddTo adds scale times columns [lo, hi) of y [rows][ldy] to the streams. Only the worker that owns the columns calls it for them.
func AddTo(x *Stream, y []float32, ldy, lo, hi int, scale float32) {
	for r := range x.Index {
		d, s := x.Row(r)[lo:hi], y[r*ldy+lo:r*ldy+hi]
		if scale != 1 {
			kernel.Scale(s, s, scale)
		}
		kernel.Add(d, d, s)
	}
}

// AddNormed adds scale*norm(y) to the streams, row by row by shares. y [rows][ldy] must be complete on entry and is overwritten; a barrier must
// follow.
func AddNormed(w *par.Worker, x *Stream, y []float32, ldy int, norm *Norm, scale float32) {
	for lo, hi := w.Split(len(x.Index)); lo < hi; lo++ {
		d, s := x.Row(lo), y[lo*ldy:lo*ldy+x.Dim]
		norm.Apply(s, s)
		if scale != 1 {
			kernel.Scale(s, s, scale)
		}
		kernel.Add(d, d, s)
	}
}

// reader picks the first block-quantised matrix of those that read one input, the first otherwise: the quantised form of a row is the same for
// every block format, and plain formats read the f32 row.
func reader(a, b, c *kernel.Matrix) *kernel.Matrix {
	switch {
	case b != nil && a.Source.Block() == 1 && b.Source.Block() > 1:
		return b
	case c != nil && a.Source.Block() == 1 && c.Source.Block() > 1:
		return c
	}
	return a
}
