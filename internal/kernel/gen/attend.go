package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// dotHeads computes scale*q.k for the 16 positions of a page: of 1 to 4 heads whose keys lie ldk values apart, or, where n is 5, of four queries with the same keys. While it
// reads it asks for as many bytes from next on. Queries lie ldq floats apart, scores ldo.
func dotHeads(f plainFormat) {
	sig := "func(out *float32, ldo int, q *float32, ldq int, dim int, k *" + f.goType + ", ldk int, next *" + f.goType + ", scale float32, n int"
	if f == q8 {
		sig += ", s *float32"
	}
	fn("dotHeads"+f.name, "computes scale*q.k of 1 to 4 heads for the 16 positions of a page; n = 5: of four queries with the same keys.", sig+")")
	n := arg("n")
	for v := 1; v <= 4; v++ {
		CMPQ(n, U8(v))
		JE(LabelRef(label("heads", v)))
	}
	dotVariant(f, 4, true)
	for v := 1; v <= 4; v++ {
		Label(label("heads", v))
		dotVariant(f, v, false)
	}
}

func dotVariant(f plainFormat, n int, shared bool) {
	q, ldq, dim, k, next := arg("q"), arg("ldq"), arg("dim"), arg("k"), arg("next")
	SHLQ(U8(2), ldq)
	qs := newRows(q, ldq, n)
	var ldk GPVirtual
	var ks rows
	if !shared {
		ldk = arg("ldk")
		if f.bytes > 1 {
			SHLQ(U8(f.bytes/2), ldk)
		}
		ks = newRows(k, ldk, n)
	}
	acc := make([][2]VecVirtual, n)
	for i := range acc {
		acc[i] = [2]VecVirtual{YMM(), YMM()}
		zero(acc[i][0])
		zero(acc[i][1])
	}
	loop := label("dim", n)
	read := n * 16 * f.bytes // bytes a step
	if shared {
		loop, read = "dimShared", 16*f.bytes
	}
	Label(loop)
	for at := 0; at < read; at += 64 {
		PREFETCHT0(Mem{Base: next, Disp: at})
	}
	ADDQ(U32(read), next)
	k0, k1 := YMM(), YMM()
	if shared {
		f.load(Mem{Base: k}, k0)
		f.load(Mem{Base: k, Disp: 8 * f.bytes}, k1)
	}
	for i := range acc {
		x := YMM()
		VBROADCASTSS(qs.at(i, 0), x)
		if !shared {
			k0, k1 = YMM(), YMM()
			f.load(ks.at(i, 0), k0)
			f.load(ks.at(i, 8*f.bytes), k1)
		}
		VFMADD231PS(k0, x, acc[i][0])
		VFMADD231PS(k1, x, acc[i][1])
	}
	if shared {
		ADDQ(U8(16*f.bytes), k)
	} else {
		ks.advance(U8(16 * f.bytes))
	}
	qs.advance(U8(4))
	DECQ(dim)
	JNE(LabelRef(loop))
	dotStore(f, acc, shared)
	ret()
}

// dotStore writes the sums times scale, in q8 times the scales of the keys times scale.
func dotStore(f plainFormat, acc [][2]VecVirtual, shared bool) {
	out, ldo, s := arg("out"), arg("ldo"), YMM()
	SHLQ(U8(2), ldo)
	outs := newRows(out, ldo, len(acc))
	VBROADCASTSS(argMem("scale"), s)
	var scales, step GPVirtual
	if f == q8 {
		scales, step = arg("s"), GP64()
		XORQ(step, step)
		if !shared { // the keys of heads lie apart, unless ldk is 0, and so do their scales
			ldk, apart := arg("ldk"), GP64()
			MOVQ(U32(64), apart)
			TESTQ(ldk, ldk)
			CMOVQNE(apart, step)
		}
	}
	for i := range acc {
		for j, a := range acc[i] {
			m := s
			if f == q8 {
				m = YMM()
				VMULPS(Mem{Base: scales, Disp: 32 * j}, s, m)
			}
			VMULPS(m, a, a)
			VMOVUPS(a, outs.at(i, 32*j))
		}
		if f == q8 {
			ADDQ(step, scales)
		}
	}
}

// addValues adds w[i] times row i of v to the sums of one query, or of four whose weights lie ldw floats apart and whose sums width. Strips are as wide as registers allow.
func addValues(f plainFormat) {
	sig := "func(acc *float32, width int, w *float32, ldw int, rows int, v *" + f.goType + ", next *" + f.goType + ", n int"
	if f == q8 {
		sig += ", s *float32"
	}
	fn("addValues"+f.name, "adds w[i]*v[i] to the sums of one query, or of four; width is a multiple of 8, rows at least 1; asks for as much from next on.", sig+")")
	n := arg("n")
	CMPQ(n, U8(1))
	JNE(LabelRef("four"))
	addStrips(f, 1, []int{8, 6, 4, 2, 1})
	ret()
	Label("four")
	addStrips(f, 4, []int{2, 1})
	ret()
}

