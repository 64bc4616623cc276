package tok

import (
	"strings"
	"unicode/utf8"

	"tinyloop/internal/fault"
)

// maxSplit bounds the tokens whose ways to be cut in two are counted, as the work grows with the square of their length.
const maxSplit = 256

// scoresOf turns the merges of a converted SentencePiece model back into scores. SentencePiece merges any two neighbours that spell a token, the
// best score first; a list of merges says the same only if all merges into one token stand together, none that the vocabulary allows is
// missing, and every character of a merged token is a token. A list that says something else is refused.
func scoresOf(s *source, merges [][2]ID) ([]float32, error) {
	ids := make(map[string]ID, len(s.pieces))
	for i, p := range s.pieces {
		if p != "" && s.types[i] == typeNormal {
			ids[p] = ID(i)
		}
	}
	count := make([]int, len(s.pieces)) // merges into each token
	scores := make([]float32, len(s.pieces))
	last, place := ID(-1), 0
	for i, m := range merges {
		both := s.pieces[m[0]] + s.pieces[m[1]]
		id, ok := ids[both]
		if !ok {
			return nil, fault.New(fault.Invalid, "model.merges", "tokenizer.json: merge %d makes %q, which is no ordinary token", i, fault.Clip(both, 64))
		}
		if id != last {
			if count[id] > 0 {
				return nil, noScores(both)
			}
			last, place = id, place+1
		}
		count[id]++
		scores[id] = -float32(place)
	}
	for i, p := range s.pieces {
		if s.types[i] != typeNormal || utf8.RuneCountInString(p) < 2 {
			continue
		}
		if len(p) > maxSplit {
			return nil, fault.New(fault.Invalid, "model.vocab", "tokenizer.json: token %d has %d bytes, at most %d are read without ByteLevel", i, len(p), maxSplit)
		}
		if splits(p, ids) != count[i] || !spelt(p, ids) {
			return nil, noScores(p)
		}
	}
	for i := range scores {
		if count[i] == 0 {
			scores[i] = -float32(place + 1)
		}
	}
	return scores, nil
}

func noScores(piece string) error {
	return fault.New(fault.Unsupported, "model.merges", "tokenizer.json: the merges into %q are not those of a SentencePiece model, which is all that is read without ByteLevel", fault.Clip(piece, 64))
}

// splits counts the ways to cut p into two tokens.
func splits(p string, ids map[string]ID) int {
	n := 0
	for i := range p {
		if i == 0 {
			continue
		}
		_, ok1 := ids[p[:i]]
		_, ok2 := ids[p[i:]]
		if ok1 && ok2 {
			n++
		}
	}
	return n
}

// spelt says whether every character of p is a token.
func spelt(p string, ids map[string]ID) bool {
	for _, c := range strings.Split(p, "") {
		if _, ok := ids[c]; !ok {
			return false
		}
	}
	return true
}
