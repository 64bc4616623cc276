package main

import (
	"flag"
	"log"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// otherSet writes the kernels of training where -set train asks for them, those of arm64 for -set neon, those of AVX-512 for -set vnni, and says whether it did: they live in files of their own.
func otherSet() bool {
	set := flag.String("set", "inference", "kernels to write: inference, train, neon or vnni")
	flag.Parse()
	switch *set {
	case "neon":
		if err := neonSet(flag.Arg(0)); err != nil {
			log.Fatal(err)
		}
	case "vnni":
		vnniSet()
	case "train":
		trainSet()
	default:
		return false
	}
	return true
}

func trainSet() {
	ConstraintExpr("amd64,!purego")
	for rows := 1; rows <= gemmRows; rows++ {
		gemm(rows)
	}
	gemmCopy()
	gemmTile()
	back()
	Generate()
}

// gemmRows is the height of the register tile: 6x16 sums, two vectors of B, two broadcasts are the sixteen registers.
const gemmRows = 6

// gemm multiplies tiles of R rows of A by one panel of B, 16 columns: each output is one sum over ascending k, started from C or from zero. A is at any two
// strides (rs between rows, ks between terms), so that one kernel takes A as it lies, turned, or packed.
//
//	a: R rows, rs bytes apart, a tile every step bytes     b: k rows of 16 floats, bs bytes apart     c: rows ldc bytes apart, tiles R rows apart
func gemm(R int) {
	fn(label("gemmx", R), label("multiplies tiles of ", R, " rows by a panel; strides in bytes; load 1 starts the sums from c."),
		"func(c *float32, ldc int, a *float32, rs int, ks int, step int, b *float32, bs int, k int, tiles int, load int, next *float32, lines int)")
	c, ldc, a, rs, ks, b, bs := arg("c"), arg("ldc"), arg("a"), arg("rs"), arg("ks"), arg("b"), arg("bs")
	tile, bp, n := GP64(), GP64(), GP64()
	acc := make([][2]VecVirtual, R)
	for r := range acc {
		acc[r] = [2]VecVirtual{YMM(), YMM()}
	}
	Label("tile")
	MOVQ(a, tile)
	MOVQ(b, bp)
	in, out := newRows(tile, rs, R), newRows(c, ldc, R)
	CMPQ(argMem("load"), U8(0))
	JNE(LabelRef("load"))
	for r := range acc {
		for h := range acc[r] {
			VXORPS(acc[r][h], acc[r][h], acc[r][h])
		}
	}
	JMP(LabelRef("sum"))
	Label("load")
	for r := range acc {
		for h := range acc[r] {
			VMOVUPS(out.at(r, 32*h), acc[r][h])
		}
	}
	Label("sum")
	// Where asked for, what comes next is fetched now: the rows of C of the next tile, and a part of the next panel of B.
	MOVQ(argMem("lines"), n)
	TESTQ(n, n)
	JE(LabelRef("fetched"))
	fetch := GP64()
	MOVQ(c, fetch)
	for range R {
		ADDQ(ldc, fetch)
	}
	for range R {
		PREFETCHT0(Mem{Base: fetch})
		ADDQ(ldc, fetch)
	}
	MOVQ(argMem("next"), fetch)
	Label("fetch")
	PREFETCHT1(Mem{Base: fetch})
	ADDQ(U8(64), fetch)
	DECQ(n)
	JNE(LabelRef("fetch"))
	MOVQ(fetch, argMem("next"))
	Label("fetched")
	step := func() {
		w := [2]VecVirtual{YMM(), YMM()}
		VMOVUPS(Mem{Base: bp}, w[0])
		VMOVUPS(Mem{Base: bp, Disp: 32}, w[1])
		ADDQ(bs, bp)
		for r := range acc {
			v := YMM()
			VBROADCASTSS(in.at(r, 0), v)
			VFMADD231PS(w[0], v, acc[r][0])
			VFMADD231PS(w[1], v, acc[r][1])
		}
		in.advance(ks)
	}
	const unroll = 4
	MOVQ(argMem("k"), n)
	SUBQ(U8(unroll), n)
	JL(LabelRef("rest"))
	Label("main")
	for range unroll {
		step()
	}
	SUBQ(U8(unroll), n)
	JGE(LabelRef("main"))
	Label("rest")
	ADDQ(U8(unroll), n)
	JE(LabelRef("store"))
	Label("odd")
	step()
	DECQ(n)
	JNE(LabelRef("odd"))
	Label("store")
	for r := range acc {
		for h := range acc[r] {
			VMOVUPS(acc[r][h], out.at(r, 32*h))
		}
	}
	ADDQ(argMem("step"), a)
	for range R {
		ADDQ(ldc, c)
	}
	DECQ(argMem("tiles"))
	JNE(LabelRef("tile"))
	ret()
}

// gemmCopy copies rows of 16 floats, stride bytes apart, to a panel.
func gemmCopy() {
	fn("gemmCopy16", "copies n rows of 16 floats, stride bytes apart, to a panel.", "func(dst *float32, src *float32, stride int, n int)")
	dst, src, stride, n := arg("dst"), arg("src"), arg("stride"), arg("n")
	Label("row")
	v := [2]VecVirtual{YMM(), YMM()}
	for i := range v {
		VMOVUPS(Mem{Base: src, Disp: 32 * i}, v[i])
	}
	for i := range v {
		VMOVUPS(v[i], Mem{Base: dst, Disp: 32 * i})
	}
	ADDQ(stride, src)
	ADDQ(U8(64), dst)
	DECQ(n)
	JNE(LabelRef("row"))
	ret()
}

// gemmTile copies rows of six floats, stride bytes apart, for several tiles that lie beside each other in the rows.
func gemmTile() {
	fn("gemmTiles6", "copies n rows of 6 floats, stride bytes apart, of tiles that lie side by side, to tiles step bytes apart.", "func(dst *float32, step int, src *float32, stride int, n int, tiles int)")
	dst, step, src, stride, tiles := arg("dst"), arg("step"), arg("src"), arg("stride"), arg("tiles")
	from, to, n := GP64(), GP64(), GP64()
	Label("tile")
	MOVQ(src, from)
	MOVQ(dst, to)
	MOVQ(argMem("n"), n)
	Label("row")
	v, w := XMM(), GP64()
	VMOVUPS(Mem{Base: from}, v)
	MOVQ(Mem{Base: from, Disp: 16}, w)
	VMOVUPS(v, Mem{Base: to})
	MOVQ(w, Mem{Base: to, Disp: 16})
	ADDQ(stride, from)
	ADDQ(U8(24), to)
	DECQ(n)
	JNE(LabelRef("row"))
	ADDQ(U8(24), src)
	ADDQ(step, dst)
	DECQ(tiles)
	JNE(LabelRef("tile"))
	ret()
}
