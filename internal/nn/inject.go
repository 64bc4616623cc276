package nn

import (
	"tinyloop/internal/kernel"
	"tinyloop/internal/par"
)

// InjectAdd adds e to h, row by row by shares. A barrier must follow.
func InjectAdd(w *par.Worker, h, e *Stream) {
	for lo, hi := w.Split(len(h.Index)); lo < hi; lo++ {
		kernel.Add(h.Row(lo), h.Row(lo), e.Row(lo))
	}
}

// InjectDiagonal sets h = decay*h + e by component, row by row by shares; e already holds dt*(B e). A barrier must follow.
func InjectDiagonal(w *par.Worker, h, e *Stream, decay []float32) {
	for lo, hi := w.Split(len(h.Index)); lo < hi; lo++ {
		kernel.MulAdd(h.Row(lo), decay, h.Row(lo), e.Row(lo))
	}
}

// InjectConcat sets h = l [h ; e]. acts is 2*Dim wide, y [rows][ldy] is working memory. Barriers inside; one must follow.
func InjectConcat(w *par.Worker, h, e *Stream, l *Linear, acts *Acts, y []float32, ldy int) {
	in := acts.Joined(w, h, e, l.W)
	lo, hi := l.Forward(w, y, ldy, in, len(h.Index))
	w.Barrier() // every worker has read h
	CopyTo(h, y, ldy, lo, hi)
}

// Project sets x = l x. acts is Dim wide, y [rows][ldy] is working memory. Barriers inside; one must follow.
func Project(w *par.Worker, x *Stream, l *Linear, acts *Acts, y []float32, ldy int) (lo, hi int) {
	in := acts.Plain(w, x, l.W)
	lo, hi = l.Forward(w, y, ldy, in, len(x.Index))
	w.Barrier() // every worker has read x
	CopyTo(x, y, ldy, lo, hi)
	return lo, hi
}

// CopyTo writes columns [lo, hi) of y [rows][ldy] to the streams.
func CopyTo(x *Stream, y []float32, ldy, lo, hi int) {
	for r := range x.Index {
		copy(x.Row(r)[lo:hi], y[r*ldy+lo:r*ldy+hi])
	}
}

// Multiply scales every component of x by its factor, row by row by shares. A barrier must follow.
func Multiply(w *par.Worker, x *Stream, factor []float32) {
	for lo, hi := w.Split(len(x.Index)); lo < hi; lo++ {
		for i, f := range factor {
			x.Row(lo)[i] *= f
		}
	}
}
