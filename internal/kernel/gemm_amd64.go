//go:build !purego

package kernel

import "unsafe"

// vectors says whether gemmCall can be called.
func vectors() bool { return useAVX2 }

// gemmCall multiplies tiles of rows (1 to 6) by a whole panel.
func gemmCall(c []float32, ldc int, t gemmTiles, rows, tiles int, b []float32, bs, k int, load bool) {
	cp, ap, bp, start, next, lines := &c[0], &t.a[0], &b[0], 0, &b[0], 0
	if t.after > 0 {
		lines = min(16, (k+tiles-1)/tiles)
	}
	if t.after < len(b) {
		next = &b[t.after]
	}
	if load {
		start = 1
	}
	ldc, rs, ks, step, bs := 4*ldc, 4*t.rs, 4*t.ks, 4*t.step, 4*bs
	switch rows {
	case 1:
		gemmx1(cp, ldc, ap, rs, ks, step, bp, bs, k, tiles, start, next, lines)
	case 2:
		gemmx2(cp, ldc, ap, rs, ks, step, bp, bs, k, tiles, start, next, lines)
	case 3:
		gemmx3(cp, ldc, ap, rs, ks, step, bp, bs, k, tiles, start, next, lines)
	case 4:
		gemmx4(cp, ldc, ap, rs, ks, step, bp, bs, k, tiles, start, next, lines)
	case 5:
		gemmx5(cp, ldc, ap, rs, ks, step, bp, bs, k, tiles, start, next, lines)
	default:
		gemmx6(cp, ldc, ap, rs, ks, step, bp, bs, k, tiles, start, next, lines)
	}
}

// packTurned writes n rows of B, n at most 16, as the columns of a panel.
func packTurned(dst, b []float32, ldb, n, k int) {
	done := 0
	if eights := k / 8; useAVX2 && n == Panel && eights > 0 {
		packF32(&dst[0], (*byte)(unsafe.Pointer(&b[0])), 4*ldb, eights)
		done = 8 * eights
	}
	packTurnedGeneric(dst, b, ldb, n, done, k)
}

// packColumns writes n columns of B, n at most 16, as a panel.
func packColumns(dst, b []float32, ldb, n, k int) {
	if !useAVX2 || n < Panel || k == 0 {
		packColumnsGeneric(dst, b, ldb, n, k)
		return
	}
	gemmCopy16(&dst[0], &b[0], 4*ldb, k)
}

// tileRun is how many rows of A are packed at a time: few enough that their lines stay in the first cache while all tiles take their part.
const tileRun = 16

// packTiles writes rows columns of A[k][rows] as tiles [rows/6][k][6].
func packTiles(dst, a []float32, lda, rows, k int) {
	whole := rows / gemmRows
	if !useAVX2 {
		whole = 0
	}
	for i := 0; i < k && whole > 0; i += tileRun {
		gemmTiles6(&dst[i*gemmRows], 4*gemmRows*k, &a[i*lda], 4*lda, min(tileRun, k-i), whole)
	}
	if done := whole * gemmRows; done < rows {
		packTilesGeneric(dst[done*k:], a[done:], lda, rows-done, k)
	}
}
