package nn

import (
	"math"

	"tinyloop/internal/kernel"
)

// Portable gives the inner loops as plain Go, by their definitions: what derivatives are checked with.
func Portable[F Float]() *Ops[F] {
	return &Ops[F]{
		PackLen: packLen, PackNT: packNT[F], PackNN: packNN[F], Gemm: gemm[F], GemmTN: gemmTN[F],
		GemmTNScratch: func(m, n, k int) int { return 0 },
		Add:           add[F], AddScaled: axpy[F], AddProduct: addProduct[F], MulAdd: mulAdd[F], Scale: scale[F], SumSquares: sumSquares[F],
		RMSNorm: rmsNorm[F], RMSNormBack: rmsNormBack[F], LayerNorm: layerNorm[F],
		SwiGLU: swiGLU[F], SwiGLUBack: swiGLUBack[F], GELU: gelu[F], GELUBack: geluBack[F], ReLU2: relu2[F], ReLU2Back: relu2Back[F],
		Softcap: softcap[F], SoftcapBack: softcapBack[F], CrossEntropy: crossEntropy[F], Rope: rope[F], RopeNeighbours: ropeNeighbours[F],
		AttendScratch: func(h *kernel.CausalHead) int { return 2 * h.T }, Attend: attend[F], AttendBack: attendBack[F],
	}
}

const panel = 16

func packLen(n, k int) int { return (n + panel - 1) / panel * panel * k }

func packNT[F Float](dst, b []F, ldb, n, k int) {
	clear(dst[:packLen(n, k)])
	for i := range n {
		out := dst[i/panel*panel*k+i%panel:]
		for j, v := range b[i*ldb : i*ldb+k] {
			out[j*panel] = v
		}
	}
}

func packNN[F Float](dst, b []F, ldb, n, k int) {
	clear(dst[:packLen(n, k)])
	for j := range k {
		for i, v := range b[j*ldb : j*ldb+n] {
			dst[i/panel*panel*k+j*panel+i%panel] = v
		}
	}
}

func gemm[F Float](c []F, ldc int, a []F, lda, m int, bp []F, n, k int, add bool) {
	for p := 0; p < n; p += panel {
		b, width := bp[p*k:], min(panel, n-p)
		for i := range m {
			var sum [panel]F
			for j, v := range a[i*lda : i*lda+k] {
				row := (*[panel]F)(b[j*panel:])
				for l := range sum {
					sum[l] += v * row[l]
				}
			}
			out := c[i*ldc+p : i*ldc+p+width]
			for l := range out {
				if add {
					sum[l] += out[l]
				}
				out[l] = sum[l]
			}
		}
	}
}

func gemmTN[F Float](c []F, ldc int, a []F, lda int, b []F, ldb, m, n, k int, add bool, _ []F) {
	for i := range m {
		out := c[i*ldc : i*ldc+n]
		if !add {
			clear(out)
		}
		for j := range k {
			axpy(out, b[j*ldb:j*ldb+n], a[j*lda+i])
		}
	}
}

