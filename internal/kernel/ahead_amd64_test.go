//go:build amd64 && !purego

package kernel

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestTilesAskForWhatFollows: the tiles that take the same panels ask, between them, for as many bytes as the panels after those have, codes and what stands
// beside them alike, and a tile alone for as many as it reads.
func TestTilesAskForWhatFollows(t *testing.T) {
	needAVX2(t)
	r := rand.New(rand.NewPCG(57, 58))
	const panels, n = 3, 2 // in the matrix, in a run
	for _, f := range allTypes {
		k := fit(f, 768)
		m := newMatrix(t, f, panels*Panel, k, randomWeights(r, f, panels*Panel, k))
		for _, rows := range []int{2, 3, 4, 5, 6, 7, 8, 13, 64} {
			in := NewInput(rows, k)
			fillInput(r, in)
			in.Prepare(m, 0, rows)
			dst := make([]float32, rows*n*Panel)
			var a prefetch
			if !m.quantised() {
				if rows < 3 && m.lay != layF32 {
					continue // such a tile takes several panels at a time and asks for nothing
				}
				w := m.plainPanels(0, panels)
				w.aim(&a, w.tiling(rows), 0, n)
				from := a.main
				for i := 0; i < rows; {
					h := tile(rows-i, plainTileRows)
					tilePlain(dst[i*n*Panel:], n*Panel, in.x[i*in.ldx:], in.ldx, w, 0, h, n, &a.left)
					i += h
				}
				checkAsked(t, f, rows, int(a.main-from), n*m.bodyBytes()/panels)
				continue
			}
			q, most := quantRows{q: in.q, wide: in.wide, metas: in.metas, blocks: in.blocks}, quantTileRows
			if m.lay == layQ8 {
				most = wideTileRows
			}
			m.aimQuant(&a, m.tiling(rows, most), in.blocks, 0, n, panels)
			from := a
			for i := 0; i < rows; {
				h := tile(rows-i, most)
				tileQuant(&dst[i*n*Panel], n*Panel, &q, i, h, m, 0, n, &a.left)
				i += h
			}
			checkAsked(t, f, rows, int(a.main-from.main), n*m.bodyBytes()/panels)
			checkAsked(t, f, rows, int(a.sides[0]-from.sides[0]), n*in.blocks*qk)
			if m.hasMin() {
				checkAsked(t, f, rows, int(a.sides[1]-from.sides[1]), n*in.blocks*qk)
			}
		}
	}
}

func (m *Matrix) bodyBytes() int {
	main, _, _, _ := m.sizes()
	return main
}

func checkAsked(t *testing.T, f Type, rows, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%v, %d rows: asked for %d bytes, want %d", f, rows, got, want)
	}
}

// TestAim: panels of one tile are asked for a little ahead, those of several a run ahead, and the last ones of a call ask for nothing.
func TestAim(t *testing.T) {
	var mem [1 << 16]byte
	at := unsafe.Pointer(&mem[0])
	for _, c := range []struct {
		tiling
		last      bool
		off, left int
	}{
		{tiling{1, 1}, false, nearAhead, 1},
		{tiling{1, 2}, true, 9000, 2},
		{tiling{3, 5}, false, 27000, 5},
		{tiling{3, 5}, true, 0, never},
	} {
		var a prefetch
		if off := a.aim(c.tiling, at, 9000, 3, c.last, 1); off != c.off || a.left != c.left || a.every != c.visits || a.main != uintptr(at)+uintptr(off) {
			t.Errorf("%+v: %d ahead, %+v", c, off, a)
		}
	}
}