func addStrips(f plainFormat, n int, strips []int) {
	acc, width, v, delta, stride, lda, ldw := arg("acc"), arg("width"), arg("v"), arg("next"), GP64(), GP64(), arg("ldw")
	SUBQ(v, delta)
	IMUL3Q(U8(f.bytes), width, stride)
	MOVQ(width, lda)
	SHLQ(U8(2), lda)
	SHLQ(U8(2), ldw)
	accs := newRows(acc, lda, n)
	for _, strip := range strips {
		loop, skip, row := label("strip", n, "x", strip), label("done", n, "x", strip), label("row", n, "x", strip)
		Label(loop)
		CMPQ(width, U8(8*strip))
		JL(LabelRef(skip))
		sum := make([][]VecVirtual, n)
		for i := range sum {
			for j := range strip {
				y := YMM()
				VMOVUPS(accs.at(i, 32*j), y)
				sum[i] = append(sum[i], y)
			}
		}
		vp, wp, left := GP64(), arg("w"), arg("rows")
		MOVQ(v, vp)
		ws := newRows(wp, ldw, n)
		var s GPVirtual
		if f == q8 {
			s = arg("s")
		}
		Label(row)
		addRow(f, sum, vp, delta, ws, s)
		ADDQ(stride, vp)
		ws.advance(U8(4))
		DECQ(left)
		JNE(LabelRef(row))
		for i := range sum {
			for j := range strip {
				VMOVUPS(sum[i][j], accs.at(i, 32*j))
			}
		}
		accs.advance(U32(32 * strip))
		ADDQ(U32(8*f.bytes*strip), v)
		SUBQ(U8(8*strip), width)
		JMP(LabelRef(loop))
		Label(skip)
	}
}

// addRow adds a strip of one row to each query's sums.
func addRow(f plainFormat, sum [][]VecVirtual, vp, delta GPVirtual, ws rows, s GPVirtual) {
	for at := 0; at < 8*f.bytes*len(sum[0]); at += 64 {
		PREFETCHT0(Mem{Base: vp, Index: delta, Scale: 1, Disp: at})
	}
	var y []VecVirtual
	if len(sum) > 1 {
		for j := range sum[0] {
			y = append(y, YMM())
			f.load(Mem{Base: vp, Disp: 8 * f.bytes * j}, y[j])
		}
	}
	scale := YMM()
	if f == q8 {
		VBROADCASTSS(Mem{Base: s}, scale)
		ADDQ(U8(4), s)
	}
	for i := range sum {
		x := YMM()
		VBROADCASTSS(ws.at(i, 0), x)
		if f == q8 {
			VMULPS(scale, x, x)
		}
		for j, a := range sum[i] {
			value := YMM()
			if len(y) > 0 {
				value = y[j]
			} else {
				f.load(Mem{Base: vp, Disp: 8 * f.bytes * j}, value)
			}
			VFMADD231PS(value, x, a)
		}
	}
}

// largestBits keeps the largest magnitudes of eight lanes, as integers, so that NaN is larger than any number.
func largestBits() {
	fn("largestBitsAVX2", "gives the bits of the largest magnitude of each of 8 lanes; n is a multiple of 8, at least 8.", "func(lanes *uint32, x *float32, n int)")
	lanes, x, n := arg("lanes"), arg("x"), arg("n")
	m, abs := YMM(), YMM()
	zero(m)
	VMOVUPS(constU32("absMask", 1<<31-1), abs)
	Label("loop")
	v := YMM()
	VPAND(Mem{Base: x}, abs, v)
	VPMAXUD(v, m, m)
	ADDQ(U8(32), x)
	SUBQ(U8(8), n)
	JNE(LabelRef("loop"))
	VMOVUPS(m, Mem{Base: lanes})
	ret()
}

// codes rounds x*inv to int8.
func codes() {
	fn("codesAVX2", "rounds x*inv to the nearest integer; n is a multiple of 8, at least 8.", "func(dst *int8, x *float32, n int, inv float32)")
	dst, x, n, inv := arg("dst"), arg("x"), arg("n"), YMM()
	VBROADCASTSS(argMem("inv"), inv)
	Label("loop")
	v, high := YMM(), XMM()
	VMULPS(Mem{Base: x}, inv, v)
	VCVTPS2DQ(v, v)
	VEXTRACTI128(U8(1), v, high)
	VPACKSSDW(high, v.AsX(), high)
	VPACKSSWB(high, high, high)
	VMOVQ(high, Mem{Base: dst})
	ADDQ(U8(32), x)
	ADDQ(U8(8), dst)
	SUBQ(U8(8), n)
	JNE(LabelRef("loop"))
	ret()
}
