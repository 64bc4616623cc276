package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// plainFormat is a format whose weights are widened to f32 and multiplied with fused steps.
type plainFormat struct {
	name, goType string
	bytes        int // of one weight
}

var (
	f32  = plainFormat{"F32", "float32", 4}
	f16  = plainFormat{"F16", "uint16", 2}
	bf16 = plainFormat{"BF16", "uint16", 2}
	q8   = plainFormat{"Q8", "int8", 1} // of keys and values, without their scales
)

// load widens eight weights.
func (f plainFormat) load(m Mem, y VecVirtual) {
	switch f.name {
	case "F32":
		VMOVUPS(m, y)
	case "F16":
		VCVTPH2PS(m, y)
	case "Q8":
		VPMOVSXBD(m, y)
		VCVTDQ2PS(y, y)
	default:
		VPMOVZXWD(m, y)
		VPSLLD(U8(16), y, y)
	}
}

// passChains says how many of the four chains a tile of so many rows sums at a time: 2*rows*chains sums are in registers, and eight or more keep both
// multipliers busy.
var passChains = map[int]int{1: 4, 2: 2, 3: 2, 4: 1, 5: 1, 6: 1}

// plainTile is the state of one product while it is emitted.
type plainTile struct {
	f        plainFormat
	R        int
	out, in  rows
	w        GPVirtual
	quads, k GPVirtual // k/4, and k mod 4
	acc      [][]VecVirtual
	spill    Mem
	ask      *asker
}

// mulF32 multiplies R rows by panels of f32 weights. Term k adds to chain k mod 4; a pass over the panel sums some of the chains.
func mulF32(R int) {
	f := f32
	fn(label("mul", f.name, "x", R), label("multiplies ", R, " rows by panels of ", f.name, " weights."),
		label("func(dst *float32, ldd int, x *float32, ldx int, w *", f.goType, ", k int, panels int", nextArg(R > 1), ")"))
	t := &plainTile{f: f, R: R, w: arg("w"), k: arg("k"), quads: GP64()}
	t.ask = newAsker(R > 1, 0, 0)
	dst, ldd, x, ldx := arg("dst"), arg("ldd"), arg("x"), arg("ldx")
	SHLQ(U8(2), ldd)
	SHLQ(U8(2), ldx)
	t.out, t.in = newRows(dst, ldd, R), newRows(x, ldx, R)
	panel := GP64() // bytes of a panel
	IMUL3Q(U32(16*f.bytes), t.k, panel)
	MOVQ(t.k, t.quads)
	SHRQ(U8(2), t.quads)
	ANDQ(U8(3), t.k)
	C := passChains[R]
	if C == 1 {
		t.spill = AllocLocal(64 * R)
	}
	Label("panel")
	for c := 0; c < chains; c += C {
		t.pass(c, C)
		t.fold(c, C)
	}
	t.out.advance(U32(64))
	ADDQ(panel, t.w)
	panels := argMem("panels")
	DECQ(panels)
	JNE(LabelRef("panel"))
	t.ask.done()
	ret()
}

// chains is the number of partial sums of one output.
const chains = 4

// step adds term 4*i+c to the sums of its chain, i being quads behind the current one.
func (t *plainTile) step(i, c int, acc int) {
	w0, w1 := YMM(), YMM()
	k := 4*i + c
	t.f.load(Mem{Base: t.w, Disp: k * 16 * t.f.bytes}, w0)
	t.f.load(Mem{Base: t.w, Disp: k*16*t.f.bytes + 8*t.f.bytes}, w1)
	for r := range t.R {
		v := YMM()
		VBROADCASTSS(t.in.at(r, 4*k), v)
		VFMADD231PS(w0, v, t.acc[r][2*acc])
		VFMADD231PS(w1, v, t.acc[r][2*acc+1])
	}
}

