package bench

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// newRegion gives n bytes on huge pages where the system has them, as the weights of a model lie, with every page touched.
func newRegion(n int) (mem []byte, free func(), err error) {
	const huge = 2 << 20
	size := (n + huge - 1) &^ (huge - 1)
	mem, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, nil, fmt.Errorf("mapping %d bytes of memory: %w", size, err)
	}
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // a hint
	touch(mem)
	return mem[:n], func() { _ = unix.Munmap(mem) }, nil
}
