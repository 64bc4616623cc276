package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var allTypes = []Type{F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL}

// randomWeights makes n*k values of format t: every code of a quantised format can occur, -128 of q8_0 included, and scales have both signs.
func randomWeights(r *rand.Rand, t Type, n, k int) []byte {
	if t.Block() == 1 {
		x := make([]float32, n*k)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		b := make([]byte, n*k*t.BlockBytes())
		Quantize(b, t, x)
		return b
	}
	size := t.BlockBytes()
	b := make([]byte, n*k/t.Block()*size)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	for i := 0; i < len(b); i += size {
		for _, at := range halvesOf(t) {
			binary.LittleEndian.PutUint16(b[i+at:], F32ToF16(float32(r.NormFloat64())))
		}
	}
	return b
}

// halvesOf gives where the scale and the minimum of a block lie.
func halvesOf(t Type) []int {
	at, n := t.Halves()
	return []int{at, at + 2}[:n]
}

// fit gives the least width from k on that rows of format t can have.
func fit(t Type, k int) int { return roundUp(k, t.Block()) }

// raiseLowest makes every code -128 of q8_0 blocks a -127.
func raiseLowest(src []byte) {
	for i, v := range src {
		if v == 0x80 && i%34 > 1 {
			src[i] = 0x81
		}
	}
}

func newMatrix(t testing.TB, f Type, n, k int, src []byte) *Matrix {
	t.Helper()
	m, err := NewMatrix(f, n, k, src)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	return m
}

func sameBits(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// TestRowIsDequantize checks that repacking loses nothing: every row read back from the panels has the bits of the source.
func TestRowIsDequantize(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, f := range allTypes {
		for _, s := range [][2]int{{1, 32}, {16, 64}, {17, 96}, {80, 288}} {
			n, k := s[0], fit(f, s[1])
			src := randomWeights(r, f, n, k)
			m := newMatrix(t, f, n, k, src)
			want, got := make([]float32, n*k), make([]float32, k)
			Dequantize(want, f, src)
			for i := range n {
				m.Row(got, i)
				for j := range got {
					if !sameBits(got[j], want[i*k+j]) {
						t.Fatalf("%v %dx%d row %d column %d is %v, want %v", f, n, k, i, j, got[j], want[i*k+j])
					}
				}
			}
			if m.Panels() != (n+15)/16 || m.Bytes() < m.Panels()*16*k/f.Block()*f.BlockBytes()/9*8 {
				t.Errorf("%v %dx%d: %d panels, %d bytes", f, n, k, m.Panels(), m.Bytes())
			}
		}
	}
}

// TestDequantizeByHand spells out one block of each format.
func TestDequantizeByHand(t *testing.T) {
	half := func(v float32) []byte { return binary.LittleEndian.AppendUint16(nil, F32ToF16(v)) }
	nib := make([]byte, 16)
	nib[0], nib[15] = 0xf1, 0x2e  // values 0 and 16: 1 and 15; values 15 and 31: 14 and 2
	high := []byte{1, 0, 0, 0x80} // fifth bit of values 0 and 31
	q8 := make([]byte, 32)
	q8[0], q8[31] = 0x80, 127
	cases := []struct {
		t                 Type
		b                 []byte
		v0, v15, v16, v31 float32
	}{
		{Q8_0, append(half(0.5), q8...), -64, 0, 0, 63.5},
		{Q4_0, append(half(0.5), nib...), -3.5, 3, 3.5, -3},
		{Q4_1, append(append(half(0.5), half(10)...), nib...), 10.5, 17, 17.5, 11},
		{Q5_0, append(append(half(0.5), high...), nib...), 0.5, -1, -0.5, 1},
		{Q5_1, append(append(append(half(0.5), half(10)...), high...), nib...), 18.5, 17, 17.5, 19},
	}
	for _, c := range cases {
		var got [32]float32
		Dequantize(got[:], c.t, c.b)
		if got[0] != c.v0 || got[15] != c.v15 || got[16] != c.v16 || got[31] != c.v31 {
			t.Errorf("%v: %v %v %v %v, want %v %v %v %v", c.t, got[0], got[15], got[16], got[31], c.v0, c.v15, c.v16, c.v31)
		}
	}
}

// TestQuantizeRoundTrip bounds the error by half a step of the block, plus what the 16-bit scale and minimum cost, and checks that the grid's own values come
// back as they were.
func TestQuantizeRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	steps := map[Type]float64{Q8_0: 1. / 254, Q4_0: 1. / 8, Q4_1: 1. / 15, Q5_0: 1. / 16, Q5_1: 1. / 31}
	for f, step := range steps {
		x, y := make([]float32, 320), make([]float32, 320)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		clear(x[32:64])
		b := make([]byte, 10*f.BlockBytes())
		Quantize(b, f, x)
		Dequantize(y, f, b)
		for i := range x {
			var span float64
			for _, v := range x[i/32*32 : i/32*32+32] {
				span = max(span, math.Abs(float64(v)))
			}
			if d := math.Abs(float64(x[i] - y[i])); d > span*(step*1.001+2e-3) {
				t.Errorf("%v: %v became %v, off by %v", f, x[i], y[i], d)
			}
		}
		again := make([]byte, len(b))
		Quantize(again, f, y)
		z := make([]float32, len(y))
		Dequantize(z, f, again)
		for i := range y {
			if math.Abs(float64(y[i]-z[i])) > 2e-3*math.Abs(float64(y[i]))+2e-3 {
				t.Errorf("%v: grid value %v became %v", f, y[i], z[i])
			}
		}
	}
}

