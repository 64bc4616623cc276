package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// back writes the vector kernels of the backward pass and of the optimizer.
func back() {
	softmaxRow()
	softmaxBack()
	scaleRows()
	dotLanes()
	rmsRows()
	rmsBackRows()
	relu2Back()
	geluBack()
	swiGLUBack()
	addScaled()
	addProduct()
	lerp()
	capTanh()
	capBack()
	adamW()
}

// broadcast spreads a float argument.
func broadcast(name string) VecVirtual {
	y := YMM()
	VBROADCASTSS(argMem(name), y)
	return y
}

// exps gives e^x of several vectors at once, as exp does. Their steps alternate: one chain after the other fills the queues of the processor with steps that wait.
// With below no argument may be above 88, as none of a softmax is: then NaN passes by itself, and Inf cannot occur.
func exps(below bool, xs ...VecVirtual) []VecVirtual {
	N := len(xs)
	many := func() []VecVirtual {
		y := make([]VecVirtual, N)
		for i := range y {
			y[i] = YMM()
		}
		return y
	}
	c, t, n, r, p := many(), many(), many(), many(), many()
	all := func(f func(i int)) {
		for i := range N {
			f(i)
		}
	}
	if below {
		all(func(i int) { VMOVUPS(constF32("expLow", -87), c[i]) })
		all(func(i int) { VMAXPS(xs[i], c[i], c[i]) }) // the second source, here x, stands where either is NaN
	} else {
		all(func(i int) { VMAXPS(constF32("expLow", -87), xs[i], c[i]) })
		all(func(i int) { VMINPS(constF32("expHigh", 88), c[i], c[i]) })
	}
	all(func(i int) { VMULPS(constF32("log2e", 1.44269504088896341), c[i], t[i]) })
	magic := constF32("expMagic", 0x1.8p23)
	all(func(i int) { VADDPS(magic, t[i], t[i]) })
	all(func(i int) { VSUBPS(magic, t[i], n[i]) })
	all(func(i int) { VMULPS(constF32("ln2Hi", 0.693359375), n[i], r[i]) })
	all(func(i int) { VSUBPS(r[i], c[i], r[i]) })
	all(func(i int) { VMULPS(constF32("ln2Lo", -2.12194440e-4), n[i], n[i]) })
	all(func(i int) { VSUBPS(n[i], r[i], r[i]) })
	all(func(i int) { VMULPS(constF32("expC0", 1.9875691500e-4), r[i], p[i]) })
	all(func(i int) { VADDPS(constF32("expC1", 1.3981999507e-3), p[i], p[i]) })
	for j, c := range []float32{8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1} {
		all(func(i int) { VMULPS(r[i], p[i], p[i]) })
		all(func(i int) { VADDPS(constF32(label("expC", j+2), c), p[i], p[i]) })
	}
	all(func(i int) { VMULPS(r[i], r[i], n[i]) })
	all(func(i int) { VMULPS(n[i], p[i], p[i]) })
	all(func(i int) { VADDPS(r[i], p[i], p[i]) })
	all(func(i int) { VADDPS(constF32("one", 1), p[i], p[i]) })
	all(func(i int) { VPADDD(constU32("expBias", uint32(127-0x4b400000+1<<32)), t[i], t[i]) })
	all(func(i int) { VPSLLD(U8(23), t[i], t[i]) })
	all(func(i int) { VMULPS(t[i], p[i], p[i]) })
	all(func(i int) { VCMPPS(U8(17), constF32("expLow", -87), xs[i], c[i]) }) // x < low
	all(func(i int) { VANDNPS(p[i], c[i], p[i]) })
	if below {
		return p
	}
	all(func(i int) { VCMPPS(U8(30), constF32("expHigh", 88), xs[i], c[i]) }) // x > high
	all(func(i int) { VBLENDVPS(c[i], constU32("posInf", 0x7f800000), p[i], p[i]) })
	all(func(i int) { VCMPPS(U8(3), xs[i], xs[i], c[i]) }) // NaN
	all(func(i int) { VBLENDVPS(c[i], xs[i], p[i], p[i]) })
	return p
}

// pairs walks slices sixteen values at a time: body gets the places of two vectors.
func pairs(name, doc, args string, slices []string, before func(), body func(at func(s string, i int) Mem)) {
	sig := "func("
	for _, s := range slices {
		sig += s + " *float32, "
	}
	fn(name, doc+" n is a multiple of 16, at least 16.", sig+"n int"+args+")")
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
	body(func(s string, j int) Mem { return Mem{Base: p[s], Index: i, Scale: 4, Disp: 32 * j} })
	ADDQ(U8(16), i)
	CMPQ(i, n)
	JL(LabelRef("loop"))
	ret()
}

