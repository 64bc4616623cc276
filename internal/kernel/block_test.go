//go:build amd64 && !purego

package kernel

import (
	"math/rand/v2"
	"testing"
)

// TestRowBlocksEqualPortable covers what only many rows reach: more than one row block, whole and cut.
func TestRowBlocksEqualPortable(t *testing.T) {
	needAVX2(t)
	r := rand.New(rand.NewPCG(71, 72))
	for _, f := range allTypes {
		k, rows := fit(f, 64), 97
		if f.Block() > 1 {
			k, rows = 8192, 53 // 25 rows to a block
		}
		checkProduct(t, f, 5, k, rows, randomWeights(r, f, 5, k), func() float32 { return float32(r.NormFloat64()) })
	}
}
