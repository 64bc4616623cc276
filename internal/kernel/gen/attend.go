package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// pageArgs are the arguments that name the pages that a kernel reads one after the other: page p of the list lies p*pageBytes behind the place given for page 0, and after is the
// page to ask for while the last is read.
const pageArgs = "pages *int32, count int, after int, pageBytes int"

// scaleArg is the argument for the scales of q8, of page 0.
func (f plainFormat) scaleArg() string {
	if f == q8 {
		return ", s *float32"
	}
	return ""
}

// pageAt gives the distance of a page of the list from page 0.
func pageAt(page Mem) GPVirtual {
	at := GP64()
	MOVLQSX(page, at)
	IMULQ(argMem("pageBytes"), at)
	return at
}

// nextAt gives the distance of the page after the one at pages; count is how many are left, with this one.
func nextAt(pages, count GPVirtual, name string) GPVirtual {
	next := arg("after")
	CMPQ(count, U8(1))
	JE(LabelRef(name))
	MOVLQSX(Mem{Base: pages, Disp: 4}, next)
	Label(name)
	IMULQ(argMem("pageBytes"), next)
	return next
}

// dotHeads computes scale*q.k for the 16 positions of each page: of 1 to 4 heads whose keys lie ldk values apart, or, where n is 5, of four queries with the same keys. While it
// reads a page it asks for the same place of the next. Queries lie ldq floats apart, scores ldo, those of a page behind those of the one before.
func dotHeads(f plainFormat) {
	fn("dotHeads"+f.name, "computes scale*q.k of 1 to 4 heads for the 16 positions of each page; n = 5: of four queries with the same keys.",
		"func(out *float32, ldo int, q *float32, ldq int, dim int, k *"+f.goType+", ldk int, "+pageArgs+", scale float32, n int"+f.scaleArg()+")")
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

// dotTile is the state of dotHeads while it is emitted.
type dotTile struct {
	f      plainFormat
	shared bool
	q, k   rows
	next   GPVirtual
	acc    [][2]VecVirtual
}

func dotVariant(f plainFormat, n int, shared bool) {
	name := label("", n)
	if shared {
		name = "Shared"
	}
	Label("page" + name)
	t := &dotTile{f: f, shared: shared, acc: make([][2]VecVirtual, n)}
	t.begin(name)
	dim := arg("dim")
	SUBQ(U8(4), dim)
	JL(LabelRef("rest" + name))
	Label("four" + name)
	for d := range 4 {
		t.step(d)
	}
	t.advance(4)
	SUBQ(U8(4), dim)
	JGE(LabelRef("four" + name))
	Label("rest" + name)
	ADDQ(U8(4), dim)
	JE(LabelRef("store" + name))
	Label("one" + name)
	t.step(0)
	t.advance(1)
	DECQ(dim)
	JNE(LabelRef("one" + name))
	Label("store" + name)
	dotStore(f, t.acc, shared)
	ADDQ(U8(64), argMem("out"))
	ADDQ(U8(4), argMem("pages"))
	DECQ(argMem("count"))
	JNE(LabelRef("page" + name))
	ret()
}

// begin finds the page and clears the sums.
func (t *dotTile) begin(name string) {
	base, pages, n := arg("k"), arg("pages"), len(t.acc)
	k := pageAt(Mem{Base: pages})
	t.next = nextAt(pages, arg("count"), "last"+name)
	ADDQ(base, k)
	ADDQ(base, t.next)
	ldq := arg("ldq")
	SHLQ(U8(2), ldq)
	t.q = newRows(arg("q"), ldq, n)
	if t.shared {
		t.k = newRows(k, nil, 1)
	} else {
		ldk := arg("ldk")
		if t.f.bytes > 1 {
			SHLQ(U8(t.f.bytes/2), ldk)
		}
		t.k = newRows(k, ldk, n)
	}
	for i := range t.acc {
		t.acc[i] = [2]VecVirtual{YMM(), YMM()}
		zero(t.acc[i][0])
		zero(t.acc[i][1])
	}
}

// read is how many bytes of a page a step reads.
func (t *dotTile) read() int {
	if t.shared {
		return 16 * t.f.bytes
	}
	return 16 * t.f.bytes * len(t.acc)
}

// step adds one place of the heads, d behind the current one. What is asked for of the next page is spread over four steps.
func (t *dotTile) step(d int) {
	for at := (d*t.read() + 63) &^ 63; at < (d+1)*t.read(); at += 64 {
		PREFETCHT0(Mem{Base: t.next, Disp: at})
	}
	var k [2]VecVirtual
	for i := range t.acc {
		if i == 0 || !t.shared {
			for j := range k {
				k[j] = YMM()
				t.f.load(t.k.at(i, 16*t.f.bytes*d+8*t.f.bytes*j), k[j])
			}
		}
		x := YMM()
		VBROADCASTSS(t.q.at(i, 4*d), x)
		VFMADD231PS(k[0], x, t.acc[i][0])
		VFMADD231PS(k[1], x, t.acc[i][1])
	}
}

func (t *dotTile) advance(steps int) {
	t.q.advance(U8(4 * steps))
	t.k.advance(U32(16 * t.f.bytes * steps))
	ADDQ(U32(t.read()*steps), t.next)
}

// dotStore writes the sums times scale, in q8 times the scales of the keys times scale.
func dotStore(f plainFormat, acc [][2]VecVirtual, shared bool) {
	out, ldo, s := arg("out"), arg("ldo"), YMM()
	SHLQ(U8(2), ldo)
	outs := newRows(out, ldo, len(acc))
	VBROADCASTSS(argMem("scale"), s)
	var scales, step GPVirtual
	if f == q8 {
		scales, step = pageAt(Mem{Base: arg("pages")}), GP64()
		ADDQ(argMem("s"), scales)
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

// addValues adds w[i] times row i of v to the sums of one query, or of four whose weights lie ldw floats apart and whose sums width. Rows go on from lane of the first page to the
// pages behind it. Strips are as wide as registers allow, and pass all pages.
func addValues(f plainFormat) {
	fn("addValues"+f.name, "adds w[i]*v[i] to the sums of one query, or of four; width is a multiple of 8, rows at least 1, from lane of the first page on.",
		"func(acc *float32, width int, w *float32, ldw int, rows int, v *"+f.goType+", lane int, "+pageArgs+", n int"+f.scaleArg()+")")
	pages, left := AllocLocal(8), AllocLocal(8)
	n := arg("n")
	CMPQ(n, U8(1))
	JNE(LabelRef("four"))
	addStrips(f, 1, []int{8, 6, 4, 2, 1}, pages, left)
	ret()
	Label("four")
	addStrips(f, 4, []int{2, 1}, pages, left)
	ret()
}

// addStrips passes the pages once a strip; place and left hold the place in the list and the rows that are left.
func addStrips(f plainFormat, n int, strips []int, place, left Mem) {
	stride, lda := GP64(), arg("width")
	IMUL3Q(U8(f.bytes), lda, stride)
	SHLQ(U8(2), lda)
	accs := newRows(arg("acc"), lda, n)
	for _, strip := range strips {
		name := label("", n, "x", strip)
		Label("strip" + name)
		CMPQ(argMem("width"), U8(8*strip))
		JL(LabelRef("done" + name))
		sum := make([][]VecVirtual, n)
		for i := range sum {
			for j := range strip {
				y := YMM()
				VMOVUPS(accs.at(i, 32*j), y)
				sum[i] = append(sum[i], y)
			}
		}
		t := GP64()
		MOVQ(argMem("pages"), t)
		MOVQ(t, place)
		MOVQ(argMem("rows"), t)
		MOVQ(t, left)
		ldw := arg("ldw")
		SHLQ(U8(2), ldw)
		ws := newRows(arg("w"), ldw, n)
		lane := arg("lane")
		Label("page" + name)
		addPage(f, sum, stride, lane, ws, place, left, name)
		XORQ(lane, lane)
		ADDQ(U8(4), place)
		CMPQ(left, U8(0))
		JNE(LabelRef("page" + name))
		for i := range sum {
			for j := range strip {
				VMOVUPS(sum[i][j], accs.at(i, 32*j))
			}
		}
		accs.advance(U32(32 * strip))
		ADDQ(U32(8*f.bytes*strip), argMem("v"))
		SUBQ(U8(8*strip), argMem("width"))
		JMP(LabelRef("strip" + name))
		Label("done" + name)
	}
}

// addPage adds a strip of the rows of one page, from lane on.
func addPage(f plainFormat, sum [][]VecVirtual, stride, lane GPVirtual, ws rows, place, left Mem, name string) {
	pages := GP64()
	MOVQ(place, pages)
	vp, delta, n := pageAt(Mem{Base: pages}), arg("after"), GP64()
	MOVQ(U32(16), n)
	SUBQ(lane, n)
	CMPQ(left, n)
	JLE(LabelRef("last" + name))
	MOVLQSX(Mem{Base: pages, Disp: 4}, delta)
	Label("last" + name)
	CMPQ(n, left)
	JLE(LabelRef("rows" + name))
	MOVQ(left, n)
	Label("rows" + name)
	SUBQ(n, left)
	IMULQ(argMem("pageBytes"), delta)
	SUBQ(vp, delta) // from a place of this page to that of the next
	var s GPVirtual
	if f == q8 {
		s = GP64()
		LEAQ(Mem{Base: vp, Index: lane, Scale: 4}, s)
		ADDQ(argMem("s"), s)
	}
	IMULQ(stride, lane)
	ADDQ(lane, vp)
	ADDQ(argMem("v"), vp)
	Label("row" + name)
	addRow(f, sum, vp, delta, ws, s)
	ADDQ(stride, vp)
	ws.advance(U8(4))
	DECQ(n)
	JNE(LabelRef("row" + name))
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
