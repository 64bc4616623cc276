package kernel

import (
	"tinyloop/internal/fault"
	"tinyloop/internal/invariants"
)

// maxHeadDim bounds the width of one head, so that Attend's accumulators have a fixed place.
const maxHeadDim = 1024

// KV is the store of attention pages. One page is 16 consecutive positions of one slot (position mod 16 is the lane), per KV head:
//
//	K transposed [dim][16], then V [16][dim padded to 8], f32 or halves
//
// A page, or different lanes of one, may be written while others are read.
type KV struct {
	pages, heads, dim int
	vdim              int // dim padded to 8
	head, page        int // values of one head of a page, and of one page
	f32               []float32
	half              []uint16 // in place of f32 for halves
	mem               arena
}

// NewKV makes a store of so many pages for heads KV heads of width dim, in F32 or F16. Memory is zero, and untouched until it is written.
func NewKV(pages, heads, dim int, t Type) (*KV, error) {
	if t != F32 && t != F16 {
		return nil, fault.New(fault.Invalid, "kv_type", "KV pages can be f32 or f16, not %v", t)
	}
	if heads < 1 || dim < 1 || dim > maxHeadDim || heads > 1<<16 {
		return nil, fault.New(fault.Invalid, "kv_shape", "%d KV heads of width %d are out of range: 1 to %d heads of width 1 to %d", heads, dim, 1<<16, maxHeadDim)
	}
	kv := &KV{pages: pages, heads: heads, dim: dim, vdim: roundUp(dim, 8)}
	kv.head = Panel * (dim + kv.vdim)
	kv.page = heads * kv.head
	size := t.BlockBytes()
	if pages < 0 || pages > 1<<30 || pages > maxMatrixValues/(kv.page*size) {
		return nil, fault.New(fault.Invalid, "kv_pages", "%d pages of %d bytes are more than this machine can address: at most %d", pages, kv.page*size, min(1<<30, maxMatrixValues/(kv.page*size)))
	}
	mem, err := newArena(pages * kv.page * size)
	if err != nil {
		return nil, err
	}
	kv.mem = mem
	if t == F32 {
		kv.f32 = view[float32](mem.mem)
	} else {
		kv.half = view[uint16](mem.mem)
	}
	return kv, nil
}

// Heads gives the number of KV heads, Pages that of pages.
func (kv *KV) Heads() int { return kv.heads }
func (kv *KV) Pages() int { return kv.pages }

// PageBytes gives the memory of one page.
func (kv *KV) PageBytes() int {
	if kv.half != nil {
		return 2 * kv.page
	}
	return 4 * kv.page
}

// Put writes KV heads [h0, h1) of one position, lane 0 to 15 of a page; k and v are [heads*dim], of all heads. Halves are rounded to nearest even.
func (kv *KV) Put(page int32, lane, h0, h1 int, k, v []float32) {
	invariants.Check(lane >= 0 && lane < Panel && int(page) < kv.pages && page >= 0, "kernel: position outside the KV store")
	for h := h0; h < h1; h++ {
		at := int(page)*kv.page + h*kv.head
		kh, vh := k[h*kv.dim:(h+1)*kv.dim], v[h*kv.dim:(h+1)*kv.dim]
		if kv.half != nil {
			kv.putHalf(kv.half[at:at+kv.head], lane, kh, vh)
			continue
		}
		dst := kv.f32[at : at+kv.head]
		spread(dst[lane:], kh)
		copy(dst[kv.dim*Panel+lane*kv.vdim:], vh)
	}
}

func (kv *KV) putHalf(dst []uint16, lane int, k, v []float32) {
	var short [64]uint16
	for d := 0; d < len(k); d += len(short) {
		part := k[d:min(d+len(short), len(k))]
		halves(short[:len(part)], part)
		spread(dst[d*Panel+lane:], short[:len(part)])
	}
	halves(dst[kv.dim*Panel+lane*kv.vdim:][:len(v)], v)
}

// spread writes x to every 16th place of dst.
func spread[T float32 | uint16](dst, x []T) {
	dst = dst[:(len(x)-1)*Panel+1]
	for d, v := range x {
		dst[d*Panel] = v
	}
}

func halvesGeneric(dst []uint16, x []float32) {
	dst = dst[:len(x)]
	for i, v := range x {
		dst[i] = F32ToF16(v)
	}
}

// Copy makes page dst equal to page src.
func (kv *KV) Copy(dst, src int32) {
	n := kv.PageBytes()
	copy(kv.mem.mem[int(dst)*n:(int(dst)+1)*n], kv.mem.mem[int(src)*n:(int(src)+1)*n])
}

// Free gives the memory back. The store must not be used after.
func (kv *KV) Free() {
	kv.mem.free()
	kv.f32, kv.half = nil, nil
}
