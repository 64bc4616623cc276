package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// maxOf leaves the largest value of each of 32 lanes; NaN never wins.
func maxOf() {
	fn("maxLanesAVX2", "keeps the largest values of 32 lanes; n is a multiple of 32, at least 32.", "func(lanes *float32, x *float32, n int)")
	lanes, x, n := arg("lanes"), arg("x"), arg("n")
	var m [4]VecVirtual
	inf := constU32("negInf", 0xff800000)
	for i := range m {
		m[i] = YMM()
		VMOVUPS(inf, m[i])
	}
	Label("loop")
	for i := range m {
		v := YMM()
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, v)
		VMAXPS(m[i], v, m[i]) // the second source of the instruction, here the first, is what a NaN gives way to
	}
	SUBQ(I32(-128), x)
	SUBQ(U8(32), n)
	JNE(LabelRef("loop"))
	for i := range m {
		VMOVUPS(m[i], Mem{Base: lanes, Disp: 32 * i})
	}
	ret()
}

// exp gives e^x of eight lanes: the operations of exp32, in its order.
func exp(x VecVirtual) VecVirtual {
	c, t, n, r, p := YMM(), YMM(), YMM(), YMM(), YMM()
	VMAXPS(constF32("expLow", -87), x, c)
	VMINPS(constF32("expHigh", 88), c, c)
	VMULPS(constF32("log2e", 1.44269504088896341), c, t)
	magic := constF32("expMagic", 0x1.8p23)
	VADDPS(magic, t, t)
	VSUBPS(magic, t, n)
	VMULPS(constF32("ln2Hi", 0.693359375), n, r)
	VSUBPS(r, c, r)
	VMULPS(constF32("ln2Lo", -2.12194440e-4), n, n)
	VSUBPS(n, r, r)
	VMULPS(constF32("expC0", 1.9875691500e-4), r, p)
	VADDPS(constF32("expC1", 1.3981999507e-3), p, p)
	for i, c := range []float32{8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1} {
		VMULPS(r, p, p)
		VADDPS(constF32(label("expC", i+2), c), p, p)
	}
	VMULPS(r, r, n)
	VMULPS(n, p, p)
	VADDPS(r, p, p)
	VADDPS(constF32("one", 1), p, p)
	VPADDD(constU32("expBias", uint32(127-0x4b400000+1<<32)), t, t)
	VPSLLD(U8(23), t, t)
	VMULPS(t, p, p)
	VCMPPS(U8(17), constF32("expLow", -87), x, c) // x < low
	VANDNPS(p, c, p)
	VCMPPS(U8(30), constF32("expHigh", 88), x, c) // x > high
	VBLENDVPS(c, constU32("posInf", 0x7f800000), p, p)
	VCMPPS(U8(3), x, x, c) // NaN
	VBLENDVPS(c, x, p, p)
	return p
}

// softmax replaces x by e^(x-max) and gives 1 over the sum, which runs in 16 lanes that are then added in halves. NaN is never the maximum.
func softmax() {
	fn("softmaxAVX2", "replaces x by e^(x-max), n a multiple of 16, at least 16; inv gets 1 over the sum.", "func(x *float32, n int, inv *float32)")
	x, n, inv := arg("x"), arg("n"), arg("inv")
	_, s := softmaxPasses(x, n)
	VADDPS(s[1], s[0], s[0])
	foldAcross(s[0], VADDPS)
	one := XMM()
	VMOVSS(constF32("one", 1), one)
	VDIVSS(s[0].AsX(), one, one)
	VMOVSS(one, Mem{Base: inv})
	ret()
}

