package gen

// stopper finds the first stop string in a stream of bytes and knows how many of the latest bytes may still become one. It runs one
// Knuth-Morris-Pratt automaton a stop string: at most 16 short strings, so a table of their union would only cost memory.
//
// The match that completes first ends the answer; of several that complete at the same byte the longest wins. This depends on the bytes
// alone, never on how tokens cut them.
type stopper struct {
	words []string
	fail  [][]int32 // fail[w][i]: length of the longest proper border of words[w][:i+1]
}

func newStopper(words []string) *stopper {
	s := &stopper{words: words, fail: make([][]int32, len(words))}
	for i, w := range words {
		s.fail[i] = borders(w)
	}
	return s
}

// borders is the failure function of Knuth, Morris and Pratt (1977).
func borders(w string) []int32 {
	f := make([]int32, len(w))
	k := int32(0)
	for i := 1; i < len(w); i++ {
		for k > 0 && w[k] != w[i] {
			k = f[k-1]
		}
		if w[k] == w[i] {
			k++
		}
		f[i] = k
	}
	return f
}

// feed moves state (one entry a word) over text. It returns the word that matched and the end of the match in text, or word -1.
func (s *stopper) feed(state []int32, text []byte) (word, end int) {
	for i, c := range text {
		word := -1
		for w, k := range state {
			k = s.next(w, k, c)
			state[w] = k
			if int(k) == len(s.words[w]) && (word < 0 || len(s.words[w]) > len(s.words[word])) {
				word = w
			}
		}
		if word >= 0 {
			return word, i + 1
		}
	}
	return -1, 0
}

func (s *stopper) next(w int, k int32, c byte) int32 {
	word := s.words[w]
	for k > 0 && word[k] != c {
		k = s.fail[w][k-1]
	}
	if word[k] == c {
		k++
	}
	return k
}

// held gives how many of the latest bytes are a proper prefix of some stop string.
func held(state []int32) int {
	most := int32(0)
	for _, k := range state {
		most = max(most, k)
	}
	return int(most)
}
