package tok

import (
	"testing"

	"github.com/dlclark/regexp2/v2"
)

// FromRankTable makes a tokenizer with tiktoken's rule: any two neighbours that spell a token merge, the lowest id first. Texts that are empty
// leave a gap. Tests use it for vocabularies that are published as rank tables.
func FromRankTable(texts []string, pattern string) (*Tokenizer, error) {
	s := newSource(kindBPE)
	s.pre = preOf([]string{pattern}, true)
	ids := make(map[string]ID, len(texts))
	for i, text := range texts {
		s.pieces = append(s.pieces, toByteLevel(text))
		s.types = append(s.types, typeNormal)
		if text != "" {
			ids[text] = ID(i)
		}
	}
	for _, text := range texts {
		for cut := 1; cut < len(text); cut++ {
			l, ok1 := ids[text[:cut]]
			r, ok2 := ids[text[cut:]]
			if ok1 && ok2 {
				s.merges = append(s.merges, [2]ID{l, r})
			}
		}
	}
	return build(s)
}

// Patterns of the rank tables, and the scanner of a pattern against which tests hold a regular expression.
const (
	PatGPT2   = patGPT2
	PatCL100K = patCL100K
	PatO200K  = patO200K
)

var Patterns = []string{patGPT2, patCL100K, patQwen2, patQwen35, patO200K, patTekken, patUfakzeka, patDigit, patDigits3, patDigits}

// Pieces cuts text with the hand-written scanner of pattern.
func Pieces(pattern, text string) []string {
	s, ok := scannerOf(pattern)
	if !ok {
		panic(pattern)
	}
	var out []string
	for b := []byte(text); len(b) > 0; {
		n := s.next(b)
		out = append(out, string(b[:n]))
		b = b[n:]
	}
	return out
}

func ToByteLevel(s string) string { return toByteLevel(s) }

// CompileRegexp compiles a pattern as the fallback does.
func CompileRegexp(t testing.TB, pattern string) *regexp2.Regexp {
	re, err := compileRegexp(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return re
}
