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

// CrossEntropy shapes a row of the head's products, measures it and, with grad, replaces it by the gradient of the objective times factor. th [len(x)] is
// working memory under a Cap.
func (w *Work[F]) CrossEntropy(x []F, l LogitShape, g Goal, factor float64, grad bool, th []F) Loss {
	slope := F(1)
	if l.Scale != 0 {
		slope = F(l.Scale)
	}
	inner := slope
	if l.Cap != 0 {
		w.Tanh(th, x, slope/F(l.Cap))
		w.Scale(x, th, F(l.Cap))
		inner = 1
	}
	z := x[g.ID] * inner
	top, lse := w.Softmax(x, inner)
	loss := Loss{Nats: float64(lse - z), LogSum: float64(lse), Correct: z >= top}
	if !grad {
		return loss
	}
	by := float64(g.Weight) * factor * float64(slope)
	w.Scale(x, x, F(by*(1+2*float64(g.Z)*float64(lse))))
	x[g.ID] -= F(by)
	if l.Cap != 0 {
		for i, v := range th {
			x[i] *= 1 - v*v
		}
	}
	return loss
}
