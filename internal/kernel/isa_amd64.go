//go:build amd64 && !purego

package kernel

import (
	"math"
	"os"

	"golang.org/x/sys/cpu"
)

// useAVX2 is chosen once, at start. It is a plain branch rather than a table of functions so that the compiler sees that no kernel keeps its
// arguments: tables would push every local array to the heap.
var useAVX2 = os.Getenv("TINYLOOP_ISA") != "generic" && cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasF16C

// ISA names the instruction set of the kernels in use: "avx512vnni" where the products of whole bytes and nibbles take it and the rest AVX2, "avx2", or
// "generic". TINYLOOP_ISA=avx2 or generic keeps to that; without the instructions a name changes nothing.
func ISA() string {
	switch {
	case useVNNI:
		return "avx512vnni"
	case useAVX2:
		return "avx2"
	}
	return "generic"
}

// callWeights bounds the weights of one call of a kernel: assembly cannot be interrupted, and some 50 µs is as long as a stop of the world should wait.
const callWeights = 1 << 20

// nearBytes is how much of the weights stays in the first cache, beside the activations of a tile, until the next tile of rows needs it.
const nearBytes = 16 << 10

// panelRun gives the number of panels of one call, weights of so many bytes: many where one tile takes all rows, and as many as the next tile finds in the cache where several do,
// since a panel of a narrow matrix takes no longer than a call.
func panelRun(rows, tileRows, k, bytes int) int {
	if rows > tileRows {
		return max(1, nearBytes/(k*Panel*bytes))
	}
	return max(1, callWeights/(rows*k*Panel))
}

func mulPlain(dst []float32, ldd int, x []float32, ldx, rows int, w plainPanels) {
	if !useAVX2 {
		mulPlainGeneric(dst, ldd, x, ldx, rows, w)
		return
	}
	bytes := 2
	if w.lay == layF32 {
		bytes = 4
	}
	run := panelRun(rows, plainTileRows, w.k, bytes)
	t := w.tiling(rows)
	var next prefetch
	for p := 0; p < w.panels; p += run {
		n := min(run, w.panels-p)
		w.aim(&next, t, p, n)
		for r := 0; r < rows; {
			h := tile(rows-r, plainTileRows)
			tilePlain(dst[r*ldd+p*Panel:], ldd, x[r*ldx:], ldx, w, p, h, n, &next.left)
			r += h
		}
	}
}

// plainTileRows is the largest number of rows of one call of an unquantised kernel.
const plainTileRows = 6

// tilePlain multiplies rows (1 to 6) by n panels from p on.
func tilePlain(dst []float32, ldd int, x []float32, ldx int, w plainPanels, p, rows, n int, next *int) {
	at := p * w.k * Panel
	switch w.lay {
	case layF32:
		tileF32(&dst[0], ldd, &x[0], ldx, &w.f32[at], w.k, rows, n, next)
	case layF16:
		tileF16(dst, ldd, &x[0], ldx, w.half[at:], w.k, rows, n, next)
	default:
		tileBF16(dst, ldd, &x[0], ldx, w.half[at:], w.k, rows, n, next)
	}
}

func tileF32(dst *float32, ldd int, x *float32, ldx int, w *float32, k, rows, n int, next *int) {
	switch rows {
	case 1:
		mulF32x1(dst, ldd, x, ldx, w, k, n)
	case 2:
		mulF32x2(dst, ldd, x, ldx, w, k, n, next)
	case 3:
		mulF32x3(dst, ldd, x, ldx, w, k, n, next)
	case 4:
		mulF32x4(dst, ldd, x, ldx, w, k, n, next)
	case 5:
		mulF32x5(dst, ldd, x, ldx, w, k, n, next)
	default:
		mulF32x6(dst, ldd, x, ldx, w, k, n, next)
	}
}