// softmaxRow is the forward row of attention: the largest value, then exponentials in place and their sums in 16 lanes.
func softmaxRow() {
	fn("softmaxRowAVX2", "replaces x by e^(x-max), n a multiple of 16, at least 16; stats gets 16 lanes of sums, then the maximum.", "func(x *float32, n int, stats *float32)")
	x, n, stats := arg("x"), arg("n"), arg("stats")
	top, s := softmaxPasses(x, n)
	VMOVSS(top.AsX(), Mem{Base: stats, Disp: 64})
	for i := range s {
		VMOVUPS(s[i], Mem{Base: stats, Disp: 32 * i})
	}
	ret()
}

// foldAcross brings eight lanes together in halves; the result is in lane 0.
func foldAcross(v VecVirtual, op func(...Op)) {
	t := XMM()
	VEXTRACTF128(U8(1), v, t)
	op(t, v.AsX(), v.AsX())
	VPERMILPS(U8(0x0e), v.AsX(), t)
	op(t, v.AsX(), v.AsX())
	VPERMILPS(U8(0x01), v.AsX(), t)
	op(t, v.AsX(), v.AsX())
}

// softmaxBack is the backward row of attention, with the probabilities computed again from the scores.
func softmaxBack() {
	var lse, d, f VecVirtual
	pairs("softmaxBackAVX2", "writes p = e^(s-lse) to s and p*(dp-d)*f to dp; s-lse is not above 88.", ", lse float32, d float32, f float32", []string{"s", "dp"}, func() {
		lse, d, f = broadcast("lse"), broadcast("d"), broadcast("f")
	}, func(at func(string, int) Mem) {
		var v [2]VecVirtual
		for i := range v {
			v[i] = load(at("s", i))
			VSUBPS(lse, v[i], v[i])
		}
		for i, p := range exps(true, v[:]...) {
			g := load(at("dp", i))
			VMOVUPS(p, at("s", i))
			VSUBPS(d, g, g)
			VMULPS(p, g, g)
			VMULPS(f, g, g)
			VMOVUPS(g, at("dp", i))
		}
	})
}

// scaleRows multiplies each row by a factor of its own.
func scaleRows() {
	fn("scaleRowsAVX2", "multiplies rows of n values, a multiple of 8, at least 8, ld bytes apart, by s[row].", "func(x *float32, ld int, n int, rows int, s *float32)")
	x, ld, n, rows, s, i := arg("x"), arg("ld"), arg("n"), arg("rows"), arg("s"), GP64()
	f := YMM()
	Label("row")
	VBROADCASTSS(Mem{Base: s}, f)
	XORQ(i, i)
	Label("loop")
	v := YMM()
	VMULPS(Mem{Base: x, Index: i, Scale: 4}, f, v)
	VMOVUPS(v, Mem{Base: x, Index: i, Scale: 4})
	ADDQ(U8(8), i)
	CMPQ(i, n)
	JL(LabelRef("loop"))
	ADDQ(ld, x)
	ADDQ(U8(4), s)
	DECQ(rows)
	JNE(LabelRef("row"))
	ret()
}

// dotLanes adds the products of x and y to 32 lanes.
func dotLanes() {
	fn("dotLanesAVX2", "adds x*y to 32 lanes; n is a multiple of 32, at least 32.", "func(s *float32, x *float32, y *float32, n int)")
	s, x, y, n := arg("s"), arg("x"), arg("y"), arg("n")
	var a [4]VecVirtual
	for i := range a {
		a[i] = load(Mem{Base: s, Disp: 32 * i})
	}
	Label("loop")
	for i := range a {
		v := load(Mem{Base: x, Disp: 32 * i})
		VMULPS(Mem{Base: y, Disp: 32 * i}, v, v)
		VADDPS(v, a[i], a[i])
	}
	SUBQ(I32(-128), x)
	SUBQ(I32(-128), y)
	SUBQ(U8(32), n)
	JNE(LabelRef("loop"))
	for i := range a {
		VMOVUPS(a[i], Mem{Base: s, Disp: 32 * i})
	}
	ret()
}

// foldQuad brings 32 lanes together in halves; the result is in lane 0 of the first vector.
func foldQuad(a [4]VecVirtual) VecVirtual {
	VADDPS(a[2], a[0], a[0])
	VADDPS(a[3], a[1], a[1])
	VADDPS(a[1], a[0], a[0])
	foldAcross(a[0], VADDPS)
	return a[0]
}

