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

	nearAhead = 2 << 10 // how far ahead of its reading a tile of halves asks that takes its panels alone
)

// tiling is how the rows of a call are cut: how many tiles, and how many visits they make together for askBytes of the main stream.
type tiling struct{ tiles, visits int }

// aim sets what the tiles over n panels ask for: what lies so many bytes behind the beginning of the first, which is at main.
func (a *prefetch) aim(t tiling, main unsafe.Pointer, off int) {
	a.left, a.every = t.visits, t.visits
	a.main = uintptr(main) + uintptr(off)
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

// aimQuant is aim for panels [p, p+n) of [0, end): the panels that follow. A tile that takes all rows asks for its own weights as it reads them.
func (m *Matrix) aimQuant(a *prefetch, t tiling, blocks, p, n, end int) {
	a.left = never
	if t.tiles == 1 || p+n == end || !m.far {
		return
	}
	panel, first := blocks*4*m.wordsPerBlock(), p*blocks
	a.aim(t, unsafe.Pointer(&m.code[p*panel]), n*panel)
	beside := uintptr(n * blocks * qk)
	if m.inSupers() {
		a.sides[0] = uintptr(unsafe.Pointer(&m.steps[2*first*Panel])) + beside
	} else {
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

// aim is prefetch.aim for panels [p, p+n): the panels that follow, or, where one tile takes all rows, what it comes to soon.
func (w *plainPanels) aim(a *prefetch, t tiling, p, n int) {
	at, bytes := p*w.k*Panel, 2
	if w.lay == layF32 {
		bytes = 4
	}
	off := n * w.k * Panel * bytes
	switch {
	case t.tiles > 1 && p+n == w.panels || !w.far:
		a.left = never
		return
	case t.tiles == 1 && w.lay == layF32:
		off = w.k * Panel * bytes // it goes over a panel several times
	case t.tiles == 1:
		off = nearAhead
	}
	if w.lay == layF32 {
		a.aim(t, unsafe.Pointer(&w.f32[at]), off)
	} else {
		a.aim(t, unsafe.Pointer(&w.half[at]), off)
	}
}
