package tinyworld

import "math/bits"

// rng is a stream of random numbers that depends on its key alone: number n is a hash of key and n, so that any document can be made by
// itself, on any machine, in any order.
type rng struct{ key, n uint64 }

// mix is the finaliser of SplitMix64 (Steele, Lea & Flood 2014).
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// fold hashes a list of numbers into one.
func fold(xs ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, x := range xs {
		h = mix(h ^ mix(x+0x9e3779b97f4a7c15))
	}
	return h
}

// foldText hashes a text.
func foldText(s string) uint64 {
	h := fold(uint64(len(s)))
	for i := range len(s) {
		h = mix(h ^ uint64(s[i]))
	}
	return h
}

func (r *rng) next() uint64 {
	r.n++
	return mix(r.key + r.n*0x9e3779b97f4a7c15)
}

// below gives a number in [0, n), n > 0. The high half of a product is uneven by less than 2⁻⁴⁰ for the n used here.
func (r *rng) below(n int) int {
	hi, _ := bits.Mul64(r.next(), uint64(n))
	return int(hi)
}

// from gives a number in [lo, hi].
func (r *rng) from(lo, hi int) int { return lo + r.below(hi-lo+1) }

// odds is true in num of den cases.
func (r *rng) odds(num, den int) bool { return r.below(den) < num }

func pick[T any](r *rng, list []T) T { return list[r.below(len(list))] }

// shuffle is Fisher–Yates.
func shuffle[T any](r *rng, list []T) {
	for i := len(list) - 1; i > 0; i-- {
		j := r.below(i + 1)
		list[i], list[j] = list[j], list[i]
	}
}

// sample gives k different elements of list, in random order.
func sample[T any](r *rng, list []T, k int) []T {
	c := append([]T(nil), list...)
	for i := range k {
		j := i + r.below(len(c)-i)
		c[i], c[j] = c[j], c[i]
	}
	return c[:k]
}