// TestQuantizeRoundings pins the rounding rules that make files equal to other tools': half away from zero in q8_0, the signed largest value on the negative end in
// q4_0 and q5_0, minimum and range in q4_1 and q5_1.
func TestQuantizeRoundings(t *testing.T) {
	x := make([]float32, 32)
	x[0], x[1], x[2], x[3] = 127, 0.5, -0.5, 1.5
	b := make([]byte, 34)
	Quantize(b, Q8_0, x)
	if F16ToF32(binary.LittleEndian.Uint16(b)) != 1 || int8(b[2]) != 127 || int8(b[3]) != 1 || int8(b[4]) != -1 || int8(b[5]) != 2 {
		t.Errorf("q8_0: %v", b[:6])
	}
	clear(x)
	x[0], x[1], x[16] = 8, -8, 1
	b = make([]byte, 18)
	Quantize(b, Q4_0, x) // scale 8/-8 = -1: 8 -> 0, -8 -> 16 cut to 15, 1 -> 7, 0 -> 8
	if F16ToF32(binary.LittleEndian.Uint16(b)) != -1 || b[2] != 0x70 || b[3] != 0x8f || b[4] != 0x88 {
		t.Errorf("q4_0: %v", b[:5])
	}
	b = make([]byte, 22)
	x[0], x[1], x[16] = 16, -16, 1
	Quantize(b, Q5_0, x) // scale -1: 16 -> 0, -16 -> 31, 1 -> 15, 0 -> 16
	if F16ToF32(binary.LittleEndian.Uint16(b)) != -1 || b[6] != 0xf0 || b[7] != 0x0f || b[8] != 0 || binary.LittleEndian.Uint32(b[2:]) != 0xfffefffe {
		t.Errorf("q5_0: %x", b[:9])
	}
	clear(x)
	x[0], x[1], x[16] = -1, 14, 0.5
	b = make([]byte, 20)
	Quantize(b, Q4_1, x) // minimum -1, scale 1: 0, 15, 1.5 -> 2, 0 -> 1
	if F16ToF32(binary.LittleEndian.Uint16(b)) != 1 || F16ToF32(binary.LittleEndian.Uint16(b[2:])) != -1 || b[4] != 0x20 || b[5] != 0x1f {
		t.Errorf("q4_1: %x", b[:6])
	}
	x[1] = 30
	b = make([]byte, 24)
	Quantize(b, Q5_1, x)
	if F16ToF32(binary.LittleEndian.Uint16(b)) != 1 || b[8] != 0x20 || b[9] != 0x1f || binary.LittleEndian.Uint32(b[4:]) != 2 {
		t.Errorf("q5_1: %x", b[:10])
	}
}

// TestQuantizeExtremes lets no value, however odd, panic.
func TestQuantizeExtremes(t *testing.T) {
	odd := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, 0, 1e-40}
	for _, f := range allTypes {
		if _, ok := ParseType(f.String()); !ok {
			continue // read only
		}
		for _, v := range odd {
			for _, w := range odd {
				x := make([]float32, fit(f, 32))
				x[3], x[20] = v, w
				b := make([]byte, len(x)/f.Block()*f.BlockBytes())
				Quantize(b, f, x)
				Dequantize(x, f, b)
			}
		}
	}
}