// pass sums chains [c, c+C) over all k.
func (t *plainTile) pass(c, C int) {
	t.acc = make([][]VecVirtual, t.R)
	for r := range t.acc {
		for range 2 * C {
			a := YMM()
			VXORPS(a, a, a)
			t.acc[r] = append(t.acc[r], a)
		}
	}
	unroll := max(2, 4/C)
	quad := 64 * t.f.bytes
	n, back, gone := GP64(), GP64(), GP64()
	MOVQ(t.quads, n)
	SUBQ(U8(unroll), n)
	JL(LabelRef(label("rest", c)))
	Label(label("main", c))
	t.ask.visit(label("main", c))
	for i := range unroll {
		for j := range C {
			t.step(i, c+j, j)
		}
	}
	t.in.advance(U32(16 * unroll))
	ADDQ(U32(quad*unroll), t.w)
	SUBQ(U8(unroll), n)
	JGE(LabelRef(label("main", c)))
	Label(label("rest", c))
	ADDQ(U8(unroll), n)
	JE(LabelRef(label("odd", c)))
	Label(label("quad", c))
	for j := range C {
		t.step(0, c+j, j)
	}
	t.in.advance(U32(16))
	ADDQ(U32(quad), t.w)
	DECQ(n)
	JNE(LabelRef(label("quad", c)))
	Label(label("odd", c))
	for j := range C {
		if c+j == chains-1 {
			continue // k mod 4 is at most 3
		}
		CMPQ(t.k, U8(c+j))
		JLE(LabelRef(label("back", c)))
		t.step(0, c+j, j)
	}
	Label(label("back", c))
	MOVQ(t.quads, gone)
	SHLQ(U8(4), gone)
	t.in.retreat(gone)
	IMUL3Q(U32(quad), t.quads, back)
	SUBQ(back, t.w)
}

// fold brings the chains of a pass together: (s0+s1) + (s2+s3), with the results' own place and a local one as memory.
func (t *plainTile) fold(c, C int) {
	for r, acc := range t.acc {
		for h := range 2 {
			out, spill := t.out.at(r, 32*h), t.spill.Offset(64*r+32*h)
			a := acc[h]
			switch {
			case C == 4:
				VADDPS(acc[h+2], a, a)
				VADDPS(acc[h+6], acc[h+4], acc[h+4])
				VADDPS(acc[h+4], a, a)
			case C == 2 && c == 0:
				VADDPS(acc[h+2], a, a)
			case C == 2:
				VADDPS(acc[h+2], a, a)
				VADDPS(out, a, a)
			case c == 1:
				VADDPS(out, a, a)
			case c == 2:
				out = spill
			case c == 3:
				VADDPS(spill, a, a)
				VADDPS(out, a, a)
			}
			VMOVUPS(a, out)
		}
	}
}

// halfShapes are the tiles of 16-bit weights: rows of activations by panels. 2*rows*panels sums are in registers; eight or more keep both multipliers busy.
var halfShapes = [][2]int{{1, 1}, {1, 4}, {2, 1}, {2, 2}, {3, 1}, {4, 1}, {5, 1}, {6, 1}}

// mulHalf multiplies R rows by P panels of 16-bit weights at a time, groups times; each output is one sum.
func mulHalf(f plainFormat, R, P int) {
	fn(label("mul", f.name, "x", R, "p", P), label("multiplies ", R, " rows by groups of ", P, " panels of ", f.name, " weights."),
		label("func(dst *float32, ldd int, x *float32, ldx int, w *", f.goType, ", k int, groups int", nextArg(R > 2), ")"))
	ask := newAsker(R > 2, 0, 0) // tiles of fewer rows never share panels
	dst, ldd, x, ldx, w, k, groups := arg("dst"), arg("ldd"), arg("x"), arg("ldx"), arg("w"), arg("k"), arg("groups")
	SHLQ(U8(2), ldd)
	SHLQ(U8(2), ldx)
	out, in := newRows(dst, ldd, R), newRows(x, ldx, R)
	kx, panel := GP64(), GP64() // bytes of a row, of a panel
	MOVQ(k, kx)
	SHLQ(U8(2), kx)
	IMUL3Q(U32(16*f.bytes), k, panel)
	ws := newRows(w, panel, P)
	acc := make([][]VecVirtual, R)
	for r := range acc {
		for range 2 * P {
			acc[r] = append(acc[r], YMM())
		}
	}
	n := GP64()

	step := func(u int) {
		for p := range P {
			w0, w1 := YMM(), YMM()
			f.load(ws.at(p, u*16*f.bytes), w0)
			f.load(ws.at(p, u*16*f.bytes+8*f.bytes), w1)
			for r := range R {
				v := YMM()
				VBROADCASTSS(in.at(r, 4*u), v)
				VFMADD231PS(w0, v, acc[r][2*p])
				VFMADD231PS(w1, v, acc[r][2*p+1])
			}
		}
	}
	Label("group")
	for r := range acc {
		for _, a := range acc[r] {
			VXORPS(a, a, a)
		}
	}
	MOVQ(k, n)
	SUBQ(U8(4), n)
	JL(LabelRef("rest"))
	Label("four")
	ask.visit("four")
	for u := range 4 {
		step(u)
	}
	in.advance(U8(16))
	ws.advance(U32(64 * f.bytes))
	SUBQ(U8(4), n)
	JGE(LabelRef("four"))
	Label("rest")
	ADDQ(U8(4), n)
	JE(LabelRef("store"))
	Label("one")
	step(0)
	in.advance(U8(4))
	ws.advance(U8(16 * f.bytes))
	DECQ(n)
	JNE(LabelRef("one"))
	Label("store")
	for r := range acc {
		for i, a := range acc[r] {
			VMOVUPS(a, out.at(r, 32*i))
		}
	}
	out.advance(U32(64 * P))
	in.retreat(kx)
	for range P - 1 {
		ws.advance(panel)
	}
	DECQ(groups)
	JNE(LabelRef("group"))
	ask.done()
	ret()
}

