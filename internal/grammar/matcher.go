package grammar

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"
)

// maxMasks bounds the bytes of the masks that a Matcher keeps, their labels included.
const maxMasks = 8 << 20

// Matcher joins a grammar with a vocabulary. It is safe for concurrent use.
type Matcher struct {
	g *Grammar
	v *Vocabulary

	marked   trie     // with a free text: the tokens that can complete its mark
	unmarked []uint64 // the ids that cannot

	mu     sync.Mutex
	masks  map[string]mask // by state
	held   int             // bytes of masks
	key    []byte
	levels []State
}

// mask is the tokens that may follow a state, without those that end an answer.
type mask struct {
	bits []uint64
	all  bool // every id
}

// NewMatcher joins g and v.
func NewMatcher(g *Grammar, v *Vocabulary) *Matcher {
	m := &Matcher{g: g, v: v, masks: map[string]mask{}}
	for i := range g.nodes {
		if n := &g.nodes[i]; n.kind == free {
			mark := n.texts[0]
			m.split(v.with(mark[len(mark)-1]))
		}
	}
	return m
}

// split sets apart the ids that can complete the mark of a free text.
func (m *Matcher) split(ids []int32) {
	m.unmarked = make([]uint64, (m.v.size+63)/64)
	for id := range m.v.size {
		m.unmarked[id/64] |= 1 << (id % 64)
	}
	for _, id := range ids {
		m.unmarked[id/64] &^= 1 << (id % 64)
	}
	m.marked = m.v.plant(ids)
}

// mask finds or computes the mask of a state. Its bits must not be changed.
func (m *Matcher) mask(s *State) mask {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.key = m.v.label(m.key[:0], m.g, s)
	if known, ok := m.masks[string(m.key)]; ok {
		return known
	}
	out := mask{bits: m.compute(s)}
	set := 0
	for _, w := range out.bits {
		set += bits.OnesCount64(w)
	}
	out.all = set == m.v.size
	if m.held += len(m.key) + 8*len(out.bits); m.held > maxMasks {
		clear(m.masks)
		m.held = len(m.key) + 8*len(out.bits)
	}
	m.masks[string(m.key)] = out
	return out
}

func (m *Matcher) compute(s *State) []uint64 {
	mask := make([]uint64, (m.v.size+63)/64)
	t := &m.v.all
	switch {
	case m.v.roomy(m.g, s):
		copy(mask, m.v.body)
		t = &m.v.quoted
	case m.g.unbound(s):
		copy(mask, m.unmarked)
		t = &m.marked
	}
	if len(m.levels) == 0 {
		m.levels = make([]State, 1, m.v.longest+1)
	}
	s.copyTo(&m.levels[0])
	t.walk(m.g, &m.levels, mask)
	return mask
}

// unbound says whether a free text goes on here, in which anything may stand.
func (g *Grammar) unbound(s *State) bool {
	return len(s.ends) == 1 && len(s.frames) == 1 && g.nodes[s.frames[0].node].kind == free && s.frames[0].step == 0
}

// label names a state by what its mask depends on: counts only as far as one token can bring them.
func (v *Vocabulary) label(dst []byte, g *Grammar, s *State) []byte {
	from := int32(0)
	for _, end := range s.ends {
		dst = binary.AppendUvarint(dst, uint64(end-from))
		for _, f := range s.frames[from:end] {
			n := &g.nodes[f.node]
			if n.kind == text || n.kind == array {
				f.a = v.distance(&f, n)
			}
			dst = binary.AppendUvarint(append(binary.AppendUvarint(dst, uint64(f.node)), f.step), uint64(f.a))
			dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(f.b)), uint64(f.c))
		}
		from = end
	}
	return dst
}

// distance tells how far a count is from its bounds, as far as one token can go.
func (v *Vocabulary) distance(f *frame, n *node) int32 {
	far := int32(v.longest) + 1
	need, room := min(max(n.min-f.a, 0), far), far
	if n.max >= 0 {
		room = min(n.max-f.a, far)
	}
	return need*(far+1) + room
}

// Walker follows one answer: it is the constraint of a choice in the engine. Not safe for concurrent use.
type Walker struct {
	m      *Matcher
	stops  []int32
	path   []int32 // tokens taken
	states [history]State
	mask   []uint64 // scratch: a mask with the stops
}

// history is how many states are kept: more than the guesses that can be in flight, so that those are taken back without starting anew.
const history = 64

// Walk starts an answer; stops are the ids that end one.
func (m *Matcher) Walk(stops []int32) *Walker {
	w := &Walker{m: m, stops: stops, mask: make([]uint64, (m.v.size+63)/64)}
	m.g.Start(&w.states[0])
	return w
}

// Mask gives the ids that may follow output: those that go on with it, and the stops exactly where it may end. Nil means all: in a free text, and
// behind a stop, where nothing is asked for.
func (w *Walker) Mask(output []int32) []uint64 {
	w.follow(output)
	s := w.state()
	if s.Dead() {
		return nil
	}
	known := w.m.mask(s)
	switch {
	case !w.m.g.Done(s) || len(w.stops) == 0:
		return known.bits
	case known.all:
		return nil
	}
	copy(w.mask, known.bits)
	for _, id := range w.stops {
		if id >= 0 && int(id) < w.m.v.size {
			w.mask[id/64] |= 1 << (id % 64)
		}
	}
	return w.mask
}

// Closed says whether output is complete and nothing but its end can follow.
func (w *Walker) Closed(output []int32) bool {
	w.follow(output)
	return w.state().Closed()
}

// Done says whether output may end.
func (w *Walker) Done(output []int32) bool {
	w.follow(output)
	return w.m.g.Done(w.state())
}

func (w *Walker) state() *State { return &w.states[len(w.path)%history] }

// follow takes tokens back and on until path is output.
func (w *Walker) follow(output []int32) {
	same := 0
	for same < len(output) && same < len(w.path) && output[same] == w.path[same] {
		same++
	}
	if len(w.path)-same >= history { // its state is gone
		same = 0
		w.m.g.Start(&w.states[0])
	}
	w.path = w.path[:same]
	for _, id := range output[same:] {
		w.step(id)
	}
}

// step takes one token.
func (w *Walker) step(id int32) {
	from := w.state()
	w.path = append(w.path, id)
	to := w.state()
	if slices.Contains(w.stops, id) {
		to.clear()
		return
	}
	w.m.feed(to, from, w.m.v.bytes(id))
}

// feed sets dst to the state after text. An id without text changes nothing in a free text and ends everything else.
func (m *Matcher) feed(dst, s *State, text []byte) {
	if len(text) == 0 {
		if dst.clear(); m.g.unbound(s) {
			s.copyTo(dst)
		}
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.levels) < 2 {
		m.levels = append(m.levels, State{})
	}
	at, next := &m.levels[0], &m.levels[1]
	s.copyTo(at)
	for _, b := range text {
		m.g.Feed(next, at, b)
		at, next = next, at
	}
	at.copyTo(dst)
}
