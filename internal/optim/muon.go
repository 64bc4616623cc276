package optim

import (
	"cmp"
	"math"
	"slices"

	"tinyloop/internal/kernel"
)

// Muon replaces a matrix's momentum by the nearest half-orthogonal matrix, so that every direction moves alike (Jordan et al. 2024,
// kellerjordan.github.io/posts/muon). The orthogonal factor comes from five steps of a Newton-Schulz iteration with the quintic below, whose
// coefficients push singular values quickly towards 1, into about 0.7 to 1.2.
const (
	quinticA, quinticB, quinticC = 3.4445, -4.7750, 2.0315
	newtonSteps                  = 5
	normEps                      = 1e-7
)

// MuonMomentum is the usual momentum at a step counted from 0: from 0.85 up to 0.95 over the first 300.
func MuonMomentum(step int) float64 {
	return 0.85 + 0.10*min(float64(step)/300, 1)
}

// scratch is a worker's memory for one matrix: X and its successor, two squares of the short side, and a packed operand.
type scratch []float32

// scratchLen gives its size: a matrix is laid with its short side as rows.
func scratchLen(rows, cols int) int {
	r, c := min(rows, cols), max(rows, cols)
	return 2*r*c + 2*r*r + packLen(r, c)
}

func packLen(r, c int) int {
	return max(kernel.GemmPackLen(r, c), kernel.GemmPackLen(r, r), kernel.GemmPackLen(c, r))
}

func (s scratch) take(n int) (head []float32, rest scratch) { return s[:n:n], s[n:] }

func sortTasks(list []task) {
	slices.SortStableFunc(list, func(a, b task) int { return cmp.Compare(b.estimate, a.estimate) })
}

// muon is one step: momentum, Nesterov's look ahead, orthogonalisation, then the update scaled by sqrt(max(1, rows/cols)).
func (p *Optimizer) muon(t *task, s scratch) {
	rows, cols := t.t.Rows, t.t.Cols
	x, g, m := p.params[t.lo:t.hi], p.grads[t.lo:t.hi], p.first[t.lo:t.hi]
	mu, scale := float32(p.now.Momentum), float32(p.now.Grad)
	u, rest := s.take(len(x))
	for i := range m {
		gi := g[i] * scale
		m[i] += (1 - mu) * (gi - m[i])
		u[i] = gi + mu*(m[i]-gi)
	}
	turned := rows > cols
	if turned {
		var w []float32
		w, rest = rest.take(len(x))
		transpose(w, u, rows, cols)
		orthogonalise(w, u, cols, rows, rest)
		transpose(u, w, cols, rows)
	} else {
		var w []float32
		w, rest = rest.take(len(x))
		orthogonalise(u, w, rows, cols, rest)
	}
	lr := t.t.LR * p.now.LR
	rate := float32(lr * math.Sqrt(max(1, float64(rows)/float64(cols))))
	decay, cautious := float32(lr*t.t.Decay*p.now.Decay), p.o.Cautious
	for i := range x {
		xi := x[i]
		if !cautious || u[i]*xi > 0 {
			xi -= decay * x[i]
		}
		x[i] = xi - rate*u[i]
	}
}

// transpose writes the rows × cols matrix src as dst [cols][rows].
func transpose(dst, src []float32, rows, cols int) {
	for r := range rows {
		for c, v := range src[r*cols : (r+1)*cols] {
			dst[c*rows+r] = v
		}
	}
}

// orthogonalise replaces x [r][c], r <= c, by U Vᵀ of its singular value decomposition, nearly. y has the size of x and is overwritten.
func orthogonalise(x, y []float32, r, c int, s scratch) {
	kernel.Scale(x, x, float32(1/(math.Sqrt(kernel.SumSquares(x))+normEps)))
	a, s := s.take(r * r)
	b, pack := s.take(r * r)
	for range newtonSteps {
		kernel.GemmPackNT(pack, x, c, r, c)
		kernel.Gemm(a, r, x, c, r, pack, r, c, false) // A = X Xᵀ
		kernel.GemmPackNN(pack, a, r, r, r)
		kernel.Gemm(b, r, a, r, r, pack, r, r, false) // A A
		for i := range b {
			b[i] = quinticB*a[i] + quinticC*b[i]
		}
		kernel.GemmPackNN(pack, x, c, c, r)
		kernel.Scale(y, x, quinticA)
		kernel.Gemm(y, c, b, r, r, pack, c, r, true) // X = a X + (b A + c A A) X
		copy(x, y)
	}
}
