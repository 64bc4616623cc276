package kernel

import (
	"math/rand/v2"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fence gives n values that end right before, or begin right after, memory that may not be touched: a kernel that reads or writes past its slice dies.
func fence[T any](t *testing.T, n int, atEnd bool) []T {
	t.Helper()
	var v T
	page, size := os.Getpagesize(), n*int(unsafe.Sizeof(v))
	body := (size + page - 1) / page * page
	mem, err := unix.Mmap(-1, 0, body+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	for _, at := range []int{0, page + body} {
		if err := unix.Mprotect(mem[at:at+page], unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	start := page
	if atEnd {
		start = page + body - size
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&mem[start])), n)
}

// TestFences runs every kernel with all its slices fenced in, before and behind.
func TestFences(t *testing.T) {
	r := rand.New(rand.NewPCG(61, 62))
	for _, atEnd := range []bool{true, false} {
		floats := func(n int) []float32 {
			x := fence[float32](t, n, atEnd)
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
			return x
		}
		for _, f := range allTypes {
			for _, shape := range [][3]int{{16, 32, 1}, {80, 96, 1}, {144, 32, 1}, {48, 64, 2}, {96, 32, 2}, {17, 64, 3}, {33, 32, 4}, {16, 64, 7}} {
				fencedProduct(t, r, f, shape[0], fit(f, shape[1]), shape[2], atEnd, floats)
			}
		}
		for _, n := range []int{1, 7, 8, 16, 31, 32, 100} {
			dst, a, b, c := floats(n), floats(n), floats(n), floats(n)
			RMSNorm(dst, a, b, 1e-5)
			LayerNorm(dst, a, b, c, 1e-5)
			SwiGLU(dst, a, b)
			GELU(dst, a)
			ReLU2(dst, a)
			Add(dst, a, b)
			MulAdd(dst, a, b, c)
			Scale(dst, a, 2)
			SoftmaxStats(a)
			ArgMax(a)
		}
		for _, dim := range []int{1, 8, 48, 64, 72} {
			fencedAttention(t, dim, atEnd, floats)
		}
	}
}

func fencedProduct(t *testing.T, r *rand.Rand, f Type, n, k, rows int, atEnd bool, floats func(int) []float32) {
	src := fence[byte](t, n*k/f.Block()*f.BlockBytes(), atEnd)
	copy(src, randomWeights(r, f, n, k))
	m := newMatrix(t, f, n, k, src)
	in := NewInput(rows, k)
	in.ldx = k
	in.x, in.short[0].x = floats(rows*k), floats(rows*k)
	in.q, in.wide = fence[int8](t, rows*k, atEnd), fence[int16](t, rows*k, atEnd)
	in.sums, in.evens, in.fours = fence[blockMeta](t, rows*in.blocks, atEnd), fence[blockMeta](t, rows*in.blocks, atEnd), fence[blockMeta](t, rows*in.blocks, atEnd)
	in.halves = fence[halfMeta](t, rows*in.blocks, atEnd)
	move(t, &m.f32, atEnd)
	move(t, &m.half, atEnd)
	move(t, &m.code, atEnd)
	move(t, &m.scales, atEnd)
	move(t, &m.mins, atEnd)
	move(t, &m.steps, atEnd)
	m.Fill(0, src)
	m.far = true
	in.Prepare(m, 0, rows)
	dst := floats(rows * n)
	MatMul(dst, n, in, rows, m, 0, m.Panels())
	m.Row(floats(k), n-1)
}

// move puts a stream of a matrix behind a fence.
func move[T any](t *testing.T, s *[]T, atEnd bool) {
	if len(*s) > 0 {
		f := fence[T](t, len(*s), atEnd)
		copy(f, *s)
		*s = f
	}
}

func fencedAttention(t *testing.T, dim int, atEnd bool, floats func(int) []float32) {
	for _, f := range kvTypes {
		kv, err := NewKV(6, 1, dim, f)
		if err != nil {
			t.Fatal(err)
		}
		defer kv.Free()
		move(t, &kv.f32, atEnd)
		move(t, &kv.half, atEnd)
		if move(t, &kv.code, atEnd); f == Q8_0 {
			kv.scales = view[float32](unsafe.Slice((*byte)(unsafe.Pointer(&kv.code[0])), len(kv.code)))
		}
		pages := []int32{5, 0, 1, 2, 3, 4}
		for pos := range 96 {
			kv.Put(pages[pos/16], pos%16, 0, 1, floats(dim), floats(dim))
		}
		Attend(floats(dim), floats(dim), kv, pages, 95, Span{}, 0, 1, 1, 1, 0, floats(AttendScratch(96)))
		Attend(floats(dim), floats(dim), kv, pages, 95, Span{Window: 20, Sinks: 3}, 0, 1, 1, 1, 0, floats(AttendScratch(96)))
		Attend(floats(4*dim), floats(4*dim), kv, pages, 95, Span{Window: 20, Sinks: 3}, 0, 4, 4, 1, 0, floats(AttendScratch(96)))
	}
}
