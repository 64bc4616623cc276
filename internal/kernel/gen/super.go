package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// superFormat is a layout of super-blocks: eight blocks of 32 with integer factors beside 16-bit scales.
type superFormat struct {
	name   string
	four   bool // nibbles
	signed bool // codes from -32, held 32 up, a factor for each half of a block, no minimum
}

var (
	k4 = superFormat{name: "K4", four: true}
	k8 = superFormat{name: "K8"}
	k6 = superFormat{name: "K6", signed: true}
)

// superTile is the state of one product while it is emitted.
type superTile struct {
	f                  superFormat
	R, P               int
	out                []rows // by run of panels
	q, meta            rows
	code, steps, scale rows // by run of panels
	supers             Mem
	ask                *asker
	mask               VecVirtual
	accs               [][][]VecVirtual // [run][row][half]: f32 sums
	dot                [][]VecVirtual   // [row][half]: integer sums of the block

	p   int // the run that is being emitted
	acc [][]VecVirtual
}

// mulSuper multiplies R quantised rows by P runs of panels of super-blocks. Up to two rows take a panel at once; more take its halves one after the other, but for four rows and
// nibbles, as in mulQuant.
func mulSuper(f superFormat, R, P int) {
	fn(label("mul", f.name, "x", R, "p", P), label("multiplies ", R, " quantised rows by ", P, " runs of panels of layout ", f.name, "."),
		label("func(dst *float32, ldd int, q *int8, meta *float32, code *int8, steps *int8, scales *uint16, blocks int, panels int", nextArg(R > 1), apartArg(P), ")"))
	t := &superTile{f: f, R: R, P: P, supers: AllocLocal(8)}
	t.code, t.steps, t.scale = runs("code", t.blockBytes(), P), runs("steps", 32, P), runs("scales", t.scaleBytes()/8, P)
	t.ask = newAsker(R > 1, 1, 32*512/t.blockBytes())
	dst, ldd := arg("dst"), arg("ldd")
	SHLQ(U8(2), ldd)
	t.out = outRuns(dst, ldd, R, P)
	t.q, t.meta = blockRows("q", 32, R), blockRows("meta", 1<<t.metaShift(), R)
	if f.four && R < 4 {
		t.mask = YMM() // 0x0f in every byte
		VPCMPEQW(t.mask, t.mask, t.mask)
		VPSRLW(U8(12), t.mask, t.mask)
		VPACKUSWB(t.mask, t.mask, t.mask)
	}
	Label("panel")
	switch {
	case R <= 2:
		t.run("whole", 0, 1)
	case R == 4 && f.four:
		t.runInMemory()
	default:
		t.run("low", 0)
		t.rewind()
		t.run("high", 1)
	}
	for _, out := range t.out {
		out.advance(U32(64))
	}
	panels := argMem("panels")
	DECQ(panels)
	JNE(LabelRef("panel"))
	t.ask.done()
	ret()
}

func (t *superTile) blockBytes() int {
	if t.f.four {
		return 256
	}
	return 512
}

// metaShift is the logarithm of the bytes beside a block of activations.
func (t *superTile) metaShift() uint8 {
	if t.f.signed {
		return 4
	}
	return 3
}

// scaleBytes is the size of the halves beside a super-block.
func (t *superTile) scaleBytes() int {
	if t.f.signed {
		return 32
	}
	return 64
}

// rewind goes back to the start of the panel.
func (t *superTile) rewind() {
	n := GP64()
	IMUL3Q(U32(t.blockBytes()/32), t.q.stride, n) // the stride is 32 bytes a block
	t.code.retreat(n)
	t.steps.retreat(t.q.stride)
	IMUL3Q(U32(t.scaleBytes()/8), t.q.stride, n)
	SHRQ(U8(5), n)
	t.scale.retreat(n)
}