// rmsRows norms rows and keeps 1/rms of each.
func rmsRows() {
	fn("rmsRowsAVX2", "writes x/rms(x)*gain of rows, strides in bytes, n a multiple of 32, at least 32, and 1/rms of each row.",
		"func(dst *float32, ldd int, x *float32, ldx int, gain *float32, n int, rows int, eps float32, inv *float32)")
	dst, ldd, x, ldx, gain, n, rows, inv := arg("dst"), arg("ldd"), arg("x"), arg("ldx"), arg("gain"), arg("n"), arg("rows"), arg("inv")
	i, count := GP64(), XMM()
	VCVTSI2SSQ(n, zeroed(count), count)
	Label("row")
	var a [4]VecVirtual
	for j := range a {
		a[j] = YMM()
		VXORPS(a[j], a[j], a[j])
	}
	XORQ(i, i)
	Label("squares")
	for j := range a {
		v := load(Mem{Base: x, Index: i, Scale: 4, Disp: 32 * j})
		VMULPS(v, v, v)
		VADDPS(v, a[j], a[j])
	}
	ADDQ(U8(32), i)
	CMPQ(i, n)
	JL(LabelRef("squares"))
	s := foldQuad(a).AsX()
	one := XMM()
	VDIVSS(count, s, s)
	VADDSS(argMem("eps"), s, s)
	VSQRTSS(s, s, s)
	VMOVSS(constF32("one", 1), one)
	VDIVSS(s, one, s)
	VMOVSS(s, Mem{Base: inv})
	f := YMM()
	VBROADCASTSS(s, f)
	XORQ(i, i)
	Label("scale")
	for j := range 2 {
		v := load(Mem{Base: x, Index: i, Scale: 4, Disp: 32 * j})
		VMULPS(f, v, v)
		VMULPS(Mem{Base: gain, Index: i, Scale: 4, Disp: 32 * j}, v, v)
		VMOVUPS(v, Mem{Base: dst, Index: i, Scale: 4, Disp: 32 * j})
	}
	ADDQ(U8(16), i)
	CMPQ(i, n)
	JL(LabelRef("scale"))
	ADDQ(ldd, dst)
	ADDQ(ldx, x)
	ADDQ(U8(4), inv)
	DECQ(rows)
	JNE(LabelRef("row"))
	ret()
}

func zeroed(x VecVirtual) VecVirtual {
	VXORPS(x, x, x)
	return x
}

// rmsBackRows is the gradient of rmsRows: of x, and, added up over the rows, of the gain.
func rmsBackRows() {
	fn("rmsBackRowsAVX2", "adds the gradient of x, or writes it where add is 0, and adds that of the gain; strides in bytes, n a multiple of 32, at least 32.",
		"func(dx *float32, lddx int, dgain *float32, dy *float32, lddy int, x *float32, ldx int, gain *float32, inv *float32, n int, rows int, add int)")
	dx, dgain, dy, x, gain, inv, n := arg("dx"), arg("dgain"), arg("dy"), arg("x"), arg("gain"), arg("inv"), arg("n")
	i, count := GP64(), XMM()
	VCVTSI2SSQ(n, zeroed(count), count)
	at := func(p GPVirtual, j int) Mem { return Mem{Base: p, Index: i, Scale: 4, Disp: 32 * j} }
	Label("row")
	var a [4]VecVirtual
	for j := range a {
		a[j] = YMM()
		VXORPS(a[j], a[j], a[j])
	}
	XORQ(i, i)
	Label("dot")
	for j := range a {
		v := load(at(dy, j))
		VMULPS(at(gain, j), v, v)
		VMULPS(at(x, j), v, v)
		VADDPS(v, a[j], a[j])
	}
	ADDQ(U8(32), i)
	CMPQ(i, n)
	JL(LabelRef("dot"))
	s, f, c := foldQuad(a).AsX(), XMM(), YMM()
	VMOVSS(Mem{Base: inv}, f)
	VMULSS(f, f, c.AsX()) // inv^3 / n * dot
	VMULSS(f, c.AsX(), c.AsX())
	VDIVSS(count, c.AsX(), c.AsX())
	VMULSS(s, c.AsX(), c.AsX())
	VBROADCASTSS(c.AsX(), c)
	r := YMM()
	VBROADCASTSS(f, r)
	for _, add := range []bool{true, false} {
		loop := "write"
		if add {
			loop = "add"
			CMPQ(argMem("add"), U8(0))
			JE(LabelRef("set"))
		} else {
			Label("set")
		}
		XORQ(i, i)
		Label(loop)
		for j := range 2 {
			v, g, w, u := load(at(x, j)), load(at(dy, j)), YMM(), YMM()
			VMULPS(r, v, w) // normed
			VMULPS(g, w, w)
			VADDPS(at(dgain, j), w, w)
			VMOVUPS(w, at(dgain, j))
			VMULPS(at(gain, j), g, g)
			VMULPS(r, g, g)
			VMULPS(c, v, u)
			VSUBPS(u, g, g)
			if add {
				VADDPS(at(dx, j), g, g)
			}
			VMOVUPS(g, at(dx, j))
		}
		ADDQ(U8(16), i)
		CMPQ(i, n)
		JL(LabelRef(loop))
		if add {
			JMP(LabelRef("next"))
		}
	}
	Label("next")
	ADDQ(argMem("lddx"), dx)
	ADDQ(argMem("lddy"), dy)
	ADDQ(argMem("ldx"), x)
	ADDQ(U8(4), inv)
	DECQ(argMem("rows"))
	JNE(LabelRef("row"))
	ret()
}