// tileF16 takes panels four or two at a time for few rows, so that enough sums are in flight, and those left over singly.
func tileF16(dst []float32, ldd int, x *float32, ldx int, w []uint16, k, rows, n int, next *int) {
	done := 0
	switch {
	case rows == 1 && n >= 4:
		mulF16x1p4(&dst[0], ldd, x, ldx, &w[0], k, n/4)
		done = n &^ 3
	case rows == 2 && n >= 2:
		mulF16x2p2(&dst[0], ldd, x, ldx, &w[0], k, n/2)
		done = n &^ 1
	}
	if done == n {
		return
	}
	d, v, n := &dst[done*Panel], &w[done*k*Panel], n-done
	switch rows {
	case 1:
		mulF16x1p1(d, ldd, x, ldx, v, k, n)
	case 2:
		mulF16x2p1(d, ldd, x, ldx, v, k, n)
	case 3:
		mulF16x3p1(d, ldd, x, ldx, v, k, n, next)
	case 4:
		mulF16x4p1(d, ldd, x, ldx, v, k, n, next)
	case 5:
		mulF16x5p1(d, ldd, x, ldx, v, k, n, next)
	default:
		mulF16x6p1(d, ldd, x, ldx, v, k, n, next)
	}
}

// tileBF16 takes panels four or two at a time for few rows, so that enough sums are in flight, and those left over singly.
func tileBF16(dst []float32, ldd int, x *float32, ldx int, w []uint16, k, rows, n int, next *int) {
	done := 0
	switch {
	case rows == 1 && n >= 4:
		mulBF16x1p4(&dst[0], ldd, x, ldx, &w[0], k, n/4)
		done = n &^ 3
	case rows == 2 && n >= 2:
		mulBF16x2p2(&dst[0], ldd, x, ldx, &w[0], k, n/2)
		done = n &^ 1
	}
	if done == n {
		return
	}
	d, v, n := &dst[done*Panel], &w[done*k*Panel], n-done
	switch rows {
	case 1:
		mulBF16x1p1(d, ldd, x, ldx, v, k, n)
	case 2:
		mulBF16x2p1(d, ldd, x, ldx, v, k, n)
	case 3:
		mulBF16x3p1(d, ldd, x, ldx, v, k, n, next)
	case 4:
		mulBF16x4p1(d, ldd, x, ldx, v, k, n, next)
	case 5:
		mulBF16x5p1(d, ldd, x, ldx, v, k, n, next)
	default:
		mulBF16x6p1(d, ldd, x, ldx, v, k, n, next)
	}
}

// packPanel writes the streams of a full panel where a kernel for the format exists, and says whether it did.
func (m *Matrix) packPanel(p int, src []byte) bool {
	if useAVX2 && !m.quantised() && m.K%8 == 0 {
		m.packPlain(p, src)
		return true
	}
	blocks := m.K / qk
	if !useAVX2 || m.Source != Q8_0 && m.Source != Q4_0 && m.Source != Q4_1 {
		return false
	}
	code, scales, stride := &m.code[p*blocks*m.wordsPerBlock()*4], &m.scales[p*blocks*Panel], len(src)/Panel
	switch m.Source {
	case Q8_0:
		packQ8_0(code, scales, &src[0], stride, blocks)
	case Q4_0:
		packQ4_0(code, scales, &src[0], stride, blocks)
	default:
		packQ4_1(code, scales, &m.mins[p*blocks*Panel], &src[0], stride, blocks)
	}
	return true
}

// packPlain writes a full panel of an unquantised format.
func (m *Matrix) packPlain(p int, src []byte) {
	at, stride, eights := p*m.K*Panel, len(src)/Panel, m.K/8
	if m.lay == layF32 {
		packF32(&m.f32[at], &src[0], stride, eights)
	} else {
		packHalf(&m.half[at], &src[0], stride, eights)
	}
}

func quantiseRow(q []int8, wide []int16, meta metas, x []float32) {
	if !useAVX2 || len(meta.sums) == 0 {
		quantiseRowGeneric(q, wide, meta, x)
		return
	}
	quantiseRowAVX2(&q[0], &wide[0], &meta.sums[0].scale, &meta.evens[0].scale, &meta.fours[0].scale, &meta.halves[0].scale, &x[0], len(meta.sums))
}

func roundRow(dst, x []float32) {
	n := vecWhole(len(x))
	if n > 0 {
		roundRowAVX2(&dst[0], &x[0], n)
	}
	roundRowGeneric(dst[n:], x[n:])
}

