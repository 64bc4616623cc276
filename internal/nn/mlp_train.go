package nn

// MLPAt is an MLP of the flat array.
type MLPAt struct {
	Act            Activation
	Gate, Up, Down Dense
}

// MLPTrace is what the backward of an MLP needs besides its input.
type MLPTrace[F Float] struct{ Gate, Up []F } // [rows][hidden] before the activation; Gate of gated activations only

// MLPWork is the working memory of MLPs.
type MLPWork[F Float] struct{ Act, DAct, DGate []F } // [rows][hidden]; DGate of gated activations only

// MLP computes y of rows rows of x.
func (w *Work[F]) MLP(m *MLPAt, t *MLPTrace[F], s *MLPWork[F], y, x []F, rows int) {
	d, h := m.Up.W.K, m.Up.W.N
	w.Linear(&m.Up, t.Up, h, x, d, rows)
	if m.Act.Gated() {
		w.Linear(&m.Gate, t.Gate, h, x, d, rows)
	}
	w.activate(m.Act, t, s.Act, rows*h)
	w.Linear(&m.Down, y, d, s.Act, h, rows)
}

func (w *Work[F]) activate(act Activation, t *MLPTrace[F], dst []F, n int) {
	switch act {
	case SwiGLU:
		w.SwiGLU(dst[:n], t.Gate[:n], t.Up[:n])
	case GELU:
		w.GELU(dst[:n], t.Up[:n])
	case ReLU2:
		w.ReLU2(dst[:n], t.Up[:n])
	case GeGLU:
		w.GELU(dst[:n], t.Gate[:n])
		multiply(dst[:n], t.Up[:n])
	}
}

// MLPBack computes dx from dy and the layer's input x.
func (w *Work[F]) MLPBack(m *MLPAt, t *MLPTrace[F], s *MLPWork[F], dx, dy, x []F, rows int) {
	d, h := m.Up.W.K, m.Up.W.N
	n := rows * h
	w.activate(m.Act, t, s.Act, n)
	w.LinearBack(&m.Down, s.DAct, h, dy, d, s.Act, h, rows, false)
	switch m.Act {
	case SwiGLU:
		w.SwiGLUBack(s.DGate[:n], s.DAct[:n], s.DAct[:n], t.Gate[:n], t.Up[:n])
	case GELU:
		w.GELUBack(s.DAct[:n], s.DAct[:n], t.Up[:n])
	case ReLU2:
		w.ReLU2Back(s.DAct[:n], s.DAct[:n], t.Up[:n])
	case GeGLU:
		copy(s.DGate[:n], s.DAct[:n])
		multiply(s.DGate[:n], t.Up[:n])
		w.GELUBack(s.DGate[:n], s.DGate[:n], t.Gate[:n])
		w.GELU(s.Act[:n], t.Gate[:n])
		multiply(s.DAct[:n], s.Act[:n])
	}
	w.LinearBack(&m.Up, dx, d, s.DAct, h, x, d, rows, false)
	if m.Act.Gated() {
		w.LinearBack(&m.Gate, dx, d, s.DGate, h, x, d, rows, true)
	}
}
