package tok

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"tinyloop/internal/fault"
)

const (
	kindBPE = "bpe"
	kindSPM = "spm"
)

// role is a place that a token can fill.
type role int

const (
	roleBOS role = iota
	roleEOS
	roleEOT
	roleEOM
	roleUnknown
	roleSeparator
	rolePadding
	roleMask
	roleFIMPrefix
	roleFIMSuffix
	roleFIMMiddle
	roleFIMPad
	roleFIMRepo
	roleFIMSeparator
	roles
)

// prefix says where SentencePiece puts a space in front of a text.
type prefix uint8

const (
	prefixNone         prefix = iota
	prefixRuns                // in front of the text and of every run of text behind a control token
	prefixRunsMissing         // the same, unless a space stands there already (Metaspace "always")
	prefixFirstMissing        // only in front of the whole text, unless a space stands there already (Metaspace "first")
)

// source is everything that a tokenizer file says; each loader fills one in and build checks it.
type source struct {
	kind   string
	pieces []string    // vocabulary text as GGUF writes it: byte-level alphabet, or U+2581 for spaces
	types  []tokenType // as many as pieces
	scores []float32   // SPM: as many as pieces
	merges [][2]ID     // BPE: best first
	pre    pre
	roles  [roles]ID // -1: none
	stops  []ID      // further ids that end an answer
	addBOS bool
	prefix prefix
	nfc    bool // text is normalised to NFC first
	lstrip []ID // special tokens that swallow white space in front, behind
	rstrip []ID
	ids    *textIndex // see byText; only while loading
}

// byText maps vocabulary text to ids, the first of two that are equal. It is made once pieces are all there.
func (s *source) byText() *textIndex {
	if s.ids == nil {
		s.ids = newTextIndex(s.pieces)
	}
	return s.ids
}

func newSource(kind string) source {
	s := source{kind: kind}
	for i := range s.roles {
		s.roles[i] = -1
	}
	return s
}

// turnEnds are the texts of tokens that end a turn, most telling first; textEnds end a text or a message. A token with such a text is a
// control token even where its file says otherwise: files that call it ordinary are known, and an answer would then run on for ever.
var (
	turnEnds = []string{"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<turn|>", "<|return|>", "<EOT>", "_<EOT>", "[EOT]", "<end_of_utterance>"}
	textEnds = []string{"<|endoftext|>", "<|end_of_text|>", "<|eom_id|>", "<|call|>", "<|calls|>", "<|flush|>", "[EOS]", "<｜end▁of▁sentence｜>"}
)

// build checks s and makes the tokenizer.
func build(s source) (*Tokenizer, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	s.defaultRoles()
	if err := s.checkPieces(); err != nil {
		return nil, err
	}
	byPiece := s.byText()
	s.ids = nil
	t := &Tokenizer{src: s}
	t.findEnds(byPiece)
	var reachable []bool
	t.vocab, reachable = newVocab(&t.src)
	if err := t.findBytes(); err != nil {
		return nil, err
	}
	var err error
	if t.split, err = compile(s.pre.patterns); err != nil {
		return nil, err
	}
	t.markup, t.plain = t.matchers()
	t.scratch.New = func() any { return new(scratch) }
	if s.kind == kindSPM {
		t.rankScores(reachable)
	} else if err := t.rankMerges(byPiece); err != nil {
		return nil, err
	}
	t.hash = sync.OnceValue(t.src.sum)
	return t, nil
}

// defaultRoles fills the roles that SentencePiece files leave out: their tokens stand in front of all others.
func (s *source) defaultRoles() {
	if s.kind != kindSPM {
		return
	}
	for i := range min(8, len(s.pieces)) {
		for r, text := range map[role]string{roleUnknown: "<unk>", roleBOS: "<s>", roleEOS: "</s>"} {
			if s.roles[r] < 0 && s.pieces[i] == text {
				s.roles[r] = ID(i)
			}
		}
	}
}

// check bounds the sizes of s.
func (s *source) check() error {
	n := len(s.pieces)
	switch {
	case n == 0:
		return fault.New(fault.Invalid, "tokenizer", "the tokenizer has no tokens")
	case n > maxTokens:
		return fault.New(fault.Invalid, "tokenizer", "the tokenizer has %d tokens, at most %d are read", n, maxTokens)
	case len(s.types) != n:
		return fault.New(fault.Invalid, "tokenizer", "the tokenizer has %d tokens but %d token types", n, len(s.types))
	case s.kind == kindSPM && len(s.scores) != n:
		return fault.New(fault.Invalid, "tokenizer", "the tokenizer has %d tokens but %d scores", n, len(s.scores))
	case len(s.merges) > maxMerges:
		return fault.New(fault.Invalid, "tokenizer", "the tokenizer has %d merges, at most %d are read", len(s.merges), maxMerges)
	}
	for i, x := range s.scores {
		if x != x || math.IsInf(float64(x), 0) {
			return fault.New(fault.Invalid, "tokenizer", "the score of token %d is %v, not a finite number", i, x)
		}
	}
	for i, id := range s.roles {
		if id < -1 || int(id) >= n {
			return fault.New(fault.Invalid, "tokenizer", "%s is %d, but the tokenizer has %d tokens", roleKeys[i], id, n)
		}
	}
	return nil
}

