package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkAttendModel is the attention of one token through all layers of a model, pages laid out as the engine takes them (every 16 positions one page of each layer, in
// turn); the rate is of the bytes of keys and values.
func BenchmarkAttendModel(b *testing.B) {
	for _, s := range []struct {
		name               string
		layers, heads, dim int
	}{{"15m", 6, 6, 48}, {"124m", 12, 12, 64}} {
		for _, n := range []int{1024, 4096} {
			for _, f := range kvTypes {
				b.Run(fmt.Sprintf("%s/%d/%v", s.name, n, f), func(b *testing.B) {
					blocks := n / Panel
					kv, err := NewKV(blocks*s.layers, s.heads, s.dim, f)
					if err != nil {
						b.Fatal(err)
					}
					defer kv.Free()
					r := rand.New(rand.NewPCG(35, 36))
					x := make([]float32, s.heads*s.dim)
					pages := make([][]int32, s.layers)
					for l := range pages {
						for i := range blocks {
							p := int32(i*s.layers + l)
							pages[l] = append(pages[l], p)
							for lane := range Panel {
								for j := range x {
									x[j] = r.Float32() - 0.5
								}
								kv.Put(p, lane, 0, s.heads, x, x)
							}
						}
					}
					dst, scratch := make([]float32, len(x)), make([]float32, AttendScratch(n))
					b.SetBytes(int64(blocks * s.layers * kv.PageBytes()))
					for b.Loop() {
						for l := range pages {
							Attend(dst, x, kv, pages[l], n-1, Span{}, 0, s.heads, s.heads, 0.1, 0, scratch)
						}
					}
				})
			}
		}
	}
}
