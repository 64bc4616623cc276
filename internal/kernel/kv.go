package kernel

import (
	"math"

	"tinyloop/internal/fault"
	"tinyloop/internal/invariants"
)

// maxHeadDim bounds the width of one head, so that Attend's accumulators have a fixed place.
const maxHeadDim = 1024

// KV is the store of attention pages. One page is 16 consecutive positions of one slot (position mod 16 is the lane): the keys of all KV heads, then the values of
// all KV heads, so that heads which attend together read in one run.
//
//	K transposed [heads][dim][16], then V [heads][16][dim padded to 8]      f32 or halves
//	K [heads][dim][16], scales [heads][16], then V [heads][16][dim padded], scales [heads][16]      q8: int8 codes, f32 scales
//
// In q8 the keys of one head at one position are one block, and so are its values: x is code*scale, scale the largest magnitude over 127. A position is rounded alone,
// when it is written, whatever is written with it.
//
// A page, or different lanes of one, may be written while others are read.
type KV struct {
	t                 Type
	pages, heads, dim int
	vdim              int // dim padded to 8
	values, page      int // where values begin in a page, and its size: in values, q8 in bytes
	f32               []float32
	half              []uint16
	code              []int8
	scales            []float32 // the memory of q8 as f32
	mem               arena
}

// scaleBytes is the size of the scale of a block in q8.
const scaleBytes = 4

// KVBytes gives the memory of one position of one KV head of width dim in format t: F32, F16 or Q8_0 (of which it takes the int8 codes, not the blocks of 32); 0 for other formats.
func KVBytes(dim int, t Type) int {
	n := dim + roundUp(dim, 8) // the value rows of a page are padded to 8
	switch t {
	case F32, F16:
		return n * t.BlockBytes()
	case Q8_0:
		return n + 2*scaleBytes
	}
	return 0
}

// ParseKVType finds a format of keys and values by its name: f32 (also ""), f16, q8_0 (also q8).
func ParseKVType(name string) (Type, error) {
	switch name {
	case "", "f32":
		return F32, nil
	case "f16":
		return F16, nil
	case "q8", "q8_0":
		return Q8_0, nil
	}
	return 0, fault.New(fault.Invalid, "kv_type", "kv_type must be f32, f16 or q8, got %q", name)
}

// NewKV makes a store of so many pages for heads KV heads of width dim, in F32, F16 or Q8_0. Memory is zero, and untouched until it is written.
func NewKV(pages, heads, dim int, t Type) (*KV, error) {
	if KVBytes(1, t) == 0 {
		return nil, fault.New(fault.Invalid, "kv_type", "KV pages can be f32, f16 or q8, not %v", t)
	}
	if heads < 1 || dim < 1 || dim > maxHeadDim || heads > 1<<16 {
		return nil, fault.New(fault.Invalid, "kv_shape", "%d KV heads of width %d are out of range: 1 to %d heads of width 1 to %d", heads, dim, 1<<16, maxHeadDim)
	}
	kv := &KV{t: t, pages: pages, heads: heads, dim: dim, vdim: roundUp(dim, 8)}
	size := Panel * heads * KVBytes(dim, t)
	if pages < 0 || pages > 1<<30 || pages > maxMatrixValues/size {
		return nil, fault.New(fault.Invalid, "kv_pages", "%d pages of %d bytes are more than this machine can address: at most %d", pages, size, min(1<<30, maxMatrixValues/size))
	}
	mem, err := newArena(pages * size)
	if err != nil {
		return nil, err
	}
	kv.mem = mem
	kv.values, kv.page = Panel*heads*dim, Panel*heads*(dim+kv.vdim)
	switch t {
	case F32:
		kv.f32 = view[float32](mem.mem)
	case F16:
		kv.half = view[uint16](mem.mem)
	default:
		kv.code, kv.scales = view[int8](mem.mem), view[float32](mem.mem)
		kv.values += Panel * heads * scaleBytes
		kv.page = size
	}
	return kv, nil
}

// Heads gives the number of KV heads, Pages that of pages.
func (kv *KV) Heads() int { return kv.heads }
func (kv *KV) Pages() int { return kv.pages }

// PageBytes gives the memory of one page.
func (kv *KV) PageBytes() int { return Panel * kv.heads * KVBytes(kv.dim, kv.t) }

