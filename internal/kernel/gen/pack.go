package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// packFormat is a source format whose codes go to panels as they are: halves, then codes, in blocks of 32.
type packFormat struct {
	name   string
	halves int // scale, or scale and minimum
	wide   bool
}

var packFormats = []packFormat{{"Q8_0", 1, true}, {"Q4_0", 1, false}, {"Q4_1", 2, false}}

// packWords writes one panel of K/8 times eight columns of f32 from 16 rows.
func packWords() {
	fn("packF32", "writes a panel of eights of f32 columns from 16 rows, stride bytes apart.", "func(dst *float32, src *byte, stride int, eights int)")
	dst, src, stride, n := arg("dst"), arg("src"), arg("stride"), arg("eights")
	three, row := GP64(), GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, three)
	Label("eight")
	MOVQ(src, row)
	for quad := range 4 {
		turn(true, nil, func(r int) Mem { return fourRows(row, stride, three, r, 0) }, func(g int) Mem { return Mem{Base: dst, Disp: 64*g + 16*quad} })
		if quad < 3 {
			LEAQ(Mem{Base: row, Index: stride, Scale: 4}, row)
		}
	}
	ADDQ(U8(32), src)
	ADDQ(U32(512), dst)
	DECQ(n)
	JNE(LabelRef("eight"))
	ret()
}

// packHalves does the same with 16-bit values: eight rows are turned at a time.
func packHalves() {
	fn("packHalf", "writes a panel of eights of 16-bit columns from 16 rows, stride bytes apart.", "func(dst *uint16, src *byte, stride int, eights int)")
	dst, src, stride, n := arg("dst"), arg("src"), arg("stride"), arg("eights")
	three, row := GP64(), GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, three)
	Label("eight")
	MOVQ(src, row)
	for part := range 2 {
		v := make([]VecVirtual, 8)
		for r := range v {
			v[r] = XMM()
			VMOVDQU(fourRows(row, stride, three, r%4, 0), v[r])
			if r%4 == 3 && part+r < 8 {
				LEAQ(Mem{Base: row, Index: stride, Scale: 4}, row)
			}
		}
		v = join(v, 1, VPUNPCKLWD, VPUNPCKHWD)
		v = join(v, 2, VPUNPCKLDQ, VPUNPCKHDQ)
		v = join(v, 4, VPUNPCKLQDQ, VPUNPCKHQDQ)
		for k, place := range [8]int{0, 4, 2, 6, 1, 5, 3, 7} {
			VMOVDQU(v[place], Mem{Base: dst, Disp: 32*k + 16*part})
		}
	}
	ADDQ(U8(16), src)
	ADDQ(U32(256), dst)
	DECQ(n)
	JNE(LabelRef("eight"))
	ret()
}

// join interleaves vectors i and i+step for every i whose bit step is clear: the low halves stay at i, the high ones go to i+step.
func join(v []VecVirtual, step int, low, high func(...Op)) []VecVirtual {
	out := make([]VecVirtual, len(v))
	for i := range v {
		if i&step == 0 {
			out[i], out[i+step] = XMM(), XMM()
			low(v[i+step], v[i], out[i])
			high(v[i+step], v[i], out[i+step])
		}
	}
	return out
}

// fourRows addresses rows 0 to 3 from row on.
func fourRows(row, stride, three GPVirtual, r, disp int) Mem {
	return [4]Mem{{Base: row, Disp: disp}, {Base: row, Index: stride, Scale: 1, Disp: disp},
		{Base: row, Index: stride, Scale: 2, Disp: disp}, {Base: row, Index: three, Scale: 1, Disp: disp}}[r]
}

// pack writes one panel from 16 rows, stride bytes apart: each four rows of a block are turned as 4x4 words. Codes of Q8_0 at even places are raised by 128.
func pack(f packFormat) {
	mins := ""
	if f.halves == 2 {
		mins = "mins *uint16, "
	}
	signature := "func(code *int8, scales *uint16, " + mins + "src *byte, stride int, blocks int)"
	fn("pack"+f.name, "writes a panel of "+f.name+" from 16 rows, stride bytes apart.", signature)
	code, scales, src, stride, blocks := arg("code"), arg("scales"), arg("src"), arg("stride"), arg("blocks")
	var least GPVirtual
	if f.halves == 2 {
		least = arg("mins")
	}
	three, row, word := GP64(), GP64(), GP32()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, three)
	var lift VecVirtual
	if f.wide {
		lift = YMM() // 128 in even bytes
		VPCMPEQW(lift, lift, lift)
		VPSRLW(U8(15), lift, lift)
		VPSLLW(U8(7), lift, lift)
	}
	Label("block")
	MOVQ(src, row)
	for quad := range 4 {
		at := func(r, disp int) Mem { return fourRows(row, stride, three, r, disp) }
		for r := range 4 {
			for i, to := range []GPVirtual{scales, least}[:f.halves] {
				MOVWLZX(at(r, 2*i), word)
				MOVW(word.As16(), Mem{Base: to, Disp: 8*quad + 2*r})
			}
		}
		turn(f.wide, lift, func(r int) Mem { return at(r, 2*f.halves) }, func(g int) Mem { return Mem{Base: code, Disp: 64*g + 16*quad} })
		if quad < 3 {
			LEAQ(Mem{Base: row, Index: stride, Scale: 4}, row)
		}
	}
	size, panel := 2*f.halves+16, 256
	if f.wide {
		size, panel = 34, 512
	}
	ADDQ(U8(size), src)
	ADDQ(U32(panel), code)
	ADDQ(U8(32), scales)
	if f.halves == 2 {
		ADDQ(U8(32), least)
	}
	DECQ(blocks)
	JNE(LabelRef("block"))
	ret()
}

// turn writes the words of four rows, four (or eight) each, group by group.
func turn(wide bool, lift VecVirtual, from, to func(int) Mem) {
	var v, t [4]VecVirtual
	for r := range v {
		if wide {
			v[r], t[r] = YMM(), YMM()
		} else {
			v[r], t[r] = XMM(), XMM()
		}
		VMOVDQU(from(r), v[r])
		if lift != nil {
			VPXOR(lift, v[r], v[r])
		}
	}
	VPUNPCKLDQ(v[1], v[0], t[0])
	VPUNPCKHDQ(v[1], v[0], t[1])
	VPUNPCKLDQ(v[3], v[2], t[2])
	VPUNPCKHDQ(v[3], v[2], t[3])
	VPUNPCKLQDQ(t[2], t[0], v[0])
	VPUNPCKHQDQ(t[2], t[0], v[1])
	VPUNPCKLQDQ(t[3], t[1], v[2])
	VPUNPCKHQDQ(t[3], t[1], v[3])
	for g := range v {
		VMOVDQU(v[g].AsX(), to(g))
		if wide {
			VEXTRACTI128(U8(1), v[g], to(g+4))
		}
	}
}
