package sample

import (
	"math"

	"tinyloop/internal/kernel"
)

// Ban is the bias at and below which a token is forbidden.
const Ban = float32(-100)

// alive says whether a logit is neither NaN nor minus infinity.
func alive(x float32) bool { return x >= -math.MaxFloat32 }

// finite widens a logit for arithmetic: NaN becomes minus infinity, plus infinity the largest finite value.
func finite(x float32) float64 {
	if x != x {
		return math.Inf(-1)
	}
	if x > math.MaxFloat32 {
		return math.MaxFloat32
	}
	return float64(x)
}

// better says whether token a comes before token b: the higher logit, of equal ones the lower id; NaN counts as minus infinity.
func better(row []float32, a, b int32) bool {
	x, y := row[a], row[b]
	if x > y {
		return true
	}
	if x < y {
		return false
	}
	if x != x {
		x = float32(math.Inf(-1))
	}
	if y != y {
		y = float32(math.Inf(-1))
	}
	return x > y || x == y && a < b
}

// argmax is the best token of the row; 0 when every logit is NaN or minus infinity.
func argmax(row []float32) int32 {
	if id := kernel.ArgMax(row); alive(row[id]) {
		return int32(id)
	}
	return 0
}

// distribution is what turns a logit into a log-probability: logit - max - log(sum(exp(logit - max))). The two terms stay apart, because for
// huge logits their sum would lose the second.
type distribution struct{ max, logSum float64 }

// distributionOf sums kernel.Exp in float64: the logarithm of the sum is off by less than 1e-7.
func distributionOf(row []float32) distribution {
	top, sum := kernel.SoftmaxStats(row)
	if sum <= math.MaxFloat32 {
		return distribution{max: float64(top), logSum: math.Log(sum)}
	}
	// A NaN or an infinity among the logits.
	d := distribution{max: finite(row[argmax(row)])}
	if d.max == math.Inf(-1) {
		return distribution{}
	}
	sum = 0
	for _, x := range row {
		sum += math.Exp(finite(x) - d.max)
	}
	d.logSum = math.Log(sum)
	return d
}

func (d distribution) logprob(logit float32) float32 {
	return clampLogprob(finite(logit) - d.max - d.logSum)
}

// report lists the n best tokens, the best first.
func (s *Sampler) report(row []float32, n int, d distribution) []Alt {
	top := s.top[:0]
	for _, id := range s.best(row, n) {
		top = append(top, Alt{})
		i := len(top) - 1
		for i > 0 && better(row, id, top[i-1].ID) {
			top[i] = top[i-1]
			i--
		}
		top[i] = Alt{ID: id, Logprob: d.logprob(row[id])}
	}
	for id := 0; len(top) < n; id++ { // a row of which few are alive
		if !alive(row[id]) {
			top = append(top, Alt{ID: int32(id), Logprob: LogprobFloor})
		}
	}
	s.top = top
	return top
}

// minPeakBlock is the shortest block of logits whose largest one is looked up.
const minPeakBlock = 32

// best lists the k best tokens above minus infinity, in some order. The k-th largest peak of the blocks of the row is at most the k-th largest logit, so only
// blocks with a peak that high need a closer look.
func (s *Sampler) best(row []float32, k int) []int32 {
	block := len(row) / (8 * k) &^ (minPeakBlock - 1)
	if block == 0 {
		return s.heap(s.order[:0], row, 0, k)
	}
	s.peaks = s.peaks[:0]
	for lo := 0; lo < len(row); lo += block {
		s.peaks = append(s.peaks, kernel.Max(row[lo:min(lo+block, len(row))]))
	}
	floor := kthLargest(s.peaks, s.weight[:0], k)
	ids := s.order[:0]
	for i, peak := range s.peaks {
		if peak >= floor {
			ids = s.heap(ids, row[:min((i+1)*block, len(row))], i*block, k)
		}
	}
	return ids
}

// kthLargest keeps the k largest values of x in heap, the smallest on top, and gives that one.
func kthLargest(x, heap []float32, k int) float32 {
	for _, v := range x {
		if len(heap) < k {
			heap = append(heap, v)
			for i := len(heap) - 1; i > 0 && heap[(i-1)/2] > heap[i]; i = (i - 1) / 2 {
				heap[(i-1)/2], heap[i] = heap[i], heap[(i-1)/2]
			}
			continue
		}
		if v <= heap[0] {
			continue
		}
		heap[0] = v
		for i := 0; ; {
			c := 2*i + 1
			if c+1 < k && heap[c+1] < heap[c] {
				c++
			}
			if c >= k || heap[i] <= heap[c] {
				break
			}
			heap[i], heap[c] = heap[c], heap[i]
			i = c
		}
	}
	return heap[0]
}