// quantFormat is a block-quantised layout.
type quantFormat struct {
	name           string
	four, min, off bool // nibbles; a minimum; a zero point of 8
}

var (
	q8Min = quantFormat{name: "Q8Min", min: true}
	q4    = quantFormat{name: "Q4", four: true, off: true}
	q4Min = quantFormat{name: "Q4Min", four: true, min: true}
)

// quantTile is the state of one product while it is emitted.
type quantTile struct {
	f                 quantFormat
	R, P              int
	out               []rows // results, by run of panels
	q, meta           rows   // activation codes; scale and sum of each block
	code, scale, mins rows   // by run of panels
	ask               *asker
	ones, mask        VecVirtual
	accs              [][][]VecVirtual // [run][row][half]: f32 sums
	dot               [][]VecVirtual   // [row][half]: integer sums of the block

	p   int // the run that is being emitted
	acc [][]VecVirtual
}

// quantShapes are the tiles of quantised weights: rows by runs of panels.
var quantShapes = [][2]int{{1, 1}, {1, 4}, {2, 1}, {3, 1}, {4, 1}}

// mulQuant multiplies R quantised rows by P runs of panels. Up to two rows take a panel at once; more take its halves one after the other, to stay within 16 registers, but for four rows and
// nibbles, whose results stay in memory instead: so each activation is read once for both halves.
func mulQuant(f quantFormat, R, P int) {
	fn(label("mul", f.name, "x", R, "p", P), label("multiplies ", R, " quantised rows by ", P, " runs of panels of layout ", f.name, "."),
		label("func(dst *float32, ldd int, q *int8, meta *float32, code *int8, scales *uint16, mins *uint16, blocks int, panels int", nextArg(R > 1), apartArg(P), ")"))
	t := &quantTile{f: f, R: R, P: P}
	t.code, t.scale = runs("code", t.blockBytes(), P), runs("scales", 32, P)
	sides := 1
	if f.min {
		t.mins, sides = runs("mins", 32, P), 2
	}
	t.ask = newAsker(R > 1, sides, 32*512/t.blockBytes())
	dst, ldd := arg("dst"), arg("ldd")
	SHLQ(U8(2), ldd)
	t.out = outRuns(dst, ldd, R, P)
	t.q, t.meta = blockRows("q", 32, R), blockRows("meta", 8, R)
	t.constants()
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

// codeAt, scaleAt and minsAt are places of the current run.
func (t *quantTile) codeAt(disp int) Mem  { return t.code.at(t.p, disp) }
func (t *quantTile) scaleAt(disp int) Mem { return t.scale.at(t.p, disp) }
func (t *quantTile) minsAt(disp int) Mem  { return t.mins.at(t.p, disp) }

// nextBlock goes on to the next of n blocks, at the label, or from the last one back to the first.
func (t *quantTile) nextBlock(n GPVirtual, label string) {
	t.code.advance(U32(t.blockBytes()))
	t.scale.advance(U8(32))
	if t.f.min {
		t.mins.advance(U8(32))
	}
	t.q.advance(U8(32))
	t.meta.advance(U8(8))
	DECQ(n)
	JNE(LabelRef(label))
	t.q.restart("q")
	t.meta.restart("meta")
}

// runInMemory sums over all blocks of a panel of nibbles, with the results in their own place.
func (t *quantTile) runInMemory() {
	zeros := YMM()
	zero(zeros)
	t.dot = make([][]VecVirtual, t.R)
	for r := range t.R {
		t.dot[r] = []VecVirtual{YMM(), YMM()}
		for h := range 2 {
			VMOVUPS(zeros, t.out[t.p].at(r, 32*h))
		}
	}
	n := GP64()
	MOVQ(argMem("blocks"), n)
	Label("wide")
	t.ask.visit("wide")
	t.dotsInMemory()
	t.storeScaled()
	t.nextBlock(n, "wide")
}

// dotsInMemory is dotsOfNibbles for both halves of a panel, without constants in registers.
func (t *quantTile) dotsInMemory() {
	for g := range 4 {
		fetch(t.code.base, 64*g)
		var part [2][2]VecVirtual // [low, high][half]
		for h := range 2 {
			lo, hi := YMM(), YMM()
			VMOVDQU(t.codeAt(64*g+32*h), lo)
			VPSRLW(U8(4), lo, hi)
			VPAND(constU32("nibbles", 0x0f0f0f0f), lo, lo)
			VPAND(constU32("nibbles", 0x0f0f0f0f), hi, hi)
			part[0][h], part[1][h] = lo, hi
		}
		for r := range t.R {
			for i, w := range part {
				t.addNibbles(r, w, 4*g+16*i, g+i == 0)
			}
		}
	}
}

// addNibbles adds the products of 16 rows' codes with four activations of row r.
func (t *quantTile) addNibbles(r int, w [2]VecVirtual, at int, first bool) {
	a, d := YMM(), t.dot[r]
	VPBROADCASTD(t.q.at(r, at), a)
	if first && !t.f.off {
		VPMADDUBSW(a, w[0], d[0])
		VPMADDUBSW(a, w[1], d[1])
		return
	}
	if first {
		for h := range 2 {
			VPBROADCASTD(t.meta.at(r, 4), d[h])
		}
	}
	p := YMM()
	VPMADDUBSW(a, w[0], p)
	VPMADDUBSW(a, w[1], a)
	VPADDW(p, d[0], d[0])
	VPADDW(a, d[1], d[1])
}

// storeScaled adds dot*(ws*as), and with minima (min*as)*sum, to the results, each step rounded.
func (t *quantTile) storeScaled() {
	var ws, ms [2]VecVirtual
	for h := range ws {
		ws[h] = YMM()
		VCVTPH2PS(t.scaleAt(16*h), ws[h])
		if t.f.min {
			ms[h] = YMM()
			VCVTPH2PS(t.minsAt(16*h), ms[h])
		}
	}
	for r := range t.R {
		as := YMM()
		VBROADCASTSS(t.meta.at(r, 0), as)
		for h, d := range t.dot[r] {
			s := YMM()
			VPMADDWD(constU32("wordOnes", 0x00010001), d, d)
			VMULPS(as, ws[h], s)
			VCVTDQ2PS(d, d)
			VMULPS(s, d, d)
			VADDPS(t.out[t.p].at(r, 32*h), d, d)
			if t.f.min {
				VMULPS(as, ms[h], s)
				sum := YMM()
				VPBROADCASTD(t.meta.at(r, 4), sum)
				VCVTDQ2PS(sum, sum)
				VMULPS(sum, s, s)
				VADDPS(s, d, d)
			}
			VMOVUPS(d, t.out[t.p].at(r, 32*h))
		}
	}
}

func (t *quantTile) constants() {
	if t.R == 4 && t.f.four {
		return // they are in memory
	}
	t.ones = YMM() // sixteen 1s
	VPCMPEQW(t.ones, t.ones, t.ones)
	if t.f.four {
		t.mask = YMM() // 0x0f in every byte
		VPSRLW(U8(12), t.ones, t.mask)
		VPACKUSWB(t.mask, t.mask, t.mask)
	}
	VPSRLW(U8(15), t.ones, t.ones)
}

// blockBytes is the size of the codes of one block of 16 rows.
func (t *quantTile) blockBytes() int {
	if t.f.four {
		return 256
	}
	return 512
}

// rewind goes back to the start of the panel.
func (t *quantTile) rewind() {
	n := GP64()
	IMUL3Q(U32(t.blockBytes()/32), t.q.stride, n) // the stride is 32 bytes a block
	t.code.retreat(n)
	t.scale.retreat(t.q.stride)
	if t.f.min {
		t.mins.retreat(t.q.stride)
	}
}

// run sums over all blocks for the given halves of the panel and stores the results.
func (t *quantTile) run(name string, halves ...int) {
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
		if t.f.min {
			t.addMins(halves)
		}
	}
	t.nextBlock(n, name)
	store(t.accs, t.out, halves)
}

