package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// cache is a KV store with positions [0, n) written to pages in shuffled order, everything else poisoned with NaN.
type cache struct {
	kv    *KV
	pages []int32
	k, v  [][]float32 // per position [heads*dim], as written (rounded for halves)
}

func newCache(t testing.TB, r *rand.Rand, n, heads, dim int, f Type) *cache {
	t.Helper()
	blocks := (n + 15) / 16
	kv, err := NewKV(blocks+2, heads, dim, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kv.Free)
	c := &cache{kv: kv}
	for _, p := range r.Perm(blocks + 2)[:blocks] {
		c.pages = append(c.pages, int32(p))
	}
	nan := make([]float32, heads*dim)
	for i := range nan {
		nan[i] = float32(math.NaN())
	}
	for p := range blocks + 2 {
		for lane := range 16 {
			kv.Put(int32(p), lane, 0, heads, nan, nan)
		}
	}
	for pos := range n {
		k, v := make([]float32, heads*dim), make([]float32, heads*dim)
		for i := range k {
			k[i], v[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
			if f == F16 {
				k[i], v[i] = F16ToF32(F32ToF16(k[i])), F16ToF32(F32ToF16(v[i]))
			}
		}
		if f == Q8_0 {
			for h := range heads {
				roundTo8(k[h*dim : (h+1)*dim])
				roundTo8(v[h*dim : (h+1)*dim])
			}
		}
		kv.Put(c.pages[pos/16], pos%16, 0, heads, k, v)
		c.k, c.v = append(c.k, k), append(c.v, v)
	}
	return c
}

var kvTypes = []Type{F32, F16, Q8_0}

// roundTo8 replaces a block by what q8 keeps of it, from the definition.
func roundTo8(x []float32) {
	var top float64
	for _, v := range x {
		top = max(top, math.Abs(float64(v)))
	}
	for i, v := range x {
		x[i] = float32(math.RoundToEven(float64(float32(float64(v)*float64(float32(127/top)))))) * float32(top/127)
	}
}

// naive is attention from the definition, in float64.
func (c *cache) naive(q []float32, pos int, s Span, h, heads int, scale, softcap float64) []float64 {
	dim := c.kv.dim
	kvh := h / (heads / c.kv.heads)
	out := make([]float64, dim)
	var sum, top float64
	scores := map[int]float64{}
	top = math.Inf(-1)
	for p := 0; p <= pos; p++ {
		if s.Window > 0 && p <= pos-s.Window && p >= s.Sinks {
			continue
		}
		var d float64
		for i := range dim {
			d += float64(q[h*dim+i]) * float64(c.k[p][kvh*dim+i])
		}
		d *= scale
		if softcap > 0 {
			d = softcap * math.Tanh(d/softcap)
		}
		scores[p] = d
		top = max(top, d)
	}
	for _, d := range scores {
		sum += math.Exp(d - top)
	}
	for p, d := range scores {
		for i := range dim {
			out[i] += math.Exp(d-top) / sum * float64(c.v[p][kvh*dim+i])
		}
	}
	return out
}

func TestAttend(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for _, f := range kvTypes {
		for _, dim := range []int{1, 8, 12, 48, 64, 72, 128} {
			const n, heads, kvHeads = 150, 4, 2
			c := newCache(t, r, n, kvHeads, dim, f)
			q := make([]float32, heads*dim)
			for i := range q {
				q[i] = float32(r.NormFloat64())
			}
			for _, pos := range []int{0, 1, 15, 16, 31, 100, n - 1} {
				for _, s := range []Span{{}, {1, 0}, {5, 0}, {16, 4}, {40, 4}, {40, 20}, {7, 1}, {1000, 3}} {
					for _, softcap := range []float32{0, 2.5} {
						checkAttend(t, c, q, pos, s, heads, softcap)
					}
				}
			}
		}
	}
}

// checkAttend compares with the definition, with the pages that the row must not touch set to -1 and the scratch poisoned.
func checkAttend(t *testing.T, c *cache, q []float32, pos int, s Span, heads int, softcap float32) {
	t.Helper()
	dim := c.kv.dim
	scale := float32(1 / math.Sqrt(float64(dim)))
	pages := append([]int32{}, c.pages...)
	for b := range pages {
		seen := false
		for p := b * 16; p < b*16+16 && p <= pos; p++ {
			seen = seen || s.Window == 0 || p > pos-s.Window || p < s.Sinks
		}
		if !seen {
			pages[b] = -1
		}
	}
	dst := make([]float32, heads*dim)
	scratch := make([]float32, AttendScratch(pos+1))
	for i := range scratch {
		scratch[i] = float32(math.NaN())
	}
	Attend(dst, q, c.kv, pages, pos, s, 0, heads, heads, scale, softcap, scratch)
	for h := range heads {
		want := c.naive(q, pos, s, h, heads, float64(scale), float64(softcap))
		for i, w := range want {
			if got := float64(dst[h*dim+i]); !(math.Abs(got-w) < 5e-6) {
				t.Fatalf("dim %d pos %d %+v softcap %v head %d value %d: %v, want %v", dim, pos, s, softcap, h, i, got, w)
			}
		}
	}
	split := make([]float32, heads*dim)
	for h := range heads {
		Attend(split, q, c.kv, pages, pos, s, h, h+1, heads, scale, softcap, scratch)
	}
	for i := range dst {
		if !sameBits(dst[i], split[i]) {
			t.Fatalf("head by head value %d is %v, together %v", i, split[i], dst[i])
		}
	}
}

// TestWideWindow: a window that reaches back to the first position, or sinks that meet it, change no bit.
func TestWideWindow(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	c := newCache(t, r, 90, 1, 48, F32)
	q := make([]float32, 48)
	for i := range q {
		q[i] = float32(r.NormFloat64())
	}
	scratch := make([]float32, AttendScratch(90))
	for pos := range 90 {
		full := make([]float32, 48)
		Attend(full, q, c.kv, c.pages, pos, Span{}, 0, 1, 1, 0.1, 0, scratch)
		for _, s := range []Span{{pos + 1, 0}, {pos + 1, 4}, {1 << 30, 0}, {max(1, pos-3), 4}, {1, pos}, {1, 1 << 30}} {
			got := make([]float32, 48)
			Attend(got, q, c.kv, c.pages, pos, s, 0, 1, 1, 0.1, 0, scratch)
			for i := range got {
				if !sameBits(got[i], full[i]) {
					t.Fatalf("pos %d %+v: value %d is %v, without a window %v", pos, s, i, got[i], full[i])
				}
			}
		}
	}
}

// TestMaskedAddNothing: a window's result equals attention over a cache that holds only the positions seen, at the same lanes.
func TestMaskedAddNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	c := newCache(t, r, 64, 1, 16, F32)
	q := make([]float32, 16)
	for i := range q {
		q[i] = float32(r.NormFloat64())
	}
	scratch := make([]float32, AttendScratch(64))
	windowed, alone := make([]float32, 16), make([]float32, 16)
	Attend(windowed, q, c.kv, c.pages, 63, Span{Window: 16}, 0, 1, 1, 0.25, 0, scratch)
	Attend(alone, q, c.kv, c.pages[3:], 15, Span{}, 0, 1, 1, 0.25, 0, scratch)
	for i := range alone {
		if !sameBits(windowed[i], alone[i]) {
			t.Fatalf("value %d: %v windowed, %v alone", i, windowed[i], alone[i])
		}
	}
}

