package kernel

// RopeHalf rotates the pairs (j, j+rot/2) of one head vector x in place: the first rot of its dim values, rot even; cos and sin hold rot/2 values of the
// position (Su et al., 2021, in the layout of GPT-NeoX).
func RopeHalf(x []float32, dim, rot int, cos, sin []float32) {
	half := rot / 2
	ropeHalf(x[:half], x[half:rot], cos[:half], sin[:half])
}

func ropeHalfGeneric(a, b, cos, sin []float32) {
	for j, u := range a {
		v := b[j]
		a[j] = float32(u*cos[j]) - float32(v*sin[j])
		b[j] = float32(u*sin[j]) + float32(v*cos[j])
	}
}

// RopeInterleaved rotates the pairs (2j, 2j+1) of one head vector x in place; see RopeHalf.
func RopeInterleaved(x []float32, dim, rot int, cos, sin []float32) {
	ropeInterleaved(x[:rot], cos[:rot/2], sin[:rot/2])
}

func ropeInterleavedGeneric(x, cos, sin []float32) {
	for j, c := range cos {
		u, v := x[2*j], x[2*j+1]
		x[2*j] = float32(u*c) - float32(v*sin[j])
		x[2*j+1] = float32(u*sin[j]) + float32(v*c)
	}
}

// SwiGLU writes silu(gate)*up with silu(x) = x/(1+e^-x) (Shazeer, 2020). dst may be gate or up.
func SwiGLU(dst, gate, up []float32) { swiGLU(dst, gate[:len(dst)], up[:len(dst)]) }

func swiGLUGeneric(dst, gate, up []float32) {
	for i, g := range gate {
		dst[i] = sigmoidMul(g, g) * up[i]
	}
}

// ReLU2 writes max(0, x)^2; NaN stays NaN. dst may be x.
func ReLU2(dst, x []float32) { relu2(dst[:len(x)], x) }

func relu2Generic(dst, x []float32) {
	for i, v := range x {
		if v < 0 {
			v = 0
		}
		dst[i] = v * v
	}
}

// The tanh form of GELU is x*sigmoid(2u) with u = sqrt(2/pi)*(x + 0.044715x^3) (Hendrycks and Gimpel, 2016).
const (
	geluScale = 2 * 0.79788456080286535588
	geluCube  = 0.044715
)

// GELU writes the tanh form of GELU. dst may be x.
func GELU(dst, x []float32) { gelu(dst, x[:len(dst)]) }

func geluGeneric(dst, x []float32) {
	for i, v := range x {
		cube := float32(float32(v*v)*v) * geluCube
		dst[i] = sigmoidMul(v, (v+float32(cube))*geluScale)
	}
}

// Add writes a+b. dst may be a or b.
func Add(dst, a, b []float32) { add(dst, a[:len(dst)], b[:len(dst)]) }

func addGeneric(dst, a, b []float32) {
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

// Scale writes a*s. dst may be a.
func Scale(dst, a []float32, s float32) { scale(dst, a[:len(dst)], s) }

func scaleGeneric(dst, a []float32, s float32) {
	for i := range dst {
		dst[i] = a[i] * s
	}
}

// MulAdd writes a*b + c, the product rounded before the sum. dst may be any of them.
func MulAdd(dst, a, b, c []float32) { mulAdd(dst, a[:len(dst)], b[:len(dst)], c[:len(dst)]) }

func mulAddGeneric(dst, a, b, c []float32) {
	for i := range dst {
		dst[i] = float32(a[i]*b[i]) + c[i]
	}
}