// softmaxPasses replaces x, n values, by e^(x-max) and gives the maximum, in every lane, and 16 lanes of sums. Both pointers move.
func softmaxPasses(x, n GPVirtual) (top VecVirtual, s [2]VecVirtual) {
	p, left := GP64(), GP64()
	m := [2]VecVirtual{YMM(), YMM()}
	s = [2]VecVirtual{YMM(), YMM()}
	for i := range m {
		VMOVUPS(constU32("negInf", 0xff800000), m[i])
		VXORPS(s[i], s[i], s[i])
	}
	MOVQ(x, p)
	MOVQ(n, left)
	Label("max")
	for i := range m {
		v := load(Mem{Base: p, Disp: 32 * i})
		VMAXPS(m[i], v, m[i]) // NaN gives way
	}
	ADDQ(U8(64), p)
	SUBQ(U8(16), left)
	JNE(LabelRef("max"))
	top = m[0]
	VMAXPS(top, m[1], top)
	foldAcross(top, VMAXPS)
	VBROADCASTSS(top.AsX(), top)
	Label("exp")
	var v [2]VecVirtual
	for i := range v {
		v[i] = load(Mem{Base: x, Disp: 32 * i})
		VSUBPS(top, v[i], v[i])
	}
	for i, e := range exps(true, v[:]...) {
		VMOVUPS(e, Mem{Base: x, Disp: 32 * i})
		VADDPS(e, s[i], s[i])
	}
	ADDQ(U8(64), x)
	SUBQ(U8(16), n)
	JNE(LabelRef("exp"))
	return top, s
}

// rmsNorm writes x/rms(x)*gain: squares in 32 lanes, folded in halves, root and quotient rounded.
func rmsNorm() {
	fn("rmsNormAVX2", "writes x*gain/sqrt(sum(x^2)/count + eps). n is a multiple of 8, at least 8, and count the same number.",
		"func(dst *float32, x *float32, gain *float32, n int, count float32, eps float32)")
	dst, x, gain, n := arg("dst"), arg("x"), arg("gain"), arg("n")
	var a [4]VecVirtual
	for i := range a {
		a[i] = YMM()
		zero(a[i])
	}
	i, left := GP64(), GP64()
	XORQ(i, i)
	MOVQ(n, left)
	add := func(j int) {
		v := load(Mem{Base: x, Index: i, Scale: 4, Disp: 32 * j})
		VMULPS(v, v, v)
		VADDPS(v, a[j], a[j])
	}
	SUBQ(U8(32), left)
	JL(LabelRef("rest"))
	Label("squares")
	for j := range a {
		add(j)
	}
	ADDQ(U8(32), i)
	SUBQ(U8(32), left)
	JGE(LabelRef("squares"))
	Label("rest")
	ADDQ(U8(32), left)
	for j := range 3 {
		JE(LabelRef("fold"))
		add(j)
		SUBQ(U8(8), left)
	}
	Label("fold")
	VADDPS(a[2], a[0], a[0])
	VADDPS(a[3], a[1], a[1])
	VADDPS(a[1], a[0], a[0])
	foldAcross(a[0], VADDPS)
	s, one := a[0].AsX(), XMM()
	VDIVSS(argMem("count"), s, s)
	VADDSS(argMem("eps"), s, s)
	VSQRTSS(s, s, s)
	VMOVSS(constF32("one", 1), one)
	VDIVSS(s, one, s)
	VBROADCASTSS(s, a[0])
	XORQ(i, i)
	Label("scale")
	v := load(Mem{Base: x, Index: i, Scale: 4})
	VMULPS(a[0], v, v)
	VMULPS(Mem{Base: gain, Index: i, Scale: 4}, v, v)
	VMOVUPS(v, Mem{Base: dst, Index: i, Scale: 4})
	ADDQ(U8(8), i)
	CMPQ(i, n)
	JL(LabelRef("scale"))
	ret()
}

