package data

import (
	"math"
	"strings"
	"unicode"
)

// Near duplicates are found by MinHash (Broder, "On the resemblance and containment of documents", 1997) with banding (Leskovec, Rajaraman, Ullman,
// "Mining of Massive Datasets", chapter 3). A document is the set of its runs of shingle words, in lower case and without punctuation; two documents
// are as similar as the share of those runs that they have in common (Jaccard). Of minHashes hash functions, the share on which two sets have the same
// smallest value estimates that, to within 0.04 or so. Documents are compared that agree on all values of one band at least: at a similarity of 0.8 that
// misses one pair in 10,000, at 0.7 one in 100, at 0.6 one in 7.
const (
	shingle   = 5 // words
	bands     = 24
	bandRows  = 5
	minHashes = bands * bandRows

	// LeastNear and MostNear bound the similarity from which on documents count as duplicates.
	LeastNear, MostNear = 0.6, 1.0
)

// signature is the smallest value of every hash function over a document's shingles.
type signature [minHashes]uint32

// nearIndex holds the documents kept so far: about 1.2 kB each.
type nearIndex struct {
	least  float64
	kept   []signature
	bands  [bands]map[uint64][]int32 // by the hash of a band's values
	a, b   [minHashes]uint64         // the hash functions: the upper half of a*x + b
	words  []uint64                  // scratch of sign
	lately []int32                   // by kept document: the last asked about it, so that no two are compared twice
	asked  int32
}

func newNearIndex(least float64) *nearIndex {
	x := &nearIndex{least: least}
	state := uint64(0x7469_6e79_6c6f_6f70)
	for i := range x.a {
		x.a[i], x.b[i] = splitMix(&state)|1, splitMix(&state)
	}
	for i := range x.bands {
		x.bands[i] = map[uint64][]int32{}
	}
	return x
}

// seen says whether a document is near to one that was kept, and keeps it if not. Documents without a word are never near.
func (x *nearIndex) seen(d *Doc) bool {
	var s signature
	if !x.sign(d, &s) {
		return false
	}
	x.asked++
	var keys [bands]uint64
	for i := range keys {
		keys[i] = bandKey(s[i*bandRows : (i+1)*bandRows])
		for _, k := range x.bands[i][keys[i]] {
			if x.lately[k] == x.asked {
				continue
			}
			x.lately[k] = x.asked
			if similarity(&s, &x.kept[k]) >= x.least {
				return true
			}
		}
	}
	for i, key := range keys {
		x.bands[i][key] = append(x.bands[i][key], int32(len(x.kept)))
	}
	x.kept, x.lately = append(x.kept, s), append(x.lately, 0)
	return false
}

func similarity(a, b *signature) float64 {
	same := 0
	for i := range a {
		if a[i] == b[i] {
			same++
		}
	}
	return float64(same) / minHashes
}

func bandKey(values []uint32) uint64 {
	key := uint64(0)
	for _, v := range values {
		key = finish(key ^ uint64(v))
	}
	return key
}

// sign computes the signature of a document; false where it has no words.
func (x *nearIndex) sign(d *Doc, s *signature) bool {
	x.words = x.words[:0]
	if !d.IsChat() {
		x.split(d.Text)
	}
	for i := range d.Messages {
		x.split(d.Messages[i].Role)
		x.split(d.Messages[i].Content)
		for _, c := range d.Messages[i].ToolCalls {
			x.split(c.Function.Name)
			x.split(c.Function.Arguments)
		}
	}
	if len(x.words) == 0 {
		return false
	}
	for i := range s {
		s[i] = math.MaxUint32
	}
	for from := range max(1, len(x.words)-shingle+1) {
		key := uint64(0)
		for _, w := range x.words[from:min(from+shingle, len(x.words))] {
			key = finish(key ^ w)
		}
		for i := range s {
			s[i] = min(s[i], uint32((x.a[i]*key+x.b[i])>>32))
		}
	}
	return true
}

// split appends the hash (FNV-1a) of each word: a run of letters, marks and digits in lower case.
func (x *nearIndex) split(text string) {
	const offset, prime = 14695981039346656037, 1099511628211
	word := strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) })
	for w := range word {
		h := uint64(offset)
		for _, r := range w {
			h = (h ^ uint64(unicode.ToLower(r))) * prime
		}
		x.words = append(x.words, h)
	}
}

// splitMix is the generator of Steele, Lea and Flood (2014).
func splitMix(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	return finish(*state)
}

func finish(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
