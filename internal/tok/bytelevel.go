package tok

import "unicode/utf8"

// spaceMark stands for a space in SentencePiece vocabularies (U+2581).
const spaceMark = "▁"

// The byte-level alphabet of GPT-2 writes each byte as one printable character: printable Latin-1 bytes as themselves, the 68 others as
// U+0100 onwards in the order of their values (space is U+0120, newline U+010A).

// byteRune gives the character that stands for b.
func byteRune(b byte) rune {
	switch {
	case b >= '!' && b <= '~', b >= 0xA1 && b <= 0xAC, b >= 0xAE:
		return rune(b)
	case b <= ' ':
		return 0x100 + rune(b)
	case b <= 0xA0: // 0x7F … 0xA0
		return 0x121 + rune(b-0x7F)
	}
	return 0x143 // 0xAD
}

// runeByte is the inverse of byteRune.
func runeByte(r rune) (byte, bool) {
	switch {
	case r >= '!' && r <= '~', r >= 0xA1 && r <= 0xAC, r >= 0xAE && r <= 0xFF:
		return byte(r), true
	case r >= 0x100 && r <= 0x120:
		return byte(r - 0x100), true
	case r >= 0x121 && r <= 0x142:
		return byte(r-0x121) + 0x7F, true
	case r == 0x143:
		return 0xAD, true
	}
	return 0, false
}

// toByteLevel writes bytes in the byte-level alphabet.
func toByteLevel(text string) string {
	out := make([]byte, 0, 2*len(text))
	for i := range len(text) {
		out = utf8.AppendRune(out, byteRune(text[i]))
	}
	return string(out)
}

// appendByteLevel appends the bytes that a text in the byte-level alphabet stands for; false, and nothing appended, for a character outside it.
func appendByteLevel(dst []byte, piece string) ([]byte, bool) {
	out := dst
	for _, r := range piece {
		b, ok := runeByte(r)
		if !ok {
			return dst, false
		}
		out = append(out, b)
	}
	return out, true
}