// expSumDouble adds e^(x-top) to 16 double lanes and leaves x alone.
func expSumDouble() {
	fn("expSumDoubleAVX2", "adds e^(x-top) to 16 double lanes; n is a multiple of 16, at least 16.", "func(x *float32, n int, top float32, sums *float64)")
	x, n, sums := arg("x"), arg("n"), arg("sums")
	top := YMM()
	VBROADCASTSS(argMem("top"), top)
	var s [4]VecVirtual
	for i := range s {
		s[i] = YMM()
		VMOVUPD(Mem{Base: sums, Disp: 32 * i}, s[i])
	}
	Label("loop")
	for i := range 2 {
		v := YMM()
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, v)
		VSUBPS(top, v, v)
		e, d := exp(v), YMM()
		VCVTPS2PD(e.AsX(), d)
		VADDPD(d, s[2*i], s[2*i])
		VEXTRACTF128(U8(1), e, e.AsX())
		VCVTPS2PD(e.AsX(), d)
		VADDPD(d, s[2*i+1], s[2*i+1])
	}
	ADDQ(U8(64), x)
	SUBQ(U8(16), n)
	JNE(LabelRef("loop"))
	for i := range s {
		VMOVUPD(s[i], Mem{Base: sums, Disp: 32 * i})
	}
	ret()
}

// weigh writes e^((x-top)*inv) and adds it to 16 double lanes.
func weigh() {
	fn("weighAVX2", "writes e^((x-top)*inv) and adds it to 16 double lanes; n is a multiple of 16, at least 16.", "func(dst *float32, x *float32, n int, top float32, inv float32, sums *float64)")
	dst, x, n, sums := arg("dst"), arg("x"), arg("n"), arg("sums")
	top, inv := YMM(), YMM()
	VBROADCASTSS(argMem("top"), top)
	VBROADCASTSS(argMem("inv"), inv)
	var s [4]VecVirtual
	for i := range s {
		s[i] = YMM()
		VMOVUPD(Mem{Base: sums, Disp: 32 * i}, s[i])
	}
	Label("loop")
	for i := range 2 {
		v := YMM()
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, v)
		VSUBPS(top, v, v)
		VMULPS(inv, v, v)
		e, d := exp(v), YMM()
		VMOVUPS(e, Mem{Base: dst, Disp: 32 * i})
		VCVTPS2PD(e.AsX(), d)
		VADDPD(d, s[2*i], s[2*i])
		VEXTRACTF128(U8(1), e, e.AsX())
		VCVTPS2PD(e.AsX(), d)
		VADDPD(d, s[2*i+1], s[2*i+1])
	}
	ADDQ(U8(64), x)
	ADDQ(U8(64), dst)
	SUBQ(U8(16), n)
	JNE(LabelRef("loop"))
	for i := range s {
		VMOVUPD(s[i], Mem{Base: sums, Disp: 32 * i})
	}
	ret()
}

// addSquares adds (x-shift)^2 to 32 lanes.
func addSquares() {
	fn("addSquaresAVX2", "adds (x-shift)^2 to 32 lanes; n is a multiple of 32, at least 32.", "func(s *float32, x *float32, n int, shift float32)")
	s, x, n := arg("s"), arg("x"), arg("n")
	shift := YMM()
	VBROADCASTSS(argMem("shift"), shift)
	var a [4]VecVirtual
	for i := range a {
		a[i] = YMM()
		VMOVUPS(Mem{Base: s, Disp: 32 * i}, a[i])
	}
	Label("loop")
	for i := range a {
		v := YMM()
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, v)
		VSUBPS(shift, v, v)
		VMULPS(v, v, v)
		VADDPS(v, a[i], a[i])
	}
	SUBQ(I32(-128), x)
	SUBQ(U8(32), n)
	JNE(LabelRef("loop"))
	for i := range a {
		VMOVUPS(a[i], Mem{Base: s, Disp: 32 * i})
	}
	ret()
}

// each walks slices eight lanes at a time; n is a multiple of 8, at least 8.
func each(name, doc, args string, slices []string, before func(), body func(at func(string) Mem)) {
	sig := "func("
	for _, s := range slices {
		sig += s + " *float32, "
	}
	fn(name, doc+" n is a multiple of 8, at least 8.", sig+"n int"+args+")")
	p := map[string]GPVirtual{}
	for _, s := range slices {
		p[s] = arg(s)
	}
	n, i := arg("n"), GP64()
	XORQ(i, i)
	if before != nil {
		before()
	}
	Label("loop")
	body(func(s string) Mem { return Mem{Base: p[s], Index: i, Scale: 4} })
	ADDQ(U8(8), i)
	CMPQ(i, n)
	JL(LabelRef("loop"))
	ret()
}

