package tok

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Span is a stretch of a prompt: markup written by a template, in which special tokens are recognised, or text written by a person.
type Span struct {
	Text   string
	Markup bool
}

// scratch is what one Encode needs; it is pooled, so that encoding allocates nothing once the pool is warm.
type scratch struct {
	buf   []byte // text since the last special token
	alt   []byte // the same in NFC
	spm   []byte // the same with its spaces as SentencePiece has them
	row   row
	words *words // nil until a long text comes
	span  [1]Span
	fresh bool // no text yet since the start or the last special token
	first bool // no token yet at all
}

// A pooled scratch keeps buffers of up to keepText bytes of text and of keepRow symbols of one piece.
const (
	keepText = 1 << 22
	keepRow  = 1 << 16
)

// Encode appends the ids of text to dst. The text of special tokens is plain text to it, and it adds no BOS. Any bytes are allowed: those
// that are not UTF-8 come back from Decode as they were. With room in dst it does not allocate.
func (t *Tokenizer) Encode(dst []ID, text string) []ID { return t.encodeOne(dst, Span{Text: text}) }

// EncodeMarkup is Encode for text that a template wrote: the texts of control, marker and user-defined tokens become those tokens, the
// longest one first.
func (t *Tokenizer) EncodeMarkup(dst []ID, text string) []ID {
	return t.encodeOne(dst, Span{Text: text, Markup: true})
}

func (t *Tokenizer) encodeOne(dst []ID, s Span) []ID {
	sc := t.scratch.Get().(*scratch)
	sc.span[0] = s
	dst = t.encode(sc, dst, sc.span[:])
	sc.span[0] = Span{}
	t.release(sc)
	return dst
}

// EncodeSpans encodes a prompt made of markup and text as the one string that the spans spell: ids are those of the whole, so that words and
// spaces at the seams come out as the model learnt them. Special tokens are recognised within markup spans only, never across a seam.
func (t *Tokenizer) EncodeSpans(dst []ID, spans []Span) []ID {
	sc := t.scratch.Get().(*scratch)
	dst = t.encode(sc, dst, spans)
	t.release(sc)
	return dst
}

func (t *Tokenizer) release(sc *scratch) {
	if cap(sc.buf) > keepText {
		sc.buf, sc.alt, sc.spm = nil, nil, nil
	}
	if cap(sc.row.ids) > keepRow {
		sc.row = row{}
	}
	sc.row.text = nil
	t.scratch.Put(sc)
}

func (t *Tokenizer) encode(sc *scratch, dst []ID, spans []Span) []ID {
	sc.buf, sc.fresh, sc.first = sc.buf[:0], true, true
	for i := range spans {
		m := &t.plain
		if spans[i].Markup {
			m = &t.markup
		}
		dst = t.encodeSpan(sc, dst, spans[i].Text, m)
	}
	return t.flush(sc, dst)
}

// encodeSpan gathers text into sc.buf and flushes it in front of each special token that m finds.
func (t *Tokenizer) encodeSpan(sc *scratch, dst []ID, text string, m *matcher) []ID {
	done := 0
	for i := 0; len(m.texts) > 0 && i < len(text); i++ {
		if !m.first[text[i]] {
			continue
		}
		id, n := m.longest(text[i:])
		if n == 0 {
			continue
		}
		sc.buf = append(sc.buf, text[done:i]...)
		if len(t.src.lstrip) > 0 && slices.Contains(t.src.lstrip, id) {
			sc.buf = bytes.TrimRight(sc.buf, whiteSpace)
		}
		dst = append(t.flush(sc, dst), id)
		sc.fresh, sc.first = true, false
		done = i + n
		if len(t.src.rstrip) > 0 && slices.Contains(t.src.rstrip, id) {
			done += blanks(text[done:])
		}
		i = done - 1
	}
	sc.buf = append(sc.buf, text[done:]...)
	return dst
}

// whiteSpace is what special tokens swallow that are declared to.
const whiteSpace = " \t\n\v\f\r\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"

// blanks gives the length of the white space at the start of s.
func blanks(s string) int {
	table := classes()
	for i, r := range s {
		if r >= tableEnd || table[r]&space == 0 {
			return i
		}
	}
	return len(s)
}

// flush encodes the text gathered in sc.buf.
func (t *Tokenizer) flush(sc *scratch, dst []ID) []ID {
	if len(sc.buf) == 0 {
		return dst
	}
	if sc.words == nil && len(sc.buf) >= wordsFrom {
		sc.words = new(words)
	}
	sc.buf = slices.Grow(sc.buf, slack)
	text := sc.buf
	sc.buf = sc.buf[:0]
	if t.src.nfc && !norm.NFC.IsNormal(text) {
		sc.alt = slices.Grow(norm.NFC.Append(sc.alt[:0], text...), slack)
		text = sc.alt
	}
	if t.src.kind == kindSPM {
		dst = t.encodeSPM(sc, dst, text)
	} else {
		dst = t.cut(sc, dst, text, 0)
	}
	sc.fresh, sc.first = false, false
	return dst
}

