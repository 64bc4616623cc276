//go:build !linux

package kernel

// newArena takes n bytes from the heap.
func newArena(n int) (arena, error) {
	raw := make([]byte, n+lineBytes)
	return arena{mem: aligned(raw, n, lineBytes), raw: raw}, nil
}

// populate does nothing here: the heap takes memory as it is written.
func populate(part []byte) {}

// free drops the memory; nothing that views it may be used after.
func (a *arena) free() { *a = arena{} }
