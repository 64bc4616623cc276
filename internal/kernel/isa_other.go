//go:build (!amd64 && !arm64) || purego

package kernel

// ISA names the instruction set of the kernels in use.
func ISA() string { return "generic" }

func mulPlain(dst []float32, ldd int, x []float32, ldx, rows int, w plainPanels) {
	mulPlainGeneric(dst, ldd, x, ldx, rows, w)
}

func mulQuant(dst []float32, ldd int, a *quantRows, r0, r1 int, w *Matrix, p0, p1 int) {
	mulQuantGeneric(dst, ldd, a, r0, r1, w, p0, p1)
}

func gemmPanel(c []float32, ldc, n int, t gemmTiles, b []float32, bs, k int, load bool) {
	gemmPanelGeneric(c, ldc, n, t, b, bs, k, load)
}
