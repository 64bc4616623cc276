package tok

import (
	"context"
	"math"
	"slices"
	"strings"

	"tinyloop/internal/fault"
)

// trainer merges pairs over all distinct words at once. They stand end to end, one position a byte, between separators:
//
//	sym    sep  t  h  e  sep  t  h  e  n  sep         before any merge: the id of each byte
//	       sep [th −2] e sep [the −1 −3] n sep        later: a token's id at its first byte, −length at its last, dead between
//
// So both neighbours of a token are found in one step, and the work of a merge is the number of its places, however long words are.
type trainer struct {
	o      *TrainOptions
	sym    []ID
	word   []int32 // number of the word that a position belongs to
	counts []int64 // how often each word occurs
	whole  []int32 // first positions of the words that must become one token

	texts  []string      // bytes of each token; of control tokens and markers their text
	ids    map[string]ID // merged tokens and bytes by their bytes
	bytes  [256]ID
	banned map[string]bool // texts of control tokens and markers
	merges [][2]ID

	pairs []pairStat
	index map[uint64]int32 // left<<32 | right to its place in pairs
	dirty []int32          // pairs that became more frequent since the heap last saw them
	heap  []candidate
}

const (
	symDead = ID(-1)
	symSep  = ID(math.MinInt32)
)

// pairStat is a pair of neighbouring tokens: how often it occurs, and a list of places that has all of them and perhaps old ones.
type pairStat struct {
	left, right ID
	count       int64
	at          []int32 // positions of left
	dirty       bool
}

// candidate is a pair in the heap, with the count that it had when it went in. Counts that fell since are found out when it comes to the top.
type candidate struct {
	count int64
	pair  int32
}

func newTrainer(o *TrainOptions, words *wordCounts) (*trainer, error) {
	size := words.bytes + int64(len(words.words)) + 1
	for _, text := range o.Whole {
		size += int64(len(text)) + 1
	}
	if size > math.MaxInt32 {
		return nil, fault.New(fault.TooLarge, "input", "the distinct words have %d bytes together, at most %d can be trained on: train on a part of the text", size, math.MaxInt32)
	}
	m := &trainer{o: o, ids: map[string]ID{}, banned: map[string]bool{}, index: map[uint64]int32{}}
	for _, text := range slices.Concat(o.Control, o.Markers) {
		m.texts = append(m.texts, text)
		m.banned[text] = true
	}
	for r := range rune(0x144) { // the alphabet in the order of its characters
		if b, ok := runeByte(r); ok {
			m.bytes[b] = m.token(string([]byte{b}))
		}
	}
	m.sym, m.word = make([]ID, 1, size), make([]int32, 1, size)
	m.sym[0] = symSep
	for i, text := range words.words {
		m.lay(text, words.counts[i])
	}
	for _, text := range o.Whole {
		m.whole = append(m.whole, int32(len(m.sym)))
		m.lay(text, 0)
	}
	m.firstPairs()
	return m, nil
}

// token gives the id of a text, a new one if it has none.
func (m *trainer) token(text string) ID {
	if id, ok := m.ids[text]; ok {
		return id
	}
	id := ID(len(m.texts))
	m.texts = append(m.texts, text)
	m.ids[text] = id
	return id
}

// lay puts a word behind the others.
func (m *trainer) lay(text string, count int64) {
	n := int32(len(m.counts))
	m.counts = append(m.counts, count)
	for i := range len(text) {
		m.sym, m.word = append(m.sym, m.bytes[text[i]]), append(m.word, n)
	}
	m.sym, m.word = append(m.sym, symSep), append(m.word, n)
}

