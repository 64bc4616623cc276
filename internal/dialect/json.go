package dialect

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"tinyloop/internal/fault"
)

// MaxDepth is how deeply arrays and objects of a request body may nest.
const MaxDepth = 64

// check verifies that b is one JSON text (RFC 8259) in UTF-8, nested at most MaxDepth deep, with nothing behind it. What it accepts can be
// walked by the lazy readers of this package without further checks, and without taking memory in proportion to the body.
func check(b []byte) error {
	if i := badUTF8(b); i >= 0 {
		return syntaxError(b, i, "the body is not valid UTF-8")
	}
	s := scanner{b: b}
	s.space()
	if s.i == len(b) {
		return &fault.Error{Kind: fault.Malformed, Code: "invalid_json", Msg: "the body is empty; send a JSON object"}
	}
	if msg := s.value(0); msg != "" {
		return syntaxError(b, s.i, msg)
	}
	s.space()
	if s.i < len(b) {
		return syntaxError(b, s.i, "something follows the end of the JSON value")
	}
	return nil
}

func badUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

func syntaxError(b []byte, at int, msg string) error {
	line := 1 + bytes.Count(b[:at], []byte{'\n'})
	col := at - bytes.LastIndexByte(b[:at], '\n')
	return &fault.Error{Kind: fault.Malformed, Code: "invalid_json",
		Msg: fmt.Sprintf("the body is not valid JSON: %s at line %d column %d (byte %d)", msg, line, col, at)}
}

// scanner walks JSON without building anything. Its methods give "" or what is wrong at i.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

func (s *scanner) value(depth int) string {
	if s.i >= len(s.b) {
		return "unexpected end"
	}
	switch c := s.b[s.i]; {
	case c == '{':
		return s.object(depth + 1)
	case c == '[':
		return s.array(depth + 1)
	case c == '"':
		return s.str()
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	case c == 'N' || c == 'I':
		return "NaN and Infinity are not JSON numbers"
	}
	return fmt.Sprintf("unexpected %q", rune(s.b[s.i]))
}

func (s *scanner) object(depth int) string {
	if depth > MaxDepth {
		return fmt.Sprintf("nested deeper than %d levels", MaxDepth)
	}
	s.i++
	s.space()
	if s.eat('}') {
		return ""
	}
	for {
		if s.i >= len(s.b) {
			return "unexpected end inside an object"
		}
		if s.b[s.i] != '"' {
			return "expected a name in double quotes"
		}
		if msg := s.str(); msg != "" {
			return msg
		}
		s.space()
		if !s.eat(':') {
			return "expected ':' after a name"
		}
		s.space()
		if msg := s.value(depth); msg != "" {
			return msg
		}
		s.space()
		if s.eat('}') {
			return ""
		}
		if !s.eat(',') {
			return "expected ',' or '}'"
		}
		s.space()
	}
}

func (s *scanner) array(depth int) string {
	if depth > MaxDepth {
		return fmt.Sprintf("nested deeper than %d levels", MaxDepth)
	}
	s.i++
	s.space()
	if s.eat(']') {
		return ""
	}
	for {
		if msg := s.value(depth); msg != "" {
			return msg
		}
		s.space()
		if s.eat(']') {
			return ""
		}
		if !s.eat(',') {
			return "expected ',' or ']'"
		}
		s.space()
	}
}

func (s *scanner) eat(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

func (s *scanner) word(w string) string {
	if !bytes.HasPrefix(s.b[s.i:], []byte(w)) {
		return "expected " + w
	}
	s.i += len(w)
	return ""
}

func (s *scanner) str() string {
	for s.i++; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return ""
		case c == '\\':
			if msg := s.escape(); msg != "" {
				return msg
			}
		case c < 0x20:
			return "control character inside a string"
		}
	}
	return "unexpected end inside a string"
}

// escape leaves i on the last byte of the escape sequence.
func (s *scanner) escape() string {
	s.i++
	if s.i >= len(s.b) {
		return "unexpected end inside a string"
	}
	switch s.b[s.i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return ""
	case 'u':
		for range 4 {
			s.i++
			if s.i >= len(s.b) || hexDigit(s.b[s.i]) < 0 {
				return "expected four hexadecimal digits after \\u"
			}
		}
		return ""
	}
	return "unknown escape inside a string"
}

func (s *scanner) number() string {
	s.eat('-')
	switch {
	case s.eat('0'):
	case s.digits():
	default:
		return "expected a digit (NaN and Infinity are not JSON numbers)"
	}
	if s.eat('.') && !s.digits() {
		return "expected a digit after the point"
	}
	if s.eat('e') || s.eat('E') {
		if !s.eat('+') {
			s.eat('-')
		}
		if !s.digits() {
			return "expected a digit in the exponent"
		}
	}
	return ""
}

func (s *scanner) digits() bool {
	from := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > from
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// skip passes one value of already checked JSON and gives its bytes.
func (s *scanner) skip() []byte {
	from := s.i
	switch s.b[s.i] {
	case '"':
		s.str()
	case '{', '[':
		s.skipNested()
	default:
		for s.i < len(s.b) && !isDelimiter(s.b[s.i]) {
			s.i++
		}
	}
	return s.b[from:s.i]
}

func (s *scanner) skipNested() {
	depth := 0
	for {
		switch s.b[s.i] {
		case '"':
			s.str()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.i++
		if depth == 0 {
			return
		}
	}
}

func isDelimiter(c byte) bool {
	switch c {
	case ',', ']', '}', ' ', '\t', '\n', '\r':
		return true
	}
	return false
}

// unquote decodes a checked JSON string with its quotes. A lone surrogate becomes U+FFFD.
func unquote(b []byte) string {
	b = b[1 : len(b)-1]
	i := bytes.IndexByte(b, '\\')
	if i < 0 {
		return string(b)
	}
	out := append(make([]byte, 0, len(b)), b[:i]...)
	for i < len(b) {
		if b[i] != '\\' {
			out = append(out, b[i])
			i++
			continue
		}
		var n int
		out, n = unescape(out, b[i:])
		i += n
	}
	return string(out)
}

// unescape appends what the escape sequence at the start of b stands for and gives its length.
func unescape(out, b []byte) ([]byte, int) {
	switch b[1] {
	case 'b':
		return append(out, '\b'), 2
	case 'f':
		return append(out, '\f'), 2
	case 'n':
		return append(out, '\n'), 2
	case 'r':
		return append(out, '\r'), 2
	case 't':
		return append(out, '\t'), 2
	case 'u':
		r := hex4(b[2:])
		if r >= 0xd800 && r < 0xdc00 && len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
			if lo := hex4(b[8:]); lo >= 0xdc00 && lo < 0xe000 {
				return utf8.AppendRune(out, 0x10000+(r-0xd800)<<10+(lo-0xdc00)), 12
			}
		}
		return utf8.AppendRune(out, r), 6 // AppendRune writes U+FFFD for a surrogate
	}
	return append(out, b[1]), 2
}

func hex4(b []byte) rune {
	var r rune
	for _, c := range b[:4] {
		r = r<<4 | rune(hexDigit(c))
	}
	return r
}

// errStop ends a walk early.
var errStop = errors.New("stop")
