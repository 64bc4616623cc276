//go:build !linux

package bench

// newRegion gives n bytes with every page touched.
func newRegion(n int) (mem []byte, free func(), err error) {
	mem = make([]byte, n)
	touch(mem)
	return mem, func() {}, nil
}
