package openai

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"tinyloop/internal/dialect"
	"tinyloop/internal/gen"
)

// entries holds encoded logprobs without their brackets: the chat form uses list only, the legacy form all columns; that of the loops only where it
// was asked for.
type entries struct {
	list, logprobs, top, offsets, loops []byte
	looped                              bool // loops holds more than null
}

func (n *entries) reset() {
	n.list, n.logprobs, n.top, n.offsets, n.loops = n.list[:0], n.logprobs[:0], n.top[:0], n.offsets[:0], n.loops[:0]
	n.looped = false
}

func comma(dst []byte) []byte {
	if len(dst) > 0 {
		return append(dst, ',')
	}
	return dst
}

// addChat adds an entry of chat completions: {token, logprob, bytes, top_logprobs}.
func (n *entries) addChat(l *gen.Logprob) {
	dst := appendToken(comma(n.list), l)
	dst = append(dst, `,"top_logprobs":[`...)
	for i := range l.Top {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendToken(dst, &l.Top[i]), '}')
	}
	dst = append(dst, ']')
	if len(l.ByLoop) > 0 {
		dst = dialect.AppendByLoop(append(dst, `,"logprobs_by_loop":`...), l)
	}
	n.list = append(dst, '}')
}

// appendToken appends a token's object without its closing brace.
func appendToken(dst []byte, l *gen.Logprob) []byte {
	dst = append(dst, `{"token":`...)
	dst = dialect.AppendString(dst, l.Text)
	dst = append(dst, `,"logprob":`...)
	dst = dialect.AppendFloat32(dst, l.Logprob)
	dst = append(dst, `,"bytes":`...)
	return dialect.AppendBytes(dst, l.Bytes)
}

// addLegacy adds a row to the four columns of completions. base is how much of the text the token's place does not count.
func (n *entries) addLegacy(l *gen.Logprob, base int) {
	n.list = appendLegacyToken(comma(n.list), l)
	n.logprobs, n.top = comma(n.logprobs), comma(n.top)
	if l.First {
		n.logprobs = append(n.logprobs, "null"...)
		n.top = append(n.top, "null"...)
	} else {
		n.logprobs = dialect.AppendFloat32(n.logprobs, l.Logprob)
		n.top = appendTop(n.top, l)
	}
	n.offsets = dialect.AppendInt(comma(n.offsets), base+l.At)
	n.loops = comma(n.loops)
	if n.looped = n.looped || len(l.ByLoop) > 0; len(l.ByLoop) > 0 {
		n.loops = dialect.AppendByLoop(n.loops, l)
	} else {
		n.loops = append(n.loops, "null"...)
	}
}

// appendTop appends the map from token to logprob. The chosen token is always in it, so it may have one name more than was asked for.
func appendTop(dst []byte, l *gen.Logprob) []byte {
	dst = append(dst, '{')
	more, listed := false, false
	for i := range l.Top {
		switch t := &l.Top[i]; {
		case t.ID == l.ID:
			listed = true
		case sameName(t, l) || slices.ContainsFunc(l.Top[:i], func(o gen.Logprob) bool { return sameName(&o, t) }):
			continue
		}
		dst = appendPair(dst, &l.Top[i], more)
		more = true
	}
	if !listed {
		dst = appendPair(dst, l, more)
	}
	return append(dst, '}')
}

// sameName says whether two tokens are written alike: that of a byte and that of a letter may be. A name may stand in a map once, and the
// chosen token's goes first.
func sameName(a, b *gen.Logprob) bool {
	return a.Text == b.Text && (utf8.Valid(a.Bytes) && utf8.Valid(b.Bytes) || bytes.Equal(a.Bytes, b.Bytes))
}

func appendPair(dst []byte, l *gen.Logprob, more bool) []byte {
	if more {
		dst = append(dst, ',')
	}
	dst = append(appendLegacyToken(dst, l), ':')
	return dialect.AppendFloat32(dst, l.Logprob)
}

// appendLegacyToken appends a token as text, or as bytes:\xNN… when its bytes are no text of their own: lossy text would make two tokens
// share one name.
func appendLegacyToken(dst []byte, l *gen.Logprob) []byte {
	if utf8.Valid(l.Bytes) {
		return dialect.AppendString(dst, l.Text)
	}
	const hex = "0123456789abcdef"
	dst = append(dst, `"bytes:`...)
	for _, c := range l.Bytes {
		dst = append(dst, '\\', '\\', 'x', hex[c>>4], hex[c&15])
	}
	return append(dst, '"')
}

// appendTo appends the logprobs object. Without entries it is null, except that a whole answer that was asked for logprobs has empty lists.
func (n *entries) appendTo(dst []byte, chat, asked bool) []byte {
	if len(n.list) == 0 && !asked {
		return append(dst, "null"...)
	}
	if chat {
		dst = append(dst, `{"content":[`...)
		dst = append(dst, n.list...)
		return append(dst, `],"refusal":null}`...)
	}
	dst = append(dst, `{"tokens":[`...)
	dst = append(dst, n.list...)
	dst = append(dst, `],"token_logprobs":[`...)
	dst = append(dst, n.logprobs...)
	dst = append(dst, `],"top_logprobs":[`...)
	dst = append(dst, n.top...)
	dst = append(dst, `],"text_offset":[`...)
	dst = append(dst, n.offsets...)
	if n.looped {
		dst = append(dst, `],"logprobs_by_loop":[`...)
		dst = append(dst, n.loops...)
	}
	return append(dst, "]}"...)
}