// run sums over all blocks for the given halves of the panel and stores the results.
func (t *superTile) run(name string, halves ...int) {
	t.accs, t.dot = make([][][]VecVirtual, t.P), make([][]VecVirtual, t.R)
	for r := range t.R {
		for range halves {
			t.dot[r] = append(t.dot[r], YMM())
		}
	}
	for p := range t.P {
		t.accs[p] = zeros(t.R, len(halves))
	}
	n := GP64()
	MOVQ(argMem("blocks"), n)
	SHRQ(U8(3), n)
	MOVQ(n, t.supers)
	Label(name + "super")
	MOVQ(U32(8), n)
	Label(name)
	t.ask.visit(name)
	for t.p = range t.P {
		t.acc = t.accs[t.p]
		switch {
		case t.f.four:
			t.dotsOfNibbles(halves)
		default:
			t.dotsOfBytes(halves)
		}
		t.addScaled(halves)
		if !t.f.signed {
			t.addMins(halves)
		}
	}
	t.code.advance(U32(t.blockBytes()))
	t.steps.advance(U8(32))
	t.q.advance(U8(32))
	t.meta.advance(U8(1 << t.metaShift()))
	DECQ(n)
	JNE(LabelRef(name))
	t.scale.advance(U8(t.scaleBytes()))
	DECQ(t.supers)
	JNE(LabelRef(name + "super"))
	t.q.restart("q")
	t.meta.restart("meta")
	store(t.accs, t.out, halves)
}

// runInMemory sums over all blocks of a panel of nibbles, with the results in their own place.
func (t *superTile) runInMemory() {
	zeros := YMM()
	zero(zeros)
	q := &quantTile{R: t.R, q: t.q, meta: t.meta, code: t.code, dot: make([][]VecVirtual, t.R)}
	for r := range t.R {
		q.dot[r] = []VecVirtual{YMM(), YMM()}
		for h := range 2 {
			VMOVUPS(zeros, t.out[t.p].at(r, 32*h))
		}
	}
	n := GP64()
	MOVQ(argMem("blocks"), n)
	SHRQ(U8(3), n)
	MOVQ(n, t.supers)
	Label("super")
	MOVQ(U32(8), n)
	Label("wide")
	t.ask.visit("wide")
	q.dotsInMemory()
	t.storeScaled(q.dot)
	t.code.advance(U32(t.blockBytes()))
	t.steps.advance(U8(32))
	t.q.advance(U8(32))
	t.meta.advance(U8(1 << t.metaShift()))
	DECQ(n)
	JNE(LabelRef("wide"))
	t.scale.advance(U8(t.scaleBytes()))
	DECQ(t.supers)
	JNE(LabelRef("super"))
	t.q.restart("q")
	t.meta.restart("meta")
}

// storeScaled adds (factor*dot)*(d*as) and (factor*sum)*(min*as) to the results, each step rounded.
func (t *superTile) storeScaled(dot [][]VecVirtual) {
	for h := range 2 {
		f, d := t.factors(0, h, true), YMM()
		VCVTPH2PS(t.scale.at(t.p, 16*h), d)
		fm, m := t.factors(1, h, false), YMM()
		VCVTPH2PS(t.scale.at(t.p, 32+16*h), m)
		for r := range t.R {
			as, sum, n, s := YMM(), YMM(), dot[r][h], YMM()
			VBROADCASTSS(t.meta.at(r, 0), as)
			VPMADDWD(n, f, n)
			VMULPS(as, d, s)
			VCVTDQ2PS(n, n)
			VMULPS(s, n, n)
			VADDPS(t.out[t.p].at(r, 32*h), n, n)
			VPBROADCASTD(t.meta.at(r, 4), sum)
			VPMADDWD(sum, fm, sum) // the sum of 32 codes fits the low word; the high one meets 0
			VMULPS(as, m, as)
			VCVTDQ2PS(sum, sum)
			VMULPS(as, sum, sum)
			VADDPS(sum, n, n)
			VMOVUPS(n, t.out[t.p].at(r, 32*h))
		}
	}
}

// factors gives the factors of eight rows, each as 16 bits twice in its lane, or once below a zero word. part is 0 for the first 16 bytes of the steps, 1 for the
// second.
func (t *superTile) factors(part, half int, twice bool) VecVirtual {
	f := YMM()
	VBROADCASTI128(t.steps.at(t.p, 16*part), f)
	VPSHUFB(spread(half, t.f.signed, twice), f, f)
	if t.f.signed {
		VPSRAW(U8(8), f, f)
	}
	return f
}

// spread is the shuffle that brings bytes 8*half to 8*half+7 of both lanes of 16 to the low (or, to be shifted down with their signs, the high) bytes of words.
func spread(half int, high, twice bool) Mem {
	name := label("spread", half)
	if high {
		name += "High"
	}
	if !twice {
		name += "Once"
	}
	if m, ok := constants[name]; ok {
		return m
	}
	m := GLOBL(name, 8|16)
	for lane := range 8 {
		row := uint32(8*half + lane)
		word := 0x8000 | row
		if high {
			word = row<<8 | 0x80
		}
		bits := 0x80800000 | word
		if twice {
			bits = word<<16 | word
		}
		DATA(4*lane, U32(bits))
	}
	constants[name] = m
	return m
}

