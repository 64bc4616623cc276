//go:build amd64 && !purego

package kernel

import "unsafe"

// prefetch says which weights kernels of several rows ask for while they work on others. Tiles that take the same panels one after the other share the asking
// for the panels after those, evenly: otherwise the first tile would wait for memory, and memory for the other tiles.
//
// The kernels know it as words: see asker in gen.
type prefetch struct {
	left, every int        // visits of a kernel's inner loop to the next asking, from one to the next
	main        uintptr    // where from, asked for in eight lines at a time
	sides       [2]uintptr // the same of the streams beside it, a line each
}

const (
	askBytes = 8 * lineBytes // of the main stream, at a time
	never    = 1 << 62       // visits

	// nearAhead is how far ahead of its reading a tile asks that takes its panels alone and once. Any distance from 2 to 128 KiB serves.
	nearAhead = 4 << 10
)

// tiling is how the rows of a call are cut: how many tiles, and how many visits they make together for askBytes of the main stream.
type tiling struct{ tiles, visits int }

// aim sets what the tiles over panels [p, p+n) of [0, end) ask for: the panels that follow, or, where one tile takes all rows, what lies a distance ahead. main is
// where panel p begins, of so many bytes, and once the visits of a kernel that reads it in one pass.
func (a *prefetch) aim(t tiling, main unsafe.Pointer, panel, n int, last bool, once int) (off int) {
	a.left, a.every = t.visits, t.visits
	switch {
	case t.tiles > 1 && last:
		a.left = never
	case t.tiles > 1:
		off = n * panel
	case t.visits == once:
		off = nearAhead
	default:
		off = panel
	}
	a.main = uintptr(main) + uintptr(off)
	return off
}

func (w *plainPanels) tiling(rows int) tiling {
	n := (rows + plainTileRows - 1) / plainTileRows
	return tiling{n, n * w.visits()}
}

func (m *Matrix) tiling(rows, most int) tiling {
	var t tiling
	for rows > 0 {
		h := tile(rows, most)
		t.tiles++
		t.visits += m.quantVisits(h)
		rows -= h
	}
	return t
}

// quantVisits gives the visits of a tile of so many rows for askBytes of codes: a block of bytes, two of nibbles, in one or two passes over a panel.
func (m *Matrix) quantVisits(rows int) int {
	v := 1
	if m.nibbles() {
		v = 2
	}
	if m.lay == layQ8 || rows <= 2 || rows == 4 && m.nibbles() {
		return v
	}
	return 2 * v
}

// aimQuant is aim for panels [p, p+n) of [0, end).
func (m *Matrix) aimQuant(a *prefetch, t tiling, blocks, p, n, end int) {
	first, once, side := p*blocks, 1, qk
	if m.nibbles() {
		once, side = 2, 2*qk
	}
	panel := blocks * 4 * m.wordsPerBlock()
	off := a.aim(t, unsafe.Pointer(&m.code[p*panel]), panel, n, p+n == end, once)
	beside := uintptr(off / askBytes * side)
	switch {
	case m.inSupers():
		a.sides[0] = uintptr(unsafe.Pointer(&m.steps[2*first*Panel])) + beside
	default:
		a.sides[0] = uintptr(unsafe.Pointer(&m.scales[first*Panel])) + beside
	}
	if m.hasMin() {
		a.sides[1] = uintptr(unsafe.Pointer(&m.mins[first*Panel])) + beside
	}
}

// visits is quantVisits for unquantised panels, whatever the rows: f32 takes two or four passes, where two terms of each chain or four of one are a visit, halves
// take one, where four terms are.
func (w *plainPanels) visits() int {
	if w.lay == layF32 {
		return 2
	}
	return 4
}

// aim is prefetch.aim for panels [p, p+n).
func (w *plainPanels) aim(a *prefetch, t tiling, p, n int) {
	at, last := p*w.k*Panel, p+n == w.panels
	if w.lay == layF32 {
		a.aim(t, unsafe.Pointer(&w.f32[at]), 4*w.k*Panel, n, last, 1)
	} else {
		a.aim(t, unsafe.Pointer(&w.half[at]), 2*w.k*Panel, n, last, 4)
	}
}
