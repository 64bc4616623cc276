package tok

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"math"
	"slices"
	"sync"
)

// Tokenizer maps text to ids and back. It is immutable and safe for concurrent use.
type Tokenizer struct {
	src     source // what it was built from, checked
	vocab   vocab
	pairs   pairs    // BPE: which two tokens merge into which, and how early
	ranks   []uint32 // SPM: place of each token in the order of scores, best first; noRank for tokens that no text becomes
	whole   []bool   // BPE: the token's own bytes encode to just this token, so a piece that equals it needs no merging
	split   splitter
	bytes   [256]ID // token of a lone byte
	wordy   bool    // SPM: no token holds a space behind another character, so text may be cut in front of such spaces
	markup  matcher // control, marker and user-defined tokens
	plain   matcher // user-defined tokens only
	stops   []ID
	scratch sync.Pool // of *scratch
	hash    func() [32]byte
}

// Kind is "bpe" (byte-level) or "spm" (SentencePiece).
func (t *Tokenizer) Kind() string { return t.src.kind }

// Pre is the name of the pre-tokenizer as GGUF files write it; "custom" for one that has no such name.
func (t *Tokenizer) Pre() string { return t.src.pre.name }

// Size is the number of ids, unused ones included.
func (t *Tokenizer) Size() int { return len(t.src.pieces) }

// Valid says whether id lies in the vocabulary.
func (t *Tokenizer) Valid(id ID) bool { return uint(id) < uint(len(t.src.pieces)) }

// Piece is the vocabulary's own text of id, for display; "" for an unknown id.
func (t *Tokenizer) Piece(id ID) string {
	if !t.Valid(id) {
		return ""
	}
	return t.src.pieces[id]
}

// Bytes are the bytes that id stands for within a text: nil for control tokens and unknown ids. They are shared: do not change them.
func (t *Tokenizer) Bytes(id ID) []byte {
	if !t.Valid(id) {
		return nil
	}
	return t.vocab.bytes(id)
}

// Special gives the id of a control or marker token by its text.
func (t *Tokenizer) Special(text string) (ID, bool) {
	id, n := t.markup.longest(text)
	if n == 0 || n != len(text) || t.src.types[id] == typeUserDefined && !isMarker(text) {
		return -1, false
	}
	return id, true
}

// IsControl says whether id is a control token: it steers the model and has no text.
func (t *Tokenizer) IsControl(id ID) bool { return t.Valid(id) && t.src.types[id] == typeControl }

// BOS is the token in front of every text, -1 when there is none.
func (t *Tokenizer) BOS() ID { return t.src.roles[roleBOS] }

// EOS is the token behind a text, -1 when there is none.
func (t *Tokenizer) EOS() ID { return t.src.roles[roleEOS] }

// EOT is the token behind a turn of a conversation, -1 when there is none.
func (t *Tokenizer) EOT() ID { return t.src.roles[roleEOT] }

// Stops lists every id that ends an answer, in ascending order. The slice belongs to the caller.
func (t *Tokenizer) Stops() []ID { return slices.Clone(t.stops) }

// AddBOS says whether prompts start with BOS; no encoder adds it by itself.
func (t *Tokenizer) AddBOS() bool { return t.src.addBOS }

// Hash identifies the mapping: vocabulary, merges or scores, special tokens and pre-tokenizer. Equal hashes give equal ids for every text.
func (t *Tokenizer) Hash() [32]byte { return t.hash() }

// sum hashes every field of s that bears on the mapping. Each list goes in with its length, so that no two sources share a stream.
func (s *source) sum() [32]byte {
	h := digest{Hash: sha256.New()}
	h.text(s.kind, s.pre.name)
	h.text(s.pre.patterns...)
	h.flags(s.pre.ignoreMerges, s.addBOS, s.nfc)
	h.number(uint64(s.prefix))
	h.text(s.pieces...)
	for _, x := range s.types {
		h.number(uint64(x))
	}
	h.number(uint64(len(s.scores)))
	for _, x := range s.scores {
		h.number(uint64(math.Float32bits(x)))
	}
	h.number(uint64(len(s.merges)))
	for _, m := range s.merges {
		h.number(uint64(uint32(m[0]))<<32 | uint64(uint32(m[1])))
	}
	h.ids(s.roles[:])
	h.ids(s.lstrip)
	h.ids(s.rstrip)
	h.flush()
	return [32]byte(h.Sum(nil))
}

// digest gathers small writes, as hashing eight bytes at a time would cost more than the load itself.
type digest struct {
	hash.Hash
	buf []byte
}

func (d *digest) number(x uint64) {
	d.buf = binary.LittleEndian.AppendUint64(d.buf, x)
	if len(d.buf) >= 1<<14 {
		d.flush()
	}
}

func (d *digest) text(list ...string) {
	d.number(uint64(len(list)))
	for _, s := range list {
		d.number(uint64(len(s)))
		d.buf = append(d.buf, s...)
	}
}

func (d *digest) ids(list []ID) {
	d.number(uint64(len(list)))
	for _, id := range list {
		d.number(uint64(int64(id)))
	}
}

func (d *digest) flags(list ...bool) {
	for _, f := range list {
		var x uint64
		if f {
			x = 1
		}
		d.number(x)
	}
}

func (d *digest) flush() {
	d.Write(d.buf)
	d.buf = d.buf[:0]
}
