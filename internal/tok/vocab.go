package tok

import (
	"hash/maphash"
	"strings"
)

// tokenType is the sort of a token, numbered as in GGUF's tokenizer.ggml.token_type.
type tokenType uint8

const (
	typeNormal      tokenType = 1
	typeUnknown     tokenType = 2
	typeControl     tokenType = 3
	typeUserDefined tokenType = 4
	typeUnused      tokenType = 5
	typeByte        tokenType = 6
)

// Limits on tokenizer files: far above any real one, low enough that a hostile one costs little.
const (
	maxTokens = 1 << 21
	maxPiece  = 1 << 12 // bytes of one token
	maxText   = 1 << 30 // bytes of all tokens together
	maxMerges = 1 << 23
)

// vocab holds the bytes of every token end to end, and a hash table from bytes to id.
//
//	text   "!" "\"" … "Ġthe" …        off[id] … off[id+1]
type vocab struct {
	text    []byte
	off     []uint32
	slots   slots
	seed    maphash.Seed
	longest int // bytes of the longest token in the table
}

// newVocab lays out the bytes of all tokens, of which it knows no more before than that no piece is shorter than its bytes, and indexes those that text may
// become, which reachable lists.
func newVocab(s *source) (v vocab, reachable []bool) {
	total := 0
	for _, p := range s.pieces {
		total += len(p)
	}
	v = vocab{text: make([]byte, 0, total), off: make([]uint32, len(s.pieces)+1), seed: maphash.MakeSeed()}
	reachable = make([]bool, len(s.pieces))
	n := 0
	for i, p := range s.pieces {
		if v.text, reachable[i] = appendText(v.text, s.kind, p, s.types[i]); reachable[i] {
			n++
		}
		v.off[i+1] = uint32(len(v.text))
	}
	v.slots = newSlots(n)
	for i, ok := range reachable {
		if ok {
			v.insert(ID(i))
		}
	}
	return v, reachable
}

// insert puts id into the table. Of two tokens with the same bytes the first stays.
func (v *vocab) insert(id ID) {
	b := v.bytes(id)
	if len(b) == 0 {
		return
	}
	v.longest = max(v.longest, len(b))
	h := maphash.Bytes(v.seed, b)
	if at := v.place(b, h); v.slots[at] == 0 {
		v.slots[at] = slotOf(h, id)
	}
}

// find gives the id whose bytes are b, or -1.
func (v *vocab) find(b []byte) ID {
	if len(b) > v.longest {
		return -1
	}
	return v.slots.id(v.place(b, maphash.Bytes(v.seed, b)))
}

// place gives the slot of b, or the free one where it would be.
func (v *vocab) place(b []byte, h uint64) uint64 {
	mask := uint64(len(v.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		if v.slots[i] == 0 || alike(v.slots[i], h) && string(v.bytes(v.slots.id(i))) == string(b) {
			return i
		}
	}
}

func (v *vocab) bytes(id ID) []byte {
	a, b := v.off[id], v.off[id+1]
	if a == b {
		return nil
	}
	return v.text[a:b:b]
}

// appendText appends the bytes that a token stands for within a text, and says whether running text may become it by merging.
func appendText(dst []byte, kind, piece string, ty tokenType) (text []byte, reachable bool) {
	switch ty {
	case typeControl, typeUnknown, typeUnused:
		return dst, false
	case typeUserDefined:
		return append(dst, piece...), false
	case typeByte:
		b, ok := byteToken(piece)
		if !ok {
			return append(dst, piece...), false
		}
		return append(dst, b), false
	}
	if kind == kindSPM {
		return appendSpaced(dst, piece), strings.IndexByte(piece, ' ') < 0
	}
	text, ok := appendByteLevel(dst, piece)
	if !ok {
		return append(dst, piece...), false // an added token that its file calls ordinary
	}
	return text, true
}

// appendSpaced appends a piece of SentencePiece with spaces in place of their marks.
func appendSpaced(dst []byte, piece string) []byte {
	for {
		i := strings.Index(piece, spaceMark)
		if i < 0 {
			return append(dst, piece...)
		}
		dst = append(append(dst, piece[:i]...), ' ')
		piece = piece[i+len(spaceMark):]
	}
}

// byteToken reads a byte token's name, as in "<0x0A>".
func byteToken(piece string) (byte, bool) {
	if len(piece) != 6 || piece[:3] != "<0x" || piece[5] != '>' {
		return 0, false
	}
	hi, ok1 := hexDigit(piece[3])
	lo, ok2 := hexDigit(piece[4])
	return hi<<4 | lo, ok1 && ok2
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	}
	return 0, false
}

// isMarker says whether the text of an added token looks like markup: <…> or […].
func isMarker(text string) bool {
	text = strings.Trim(text, " \n\t"+spaceMark)
	if len(text) < 3 {
		return false
	}
	a, b := text[0], text[len(text)-1]
	return a == '<' && b == '>' || a == '[' && b == ']'
}