func relu2Back() {
	each("relu2BackAVX2", "writes 2*max(0, x)*dy.", "", []string{"dx", "dy", "x"}, nil, func(at func(string) Mem) {
		v, z := load(at("x")), YMM()
		VXORPS(z, z, z)
		VMAXPS(v, z, v) // the second source, here x, stands where either is NaN
		VADDPS(v, v, v)
		VMULPS(at("dy"), v, v)
		VMOVUPS(v, at("dx"))
	})
}

// sigmoids gives 1/(1+e^-z).
func sigmoids(z []VecVirtual) []VecVirtual {
	m := make([]VecVirtual, len(z))
	for i := range z {
		m[i] = YMM()
		VXORPS(constU32("signBit", 1<<31), z[i], m[i])
	}
	e := exps(false, m...)
	for i := range e {
		one := YMM()
		VADDPS(constF32("one", 1), e[i], e[i])
		VMOVUPS(constF32("one", 1), one)
		VDIVPS(e[i], one, e[i])
	}
	return e
}

func geluBack() {
	pairs("geluBackAVX2", "writes the derivative of the tanh form of GELU at x, times dy.", "", []string{"dx", "dy", "x"}, nil, func(at func(string, int) Mem) {
		var z [2]VecVirtual
		for i := range z {
			v := load(at("x", i))
			z[i] = YMM()
			VMULPS(v, v, z[i])
			VMULPS(v, z[i], z[i])
			VMULPS(constF32("geluCube", 0.044715), z[i], z[i])
			VADDPS(v, z[i], z[i])
			VMULPS(constF32("geluScale", 2*0.79788456080286535588), z[i], z[i])
		}
		for i, s := range sigmoids(z[:]) {
			v, dz, t := load(at("x", i)), YMM(), YMM()
			VMULPS(v, v, dz)
			VMULPS(constF32("geluCube3", 3*0.044715), dz, dz)
			VADDPS(constF32("one", 1), dz, dz)
			VMULPS(constF32("geluScale", 2*0.79788456080286535588), dz, dz)
			VMOVUPS(constF32("one", 1), t)
			VSUBPS(s, t, t)
			VMULPS(s, t, t)
			VMULPS(v, t, t)
			VMULPS(dz, t, t)
			VADDPS(s, t, t)
			VMULPS(at("dy", i), t, t)
			VMOVUPS(t, at("dx", i))
		}
	})
}

func swiGLUBack() {
	pairs("swiGLUBackAVX2", "writes the gradients of silu(gate)*up.", "", []string{"dgate", "dup", "dy", "gate", "up"}, nil, func(at func(string, int) Mem) {
		g := []VecVirtual{load(at("gate", 0)), load(at("gate", 1))}
		for i, s := range sigmoids(g) {
			t, d := YMM(), load(at("dy", i))
			VMOVUPS(constF32("one", 1), t)
			VSUBPS(s, t, t)
			VMULPS(g[i], t, t)
			VADDPS(constF32("one", 1), t, t)
			VMULPS(s, t, t)    // silu'
			VMULPS(g[i], s, s) // silu
			VMULPS(d, s, s)
			VMULPS(at("up", i), d, d)
			VMULPS(t, d, d)
			VMOVUPS(s, at("dup", i))
			VMOVUPS(d, at("dgate", i))
		}
	})
}

func addScaled() {
	var s VecVirtual
	each("addScaledAVX2", "adds x*s.", ", s float32", []string{"dst", "x"}, func() { s = broadcast("s") }, func(at func(string) Mem) {
		v := load(at("x"))
		VMULPS(s, v, v)
		VADDPS(at("dst"), v, v)
		VMOVUPS(v, at("dst"))
	})
}

