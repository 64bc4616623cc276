package train

import "tinyloop/internal/model"

// forwardWork estimates the floating point operations of a forward pass of rows of t positions: two for each weight that a position meets, and the two
// products of attention over half a row on average. A backward pass is twice that.
func forwardWork(s *model.Spec, positions, t, loops int) float64 {
	part := map[bool]float64{} // weights applied once, and once a loop
	for _, p := range s.Layout() {
		if p.K > 0 && p.Role != model.RoleEmbedding {
			part[p.Looped] += float64(p.Len)
		}
	}
	weights := part[false] + float64(loops)*part[true] + float64(s.Vocab*s.Dim)
	blocks := float64(s.Prelude + loops*s.Core + s.Coda)
	attention := blocks * 2 * float64(s.Block.Heads*s.Block.HeadDim) * float64(t) / 2
	return 2 * float64(positions) * (weights + attention)
}
