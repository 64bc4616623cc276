package arch

import (
	"encoding/binary"

	"tinyloop/internal/kernel"
)

// checkFinite refuses data that holds a NaN or an infinity, in a value or in the scale of a block: one of them spreads over every answer. It is the
// part of a tensor that has before values in front of it.
func checkFinite(name string, t kernel.Type, data []byte, before int) error {
	at := -1
	switch t {
	case kernel.F32:
		at = notFinite(data, 0x7f800000_7f800000, 0x00800000_00800000, 0x80000000_80000000)
	case kernel.F16:
		at = notFinite(data, 0x7c00_7c00_7c00_7c00, 0x0400_0400_0400_0400, 0x8000_8000_8000_8000)
	case kernel.BF16:
		at = notFinite(data, 0x7f80_7f80_7f80_7f80, 0x0080_0080_0080_0080, 0x8000_8000_8000_8000)
	default:
		at = notFiniteBlock(t, data)
	}
	if at < 0 {
		return nil
	}
	at = before + at/t.BlockBytes()*t.Block()
	return invalid(clip(name), "tensor %q is damaged: value %d or one of the next few is not a finite number", clip(name), at)
}

// notFinite finds the first eight bytes in which a number has all bits of its exponent set, as a byte offset, else -1. Adding the exponent's lowest
// bit carries into the sign's place exactly then; the masked numbers leave that place free, so that none disturbs its neighbour.
func notFinite(data []byte, exponent, lowest, sign uint64) int {
	at := 0
	for ; at+8 <= len(data); at += 8 {
		if (binary.LittleEndian.Uint64(data[at:])&exponent+lowest)&sign != 0 {
			return at
		}
	}
	var tail [8]byte
	copy(tail[:], data[at:])
	if (binary.LittleEndian.Uint64(tail[:])&exponent+lowest)&sign != 0 {
		return at
	}
	return -1
}

// notFiniteBlock finds the first block whose f16 scale, or whose minimum behind it, is not finite.
func notFiniteBlock(t kernel.Type, data []byte) int {
	size := t.BlockBytes()
	first, halves := t.Halves()
	for i := range halves {
		for at := first + 2*i; at+1 < len(data); at += size {
			if binary.LittleEndian.Uint16(data[at:])&0x7c00 == 0x7c00 {
				return at - first - 2*i
			}
		}
	}
	return -1
}
