package kernel

import "tinyloop/internal/invariants"

// MatMul computes dst[r*ldd+n] = sum over k of in[r][k]*w[n][k] for r in [0, rows) and the outputs n of panels [p0, p1), up to N. Prepare must cover the rows.
// Workers call it at the same time on different panels of the same matrix. Every output has the same bits whatever rows, p0 and p1 are.
func MatMul(dst []float32, ldd int, in *Input, rows int, w *Matrix, p0, p1 int) {
	invariants.Check(in.k == w.K && rows <= in.rows, "kernel: input does not fit the product")
	if rows == 0 {
		return
	}
	x := in.x
	if w.lay == layF16 {
		var slot *shortRows
		x, slot = in.rounded(rows)
		defer slot.release()
	}
	whole := min(p1, w.N/Panel)
	if p0 < whole {
		w.multiply(dst[p0*Panel:], ldd, in, x, 0, rows, p0, whole)
	}
	if whole = max(p0, whole); whole < p1 {
		w.lastPanel(dst, ldd, in, x, rows)
	}
}

// tileRows is the largest number of rows of one call of a vector kernel.
const tileRows = 6

// lastPanel computes the panel that N cuts through, beside dst, and copies what belongs to it.
func (m *Matrix) lastPanel(dst []float32, ldd int, in *Input, x []float32, rows int) {
	var tmp [tileRows * Panel]float32
	p := m.N / Panel
	for r := 0; r < rows; r += tileRows {
		n := min(tileRows, rows-r)
		m.multiply(tmp[:], Panel, in, x, r, r+n, p, p+1)
		for i := range n {
			copy(dst[(r+i)*ldd+p*Panel:(r+i)*ldd+m.N], tmp[i*Panel:])
		}
	}
}

// multiply computes whole panels [p0, p1) for rows [r0, r1); dst starts at row r0, panel p0. x are the rows that unquantised weights meet.
func (m *Matrix) multiply(dst []float32, ldd int, in *Input, x []float32, r0, r1, p0, p1 int) {
	if m.quantised() {
		a := quantRows{q: in.q, wide: in.wide, metas: in.metas, blocks: in.blocks}
		mulQuant(dst, ldd, &a, r0, r1, m, p0, p1)
		return
	}
	mulPlain(dst, ldd, x[r0*in.ldx:], in.ldx, r1-r0, m.plainPanels(p0, p1))
}

// plainPanels is a run of unquantised weight panels.
type plainPanels struct {
	lay       layout
	f32       []float32
	half      []uint16
	k, panels int
	far       bool
}

func (m *Matrix) plainPanels(p0, p1 int) plainPanels {
	w := plainPanels{lay: m.lay, k: m.K, panels: p1 - p0, far: m.far}
	if m.lay == layF32 {
		w.f32 = m.f32[p0*m.K*Panel : p1*m.K*Panel]
	} else {
		w.half = m.half[p0*m.K*Panel : p1*m.K*Panel]
	}
	return w
}

// quantRows are quantised activation rows: q and the same as words, wide, [rows][blocks*32].
type quantRows struct {
	q    []int8
	wide []int16
	metas
	blocks int
}

// tile gives the rows of the next tile of a product: as even a split as the largest tile allows.
func tile(rows, most int) int {
	parts := (rows + most - 1) / most
	return (rows + parts - 1) / parts
}
