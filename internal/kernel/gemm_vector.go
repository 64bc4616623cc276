//go:build (amd64 || arm64) && !purego

package kernel

// gemmPanel multiplies the tiles by n columns of B, n at most 16: whole tiles in one call, then the rows that are left. B is a packed panel where n is below 16.
func gemmPanel(c []float32, ldc, n int, t gemmTiles, b []float32, bs, k int, load bool) {
	if !vectors() {
		gemmPanelGeneric(c, ldc, n, t, b, bs, k, load)
		return
	}
	if n < Panel {
		gemmNarrow(c, ldc, n, t, b, k, load)
		return
	}
	whole := t.rows / gemmRows
	if whole > 0 {
		gemmCall(c, ldc, t, gemmRows, whole, b, bs, k, load)
	}
	if rest := t.rows - whole*gemmRows; rest > 0 {
		gemmCall(c[whole*gemmRows*ldc:], ldc, t.from(whole*gemmRows), rest, 1, b, bs, k, load)
	}
}

// gemmNarrow multiplies by a packed panel of which only n columns are wanted, tile after tile through a whole one.
func gemmNarrow(c []float32, ldc, n int, t gemmTiles, b []float32, k int, load bool) {
	var full [gemmRows * Panel]float32
	for r := 0; r < t.rows; r += gemmRows {
		h := min(gemmRows, t.rows-r)
		for i := 0; i < h && load; i++ {
			copy(full[i*Panel:], c[(r+i)*ldc:(r+i)*ldc+n])
		}
		gemmCall(full[:], Panel, t.from(r), h, 1, b, Panel, k, load)
		for i := range h {
			copy(c[(r+i)*ldc:(r+i)*ldc+n], full[i*Panel:])
		}
	}
}
