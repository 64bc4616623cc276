package kernel

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestF16Values widens all 65,536 halves against arithmetic from the definition, and rounds them back.
func TestF16Values(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		exp, frac := int(h>>10&31), float64(h&1023)
		var want float64
		switch {
		case exp == 31 && frac != 0:
			f := F16ToF32(h)
			if f == f || F32ToF16(f) != h|0x200 {
				t.Fatalf("NaN %#04x became %v and back %#04x", h, f, F32ToF16(f))
			}
			continue
		case exp == 31:
			want = math.Inf(1)
		case exp == 0:
			want = math.Ldexp(frac, -24)
		default:
			want = math.Ldexp(1024+frac, exp-25)
		}
		if h&0x8000 != 0 {
			want = math.Copysign(want, -1)
			if want == 0 {
				want = math.Copysign(0, -1)
			}
		}
		f := F16ToF32(h)
		if math.Float64bits(float64(f)) != math.Float64bits(want) {
			t.Fatalf("%#04x is %v, want %v", h, f, want)
		}
		if F32ToF16(f) != h {
			t.Fatalf("%#04x came back as %#04x", h, F32ToF16(f))
		}
		b := BF16ToF32(h)
		if math.Float32bits(b) != uint32(h)<<16 || b == b && F32ToBF16(b) != h {
			t.Fatalf("bfloat16 %#04x is %v and back %#04x", h, b, F32ToBF16(b))
		}
	}
}

// TestF16Rounding checks every point half-way between neighbouring halves and bfloat16s, and its two neighbours in float32.
func TestF16Rounding(t *testing.T) {
	check := func(name string, round func(float32) uint16, widen func(uint16) float32, last int) {
		for i := range last {
			lo, hi := widen(uint16(i)), widen(uint16(i+1))
			mid := float32((float64(lo) + float64(hi)) / 2)
			if i+1 == last && name == "f16" {
				mid = 65520
			}
			even := uint16(i + i&1)
			below, above := math.Nextafter32(mid, 0), math.Nextafter32(mid, float32(math.Inf(1)))
			for _, c := range []struct {
				x    float32
				want uint16
			}{{mid, even}, {below, uint16(i)}, {above, uint16(i + 1)}} {
				if got := round(c.x); got != c.want {
					t.Fatalf("%s(%v) = %#04x, want %#04x", name, c.x, got, c.want)
				}
				if got := round(-c.x); got != c.want|0x8000 {
					t.Fatalf("%s(%v) = %#04x, want %#04x", name, -c.x, got, c.want|0x8000)
				}
			}
		}
	}
	check("f16", F32ToF16, F16ToF32, 0x7c00)
	check("bf16", F32ToBF16, BF16ToF32, 0x7f7f)
	for _, x := range []float32{1e30, 65536, float32(math.Inf(1))} {
		if F32ToF16(x) != 0x7c00 || F32ToF16(-x) != 0xfc00 {
			t.Errorf("%v does not overflow to infinity", x)
		}
	}
	nan := math.Float32frombits(0x7f800001)
	if f := F32ToBF16(nan); BF16ToF32(f) == BF16ToF32(f) {
		t.Error("a NaN whose payload lies in the lost bits became a number in bfloat16")
	}
	if f := F32ToF16(nan); F16ToF32(f) == F16ToF32(f) {
		t.Error("a NaN whose payload lies in the lost bits became a number in f16")
	}
}

// exactFMA rounds a*b + c once, through arbitrary precision.
func exactFMA(a, b, c float32) float32 {
	x := new(big.Float).SetPrec(1000)
	x.Mul(big.NewFloat(float64(a)), big.NewFloat(float64(b)).SetPrec(1000))
	x.SetPrec(1000).Add(x, big.NewFloat(float64(c)))
	f, _ := x.Float32()
	return f
}

// TestFMA compares with exact arithmetic on operands of every size, and on sums built to lie at and just beside half-way points of float32.
func TestFMA(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	finite := func() float32 {
		for {
			if f := math.Float32frombits(r.Uint32()); !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) {
				return f
			}
		}
	}
	check := func(a, b, c float32) {
		t.Helper()
		if math.IsInf(float64(a), 0) || math.IsInf(float64(b), 0) || math.IsInf(float64(c), 0) {
			return
		}
		got, want := fma32(a, b, c), exactFMA(a, b, c)
		if got != want { // zeros of either sign are equal here; the signs are checked below
			t.Fatalf("fma(%x, %x, %x) = %x, want %x", a, b, c, got, want)
		}
	}
	for range 20_000 {
		a, b, c := finite(), finite(), finite()
		check(a, b, c)
		check(a, 1/a, c)
		check(a, b, -float32(a*b))
		// c has 24 bits; a*b lies half an ulp of c away, plus or minus something far below 53 bits
		scale := math.Float32frombits(uint32(r.IntN(60)+100) << 23)
		c = float32(r.IntN(1<<23)+1<<23) * scale
		e := math.Ldexp(1, -30-r.IntN(30))
		for _, s := range []float64{1, -1} {
			check(float32(0.5+s*0x1p-24), scale*float32(1+s*float64(r.IntN(3)-1)*0x1p-23), c)
			check(scale, float32(0.5+s*e), c)
			check(scale*0.75, 2./3, c)
		}
		tiny := math.Float32frombits(r.Uint32N(1 << 24))
		check(tiny, float32(r.Float64()), math.Float32frombits(r.Uint32N(1<<24)))
		check(finite()*0x1p-60, 0x1p-70, tiny)
		check(-tiny, 1, tiny)
	}
	check(math.MaxFloat32, 1+0x1p-23, 0)
	check(0x1p-75, 0x1p-75, 0)
	check(0x1p-75, 0x1.000002p-75, 0)
	zero, negative := float32(0), float32(math.Copysign(0, -1))
	for _, c := range []struct{ a, b, c, want float32 }{{negative, 1, negative, negative}, {negative, 1, zero, zero}, {1, 1, -1, zero}, {0x1p-100, -0x1p-100, zero, negative}} {
		if got := fma32(c.a, c.b, c.c); math.Float32bits(got) != math.Float32bits(c.want) {
			t.Errorf("fma(%v, %v, %v) = %v, want %v", c.a, c.b, c.c, got, c.want)
		}
	}
	inf := float32(math.Inf(1))
	if v := fma32(inf, 1, -inf); v == v {
		t.Error("inf - inf is a number")
	}
	if fma32(inf, 1, 1) != inf {
		t.Error("inf + 1 is not inf")
	}
}
