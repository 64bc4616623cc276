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
//	slots  hash(32 bits) | id+1        open addressing, at most half full, 0 = free
type vocab struct {
	text    []byte
	off     []uint32
	slots   []uint64
	seed    maphash.Seed
	longest int // bytes of the longest token in the table
}

// newVocab lays out texts (nil entries have no bytes) and indexes those that text may become.
func newVocab(texts []string, indexed []bool) vocab {
	v := vocab{off: make([]uint32, 1, len(texts)+1), seed: maphash.MakeSeed()}
	n, total := 0, 0
	for _, s := range texts {
		total += len(s)
	}
	v.text = make([]byte, 0, total)
	for i, s := range texts {
		v.text = append(v.text, s...)
		v.off = append(v.off, uint32(len(v.text)))
		if indexed[i] {
			n++
		}
	}
	size := 4
	for size < 2*n {
		size *= 2
	}
	v.slots = make([]uint64, size)
	for i := range texts {
		if indexed[i] {
			v.insert(ID(i))
		}
	}
	return v
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
		v.slots[at] = h&^0xffffffff | uint64(id+1)
	}
}

// find gives the id whose bytes are b, or -1.
func (v *vocab) find(b []byte) ID {
	if len(b) > v.longest {
		return -1
	}
	return ID(uint32(v.slots[v.place(b, maphash.Bytes(v.seed, b))])) - 1
}

// place gives the slot of b, or the free one where it would be.
func (v *vocab) place(b []byte, h uint64) uint64 {
	mask := uint64(len(v.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		s := v.slots[i]
		if s == 0 {
			return i
		}
		if (s^h)>>32 == 0 && string(v.bytes(ID(uint32(s)-1))) == string(b) {
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

// textOf gives the bytes that a token stands for within a text, and whether running text may become it by merging.
func textOf(kind, piece string, ty tokenType) (text string, reachable bool) {
	switch ty {
	case typeControl, typeUnknown, typeUnused:
		return "", false
	case typeUserDefined:
		return piece, false
	case typeByte:
		b, ok := byteToken(piece)
		if !ok {
			return piece, false
		}
		return string([]byte{b}), false
	}
	if kind == kindSPM {
		return strings.ReplaceAll(piece, spaceMark, " "), !strings.Contains(piece, " ")
	}
	text, ok := fromByteLevel(piece)
	if !ok {
		return piece, false // an added token that its file calls ordinary
	}
	return text, true
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