func TestKVCopy(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 28))
	for _, f := range kvTypes {
		c := newCache(t, r, 16, 2, 8, f)
		var other int32
		for other == c.pages[0] {
			other++
		}
		c.kv.Copy(other, c.pages[0])
		q := []float32{1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}
		a, b := make([]float32, 16), make([]float32, 16)
		scratch := make([]float32, AttendScratch(16))
		Attend(a, q, c.kv, c.pages, 15, Span{}, 0, 2, 2, 1, 0, scratch)
		Attend(b, q, c.kv, []int32{other}, 15, Span{}, 0, 2, 2, 1, 0, scratch)
		for i := range a {
			if !sameBits(a[i], b[i]) {
				t.Fatalf("%v: value %d of the copy gives %v, want %v", f, i, b[i], a[i])
			}
		}
		if want := 2 * 16 * map[Type]int{F32: 64, F16: 32, Q8_0: 24}[f]; c.kv.PageBytes() != want {
			t.Errorf("a page takes %d bytes, want %d", c.kv.PageBytes(), want)
		}
	}
}

func TestNewKVErrors(t *testing.T) {
	for _, c := range []struct {
		pages, heads, dim int
		t                 Type
		want              string
	}{{1, 1, 8, Q4_0, "q4_0"}, {1, 0, 8, F32, "0 KV heads"}, {1, 1, 5000, F32, "5000"}, {1 << 40, 8, 64, F32, "pages"}, {-1, 1, 8, F16, "-1 pages"}} {
		if _, err := NewKV(c.pages, c.heads, c.dim, c.t); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestAttendAllocatesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 30))
	for _, f := range kvTypes {
		c := newCache(t, r, 100, 2, 64, f)
		q, dst := make([]float32, 256), make([]float32, 256)
		scratch := make([]float32, AttendScratch(100))
		n := testing.AllocsPerRun(20, func() {
			Attend(dst, q, c.kv, c.pages, 99, Span{Window: 40, Sinks: 3}, 0, 4, 4, 0.1, 10, scratch)
			c.kv.Put(c.pages[0], 3, 0, c.kv.heads, c.k[0], c.v[0])
		})
		if n != 0 {
			t.Errorf("%v: %v allocations", f, n)
		}
	}
}

