package train

import (
	"math"
	"math/rand/v2"
)

// Streams of random numbers of a run. A number depends on the seed, its stream, the step and its place in the step, and on nothing drawn before.
const (
	streamPass  = iota // draws of a micro-batch: its loops and its extra losses
	streamNoise        // noise of quantisation
)

// source gives the generator of one place; the value is the caller's, so that nothing is allocated.
func source(seed uint64, stream, step, place int) (p rand.PCG) {
	p.Seed(seed^uint64(stream)<<56, uint64(step)<<20|uint64(place))
	return p
}

// unit gives the next number in [0, 1).
func unit(p *rand.PCG) float64 { return float64(p.Uint64()>>11) / (1 << 53) }

// most gives the greatest loop count at a part of the run, 0 to 1; level is the greatest difficulty of the curriculum, 0 without one: what takes h
// steps cannot be learned in fewer than h loops.
func (l *LoopsConfig) most(progress float64, level int) int {
	n := l.Max
	if l.Ramp > 0 && progress < l.Ramp {
		n = 1 + int(float64(l.Max)*progress/l.Ramp)
	}
	return min(max(n, level), l.Max)
}

// draw gives a loop count from 1 to most: a share of them evenly, the others 1 + Poisson(Mean-1), cut to the range.
func (l *LoopsConfig) draw(p *rand.PCG, most int) int {
	if unit(p) < l.Uniform {
		return 1 + int(unit(p)*float64(most))
	}
	lambda := l.Mean - 1
	weight, total := math.Exp(-lambda), 0.0
	for k := range most {
		total += weight
		weight *= lambda / float64(k+1)
	}
	u := unit(p) * total
	weight = math.Exp(-lambda)
	for k := range most {
		if u < weight {
			return k + 1
		}
		u -= weight
		weight *= lambda / float64(k+1)
	}
	return most
}