// firstPairs finds the pairs of bytes. Their lists of places share one array, as most places are there from the start.
func (m *trainer) firstPairs() {
	n := 0
	for i := 1; i < len(m.sym); i++ {
		if m.sym[i] >= 0 && m.sym[i-1] >= 0 {
			m.pair(m.sym[i-1], m.sym[i]).count++
			n++
		}
	}
	places := make([]int32, n)
	for i := range m.pairs {
		p := &m.pairs[i]
		p.at, places = places[:0:p.count], places[p.count:]
		p.count = 0
	}
	for i := 1; i < len(m.sym); i++ {
		if m.sym[i] >= 0 && m.sym[i-1] >= 0 {
			m.found(m.sym[i-1], m.sym[i], int32(i-1))
		}
	}
}

// pair gives the record of a pair, a new one if it has none. It is valid until the next call.
func (m *trainer) pair(left, right ID) *pairStat {
	key := uint64(uint32(left))<<32 | uint64(uint32(right))
	i, ok := m.index[key]
	if !ok {
		i = int32(len(m.pairs))
		m.index[key] = i
		m.pairs = append(m.pairs, pairStat{left: left, right: right})
	}
	return &m.pairs[i]
}

// found notes a new place of a pair.
func (m *trainer) found(left, right ID, at int32) {
	p := m.pair(left, right)
	p.count += m.counts[m.word[at]]
	p.at = append(p.at, at)
	if !p.dirty {
		p.dirty = true
		m.dirty = append(m.dirty, m.index[uint64(uint32(left))<<32|uint64(uint32(right))])
	}
}

// run merges until the vocabulary is full or no pair is frequent enough.
func (m *trainer) run(ctx context.Context, report func()) error {
	for steps := 0; ; steps++ {
		if steps%64 == 0 {
			if ctx.Err() != nil {
				return fault.New(fault.Canceled, "", "stopped")
			}
			report()
		}
		if len(m.texts)+m.missing() >= m.o.Vocab {
			m.finishWhole()
		}
		if len(m.texts) >= m.o.Vocab {
			return nil
		}
		best := m.next()
		if best < 0 {
			m.finishWhole()
			return nil
		}
		m.apply(best)
	}
}

// missing is how many merges the words that must be whole still need, at most.
func (m *trainer) missing() int {
	n := 0
	for _, at := range m.whole {
		for i := m.behind(at); m.sym[i] != symSep; i = m.behind(i) {
			n++
		}
	}
	return n
}

// finishWhole merges the words that must be whole, from the left.
func (m *trainer) finishWhole() {
	for _, at := range m.whole {
		for {
			j := m.behind(at)
			if m.sym[j] == symSep {
				break
			}
			m.apply(m.index[uint64(uint32(m.sym[at]))<<32|uint64(uint32(m.sym[j]))])
		}
	}
}

// next takes the best pair from the heap, −1 when none is frequent enough.
func (m *trainer) next() int32 {
	for _, i := range m.dirty {
		p := &m.pairs[i]
		p.dirty = false
		if p.count > 0 {
			m.push(candidate{p.count, i})
		}
	}
	m.dirty = m.dirty[:0]
	for len(m.heap) > 0 {
		top := m.heap[0]
		p := &m.pairs[top.pair]
		if p.count == top.count {
			if p.count < int64(m.o.MinCount) {
				return -1
			}
			m.drop()
			if m.allowed(p) {
				return top.pair
			}
			continue
		}
		m.heap[0].count = p.count
		m.settle(0)
	}
	return -1
}

// allowed says whether a pair may become a token: one too long to be loaded, or with the text of a control token, may not.
func (m *trainer) allowed(p *pairStat) bool {
	left, right := m.texts[p.left], m.texts[p.right]
	return len(left)+len(right) <= maxTrained && !m.banned[toByteLevel(left+right)]
}

// behind gives the position behind the token at i, before that of the token in front of it, 0 when there is none.
func (m *trainer) behind(i int32) int32 { return i + int32(len(m.texts[m.sym[i]])) }

func (m *trainer) before(i int32) int32 {
	switch s := m.sym[i-1]; {
	case s >= 0:
		return i - 1
	case s == symSep:
		return 0
	default:
		return i + int32(s)
	}
}

