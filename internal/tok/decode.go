package tok

import "unicode/utf8"

// Decode appends the exact bytes of ids to dst. Control tokens give nothing, unknown ids are skipped (callers check Valid where they come from
// outside). SPM with a space prefix: the space that encoding put in front of the text, and in front of each run of text behind a special
// token, is taken away again, so that Decode(Encode(x)) = x but for U+2581, which becomes a space.
func (t *Tokenizer) Decode(dst []byte, ids []ID) []byte {
	fresh := true
	for _, id := range ids {
		dst = append(dst, t.next(id, &fresh)...)
	}
	return dst
}

// next gives the bytes that id adds to a text. fresh says that a run of text starts here; it is kept up to date.
func (t *Tokenizer) next(id ID, fresh *bool) []byte {
	if !t.Valid(id) {
		return nil
	}
	b := t.vocab.bytes(id)
	if t.src.prefix == prefixNone {
		return b
	}
	runs := t.src.prefix != prefixFirstMissing
	switch t.src.types[id] {
	case typeNormal, typeByte:
		if *fresh && len(b) > 0 && b[0] == ' ' {
			b = b[1:]
		}
		*fresh = false
	case typeUserDefined:
		*fresh = runs
	case typeControl:
		*fresh = *fresh || runs
	}
	return b
}

// Stream decodes token by token into valid UTF-8. It is a value without heap: a copy is a fork, and keeping the old one undoes a branch.
// Bytes of a character that is not complete yet are held back; bytes that can no longer become one are replaced by U+FFFD at once, one for
// each maximal ill-formed part (the practice that Unicode and WHATWG recommend). So for text that is valid the streamed pieces, joined, equal Decode.
type Stream struct {
	t     *Tokenizer
	held  [utf8.UTFMax]byte
	n     uint8
	fresh bool
}

// NewStream starts at the beginning of a text.
func (t *Tokenizer) NewStream() Stream { return Stream{t: t, fresh: true} }

// NewStreamAfter starts behind ids: the first token's space is kept if text stands in front of it, and a character that ids leave
// unfinished is finished by what follows (it then comes out whole). Only the last few ids are looked at.
func (t *Tokenizer) NewStreamAfter(ids []ID) Stream {
	from, size := len(ids), 0
	for from > 0 && size < utf8.UTFMax {
		from--
		size += len(t.Bytes(ids[from]))
	}
	s := t.NewStream()
	var drop [64]byte
	for _, id := range ids[from:] {
		s.Add(drop[:0], id)
	}
	return s
}

// Add appends the characters that id completes.
func (s *Stream) Add(dst []byte, id ID) []byte {
	b := s.t.next(id, &s.fresh)
	if s.n == 0 && utf8.Valid(b) {
		return append(dst, b...)
	}
	for _, c := range b {
		dst = s.add(dst, c)
	}
	return dst
}

// add takes one byte in.
func (s *Stream) add(dst []byte, c byte) []byte {
	s.held[s.n] = c
	s.n++
	if !utf8.FullRune(s.held[:s.n]) {
		return dst
	}
	if r, n := utf8.DecodeRune(s.held[:s.n]); r != utf8.RuneError || n > 1 {
		dst = append(dst, s.held[:s.n]...)
		s.n = 0
		return dst
	}
	alone := s.n == 1
	s.n = 0
	dst = append(dst, "\uFFFD"...)
	if alone {
		return dst
	}
	return s.add(dst, c) // what was held could not go on with c; c may start anew
}

// Flush ends the text: a held, unfinished character becomes one U+FFFD.
func (s *Stream) Flush(dst []byte) []byte {
	if s.n > 0 {
		dst = append(dst, "\uFFFD"...)
	}
	s.n = 0
	return dst
}

// Pending is the number of bytes held back.
func (s *Stream) Pending() int { return int(s.n) }
