package kernel

import (
	"encoding/binary"
	"unsafe"

	"tinyloop/internal/fault"
)

// PanelLayout names how matrices lie in memory, for files that hold them so. It changes with every change of a layout: see the comment on layout.
const PanelLayout = "p16.1"

// Packed gives the bytes of the matrix as they lie in memory: its streams, each at a multiple of 64 bytes, PanelBytes in all. They must not be written to.
func (m *Matrix) Packed() []byte { return m.mem }

// ViewMatrices makes matrices whose bytes are there already in panels, such as a mapped file's: nothing is copied. mem[i] holds the PanelBytes of shapes[i],
// starts at a multiple of 64 bytes and must not change; free is called once, after the last of the matrices is freed. What the bytes say is not
// checked: wrong ones give wrong numbers, and nothing else. After an error free is not called.
func ViewMatrices(shapes []Shape, mem [][]byte, free func()) ([]*Matrix, error) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return nil, fault.New(fault.Unsupported, "layout", "matrices in panels are little-endian, and this machine is not")
	}
	out, size := make([]*Matrix, len(shapes)), 0
	for i, s := range shapes {
		if err := s.Check(); err != nil {
			return nil, err
		}
		m := s.matrix()
		if len(mem[i]) != m.size() {
			return nil, fault.New(fault.Invalid, "data", "a %v matrix of %d by %d takes %d bytes in panels, got %d", s.Source, s.N, s.K, m.size(), len(mem[i]))
		}
		if at := uintptr(unsafe.Pointer(unsafe.SliceData(mem[i]))); at%lineBytes != 0 {
			return nil, fault.New(fault.Invalid, "data", "a matrix in panels must start at a multiple of %d bytes, and does %d beyond one", lineBytes, at%lineBytes)
		}
		out[i] = m
		size += m.size()
	}
	if len(out) == 0 {
		free()
		return out, nil
	}
	home := newRegion(len(out), size, free)
	for i, m := range out {
		m.place(mem[i], home)
	}
	return out, nil
}
