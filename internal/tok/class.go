package tok

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class says which of the character sets of the pre-tokenizer patterns a character belongs to, one bit each. Zero is "something else":
// punctuation, symbols, unassigned code points and bytes that are not UTF-8.
type class uint8

const (
	letter  class = 1 << iota // \p{L}
	number                    // \p{N}
	space                     // \s, Unicode White_Space
	mark                      // \p{M}
	upper                     // \p{Lu} \p{Lt}
	lower                     // \p{Ll}
	newline                   // \r \n (also space)
)

// tableEnd bounds the table of classes: planes 0 to 3 hold every letter, number, mark and space but the variation selectors of plane 14.
const tableEnd = 0x40000

// classes is the table of all code points below tableEnd, made on first use.
var classes = sync.OnceValue(func() *[tableEnd]class {
	t := new([tableEnd]class)
	fill(t, unicode.L, letter)
	fill(t, unicode.N, number)
	fill(t, unicode.M, mark)
	fill(t, unicode.White_Space, space)
	fill(t, unicode.Lu, upper)
	fill(t, unicode.Lt, upper)
	fill(t, unicode.Ll, lower)
	t['\r'] |= newline
	t['\n'] |= newline
	return t
})

func fill(t *[tableEnd]class, rt *unicode.RangeTable, c class) {
	for _, r := range rt.R16 {
		for x := uint32(r.Lo); x <= uint32(r.Hi); x += uint32(r.Stride) {
			t[x] |= c
		}
	}
	for _, r := range rt.R32 {
		for x := r.Lo; x <= r.Hi && x < tableEnd; x += r.Stride {
			t[x] |= c
		}
	}
}

// at gives the class of the character at b[i] and its length in bytes; 0, 0 at the end.
func (s *scanner) at(b []byte, i int) (class, int) {
	if i >= len(b) {
		return 0, 0
	}
	if c := b[i]; c < utf8.RuneSelf {
		return s.table[c], 1
	}
	return s.wide(b, i)
}

func (s *scanner) wide(b []byte, i int) (class, int) {
	r, n := utf8.DecodeRune(b[i:])
	if n == 1 {
		return 0, 1 // not UTF-8
	}
	if r < tableEnd {
		return s.table[r], n
	}
	if unicode.Is(unicode.M, r) {
		return mark, n
	}
	return 0, n
}

// run gives the end of the longest run of characters from b[i] on whose class has one of the bits of want.
func (s *scanner) run(b []byte, i int, want class) int {
	for i < len(b) {
		c := b[i]
		if c < utf8.RuneSelf {
			if s.table[c]&want == 0 {
				return i
			}
			i++
			continue
		}
		cl, n := s.wide(b, i)
		if cl&want == 0 {
			return i
		}
		i += n
	}
	return i
}

// runNot gives the end of the longest run of characters from b[i] on whose class has none of the bits of not.
func (s *scanner) runNot(b []byte, i int, not class) int {
	for i < len(b) {
		cl, n := s.at(b, i)
		if cl&not != 0 {
			return i
		}
		i += n
	}
	return i
}
