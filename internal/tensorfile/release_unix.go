//go:build unix

package tensorfile

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const faultAround = 64 << 10

// Release says that the pages of a view of the file are not needed for now: they leave this process's memory, and come back from the system's cache or
// the disk when read again. What is no view of the map (a copy, say) is left alone. The 64 KiB in front go along, because a page fault maps that many
// neighbours: files read from front to back leave nothing behind.
func (f *File) Release(view []byte) {
	if len(view) == 0 || f.lent {
		return
	}
	page := os.Getpagesize()
	for _, m := range f.maps {
		if len(m.data) == 0 {
			continue
		}
		at := int(uintptr(unsafe.Pointer(unsafe.SliceData(view))) - uintptr(unsafe.Pointer(unsafe.SliceData(m.data))))
		if at < 0 || at+len(view) > len(m.data) {
			continue
		}
		lo, hi := max(0, at/page*page-faultAround), (at+len(view))/page*page
		if lo < hi {
			_ = unix.Madvise(m.data[lo:hi], unix.MADV_DONTNEED) // a hint: of a read-only shared map nothing is lost
		}
	}
}
