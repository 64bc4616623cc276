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
	R, P         int
	out          []rows // of each panel
	a, meta      rows
	code, scales rows // by panel
	n            GPVirtual
	ask          *asker
	acc          [][][2]VecVirtual // [panel][row][half]: f32 sums
	dot          [][2]VecVirtual   // [row][half]: integer sums of a block
}

// wideShapes are the tiles of layout Q8: rows by runs of panels.
var wideShapes = [][2]int{{1, 1}, {1, 4}, {2, 1}, {2, 2}, {3, 1}}

// mulWide multiplies R rows by P panels of layout Q8 at a time, groups times. Three rows by one panel take all 16 registers.
func mulWide(R, P int) {
	asks := R > 1 && P == 1
	fn(label("mulQ8x", R, "p", P), label("multiplies ", R, " quantised rows by ", P, " runs of panels of layout Q8."),
		label("func(dst *float32, ldd int, wide *int16, meta *float32, code *int8, scales *uint16, blocks int, panels int", nextArg(asks), apartArg(P), ")"))
	t := &wideTile{R: R, P: P, n: GP64(), ask: newAsker(asks, 1, 32)}
	dst, ldd := arg("dst"), arg("ldd")
	SHLQ(U8(2), ldd)
	t.out = outRuns(dst, ldd, R, P)
	t.code, t.scales = runs("code", 512, P), runs("scales", 32, P)
	t.a, t.meta = blockRows("wide", 64, R), blockRows("meta", 8, R)
	t.acc = make([][][2]VecVirtual, P)
	for p := range P {
		for range R {
			t.acc[p] = append(t.acc[p], [2]VecVirtual{YMM(), YMM()})
		}
	}
	for range R {
		t.dot = append(t.dot, [2]VecVirtual{YMM(), YMM()})
	}
	Label("panel")
	t.each(func(acc VecVirtual, _ Mem) { VXORPS(acc, acc, acc) })
	MOVQ(argMem("blocks"), t.n)
	Label("block")
	t.ask.visit("block")
	for p := range P {
		t.dots(p)
		t.addScaled(p)
	}
	t.code.advance(U32(512))
	t.scales.advance(U32(32))
	t.a.advance(U8(64))
	t.meta.advance(U8(8))
	DECQ(t.n)
	JNE(LabelRef("block"))
	t.a.restart("wide")
	t.meta.restart("meta")
	t.each(func(acc VecVirtual, out Mem) { VMOVUPS(acc, out) })
	for _, out := range t.out {
		out.advance(U32(64))
	}
	panels := argMem("panels")
	DECQ(panels)
	JNE(LabelRef("panel"))
	t.ask.done()
	ret()
}

// each visits all sums and where they go.
func (t *wideTile) each(do func(acc VecVirtual, out Mem)) {
	for p, rows := range t.acc {
		for r, acc := range rows {
			for h, a := range acc {
				do(a, outAt(t.out, p, r, 32*h))
			}
		}
	}
}

func (t *wideTile) dots(p int) {
	for r := range t.R {
		for _, d := range t.dot[r] {
			VPBROADCASTD(t.meta.at(r, 4), d)
		}
	}
	for g := range 8 {
		if t.P == 1 {
			fetch(t.code.base, 64*g)
		}
		var w [2]VecVirtual
		for h := range w {
			w[h] = YMM()
			VMOVDQU(t.code.at(p, 64*g+32*h), w[h])
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
func (t *wideTile) addScaled(p int) {
	for h := range 2 {
		ws := YMM()
		VCVTPH2PS(t.scales.at(p, 16*h), ws)
		for r := range t.R {
			s, d, acc := YMM(), t.dot[r][h], t.acc[p][r][h]
			VBROADCASTSS(t.meta.at(r, 0), s)
			VMULPS(s, ws, s)
			VCVTDQ2PS(d, d)
			VMULPS(s, d, s)
			VADDPS(s, acc, acc)
		}
	}
}