// heap adds the tokens from lo on to ids, of which the k best stay: a heap with the worst of them on top, so that most of a long row costs one comparison a
// token. Tokens come in ascending id, and none that is not above minus infinity.
func (s *Sampler) heap(ids []int32, row []float32, lo, k int) []int32 {
	for id := lo; id < len(row); id++ {
		if x := row[id]; !alive(x) || len(ids) == k && x <= row[ids[0]] {
			continue
		}
		if len(ids) < k {
			ids = append(ids, int32(id))
			siftUp(ids, row)
			continue
		}
		ids[0] = int32(id)
		siftDown(ids, row)
	}
	return ids
}

func siftUp(h []int32, row []float32) {
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !better(row, h[up], h[i]) {
			return
		}
		h[up], h[i] = h[i], h[up]
		i = up
	}
}

func siftDown(h []int32, row []float32) {
	for i := 0; ; {
		worst, l := i, 2*i+1
		for c := l; c < len(h) && c < l+2; c++ {
			if better(row, h[worst], h[c]) {
				worst = c
			}
		}
		if worst == i {
			return
		}
		h[worst], h[i] = h[i], h[worst]
		i = worst
	}
}

// partition puts the ids better than a pivot before it, the others after, and gives the pivot's place.
func partition(ids []int32, row []float32) int {
	end := len(ids) - 1
	mid := end / 2
	if better(row, ids[mid], ids[0]) {
		ids[mid], ids[0] = ids[0], ids[mid]
	}
	if better(row, ids[end], ids[0]) {
		ids[end], ids[0] = ids[0], ids[end]
	}
	if better(row, ids[mid], ids[end]) {
		ids[mid], ids[end] = ids[end], ids[mid]
	}
	pivot, at := ids[end], 0
	for i := 0; i < end; i++ {
		if better(row, ids[i], pivot) {
			ids[i], ids[at] = ids[at], ids[i]
			at++
		}
	}
	ids[at], ids[end] = ids[end], ids[at]
	return at
}

// buckets is the number of classes of a weight from 0 to 1: the exponent and the next four bits.
const buckets = 0x3f800000>>bucketShift + 1

const bucketShift = 19

// nucleus keeps the smallest set of best tokens whose share of the candidates' weight, total, reaches p (Holtzman et al. 2020), at least one of them, in the
// order they come. All n tokens lighter than (1-p)/n of the total weigh less than 1-p together, so they are outside and go first. Weights by bucket then tell in which
// bucket the edge lies, and only its tokens are looked at one by one.
func (s *Sampler) nucleus(ids []int32, row []float32, p, total float64) []int32 {
	ids = s.atLeast(ids, float32(min(1, (1-p)*total/float64(len(ids))*0.999)))
	clear(s.mass)
	for _, id := range ids {
		w := s.weight[id]
		s.mass[math.Float32bits(w)>>bucketShift] += float64(w)
	}
	edge, need := buckets-1, p*total
	for ; edge > 0 && s.mass[edge] < need; edge-- {
		need -= s.mass[edge]
	}
	s.tied = s.tied[:0]
	for _, id := range ids {
		if int(math.Float32bits(s.weight[id])>>bucketShift) == edge {
			s.tied = append(s.tied, id)
		}
	}
	if len(s.tied) == 0 {
		return ids
	}
	last := s.reach(s.tied, row, need)
	out := ids[:0]
	for _, id := range ids {
		b := int(math.Float32bits(s.weight[id]) >> bucketShift)
		if b > edge || b == edge && !better(row, last, id) {
			out = append(out, id)
		}
	}
	return out
}

// reach gives the worst of the best tokens that together weigh need, the worst of all if all weigh less, by quickselect on the running weight. It permutes ids.
func (s *Sampler) reach(ids []int32, row []float32, need float64) int32 {
	for {
		m := partition(ids, row)
		upper := s.sum(ids[:m])
		with := upper + float64(s.weight[ids[m]])
		switch {
		case m > 0 && upper >= need:
			ids = ids[:m]
		case with >= need || m+1 == len(ids):
			return ids[m]
		default:
			ids, need = ids[m+1:], need-with
		}
	}
}

func (s *Sampler) sum(ids []int32) float64 {
	var t float64
	for _, id := range ids {
		t += float64(s.weight[id])
	}
	return t
}
