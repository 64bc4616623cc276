package kernel

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const hugeBytes = 2 << 20

// newArena maps n bytes. From one huge page upwards the map is aligned to huge pages and asks for them.
func newArena(n int) (arena, error) {
	size, align := n+lineBytes, lineBytes
	if n >= hugeBytes {
		size, align = n+hugeBytes, hugeBytes
	}
	raw, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return arena{}, fmt.Errorf("mapping %d bytes of memory: %w", size, err)
	}
	if n >= hugeBytes {
		_ = unix.Madvise(raw, unix.MADV_HUGEPAGE) // a hint: without it everything works, slower
	}
	return arena{mem: aligned(raw, n, align), raw: raw}, nil
}

// populate takes the memory of a part of an arena now, in one step, where it is about to be written: page faults one by one cost more than the writing.
// Other parts may be in use meanwhile.
func populate(part []byte) {
	page := uintptr(os.Getpagesize())
	first := uintptr(unsafe.Pointer(unsafe.SliceData(part)))
	skip := int(-first & (page - 1))
	n := (len(part) - skip) &^ int(page-1) // whole pages; those at the edges are faulted in
	if n > 0 {
		_ = unix.Madvise(part[skip:skip+n], unix.MADV_POPULATE_WRITE) // a hint, unknown to kernels before 5.14
	}
}

// free gives the memory back; nothing that views it may be used after.
func (a *arena) free() {
	if a.raw != nil {
		_ = unix.Munmap(a.raw) // fails only for a map that is not ours
	}
	*a = arena{}
}
