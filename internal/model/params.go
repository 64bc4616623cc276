package model

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
)

// Role says how an optimizer treats a parameter.
type Role uint8

const (
	RoleMatrix    Role = iota // a product's weights
	RoleEmbedding             // token_embd, pos_embd, output
	RoleGain                  // gain of a norm
	RoleBias
	RoleScalar // per-channel constants of an injection
	RoleFrozen // gets no gradient: frequency divisors, and the exit gate, which is fitted on the finished model
)

func (r Role) String() string {
	return word(r, "matrix", "embedding", "gain", "bias", "scalar", "frozen")
}

// Param is one tensor's place in the flat array of all parameters.
type Param struct {
	Name     string
	N, K     int // [N][K], row after row; K = 0 for a vector
	Off, Len int
	Role     Role
	Looped   bool // applied once in every loop: of a core block, of the injection, or of the norm between passes
}

// Layout lists the parameters in the order of Weights.Slots, at ascending offsets without gaps: one flat []float32 holds a model, another its
// gradients. The Spec must be valid.
func (s *Spec) Layout() []Param {
	var w Weights
	list, off := w.Slots(s), 0
	out := make([]Param, len(list))
	for i := range list {
		t := &list[i]
		n := int(t.Count())
		out[i] = Param{Name: t.Name, N: t.N, K: t.K, Off: off, Len: n, Role: t.role(), Looped: s.looped(t)}
		off += n
	}
	return out
}

// Size gives the length of the flat array.
func (s *Spec) Size() int {
	n, _ := s.Params()
	return int(n)
}

func (t *Slot) role() Role {
	switch name := t.Name; {
	case name == "rope_freqs.weight" || strings.HasPrefix(name, "exit_gate"):
		return RoleFrozen
	case name == "token_embd.weight" || name == "pos_embd.weight" || name == "output.weight":
		return RoleEmbedding
	case t.Matrix != nil:
		return RoleMatrix
	case strings.HasSuffix(name, ".bias"):
		return RoleBias
	case strings.HasSuffix(name, ".weight"):
		return RoleGain
	}
	return RoleScalar
}

func (s *Spec) looped(t *Slot) bool {
	switch {
	case t.Inside:
		return t.Part == Core
	case strings.HasPrefix(t.Name, "output_norm"):
		return s.LoopNorm == LoopNormBetween
	}
	return strings.HasPrefix(t.Name, "inject") || strings.HasPrefix(t.Name, "loop_norm")
}

// Constants of the initial weights.
const (
	branchShare = 0.3         // deviation of a branch's output matrix against that of other matrices
	maxAffinity = 13          // largest attention logit that the gains of query and key norms allow
	initDtBias  = 0.211935356 // ln(sqrt(5)-1): softplus of it is ln(5)/2, so that the decay at a_log 0 is sqrt(1/5)
)

// InitParams draws initial weights, the same bits on every machine:
//
//   - matrices are normal with deviation 1/sqrt(K); the output matrices of both branches 0.3 times that, so that a block starts near the identity;
//   - token embedding and head are normal with deviation 1/sqrt(Dim): logits of a normed state start with deviation 1, and Embed.Scale = sqrt(Dim)
//     gives streams of unit size; learned positions have a tenth of that;
//   - gains are 1, but those of query and key norms are such that no attention logit exceeds 13; biases are 0;
//   - the diagonal injection starts with decay sqrt(1/5) and B = I, as the readout C = I (Parcae, arXiv 2604.12946); per-channel factors at 1.
//
// Each tensor has a random stream of its own, from the seed and its name.
func InitParams(s *Spec, seed uint64) []float32 {
	flat := make([]float32, s.Size())
	for _, p := range s.Layout() {
		s.initParam(&p, flat[p.Off:p.Off+p.Len], seed)
	}
	return flat
}

func (s *Spec) initParam(p *Param, x []float32, seed uint64) {
	switch p.Role {
	case RoleMatrix, RoleEmbedding:
		s.initMatrix(p, x, seed)
	case RoleGain:
		fill(x, s.initGain(p.Name))
	case RoleScalar:
		fill(x, initScalar(p.Name))
	case RoleFrozen:
		if p.Name == "rope_freqs.weight" {
			fill(x, 1)
		}
	}
}

func (s *Spec) initMatrix(p *Param, x []float32, seed uint64) {
	if p.Name == "readout.weight" || p.Name == "inject.weight" && p.N == p.K {
		for i := range p.N {
			x[i*p.K+i] = 1
		}
		return
	}
	std := 1 / math.Sqrt(float64(p.K))
	switch {
	case strings.HasSuffix(p.Name, "attn_output.weight") || strings.HasSuffix(p.Name, "ffn_down.weight"):
		std *= branchShare
	case p.Name == "pos_embd.weight":
		std *= 0.1
	}
	h := fnv.New64a()
	h.Write([]byte(p.Name))
	drawNormal(x, float32(std), rand.New(rand.NewPCG(seed, h.Sum64())))
}

// drawNormal fills x with std times the sum of twelve 16-bit uniform numbers, centred (Irwin-Hall): variance 1 and normal to within 0.3 % of the
// distribution. It needs integers and one rounding only, where the logarithms of other methods differ between machines.
func drawNormal(x []float32, std float32, rng *rand.Rand) {
	const mean, unit = 12 * 65535 / 2, 1.0 / 65536
	for i := range x {
		sum := -mean
		for range 3 {
			for u, n := rng.Uint64(), 0; n < 4; n++ {
				sum += int(u & 0xffff)
				u >>= 16
			}
		}
		x[i] = float32(sum) * unit * std
	}
}

func (s *Spec) initGain(name string) float32 {
	if !strings.HasSuffix(name, "attn_q_norm.weight") && !strings.HasSuffix(name, "attn_k_norm.weight") {
		return 1
	}
	// Two normed heads of width d have a product of at most d times both gains.
	h := s.heads()
	return float32(math.Sqrt(maxAffinity / (float64(h.Dim) * float64(h.Scale))))
}

func initScalar(name string) float32 {
	switch name {
	case "inject.a_log":
		return 0
	case "inject.dt_bias":
		return initDtBias
	}
	return 1
}

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}

// FromParams makes a model with f32 weights out of a flat array, which is copied.
func FromParams(s *Spec, flat []float32) (*Model, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if len(flat) != s.Size() {
		return nil, fault.New(fault.Invalid, "params", "model: params must be %d values, are %d", s.Size(), len(flat))
	}
	w := &Weights{}
	for _, t := range w.Slots(s) {
		vals := flat[:t.Count()]
		flat = flat[t.Count():]
		if t.Vector != nil {
			*t.Vector = append([]float32(nil), vals...)
			continue
		}
		m, err := matrixOf(t.N, t.K, vals)
		if err != nil {
			w.Free(s)
			return nil, err
		}
		*t.Matrix = m
	}
	return New(*s, w)
}

func matrixOf(n, k int, vals []float32) (*kernel.Matrix, error) {
	data := make([]byte, 0, 4*len(vals))
	for _, v := range vals {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return kernel.NewMatrix(kernel.F32, n, k, data)
}

// ParamsOf gives the weights of a model as a flat array, dequantised.
func ParamsOf(m *Model) []float32 {
	flat, off := make([]float32, m.Spec.Size()), 0
	for _, t := range m.W.Slots(&m.Spec) {
		x := flat[off : off+int(t.Count())]
		off += len(x)
		if t.Vector != nil {
			copy(x, *t.Vector)
			continue
		}
		for i := range t.N {
			(*t.Matrix).Row(x[i*t.K:(i+1)*t.K], i)
		}
	}
	return flat
}