// zeros makes sums of n halves of R rows.
func zeros(R, n int) [][]VecVirtual {
	acc := make([][]VecVirtual, R)
	for r := range acc {
		for range n {
			a := YMM()
			VXORPS(a, a, a)
			acc[r] = append(acc[r], a)
		}
	}
	return acc
}

// store writes the sums of the given halves of every run.
func store(accs [][][]VecVirtual, out []rows, halves []int) {
	for p, acc := range accs {
		for r := range acc {
			for i, h := range halves {
				VMOVUPS(acc[r][i], outAt(out, p, r, 32*h))
			}
		}
	}
}

// dotsOfBytes: sums of eight products of codes up to 31 fit 16 bits, 8*31*127 = 31496, so that the lanes are widened twice a block.
func (t *quantTile) dotsOfBytes(halves []int) {
	for i, h := range halves {
		for part := range 2 {
			sum := make([]VecVirtual, t.R)
			for g := 4 * part; g < 4*part+4; g++ {
				if t.P == 1 && h == 0 {
					fetch(t.code.base, 64*g)
				}
				w := YMM()
				VMOVDQU(t.codeAt(64*g+32*h), w)
				for r := range t.R {
					a := YMM()
					VPBROADCASTD(t.q.at(r, 4*g), a)
					if sum[r] == nil {
						sum[r] = a
						VPMADDUBSW(a, w, a)
						continue
					}
					VPMADDUBSW(a, w, a)
					VPADDW(a, sum[r], sum[r])
				}
			}
			for r := range t.R {
				if part == 0 {
					VPMADDWD(sum[r], t.ones, t.dot[r][i])
					continue
				}
				VPMADDWD(sum[r], t.ones, sum[r])
				VPADDD(sum[r], t.dot[r][i], t.dot[r][i])
			}
		}
	}
}

