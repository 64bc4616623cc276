package nn

// This file and those ending in _train hold the layers of training: whole rows at once, forward and, beside it, backward. A backward function takes
// the gradient of a layer's result, adds to the gradients of its weights and gives the gradient of its input. The code is written once over float32
// and float64: the first trains with the kernels of Ops, the second checks every derivative against differences.

// Float is a number that layers of training compute with.
type Float interface{ float32 | float64 }

// Mat is a matrix [N][K] of the flat array: its offset there, and in the packed matrices for products with W' (forward) and W (backward).
type Mat struct{ N, K, Off, NT, NN int }

// Vec is a vector of the flat array; N = 0 means absent.
type Vec struct{ Off, N int }

// Work is what every layer needs: inner loops, weights, and where gradients go. One goroutine.
type Work[F Float] struct {
	*Ops[F]
	Flat, Grad []F // parameters and their gradients, in the same order
	Pack       []F
	Tmp        []F // working memory of GemmTN and of norms
}

// Val gives a vector.
func (w *Work[F]) Val(v Vec) []F { return w.Flat[v.Off : v.Off+v.N] }

// GradOf gives the gradient of a vector.
func (w *Work[F]) GradOf(v Vec) []F { return w.Grad[v.Off : v.Off+v.N] }

// Row gives row i of a matrix.
func (w *Work[F]) Row(m Mat, i int) []F { return w.Flat[m.Off+i*m.K : m.Off+(i+1)*m.K] }

// GradRow gives the gradient of row i of a matrix.
func (w *Work[F]) GradRow(m Mat, i int) []F { return w.Grad[m.Off+i*m.K : m.Off+(i+1)*m.K] }

// PackMat packs a matrix of the flat array in both directions.
func (o *Ops[F]) PackMat(pack, flat []F, m Mat) {
	src := flat[m.Off : m.Off+m.N*m.K]
	o.PackNT(pack[m.NT:], src, m.K, m.N, m.K)
	o.PackNN(pack[m.NN:], src, m.K, m.K, m.N)
}

// Mul computes y[rows][N] (+)= x W'.
func (w *Work[F]) Mul(m Mat, y []F, ldy int, x []F, ldx, rows int, add bool) {
	w.Gemm(y, ldy, x, ldx, rows, w.Pack[m.NT:], m.N, m.K, add)
}

// MulBack computes dx[rows][K] (+)= dy W.
func (w *Work[F]) MulBack(m Mat, dx []F, lddx int, dy []F, lddy, rows int, add bool) {
	w.Gemm(dx, lddx, dy, lddy, rows, w.Pack[m.NN:], m.K, m.N, add)
}

// MatGrad adds dy' x to the gradient of a matrix.
func (w *Work[F]) MatGrad(m Mat, dy []F, lddy int, x []F, ldx, rows int) {
	w.GemmTN(w.Grad[m.Off:], m.K, dy, lddy, x, ldx, m.N, m.K, rows, true, w.Tmp)
}

// Dense is a Linear of the flat array.
type Dense struct {
	W    Mat
	Bias Vec
}

// Linear computes y[rows][N] = x W' + b.
func (w *Work[F]) Linear(d *Dense, y []F, ldy int, x []F, ldx, rows int) {
	w.Mul(d.W, y, ldy, x, ldx, rows, false)
	if d.Bias.N == 0 {
		return
	}
	b := w.Val(d.Bias)
	for r := range rows {
		row := y[r*ldy : r*ldy+d.W.N]
		w.Add(row, row, b)
	}
}

// LinearBack adds to the gradients of W and b and computes dx (+)= dy W.
func (w *Work[F]) LinearBack(d *Dense, dx []F, lddx int, dy []F, lddy int, x []F, ldx, rows int, add bool) {
	w.MatGrad(d.W, dy, lddy, x, ldx, rows)
	w.biasBack(d.Bias, dy, lddy, rows)
	w.MulBack(d.W, dx, lddx, dy, lddy, rows, add)
}

func (w *Work[F]) biasBack(b Vec, dy []F, lddy, rows int) {
	if b.N == 0 {
		return
	}
	db := w.GradOf(b)
	for r := range rows {
		w.Add(db, db, dy[r*lddy:r*lddy+b.N])
	}
}
