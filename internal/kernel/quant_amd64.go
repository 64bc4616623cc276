//go:build amd64 && !purego

package kernel

// rowBlockBytes is the size of the quantised activations that stay in the second cache while all panels pass.
const rowBlockBytes = 256 << 10

func mulQuant(dst []float32, ldd int, a *quantRows, r0, r1 int, w *Matrix, p0, p1 int) {
	if !useAVX2 {
		mulQuantGeneric(dst, ldd, a, r0, r1, w, p0, p1)
		return
	}
	if w.onVNNI() {
		mulVNNI(dst, ldd, a, r0, r1, w, p0, p1)
		return
	}
	block := max(4*quantTileRows, rowBlockBytes/(a.blocks*rowBytes(w.lay)))
	for r := r0; r < r1; {
		h := tile(r1-r, block)
		mulQuantBlock(dst[(r-r0)*ldd:], ldd, a, r, r+h, w, p0, p1)
		r += h
	}
}

// rowBytes is what products with a layout read of one block of one row.
func rowBytes(lay layout) int {
	if lay == layQ8 {
		return 2*qk + 8
	}
	return qk + 8
}

// mulQuantBlock takes each panel to all rows, tile after tile.
func mulQuantBlock(dst []float32, ldd int, a *quantRows, r0, r1 int, w *Matrix, p0, p1 int) {
	rows, most := r1-r0, quantTileRows
	if w.lay == layQ8 {
		most = wideTileRows
	}
	run := panelRun(rows, most, a.blocks*qk, 1)
	p := p0
	if kind, runs := w.runs(rows); runs > 0 {
		p += mulRuns(dst, ldd, a, r0, w, p0, p1, max(1, run/runs), kind, runs)
	}
	t := w.tiling(rows, most)
	var next prefetch
	for ; p < p1; p += run {
		n := min(run, p1-p)
		w.aimQuant(&next, t, a.blocks, p, n, p1)
		for r := r0; r < r1; {
			h := tile(r1-r, most)
			tileQuant(&dst[(r-r0)*ldd+(p-p0)*Panel], ldd, a, r, h, w, p, n, &next.left)
			r += h
		}
	}
}

// In place of the number of rows these name kernels that read several runs of panels side by side: one row by four, two by two.
const (
	oneByRuns = 5
	twoByRuns = 6
)

// runs gives the kernel that takes so few rows by several runs of panels, and how many, 0 for none. Weights in a cache gain nothing by it.
func (m *Matrix) runs(rows int) (kind, runs int) {
	switch {
	case !m.far:
		return 0, 0
	case rows == 1:
		return oneByRuns, 4
	case rows == 2 && m.lay == layQ8:
		return twoByRuns, 2
	}
	return 0, 0
}

// mulRuns takes the panels that make up whole runs, at most so many panels long, and gives their number.
func mulRuns(dst []float32, ldd int, a *quantRows, r int, w *Matrix, p0, p1, most, kind, runs int) int {
	p := p0
	for p1-p >= runs {
		n := min(most, (p1-p)/runs)
		tileQuant(&dst[(p-p0)*Panel], ldd, a, r, kind, w, p, n, nil)
		p += n * runs
	}
	return p - p0
}

// quantTileRows is the largest number of rows of one call of a quantised kernel, wideTileRows of one for layQ8.
const (
	quantTileRows = 4
	wideTileRows  = 3
)

// tileQuant multiplies rows, 1 to 4, from row r on by n panels from panel p on.
func tileQuant(d *float32, ldd int, a *quantRows, r, rows int, w *Matrix, p, n int, next *int) {
	b := a.blocks
	first, row := p*b, r*b
	c := &w.code[4*first*w.wordsPerBlock()]
	if w.lay == layQ8 {
		tileWide(d, ldd, &a.wide[row*qk], &a.evens[row].scale, c, &w.scales[first*Panel], b, n, rows, next)
		return
	}
	q, m := &a.q[row*qk], &a.sums[row].scale
	switch w.lay {
	case layQ4:
		m = &a.fours[row].scale
	case layK6:
		m = &a.halves[row].scale
	}
	if w.inSupers() {
		tileSuper(d, ldd, q, m, c, &w.steps[2*first*Panel], &w.scales[first/(superLen/qk)*w.halvesPerSuper()], b, n, int(w.lay)*8+rows, next)
		return
	}
	tileBlocks(d, ldd, q, m, c, w, first, b, n, int(w.lay)*8+rows, next)
}

func tileWide(d *float32, ldd int, a *int16, m *float32, c *int8, s *uint16, b, n, rows int, next *int) {
	switch rows {
	case 1:
		mulQ8x1p1(d, ldd, a, m, c, s, b, n)
	case 2:
		mulQ8x2p1(d, ldd, a, m, c, s, b, n, next)
	case 3:
		mulQ8x3p1(d, ldd, a, m, c, s, b, n, next)
	case oneByRuns:
		mulQ8x1p4(d, ldd, a, m, c, s, b, n, n)
	case twoByRuns:
		mulQ8x2p2(d, ldd, a, m, c, s, b, n, n)
	}
}