// dotsOfNibbles: sums of 16 products of codes up to 15 fit 16 bits, so that the lanes are widened once a block.
func (t *quantTile) dotsOfNibbles(halves []int) {
	for g := range 4 {
		if t.P == 1 && halves[0] == 0 {
			fetch(t.code.base, 64*g)
		}
		for i, h := range halves {
			lo, hi := YMM(), YMM()
			VMOVDQU(t.codeAt(64*g+32*h), lo)
			VPSRLW(U8(4), lo, hi)
			VPAND(t.mask, lo, lo)
			VPAND(t.mask, hi, hi)
			for r := range t.R {
				a, b := YMM(), YMM()
				VPBROADCASTD(t.q.at(r, 4*g), a)
				switch {
				case g > 0:
					VPMADDUBSW(a, lo, a)
					VPADDW(a, t.dot[r][i], t.dot[r][i])
				case t.f.off:
					VPMADDUBSW(a, lo, a)
					VPADDW(t.start(r), a, t.dot[r][i])
				default:
					VPMADDUBSW(a, lo, t.dot[r][i])
				}
				VPBROADCASTD(t.q.at(r, 4*g+16), b)
				VPMADDUBSW(b, hi, b)
				VPADDW(b, t.dot[r][i], t.dot[r][i])
			}
		}
	}
	for r := range t.R {
		for i := range halves {
			VPMADDWD(t.dot[r][i], t.ones, t.dot[r][i])
		}
	}
}

// start gives what the zero point of 8 takes off the sums of a row, which wrap on the way and fit 16 bits at the end: 16*8*127 = 16256.
func (t *quantTile) start(r int) VecVirtual {
	s := YMM()
	VPBROADCASTD(t.meta.at(r, 4), s)
	return s
}

