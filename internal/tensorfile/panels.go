package tensorfile

import (
	"fmt"
	"math"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
)

// KeyLayout says, in a .tinyloop file, that its matrices lie in panels as the kernels read them: its value is kernel.PanelLayout. Names, types and shapes of
// the tensors are the usual ones; the bytes of every tensor with two dimensions are those of the panels.
const KeyLayout = "tinyloop.layout"

// panelAlign is where tensors of such a file start.
const panelAlign = 64

// checkLayout reads KeyLayout, and refuses a layout that is not this build's.
func (f *File) checkLayout(align uint64) error {
	v, ok := f.Meta.Get(KeyLayout)
	if !ok || f.Format != TinyLoop {
		return nil
	}
	if v != kernel.PanelLayout {
		return f.bad(codeLayout, "its matrices lie in the layout %q, this build serves %q: convert it again from the file that it was made of", fault.Clip(fmt.Sprint(v), 40), kernel.PanelLayout)
	}
	if align%panelAlign != 0 {
		return f.bad(codeAlignment, "general.alignment is %d, but matrices in panels need a multiple of %d", align, panelAlign)
	}
	f.panels = true
	return nil
}

// panelSize gives the bytes of a matrix in panels, or why its shape cannot be. dims is the row, then the number of rows.
func panelSize(t kernel.Type, dims []uint64) (size uint64, why string) {
	if _, why := dataSize(t, dims); why != "" || !t.Known() {
		return 0, why
	}
	if dims[0] > math.MaxInt32 || dims[1] > math.MaxInt32 {
		return 0, "a dimension is too large"
	}
	s := kernel.Shape{Source: t, N: int(dims[1]), K: int(dims[0])}
	if s.Check() != nil {
		return 0, "the matrix is too large"
	}
	return uint64(s.PanelBytes()), ""
}

// storedSize gives the bytes of a tensor in a file with or without panels.
func storedSize(t kernel.Type, dims []uint64, panels bool) (size uint64, why string) {
	if panels && len(dims) == 2 {
		return panelSize(t, dims)
	}
	return dataSize(t, dims)
}
