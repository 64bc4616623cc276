//go:build amd64 && !purego

package kernel

import (
	"math/rand/v2"
	"testing"
)

// TestTilesAskForWhatFollows: the tiles that take the same panels ask, between them, for as many bytes as the panels after those have, codes and what stands
// beside them alike; a tile alone asks for nothing, or, of weights that are not quantised, for as many as it reads.
func TestTilesAskForWhatFollows(t *testing.T) {
	needAVX2(t)
	r := rand.New(rand.NewPCG(57, 58))
	const panels, n = 3, 2 // in the matrix, in a run
	for _, f := range allTypes {
		k := fit(f, 768)
		m := newMatrix(t, f, panels*Panel, k, randomWeights(r, f, panels*Panel, k))
		m.far = true
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
			main, side := n*m.bodyBytes()/panels, n*in.blocks*qk
			if rows <= most {
				main, side = 0, 0
			}
			checkAsked(t, f, rows, int(a.main-from.main), main)
			checkAsked(t, f, rows, int(a.sides[0]-from.sides[0]), side)
			if m.hasMin() {
				checkAsked(t, f, rows, int(a.sides[1]-from.sides[1]), side)
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
