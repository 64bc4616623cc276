package chat

import (
	"strings"
	"time"

	"tinyloop/internal/fault"
)

// Telling the template's text from people's text.
//
// A template is a program over strings; what it writes carries no trace of where it came from. So a conversation is rendered again with marks
// in the messages, and a mark is believed only if the rendering without its marks is the plain rendering, byte for byte:
//
//  1. traced: every text is put between an opening and a closing mark, inside its own leading and trailing space, so that a template may trim.
//     Most templates pass; each run between two marks is a part of its own.
//  2. masked: a template that looks into a text (splits off the reasoning, tests its beginning) fails 1. Then only control text in messages
//     matters. Each occurrence gets one mark: in its middle, or before or after it where the template itself acts on that text.
//  3. What cannot be followed even so is refused: a control token never comes from a message.
//
// Marks are private-use characters that occur nowhere in the request.

const (
	firstMark  = 0xF0000 // Supplementary Private Use Area-A
	markTries  = 16
	maxControl = 32 // occurrences of control text that are followed one by one
)

// Render writes the conversation. The texts of the parts, joined, are exactly what the template renders. A template that raises an exception,
// or cannot render these messages, gives a *fault.Error of kind Invalid with its text.
func (t *Template) Render(r Render) ([]Part, error) {
	if t.prog == nil {
		return chatML(&r), nil
	}
	start := time.Now()
	plain, err := t.run(&r, start, func(s string) string { return s })
	if err != nil {
		return nil, refusal(err)
	}
	if parts, ok := t.traced(&r, start, plain); ok {
		return parts, nil
	}
	return t.masked(&r, start, plain)
}

// traced is method 1.
func (t *Template) traced(r *Render, start time.Time, plain string) ([]Part, bool) {
	open, ok := freeMark(t, r)
	if !ok {
		return nil, false
	}
	shut := open + 1
	out, err := t.run(r, start, func(s string) string {
		mid := strings.TrimSpace(s)
		if mid == "" {
			return s
		}
		from := strings.Index(s, mid)
		return s[:from] + string(open) + mid + string(shut) + s[from+len(mid):]
	})
	if err != nil {
		return nil, false
	}
	return between(out, plain, open, shut)
}

// between cuts a marked rendering at its marks, if they pair up and the rest is plain.
func between(out, plain string, open, shut rune) ([]Part, bool) {
	var parts []Part
	user := false
	rest := plain
	for {
		at := strings.IndexFunc(out, func(c rune) bool { return c == open || c == shut })
		run := out
		if at >= 0 {
			run = out[:at]
		}
		if !strings.HasPrefix(rest, run) {
			return nil, false
		}
		if run != "" {
			parts = append(parts, Part{Text: rest[:len(run)], User: user})
		}
		rest = rest[len(run):]
		if at < 0 {
			return parts, rest == "" && !user
		}
		if strings.HasPrefix(out[at:], string(open)) == user {
			return nil, false
		}
		user = !user
		out = out[at+len(string(open)):]
	}
}

// freeMark finds two neighbouring marks that are in none of the texts.
func freeMark(t *Template, r *Render) (rune, bool) {
	for i := range markTries {
		open := rune(firstMark + 2*i)
		found := strings.ContainsRune(t.source, open) || strings.ContainsRune(t.source, open+1)
		eachText(r, func(s string) string {
			found = found || strings.ContainsRune(s, open) || strings.ContainsRune(s, open+1)
			return s
		})
		if !found {
			return open, true
		}
	}
	return 0, false
}

// eachText calls f for every text of a request in the order of a render.
func eachText(r *Render, f func(string) string) {
	inputs(r, f)
}

// place says where a mark stands in an occurrence of control text.
type place uint8

const (
	unmarked place = iota
	inside
	before
	after
)

// control is one occurrence of control text: in the n-th text of the request, at byte from.
type control struct {
	n, from int
	text    string
	place   place
}