// tileBlocks multiplies by panels of a layout of plain blocks from block first on; kind is 8 times the layout plus the rows.
func tileBlocks(d *float32, ldd int, q *int8, m *float32, c *int8, w *Matrix, first, b, n, kind int, next *int) {
	s := &w.scales[first*Panel]
	var min *uint16
	if len(w.mins) > 0 {
		min = &w.mins[first*Panel]
	}
	switch kind {
	case int(layQ8Min)*8 + 1:
		mulQ8Minx1p1(d, ldd, q, m, c, s, min, b, n)
	case int(layQ8Min)*8 + 2:
		mulQ8Minx2p1(d, ldd, q, m, c, s, min, b, n, next)
	case int(layQ8Min)*8 + 3:
		mulQ8Minx3p1(d, ldd, q, m, c, s, min, b, n, next)
	case int(layQ8Min)*8 + 4:
		mulQ8Minx4p1(d, ldd, q, m, c, s, min, b, n, next)
	case int(layQ8Min)*8 + oneByRuns:
		mulQ8Minx1p4(d, ldd, q, m, c, s, min, b, n, n)
	case int(layQ4)*8 + 1:
		mulQ4x1p1(d, ldd, q, m, c, s, min, b, n)
	case int(layQ4)*8 + 2:
		mulQ4x2p1(d, ldd, q, m, c, s, min, b, n, next)
	case int(layQ4)*8 + 3:
		mulQ4x3p1(d, ldd, q, m, c, s, min, b, n, next)
	case int(layQ4)*8 + 4:
		mulQ4x4p1(d, ldd, q, m, c, s, min, b, n, next)
	case int(layQ4)*8 + oneByRuns:
		mulQ4x1p4(d, ldd, q, m, c, s, min, b, n, n)
	case int(layQ4Min)*8 + 1:
		mulQ4Minx1p1(d, ldd, q, m, c, s, min, b, n)
	case int(layQ4Min)*8 + 2:
		mulQ4Minx2p1(d, ldd, q, m, c, s, min, b, n, next)
	case int(layQ4Min)*8 + 3:
		mulQ4Minx3p1(d, ldd, q, m, c, s, min, b, n, next)
	case int(layQ4Min)*8 + 4:
		mulQ4Minx4p1(d, ldd, q, m, c, s, min, b, n, next)
	case int(layQ4Min)*8 + oneByRuns:
		mulQ4Minx1p4(d, ldd, q, m, c, s, min, b, n, n)
	}
}

// tileSuper multiplies by panels of a K layout; kind is 8 times the layout plus the rows.
func tileSuper(d *float32, ldd int, q *int8, m *float32, c, f *int8, s *uint16, b, n, kind int, next *int) {
	switch kind {
	case int(layK4)*8 + 1:
		mulK4x1p1(d, ldd, q, m, c, f, s, b, n)
	case int(layK4)*8 + 2:
		mulK4x2p1(d, ldd, q, m, c, f, s, b, n, next)
	case int(layK4)*8 + 3:
		mulK4x3p1(d, ldd, q, m, c, f, s, b, n, next)
	case int(layK4)*8 + 4:
		mulK4x4p1(d, ldd, q, m, c, f, s, b, n, next)
	case int(layK4)*8 + oneByRuns:
		mulK4x1p4(d, ldd, q, m, c, f, s, b, n, n)
	case int(layK8)*8 + 1:
		mulK8x1p1(d, ldd, q, m, c, f, s, b, n)
	case int(layK8)*8 + 2:
		mulK8x2p1(d, ldd, q, m, c, f, s, b, n, next)
	case int(layK8)*8 + 3:
		mulK8x3p1(d, ldd, q, m, c, f, s, b, n, next)
	case int(layK8)*8 + 4:
		mulK8x4p1(d, ldd, q, m, c, f, s, b, n, next)
	case int(layK8)*8 + oneByRuns:
		mulK8x1p4(d, ldd, q, m, c, f, s, b, n, n)
	case int(layK6)*8 + 1:
		mulK6x1p1(d, ldd, q, m, c, f, s, b, n)
	case int(layK6)*8 + 2:
		mulK6x2p1(d, ldd, q, m, c, f, s, b, n, next)
	case int(layK6)*8 + 3:
		mulK6x3p1(d, ldd, q, m, c, f, s, b, n, next)
	case int(layK6)*8 + 4:
		mulK6x4p1(d, ldd, q, m, c, f, s, b, n, next)
	case int(layK6)*8 + oneByRuns:
		mulK6x1p4(d, ldd, q, m, c, f, s, b, n, n)
	}
}
