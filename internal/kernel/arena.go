package kernel

import "unsafe"

// arena is zeroed memory outside the garbage collector's heap where the system allows it: weights and KV pages would otherwise be scanned around, and
// 4 KiB pages cost up to a third of the read bandwidth of weights beyond the cache.
type arena struct {
	mem []byte // what the user of the arena sees: aligned to 64 bytes at least
	raw []byte // what the system gave
}

const lineBytes = 64

// roundUp gives the next multiple of m, a power of two.
func roundUp(n, m int) int { return (n + m - 1) &^ (m - 1) }

// aligned cuts n bytes that start at a multiple of align out of raw.
func aligned(raw []byte, n, align int) []byte {
	off := int(-uintptr(unsafe.Pointer(unsafe.SliceData(raw))) & uintptr(align-1))
	return raw[off : off+n : off+n]
}

// view reads memory of an arena as values of T; b is aligned to 64 bytes and its length is a multiple of T's size.
func view[T float32 | uint16 | uint32 | int8](b []byte) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}
