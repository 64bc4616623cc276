//go:build amd64 && !purego

package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func needAVX2(t testing.TB) {
	t.Helper()
	if !useAVX2 {
		t.Skip("needs AVX2, FMA and F16C, and TINYLOOP_ISA not generic")
	}
}

func equalBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if !sameBits(got[i], want[i]) {
			t.Fatalf("%s: value %d is %x, portable %x", what, i, got[i], want[i])
		}
	}
}

// product is the portable result of MatMul for all panels, padding rows included.
func portableProduct(in *Input, rows int, m *Matrix) []float32 {
	ldd := m.Panels() * Panel
	dst := make([]float32, rows*ldd)
	if m.quantised() {
		q, wide, meta := make([]int8, rows*in.k), make([]int16, rows*in.k), newMetas(rows*in.blocks)
		for r := range rows {
			quantiseRowGeneric(q[r*in.k:(r+1)*in.k], wide[r*in.k:(r+1)*in.k], meta.cut(r*in.blocks, (r+1)*in.blocks), in.F32(r))
		}
		mulQuantGeneric(dst, ldd, &quantRows{q: q, metas: meta, blocks: in.blocks}, 0, rows, m, 0, m.Panels())
		return dst
	}
	x := append([]float32{}, in.x...)
	if m.lay == layF16 {
		roundRowGeneric(x, in.x)
	}
	mulPlainGeneric(dst, ldd, x, in.ldx, rows, m.plainPanels(0, m.Panels()))
	return dst
}

func checkProduct(t *testing.T, f Type, n, k, rows int, src []byte, value func() float32) {
	t.Helper()
	m := newMatrix(t, f, n, k, src)
	in := NewInput(rows, k)
	for i := range rows {
		for j := range in.F32(i) {
			in.F32(i)[j] = value()
		}
	}
	in.Prepare(m, 0, rows)
	want := portableProduct(in, rows, m)
	got := make([]float32, rows*n)
	for _, m.far = range []bool{false, true} {
		if m.far && n < 5*Panel {
			continue // too few panels to be read side by side
		}
		MatMul(got, n, in, rows, m, 0, m.Panels())
		for r := range rows {
			for o := range n {
				if !sameBits(got[r*n+o], want[r*m.Panels()*Panel+o]) {
					t.Fatalf("%v %dx%d, far %v, row %d of %d, output %d: %x, portable %x", f, n, k, m.far, r, rows, o, got[r*n+o], want[r*m.Panels()*Panel+o])
				}
			}
		}
	}
}

// TestProductsEqualPortable: every format, every tile, edge sizes, ordinary and hard values, in all bits.
func TestProductsEqualPortable(t *testing.T) {
	needAVX2(t)
	r := rand.New(rand.NewPCG(51, 52))
	for _, f := range allTypes {
		ks := []int{32, 64, 288}
		switch f.Block() {
		case 1:
			ks = []int{1, 2, 3, 4, 5, 7, 32, 61}
		case superLen:
			ks = []int{256, 768}
		}
		for _, k := range ks {
			for _, n := range []int{1, 16, 17, 80, 212} {
				for _, rows := range []int{1, 2, 3, 4, 5, 6, 8, 33} {
					if rows == 33 && (n != 17 || k > 256) || rows > 2 && n == 212 {
						continue // 212: several panels a run where few rows read several runs
					}
					src := randomWeights(r, f, n, k)
					if f == Q8_0 && rows%2 == 1 {
						raiseLowest(src) // the product of files as quantisers write them
					}
					checkProduct(t, f, n, k, rows, src, func() float32 { return float32(r.NormFloat64()) })
					for i := range src {
						if r.IntN(3) == 0 {
							src[i] = byte(r.Uint32()) // odd scales too: NaN, infinite, subnormal
						}
					}
					checkProduct(t, f, n, k, rows, src, func() float32 { return hardFloat(r) })
				}
			}
		}
	}
}

// TestExtremeCodes drives the integer dots to their ends: the largest activations against the largest codes of either sign, and -128 of q8_0.
func TestExtremeCodes(t *testing.T) {
	needAVX2(t)
	r := rand.New(rand.NewPCG(53, 54))
	for _, f := range allTypes {
		if f.Block() == 1 {
			continue
		}
		k := fit(f, 96)
		for _, code := range []byte{0x00, 0x80, 0x81, 0x7f, 0xff, 0xf0, 0x0f} {
			for _, sign := range []float32{1, -1, 0} {
				src := make([]byte, 17*k/f.Block()*f.BlockBytes())
				for i := range src {
					src[i] = code
				}
				for i := 0; i < len(src); i += f.BlockBytes() {
					for _, at := range halvesOf(f) {
						binary.LittleEndian.PutUint16(src[i+at:], F32ToF16(1.5))
					}
				}
				for rows := 1; rows <= 4; rows++ {
					checkProduct(t, f, 17, k, rows, src, func() float32 {
						if sign == 0 {
							return float32(r.IntN(2)*2 - 1)
						}
						return sign
					})
				}
			}
		}
	}
}

