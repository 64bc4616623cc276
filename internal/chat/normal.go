package chat

import (
	"fmt"
	"strconv"
	"strings"
)

// Bounds of a template, which is outside input: it comes with a model file.
const (
	maxSource  = 256 << 10 // bytes
	maxNesting = 64        // brackets in an expression
	maxBlocks  = 64        // blocks in blocks
	maxSums    = 128       // additions and concatenations in one tag
)

// The names that rewritten templates call. A template that uses them itself is refused.
const (
	fnEach  = "tl__each"  // (iterable, bytes of text in the body): charges a loop
	fnEnter = "tl__enter" // (bytes of text in the body, arguments…): charges a macro call and bounds its depth
	fnKeep  = "tl__keep"  // (value): charges the size of a value that is kept or written
	fnTimes = "tl__times" // (a, b): a product within bounds
	fnLazy  = "tl__lazy"  // what filters a generator to JSON
	prefix  = "tl__"
)

// segment is one piece of a template's source.
type segment struct {
	kind        byte // 't' text, 'c' comment, 'e' expression, 's' statement
	open, close string
	body        string // between the delimiters, or the text
}

// normalise rewrites a template for the interpreter: it works around what the interpreter does differently from Jinja2, and puts a price on
// every loop, call and value, since the interpreter itself has no bounds. All rewriting stays inside the tags, so whitespace control is
// untouched.
func normalise(source string) (string, error) {
	if len(source) > maxSource {
		return "", fmt.Errorf("it has %d bytes, more than the %d allowed", len(source), maxSource)
	}
	if strings.Contains(source, prefix) {
		return "", fmt.Errorf("it uses a reserved name, %s…", prefix)
	}
	source = strings.TrimSuffix(source, "\n") // as Jinja2 does (keep_trailing_newline is off)
	segs, err := split(source)
	if err != nil {
		return "", err
	}
	sizes, err := bodySizes(segs)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for i := range segs {
		if err := rewrite(&b, segs, i, sizes[i]); err != nil {
			return "", err
		}
	}
	return b.String(), nil
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
	return segment{}, 0, fmt.Errorf("a tag is not closed: %q", clip(src))
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

// rewrite writes segment i.
func rewrite(b *strings.Builder, segs []segment, i, size int) error {
	s := segs[i]
	if s.kind == 't' || s.kind == 'c' {
		b.WriteString(openOf(segs, i) + s.body + s.close)
		return nil
	}
	toks, err := lex(s.body)
	if err != nil {
		return err
	}
	toks = products(stringMethods(methods(filters(toks))))
	after := ""
	if s.kind == 'e' {
		toks = call(toks, fnKeep, "")
	} else {
		toks, after = statement(toks, size, s.close)
	}
	b.WriteString(openOf(segs, i))
	for _, t := range toks {
		b.WriteString(t)
	}
	b.WriteString(s.close + after)
	return nil
}

// openOf gives the opening of a tag. A dash right after another tag has no text to strip, but the interpreter would strip the text before
// that other tag.
func openOf(segs []segment, i int) string {
	if i > 0 && segs[i-1].kind != 't' {
		return strings.TrimSuffix(segs[i].open, "-")
	}
	return segs[i].open
}

// statement rewrites the statements that loop, call or keep; after is what follows the tag.
func statement(toks []string, size int, closing string) (out []string, after string) {
	switch word(toks, 0) {
	case "for":
		return forLoop(toks, size), ""
	case "macro":
		dash := strings.TrimSuffix(closing, "%}")
		return toks, "{% if " + fnEnter + "(" + strings.Join(append([]string{strconv.Itoa(size)}, params(toks)...), ",") + ") %}{% endif " + dash + "%}"
	case "set":
		if eq := find(toks, 0, "="); eq >= 0 && find(toks, eq, ",") < 0 {
			return append(toks[:eq+1:eq+1], call(toks[eq+1:], fnKeep, "")...), ""
		}
	case "generation": // marks what to train on; renders its body
		return []string{" if true "}, ""
	case "endgeneration":
		return []string{" endif "}, ""
	}
	return toks, ""
}

// params gives the names of a macro's parameters.
func params(toks []string) []string {
	var out []string
	open := find(toks, 0, "(")
	if open < 0 {
		return nil
	}
	depth, name := 0, true
	for _, t := range toks[open:] {
		switch {
		case t == "(" || t == "[" || t == "{":
			depth++
		case t == ")" || t == "]" || t == "}":
			depth--
		case t == "," && depth == 1:
			name = true
		case name && isName(t[0]):
			out, name = append(out, t), false
		}
	}
	return out
}

// forLoop charges the loop before it starts, and lets the filter of a loop over pairs see both names, of which the interpreter binds only the
// last, to the whole pair.
//
//	for k, v in X if C   →   for k, v in tl__each(X, size) if C[k → v[0], v → v[1]]
func forLoop(toks []string, size int) []string {
	in := find(toks, 0, "in")
	if in < 0 {
		return toks
	}
	end := len(toks)
	for _, w := range []string{"if", "recursive"} {
		if at := find(toks, in, w); at >= 0 && at < end {
			end = at
		}
	}
	out := append([]string{}, toks[:in+1]...)
	out = append(out, call(toks[in+1:end], fnEach, ", "+strconv.Itoa(size))...)
	cond := append([]string{}, toks[end:]...)
	if comma := find(toks[:in], 0, ","); comma >= 0 {
		k, v := word(toks[:in], 1), word(toks[comma+1:in], 0)
		rename(cond, k, v+"[0]", v, v+"[1]")
	}
	return append(out, cond...)
}

// rename replaces two names in an expression, not as attributes.
func rename(toks []string, a, to1, b, to2 string) {
	for i, t := range toks {
		if i > 0 && toks[i-1] == "." {
			continue
		}
		switch t {
		case a:
			toks[i] = to1
		case b:
			toks[i] = to2
		}
	}
}

// call wraps an expression in a call.
func call(toks []string, fn, more string) []string {
	out := make([]string, 0, len(toks)+2)
	out = append(out, " "+fn+"(")
	out = append(out, toks...)
	return append(out, more+") ")
}

// filters sends the filters that we serve ourselves to our functions.
func filters(toks []string) []string {
	for i, t := range toks {
		if t != "|" {
			continue
		}
		j := skipSpace(toks, i+1, 1)
		if j >= len(toks) || !ownFilter(toks[j]) {
			continue
		}
		if toks[j] == "tojson" && generator(toks, i) {
			toks[j] = fnLazy
			continue
		}
		toks[j] = prefix + toks[j]
	}
	return toks
}

// generator says whether what stands before the bar at i ends in a filter that gives a generator in Jinja2, which is not JSON there.
func generator(toks []string, i int) bool {
	j := skipSpace(toks, i-1, -1)
	if j >= 0 && toks[j] == ")" {
		for depth := 0; j >= 0; j-- {
			switch toks[j] {
			case ")":
				depth++
			case "(":
				depth--
			}
			if depth == 0 {
				break
			}
		}
		j = skipSpace(toks, j-1, -1)
	}
	if j < 1 {
		return false
	}
	switch toks[j] {
	case "map", "select", "reject", "selectattr", "rejectattr":
		bar := skipSpace(toks, j-1, -1)
		return bar >= 0 && toks[bar] == "|"
	}
	return false
}

func skipSpace(toks []string, i, step int) int {
	for i >= 0 && i < len(toks) && isSpace(toks[i][0]) {
		i += step
	}
	return i
}

// methods takes the methods that change a list or a dict away from templates, as the sandbox that models' authors tested with does: what is
// left is no function, so calling it is an error.
func methods(toks []string) []string {
	for i := 1; i+1 < len(toks); i++ {
		if toks[i-1] != "." || toks[i+1] != "(" {
			continue
		}
		switch toks[i] {
		case "append", "insert", "extend", "remove", "reverse", "sort", "pop", "popitem", "clear", "update", "setdefault":
			toks[i] = prefix + toks[i]
		}
	}
	return toks
}

// products sends every product through our function, since "a" * 1000000000 is a string.
//
//	A * B   →   tl__times(A,B)
func products(toks []string) []string {
	for i := 0; i < len(toks); i++ {
		if toks[i] != "*" {
			continue
		}
		from, to := operandBefore(toks, i), operandAfter(toks, i+1)
		out := append([]string{}, toks[:from]...)
		out = append(out, fnTimes, "(")
		out = append(out, toks[from:i]...)
		out = append(out, ",")
		out = append(out, toks[i+1:to]...)
		out = append(out, ")")
		i = len(out) - 1
		toks = append(out, toks[to:]...)
	}
	return toks
}

// stringMethods sends the string methods that can grow a text, or that the interpreter lacks, through our functions.
//
//	A.replace(…)   →   tl__replace_(A,…)
func stringMethods(toks []string) []string {
	for i := 1; i+2 < len(toks); i++ {
		if toks[i] != "." || toks[i+2] != "(" || !ownMethod(toks[i+1]) {
			continue
		}
		from := operandBefore(toks, i)
		out := append([]string{}, toks[:from]...)
		out = append(out, prefix+toks[i+1]+"_", "(")
		out = append(out, toks[from:i]...)
		rest := toks[i+3:]
		if k := skipSpace(rest, 0, 1); k < len(rest) && rest[k] != ")" {
			out = append(out, ",")
		}
		i += 2
		toks = append(out, rest...)
	}
	return toks
}

// operandBefore gives where the operand that ends before i begins: a name, a literal or a bracket with everything that is applied to it.
func operandBefore(toks []string, i int) int {
	i = skipSpace(toks, i-1, -1)
	for i >= 0 {
		switch t := toks[i]; {
		case t == ")" || t == "]" || t == "}":
			if i = opening(toks, i); i > 0 && t != "}" && applies(toks[i-1]) {
				i--
				continue
			}
		case !isName(t[0]) && t[0] != '\'' && t[0] != '"':
			return i + 1
		}
		link := skipSpace(toks, i-1, -1)
		if link < 0 || toks[link] != "." && toks[link] != "|" {
			return max(i, 0)
		}
		i = skipSpace(toks, link-1, -1)
	}
	return 0
}

// applies says whether a bracket after this token is a call or an index.
func applies(t string) bool {
	return isName(t[0]) && !keyword(t) || t == ")" || t == "]" || t[0] == '\'' || t[0] == '"'
}

func keyword(t string) bool {
	switch t {
	case "in", "not", "and", "or", "if", "else", "is":
		return true
	}
	return false
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

// operandAfter gives where the operand that begins at i, after space and signs, ends.
func operandAfter(toks []string, i int) int {
	for i < len(toks) && (isSpace(toks[i][0]) || toks[i] == "-" || toks[i] == "+") {
		i++
	}
	i = afterOne(toks, i)
	for i < len(toks) {
		switch k := skipSpace(toks, i, 1); {
		case toks[i] == "(" || toks[i] == "[":
			i = afterOne(toks, i)
		case k < len(toks) && (toks[k] == "." || toks[k] == "|"):
			i = afterOne(toks, skipSpace(toks, k+1, 1))
		default:
			return i
		}
	}
	return min(i, len(toks))
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

func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}
