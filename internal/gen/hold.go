package gen

import "tinyloop/internal/grammar"

// stopper finds the first stop string in a stream of bytes and knows how many of the latest bytes may still become one. It runs one
// Knuth-Morris-Pratt automaton a stop string: at most 16 short strings, so a table of their union would only cost memory.
//
// The match that completes first ends the answer; of several that complete at the same byte the longest wins. This depends on the bytes
// alone, never on how tokens cut them.
type stopper struct {
	words []grammar.Needle
}

func newStopper(words []string) *stopper {
	s := &stopper{words: make([]grammar.Needle, len(words))}
	for i, w := range words {
		s.words[i] = grammar.NewNeedle(w)
	}
	return s
}

// feed moves state (one entry a word) over text. It returns the word that matched and the end of the match in text, or word -1.
func (s *stopper) feed(state []int32, text []byte) (word, end int) {
	for i, c := range text {
		word := -1
		for w, k := range state {
			k = s.words[w].Next(k, c)
			state[w] = k
			if n := len(s.words[w].Text); int(k) == n && (word < 0 || n > len(s.words[word].Text)) {
				word = w
			}
		}
		if word >= 0 {
			return word, i + 1
		}
	}
	return -1, 0
}

// held gives how many of the latest bytes are a proper prefix of some stop string.
func held(state []int32) int {
	most := int32(0)
	for _, k := range state {
		most = max(most, k)
	}
	return int(most)
}