// FuzzProducts takes weights, scales and activations as raw bits.
func FuzzProducts(f *testing.F) {
	f.Add(uint8(0), uint8(1), uint8(3), []byte{1, 2, 3, 4})
	f.Add(uint8(3), uint8(4), uint8(16), []byte{0x80, 0xff, 0x7f, 0x00, 0x3c})
	f.Add(uint8(4), uint8(6), uint8(17), []byte{0, 0, 0x80, 0x7f})
	f.Fuzz(func(t *testing.T, format, rows, n uint8, raw []byte) {
		needAVX2(t)
		if len(raw) == 0 {
			return
		}
		next := 0
		take := func() byte {
			next++
			return raw[next%len(raw)] ^ byte(next/len(raw))
		}
		tp := allTypes[int(format)%len(allTypes)]
		k, outs, inputs := fit(tp, 64), int(n)%40+1, int(rows)%9+1
		src := make([]byte, outs*k/tp.Block()*tp.BlockBytes())
		for i := range src {
			src[i] = take()
		}
		checkProduct(t, tp, outs, k, inputs, src, func() float32 {
			return math.Float32frombits(uint32(take()) | uint32(take())<<8 | uint32(take())<<16 | uint32(take())<<24)
		})
	})
}

func TestQuantiserEqualsPortable(t *testing.T) {
	needAVX2(t)
	r := rand.New(rand.NewPCG(55, 56))
	for range 3000 {
		const blocks = 3
		x := make([]float32, blocks*qk)
		hard, size := r.IntN(2) == 0, math.Ldexp(1, r.IntN(250)-140)
		for i := range x {
			x[i] = float32(r.NormFloat64() * size)
			if hard && r.IntN(20) == 0 {
				x[i] = hardFloat(r)
			}
		}
		q, wantQ, wide, wantWide := make([]int8, len(x)), make([]int8, len(x)), make([]int16, len(x)), make([]int16, len(x))
		meta, want := newMetas(blocks), newMetas(blocks)
		quantiseRow(q, wide, meta, x)
		quantiseRowGeneric(wantQ, wantWide, want, x)
		for b := range blocks {
			scale := want.sums[b].scale
			for _, got := range []float32{meta.sums[b].scale, meta.evens[b].scale, meta.fours[b].scale, meta.halves[b].scale} {
				if !sameBits(got, scale) {
					t.Fatalf("%x: scale %x, portable %x", x[b*qk:b*qk+qk], got, scale)
				}
			}
			if meta.sums[b].sum != want.sums[b].sum || meta.evens[b].sum != want.evens[b].sum || meta.fours[b].sum != want.fours[b].sum || meta.halves[b].sum != want.halves[b].sum {
				t.Fatalf("%x: %+v, portable %+v", x[b*qk:b*qk+qk], meta.cut(b, b+1), want.cut(b, b+1))
			}
		}
		for i := range q {
			if q[i] != wantQ[i] || wide[i] != wantWide[i] {
				t.Fatalf("%x: code %d, portable %d", x[i], q[i], wantQ[i])
			}
		}
	}
}

