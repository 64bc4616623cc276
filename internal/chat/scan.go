package chat

import (
	"fmt"
	"strings"

	"tinyloop/internal/fault"
)

// segment is one piece of a template's source.
type segment struct {
	kind        byte // 't' text, 'c' comment, 'e' expression, 's' statement
	open, close string
	body        string // between the delimiters, or the text
}

// split cuts a template into text and tags. Quotes inside a tag hide its end.
func split(src string) ([]segment, error) {
	var out []segment
	for len(src) > 0 {
		at, kind := nextTag(src)
		if at < 0 {
			return append(out, segment{kind: 't', body: src}), nil
		}
		if at > 0 {
			out = append(out, segment{kind: 't', body: src[:at]})
		}
		tag, n, err := readTag(src[at:], kind)
		if err != nil {
			return nil, err
		}
		out = append(out, tag)
		src = src[at+n:]
	}
	return out, nil
}

func nextTag(src string) (int, byte) {
	for i := 0; i+1 < len(src); i++ {
		if src[i] != '{' {
			continue
		}
		switch src[i+1] {
		case '{':
			return i, 'e'
		case '%':
			return i, 's'
		case '#':
			return i, 'c'
		}
	}
	return -1, 0
}

func readTag(src string, kind byte) (segment, int, error) {
	end := map[byte]string{'e': "}}", 's': "%}", 'c': "#}"}[kind]
	from := 2
	if from < len(src) && (src[from] == '-' || src[from] == '+') {
		from++
	}
	for i := from; i < len(src); i++ {
		if c := src[i]; kind != 'c' && (c == '\'' || c == '"') {
			i += quoted(src[i:]) - 1
			continue
		}
		to := i
		if (src[i] == '-' || src[i] == '+') && strings.HasPrefix(src[i+1:], end) {
			i++
		}
		if strings.HasPrefix(src[i:], end) {
			// A plus sign only switches off trimming that is off for expressions anyway; the interpreter does not know it.
			return segment{kind, strings.TrimSuffix(src[:from], "+"), strings.TrimPrefix(src[to:i+2], "+"), src[from:to]}, i + 2, nil
		}
	}
	return segment{}, 0, fmt.Errorf("a tag is not closed: %q", fault.Clip(src, 40))
}

// quoted gives the length of the string literal at the start of src.
func quoted(src string) int {
	for i := 1; i < len(src); i++ {
		switch src[i] {
		case '\\':
			i++
		case src[0]:
			return i + 1
		}
	}
	return len(src)
}

// bodySizes gives for every for and macro tag the bytes of text up to its end tag: what one pass through it may write.
func bodySizes(segs []segment) ([]int, error) {
	sizes := make([]int, len(segs))
	var open []int
	text := 0
	start := make([]int, len(segs))
	for i, s := range segs {
		if s.kind == 't' {
			text += len(s.body)
		}
		if s.kind != 's' {
			continue
		}
		switch word := firstWord(s.body); word {
		case "for", "macro":
			open = append(open, i)
			start[i] = text
		case "if", "call", "filter":
			open = append(open, i)
		case "endfor", "endmacro", "endif", "endcall", "endfilter":
			if len(open) == 0 {
				return nil, fmt.Errorf("%s closes nothing", word)
			}
			top := open[len(open)-1]
			open = open[:len(open)-1]
			sizes[top] = text - start[top]
		}
		if len(open) > maxBlocks {
			return nil, fmt.Errorf("its blocks are nested deeper than %d", maxBlocks)
		}
	}
	return sizes, nil
}

func firstWord(body string) string {
	f := strings.TrimLeft(body, " \t\r\n")
	n := 0
	for n < len(f) && isName(f[n]) {
		n++
	}
	return f[:n]
}

// call wraps an expression in a call.
func call(toks []string, fn, more string) []string {
	out := make([]string, 0, len(toks)+2)
	out = append(out, " "+fn+"(")
	out = append(out, toks...)
	return append(out, more+") ")
}

func skipSpace(toks []string, i, step int) int {
	for i >= 0 && i < len(toks) && isSpace(toks[i][0]) {
		i += step
	}
	return i
}

// opening gives the place of the bracket that the one at i closes, or 0.
func opening(toks []string, i int) int {
	depth := 0
	for ; i > 0; i-- {
		switch toks[i] {
		case ")", "]", "}":
			depth++
		case "(", "[", "{":
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return 0
}

// afterOne steps over one token or one bracket with its inside.
func afterOne(toks []string, i int) int {
	depth := 0
	for ; i < len(toks); i++ {
		switch toks[i] {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		}
		if depth <= 0 {
			return i + 1
		}
	}
	return len(toks)
}

// word gives the n-th name of a token list.
func word(toks []string, n int) string {
	for _, t := range toks {
		if isName(t[0]) {
			if n == 0 {
				return t
			}
			n--
		}
	}
	return ""
}

// find gives the place of a token outside all brackets, from a place on, or -1.
func find(toks []string, from int, what string) int {
	depth := 0
	for i := from; i < len(toks); i++ {
		switch t := toks[i]; {
		case depth == 0 && t == what && i >= from:
			return i
		case t == "(" || t == "[" || t == "{":
			depth++
		case t == ")" || t == "]" || t == "}":
			depth--
		}
	}
	return -1
}

// lex cuts the inside of a tag into names and numbers, string literals, runs of space, ==-like operators and single characters. Joined they
// are the source again.
func lex(src string) ([]string, error) {
	var out []string
	depth, sums := 0, 0
	for len(src) > 0 {
		n := 1
		switch c := src[0]; {
		case c == '~' || c == '+':
			sums++
		case c == '\'' || c == '"':
			n = quoted(src)
		case isName(c):
			for n < len(src) && isName(src[n]) {
				n++
			}
		case isSpace(c):
			for n < len(src) && isSpace(src[n]) {
				n++
			}
		case len(src) > 1 && (src[1] == '=' && strings.IndexByte("=!<>", c) >= 0 || c == '*' && src[1] == '*' || c == '/' && src[1] == '/'):
			n = 2
		case c == '(' || c == '[' || c == '{':
			depth++
		case c == ')' || c == ']' || c == '}':
			depth--
		}
		if depth > maxNesting || sums > maxSums {
			return nil, fmt.Errorf("an expression is nested deeper than %d or adds up more than %d values", maxNesting, maxSums)
		}
		out = append(out, src[:n])
		src = src[n:]
	}
	return out, nil
}

func isName(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
