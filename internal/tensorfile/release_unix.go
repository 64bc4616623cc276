//go:build unix

package tensorfile

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Release says that the pages of a view of the file are not needed for now: they leave this process's memory, and come back from the system's cache or
// the disk when read again. What is no view of the map (a copy, say) is left alone.
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
		lo, hi := (at+page-1)/page*page, (at+len(view))/page*page // whole pages: the edges are the neighbours' too
		if lo < hi {
			_ = unix.Madvise(m.data[lo:hi], unix.MADV_DONTNEED) // a hint: of a read-only shared map nothing is lost
		}
	}
}