// addScaled: acc += dot*(ws*as), each step rounded.
func (t *quantTile) addScaled(halves []int) {
	for i, h := range halves {
		ws := YMM()
		VCVTPH2PS(t.scaleAt(16*h), ws)
		for r := range t.R {
			s := YMM()
			VBROADCASTSS(t.meta.at(r, 0), s)
			VMULPS(s, ws, s)
			VCVTDQ2PS(t.dot[r][i], t.dot[r][i])
			VMULPS(s, t.dot[r][i], s)
			VADDPS(s, t.acc[r][i], t.acc[r][i])
		}
	}
}

// addMins: acc += (min*as)*sum, each step rounded.
func (t *quantTile) addMins(halves []int) {
	for i, h := range halves {
		m := YMM()
		VCVTPH2PS(t.minsAt(16*h), m)
		for r := range t.R {
			s, sum := YMM(), YMM()
			VBROADCASTSS(t.meta.at(r, 0), s)
			VMULPS(s, m, s)
			VPBROADCASTD(t.meta.at(r, 4), sum)
			VCVTDQ2PS(sum, sum)
			VMULPS(sum, s, s)
			VADDPS(s, t.acc[r][i], t.acc[r][i])
		}
	}
}

// quantiseRow turns blocks of 32 floats into codes, scale and sum.
func quantiseRow() {
	fn("quantiseRowAVX2", "quantises blocks of 32 activations.", "func(q *int8, wide *int16, sums *float32, evens *float32, fours *float32, halves *float32, x *float32, blocks int)")
	q, wide, x, blocks := arg("q"), arg("wide"), arg("x"), arg("blocks")
	meta := []GPVirtual{arg("sums"), arg("evens"), arg("fours"), arg("halves")}
	abs, c127, order := YMM(), XMM(), YMM()
	VPCMPEQD(abs, abs, abs)
	VPSRLD(U8(1), abs, abs)
	VMOVSS(constF32("c127", 127), c127)
	perm := GLOBL("order", 8|16)
	for i, v := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*i, U32(v))
	}
	VMOVDQU(perm, order)
	Label("block")
	var y, m [4]VecVirtual
	for i := range y {
		y[i], m[i] = YMM(), YMM()
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, y[i])
		VPAND(abs, y[i], m[i])
	}
	VPMAXUD(m[1], m[0], m[0])
	VPMAXUD(m[3], m[2], m[2])
	VPMAXUD(m[2], m[0], m[0])
	top, s := m[0].AsX(), XMM()
	VEXTRACTI128(U8(1), m[0], s)
	VPMAXUD(s, top, top)
	VPSHUFD(U8(0x4e), top, s)
	VPMAXUD(s, top, top)
	VPSHUFD(U8(0xb1), top, s)
	VPMAXUD(s, top, top)
	bits := GP32()
	VMOVD(top, bits)
	CMPL(bits, U32((127-100)<<23))
	JB(LabelRef("tiny"))
	CMPL(bits, U32(0x7f800000))
	JAE(LabelRef("poison"))
	inv := YMM()
	VDIVSS(top, c127, inv.AsX())
	VDIVSS(c127, top, s)
	VMOVD(s, bits)
	round11(bits)
	for _, m := range meta {
		MOVL(bits, Mem{Base: m})
	}
	VBROADCASTSS(inv.AsX(), inv)
	for i := range y {
		VMULPS(inv, y[i], y[i])
		VCVTPS2DQ(y[i], y[i])
	}
	VPACKSSDW(y[1], y[0], y[0])
	VPACKSSDW(y[3], y[2], y[2])
	VPACKSSWB(y[2], y[0], y[0])
	VPERMD(y[0], order, y[0])
	VMOVDQU(y[0], Mem{Base: q})
	widen(y[0], wide)
	codeSums(y[0], meta)
	Label("next")
	ADDQ(U8(32), q)
	ADDQ(U8(64), wide)
	for _, m := range meta[:3] {
		ADDQ(U8(8), m)
	}
	ADDQ(U8(16), meta[3])
	SUBQ(I32(-128), x)
	DECQ(blocks)
	JNE(LabelRef("block"))
	ret()
	special := func(name string, scale uint32) {
		Label(name)
		z := YMM()
		zero(z)
		VMOVDQU(z, Mem{Base: q})
		VMOVDQU(z, Mem{Base: wide})
		VMOVDQU(z, Mem{Base: wide, Disp: 32})
		for _, m := range meta {
			MOVL(U32(scale), Mem{Base: m})
			MOVL(U32(0), Mem{Base: m, Disp: 4})
		}
		VMOVQ(z.AsX(), Mem{Base: meta[3], Disp: 8})
		JMP(LabelRef("next"))
	}
	special("tiny", 0)
	special("poison", 0x7fc00000)
}

