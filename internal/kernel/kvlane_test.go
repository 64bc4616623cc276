package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestLanes: one position copied or averaged changes that position only, in every format.
func TestLanes(t *testing.T) {
	for _, typ := range kvTypes {
		kv, err := NewKV(4, 2, 6, typ)
		if err != nil {
			t.Fatal(err)
		}
		defer kv.Free()
		rng := rand.New(rand.NewPCG(1, 2))
		vec := func() []float32 {
			x := make([]float32, 12)
			for i := range x {
				x[i] = float32(rng.IntN(64)) / 4 // exact in halves, and so are means of two
			}
			return x
		}
		want := [4][Panel][2][]float32{}
		for p := range want {
			for lane := range Panel {
				want[p][lane] = [2][]float32{vec(), vec()}
				kv.Put(int32(p), lane, 0, 2, want[p][lane][0], want[p][lane][1])
			}
		}
		kv.CopyLane(2, 0, 5)
		want[2][5] = want[0][5]
		kv.MeanLanes([]int32{1, 3}, 4, 6)
		for lane := 4; lane < 6; lane++ {
			var m [2][]float32
			for k := range m {
				a, b := slices.Clone(want[1][lane][k]), slices.Clone(want[3][lane][k])
				for h := 0; h < 12 && typ == Q8_0; h += 6 {
					roundTo8(a[h : h+6])
					roundTo8(b[h : h+6])
				}
				for i := range 12 {
					m[k] = append(m[k], (a[i]+b[i])/2)
				}
			}
			want[1][lane], want[3][lane] = m, m
		}
		other, err := NewKV(1, 2, 6, typ)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Free()
		for p := range want {
			for lane := range Panel {
				other.Put(0, lane, 0, 2, want[p][lane][0], want[p][lane][1])
			}
			n := kv.PageBytes()
			if string(kv.mem.mem[p*n:(p+1)*n]) != string(other.mem.mem[:n]) {
				t.Errorf("%v: page %d is not as it should be", typ, p)
			}
		}
	}
}
