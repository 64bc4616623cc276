//go:build amd64 && !purego

package kernel

import (
	"math/rand/v2"
	"os"
	"slices"

	"golang.org/x/sys/cpu"
)

// useVNNI is chosen once, at start. A processor that says it has AVX-512 with the multiply-add of bytes must also give the portable bits: such machines are
// rarer than the ways in which one of them, or an emulator of one, may be wrong.
var useVNNI = useAVX2 && os.Getenv("TINYLOOP_ISA") != "avx2" && hasVNNI() && vnniRight()

func hasVNNI() bool {
	return cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VNNI
}

// onVNNI says whether products with m take these kernels: the two plain layouts do, the others stay with AVX2.
func (m *Matrix) onVNNI() bool { return useVNNI && (m.lay == layQ8 || m.lay == layQ4) }

// vnniTileRows is the largest number of rows of one call.
const vnniTileRows = 6

// mulVNNI is mulQuant for such matrices: as many rows as stay in the second cache, each panel for all of them.
func mulVNNI(dst []float32, ldd int, a *quantRows, r0, r1 int, w *Matrix, p0, p1 int) {
	block := max(2*vnniTileRows, rowBlockBytes/(a.blocks*(qk+8)))
	for r := r0; r < r1; {
		h := tile(r1-r, block)
		run := panelRun(h, vnniTileRows, a.blocks*qk, 1)
		for p := p0; p < p1; p += run {
			n := min(run, p1-p)
			for t := r; t < r+h; {
				rows := tile(r+h-t, vnniTileRows)
				tileVNNI(&dst[(t-r0)*ldd+(p-p0)*Panel], ldd, a, t, rows, w, p, n)
				t += rows
			}
		}
		r += h
	}
}

// tileVNNI multiplies rows, 1 to 6, from row r on by n panels from panel p on.
func tileVNNI(d *float32, ldd int, a *quantRows, r, rows int, w *Matrix, p, n int) {
	b := a.blocks
	q, m := &a.q[r*b*qk], &a.sums[r*b].scale
	c, s := &w.code[4*p*b*w.wordsPerBlock()], &w.scales[p*b*Panel]
	if w.lay == layQ8 {
		vnniQ8(d, ldd, q, m, c, s, b, n, rows)
	} else {
		vnniQ4(d, ldd, q, m, c, s, b, n, rows)
	}
}

func vnniQ8(d *float32, ldd int, q *int8, m *float32, c *int8, s *uint16, b, n, rows int) {
	switch rows {
	case 1:
		vnniMulQ8x1(d, ldd, q, m, c, s, b, n)
	case 2:
		vnniMulQ8x2(d, ldd, q, m, c, s, b, n)
	case 3:
		vnniMulQ8x3(d, ldd, q, m, c, s, b, n)
	case 4:
		vnniMulQ8x4(d, ldd, q, m, c, s, b, n)
	case 5:
		vnniMulQ8x5(d, ldd, q, m, c, s, b, n)
	default:
		vnniMulQ8x6(d, ldd, q, m, c, s, b, n)
	}
}

func vnniQ4(d *float32, ldd int, q *int8, m *float32, c *int8, s *uint16, b, n, rows int) {
	switch rows {
	case 1:
		vnniMulQ4x1(d, ldd, q, m, c, s, b, n)
	case 2:
		vnniMulQ4x2(d, ldd, q, m, c, s, b, n)
	case 3:
		vnniMulQ4x3(d, ldd, q, m, c, s, b, n)
	case 4:
		vnniMulQ4x4(d, ldd, q, m, c, s, b, n)
	case 5:
		vnniMulQ4x5(d, ldd, q, m, c, s, b, n)
	default:
		vnniMulQ4x6(d, ldd, q, m, c, s, b, n)
	}
}

// vnniRight multiplies 1 to 6 rows by two panels of three blocks in both layouts and compares all bits with the portable product.
func vnniRight() bool {
	const panels = 2
	for _, lay := range []layout{layQ8, layQ4} {
		a, w := vnniSample(lay, vnniTileRows, 3, panels)
		var want, got [vnniTileRows * panels * Panel]float32
		for n := 1; n <= vnniTileRows; n++ {
			mulQuantGeneric(want[:], panels*Panel, a, 0, n, w, 0, panels)
			tileVNNI(&got[0], panels*Panel, a, 0, n, w, 0, panels)
			if !slices.Equal(want[:n*panels*Panel], got[:n*panels*Panel]) {
				return false
			}
		}
	}
	return true
}

// vnniSample gives rows and a matrix that take the integers to their ends, with any finite scales.
func vnniSample(lay layout, rows, blocks, panels int) (*quantRows, *Matrix) {
	r := rand.New(rand.NewPCG(uint64(lay), uint64(rows)))
	a := &quantRows{q: make([]int8, rows*blocks*qk), metas: metas{sums: make([]blockMeta, rows*blocks)}, blocks: blocks}
	for i := range a.q {
		a.q[i] = [4]int8{127, -127, int8(r.IntN(255) - 127), int8(r.IntN(255) - 127)}[r.IntN(4)]
		a.sums[i/qk].sum += int32(a.q[i])
	}
	for i := range a.sums {
		a.sums[i].scale = float32(r.NormFloat64())
	}
	w := &Matrix{lay: lay, N: panels * Panel, K: blocks * qk}
	w.code, w.scales = make([]int8, panels*blocks*4*w.wordsPerBlock()), make([]uint16, panels*blocks*Panel)
	for i := range w.code {
		w.code[i] = int8(r.Uint32())
	}
	for i := range w.scales {
		w.scales[i] = uint16(r.IntN(0x7c00))
	}
	return a, w
}
