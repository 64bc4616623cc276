package kernel

// The f32 products of training. Each output is one sum over ascending k, every step a fused multiply-add, started from C where the product is added and from zero
// where not: cutting M, N or K and any number of workers change no bit. A call is single-threaded and allocates nothing; callers split the work by rows.
//
// A packed B is cut in panels of 16 columns, as the weights of inference are:
//
//	[N/16][K][16]
//
// After Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008, without their packing of A where A lies row by row.

const (
	gemmRows  = 6   // rows of a register tile
	gemmDepth = 320 // most terms of one pass: a panel of 20 KiB stays in the first cache
	gemmBlock = 192 // most rows of one pass, a multiple of gemmRows: 240 KiB of A stay in the second cache
)

// GemmPackLen gives the floats of a packed B of n columns and k rows.
func GemmPackLen(n, k int) int { return roundUp(n, Panel) * k }

// GemmPackNT packs B given as [n][k], rows ldb floats apart: weights W[out][in] for Y = X·Wᵀ. dst has GemmPackLen(n, k) values.
func GemmPackNT(dst, b []float32, ldb, n, k int) {
	for p := 0; p < n; p += Panel {
		packTurned(dst[p*k:], b[p*ldb:], ldb, min(Panel, n-p), k)
	}
}

// GemmPackNN packs B given as [k][n], rows ldb floats apart: weights W[out][in] for dX = dY·W. dst has GemmPackLen(n, k) values.
func GemmPackNN(dst, b []float32, ldb, n, k int) {
	for p := 0; p < n; p += Panel {
		packColumns(dst[p*k:], b[p:], ldb, min(Panel, n-p), k)
	}
}

func packTurnedGeneric(dst, b []float32, ldb, n, from, k int) {
	for i := from; i < k; i++ {
		row := dst[i*Panel : (i+1)*Panel]
		clear(row)
		for l := range n {
			row[l] = b[l*ldb+i]
		}
	}
}

func packColumnsGeneric(dst, b []float32, ldb, n, k int) {
	for i := range k {
		row := dst[i*Panel : (i+1)*Panel]
		clear(row[copy(row, b[i*ldb:i*ldb+n]):])
	}
}

// Gemm computes C = A·B, or C += A·B where add is set: C[m][n] with rows ldc floats apart, A[m][k] with rows lda apart, bp the packed B[k][n]. C overlaps neither.
// Strides that are multiples of 1024 floats put all rows of a tile in the same places of the cache; 16 floats more avoid that.
func Gemm(c []float32, ldc int, a []float32, lda, m int, bp []float32, n, k int, add bool) {
	if m <= 0 || n <= 0 {
		return
	}
	_ = c[(m-1)*ldc+n-1]
	if k <= 0 {
		clearRows(c, ldc, m, n, add)
		return
	}
	_, _ = a[(m-1)*lda+k-1], bp[GemmPackLen(n, k)-1]
	for k0, depth := 0, 0; k0 < k; k0 += depth {
		depth = evenPart(k-k0, gemmDepth)
		for m0 := 0; m0 < m; m0 += gemmBlock {
			t := gemmTiles{a: a[m0*lda+k0:], rs: lda, ks: 1, step: gemmRows * lda, rows: min(gemmBlock, m-m0), after: Panel * k}
			for p := 0; p < n; p += Panel {
				gemmPanel(c[m0*ldc+p:], ldc, min(Panel, n-p), t, bp[p*k+k0*Panel:], Panel, depth, add || k0 > 0)
			}
		}
	}
}

// GemmTNScratch gives the floats that GemmTN wants as scratch.
func GemmTNScratch(m, n, k int) int {
	depth := min(k, gemmDepth)
	return depth * (roundUp(n, Panel) + (min(m, gemmBlock)+gemmRows-1)/gemmRows*gemmRows)
}

// GemmTN computes C = Aᵀ·B, or C += Aᵀ·B where add is set: C[m][n], A[k][m] and B[k][n] with rows ldc, lda and ldb floats apart: the gradient of weights
// dW[out][in] += dYᵀ·X, k counting tokens. tmp holds GemmTNScratch(m, n, k) values. C overlaps nothing.
func GemmTN(c []float32, ldc int, a []float32, lda int, b []float32, ldb, m, n, k int, add bool, tmp []float32) {
	if m <= 0 || n <= 0 {
		return
	}
	_ = c[(m-1)*ldc+n-1]
	if k <= 0 {
		clearRows(c, ldc, m, n, add)
		return
	}
	_, _ = a[(k-1)*lda+m-1], b[(k-1)*ldb+n-1]
	wide := roundUp(n, Panel)
	for k0, depth := 0, 0; k0 < k; k0 += depth {
		depth = evenPart(k-k0, gemmDepth)
		bp, ap := tmp[:depth*wide], tmp[depth*wide:]
		GemmPackNN(bp, b[k0*ldb:], ldb, n, depth)
		for m0 := 0; m0 < m; m0 += gemmBlock {
			t := gemmTiles{a: ap, rs: 1, ks: gemmRows, step: gemmRows * depth, rows: min(gemmBlock, m-m0), after: Panel * depth}
			packTiles(ap, a[k0*lda+m0:], lda, t.rows, depth)
			for p := 0; p < n; p += Panel {
				gemmPanel(c[m0*ldc+p:], ldc, min(Panel, n-p), t, bp[p*depth:], Panel, depth, add || k0 > 0)
			}
		}
	}
}

// evenPart gives the next part of n that is cut as evenly as parts of at most `most` allow, in fours where it can be.
func evenPart(n, most int) int {
	parts := (n + most - 1) / most
	return min(n, roundUp((n+parts-1)/parts, 4))
}

func clearRows(c []float32, ldc, m, n int, add bool) {
	for r := 0; r < m && !add; r++ {
		clear(c[r*ldc : r*ldc+n])
	}
}

// gemmTiles is A of one product as register tiles: term i of row r lies at a[r/6*step + r%6*rs + i*ks].
type gemmTiles struct {
	a                  []float32
	rs, ks, step, rows int
	after              int // distance from a panel of B to the next, where C and that are worth fetching ahead of their use
}

// from gives the tiles from row r on, a multiple of gemmRows.
func (t gemmTiles) from(r int) gemmTiles {
	t.a, t.rows = t.a[r/gemmRows*t.step:], t.rows-r
	return t
}

// gemmPanelGeneric multiplies by n columns of B, n at most 16, whose rows lie bs floats apart.
func gemmPanelGeneric(c []float32, ldc, n int, t gemmTiles, b []float32, bs, k int, load bool) {
	for r := range t.rows {
		var acc [Panel]float32
		out, a := c[r*ldc:r*ldc+n], t.a[r/gemmRows*t.step+r%gemmRows*t.rs:]
		if load {
			copy(acc[:], out)
		}
		for i := range k {
			v := a[i*t.ks]
			for l, w := range b[i*bs : i*bs+n] {
				acc[l] = fma32(w, v, acc[l])
			}
		}
		copy(out, acc[:])
	}
}

// packTilesGeneric writes rows columns of A[k][rows], lda floats apart, as tiles [rows/6][k][6].
func packTilesGeneric(dst, a []float32, lda, rows, k int) {
	for r := 0; r < rows; r += gemmRows {
		h := min(gemmRows, rows-r)
		for i := range k {
			at := r*k + i*gemmRows
			clear(dst[at+copy(dst[at:at+h], a[i*lda+r:]) : at+gemmRows])
		}
	}
}
