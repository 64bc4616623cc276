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
	fnBound = "tl__bound" // (index): an index that is not absurd
	fnLazy  = "tl__lazy"  // what filters a generator to JSON
	prefix  = "tl__"
)

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
	source = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(source) // as Jinja2 does, whatever system saved the file
	source = strings.TrimSuffix(source, "\n")                              // as Jinja2 does (keep_trailing_newline is off)
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
	toks = sliceEnds(products(stringMethods(methods(filters(toks)))))
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