// TestAttentionEqualsPortable compares the parts that attention is made of.
func TestAttentionEqualsPortable(t *testing.T) {
	needAVX2(t)
	r := rand.New(rand.NewPCG(57, 58))
	fill := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = hardFloat(r)
		}
		return x
	}
	for _, f := range kvTypes {
		for _, dim := range []int{1, 3, 8, 48, 64, 100, 128} {
			const heads = 5
			kv, err := NewKV(6, heads, dim, f)
			if err != nil {
				t.Fatal(err)
			}
			defer kv.Free()
			pages := []int32{4, 1, 5}
			for lane := range Panel * len(pages) {
				kv.Put(pages[lane/Panel], lane%Panel, 0, heads, fill(heads*dim), fill(heads*dim))
			}
			for _, u := range []unit{{n: 1}, {n: 2, head: 1}, {n: 3, head: 2}, {n: 4, head: 1}, {n: 2, shared: true}, {n: 3, head: 4, shared: true}, {n: 4, head: 2, shared: true}} {
				ldq, lds := dim+3, len(pages)*Panel+4
				for n := 1; n <= len(pages); n++ {
					q, got, want := fill(quad*ldq), make([]float32, quad*lds), make([]float32, quad*lds)
					kv.dot(got, lds, q, ldq, pages[:n], 0, &u, 0.3)
					kv.dotGeneric(want, lds, q, ldq, pages[:n], &u, 0.3)
					equalBits(t, fmt.Sprint(f, " scores ", u), got, want)
				}
			}
			for _, n := range []int{1, quad} {
				for _, part := range [][2]int{{0, 1}, {15, 1}, {14, 2}, {1, 15}, {0, 16}, {15, 2}, {3, 29}, {0, 48}, {9, 30}} {
					lane, rows := part[0], part[1]
					run := pages[:(lane+rows-1)/Panel+1]
					acc, w := fill(n*kv.vdim), fill(n*50)
					got, want := append([]float32{}, acc...), append([]float32{}, acc...)
					kv.addValues(got, w, 50, run, 0, 3, lane, rows, n)
					kv.addValuesGeneric(want, w, 50, run, 3, lane, rows, n)
					equalBits(t, fmt.Sprint(f, " values ", part), got, want)
				}
			}
		}
	}
}

// TestCodesEqualPortable compares the rounding of keys and values to q8, with values of every size.
func TestCodesEqualPortable(t *testing.T) {
	needAVX2(t)
	r := rand.New(rand.NewPCG(61, 62))
	for n := range 150 {
		x, got, want := make([]float32, n), make([]int8, n), make([]int8, n)
		for i := range x {
			x[i] = hardFloat(r)
		}
		if a, b := largestBits(x), largestBitsGeneric(x); a != b {
			t.Fatalf("largest of %v: %x, portable %x", x, a, b)
		}
		for i := range x {
			x[i] = (r.Float32() - 0.5) * 8
			if r.IntN(3) == 0 {
				x[i] = float32(r.IntN(8)) - 3.5 // ties
			}
		}
		roundCodes(got, x, 31)
		roundCodesGeneric(want, x, 31)
		if !slices.Equal(got, want) {
			t.Fatalf("codes of %v: %v, portable %v", x, got, want)
		}
	}
}

// TestVectorsEqualPortable compares every elementwise kernel and every reduction over all lengths up to a few vectors.
func TestVectorsEqualPortable(t *testing.T) {
	needAVX2(t)
	r := rand.New(rand.NewPCG(59, 60))
	for n := range 150 {
		x, y, z := make([]float32, n), make([]float32, n), make([]float32, n)
		for i := range x {
			x[i], y[i], z[i] = hardFloat(r), hardFloat(r)*10, hardFloat(r)
			if r.IntN(4) == 0 {
				y[i] = float32(r.Float64()*400 - 200) // the whole range of exp and beyond
			}
		}
		a, b := make([]float32, n), make([]float32, n)
		for name, f := range map[string][2]func(){
			"add":    {func() { add(a, x, y) }, func() { addGeneric(b, x, y) }},
			"scale":  {func() { scale(a, x, 1.3) }, func() { scaleGeneric(b, x, 1.3) }},
			"muladd": {func() { mulAdd(a, x, y, z) }, func() { mulAddGeneric(b, x, y, z) }},
			"gain":   {func() { scaleGain(a, x, y, 0.7) }, func() { scaleGainGeneric(b, x, y, 0.7) }},
			"swiglu": {func() { swiGLU(a, y, x) }, func() { swiGLUGeneric(b, y, x) }},
			"gelu":   {func() { gelu(a, y) }, func() { geluGeneric(b, y) }},
		} {
			f[0]()
			f[1]()
			equalBits(t, name, a, b)
		}
		var s, w [normLanes]float32
		whole := n &^ (normLanes - 1)
		addSquares(&s, x[:whole], 0.5)
		addSquaresGeneric(&w, x[:whole], 0.5)
		equalBits(t, "squares", s[:], w[:])

		top := float32(r.NormFloat64())
		var d, h [Panel]float64
		whole = n &^ (Panel - 1)
		expSumDouble(y[:whole], top, &d)
		expSumDoubleGeneric(y[:whole], top, &h)
		copy(a, y)
		copy(b, y)
		sum, sumGeneric := softmax(a[:whole]), softmaxGeneric(b[:whole])
		equalBits(t, "exponentials", a, b)
		equalBits(t, "1 over their sum", []float32{sum}, []float32{sumGeneric})
		rmsNorm(a, x, y, 1e-5)
		rmsNormGeneric(b, x, y, 1e-5)
		equalBits(t, "rms norm", a, b)
		for i := range d {
			if math.Float64bits(d[i]) != math.Float64bits(h[i]) && (d[i] == d[i] || h[i] == h[i]) {
				t.Fatalf("double sum %d is %x, portable %x", i, d[i], h[i])
			}
		}
		want := float32(math.Inf(-1))
		for _, v := range x {
			want = max32(want, v)
		}
		if got := maxOf(x); got != want || math.Signbit(float64(got)) && got == 0 {
			t.Fatalf("maximum %v, want %v", got, want)
		}
	}
}