// masked is methods 2 and 3.
func (t *Template) masked(r *Render, start time.Time, plain string) ([]Part, error) {
	found := controls(r)
	if len(found) == 0 {
		return []Part{{Text: plain}}, nil
	}
	mark, ok := freeMark(t, r)
	if !ok || len(found) > maxControl {
		return nil, refuseControl(found[0].text)
	}
	for i := range found {
		found[i].place = inside
	}
	if parts, ok := t.marked(r, start, plain, mark, found); ok {
		return parts, nil
	}
	for i := range found {
		found[i].place = unmarked
	}
	var parts []Part
	for i := range found {
		ok = false
		for p := inside; p <= after && !ok; p++ {
			found[i].place = p
			parts, ok = t.marked(r, start, plain, mark, found)
		}
		if !ok {
			return nil, refuseControl(found[i].text)
		}
	}
	return parts, nil
}

func refuseControl(text string) error {
	return fault.New(fault.Invalid, "messages", "a message holds the control text %q where the chat template gives it a meaning: remove it", fault.Clip(text, 40))
}

// controls finds the control texts in the request: at each place the longest one, from left to right.
func controls(r *Render) []control {
	var byFirst [256][]string
	for _, c := range r.Controls {
		if c != "" {
			byFirst[c[0]] = append(byFirst[c[0]], c)
		}
	}
	var out []control
	n := 0
	eachText(r, func(s string) string {
		for i := 0; i < len(s); {
			c := longest(s[i:], byFirst[s[i]])
			if c != "" {
				out = append(out, control{n: n, from: i, text: c})
			}
			i += max(1, len(c))
		}
		n++
		return s
	})
	return out
}

func longest(s string, texts []string) string {
	best := ""
	for _, c := range texts {
		if len(c) > len(best) && strings.HasPrefix(s, c) {
			best = c
		}
	}
	return best
}

// marked renders with the marks of found and cuts the control text out, if the rest is plain.
func (t *Template) marked(r *Render, start time.Time, plain string, mark rune, found []control) ([]Part, bool) {
	n := 0
	out, err := t.run(r, start, func(s string) string {
		i := n
		n++
		return insert(s, i, string(mark), found)
	})
	if err != nil || strings.ReplaceAll(out, string(mark), "") != plain {
		return nil, false
	}
	return cut(out, plain, string(mark), found), true
}

// insert puts the marks into the n-th text.
func insert(s string, n int, mark string, found []control) string {
	var b strings.Builder
	last := 0
	for _, c := range found {
		if c.n != n || c.place == unmarked {
			continue
		}
		at := c.from
		switch c.place {
		case inside:
			at += firstRune(c.text)
		case after:
			at += len(c.text)
		}
		b.WriteString(s[last:at])
		b.WriteString(mark)
		last = at
	}
	return b.String() + s[last:]
}

func firstRune(s string) int {
	for i := range s {
		if i > 0 {
			return i
		}
	}
	return len(s)
}

// cut makes a part of every control text that touches a mark.
func cut(out, plain, mark string, found []control) []Part {
	var parts []Part
	done, at := 0, 0
	add := func(to int, user bool) {
		if to > done {
			parts = append(parts, Part{Text: plain[done:to], User: user})
			done = to
		}
	}
	for {
		next := strings.Index(out, mark)
		if next < 0 {
			add(len(plain), false)
			return parts
		}
		at += next
		out = out[next+len(mark):]
		if from, to := spanAt(plain, at, found); to > done {
			add(from, false)
			add(to, true)
		}
	}
}

// spanAt gives the longest control text around a mark at byte at of the plain rendering.
func spanAt(plain string, at int, found []control) (from, to int) {
	for _, c := range found {
		for _, start := range []int{at, at - firstRune(c.text), at - len(c.text)} {
			if start >= 0 && strings.HasPrefix(plain[start:], c.text) && len(c.text) > to-from {
				from, to = start, start+len(c.text)
			}
		}
	}
	return from, to
}
