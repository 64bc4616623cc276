package tok

import (
	"encoding/binary"
	"math"
	"strings"

	"tinyloop/internal/fault"
)

// FromLlama2c reads the tokenizer.bin of llama2.c (tok512.bin) with vocab entries; all are little-endian:
//
//	int32 longest piece   { float32 score, int32 length, bytes piece } * vocab
//
// Entry 0 is <unk>, 1 is <s>, 2 is </s>, then the 256 byte tokens, then pieces with plain spaces.
func FromLlama2c(data []byte, vocab int) (*Tokenizer, error) {
	const firstPiece = 3 + 256
	if vocab < firstPiece || vocab > maxTokens {
		return nil, fault.New(fault.Invalid, "vocab_size", "vocab_size is %d, a llama2.c tokenizer has %d to %d", vocab, firstPiece, maxTokens)
	}
	if len(data) < 4+8*vocab {
		return nil, fault.New(fault.Invalid, "tokenizer", "the tokenizer has %d bytes, %d tokens need at least %d", len(data), vocab, 4+8*vocab)
	}
	s := newSource(kindSPM)
	s.addBOS, s.prefix, s.pre.name = true, prefixRuns, "default"
	rest := data[4:]
	for i := range vocab {
		if len(rest) < 8 {
			return nil, fault.New(fault.Invalid, "tokenizer", "the tokenizer ends within token %d of %d", i, vocab)
		}
		score := math.Float32frombits(binary.LittleEndian.Uint32(rest))
		n := binary.LittleEndian.Uint32(rest[4:])
		rest = rest[8:]
		if n > maxPiece || int(n) > len(rest) {
			return nil, fault.New(fault.Invalid, "tokenizer", "token %d says it has %d bytes, %d are left and at most %d are read", i, n, len(rest), maxPiece)
		}
		piece, ty := llama2cPiece(i, string(rest[:n]))
		s.pieces, s.types, s.scores = append(s.pieces, piece), append(s.types, ty), append(s.scores, score)
		rest = rest[n:]
	}
	if len(rest) > 0 {
		return nil, fault.New(fault.Invalid, "tokenizer", "%d bytes follow the last of %d tokens", len(rest), vocab)
	}
	s.roles[roleUnknown], s.roles[roleBOS], s.roles[roleEOS] = 0, 1, 2
	return build(s)
}

// llama2cPiece gives the vocabulary text and type of entry i.
func llama2cPiece(i int, text string) (string, tokenType) {
	switch {
	case i == 0:
		return text, typeUnknown
	case i <= 2:
		return strings.Trim(text, "\n"), typeControl
	case i < 3+256:
		return text, typeByte
	}
	return strings.ReplaceAll(text, " ", spaceMark), typeNormal
}