// apply makes a token of a pair and merges it wherever it stands, from left to right, as "aaa" must become "aa a".
func (m *trainer) apply(index int32) {
	left, right, at := m.pairs[index].left, m.pairs[index].right, m.pairs[index].at
	m.pairs[index].at = nil
	merged := m.token(m.texts[left] + m.texts[right])
	m.merges = append(m.merges, [2]ID{left, right})
	if !slices.IsSorted(at) {
		slices.Sort(at)
	}
	size := int32(len(m.texts[merged]))
	for _, i := range at {
		if m.sym[i] != left {
			continue
		}
		j := m.behind(i)
		if m.sym[j] != right {
			continue
		}
		m.turn(i, j, merged, size)
	}
	m.pairs[index].count = 0
}

// turn merges the tokens at i and j, and moves the counts of the pairs around them.
func (m *trainer) turn(i, j int32, merged ID, size int32) {
	n := m.counts[m.word[i]]
	left, right, end := m.sym[i], m.sym[j], i+size
	m.sym[j] = symDead
	m.sym[end-1] = -ID(size)
	m.sym[i] = merged
	if h := m.before(i); h > 0 {
		m.pair(m.sym[h], left).count -= n
		m.found(m.sym[h], merged, h)
	}
	if m.sym[end] != symSep {
		m.pair(right, m.sym[end]).count -= n
		m.found(merged, m.sym[end], i)
	}
}

// better says whether candidate a comes before b.
func (m *trainer) better(a, b candidate) bool {
	if a.count != b.count {
		return a.count > b.count
	}
	p, q := &m.pairs[a.pair], &m.pairs[b.pair]
	if m.o.Ties == LowestIDs {
		return p.left < q.left || p.left == q.left && p.right < q.right
	}
	if p.left != q.left {
		return strings.Compare(m.texts[p.left], m.texts[q.left]) > 0
	}
	return strings.Compare(m.texts[p.right], m.texts[q.right]) > 0
}

func (m *trainer) push(c candidate) {
	m.heap = append(m.heap, c)
	i := len(m.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !m.better(c, m.heap[up]) {
			break
		}
		m.heap[i] = m.heap[up]
		i = up
	}
	m.heap[i] = c
}

// drop takes the top away.
func (m *trainer) drop() {
	last := len(m.heap) - 1
	m.heap[0] = m.heap[last]
	m.heap = m.heap[:last]
	m.settle(0)
}

// settle moves the candidate at i down to where it belongs.
func (m *trainer) settle(i int) {
	if i >= len(m.heap) {
		return
	}
	c := m.heap[i]
	for {
		k := 2*i + 1
		if k >= len(m.heap) {
			break
		}
		if k+1 < len(m.heap) && m.better(m.heap[k+1], m.heap[k]) {
			k++
		}
		if !m.better(m.heap[k], c) {
			break
		}
		m.heap[i] = m.heap[k]
		i = k
	}
	m.heap[i] = c
}

// source writes down what was learned.
func (m *trainer) source(p pre) source {
	s := newSource(kindBPE)
	s.pre, s.merges = p, m.merges
	controls, specials := len(m.o.Control), len(m.o.Control)+len(m.o.Markers)
	for i, text := range m.texts {
		switch {
		case i < controls:
			s.pieces, s.types = append(s.pieces, text), append(s.types, typeControl)
		case i < specials:
			s.pieces, s.types = append(s.pieces, text), append(s.types, typeUserDefined)
		default:
			s.pieces, s.types = append(s.pieces, toByteLevel(text)), append(s.types, typeNormal)
		}
	}
	s.roles[roleBOS] = firstOf(m.o.Control, bosTexts)
	s.roles[roleEOS] = firstOf(m.o.Control, eosTexts)
	s.addBOS = s.roles[roleBOS] >= 0
	return s
}

// firstOf gives the place in list of the first of texts that stands there, −1 when none does.
func firstOf(list, texts []string) ID {
	for _, text := range texts {
		if i := slices.Index(list, text); i >= 0 {
			return ID(i)
		}
	}
	return -1
}