func TestNewMatrixErrors(t *testing.T) {
	for _, c := range []struct {
		t     Type
		n, k  int
		bytes int
		want  string
	}{
		{Type(99), 1, 1, 4, "type(99)"},
		{F32, 0, 4, 0, "0 rows by 4"},
		{F32, 1 << 40, 1 << 40, 0, "out of range"},
		{F32, 2, -1, 0, "out of range"},
		{Q8_0, 2, 48, 102, "multiple of 32"},
		{Q8_0, 2, 64, 135, "takes 136 bytes, got 135"},
		{F16, 3, 5, 31, "takes 30 bytes, got 31"},
	} {
		m, err := NewMatrix(c.t, c.n, c.k, make([]byte, c.bytes))
		if err == nil || m != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %dx%d of %d bytes: %v, want …%s…", c.t, c.n, c.k, c.bytes, err, c.want)
		}
	}
}

func fillInput(r *rand.Rand, in *Input) {
	for i := range in.Rows() {
		for j := range in.F32(i) {
			in.F32(i)[j] = float32(r.NormFloat64())
		}
	}
}

// TestMatMulAccuracy compares every format with a float64 product of the dequantised weights and, for quantised ones, of the activations as the int8 form holds them.
func TestMatMulAccuracy(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, f := range allTypes {
		n, k := 37, fit(f, 288)
		if f.Block() == 1 {
			k = 171
		}
		src := randomWeights(r, f, n, k)
		m := newMatrix(t, f, n, k, src)
		in := NewInput(3, k)
		fillInput(r, in)
		in.Prepare(m, 0, 3)
		dst := make([]float32, 3*n)
		MatMul(dst, n, in, 3, m, 0, m.Panels())
		w := make([]float32, n*k)
		Dequantize(w, f, src)
		for i := range 3 {
			for o := range n {
				var want, size float64
				for j, x := range in.F32(i) {
					if f == F16 {
						x = round11(x)
					}
					if f.Block() > 1 {
						x = float32(in.q[i*k+j]) * in.sums[(i*k+j)/32].scale
						if d := math.Abs(float64(x - in.F32(i)[j])); d > 0.54*float64(in.sums[(i*k+j)/32].scale) {
							t.Fatalf("activation %v became %v", in.F32(i)[j], x)
						}
					}
					want += float64(w[o*k+j]) * float64(x)
					size += math.Abs(float64(w[o*k+j]) * float64(x))
				}
				if got := float64(dst[i*n+o]); math.Abs(got-want) > 1e-5*size+1e-5 {
					t.Errorf("%v row %d output %d: %v, want %v", f, i, o, got, want)
				}
			}
		}
	}
}

// TestOneDefinition: an output has the same bits whatever the number of rows beside it and however the panels are cut.
func TestOneDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, f := range allTypes {
		for _, s := range [][2]int{{17, 64}, {80, 288}, {150, 32}} {
			n, k := s[0], fit(f, s[1])
			m := newMatrix(t, f, n, k, randomWeights(r, f, n, k))
			in := NewInput(33, k)
			fillInput(r, in)
			in.Prepare(m, 0, 33)
			all := make([]float32, 33*n)
			MatMul(all, n, in, 33, m, 0, m.Panels())
			for _, rows := range []int{1, 2, 3, 4, 5, 6, 7, 8, 13} {
				got := make([]float32, rows*n)
				for p := 0; p < m.Panels(); {
					end := min(m.Panels(), p+1+r.IntN(5))
					MatMul(got, n, in, rows, m, p, end)
					p = end
				}
				for i := range got {
					if !sameBits(got[i], all[i]) {
						t.Fatalf("%v %dx%d, %d rows: output %d is %v, with 33 rows %v", f, n, k, rows, i, got[i], all[i])
					}
				}
			}
		}
	}
}

// TestMatMulWritesItsOwn: nothing outside the asked outputs is touched.
func TestMatMulWritesItsOwn(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, f := range allTypes {
		n, k, ldd := 41, fit(f, 64), 50
		m := newMatrix(t, f, n, k, randomWeights(r, f, n, k))
		in := NewInput(5, k)
		fillInput(r, in)
		in.Prepare(m, 0, 5)
		dst := make([]float32, 5*ldd)
		for i := range dst {
			dst[i] = 12345
		}
		MatMul(dst, ldd, in, 5, m, 1, m.Panels())
		for i, v := range dst {
			if inside := i%ldd >= 16 && i%ldd < n; inside == (v == 12345) {
				t.Fatalf("%v: value %d of row %d is %v", f, i%ldd, i/ldd, v)
			}
		}
	}
}