// keyAt gives the place of the keys of one head of a page, valueAt that of the values of one position of one head.
func (kv *KV) keyAt(page int32, head int) int { return int(page)*kv.page + head*kv.dim*Panel }
func (kv *KV) valueAt(page int32, head, lane int) int {
	return int(page)*kv.page + kv.values + (head*Panel+lane)*kv.vdim
}

// keyScaleAt and valueScaleAt give the places of the 16 scales of one head of a page of q8.
func (kv *KV) keyScaleAt(page int32, head int) int {
	return (int(page)*kv.page+kv.heads*kv.dim*Panel)/scaleBytes + head*Panel
}
func (kv *KV) valueScaleAt(page int32, head int) int {
	return (int(page)*kv.page+kv.values+kv.heads*kv.vdim*Panel)/scaleBytes + head*Panel
}

// Put writes KV heads [h0, h1) of one position, lane 0 to 15 of a page; k and v are [heads*dim], of all heads. Halves and codes are rounded to nearest even.
func (kv *KV) Put(page int32, lane, h0, h1 int, k, v []float32) {
	kv.check(page, lane)
	for h := h0; h < h1; h++ {
		kv.putHead(page, lane, h, k[h*kv.dim:(h+1)*kv.dim], v[h*kv.dim:(h+1)*kv.dim])
	}
}

// putHead writes the keys and values of one head, [dim].
func (kv *KV) putHead(page int32, lane, head int, k, v []float32) {
	switch kat, vat := kv.keyAt(page, head)+lane, kv.valueAt(page, head, lane); kv.t {
	case F32:
		spread(kv.f32[kat:], k)
		copy(kv.f32[vat:], v)
	case F16:
		kv.putHalf(kat, vat, k, v)
	default:
		var codes [maxHeadDim]int8
		kv.scales[kv.keyScaleAt(page, head)+lane] = encode8(codes[:len(k)], k)
		spread(kv.code[kat:], codes[:len(k)])
		kv.scales[kv.valueScaleAt(page, head)+lane] = encode8(kv.code[vat:vat+len(v)], v)
	}
}

func (kv *KV) check(page int32, lane int) {
	invariants.Check(lane >= 0 && lane < Panel && int(page) < kv.pages && page >= 0, "kernel: position outside the KV store")
}

func (kv *KV) putHalf(kat, vat int, k, v []float32) {
	var short [64]uint16
	for d := 0; d < len(k); d += len(short) {
		part := k[d:min(d+len(short), len(k))]
		halves(short[:len(part)], part)
		spread(kv.half[kat+d*Panel:], short[:len(part)])
	}
	halves(kv.half[vat:vat+len(v)], v)
}

// spread writes x to every 16th place of dst.
func spread[T float32 | uint16 | int8](dst, x []T) {
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

// tiny is the largest magnitude below which a block of q8 is zeros: 127 over it would be no float.
const tiny = 0x1p-100

// encode8 writes the codes of a block and gives its scale: NaN, with codes of 0, where a value is not finite.
func encode8(dst []int8, x []float32) (scale float32) {
	clear(dst)
	top := math.Float32frombits(largestBits(x))
	switch {
	case !(top <= math.MaxFloat32):
		return float32(math.NaN())
	case top < tiny:
		return 0
	}
	roundCodes(dst, x, 127/top)
	return top / 127
}

// largestBitsGeneric gives the bits of the largest magnitude; NaN is larger than any number.
func largestBitsGeneric(x []float32) uint32 {
	m := uint32(0)
	for _, v := range x {
		m = max(m, math.Float32bits(v)&^(1<<31))
	}
	return m
}

// roundCodesGeneric rounds x*inv, at most 127 and a rounding, to the nearest integer, ties to even.
func roundCodesGeneric(dst []int8, x []float32, inv float32) {
	for i, v := range x {
		t := float32(v*inv) + expMagic
		dst[i] = int8(int32(t - expMagic))
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
	kv.f32, kv.half, kv.code, kv.scales = nil, nil, nil, nil
}

// widen widens values from place at on.
func (kv *KV) widen(dst []float32, at int) {
	switch kv.t {
	case F32:
		copy(dst, kv.f32[at:])
	case F16:
		for i, v := range kv.half[at : at+len(dst)] {
			dst[i] = F16ToF32(v)
		}
	default:
		for i, v := range kv.code[at : at+len(dst)] {
			dst[i] = float32(v)
		}
	}
}