// dotsOfNibbles: sums of 16 products of codes up to 15 fit 16 bits; the factor joins as the lanes are widened, once a block.
func (t *superTile) dotsOfNibbles(halves []int) {
	for g := range 4 {
		if t.P == 1 && halves[0] == 0 {
			fetch(t.code.base, 64*g)
		}
		for i, h := range halves {
			lo, hi := YMM(), YMM()
			VMOVDQU(t.code.at(t.p, 64*g+32*h), lo)
			VPSRLW(U8(4), lo, hi)
			VPAND(t.mask, lo, lo)
			VPAND(t.mask, hi, hi)
			for r := range t.R {
				a, b := YMM(), YMM()
				VPBROADCASTD(t.q.at(r, 4*g), a)
				if g == 0 {
					VPMADDUBSW(a, lo, t.dot[r][i])
				} else {
					VPMADDUBSW(a, lo, a)
					VPADDW(a, t.dot[r][i], t.dot[r][i])
				}
				VPBROADCASTD(t.q.at(r, 4*g+16), b)
				VPMADDUBSW(b, hi, b)
				VPADDW(b, t.dot[r][i], t.dot[r][i])
			}
		}
	}
	for i, h := range halves {
		f := t.factors(0, h, true)
		for r := range t.R {
			VPMADDWD(t.dot[r][i], f, t.dot[r][i])
		}
	}
}

// dotsOfBytes: sums of eight products of codes up to 31 fit 16 bits, 8*31*127 = 31496, so that the lanes are widened, and multiplied by the factor, twice
// a block. Signed codes lie 32 up; sums of them wrap, and fit, 8*32*127 = 32512, once what that adds is taken off, which happens first.
func (t *superTile) dotsOfBytes(halves []int) {
	for i, h := range halves {
		for part := range 2 {
			sum := make([]VecVirtual, t.R)
			for g := 4 * part; g < 4*part+4; g++ {
				if t.P == 1 && h == 0 {
					fetch(t.code.base, 64*g)
				}
				w := YMM()
				VMOVDQU(t.code.at(t.p, 64*g+32*h), w)
				for r := range t.R {
					a := YMM()
					VPBROADCASTD(t.q.at(r, 4*g), a)
					VPMADDUBSW(a, w, a)
					switch {
					case sum[r] != nil:
						VPADDW(a, sum[r], sum[r])
					case t.f.signed:
						sum[r] = YMM()
						VPBROADCASTD(t.meta.at(r, 8+4*part), sum[r])
						VPADDW(a, sum[r], sum[r])
					default:
						sum[r] = a
					}
				}
			}
			from := 0
			if t.f.signed {
				from = part
			}
			f := t.factors(from, h, true)
			for r := range t.R {
				if part == 0 {
					VPMADDWD(sum[r], f, t.dot[r][i])
					continue
				}
				VPMADDWD(sum[r], f, sum[r])
				VPADDD(sum[r], t.dot[r][i], t.dot[r][i])
			}
		}
	}
}

// addScaled: acc += (factor*dot)*(d*as), each step rounded.
func (t *superTile) addScaled(halves []int) {
	for i, h := range halves {
		d := YMM()
		VCVTPH2PS(t.scale.at(t.p, 16*h), d)
		for r := range t.R {
			t.addTerm(r, i, d, t.dot[r][i])
		}
	}
}

// addMins: acc += (factor*sum)*(min*as), each step rounded.
func (t *superTile) addMins(halves []int) {
	for i, h := range halves {
		m, f := YMM(), t.factors(1, h, false)
		VCVTPH2PS(t.scale.at(t.p, 32+16*h), m)
		for r := range t.R {
			sum := YMM()
			VPBROADCASTD(t.meta.at(r, 4), sum)
			VPMADDWD(sum, f, sum) // the sum of 32 codes fits the low word; the high one meets 0
			t.addTerm(r, i, m, sum)
		}
	}
}

func (t *superTile) addTerm(r, i int, d, n VecVirtual) {
	s := YMM()
	VBROADCASTSS(t.meta.at(r, 0), s)
	VMULPS(s, d, s)
	VCVTDQ2PS(n, n)
	VMULPS(s, n, s)
	VADDPS(s, t.acc[r][i], t.acc[r][i])
}
