package sample

import (
	"math"

	"tinyloop/internal/kernel"
)

// Distribute writes to dst, one value an id, the distribution that Pick would draw from: after penalties, bias, temperature and truncation. Greedy
// puts everything on one token. dst has the length given to New.
func (s *Sampler) Distribute(dst, logits []float32, p *Params, prompt, output []int32) {
	clear(dst)
	row := logits
	if p.adjusts() {
		row = s.adjust(logits, p, prompt, output)
	}
	best := argmax(row)
	if !alive(row[best]) {
		dst[lastResort(logits, p.Mask)] = 1
		return
	}
	if !(p.Temperature > 0) {
		dst[best] = 1
		return
	}
	keep, total := s.keep(row, p, best)
	for _, id := range keep {
		dst[id] = float32(float64(s.weight[id]) / total)
	}
}

// Invert gives the token at which the running sum of dist passes u times its whole, for u in [0, 1): a draw from dist, which need not be
// normalised. ok is false where dist has no mass.
func Invert(dist []float32, u float64) (id int32, ok bool) {
	total := 0.0
	for _, v := range dist {
		total += float64(v)
	}
	target, sum := u*total, 0.0
	for i, v := range dist {
		if v <= 0 {
			continue
		}
		id, ok = int32(i), true
		if sum += float64(v); sum > target {
			break
		}
	}
	return id, ok
}

// Entropy is that of the model's distribution, in nats.
func (s *Sampler) Entropy(logits []float32) float64 {
	top := logits[argmax(logits)]
	if !alive(top) {
		return 0
	}
	total := kernel.Weigh(s.weight, logits, top, 1)
	mean := 0.0
	for i, w := range s.weight {
		if w > 0 {
			mean += float64(w) * float64(logits[i]-top)
		}
	}
	return math.Log(total) - mean/total
}

// Divergence is the Kullback-Leibler divergence of the distribution of before from that of logits, in nats: 0 where they are the same. It is
// infinite where before excludes what logits does not.
func (s *Sampler) Divergence(logits, before []float32) float64 {
	top := logits[argmax(logits)]
	if !alive(top) {
		return math.Inf(1)
	}
	was := distributionOf(before)
	total := kernel.Weigh(s.weight, logits, top, 1)
	sum := 0.0
	for i, w := range s.weight {
		if w > 0 {
			sum += float64(w) * ((float64(logits[i]) - float64(top)) - (finite(before[i]) - was.max))
		}
	}
	return sum/total - math.Log(total) + was.logSum
}
