package kernel

// ISA names the instruction set of the kernels in use.
func ISA() string { return "generic" }

func quantiseRow(q []int8, scale []float32, sum []int32, x []float32) {
	quantiseRowGeneric(q, scale, sum, x)
}

func mulF32(dst []float32, ldd int, x []float32, ldx, rows int, w []float32, k int) {
	mulF32Generic(dst, ldd, x, ldx, rows, w, k)
}

func mulF16(dst []float32, ldd int, x []float32, ldx, rows int, w []uint16, k int) {
	mulHalfGeneric(dst, ldd, x, ldx, rows, w, k, F16ToF32)
}

func mulBF16(dst []float32, ldd int, x []float32, ldx, rows int, w []uint16, k int) {
	mulHalfGeneric(dst, ldd, x, ldx, rows, w, k, BF16ToF32)
}

func mulQuant(dst []float32, ldd int, a quantRows, w quantPanels) { mulQuantGeneric(dst, ldd, a, w) }

func addSquares(s *[normLanes]float32, x []float32, shift float32) { addSquaresGeneric(s, x, shift) }
func scaleGain(dst, x, gain []float32, s float32)                  { scaleGainGeneric(dst, x, gain, s) }
func swiGLU(dst, gate, up []float32)                               { swiGLUGeneric(dst, gate, up) }
func maxOf(x []float32) float32                                    { return maxGeneric(x) }
func expSum(x []float32, top float32, sums *[Panel]float32)        { expSumGeneric(x, top, sums) }

func dotPage(out *[Panel]float32, q, k []float32, scale float32) { dotPageGeneric(out, q, k, scale) }
func dotPageF16(out *[Panel]float32, q []float32, k []uint16, scale float32) {
	dotPageF16Generic(out, q, k, scale)
}
func addValues(acc, w, v []float32)             { addValuesGeneric(acc, w, v) }
func addValuesF16(acc, w []float32, v []uint16) { addValuesF16Generic(acc, w, v) }