// dot computes scale*q.k of the queries of a unit for the 16 positions of each page, ldq floats from query to query, ldo from score to score, and asks for the keys of page after
// at the end.
func (kv *KV) dot(out []float32, ldo int, q []float32, ldq int, pages []int32, after int32, u *unit, scale float32) {
	if !useAVX2 {
		kv.dotGeneric(out, ldo, q, ldq, pages, u, scale)
		return
	}
	at, ldk, n, m := kv.keyAt(0, u.head), kv.dim*Panel, u.n, len(pages)
	if u.shared {
		ldk = 0
		if n == quad {
			n = sharedQuad
		}
	}
	size := kv.PageBytes()
	switch kv.t {
	case F32:
		dotHeadsF32(&out[0], ldo, &q[0], ldq, kv.dim, &kv.f32[at], ldk, &pages[0], m, int(after), size, scale, n)
	case F16:
		dotHeadsF16(&out[0], ldo, &q[0], ldq, kv.dim, &kv.half[at], ldk, &pages[0], m, int(after), size, scale, n)
	default:
		dotHeadsQ8(&out[0], ldo, &q[0], ldq, kv.dim, &kv.code[at], ldk, &pages[0], m, int(after), size, scale, n, &kv.scales[kv.keyScaleAt(0, u.head)])
	}
}

// sharedQuad, in place of the number of queries, names four that read the same keys.
const sharedQuad = 5

// addValues adds w[i] times the values of the i-th position, i < rows, from lane of the first page on, to the sums of n queries, 1 or 4, ldw floats from weights to
// weights, and asks for those of page after at the end.
func (kv *KV) addValues(acc, w []float32, ldw int, pages []int32, after int32, head, lane, rows, n int) {
	if !useAVX2 {
		kv.addValuesGeneric(acc, w, ldw, pages, head, lane, rows, n)
		return
	}
	at, m, size := kv.valueAt(0, head, 0), len(pages), kv.PageBytes()
	switch kv.t {
	case F32:
		addValuesF32(&acc[0], kv.vdim, &w[0], ldw, rows, &kv.f32[at], lane, &pages[0], m, int(after), size, n)
	case F16:
		addValuesF16(&acc[0], kv.vdim, &w[0], ldw, rows, &kv.half[at], lane, &pages[0], m, int(after), size, n)
	default:
		addValuesQ8(&acc[0], kv.vdim, &w[0], ldw, rows, &kv.code[at], lane, &pages[0], m, int(after), size, n, &kv.scales[kv.valueScaleAt(0, head)])
	}
}

// maxWhole gives the largest of the first values of x and how many those are.
func maxWhole(x []float32) (float32, int) {
	m, n := float32(math.Inf(-1)), len(x)&^31
	if !useAVX2 || n == 0 {
		return m, 0
	}
	var lanes [32]float32
	maxLanesAVX2(&lanes[0], &x[0], n)
	for _, v := range lanes {
		m = max32(m, v)
	}
	return m, n
}

func softmax(x []float32) (inv float32) {
	if !useAVX2 || len(x) == 0 {
		return softmaxGeneric(x)
	}
	softmaxAVX2(&x[0], len(x), &inv)
	return inv
}

func rmsNorm(dst, x, gain []float32, eps float32) {
	if n := len(x); useAVX2 && n > 0 && n%8 == 0 {
		rmsNormAVX2(&dst[0], &x[0], &gain[0], n, float32(n), eps)
		return
	}
	scaleGain(dst, x, gain, inverseRoot(meanSquare(x)+eps))
}

func expSumDouble(x []float32, top float32, sums *[Panel]float64) {
	if !useAVX2 || len(x) == 0 {
		expSumDoubleGeneric(x, top, sums)
		return
	}
	expSumDoubleAVX2(&x[0], len(x), top, &sums[0])
}

func weigh(dst, x []float32, top, inv float32, sums *[Panel]float64) {
	if !useAVX2 || len(x) == 0 {
		weighGeneric(dst, x, top, inv, sums)
		return
	}
	weighAVX2(&dst[0], &x[0], len(x), top, inv, &sums[0])
}

