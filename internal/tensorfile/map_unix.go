//go:build unix

package tensorfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// openFlags keeps an open from hanging where a pipe took the file's place after it was looked at.
const openFlags = os.O_RDONLY | unix.O_NONBLOCK

// mapping is a file's bytes, read-only. The descriptor is closed: the map alone keeps the data.
type mapping struct{ data []byte }

func mapFile(f *os.File, size int) (mapping, error) {
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	return mapping{b}, err
}

func (m *mapping) unmap() error {
	b := m.data
	m.data = nil
	if b == nil {
		return nil
	}
	return unix.Munmap(b)
}
