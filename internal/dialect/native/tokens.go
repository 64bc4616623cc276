package native

import (
	"fmt"
	"unicode/utf8"

	"tinyloop/internal/dialect"
	"tinyloop/internal/fault"
	"tinyloop/internal/tok"
)

// tokenize answers POST /tokenize {content, add_special, parse_special, with_pieces, model}.
func tokenize(c *dialect.Call) ([]byte, error) {
	o, err := dialect.ParseObject(c.Body)
	if err != nil {
		return nil, err
	}
	var content string
	if v := o.Need("content"); v.Present() {
		content = v.String()
	}
	special, parse, pieces := o.Flag("add_special", false), o.Flag("parse_special", true), o.Flag("with_pieces", false)
	t, release, err := opened(c, o)
	if err != nil {
		return nil, err
	}
	defer release()
	var ids []tok.ID
	if special && t.AddBOS() && t.BOS() >= 0 {
		ids = append(ids, t.BOS())
	}
	if parse {
		ids = t.EncodeMarkup(ids, content)
	} else {
		ids = t.Encode(ids, content)
	}
	dst := []byte(`{"tokens":`)
	if pieces {
		return append(appendPieces(dst, t, ids), '}'), nil
	}
	return append(dialect.AppendInts(dst, ids), '}'), nil
}

// appendPieces appends every token with its text, or its bytes where they are no text of their own.
func appendPieces(dst []byte, t *tok.Tokenizer, ids []tok.ID) []byte {
	dst = append(dst, '[')
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"id":`...)
		dst = dialect.AppendInt(dst, int(id))
		dst = append(dst, `,"piece":`...)
		b := t.Bytes(id)
		switch {
		case t.IsControl(id):
			dst = dialect.AppendString(dst, t.Piece(id))
		case utf8.Valid(b):
			dst = dialect.AppendString(dst, string(b))
		default:
			dst = dialect.AppendBytes(dst, b)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// opened ends the reading of a body and holds the model that it names, for its tokenizer, until release is called.
func opened(c *dialect.Call, o *dialect.Object) (t *tok.Tokenizer, release func(), err error) {
	model := o.Str("model")
	o.Done()
	c.Ignored = o.Ignored()
	if err := o.Err(); err != nil {
		return nil, nil, err
	}
	g, release, err := c.Models.Open(model)
	if err != nil {
		return nil, nil, err
	}
	return g.Tokenizer(), release, nil
}

// detokenize answers POST /detokenize {tokens, model}.
func detokenize(c *dialect.Call) ([]byte, error) {
	o, err := dialect.ParseObject(c.Body)
	if err != nil {
		return nil, err
	}
	var ids []tok.ID
	if v := o.Need("tokens"); v.Present() {
		ids = v.IDs()
	}
	t, release, err := opened(c, o)
	if err != nil {
		return nil, err
	}
	defer release()
	for i, id := range ids {
		if id < 0 || int(id) >= t.Size() {
			return nil, fault.New(fault.Invalid, fmt.Sprintf("tokens[%d]", i), "tokens[%d] must be a token id from 0 to %d, got %d", i, t.Size()-1, id)
		}
	}
	dst := dialect.AppendString([]byte(`{"content":`), string(t.Decode(nil, ids)))
	return append(dst, '}'), nil
}