func load(m Mem) VecVirtual {
	y := YMM()
	VMOVUPS(m, y)
	return y
}

func scaleGain() {
	var s VecVirtual
	each("scaleGainAVX2", "writes x*s*gain.", ", s float32", []string{"dst", "x", "gain"}, func() {
		s = YMM()
		VBROADCASTSS(argMem("s"), s)
	}, func(at func(string) Mem) {
		v := load(at("x"))
		VMULPS(s, v, v)
		VMULPS(at("gain"), v, v)
		VMOVUPS(v, at("dst"))
	})
}

func scale() {
	var s VecVirtual
	each("scaleAVX2", "writes a*s.", ", s float32", []string{"dst", "a"}, func() {
		s = YMM()
		VBROADCASTSS(argMem("s"), s)
	}, func(at func(string) Mem) {
		v := YMM()
		VMULPS(at("a"), s, v)
		VMOVUPS(v, at("dst"))
	})
}

func add() {
	each("addAVX2", "writes a+b.", "", []string{"dst", "a", "b"}, nil, func(at func(string) Mem) {
		v := load(at("a"))
		VADDPS(at("b"), v, v)
		VMOVUPS(v, at("dst"))
	})
}

func mulAdd() {
	each("mulAddAVX2", "writes a*b + c, each step rounded.", "", []string{"dst", "a", "b", "c"}, nil, func(at func(string) Mem) {
		v := load(at("a"))
		VMULPS(at("b"), v, v)
		VADDPS(at("c"), v, v)
		VMOVUPS(v, at("dst"))
	})
}

// sigmoidMul gives x/(1+e^-z).
func sigmoidMul(x, z VecVirtual) VecVirtual {
	m := YMM()
	VXORPS(constU32("signBit", 1<<31), z, m)
	e := exp(m)
	VADDPS(constF32("one", 1), e, e)
	VDIVPS(e, x, e)
	return e
}

func swiGLU() {
	each("swiGLUAVX2", "writes silu(gate)*up.", "", []string{"dst", "gate", "up"}, nil, func(at func(string) Mem) {
		g := load(at("gate"))
		e := sigmoidMul(g, g)
		VMULPS(at("up"), e, e)
		VMOVUPS(e, at("dst"))
	})
}

func gelu() {
	each("geluAVX2", "writes the tanh form of GELU.", "", []string{"dst", "x"}, nil, func(at func(string) Mem) {
		v, z := load(at("x")), YMM()
		VMULPS(v, v, z)
		VMULPS(v, z, z)
		VMULPS(constF32("geluCube", 0.044715), z, z)
		VADDPS(v, z, z)
		VMULPS(constF32("geluScale", 2*0.79788456080286535588), z, z)
		e := sigmoidMul(v, z)
		VMOVUPS(e, at("dst"))
	})
}

// ropeHalf rotates the pairs (a[j], b[j]), j ascending, eight at a time.
func ropeHalf() {
	each("ropeHalfAVX2", "rotates the pairs (a, b) in place.", "", []string{"a", "b", "cos", "sin"}, nil, func(at func(string) Mem) {
		u, v, c, s, x, y := load(at("a")), load(at("b")), load(at("cos")), load(at("sin")), YMM(), YMM()
		VMULPS(c, u, x)
		VMULPS(s, v, y)
		VSUBPS(y, x, x)
		VMOVUPS(x, at("a"))
		VMULPS(s, u, u)
		VMULPS(c, v, v)
		VADDPS(v, u, u)
		VMOVUPS(u, at("b"))
	})
}

