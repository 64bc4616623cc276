//go:build !unix

package tensorfile

import (
	"io"
	"os"
)

const openFlags = os.O_RDONLY

// mapping is a file's bytes, read whole: the portable stand-in for a map.
type mapping struct{ data []byte }

func mapFile(f *os.File, size int) (mapping, error) {
	b := make([]byte, size)
	_, err := io.ReadFull(f, b)
	return mapping{b}, err
}

func (m *mapping) unmap() error { m.data = nil; return nil }
