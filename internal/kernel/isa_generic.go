//go:build !amd64 || purego

package kernel

import "math"

func quantiseRow(q []int8, wide []int16, meta metas, x []float32) {
	quantiseRowGeneric(q, wide, meta, x)
}

func (m *Matrix) packPanel(p int, src []byte) bool { return false }

func roundRow(dst, x []float32)                                    { roundRowGeneric(dst, x) }
func addSquares(s *[normLanes]float32, x []float32, shift float32) { addSquaresGeneric(s, x, shift) }
func scaleGain(dst, x, gain []float32, s float32)                  { scaleGainGeneric(dst, x, gain, s) }
func rmsNorm(dst, x, gain []float32, eps float32)                  { rmsNormGeneric(dst, x, gain, eps) }
func swiGLU(dst, gate, up []float32)                               { swiGLUGeneric(dst, gate, up) }
func gelu(dst, x []float32)                                        { geluGeneric(dst, x) }
func add(dst, a, b []float32)                                      { addGeneric(dst, a, b) }
func scale(dst, a []float32, s float32)                            { scaleGeneric(dst, a, s) }
func mulAdd(dst, a, b, c []float32)                                { mulAddGeneric(dst, a, b, c) }
func maxWhole(x []float32) (float32, int)                          { return float32(math.Inf(-1)), 0 }
func softmax(x []float32) float32                                  { return softmaxGeneric(x) }
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

func largestBits(x []float32) uint32                  { return largestBitsGeneric(x) }
func roundCodes(dst []int8, x []float32, inv float32) { roundCodesGeneric(dst, x, inv) }

func (kv *KV) dot(out []float32, ldo int, q []float32, ldq int, pages []int32, after int32, u *unit, scale float32) {
	kv.dotGeneric(out, ldo, q, ldq, pages, u, scale)
}

func (kv *KV) addValues(acc, w []float32, ldw int, pages []int32, after int32, head, lane, rows, n int) {
	kv.addValuesGeneric(acc, w, ldw, pages, head, lane, rows, n)
}
