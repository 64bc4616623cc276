package train

import "tinyloop/internal/model"

// workload estimates the floating point operations of a model: two for each weight that a position meets, and the two products of attention over half a
// row on average. A backward pass is twice a forward pass.
type workload struct {
	once, loop float64 // weights that a position meets once, and in every loop
	width      float64 // of all heads
	blocks     [2]int  // applied once, and in every loop
}

func newWorkload(s *model.Spec) workload {
	w := workload{once: float64(s.Vocab * s.Dim), width: float64(s.Block.Heads * s.Block.HeadDim), blocks: [2]int{s.Prelude + s.Coda, s.Core}}
	for _, p := range s.Layout() {
		switch {
		case p.K == 0 || p.Role == model.RoleEmbedding:
		case p.Looped:
			w.loop += float64(p.Len)
		default:
			w.once += float64(p.Len)
		}
	}
	return w
}

// forward gives the operations of a forward pass of rows of t positions.
func (w *workload) forward(positions, t, loops int) float64 {
	attention := float64(w.blocks[0]+loops*w.blocks[1]) * 2 * w.width * float64(t) / 2
	return 2 * float64(positions) * (w.once + float64(loops)*w.loop + attention)
}
