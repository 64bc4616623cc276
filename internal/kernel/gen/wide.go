package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// wideTile is the state of one product of byte codes with activations of 16 bits while it is emitted.
//
// A word of the codes is 256*w1 + w0, w0 unsigned, since even codes lie 128 up. So word*a0 + (word>>8)*(a1-256*a0) = w0*a0 + w1*a1: two multiplications and
// one shift, the shift shared by all rows, and no sign to move. What the 128 add stands beside the activations, with its sign turned, and starts the sums.
type wideTile struct {
	R              int
	out, a, meta   rows
	code, scale, n GPVirtual
	acc, dot       [][2]VecVirtual // [row][half]: f32 sums; integer sums of the block
}

// mulWide multiplies R rows, 1 to 3, by panels of layout Q8. Three rows take all 16 registers.
func mulWide(R int) {
	fn(label("mulQ8x", R), label("multiplies ", R, " quantised rows by panels of layout Q8."),
		"func(dst *float32, ldd int, wide *int16, meta *float32, code *int8, scales *uint16, blocks int, panels int)")
	t := &wideTile{R: R, code: arg("code"), scale: arg("scales"), n: GP64()}
	dst, ldd, blocks := arg("dst"), arg("ldd"), arg("blocks")
	SHLQ(U8(2), ldd)
	t.out = newRows(dst, ldd, R)
	as, ms := GP64(), GP64()
	MOVQ(blocks, as)
	SHLQ(U8(6), as)
	MOVQ(blocks, ms)
	SHLQ(U8(3), ms)
	t.a, t.meta = newRows(arg("wide"), as, R), newRows(arg("meta"), ms, R)
	for range R {
		t.acc, t.dot = append(t.acc, [2]VecVirtual{YMM(), YMM()}), append(t.dot, [2]VecVirtual{YMM(), YMM()})
	}
	Label("panel")
	for r := range R {
		for _, a := range t.acc[r] {
			VXORPS(a, a, a)
		}
	}
	MOVQ(blocks, t.n)
	Label("block")
	t.dots()
	t.addScaled()
	ADDQ(U32(512), t.code)
	ADDQ(U8(32), t.scale)
	t.a.advance(U8(64))
	t.meta.advance(U8(8))
	DECQ(t.n)
	JNE(LabelRef("block"))
	t.a.retreat(as)
	t.meta.retreat(ms)
	for r := range R {
		for h, a := range t.acc[r] {
			VMOVUPS(a, t.out.at(r, 32*h))
		}
	}
	t.out.advance(U32(64))
	panels := argMem("panels")
	DECQ(panels)
	JNE(LabelRef("panel"))
	ret()
}

func (t *wideTile) dots() {
	for r := range t.R {
		for _, d := range t.dot[r] {
			VPBROADCASTD(t.meta.at(r, 4), d)
		}
	}
	for g := range 8 {
		fetch(t.code, 64*g)
		var w [2]VecVirtual
		for h := range w {
			w[h] = YMM()
			VMOVDQU(Mem{Base: t.code, Disp: 64*g + 32*h}, w[h])
		}
		t.step(w, 4*g)
		for h := range w {
			VPSRAW(U8(8), w[h], w[h])
		}
		t.step(w, 32+4*g)
	}
}

// step adds the products of one group's words with the activations at a place of the block.
func (t *wideTile) step(w [2]VecVirtual, at int) {
	for r := range t.R {
		a, p := YMM(), YMM()
		VBROADCASTSS(t.a.at(r, at), a)
		VPMADDWD(a, w[0], p)
		VPADDD(p, t.dot[r][0], t.dot[r][0])
		VPMADDWD(a, w[1], a)
		VPADDD(a, t.dot[r][1], t.dot[r][1])
	}
}

// addScaled: acc += dot*(ws*as), each step rounded.
func (t *wideTile) addScaled() {
	for h := range 2 {
		ws := YMM()
		VCVTPH2PS(Mem{Base: t.scale, Disp: 16 * h}, ws)
		for r := range t.R {
			s, d := YMM(), t.dot[r][h]
			VBROADCASTSS(t.meta.at(r, 0), s)
			VMULPS(s, ws, s)
			VCVTDQ2PS(d, d)
			VMULPS(s, d, s)
			VADDPS(s, t.acc[r][h], t.acc[r][h])
		}
	}
}
