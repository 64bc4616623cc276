package sample

import (
	"math"
	mathbits "math/bits"
	"slices"

	"tinyloop/internal/kernel"
)

// Sampler holds the scratch of one owner: no method allocates once the scratch has its size. It is not safe for concurrent use.
type Sampler struct {
	logits []float32 // the row after penalties and bias, NaN replaced
	weight []float32 // exp((logit-max)/temperature) of the candidates, by id
	all    []int32   // 0, 1, 2, …
	order  []int32   // candidate ids, ascending
	tied   []int32   // candidates at the edge of the nucleus, permuted by partial selection
	peaks  []float32 // largest logit of each block of the row
	mass   []float64 // weight by bucket
	count  []int32   // occurrences of a token; all zero between uses
	seen   []int32   // ids whose count is not zero: the undo list
	top    []Alt
}

// New makes a Sampler for rows of vocab logits.
func New(vocab int) *Sampler {
	s := &Sampler{
		logits: make([]float32, vocab), weight: make([]float32, vocab), all: make([]int32, vocab), order: make([]int32, vocab), tied: make([]int32, 0, vocab),
		peaks: make([]float32, 0, vocab/minPeakBlock+1), mass: make([]float64, buckets),
		count: make([]int32, vocab), seen: make([]int32, 0, vocab), top: make([]Alt, 0, 32),
	}
	for i := range s.all {
		s.all[i] = int32(i)
	}
	return s
}

// Pick draws the token of output position pos of choice number choice. prompt and output are the tokens so far; logits is not changed and
// must have the length given to New.
//
// The order is fixed: repetition penalty, presence and frequency penalty, bias, mask; then temperature, top_k, top_p, min_p; then one inverse-CDF
// draw over the tokens that are left, in ascending id, with Uniform(p.Seed, choice, pos). Of equal logits the lower id is the better one,
// in greedy choice as in every truncation. A NaN counts as minus infinity, which is never drawn. If nothing is left (everything banned), the answer is the
// greedy choice of the row as the model gave it, among the ids that the mask allows. The weight of a token is kernel.Exp of (logit-max)*(1/temperature) in float32, weights are added in float64.
func (s *Sampler) Pick(logits []float32, p *Params, choice, pos int, prompt, output []int32) Choice {
	id := s.Draw(logits, p, choice, pos, prompt, output)
	if !p.Logprobs {
		return Choice{ID: id}
	}
	return s.Score(logits, id, p.Top)
}

// Score gives the log-probability of id, and the top most probable alternatives, without drawing. The sum behind it runs in float64 in
// a fixed order, so it does not depend on anything but the row. An id outside the row has LogprobFloor.
func (s *Sampler) Score(logits []float32, id int32, top int) Choice {
	d := distributionOf(logits)
	c := Choice{ID: id, Logprob: LogprobFloor}
	if id >= 0 && int(id) < len(logits) {
		c.Logprob = d.logprob(logits[id])
	}
	if top > 0 {
		c.Top = s.report(logits, min(top, len(logits)), d)
	}
	return c
}

// Draw is Pick without the report.
func (s *Sampler) Draw(logits []float32, p *Params, choice, pos int, prompt, output []int32) int32 {
	row := logits
	if p.adjusts() {
		row = s.adjust(logits, p, prompt, output)
	}
	best := argmax(row)
	if !alive(row[best]) {
		return lastResort(logits, p.Mask)
	}
	if !(p.Temperature > 0) {
		return best
	}
	return s.spin(row, p, best, Uniform(p.Seed, choice, pos))
}

// Rank lists the n most probable tokens after penalties and bias, the best first. The list is valid until the next call.
func (s *Sampler) Rank(logits []float32, p *Params, n int, prompt, output []int32) []int32 {
	row := logits
	if p.adjusts() {
		row = s.adjust(logits, p, prompt, output)
	}
	ids := s.best(row, min(n, len(row)))
	slices.SortFunc(ids, func(a, b int32) int {
		if better(row, a, b) {
			return -1
		}
		return 1
	})
	return ids
}

// adjusts says whether p changes logits before the temperature.
func (p *Params) adjusts() bool {
	return p.repeats() || p.Presence != 0 || p.Frequency != 0 || len(p.Bias) > 0 || p.Mask != nil
}

func (p *Params) repeats() bool { return p.Repeat > 0 && p.Repeat != 1 }

// adjust applies penalties and bias to a copy of the row.
func (s *Sampler) adjust(logits []float32, p *Params, prompt, output []int32) []float32 {
	row := s.logits
	copy(row, logits)
	if p.repeats() {
		s.repeat(row, p, prompt, output)
	}
	if p.Presence != 0 || p.Frequency != 0 {
		s.tally(output)
		for _, id := range s.seen {
			row[id] -= p.Presence + p.Frequency*float32(s.count[id])
		}
		s.clear()
	}
	for _, b := range p.Bias {
		if b.ID < 0 || int(b.ID) >= len(row) {
			continue
		}
		if b.Value <= Ban {
			row[b.ID] = float32(math.Inf(-1))
		} else {
			row[b.ID] += b.Value
		}
	}
	if p.Mask != nil {
		narrow(row, p.Mask)
	}
	return row
}

