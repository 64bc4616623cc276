package sample

import "math"

// Ban is the bias at and below which a token is forbidden.
const Ban = float32(-100)

// finite widens a logit for comparison: NaN becomes minus infinity, plus infinity the largest finite value.
func finite(x float32) float64 {
	if x != x {
		return math.Inf(-1)
	}
	if x > math.MaxFloat32 {
		return math.MaxFloat32
	}
	return float64(x)
}

// better says whether token a comes before token b: the higher logit, of equal ones the lower id.
func better(row []float32, a, b int32) bool {
	x, y := finite(row[a]), finite(row[b])
	return x > y || x == y && a < b
}

// argmax is the best token of the row; 0 when every logit is NaN or minus infinity.
func argmax(row []float32) int32 {
	best, at := math.Inf(-1), 0
	for id, x := range row {
		if v := finite(x); v > best {
			best, at = v, id
		}
	}
	return int32(at)
}

// logSumExp is log(sum(exp(logit))) in float64, in ascending id; 0 for a row without any finite logit.
func logSumExp(row []float32) float64 {
	max := finite(row[argmax(row)])
	if max == math.Inf(-1) {
		return 0
	}
	var sum float64
	for _, x := range row {
		if x == x {
			sum += math.Exp(finite(x) - max)
		}
	}
	return max + math.Log(sum)
}

// best lists the n best tokens by insertion into a short sorted list: n is at most a few dozen, the row may be long.
func (s *Sampler) best(row []float32, n int, lse float64) []Alt {
	top := s.top[:0]
	for id := range row {
		v := clampLogprob(finite(row[id]) - lse)
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
		top[i] = Alt{ID: int32(id), Logprob: v}
	}
	s.top = top
	return top
}

// selectBest permutes ids so that the k best come first (Hoare's quickselect with the median of three).
func selectBest(ids []int32, row []float32, k int) {
	for lo, hi := 0, len(ids); hi-lo > 1; {
		m := partition(ids[lo:hi], row) + lo
		switch {
		case m == k || m+1 == k:
			return
		case m < k:
			lo = m + 1
		default:
			hi = m
		}
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
// the running weight: the whole vocabulary is never sorted. At least one token stays.
func (s *Sampler) nucleus(ids []int32, row []float32, p float64) []int32 {
	need := p * s.sum(ids)
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

// worst is the last of ids in the order of better.
func worst(ids []int32, row []float32) int32 {
	w := ids[0]
	for _, id := range ids[1:] {
		if better(row, w, id) {
			w = id
		}
	}
	return w
}
