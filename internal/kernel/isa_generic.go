//go:build !amd64 || purego

package kernel

import "math"

func quantiseRow(q []int8, wide []int16, meta metas, x []float32) {
	quantiseRowGeneric(q, wide, meta, x)
}

func (m *Matrix) packPanel(p int, src []byte) bool { return false }

func fetch(b []byte)                                               {}
func roundRow(dst, x []float32)                                    { roundRowGeneric(dst, x) }
func addSquares(s *[normLanes]float32, x []float32, shift float32) { addSquaresGeneric(s, x, shift) }
func scaleGain(dst, x, gain []float32, s float32)                  { scaleGainGeneric(dst, x, gain, s) }
func swiGLU(dst, gate, up []float32)                               { swiGLUGeneric(dst, gate, up) }
func gelu(dst, x []float32)                                        { geluGeneric(dst, x) }
func add(dst, a, b []float32)                                      { addGeneric(dst, a, b) }
func scale(dst, a []float32, s float32)                            { scaleGeneric(dst, a, s) }
func mulAdd(dst, a, b, c []float32)                                { mulAddGeneric(dst, a, b, c) }
func maxWhole(x []float32) (float32, int)                          { return float32(math.Inf(-1)), 0 }
func expSum(x []float32, top float32, sums *[Panel]float32)        { expSumGeneric(x, top, sums) }
func expSumDouble(x []float32, top float32, sums *[Panel]float64)  { expSumDoubleGeneric(x, top, sums) }

func ropeHalf(a, b, cos, sin []float32)           { ropeHalfGeneric(a, b, cos, sin) }
func ropeInterleaved(x, cos, sin []float32)       { ropeInterleavedGeneric(x, cos, sin) }
func halves(dst []uint16, x []float32)            { halvesGeneric(dst, x) }
func addLanes(s *[normLanes]float32, x []float32) { addLanesGeneric(s, x) }
func relu2(dst, x []float32)                      { relu2Generic(dst, x) }
func layerNorm(dst, x, gain, bias []float32, mean, s float32) {
	layerNormGeneric(dst, x, gain, bias, mean, s)
}

func weigh(dst, x []float32, top, inv float32, sums *[Panel]float64) {
	weighGeneric(dst, x, top, inv, sums)
}

func dotPage(out, q, k []float32, scale float32)             { dotPageGeneric(out, q, k, scale) }
func dotPageF16(out, q []float32, k []uint16, scale float32) { dotPageF16Generic(out, q, k, scale) }
func addValues(acc, w, v []float32)                          { addValuesGeneric(acc, w, v) }
func addValuesF16(acc, w []float32, v []uint16)              { addValuesF16Generic(acc, w, v) }

func dotPages4(out, q, k0, k1, k2, k3 []float32, scale float32) {
	dotPageGeneric(out, q, k0, scale)
	dotPageGeneric(out[Panel:], q, k1, scale)
	dotPageGeneric(out[2*Panel:], q, k2, scale)
	dotPageGeneric(out[3*Panel:], q, k3, scale)
}

func dotPages4F16(out, q []float32, k0, k1, k2, k3 []uint16, scale float32) {
	dotPageF16Generic(out, q, k0, scale)
	dotPageF16Generic(out[Panel:], q, k1, scale)
	dotPageF16Generic(out[2*Panel:], q, k2, scale)
	dotPageF16Generic(out[3*Panel:], q, k3, scale)
}

func dotPageQ4(out []float32, ldo int, q []float32, ldq, dim int, k []float32, scale float32) {
	for i := range 4 {
		dotPageGeneric(out[i*ldo:], q[i*ldq:i*ldq+dim], k, scale)
	}
}

func dotPageHalfQ4(out []float32, ldo int, q []float32, ldq, dim int, k []uint16, scale float32) {
	for i := range 4 {
		dotPageF16Generic(out[i*ldo:], q[i*ldq:i*ldq+dim], k, scale)
	}
}

func addValuesQ4(acc []float32, lda, width int, w []float32, ldw, rows int, v []float32) {
	for i := range 4 {
		addValuesGeneric(acc[i*lda:i*lda+width], w[i*ldw:i*ldw+rows], v)
	}
}

func addValuesHalfQ4(acc []float32, lda, width int, w []float32, ldw, rows int, v []uint16) {
	for i := range 4 {
		addValuesF16Generic(acc[i*lda:i*lda+width], w[i*ldw:i*ldw+rows], v)
	}
}
