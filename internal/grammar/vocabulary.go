package grammar

import (
	"bytes"
	"slices"

	"tinyloop/internal/fault"
)

// Vocabulary is a model's tokens as bytes, laid out for walking from a state. It is immutable and safe for concurrent use.
type Vocabulary struct {
	size    int
	texts   [][]byte
	all     trie
	quoted  trie     // the tokens that hold a quote
	body    []uint64 // tokens that go on within a string, wherever it stands
	longest int
}

// trie is tokens in the order of their bytes, with shared beginnings shared: its nodes in depth-first order.
type trie struct {
	nodes []branch
	ids   []int32
}

// branch is one byte of some tokens.
type branch struct {
	b        byte
	depth    uint16 // bytes before it
	skip     int32  // the node behind all those below
	from, to int32  // in ids: the tokens that end here
}

// NewVocabulary lays out size tokens; bytes gives what a token stands for, nil for one without a text. It is refused when a byte that JSON may need
// is no token of its own.
func NewVocabulary(size int, text func(id int32) []byte) (*Vocabulary, error) {
	v := &Vocabulary{size: size, texts: make([][]byte, size)}
	var have [256]bool
	var ids []int32
	for id := range int32(size) {
		b := text(id)
		if len(b) == 0 || len(b) > 1<<15 {
			continue
		}
		v.texts[id] = b
		if len(b) == 1 {
			have[b[0]] = true
		}
		v.longest = max(v.longest, len(b))
		ids = append(ids, id)
	}
	for b := range 256 {
		if needed := b >= 0x20 && b < 0x7F || b >= 0x80 && b <= 0xBF || b >= 0xC2 && b <= 0xF4; needed && !have[b] {
			return nil, fault.New(fault.Unsupported, "", "the vocabulary of this model has no token for the byte %#02x, so its answers cannot be held to a form", b)
		}
	}
	v.all, v.quoted = v.plant(ids), v.plant(v.with('"'))
	v.body = v.withinText()
	return v, nil
}

// bytes are what a token stands for, nil for one without a text.
func (v *Vocabulary) bytes(id int32) []byte { return v.texts[id] }

// with lists the tokens that hold a byte.
func (v *Vocabulary) with(b byte) (ids []int32) {
	for id, text := range v.texts {
		if bytes.IndexByte(text, b) >= 0 {
			ids = append(ids, int32(id))
		}
	}
	return ids
}

// plant builds a trie.
func (v *Vocabulary) plant(ids []int32) trie {
	slices.SortFunc(ids, func(a, b int32) int {
		if c := bytes.Compare(v.texts[a], v.texts[b]); c != 0 {
			return c
		}
		return int(a - b)
	})
	t := trie{ids: ids}
	var open []int32 // the nodes from the root to the latest one
	shut := func(depth int) {
		for len(open) > depth {
			t.nodes[open[len(open)-1]].skip = int32(len(t.nodes))
			open = open[:len(open)-1]
		}
	}
	var before []byte
	for i, id := range ids {
		b := v.bytes(id)
		shared := 0
		for shared < len(b) && shared < len(before) && b[shared] == before[shared] {
			shared++
		}
		shut(shared)
		for d := shared; d < len(b); d++ {
			open = append(open, int32(len(t.nodes)))
			t.nodes = append(t.nodes, branch{b: b[d], depth: uint16(d), from: int32(i), to: int32(i)})
		}
		t.nodes[open[len(open)-1]].to = int32(i) + 1
		before = b
	}
	shut(0)
	return t
}

// maxWork bounds the walk of one mask, in stacks that take a byte: a large vocabulary read in one way takes half of it. The engine waits for a mask, so
// a schema that can be read in very many ways must not take longer: it is left with fewer tokens, though always with those of one byte.
const maxWork = 1 << 20

// walk sets the bits of the tokens that g accepts from levels[0]; the other levels are scratch.
func (t *trie) walk(g *Grammar, levels *[]State, mask []uint64) {
	t.bytewise(g, levels, mask)
	work := 0
	for i := int32(0); int(i) < len(t.nodes) && work < maxWork; {
		n := &t.nodes[i]
		d := int(n.depth)
		for len(*levels) <= d+1 {
			*levels = append(*levels, State{})
		}
		at := &(*levels)[d+1]
		ways := len((*levels)[d].ends)
		work += ways * (1 + ways/16) // each is compared with those before it
		if g.Feed(at, &(*levels)[d], n.b); at.Dead() {
			i = n.skip
			continue
		}
		for _, id := range t.ids[n.from:n.to] {
			mask[id/64] |= 1 << (id % 64)
		}
		i++
	}
}

// bytewise is walk for the tokens of one byte.
func (t *trie) bytewise(g *Grammar, levels *[]State, mask []uint64) {
	if len(*levels) < 2 {
		*levels = append(*levels, State{})
	}
	for i := int32(0); int(i) < len(t.nodes); i = t.nodes[i].skip {
		n := &t.nodes[i]
		if n.from == n.to {
			continue
		}
		if g.Feed(&(*levels)[1], &(*levels)[0], n.b); (*levels)[1].Dead() {
			continue
		}
		for _, id := range t.ids[n.from:n.to] {
			mask[id/64] |= 1 << (id % 64)
		}
	}
}

// withinText finds the tokens that a string without an end may go on with.
func (v *Vocabulary) withinText() []uint64 {
	g := &Grammar{nodes: []node{{kind: text, max: -1}}}
	levels := []State{{frames: []frame{{step: textBody}}, ends: []int32{1}}}
	mask := make([]uint64, (v.size+63)/64)
	v.all.walk(g, &levels, mask)
	return mask
}

// roomy says whether s is within one string that no token can bring to its upper bound, and that is long enough already.
func (v *Vocabulary) roomy(g *Grammar, s *State) bool {
	if len(s.ends) != 1 || len(s.frames) == 0 {
		return false
	}
	f := &s.frames[len(s.frames)-1]
	n := &g.nodes[f.node]
	return n.kind == text && f.step == textBody && f.a >= n.min && (n.max < 0 || int(n.max-f.a) > v.longest)
}
