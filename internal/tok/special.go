package tok

import (
	"slices"
	"sort"
	"strings"
)

// matcher finds the longest of a set of texts at a place.
type matcher struct {
	texts []string // sorted
	ids   []ID
	first [256]bool // the bytes that texts begin with
}

// matchers gives the matcher of markup and that of plain text.
func (t *Tokenizer) matchers() (markup, plain matcher) {
	for i, p := range t.src.pieces {
		if p == "" {
			continue // a gap in the numbering, even if a role names it
		}
		switch t.src.types[i] {
		case typeControl:
			markup.add(p, ID(i))
		case typeUserDefined:
			markup.add(p, ID(i))
			if !isMarker(p) {
				plain.add(p, ID(i))
			}
		}
	}
	markup.sort()
	plain.sort()
	return markup, plain
}

func (m *matcher) add(text string, id ID) {
	m.texts = append(m.texts, text)
	m.ids = append(m.ids, id)
	m.first[text[0]] = true
}

func (m *matcher) sort() {
	order := make([]int, len(m.texts))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(m.texts[a], m.texts[b]) })
	texts, ids := make([]string, len(order)), make([]ID, len(order))
	for i, o := range order {
		texts[i], ids[i] = m.texts[o], m.ids[o]
	}
	m.texts, m.ids = texts, ids
}

// longest gives the longest text that s begins with, as its id and length; length 0 when there is none. It narrows the sorted list byte by
// byte, so the cost does not grow with the number of texts.
func (m *matcher) longest(s string) (ID, int) {
	id, length := ID(-1), 0
	lo, hi := 0, len(m.texts)
	for d := 0; lo < hi; d++ {
		if len(m.texts[lo]) == d {
			id, length = m.ids[lo], d
			lo++
		}
		if d == len(s) {
			break
		}
		list, c := m.texts[lo:hi], s[d]
		a := sort.Search(len(list), func(i int) bool { return list[i][d] >= c })
		b := sort.Search(len(list), func(i int) bool { return list[i][d] > c })
		lo, hi = lo+a, lo+b
	}
	return id, length
}