// narrow takes the ids out of a row that a mask does not allow.
func narrow(row []float32, mask []uint64) {
	for w, bits := range mask {
		if bits == ^uint64(0) {
			continue
		}
		block := row[min(64*w, len(row)):min(64*w+64, len(row))]
		for i := range block {
			if bits>>i&1 == 0 {
				block[i] = float32(math.Inf(-1))
			}
		}
	}
}

// lastResort is the answer where penalties, bias and mask leave nothing: the best of the row as it was, the lowest id where all of those that may be
// drawn are impossible.
func lastResort(logits []float32, mask []uint64) int32 {
	if mask == nil {
		return argmax(logits)
	}
	best := int32(-1)
	for w, bits := range mask {
		for ; bits != 0; bits &= bits - 1 {
			id := int32(64*w + mathbits.TrailingZeros64(bits))
			if int(id) < len(logits) && (best < 0 || better(logits, id, best)) {
				best = id
			}
		}
	}
	return max(best, 0)
}

// repeat divides positive and multiplies negative logits of the tokens in the last RepeatLast of prompt and output (Keskar et al. 2019, CTRL).
func (s *Sampler) repeat(row []float32, p *Params, prompt, output []int32) {
	last := p.RepeatLast
	if last == 0 {
		last = 64
	}
	if last < 0 {
		last = len(prompt) + len(output)
	}
	o := output[max(0, len(output)-last):]
	s.tally(o)
	s.tally(prompt[max(0, len(prompt)-(last-len(o))):])
	for _, id := range s.seen {
		if row[id] > 0 {
			row[id] /= p.Repeat
		} else {
			row[id] *= p.Repeat
		}
	}
	s.clear()
}

// tally adds the tokens to count; ids outside the row are not counted.
func (s *Sampler) tally(ids []int32) {
	for _, id := range ids {
		if id < 0 || int(id) >= len(s.count) {
			continue
		}
		if s.count[id] == 0 {
			s.seen = append(s.seen, id)
		}
		s.count[id]++
	}
}

func (s *Sampler) clear() {
	for _, id := range s.seen {
		s.count[id] = 0
	}
	s.seen = s.seen[:0]
}

// spin draws at a temperature above zero. best is the greedy choice of row, which is above minus infinity.
func (s *Sampler) spin(row []float32, p *Params, best int32, u float64) int32 {
	keep, total := s.keep(row, p, best)
	return s.invert(keep, u*total)
}

// keep lists the tokens that truncation leaves, in ascending id, with their weights together.
func (s *Sampler) keep(row []float32, p *Params, best int32) (keep []int32, total float64) {
	keep, total = s.weigh(row, p, min(row[best], math.MaxFloat32))
	if p.TopP > 0 && p.TopP < 1 {
		keep = s.nucleus(keep, row, float64(p.TopP), total)
		total = s.sum(keep)
	}
	if p.MinP > 0 {
		keep = s.atLeast(keep, min(p.MinP, 1)) // the best one has weight 1
		total = s.sum(keep)
	}
	return keep, total
}

// weigh lists the k best tokens, or with k off all, in ascending id, and gives their weights, which stand in s.weight, together. top is the largest logit.
func (s *Sampler) weigh(row []float32, p *Params, top float32) (keep []int32, total float64) {
	inv := min(1/p.Temperature, math.MaxFloat32) // never infinite: the best token's difference is 0
	if k := p.TopK; k > 0 && k < len(row) {
		keep = s.best(row, k)
		slices.Sort(keep)
		for _, id := range keep {
			s.weight[id] = weight(row[id], top, inv)
		}
		return keep, s.sum(keep)
	}
	if total = kernel.Weigh(s.weight, row, top, inv); total <= math.MaxFloat32 {
		return s.all, total
	}
	for id, x := range row { // a NaN or an infinity among the logits
		s.weight[id] = weight(x, top, inv)
	}
	return s.all, s.sum(s.all)
}

// weight is e^((x-top)*inv); x = NaN has none, infinity counts as the largest float.
func weight(x, top, inv float32) float32 {
	if x != x {
		return 0
	}
	return kernel.Exp(float32(min(x, math.MaxFloat32)-top) * inv)
}

// atLeast keeps the tokens with a weight of at least floor, in the order they come. (Weights are not negative, so that their bits compare as they do; the sum is how
// to do without a branch, which in a long row would often be guessed wrong.)
func (s *Sampler) atLeast(ids []int32, floor float32) []int32 {
	least := math.Float32bits(floor)
	out, n := s.order[:len(ids)], 0
	for _, id := range ids {
		out[n] = id
		n += 1 - int((math.Float32bits(s.weight[id])-least)>>31)
	}
	return out[:n]
}

// invert walks ids to the one whose share of their weight holds target. A token without weight is never it.
func (s *Sampler) invert(ids []int32, target float64) int32 {
	sum, pick := 0.0, ids[0]
	for _, id := range ids {
		w := s.weight[id]
		if w == 0 {
			continue
		}
		pick = id
		if sum += float64(w); sum > target {
			break
		}
	}
	return pick // the last one with weight when rounding left a rest
}
