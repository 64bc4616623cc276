package nn

// LogitShape is what happens between the head's product and the softmax: Cap*tanh(Scale*x/Cap), without Cap Scale*x.
type LogitShape struct{ Scale, Cap float32 }

// Goal is what one row of logits should say: the objective is Weight*(-log p[ID] + Z*(log of the softmax's sum)^2).
type Goal struct {
	ID        int32
	Weight, Z float32
}

// Loss is what a row of logits says.
type Loss struct {
	Nats, LogSum float64 // -log p[ID], log of the softmax's sum
	Correct      bool    // no other token is likelier
}

// Loss shapes a row of the head's products and measures it; x becomes the gradient of the objective times factor. capped [len(x)] is working memory
// under a Cap.
func (w *Work[F]) Loss(x []F, l LogitShape, g Goal, factor float32, capped []F) Loss {
	slope := F(1)
	if l.Scale != 0 {
		slope = F(l.Scale)
		w.Scale(x, x, slope)
	}
	if l.Cap != 0 {
		w.Softcap(x, F(l.Cap))
		copy(capped, x)
	}
	nll, lse, hit := w.CrossEntropy(x, int(g.ID), F(g.Z), F(g.Weight)*F(factor)*slope)
	if l.Cap != 0 {
		w.SoftcapBack(x, capped, F(l.Cap))
	}
	return Loss{nll, lse, hit}
}
