package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// vnniSet writes the products of AVX-512 with its multiply-add of four bytes, for the two plain layouts of quantised weights.
//
// One 512-bit register is what 16 rows of weights have in one group of four values, so a group takes one instruction a row of activations:
// dot[lane] += sum over i of u8 w[lane][i] * s8 a[i], exact in 32 bits. Weights are made unsigned; what the lift adds is taken off where the sums start.
func vnniSet() {
	ConstraintExpr("amd64,!purego")
	for _, nibbles := range []bool{false, true} {
		for rows := 1; rows <= 6; rows++ {
			mulVNNI(rows, nibbles)
		}
	}
	Generate()
}

// vnniTile is the state of one product while it is emitted.
type vnniTile struct {
	R              int
	nibbles        bool
	out, a, meta   rows
	code, scale, n GPVirtual
	mask           VecVirtual      // layQ8: the top bits of odd codes, which are signed; layQ4: the low nibbles
	acc            []VecVirtual    // f32 sums
	dot            [][2]VecVirtual // integer sums of the block; the second only for few rows, where one chain would wait for itself
}

// mulVNNI multiplies R rows, 1 to 6, by panels of layout Q8 or Q4. dst is 16 values a panel and row.
func mulVNNI(R int, nibbles bool) {
	name := "Q8"
	if nibbles {
		name = "Q4"
	}
	fn(label("vnniMul", name, "x", R), label("multiplies ", R, " quantised rows by panels of layout ", name, "; metas hold the sums of the codes."),
		"func(dst *float32, ldd int, q *int8, meta *float32, code *int8, scales *uint16, blocks int, panels int)")
	t := &vnniTile{R: R, nibbles: nibbles, code: arg("code"), scale: arg("scales"), n: GP64(), mask: ZMM()}
	dst, ldd, blocks := arg("dst"), arg("ldd"), arg("blocks")
	SHLQ(U8(2), ldd)
	t.out = newRows(dst, ldd, R)
	as, ms := GP64(), GP64()
	MOVQ(blocks, as)
	SHLQ(U8(5), as)
	MOVQ(blocks, ms)
	SHLQ(U8(3), ms)
	t.a, t.meta = newRows(arg("q"), as, R), newRows(arg("meta"), ms, R)
	bits := GP32()
	if nibbles {
		MOVL(U32(0x0f0f0f0f), bits)
	} else {
		MOVL(U32(0x80008000), bits)
	}
	VPBROADCASTD(bits, t.mask)
	for range R {
		t.acc, t.dot = append(t.acc, ZMM()), append(t.dot, [2]VecVirtual{ZMM(), ZMM()})
	}
	Label("panel")
	for _, a := range t.acc {
		VPXORD(a, a, a)
	}
	MOVQ(blocks, t.n)
	Label("block")
	t.start()
	if nibbles {
		t.nibbleDots()
	} else {
		t.byteDots()
	}
	t.addScaled()
	if nibbles {
		ADDQ(U32(256), t.code)
	} else {
		ADDQ(U32(512), t.code)
	}
	ADDQ(U8(32), t.scale)
	t.a.advance(U8(32))
	t.meta.advance(U8(8))
	DECQ(t.n)
	JNE(LabelRef("block"))
	t.a.retreat(as)
	t.meta.retreat(ms)
	for r, a := range t.acc {
		VMOVUPS(a, t.out.at(r, 0))
	}
	t.out.advance(U32(64))
	panels := argMem("panels")
	DECQ(panels)
	JNE(LabelRef("panel"))
	ret()
}

// chains is how many integer sums a row has.
func (t *vnniTile) chains() int {
	if t.R <= 2 {
		return 2
	}
	return 1
}

// start sets the sums to what takes the lift of the codes off: -128 (bytes) or -8 (nibbles) times the sum of the activations.
func (t *vnniTile) start() {
	shift := 7
	if t.nibbles {
		shift = 3
	}
	for r, d := range t.dot {
		s := ZMM()
		VPBROADCASTD(t.meta.at(r, 4), s)
		VPSLLD(U8(shift), s, s)
		VPXORD(d[0], d[0], d[0])
		VPSUBD(s, d[0], d[0])
		if t.chains() == 2 {
			VPXORD(d[1], d[1], d[1])
		}
	}
}

// step adds the products of 16 x 4 unsigned weights with the four activations at a place of the block; n is the number of the step.
func (t *vnniTile) step(w VecVirtual, at, n int) {
	for r, d := range t.dot {
		VPDPBUSD_BCST(t.a.at(r, at), w, d[n%t.chains()])
	}
}

func (t *vnniTile) byteDots() {
	for g := range 8 {
		fetch(t.code, 64*g)
		w := ZMM()
		VPXORD(Mem{Base: t.code, Disp: 64 * g}, t.mask, w)
		t.step(w, 4*g, g)
	}
}

func (t *vnniTile) nibbleDots() {
	for g := range 4 {
		fetch(t.code, 64*g)
		w, high := ZMM(), ZMM()
		VMOVDQU32(Mem{Base: t.code, Disp: 64 * g}, w)
		VPSRLW(U8(4), w, high)
		VPANDD(t.mask, w, w)
		VPANDD(t.mask, high, high)
		t.step(w, 4*g, 0)
		t.step(high, 16+4*g, 1)
	}
}

// addScaled: acc += dot*(ws*as), each step rounded.
func (t *vnniTile) addScaled() {
	ws := ZMM()
	VCVTPH2PS(Mem{Base: t.scale}, ws)
	for r, d := range t.dot {
		if t.chains() == 2 {
			VPADDD(d[1], d[0], d[0])
		}
		s := ZMM()
		VMULPS_BCST(t.meta.at(r, 0), ws, s)
		VCVTDQ2PS(d[0], d[0])
		VMULPS(s, d[0], s)
		VADDPS(s, t.acc[r], t.acc[r])
	}
}