// cut splits text by the pre-tokenizer's patterns from level on and encodes the pieces.
func (t *Tokenizer) cut(sc *scratch, dst []ID, text []byte, level int) []ID {
	if level == len(t.split) {
		return t.encodePiece(sc, dst, text)
	}
	s := &t.split[level]
	if s.re != nil {
		return t.cutSpans(sc, dst, text, s.spans(text), level)
	}
	if level+1 < len(t.split) {
		for len(text) > 0 {
			n := s.scan.next(text)
			dst = t.cut(sc, dst, text[:n], level+1)
			text = text[n:]
		}
		return dst
	}
	for len(text) > 0 {
		n := s.scan.next(text)
		dst = t.encodePiece(sc, dst, text[:n])
		text = text[n:]
	}
	return dst
}

// cutSpans encodes the matches of a pattern and what lies between them.
func (t *Tokenizer) cutSpans(sc *scratch, dst []ID, text []byte, spans [][]int, level int) []ID {
	done := 0
	for _, s := range spans {
		if s[0] > done {
			dst = t.cut(sc, dst, text[done:s[0]], level+1)
		}
		if s[1] > s[0] {
			dst = t.cut(sc, dst, text[s[0]:s[1]], level+1)
		}
		done = s[1]
	}
	if done < len(text) {
		dst = t.cut(sc, dst, text[done:], level+1)
	}
	return dst
}

// encodePiece encodes one piece: a match of the pre-tokenizer, a word of SentencePiece.
func (t *Tokenizer) encodePiece(sc *scratch, dst []ID, piece []byte) []ID {
	if len(piece) == 1 && t.src.kind == kindBPE {
		return append(dst, t.bytes[piece[0]])
	}
	if sc.words == nil {
		return t.mergePiece(&sc.row, dst, piece)
	}
	lo, hi, ok := wordKey(piece)
	if !ok {
		return t.mergePiece(&sc.row, dst, piece)
	}
	w := sc.words.slot(lo, hi)
	if w.lo == lo && w.hi == hi {
		if w.n == 1 {
			return append(dst, w.ids[0])
		}
		return append(dst, w.ids[:w.n]...)
	}
	n := len(dst)
	dst = t.mergePiece(&sc.row, dst, piece)
	w.set(lo, hi, dst[n:])
	return dst
}

// mergePiece encodes one piece without remembering it.
func (t *Tokenizer) mergePiece(r *row, dst []ID, piece []byte) []ID {
	if t.src.kind == kindSPM {
		return t.mergeChars(r, dst, piece)
	}
	if id := t.vocab.find(piece); id >= 0 && t.whole[id] {
		return append(dst, id)
	}
	t.fillBytes(r, piece)
	t.merge(r)
	return append(dst, r.ids...)
}

// fillBytes makes one symbol of each byte.
func (t *Tokenizer) fillBytes(r *row, piece []byte) {
	r.reset(piece)
	r.grow(len(piece))
	for i, b := range piece {
		r.ids = append(r.ids, t.bytes[b])
		r.start = append(r.start, int32(i))
	}
	r.start = append(r.start, int32(len(piece)))
}

// encodeSPM encodes a run of text the way SentencePiece does: a space in front where the model has one, U+2581 and space being the same.
func (t *Tokenizer) encodeSPM(sc *scratch, dst []ID, text []byte) []ID {
	out := sc.spm[:0]
	if t.wantsSpace(sc, text) {
		out = append(out, ' ')
	}
	for {
		i := bytes.Index(text, []byte(spaceMark))
		if i < 0 {
			break
		}
		out = append(append(out, text[:i]...), ' ')
		text = text[i+len(spaceMark):]
	}
	out = slices.Grow(append(out, text...), slack)
	sc.spm = out
	for len(out) > 0 {
		n := len(out)
		if t.wordy {
			n = spmWord(out)
		}
		dst = t.encodePiece(sc, dst, out[:n])
		out = out[n:]
	}
	return dst
}

// wantsSpace says whether a run of text gets a space in front.
func (t *Tokenizer) wantsSpace(sc *scratch, text []byte) bool {
	switch t.src.prefix {
	case prefixRuns:
		return sc.fresh
	case prefixRunsMissing:
		return sc.fresh && !startsBlank(text)
	case prefixFirstMissing:
		return sc.first && !startsBlank(text)
	}
	return false
}

func startsBlank(b []byte) bool {
	return bytes.HasPrefix(b, []byte(" ")) || bytes.HasPrefix(b, []byte(spaceMark))
}

// spmWord gives the length of the first word of b with the spaces in front of it.
func spmWord(b []byte) int {
	i := 0
	for i < len(b) && b[i] == ' ' {
		i++
	}
	if n := bytes.IndexByte(b[i:], ' '); n >= 0 {
		return i + n
	}
	return len(b)
}

// mergeChars merges the characters of text. One that ends up in no token is written as its bytes.
func (t *Tokenizer) mergeChars(r *row, dst []ID, text []byte) []ID {
	r.reset(text)
	r.grow(len(text))
	for i := 0; i < len(text); {
		_, n := utf8.DecodeRune(text[i:])
		r.ids = append(r.ids, t.vocab.find(text[i:i+n]))
		r.start = append(r.start, int32(i))
		i += n
	}
	r.start = append(r.start, int32(len(text)))
	t.merge(r)
	for i, id := range r.ids {
		if id >= 0 {
			dst = append(dst, id)
			continue
		}
		for _, b := range text[r.start[i]:r.start[i+1]] {
			dst = append(dst, t.bytes[b])
		}
	}
	return dst
}
