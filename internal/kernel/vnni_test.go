//go:build amd64 && !purego

package kernel

import "testing"

// TestVNNIEqualsPortable: the check at the start passes wherever the processor has the instructions, so that the tests of products above ran on them.
func TestVNNIEqualsPortable(t *testing.T) {
	if !hasVNNI() {
		t.Skip("needs AVX-512 with VNNI")
	}
	if !vnniRight() {
		t.Fatal("the products of AVX-512 differ from the portable ones")
	}
	if useAVX2 && !useVNNI {
		t.Skip("TINYLOOP_ISA keeps to AVX2")
	}
}