// checkPieces bounds single tokens and refuses a text that two of them share.
func (s *source) checkPieces() error {
	total := 0
	for _, p := range s.pieces {
		total += len(p)
	}
	if total > maxText {
		return fault.New(fault.Invalid, "tokenizer", "the tokens have %d bytes together, at most %d are read", total, maxText)
	}
	for i, p := range s.pieces {
		if len(p) > maxPiece {
			return fault.New(fault.Invalid, "tokenizer", "token %d has %d bytes, at most %d are read", i, len(p), maxPiece)
		}
		if s.types[i] < typeNormal || s.types[i] > typeByte {
			return fault.New(fault.Invalid, "tokenizer", "token %d has type %d, known are %d to %d", i, s.types[i], typeNormal, typeByte)
		}
		if p == "" {
			s.types[i] = typeUnused // a gap in the numbering
		}
	}
	if a, b, twice := s.byText().twins(); twice {
		return fault.New(fault.Invalid, "tokenizer", "tokens %d and %d are both %q", a, b, fault.Clip(s.pieces[b], 64))
	}
	return nil
}

// findEnds settles which tokens end a turn and an answer.
func (t *Tokenizer) findEnds(byPiece *textIndex) {
	s := &t.src
	add := func(id ID) {
		if id >= 0 && !slices.Contains(t.stops, id) {
			t.stops = append(t.stops, id)
		}
	}
	for _, text := range turnEnds {
		id, ok := byPiece.find(text)
		if !ok {
			continue
		}
		s.types[id] = typeControl
		if s.roles[roleEOT] < 0 {
			s.roles[roleEOT] = id
		}
		add(id)
	}
	for _, text := range textEnds {
		if id, ok := byPiece.find(text); ok {
			s.types[id] = typeControl
			add(id)
		}
	}
	for _, r := range []role{roleEOS, roleEOT, roleEOM} {
		if id := s.roles[r]; id >= 0 {
			s.types[id] = typeControl
			add(id)
		}
	}
	s.stops = slices.DeleteFunc(slices.Clone(s.stops), func(id ID) bool { return slices.Contains(t.stops, id) }) // only those that nothing else names
	for _, id := range s.stops {
		add(id)
	}
	if id := s.roles[roleBOS]; id >= 0 {
		s.types[id] = typeControl
	} else {
		s.addBOS = false
	}
	slices.Sort(t.stops)
}

// findBytes finds the token of each lone byte: in SPM the byte tokens, in BPE the tokens of one byte. The unknown token stands in for a
// missing one; without it the text could not be written at all.
func (t *Tokenizer) findBytes() error {
	var named [256]ID
	for b := range named {
		named[b] = -1
	}
	for i, ty := range t.src.types {
		if text := t.vocab.bytes(ID(i)); len(text) == 1 && ty == typeByte {
			named[text[0]] = ID(i)
		}
	}
	for b := range t.bytes {
		plain := t.vocab.find([]byte{byte(b)})
		id := named[b]
		if id < 0 || t.src.kind == kindBPE && plain >= 0 {
			id = plain
		}
		if id < 0 {
			id = t.src.roles[roleUnknown]
		}
		if id < 0 {
			return fault.New(fault.Invalid, "tokenizer", "the tokenizer has no token for the byte 0x%02X and no unknown token", b)
		}
		t.bytes[b] = id
	}
	return nil
}

// rankScores orders the tokens of SPM by score, equal scores sharing a rank, and looks whether words can be merged one by one.
func (t *Tokenizer) rankScores(reachable []bool) {
	order := make([]ID, 0, len(reachable))
	t.wordy = true
	for i, ok := range reachable {
		if ok {
			order = append(order, ID(i))
			t.wordy = t.wordy && leadingSpacesOnly(t.vocab.bytes(ID(i)))
		}
	}
	scores := t.src.scores
	slices.SortFunc(order, func(a, b ID) int { return cmp.Compare(scores[b], scores[a]) }) // most files have them in order already
	t.ranks = make([]uint32, len(reachable))
	rank := uint32(0)
	for i, id := range order {
		if i > 0 && scores[id] != scores[order[i-1]] {
			rank++
		}
		t.ranks[id] = rank
	}
}

// leadingSpacesOnly says whether no space stands behind another character.
func leadingSpacesOnly(b []byte) bool {
	for i := 1; i < len(b); i++ {
		if b[i] == ' ' && b[i-1] != ' ' {
			return false
		}
	}
	return true
}

// rankMerges fills the table of pairs and finds out which tokens their own bytes encode to.
func (t *Tokenizer) rankMerges(byPiece *textIndex) error {
	t.pairs = newPairs(len(t.src.merges))
	var both []byte
	for i, m := range t.src.merges {
		both = append(append(both[:0], t.src.pieces[m[0]]...), t.src.pieces[m[1]]...)
		merged, ok := byPiece.find(string(both))
		if !ok {
			return fault.New(fault.Invalid, "tokenizer.ggml.merges", "merge %d joins %q and %q, but no token is %q",
				i, fault.Clip(t.src.pieces[m[0]], 64), fault.Clip(t.src.pieces[m[1]], 64), fault.Clip(string(both), 64))
		}
		t.pairs.insert(m[0], m[1], uint32(i), merged)
	}
	t.whole = make([]bool, len(t.src.pieces))
	var r row
	for i := range t.whole {
		b := t.vocab.bytes(ID(i))
		if t.src.types[i] != typeNormal || len(b) == 0 || t.vocab.find(b) != ID(i) {
			continue
		}
		if t.whole[i] = t.src.pre.ignoreMerges; t.whole[i] {
			continue
		}
		t.fillBytes(&r, b)
		t.merge(&r)
		t.whole[i] = len(r.ids) == 1 && r.ids[0] == ID(i)
	}
	return nil
}
