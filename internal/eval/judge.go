package eval

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// judge says whether out, which a model gave, is the answer to q. Case and the amount of white space do not count.
//
//   - In a text, out must begin with the answer, on the same line, and the answer must end there: no letter or digit may follow, nor a comma
//     that lengthens a list where the document has none.
//   - In a conversation, an answer that is all of its turn, but for marks at its end, must be all of out; one within a sentence must stand in
//     out as whole words, for a turn may say it in other words.
//   - A tool call must be the same text; the marks around it do not count.
func (q *question) judge(p *prompt, out string) bool {
	want := q.want()
	switch {
	case q.answer == call:
		return squeeze(unmark(out)) == squeeze(want)
	case !q.doc.IsChat():
		return begins(out, want, p.lead, q.next())
	case core(q.text()) == core(want):
		return core(out) == core(want)
	}
	return contains(out, want, q.next())
}

// next is what the document says after the answer, 0 at its end.
func (q *question) next() rune {
	r, n := utf8.DecodeRuneInString(q.text()[q.doc.Labels.Answers[q.answer].End:])
	if n == 0 {
		return 0
	}
	return r
}

// squeeze folds case and makes every run of white space one blank.
func squeeze(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

// unmark takes the marks of tool calls away, which are text where the vocabulary has no tokens for them.
func unmark(s string) string {
	return strings.NewReplacer("<tool_call>", " ", "</tool_call>", " ").Replace(s)
}

// core is a turn without the marks at its end.
func core(s string) string { return strings.TrimRight(squeeze(s), " .!?…") }

func begins(out, want, lead string, next rune) bool {
	if rest, ok := strings.CutPrefix(out, lead); ok {
		out = rest
	}
	out = strings.TrimLeft(out, " ")
	if line, _, cut := strings.Cut(out, "\n"); cut && !strings.Contains(want, "\n") {
		out = line
	}
	o, w := squeeze(out), squeeze(want)
	return strings.HasPrefix(o, w) && ends(w, o[len(w):], next)
}

func contains(out, want string, next rune) bool {
	o, w := squeeze(out), squeeze(want)
	for at := 0; ; {
		i := strings.Index(o[at:], w)
		if i < 0 {
			return false
		}
		at += i
		before, _ := utf8.DecodeLastRuneInString(o[:at])
		if !inWord(before) && ends(w, o[at+len(w):], next) {
			return true
		}
		_, n := utf8.DecodeRuneInString(o[at:])
		at += n
	}
}

// ends says whether an answer that is followed by rest ends there; next is the mark that follows it in the document.
func ends(want, rest string, next rune) bool {
	r, n := utf8.DecodeRuneInString(rest)
	last, _ := utf8.DecodeLastRuneInString(want)
	then, _ := utf8.DecodeRuneInString(strings.TrimLeft(rest[n:], " "))
	switch {
	case rest == "" || r == next && !inWord(r):
		return true
	case inWord(r):
		return !inWord(last) // an answer may end in a mark
	case r == ',' && (strings.Contains(want, ",") || unicode.IsDigit(last) && unicode.IsDigit(then)):
		return false // a list that goes on
	case r == '.' || r == ':':
		after, _ := utf8.DecodeRuneInString(rest[n:])
		return !unicode.IsDigit(last) || !unicode.IsDigit(after)
	case r == '-':
		after, _ := utf8.DecodeRuneInString(rest[n:])
		return !inWord(after)
	}
	return true
}

func inWord(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r))
}

// refuses says whether a text says that it does not know.
func refuses(text string, phrases []string) bool {
	for _, p := range phrases {
		if contains(text, p, 0) {
			return true
		}
	}
	return false
}