// ropeInterleaved rotates pairs of neighbours, four at a time.
func ropeInterleaved() {
	fn("ropeInterleavedAVX2", "rotates pairs of neighbours in place; n pairs, a multiple of 4, at least 4.", "func(x *float32, cos *float32, sin *float32, n int)")
	x, cos, sin, n := arg("x"), arg("cos"), arg("sin"), arg("n")
	Label("loop")
	c, s, v, w := YMM(), YMM(), YMM(), YMM()
	for _, t := range []struct {
		from GPVirtual
		to   VecVirtual
	}{{cos, c}, {sin, s}} {
		VMOVUPS(Mem{Base: t.from}, t.to.AsX())
		VPERMPD(U8(0x50), t.to, t.to)   // pairs 0 0 1 1: halves 0 and 1, each twice
		VPERMILPS(U8(0x50), t.to, t.to) // to lanes 0 0 1 1 of each half
	}
	VMOVUPS(Mem{Base: x}, v)
	VPERMILPS(U8(0xb1), v, w) // the partner of each lane
	VMULPS(c, v, v)
	VMULPS(s, w, w)
	VADDSUBPS(w, v, v) // even lanes u*c - v*s, odd lanes v*c + u*s
	VMOVUPS(v, Mem{Base: x})
	ADDQ(U8(32), x)
	ADDQ(U8(16), cos)
	ADDQ(U8(16), sin)
	SUBQ(U8(4), n)
	JNE(LabelRef("loop"))
	ret()
}

// halves rounds to the nearest half.
func halves() {
	fn("halvesAVX2", "rounds x to halves; n is a multiple of 8, at least 8.", "func(dst *uint16, x *float32, n int)")
	dst, x, n := arg("dst"), arg("x"), arg("n")
	Label("loop")
	v := YMM()
	VMOVUPS(Mem{Base: x}, v)
	VCVTPS2PH(U8(0), v, Mem{Base: dst})
	ADDQ(U8(32), x)
	ADDQ(U8(16), dst)
	SUBQ(U8(8), n)
	JNE(LabelRef("loop"))
	ret()
}

// addLanes adds x to 32 lanes of sums.
func addLanes() {
	fn("addLanesAVX2", "adds x to 32 lanes; n is a multiple of 32, at least 32.", "func(s *float32, x *float32, n int)")
	s, x, n := arg("s"), arg("x"), arg("n")
	var a [4]VecVirtual
	for i := range a {
		a[i] = YMM()
		VMOVUPS(Mem{Base: s, Disp: 32 * i}, a[i])
	}
	Label("loop")
	for i := range a {
		VADDPS(Mem{Base: x, Disp: 32 * i}, a[i], a[i])
	}
	SUBQ(I32(-128), x)
	SUBQ(U8(32), n)
	JNE(LabelRef("loop"))
	for i := range a {
		VMOVUPS(a[i], Mem{Base: s, Disp: 32 * i})
	}
	ret()
}

func layerNorm() {
	var mean, s VecVirtual
	each("layerNormAVX2", "writes (x-mean)*s*gain + bias.", ", mean float32, s float32", []string{"dst", "x", "gain", "bias"}, func() {
		mean, s = YMM(), YMM()
		VBROADCASTSS(argMem("mean"), mean)
		VBROADCASTSS(argMem("s"), s)
	}, func(at func(string) Mem) {
		v := load(at("x"))
		VSUBPS(mean, v, v)
		VMULPS(s, v, v)
		VMULPS(at("gain"), v, v)
		VADDPS(at("bias"), v, v)
		VMOVUPS(v, at("dst"))
	})
}

func relu2() {
	each("relu2AVX2", "writes max(0, x)^2.", "", []string{"dst", "x"}, nil, func(at func(string) Mem) {
		v, z := load(at("x")), YMM()
		VXORPS(z, z, z)
		VMAXPS(v, z, v) // the second source, here x, stands where either is NaN
		VMULPS(v, v, v)
		VMOVUPS(v, at("dst"))
	})
}