func BenchmarkAttend(b *testing.B) {
	for _, f := range kvTypes {
		for _, dim := range []int{48, 64, 128} {
			b.Run(fmt.Sprintf("%v/dim%d/512", f, dim), func(b *testing.B) {
				r := rand.New(rand.NewPCG(31, 32))
				c := newCache(b, r, 512, 1, dim, f)
				q, dst := make([]float32, dim), make([]float32, dim)
				fillInput(r, &Input{rows: 1, k: dim, ldx: dim, x: q})
				scratch := make([]float32, AttendScratch(512))
				for b.Loop() {
					Attend(dst, q, c.kv, c.pages, 511, Span{}, 0, 1, 1, 0.1, 0, scratch)
				}
			})
		}
	}
}

// TestAttendShared: heads that share the reading of keys and values get the bits of heads that attend alone.
func TestAttendShared(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 34))
	for _, f := range kvTypes {
		for _, dim := range []int{1, 8, 12, 40, 48, 64, 128} {
			for _, group := range []int{4, 5, 8} {
				const n, kvHeads = 90, 2
				c := newCache(t, r, n, kvHeads, dim, f)
				heads := group * kvHeads
				q, got, want := make([]float32, heads*dim), make([]float32, heads*dim), make([]float32, heads*dim)
				for i := range q {
					q[i] = float32(r.NormFloat64())
				}
				for _, pos := range []int{0, 15, 16, 70, n - 1} {
					for _, s := range []Span{{}, {5, 0}, {16, 4}, {40, 20}} {
						scratch := make([]float32, AttendScratch(pos+1))
						Attend(got, q, c.kv, c.pages, pos, s, 0, heads, heads, 0.3, 0, scratch)
						for h := range heads {
							Attend(want, q, c.kv, c.pages, pos, s, h, h+1, heads, 0.3, 0, scratch)
						}
						same(t, fmt.Sprint(f, " dim ", dim, " group ", group, " pos ", pos), got, want)
						checkAttend(t, c, q, pos, s, heads, 0)
					}
				}
			}
		}
	}
}

// TestAttendRows: rows that share the reading get the bits of rows that attend alone.
func TestAttendRows(t *testing.T) {
	r := rand.New(rand.NewPCG(37, 38))
	for _, f := range kvTypes {
		for _, dim := range []int{1, 12, 48, 64} {
			const n, heads, ldq = 90, 4, 300
			c := newCache(t, r, n, 2, dim, f)
			q := make([]float32, 3*ldq+heads*dim)
			for i := range q {
				q[i] = float32(r.NormFloat64())
			}
			scratch := make([]float32, AttendScratch(n))
			for _, pos := range [][4]int{{0, 1, 2, 3}, {13, 14, 15, 16}, {60, 60, 79, 80}, {5, 30, 31, 89}} {
				for _, softcap := range []float32{0, 3} {
					var got [4][]float32
					for i := range got {
						got[i] = make([]float32, heads*dim)
					}
					for h := range heads {
						AttendRows(&got, q, ldq, c.kv, c.pages[:pos[3]/Panel+1], &pos, h, heads, 0.3, softcap, scratch)
					}
					for i, p := range pos {
						want := make([]float32, heads*dim)
						Attend(want, q[i*ldq:], c.kv, c.pages, p, Span{}, 0, heads, heads, 0.3, softcap, scratch)
						same(t, fmt.Sprint(f, " dim ", dim, " row at ", p), got[i], want)
					}
				}
			}
		}
	}
}

// BenchmarkAttendLong is one KV head with its group of query heads at long contexts; the rate is of the bytes of keys and values, each counted once.
func BenchmarkAttendLong(b *testing.B) {
	for _, f := range kvTypes {
		for _, group := range []int{1, 4, 8} {
			for _, n := range []int{1024, 4096} {
				b.Run(fmt.Sprintf("%v/group%d/%d", f, group, n), func(b *testing.B) {
					const dim = 64
					r := rand.New(rand.NewPCG(35, 36))
					c := newCache(b, r, n, 1, dim, f)
					q, dst := make([]float32, group*dim), make([]float32, group*dim)
					fillInput(r, &Input{rows: 1, k: group * dim, ldx: group * dim, x: q})
					scratch := make([]float32, AttendScratch(n))
					b.SetBytes(int64(n / Panel * c.kv.PageBytes()))
					for b.Loop() {
						Attend(dst, q, c.kv, c.pages, n-1, Span{}, 0, group, group, 0.1, 0, scratch)
					}
				})
			}
		}
	}
}