// widen writes the codes as words: those at even places, then those at odd places less 256 times their even neighbours.
func widen(q VecVirtual, wide GPVirtual) {
	up, odd := YMM(), YMM()
	VPSLLW(U8(8), q, up)
	VPSRAW(U8(8), q, odd)
	VPSUBW(up, odd, odd)
	VPSRAW(U8(8), up, up)
	VMOVDQU(up, Mem{Base: wide})
	VMOVDQU(odd, Mem{Base: wide, Disp: 32})
}

// codeSums writes the sums that stand beside the scale (see metas).
func codeSums(q VecVirtual, meta []GPVirtual) {
	ones, pairs, even := YMM(), YMM(), YMM()
	VPCMPEQW(ones, ones, ones)
	VPABSB(ones, pairs)
	VPMADDUBSW(q, pairs, pairs)
	VPSLLW(U8(8), q, even)
	VPSRAW(U8(8), even, even)
	VPSRLW(U8(15), ones, ones)
	sumLanes(pairs)
	sumLanes(even)
	low, high, all, both, none := pairs.AsX(), XMM(), XMM(), XMM(), XMM()
	VPXOR(none, none, none)
	VEXTRACTI128(U8(1), pairs, high)
	VPUNPCKLDQ(high, low, both)
	VPSLLW(U8(5), both, both)
	VPSUBW(both, none, both)
	VMOVQ(both, Mem{Base: meta[3], Disp: 8})
	VPADDW(high, low, all)
	VPMADDWD(ones.AsX(), all, both)
	VMOVD(both, Mem{Base: meta[0], Disp: 4})
	VPSLLW(U8(3), all, all)
	VPSUBW(all, none, all)
	VMOVD(all, Mem{Base: meta[2], Disp: 4})
	VEXTRACTI128(U8(1), even, all)
	VPADDW(even.AsX(), all, all)
	VPMADDWD(ones.AsX(), all, all)
	VPSLLD(U8(7), all, all)
	VPSUBD(all, none, all)
	VMOVD(all, Mem{Base: meta[1], Disp: 4})
}

// sumLanes leaves in every dword of 16 bytes the sums, by word, over the four.
func sumLanes(v VecVirtual) {
	for _, order := range []uint8{0x4e, 0xb1} {
		t := YMM()
		VPSHUFD(U8(order), v, t)
		VPADDW(t, v, v)
	}
}

// round11 rounds the bits of a finite float to 11 significant bits, ties to even.
func round11(bits GPVirtual) {
	odd := GP32()
	MOVL(bits, odd)
	SHRL(U8(13), odd)
	ANDL(U8(1), odd)
	LEAL(Mem{Base: bits, Index: odd, Scale: 1, Disp: 0xfff}, bits)
	ANDL(U32(0xffffe000), bits)
}

// roundRow rounds floats to 11 significant bits and leaves NaN alone.
func roundRow() {
	var half, one, mask VecVirtual
	each("roundRowAVX2", "writes x rounded to 11 bits.", "", []string{"dst", "x"}, func() {
		half, one, mask = load(constU32("roundHalf", 0xfff)), load(constU32("roundOdd", 1)), load(constU32("roundMask", 0xffffe000))
	}, func(at func(string) Mem) {
		v, y, nan := load(at("x")), YMM(), YMM()
		VPSRLD(U8(13), v, y)
		VPAND(one, y, y)
		VPADDD(half, y, y)
		VPADDD(v, y, y)
		VPAND(mask, y, y)
		VCMPPS(U8(3), v, v, nan)
		VBLENDVPS(nan, v, y, y)
		VMOVUPS(y, at("dst"))
	})
}
