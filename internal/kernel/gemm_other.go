//go:build !amd64 || purego

package kernel

func packTurned(dst, b []float32, ldb, n, k int)   { packTurnedGeneric(dst, b, ldb, n, 0, k) }
func packColumns(dst, b []float32, ldb, n, k int)  { packColumnsGeneric(dst, b, ldb, n, k) }
func packTiles(dst, a []float32, lda, rows, k int) { packTilesGeneric(dst, a, lda, rows, k) }
