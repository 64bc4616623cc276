// Command gen writes the AVX2 kernels: go run . -out ../avx2_amd64.s -stubs ../avx2_amd64.go -pkg kernel (see generate.go beside the kernels); those of
// training with -set train, those of arm64 with -set neon.
//
// Rules that every kernel here keeps: V-forms only, since one legacy SSE instruction while upper halves are in use costs hundreds of cycles; VZEROUPPER before RET; at
// most the 16 registers of AVX2; unaligned loads; never a read outside the slices.
package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	if otherSet() {
		return
	}
	ConstraintExpr("amd64,!purego")
	for rows := 1; rows <= 6; rows++ {
		mulF32(rows)
	}
	for _, f := range []plainFormat{f16, bf16} {
		for _, s := range halfShapes {
			mulHalf(f, s[0], s[1])
		}
	}
	for _, s := range wideShapes {
		mulWide(s[0], s[1])
	}
	for _, f := range []quantFormat{q8Min, q4, q4Min} {
		for _, s := range quantShapes {
			mulQuant(f, s[0], s[1])
		}
	}
	for _, f := range []superFormat{k4, k8, k6} {
		for _, s := range quantShapes {
			mulSuper(f, s[0], s[1])
		}
	}
	for _, f := range packFormats {
		pack(f)
	}
	packWords()
	packHalves()
	quantiseRow()
	roundRow()
	for _, f := range []plainFormat{f32, f16, q8} {
		dotHeads(f)
		addValues(f)
	}
	largestBits()
	codes()
	maxOf()
	softmax()
	rmsNorm()
	expSumDouble()
	weigh()
	addSquares()
	scaleGain()
	swiGLU()
	gelu()
	add()
	scale()
	mulAdd()
	ropeHalf()
	ropeInterleaved()
	halves()
	addLanes()
	layerNorm()
	relu2()
	Generate()
}

// fn begins a kernel.
func fn(name, doc, signature string) {
	TEXT(name, NOSPLIT, signature)
	Doc(name + " " + doc)
	Pragma("noescape")
}

// ret ends one.
func ret() {
	VZEROUPPER()
	RET()
}

func arg(name string) GPVirtual { return Load(Param(name), GP64()).(GPVirtual) }

// argMem is the place of an argument in memory, to broadcast from.
func argMem(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// label makes names unique: labels are local to a function.
func label(s string, n ...any) string { return fmt.Sprint(append([]any{s}, n...)...) }

// rows addresses up to six rows that lie stride bytes apart with three registers: base, base+stride, base+2*stride, and the same from the fourth on.
type rows struct {
	base, upper, stride GPVirtual
	n                   int
}

func newRows(base, stride GPVirtual, n int) rows {
	r := rows{base: base, stride: stride, n: n}
	if n > 3 {
		r.upper = GP64()
		LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, r.upper)
		ADDQ(base, r.upper)
	}
	return r
}

func (r rows) at(i, disp int) Mem {
	base := r.base
	if i >= 3 {
		base, i = r.upper, i-3
	}
	if i == 0 {
		return Mem{Base: base, Disp: disp}
	}
	return Mem{Base: base, Index: r.stride, Scale: uint8(i), Disp: disp}
}

// advance moves all rows on by n bytes, a constant or a register.
func (r rows) advance(n Op) {
	ADDQ(n, r.base)
	if r.n > 3 {
		ADDQ(n, r.upper)
	}
}

func (r rows) retreat(n Op) {
	SUBQ(n, r.base)
	if r.n > 3 {
		SUBQ(n, r.upper)
	}
}

// constants are 32-byte vectors of one 32-bit value.
var constants = map[string]Mem{}

func constU32(name string, bits uint32) Mem {
	if m, ok := constants[name]; ok {
		return m
	}
	m := GLOBL(name, 8|16) // RODATA|NOPTR
	for i := range 8 {
		DATA(4*i, U32(bits))
	}
	constants[name] = m
	return m
}

func constF32(name string, v float32) Mem { return constU32(name, math.Float32bits(v)) }

func zero(y VecVirtual) { VPXOR(y, y, y) }
