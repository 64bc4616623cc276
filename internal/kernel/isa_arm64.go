//go:build !purego

package kernel

import (
	"os"

	"golang.org/x/sys/cpu"
)

// useNEON is chosen once, at start. The products of bytes are those of ARMv8.2's dot product extension.
var useNEON = os.Getenv("TINYLOOP_ISA") != "generic" && cpu.ARM64.HasASIMD && cpu.ARM64.HasASIMDDP

// ISA names the instruction set of the kernels in use: "neon", or "generic" where the processor lacks the dot product or TINYLOOP_ISA=generic asks for it.
func ISA() string {
	if useNEON {
		return "neon"
	}
	return "generic"
}

func mulPlain(dst []float32, ldd int, x []float32, ldx, rows int, w plainPanels) {
	if !useNEON || w.lay != layF32 || w.k == 0 {
		mulPlainGeneric(dst, ldd, x, ldx, rows, w)
		return
	}
	for p := range w.panels {
		for r := range rows {
			neonMulF32(&dst[r*ldd+p*Panel], &x[r*ldx], &w.f32[p*w.k*Panel], w.k)
		}
	}
}

func mulQuant(dst []float32, ldd int, a *quantRows, r0, r1 int, w *Matrix, p0, p1 int) {
	if !useNEON || w.lay != layQ8 && w.lay != layQ4 || a.blocks == 0 {
		mulQuantGeneric(dst, ldd, a, r0, r1, w, p0, p1)
		return
	}
	panel := a.blocks * 4 * w.wordsPerBlock()
	for p := p0; p < p1; p++ {
		code, scales := &w.code[p*panel], &w.scales[p*a.blocks*Panel]
		for r := r0; r < r1; r++ {
			out, at := &dst[(r-r0)*ldd+(p-p0)*Panel], r*a.blocks
			if w.lay == layQ8 {
				neonMulQ8(out, code, scales, &a.q[at*qk], &a.sums[at], a.blocks)
			} else {
				neonMulQ4(out, code, scales, &a.q[at*qk], &a.sums[at], a.blocks)
			}
		}
	}
}

// vectors says whether gemmCall can be called.
func vectors() bool { return useNEON }

// gemmCall multiplies tiles of rows (1 to 6) by a whole panel.
func gemmCall(c []float32, ldc int, t gemmTiles, rows, tiles int, b []float32, bs, k int, load bool) {
	start := 0
	if load {
		start = 1
	}
	for i := range tiles {
		neonGemm(&c[i*rows*ldc], 4*ldc, &t.a[i*t.step], 4*t.rs, 4*t.ks, rows, &b[0], 4*bs, k, start)
	}
}

func neonGemm(c *float32, ldc int, a *float32, rs, ks, rows int, b *float32, bs, k, load int) {
	switch rows {
	case 1:
		neonGemmx1(c, ldc, a, rs, ks, b, bs, k, load)
	case 2:
		neonGemmx2(c, ldc, a, rs, ks, b, bs, k, load)
	case 3:
		neonGemmx3(c, ldc, a, rs, ks, b, bs, k, load)
	case 4:
		neonGemmx4(c, ldc, a, rs, ks, b, bs, k, load)
	case 5:
		neonGemmx5(c, ldc, a, rs, ks, b, bs, k, load)
	default:
		neonGemmx6(c, ldc, a, rs, ks, b, bs, k, load)
	}
}

// neonMulF32 multiplies a row by a panel of f32 weights.
//
//go:noescape
func neonMulF32(dst, x, w *float32, k int)

// neonMulQ8 multiplies a quantised row by a panel of layQ8.
//
//go:noescape
func neonMulQ8(dst *float32, code *int8, scales *uint16, q *int8, meta *blockMeta, blocks int)

// neonMulQ4 multiplies a quantised row by a panel of layQ4.
//
//go:noescape
func neonMulQ4(dst *float32, code *int8, scales *uint16, q *int8, meta *blockMeta, blocks int)

//go:noescape
func neonGemmx1(c *float32, ldc int, a *float32, rs, ks int, b *float32, bs, k, load int)

//go:noescape
func neonGemmx2(c *float32, ldc int, a *float32, rs, ks int, b *float32, bs, k, load int)

//go:noescape
func neonGemmx3(c *float32, ldc int, a *float32, rs, ks int, b *float32, bs, k, load int)

//go:noescape
func neonGemmx4(c *float32, ldc int, a *float32, rs, ks int, b *float32, bs, k, load int)

//go:noescape
func neonGemmx5(c *float32, ldc int, a *float32, rs, ks int, b *float32, bs, k, load int)

//go:noescape
func neonGemmx6(c *float32, ldc int, a *float32, rs, ks int, b *float32, bs, k, load int)
