package eval

import (
	"math"

	"tinyloop/internal/arch"
	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
)

// The target of a state's gate and the fit of it.
const (
	gateSlope  = 50.0  // the target to go on is sigmoid(gateSlope * (improvement - gateWorth))
	gateWorth  = 0.005 // nats that are worth the passes still to come
	gateDecay  = 1e-3  // of the squared weights, over features of unit variance
	gateSteps  = 300   // of Adam, over all states each
	gateRate   = 0.05  // at the first step; it falls to 0 linearly
	maxGateMem = 1 << 30
)

// GateFit collects the states of a finished model and fits its exit gate to them. The model itself stays as it is: a gate that is learned with the model
// takes part in what the model learns, one that is fitted afterwards cannot harm it.
//
// A state after pass t of R may go on with probability sigmoid(50 (I - 0.005)), where I is what the loss of the next token still falls by, max(0, L_t - L_R).
// The second stage of Ouro (arXiv 2510.25741) has the fall of one pass for I; the fall up to the last one keeps passes that only prepare a later one.
type GateFit struct {
	dim    int
	states []float32 // [n][dim]
	stay   []float32 // [n] targets
}

// NewGateFit begins a fit for states of dim values.
func NewGateFit(dim int) *GateFit { return &GateFit{dim: dim} }

// Room says whether n more states may be kept: their memory is bounded.
func (g *GateFit) Room(n int) error {
	if have := int64(len(g.stay)+n) * int64(g.dim+1) * 4; have > maxGateMem {
		return fault.New(fault.Invalid, "tokens", "the states of that many tokens take %d bytes, the limit is %d: look at fewer", have, int64(maxGateMem))
	}
	return nil
}

// Add adds a state: loss is that of the next token as read after its pass, last as read after the last pass, in nats.
func (g *GateFit) Add(state []float32, loss, last float64) {
	g.states = append(g.states, state...)
	g.stay = append(g.stay, float32(sigmoid(gateSlope*(max(0, loss-last)-gateWorth))))
}

// GateReport says how good a gate is: cross entropies with the targets, in nats. A gate that looks at the state is worth what lies between them.
type GateReport struct {
	States   int
	Loss     float64 // of the gate
	Constant float64 // of the best gate that does not look
}

// Fit fits by Adam over all states at a time; the same states give the same bits.
func (g *GateFit) Fit() (*arch.Gate, GateReport, error) {
	n := len(g.stay)
	if n < 2 {
		return nil, GateReport{}, fault.New(fault.Invalid, "tokens", "%d states are too few for a gate, at least 2 are needed", n)
	}
	mean, scale := g.standardise()
	w, grad := make([]float32, g.dim+1), make([]float32, g.dim+1) // the bias last
	m, v := make([]float64, len(w)), make([]float64, len(w))
	loss := 0.0
	for step := range gateSteps {
		loss = g.gradient(w, grad)
		rate := gateRate * (1 - float64(step)/gateSteps)
		for i, x := range grad {
			m[i] += 0.1 * (float64(x) - m[i])
			v[i] += 0.01 * (float64(x)*float64(x) - v[i])
			a, b := 1-math.Pow(0.9, float64(step+1)), 1-math.Pow(0.99, float64(step+1))
			w[i] -= float32(rate * (m[i] / a) / (math.Sqrt(v[i]/b) + 1e-8))
		}
	}
	out := &arch.Gate{Weight: make([]float32, g.dim), Bias: w[g.dim]}
	for i := range out.Weight {
		out.Weight[i] = w[i] * scale[i]
		out.Bias -= w[i] * scale[i] * mean[i]
	}
	return out, GateReport{States: n, Loss: loss, Constant: g.constant()}, nil
}

// standardise gives each feature mean 0 and variance 1 and tells what it had; a feature that never changes becomes 0.
func (g *GateFit) standardise() (mean, scale []float32) {
	n := float64(len(g.stay))
	sum, square := make([]float64, g.dim), make([]float64, g.dim)
	for i, x := range g.states {
		sum[i%g.dim] += float64(x)
	}
	for i, x := range g.states {
		d := float64(x) - sum[i%g.dim]/n
		square[i%g.dim] += d * d
	}
	mean, scale = make([]float32, g.dim), make([]float32, g.dim)
	for k := range mean {
		mean[k] = float32(sum[k] / n)
		if deviation := math.Sqrt(square[k] / n); deviation > 1e-6 {
			scale[k] = float32(1 / deviation)
		}
	}
	for i := range g.states {
		k := i % g.dim
		g.states[i] = (g.states[i] - mean[k]) * scale[k]
	}
	return mean, scale
}

// gradient gives the mean cross entropy of leaving with probability sigmoid(w . x + b) against the targets, and its gradient.
func (g *GateFit) gradient(w, grad []float32) (loss float64) {
	n, b := float64(len(g.stay)), w[g.dim]
	for k := range g.dim {
		grad[k] = 2 * gateDecay * w[k]
	}
	grad[g.dim] = 0
	for i, stay := range g.stay {
		x := g.states[i*g.dim : (i+1)*g.dim]
		z := float64(kernel.Dot(w[:g.dim], x) + b)
		leave := 1 - float64(stay)
		loss += (softplus(z) - leave*z) / n
		d := float32((sigmoid(z) - leave) / n)
		for k, v := range x {
			grad[k] += d * v
		}
		grad[g.dim] += d
	}
	return loss
}

// constant is the cross entropy of the best gate that leaves always with the same probability.
func (g *GateFit) constant() float64 {
	p := 0.0
	for _, s := range g.stay {
		p += float64(s)
	}
	p /= float64(len(g.stay))
	h := 0.0
	for _, x := range []float64{p, 1 - p} {
		if x > 0 {
			h -= x * math.Log(x)
		}
	}
	return h
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }
