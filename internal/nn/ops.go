package nn

import "tinyloop/internal/kernel"

// Rows is a matrix in a slice: row r begins at X[r*Ld].
type Rows[F Float] struct {
	X  []F
	Ld int
}

func (m Rows[F]) row(r, n int) []F { return m.X[r*m.Ld : r*m.Ld+n] }

// Ops are the inner loops of the layers of training; see the functions of package kernel of the same names for what they do.
type Ops[F Float] struct {
	PackLen        func(n, k int) int
	PackNT         func(dst, b []F, ldb, n, k int)
	PackNN         func(dst, b []F, ldb, n, k int)
	Gemm           func(c []F, ldc int, a []F, lda, m int, bp []F, n, k int, add bool)
	GemmTN         func(c []F, ldc int, a []F, lda int, b []F, ldb, m, n, k int, add bool, tmp []F)
	GemmTNScratch  func(m, n, k int) int
	Add            func(dst, a, b []F)
	AddScaled      func(dst, x []F, s F)
	AddProduct     func(dst, a, b []F)
	MulAdd         func(dst, a, b, c []F)
	Scale          func(dst, a []F, s F)
	SumSquares     func(x []F) float64
	RMSNorm        func(dst []F, ldd int, x []F, ldx int, gain []F, n, rows int, eps F, inv []F)
	RMSNormBack    func(dx []F, lddx int, dgain, dy []F, lddy int, x []F, ldx int, gain, inv []F, n, rows int, add bool)
	LayerNorm      func(dst, x, gain, bias []F, eps F)
	SwiGLU         func(dst, gate, up []F)
	SwiGLUBack     func(dgate, dup, dy, gate, up []F)
	GELU           func(dst, x []F)
	GELUBack       func(dx, dy, x []F)
	ReLU2          func(dst, x []F)
	ReLU2Back      func(dx, dy, x []F)
	Softcap        func(x []F, limit F)
	SoftcapBack    func(dx, y []F, limit F)
	CrossEntropy   func(x []F, target int, zloss, scale F) (nll, lse float64, hit bool)
	Rope           func(x, cos, sin []F) // pairs (j, j+len(cos))
	RopeNeighbours func(x, cos, sin []F) // pairs (2j, 2j+1)

	AttendScratch func(h *kernel.CausalHead) int
	Attend        func(h *kernel.CausalHead, o Rows[F], lse []F, q, k, v Rows[F], tmp []F)
	AttendBack    func(h *kernel.CausalHead, dq, dk, dv, do, o Rows[F], lse []F, q, k, v Rows[F], tmp []F)
}

// Kernels gives the inner loops of float32.
func Kernels() *Ops[float32] {
	return &Ops[float32]{
		PackLen: kernel.GemmPackLen, PackNT: kernel.GemmPackNT, PackNN: kernel.GemmPackNN,
		Gemm: kernel.Gemm, GemmTN: kernel.GemmTN, GemmTNScratch: kernel.GemmTNScratch,
		Add: kernel.Add, AddScaled: kernel.AddScaled, AddProduct: kernel.AddProduct, MulAdd: kernel.MulAdd, Scale: kernel.Scale,
		SumSquares: kernel.SumSquares, RMSNorm: kernel.RMSNormRows, RMSNormBack: kernel.RMSNormBackRows, LayerNorm: kernel.LayerNorm,
		SwiGLU: kernel.SwiGLU, SwiGLUBack: kernel.SwiGLUBack, GELU: kernel.GELU, GELUBack: kernel.GELUBack, ReLU2: kernel.ReLU2, ReLU2Back: kernel.ReLU2Back,
		Softcap: kernel.Softcap, SoftcapBack: kernel.SoftcapBack, CrossEntropy: kernel.CrossEntropy,
		Rope:           func(x, cos, sin []float32) { kernel.RopeHalf(x, len(x), 2*len(cos), cos, sin) },
		RopeNeighbours: func(x, cos, sin []float32) { kernel.RopeInterleaved(x, len(x), 2*len(cos), cos, sin) },
		AttendScratch:  (*kernel.CausalHead).Scratch,
		Attend: func(h *kernel.CausalHead, o Rows[float32], lse []float32, q, k, v Rows[float32], tmp []float32) {
			h.Forward(kernel.Rows(o), lse, kernel.Rows(q), kernel.Rows(k), kernel.Rows(v), tmp)
		},
		AttendBack: func(h *kernel.CausalHead, dq, dk, dv, do, o Rows[float32], lse []float32, q, k, v Rows[float32], tmp []float32) {
			h.Backward(kernel.Rows(dq), kernel.Rows(dk), kernel.Rows(dv), kernel.Rows(do), kernel.Rows(o), lse, kernel.Rows(q), kernel.Rows(k), kernel.Rows(v), tmp)
		},
	}
}