// TestExpAllFloats compares the vector exponential with exp32 on every 997th float32.
func TestExpAllFloats(t *testing.T) {
	needAVX2(t)
	var x, want [64]float32
	var sums [Panel]float64
	for bits := uint64(0); bits < 1<<32; {
		for i := range x {
			x[i] = math.Float32frombits(uint32(bits))
			want[i] = exp32(x[i] - 0)
			bits += 9973
		}
		weighAVX2(&x[0], &x[0], len(x), 0, 1, &sums[0])
		for i := range x {
			if !sameBits(x[i], want[i]) {
				t.Fatalf("near bits %#x: %x, portable %x", bits, x[i], want[i])
			}
		}
	}
}

var (
	legacySSE = regexp.MustCompile(`^(MOV(SS|SD|UPS|UPD|APS|APD|OU|O|HPS|LPS|Q|L)\s.*\bX\d|(ADD|SUB|MUL|DIV|MAX|MIN|SQRT|CVT|UCOMI|COMI|AND|OR|XOR|ANDN|SHUF|UNPCK|PADD|PSUB|PMUL|PAND|POR|PXOR|PSHUF|PSLL|PSRL)\w*(SS|SD|PS|PD|B|W|L|Q|O)?\s.*\bX\d)`)
	highReg   = regexp.MustCompile(`\b[XY](1[6-9]|2\d|3[01])\b|\bZ\d`)
)

// TestAssemblyLint reads the generated files: in a function that uses upper halves, every RET follows a VZEROUPPER and no legacy SSE instruction occurs (each
// would cost hundreds of cycles), and outside the kernels of AVX-512 nothing needs more than AVX2's 16 registers.
func TestAssemblyLint(t *testing.T) {
	wide := assembly(t, "vnni_amd64.s")
	functions := append(assembly(t, "avx2_amd64.s"), assembly(t, "train_amd64.s")...)
	if len(functions) < 50 || len(wide) != 2*vnniTileRows {
		t.Fatalf("%d functions found and %d of AVX-512, want them all", len(functions), len(wide))
	}
	lintFunctions(t, functions, highReg)
	lintFunctions(t, wide, regexp.MustCompile(`^$`))
	for _, bad := range []string{"MOVSS X1, X2", "ADDPS (AX), X3", "MOVQ AX, X0", "PXOR X1, X1"} {
		if !legacySSE.MatchString(bad) {
			t.Errorf("the lint does not see %q", bad)
		}
	}
	if !highReg.MatchString("VADDPS Y1, Y16, Y2") || legacySSE.MatchString("MOVQ AX, (BX)") || legacySSE.MatchString("VADDPS X1, X2, X3") {
		t.Error("the lint's own patterns are wrong")
	}
}

// assembly gives the functions of a generated file.
func assembly(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\nTEXT ")[1:]
}

func lintFunctions(t *testing.T, functions []string, beyond *regexp.Regexp) {
	t.Helper()
	rets := 0
	for _, f := range functions {
		name, _, _ := strings.Cut(f, "(")
		last := ""
		for _, line := range strings.Split(f, "\n")[1:] {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "//") {
				continue
			}
			if line == "RET" {
				rets++
				if last != "VZEROUPPER" && strings.ContainsAny(f, "YZ") {
					t.Errorf("%s: RET after %q, want VZEROUPPER", name, last)
				}
			}
			if legacySSE.MatchString(line) {
				t.Errorf("%s: legacy SSE: %s", name, line)
			}
			if beyond.MatchString(line) {
				t.Errorf("%s: a register beyond its set: %s", name, line)
			}
			last = line
		}
	}
	if rets < len(functions) {
		t.Errorf("%d functions but %d returns", len(functions), rets)
	}
}