func add[F Float](dst, a, b []F) {
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

func axpy[F Float](dst, x []F, s F) {
	for i, v := range x[:len(dst)] {
		dst[i] += s * v
	}
}

func scale[F Float](dst, a []F, s F) {
	for i := range dst {
		dst[i] = a[i] * s
	}
}

func dot[F Float](a, b []F) (sum F) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

func addProduct[F Float](dst, a, b []F) {
	for i := range dst {
		dst[i] += a[i] * b[i]
	}
}

func mulAdd[F Float](dst, a, b, c []F) {
	for i := range dst {
		dst[i] = a[i]*b[i] + c[i]
	}
}

func sumSquares[F Float](x []F) float64 { return float64(dot(x, x)) }

func rmsNorm[F Float](dst []F, ldd int, x []F, ldx int, gain []F, n, rows int, eps F, inv []F) {
	for r := range rows {
		row := x[r*ldx : r*ldx+n]
		inv[r] = inverse(dot(row, row), n, eps)
		for i, v := range row {
			dst[r*ldd+i] = v * inv[r] * gain[i]
		}
	}
}

func rmsNormBack[F Float](dx []F, lddx int, dgain, dy []F, lddy int, x []F, ldx int, gain, inv []F, n, rows int, add bool) {
	for r := range rows {
		rmsNormBackRow(dx[r*lddx:r*lddx+n], dgain, dy[r*lddy:r*lddy+n], x[r*ldx:r*ldx+n], gain, inv[r], add)
	}
}

// With u = dy*gain: dx = inv*u - x*inv^3*mean(u*x).
func rmsNormBackRow[F Float](dx, dgain, dy, x, gain []F, inv F, add bool) {
	var sum F
	for i, v := range x {
		sum += dy[i] * v * gain[i]
		dgain[i] += dy[i] * v * inv
	}
	c := sum * inv * inv * inv / F(len(x))
	for i, v := range x {
		d := dy[i]*gain[i]*inv - v*c
		if add {
			d += dx[i]
		}
		dx[i] = d
	}
}

func layerNorm[F Float](dst, x, gain, bias []F, eps F) {
	m, inv := moments(x, eps)
	for i, v := range x {
		dst[i] = (v-m)*inv*gain[i] + bias[i]
	}
}

func exp[F Float](x F) F { return F(math.Exp(float64(x))) }

func sigmoid[F Float](x F) F { return 1 / (1 + exp(-x)) }

func swiGLU[F Float](dst, gate, up []F) {
	for i, g := range gate {
		dst[i] = g * sigmoid(g) * up[i]
	}
}

// silu'(g) = s*(1+g*(1-s)) with s the sigmoid.
func swiGLUBack[F Float](dgate, dup, dy, gate, up []F) {
	for i, g := range gate {
		s := sigmoid(g)
		d := dy[i]
		dgate[i], dup[i] = d*up[i]*s*(1+g*(1-s)), d*g*s
	}
}

// GELU in its tanh form is x*sigmoid(z) with z = a*(x + b*x^3).
const (
	geluA = 2 * 0.79788456080286535588
	geluB = 0.044715
)

func gelu[F Float](dst, x []F) {
	for i, v := range x {
		dst[i] = v * sigmoid(geluA*(v+geluB*v*v*v))
	}
}

func geluBack[F Float](dx, dy, x []F) {
	for i, v := range x {
		s := sigmoid(geluA * (v + geluB*v*v*v))
		dx[i] = dy[i] * (s + v*s*(1-s)*geluA*(1+3*geluB*v*v))
	}
}

func relu2[F Float](dst, x []F) {
	for i, v := range x {
		v = max(v, 0)
		dst[i] = v * v
	}
}

func relu2Back[F Float](dx, dy, x []F) {
	for i, v := range x {
		dx[i] = dy[i] * 2 * max(v, 0)
	}
}

func softcap[F Float](x []F, limit F) {
	for i, v := range x {
		x[i] = limit * F(math.Tanh(float64(v/limit)))
	}
}

func softcapBack[F Float](dx, y []F, limit F) {
	for i := range dx {
		t := y[i] / limit
		dx[i] *= 1 - t*t
	}
}

// softmax replaces x by its softmax and gives the largest value and the log of the sum.
func softmax[F Float](x []F) (top F, lse float64) {
	top = x[0]
	for _, v := range x {
		top = max(top, v)
	}
	sum := 0.0
	for i, v := range x {
		x[i] = exp(v - top)
		sum += float64(x[i])
	}
	scale(x, x, F(1/sum))
	return top, float64(top) + math.Log(sum)
}

func crossEntropy[F Float](x []F, target int, zloss, factor F) (nll, lse float64, hit bool) {
	at := x[target]
	top, lse := softmax(x)
	scale(x, x, F(float64(factor)*(1+2*float64(zloss)*lse)))
	x[target] -= factor
	return lse - float64(at), lse, at >= top
}

// scores gives the capped scores of query t with the positions it sees, from first on.
func scores[F Float](h *kernel.CausalHead, q, k Rows[F], t int, tmp []F) (first int, s []F) {
	if h.Start != nil {
		first = int(h.Start[t])
	}
	if h.Window > 0 {
		first = max(first, t-h.Window+1)
	}
	s = tmp[first : t+1]
	for i := range s {
		s[i] = F(h.Scale) * dot(q.row(t, h.Dim), k.row(first+i, h.Dim))
	}
	if h.Softcap > 0 {
		softcap(s, F(h.Softcap))
	}
	return first, s
}

func attend[F Float](h *kernel.CausalHead, o Rows[F], lse []F, q, k, v Rows[F], tmp []F) {
	for t := range h.T {
		first, p := scores(h, q, k, t, tmp)
		_, l := softmax(p)
		lse[t] = F(l)
		out := o.row(t, h.Dim)
		clear(out)
		for i, w := range p {
			axpy(out, v.row(first+i, h.Dim), w)
		}
	}
}

// With P the probabilities and D = rowsum(dO*O): dS = P*(dO V' - D), dQ = dS K, dK = dS' Q, dV = P' dO.
func attendBack[F Float](h *kernel.CausalHead, dq, dk, dv, do, o Rows[F], lse []F, q, k, v Rows[F], tmp []F) {
	for t := range h.T {
		first, s := scores(h, q, k, t, tmp)
		out, dout := dq.row(t, h.Dim), do.row(t, h.Dim)
		clear(out)
		d := dot(dout, o.row(t, h.Dim))
		for i, x := range s {
			p := exp(x - lse[t])
			ds := tmp[h.T:][:1]
			ds[0] = p * (dot(dout, v.row(first+i, h.Dim)) - d)
			if h.Softcap > 0 {
				softcapBack(ds, s[i:i+1], F(h.Softcap))
			}
			g := ds[0] * F(h.Scale)
			axpy(out, k.row(first+i, h.Dim), g)
			axpy(dk.row(first+i, h.Dim), q.row(t, h.Dim), g)
			axpy(dv.row(first+i, h.Dim), dout, p)
		}
	}
}

func rope[F Float](x, cos, sin []F) {
	a, b := x[:len(cos)], x[len(cos):2*len(cos)]
	for j, c := range cos {
		u, v := a[j], b[j]
		a[j], b[j] = u*c-v*sin[j], u*sin[j]+v*c
	}
}

func ropeNeighbours[F Float](x, cos, sin []F) {
	for j, c := range cos {
		u, v := x[2*j], x[2*j+1]
		x[2*j], x[2*j+1] = u*c-v*sin[j], u*sin[j]+v*c
	}
}
