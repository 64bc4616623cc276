package model

import (
	"math"

	"tinyloop/internal/fault"
)

// Constants of the induction start.
const (
	inductCommon  = 0.7 // part of every token's embedding that all share, against the size of its own
	inductPairs   = 4   // the fastest rotations of a head, which tell neighbours apart
	inductFast    = 6   // rotations that turn too much between a key and a far query to be matched by
	inductSharp   = 2   // size of the shared part's weights in queries and keys, against that of other weights
	inductNoise   = 0.1 // what is left of the random weights beside it
	inductFound   = 3   // size of what a lookup adds, likewise
	inductCarried = 2   // size of what is carried, against that of what the token itself has in its place
)

// CanInduct says why a model cannot start with induction heads; nil when it can.
func (s *Spec) CanInduct() error {
	b := &s.Block
	switch {
	case s.Prelude == 0 || s.Core == 0:
		return fault.New(fault.Invalid, "model.init", "model.init induction needs a prelude and a core block, there are %d and %d", s.Prelude, s.Core)
	case !b.QKNorm || b.Pos != RopeHalf || b.Rot() != b.HeadDim || b.KVHeads != b.Heads:
		return fault.New(fault.Invalid, "model.init", "model.init induction needs qk_norm, rotary positions of whole heads, and a key head for each query head")
	case s.Dim <= 2*b.HeadDim || b.Hidden < s.Dim:
		return fault.New(fault.Invalid, "model.init", "model.init induction needs a dim of more than two heads, and hidden of at least dim; they are %d, %d and %d", s.Dim, b.HeadDim, b.Hidden)
	case b.HeadDim < 4*inductPairs:
		return fault.New(fault.Invalid, "model.init", "model.init induction needs head_dim of at least %d, is %d", 4*inductPairs, b.HeadDim)
	}
	return nil
}

// Induct changes initial weights so that some heads of the first prelude block and of the first core block begin as what is called an induction
// head (Olsson and others 2022, arXiv 2209.11895), the circuit by which a transformer looks up in its context what followed something before.
// Small models find it late or, within the budget of a small machine, never; started there they use it from the first steps on, and each loop can
// become one lookup. To start weights near what trained ones look like is mimetic initialisation (Trockman and Kolter 2023, arXiv 2305.09828).
// Everything is trained as ever afterwards.
//
//	embedding              every token gets a shared direction u besides its own random one
//	prelude 0, head h      q and k read u only, q turned back by c_h positions of the fastest rotations: it attends c_h tokens back, and
//	                       carries what it finds from S to T_h, where S, T_0, T_1, … are subspaces as wide as a head, at right angles
//	core 0, head h         q reads S, what the token itself is, and k reads T_h, what stood c_h before: it attends to what followed the same
//	                       token at that distance, and adds that to S, where the next loop's query reads it
//
// The weights must be those of InitParams, and CanInduct nil.
func (s *Spec) Induct(flat []float32) {
	at := map[string][]float32{}
	for _, p := range s.Layout() {
		at[p.Name] = flat[p.Off : p.Off+p.Len]
	}
	// How far a value stands behind its key at first: "Mia Paris", "Mia is in Paris", "Mia = Paris".
	distances := [...]int{1, 3, 2}
	d, n := s.Dim, s.Block.HeadDim
	shareDirection(at["token_embd.weight"], d)
	heads := min(len(distances), s.Block.Heads, (d-1)/n-1)
	axes := orthonormal(at["core.0.ffn_up.weight"], 1+(heads+1)*n, d) // any random numbers serve
	for h := range heads {
		s.previousHead(at, h, distances[h])
		s.carry(at, h, axes[d:], axes[((h+1)*n+1)*d:])
	}
}

// orthonormal makes n vectors of length d at right angles from the first n of x: Gram and Schmidt's method. The conversions keep compilers from
// fusing a product with a sum, so that the bits are the same everywhere.
func orthonormal(x []float32, n, d int) []float64 {
	out := make([]float64, n*d)
	for i := range n {
		v := out[i*d : (i+1)*d]
		for k := range v {
			if v[k] = float64(x[i*d+k]); i == 0 {
				v[k] = float64(sharedSign(k))
			}
		}
		for j := range i {
			w := out[j*d : (j+1)*d]
			c := dot(v, w)
			for k := range v {
				v[k] -= float64(c * w[k])
			}
		}
		c := 1 / math.Sqrt(dot(v, v))
		for k := range v {
			v[k] *= c
		}
	}
	return out
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		sum += float64(x * b[i])
	}
	return sum
}

// sharedSign is component i of u, times sqrt(dim): a fixed pattern of signs.
func sharedSign(i int) float32 { return 1 - 2*float32(uint32(i)*2654435761>>16&1) }

func shareDirection(embedding []float32, dim int) {
	u := inductCommon / float32(math.Sqrt(float64(dim)))
	for i := range embedding {
		embedding[i] += u * sharedSign(i%dim)
	}
}

// previousHead makes head h of the first prelude block attend that many positions back. The rotations of position are those of package nn: a pair
// (j, j+dim/2) turns by an angle theta_j a position, so that a query turned back by c theta_j meets best the key of c positions before.
func (s *Spec) previousHead(at map[string][]float32, h, back int) {
	d, n := s.Dim, s.Block.HeadDim
	q, k := at["prelude.0.attn_q.weight"], at["prelude.0.attn_k.weight"]
	size := inductSharp / math.Sqrt(float64(d))
	for i := range n {
		j := i % (n / 2)
		turn := float64(back) * math.Pow(float64(s.Block.RopeTheta), -2*float64(j)/float64(n))
		var a, b float64
		switch {
		case j >= inductPairs:
		case i < n/2:
			a, b = math.Cos(turn), 1
		default:
			a = -math.Sin(turn)
		}
		for x := range d {
			w := (h*n+i)*d + x
			q[w] = q[w]*inductNoise + float32(a*size)*sharedSign(x)
			k[w] = k[w]*inductNoise + float32(b*size)*sharedSign(x)
		}
	}
}

// carry sets what the heads h of both blocks read and write: own are the axes of S, there those of T_h.
func (s *Spec) carry(at map[string][]float32, h int, own, there []float64) {
	d, n, wide := s.Dim, s.Block.HeadDim, s.Block.Heads*s.Block.HeadDim
	pv, po := at["prelude.0.attn_v.weight"], at["prelude.0.attn_output.weight"]
	cq, ck, cv, co := at["core.0.attn_q.weight"], at["core.0.attn_k.weight"], at["core.0.attn_v.weight"], at["core.0.attn_output.weight"]
	for i := range n {
		for x := range d {
			row, col := (h*n+i)*d+x, x*wide+h*n+i
			read, write := float32(own[i*d+x]), float32(there[i*d+x])
			pv[row], po[col] = read, inductCarried*write
			if i%(n/2) < inductFast {
				cq[row] *= inductNoise
				ck[row] *= inductNoise
			} else {
				cq[row], ck[row] = read, write
			}
			cv[row], co[col] = read, inductFound*read
		}
	}
}