func addProduct() {
	each("addProductAVX2", "adds a*b.", "", []string{"dst", "a", "b"}, nil, func(at func(string) Mem) {
		v := load(at("a"))
		VMULPS(at("b"), v, v)
		VADDPS(at("dst"), v, v)
		VMOVUPS(v, at("dst"))
	})
}

func lerp() {
	var t VecVirtual
	each("lerpAVX2", "moves dst towards x by the share t.", ", t float32", []string{"dst", "x"}, func() { t = broadcast("t") }, func(at func(string) Mem) {
		v, d := load(at("x")), load(at("dst"))
		VSUBPS(d, v, v)
		VMULPS(t, v, v)
		VADDPS(d, v, v)
		VMOVUPS(v, at("dst"))
	})
}

// capTanh is limit*tanh(x*inv), with the tanh of tanh32.
func capTanh() {
	var limit, inv VecVirtual
	each("capTanhAVX2", "replaces x by limit*tanh(x*inv).", ", limit float32, inv float32", []string{"x"}, func() {
		limit, inv = broadcast("limit"), broadcast("inv")
	}, func(at func(string) Mem) {
		v, two, t := load(at("x")), YMM(), YMM()
		VMULPS(inv, v, v)
		VMOVUPS(constF32("two", 2), two)
		VMULPS(two, v, v)
		e := exp(v)
		VADDPS(constF32("one", 1), e, e)
		VDIVPS(e, two, e)
		VMOVUPS(constF32("one", 1), t)
		VSUBPS(e, t, t)
		VMULPS(limit, t, t)
		VMOVUPS(t, at("x"))
	})
}

func capBack() {
	var inv VecVirtual
	each("capBackAVX2", "multiplies dx by 1-(y*inv)^2.", ", inv float32", []string{"dx", "y"}, func() { inv = broadcast("inv") }, func(at func(string) Mem) {
		v, t := load(at("y")), YMM()
		VMULPS(inv, v, v)
		VMULPS(v, v, v)
		VMOVUPS(constF32("one", 1), t)
		VSUBPS(v, t, t)
		VMULPS(at("dx"), t, t)
		VMOVUPS(t, at("dx"))
	})
}

// adamW is one step of every parameter, see AdamWStep for the constants.
func adamW() {
	fn("adamWAVX2", "steps n parameters, a multiple of 8, at least 8; s holds the twelve constants of adamWConstants.", "func(w *float32, grad *float32, m *float32, v *float32, n int, s *float32)")
	w, g, m, v, n, s, i := arg("w"), arg("grad"), arg("m"), arg("v"), arg("n"), arg("s"), GP64()
	at := func(p GPVirtual) Mem { return Mem{Base: p, Index: i, Scale: 4} }
	k := func(j int) VecVirtual {
		y := YMM()
		VBROADCASTSS(Mem{Base: s, Disp: 4 * j}, y)
		return y
	}
	b1, c1, b2, c2, rate, eps, fix, decay, gscale := k(0), k(1), k(2), k(3), k(4), k(5), k(6), k(7), k(8)
	XORQ(i, i)
	Label("loop")
	grad, mom, sq, t := load(at(g)), YMM(), YMM(), YMM()
	VMULPS(gscale, grad, grad)
	VMULPS(at(m), b1, mom)
	VMULPS(c1, grad, t)
	VADDPS(t, mom, mom)
	VMOVUPS(mom, at(m))
	VMULPS(grad, grad, t)
	VMULPS(c2, t, t)
	VMULPS(at(v), b2, sq)
	VADDPS(t, sq, sq)
	VMOVUPS(sq, at(v))
	VMULPS(fix, sq, sq)
	VSQRTPS(sq, sq)
	VADDPS(eps, sq, sq)
	VDIVPS(sq, mom, mom)
	VMULPS(rate, mom, mom) // the step
	p := load(at(w))
	VMULPS(decay, p, t)
	CMPQ(Mem{Base: s, Disp: 40}, U8(0))
	JE(LabelRef("always"))
	agree := sq
	VMULPS(p, mom, agree)
	VXORPS(grad, grad, grad)
	VCMPPS(U8(30), grad, agree, agree) // step*w > 0
	VANDPS(agree, t, t)
	Label("always")
	VSUBPS(t, p, p)
	VSUBPS(mom, p, p)
	VMOVUPS(p, at(w))
	ADDQ(U8(8), i)
	CMPQ(i, n)
	JL(LabelRef("loop"))
	ret()
}