func addSquares(s *[normLanes]float32, x []float32, shift float32) {
	if !useAVX2 || len(x) == 0 {
		addSquaresGeneric(s, x, shift)
		return
	}
	addSquaresAVX2(&s[0], &x[0], len(x), shift)
}

// vecWhole gives how many of n values a kernel of eight lanes takes; the rest goes to the portable one.
func vecWhole(n int) int {
	if !useAVX2 {
		return 0
	}
	return n &^ 7
}

func scaleGain(dst, x, gain []float32, s float32) {
	n := vecWhole(len(x))
	if n > 0 {
		scaleGainAVX2(&dst[0], &x[0], &gain[0], n, s)
	}
	scaleGainGeneric(dst[n:], x[n:], gain[n:], s)
}

func swiGLU(dst, gate, up []float32) {
	n := vecWhole(len(dst))
	if n > 0 {
		swiGLUAVX2(&dst[0], &gate[0], &up[0], n)
	}
	swiGLUGeneric(dst[n:], gate[n:], up[n:])
}

func gelu(dst, x []float32) {
	n := vecWhole(len(dst))
	if n > 0 {
		geluAVX2(&dst[0], &x[0], n)
	}
	geluGeneric(dst[n:], x[n:])
}

func add(dst, a, b []float32) {
	n := vecWhole(len(dst))
	if n > 0 {
		addAVX2(&dst[0], &a[0], &b[0], n)
	}
	addGeneric(dst[n:], a[n:], b[n:])
}

func scale(dst, a []float32, s float32) {
	n := vecWhole(len(dst))
	if n > 0 {
		scaleAVX2(&dst[0], &a[0], n, s)
	}
	scaleGeneric(dst[n:], a[n:], s)
}

func mulAdd(dst, a, b, c []float32) {
	n := vecWhole(len(dst))
	if n > 0 {
		mulAddAVX2(&dst[0], &a[0], &b[0], &c[0], n)
	}
	mulAddGeneric(dst[n:], a[n:], b[n:], c[n:])
}

func ropeHalf(a, b, cos, sin []float32) {
	n := vecWhole(len(a))
	if n > 0 {
		ropeHalfAVX2(&a[0], &b[0], &cos[0], &sin[0], n)
	}
	ropeHalfGeneric(a[n:], b[n:], cos[n:], sin[n:])
}

func ropeInterleaved(x, cos, sin []float32) {
	n := 0
	if useAVX2 {
		n = len(cos) &^ 3
	}
	if n > 0 {
		ropeInterleavedAVX2(&x[0], &cos[0], &sin[0], n)
	}
	ropeInterleavedGeneric(x[2*n:], cos[n:], sin[n:])
}

func halves(dst []uint16, x []float32) {
	n := vecWhole(len(x))
	if n > 0 {
		halvesAVX2(&dst[0], &x[0], n)
	}
	halvesGeneric(dst[n:], x[n:])
}

func largestBits(x []float32) uint32 {
	n := vecWhole(len(x))
	m := largestBitsGeneric(x[n:])
	if n > 0 {
		var lanes [8]uint32
		largestBitsAVX2(&lanes[0], &x[0], n)
		for _, v := range lanes {
			m = max(m, v)
		}
	}
	return m
}

func roundCodes(dst []int8, x []float32, inv float32) {
	n := vecWhole(len(x))
	if n > 0 {
		codesAVX2(&dst[0], &x[0], n, inv)
	}
	roundCodesGeneric(dst[n:], x[n:], inv)
}

func addLanes(s *[normLanes]float32, x []float32) {
	if !useAVX2 || len(x) == 0 {
		addLanesGeneric(s, x)
		return
	}
	addLanesAVX2(&s[0], &x[0], len(x))
}

func layerNorm(dst, x, gain, bias []float32, mean, s float32) {
	n := vecWhole(len(x))
	if n > 0 {
		layerNormAVX2(&dst[0], &x[0], &gain[0], &bias[0], n, mean, s)
	}
	layerNormGeneric(dst[n:], x[n:], gain[n:], bias[n:], mean, s)
}

func relu2(dst, x []float32) {
	n := vecWhole(len(x))
	if n > 0 {
		relu2AVX2(&dst[0], &x[0], n)
	}
	relu2Generic(dst[n:], x[n:])
}