// TestPoison: a NaN or an infinity in an activation row reaches every output of that row and no other row.
func TestPoison(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for _, f := range allTypes {
		k := fit(f, 64)
		m := newMatrix(t, f, 16, k, randomWeights(r, f, 16, k))
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
			in := NewInput(2, k)
			fillInput(r, in)
			in.F32(1)[40] = bad
			in.Prepare(m, 0, 2)
			dst := make([]float32, 32)
			MatMul(dst, 16, in, 2, m, 0, 1)
			for i, v := range dst {
				finite := !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0)
				if finite != (i < 16) {
					t.Errorf("%v with %v: output %d of row %d is %v", f, bad, i%16, i/16, v)
				}
			}
		}
	}
}

func TestQuantiserLimits(t *testing.T) {
	x := make([]float32, 32)
	var q [32]int8
	for _, c := range []struct {
		v, scale float32
		code     int8
	}{{127, 1, 127}, {-127, 1, -127}, {0, 0, 0}, {1e-35, 0, 0}, {math.MaxFloat32, 0x1.02p+121, 127}, {1, 0x1.02p-7, 127}, {254, 2, 127}} {
		clear(x)
		x[5] = c.v
		if scale := quantiseBlock(q[:], x); scale != c.scale || q[5] != c.code {
			t.Errorf("%v: scale %v code %d, want %v and %d", c.v, scale, q[5], c.scale, c.code)
		}
	}
	x[0], x[1], x[2], x[3], x[5] = 127, 0.5, 1.5, -2.5, 0
	quantiseBlock(q[:], x)
	if q[1] != 0 || q[2] != 2 || q[3] != -2 {
		t.Errorf("codes %v: ties must go to even", q[:4])
	}
}

func TestMatMulAllocatesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	for _, f := range allTypes {
		k := fit(f, 64)
		m := newMatrix(t, f, 40, k, randomWeights(r, f, 40, k))
		in := NewInput(6, k)
		fillInput(r, in)
		dst := make([]float32, 6*40)
		n := testing.AllocsPerRun(20, func() {
			in.Prepare(m, 0, 6)
			MatMul(dst, 40, in, 6, m, 0, m.Panels())
			MatMul(dst, 40, in, 1, m, 0, m.Panels())
		})
		if n != 0 {
			t.Errorf("%v: %v allocations", f, n)
		}
	}
}

func BenchmarkMatMul(b *testing.B) {
	for _, f := range allTypes {
		for _, rows := range []int{1, 2, 3, 4, 8, 32} {
			b.Run(fmt.Sprintf("%v/%d", f, rows), func(b *testing.B) { benchmarkMatMul(b, f, rows, 1024, 1024) })
		}
	}
}

// benchmarkMatMul reports the mean and the best of short windows: on a shared machine the best is what the kernel can do.
func benchmarkMatMul(b *testing.B, f Type, rows, n, k int) {
	r := rand.New(rand.NewPCG(17, 18))
	src := randomWeights(r, f, n, k)
	if f == Q8_0 {
		raiseLowest(src) // as quantisers write it
	}
	m := newMatrix(b, f, n, k, src)
	in := NewInput(rows, k)
	fillInput(r, in)
	in.Prepare(m, 0, rows)
	dst := make([]float32, rows*n)
	best := time.Hour
	for b.Loop() {
		start := time.Now()
		MatMul(dst, n, in, rows, m, 0, m.Panels())
		best = min(best, time.Since(start))
	}
	macs := float64(rows) * float64(n) * float64(k)
	b.ReportMetric(macs/float64(best.Nanoseconds()), "best-GMAC/s")
	b.ReportMetric(float64(m.Bytes())/float64(best.Nanoseconds()), "best-GB/s")
}

func BenchmarkNewMatrix(b *testing.B) {
	for _, f := range allTypes {
		b.Run(f.String(), func(b *testing.B) {
			src := randomWeights(rand.New(rand.NewPCG(19, 20)), f, 4096, 1024)
			best := time.Hour
			for b.Loop() {
				start := time.Now()
				m, err := NewMatrix(f, 4096, 1024, src)
				if err != nil {
					b.Fatal(err)
				}
				best = min(best, time.Since(start))
				m.Free()
			}
			b.ReportMetric(float64(len(src))/float64(best.Nanoseconds()), "best-GB/s")
		})
	}
}
