package sample

import "math"

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
	best, at := float32(math.Inf(-1)), 0
	for id, x := range row {
		if x > best {
			best, at = x, id
		}
	}
	return int32(at)
}

// distribution is what turns a logit into a log-probability: logit - max - log(sum(exp(logit - max))). The two terms stay apart, because for
// huge logits their sum would lose the second.
type distribution struct{ max, logSum float64 }

// distributionOf sums in float64, in ascending id.
func distributionOf(row []float32) distribution {
	d := distribution{max: finite(row[argmax(row)])}
	if d.max == math.Inf(-1) {
		return distribution{}
	}
	var sum float64
	for _, x := range row {
		sum += math.Exp(finite(x) - d.max)
	}
	d.logSum = math.Log(sum)
	return d
}

func (d distribution) logprob(logit float32) float32 {
	return clampLogprob(finite(logit) - d.max - d.logSum)
}

// best lists the n best tokens by insertion into a short sorted list: n is at most a few dozen, the row may be long.
func (s *Sampler) best(row []float32, n int, d distribution) []Alt {
	top := s.top[:0]
	for id := range row {
		if len(top) == n && !better(row, int32(id), top[n-1].ID) {
			continue
		}
		if len(top) < n {
			top = append(top, Alt{})
		}
		i := len(top) - 1
		for i > 0 && better(row, int32(id), top[i-1].ID) {
			top[i] = top[i-1]
			i--
		}
		top[i] = Alt{ID: int32(id)}
	}
	for i := range top {
		top[i].Logprob = d.logprob(row[top[i].ID])
	}
	s.top = top
	return top
}

// heap collects the k best tokens above minus infinity: a heap with the worst of them on top, so that most of a long row costs one comparison a
// token.
func (s *Sampler) heap(ids []int32, row []float32, k int) []int32 {
	for id, x := range row {
		if !alive(x) || len(ids) == k && !better(row, int32(id), ids[0]) {
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

// nucleus keeps the smallest set of best tokens whose share of the candidates' weight reaches p (Holtzman et al. 2020), by quickselect on
// the running weight: the vocabulary is never sorted. All n tokens lighter than (1-p)/n of the total weigh less than 1-p together, so they
// are outside and go first. At least one token stays.
func (s *Sampler) nucleus(ids []int32, row []float32, p float64) []int32 {
	total := s.sum(ids)
	ids = s.atLeast(ids, min(1, (1-p)*total/float64(len(ids))))
	need := p * total
	lo, hi := 0, len(ids)
	for hi-lo > 1 {
		m := partition(ids[lo:hi], row) + lo
		upper := s.sum(ids[lo:m])
		with := upper + s.weight[ids[m]]
		switch {
		case m > lo && upper >= need:
			hi = m
		case with >= need:
			return ids[:m+1]
		case m+1 == hi:
			return ids[:hi]
		default:
			lo, need = m+1, need-with
		}
	}
	return ids[:hi]
}

func (s *Sampler) sum(ids []int32) float64 {
	var t float64
	for _, id := range ids {
		t += s.weight[id]
	}
	return t
}
