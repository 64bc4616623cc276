package chat

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ardanlabs/jinja"

	"tinyloop/internal/fault"
)

// function is a filter or a method: args[0] is what it is applied to.
type function struct {
	name string
	fn   func(b *budget, args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error)
}

// ownFilters are the filters that differ from Jinja2's in the interpreter, or that can make much out of little.
var ownFilters = []function{
	{"tojson", tojson},
	{"join", join},
	{"replace", replace},
	{"indent", indent},
	{"list", list},
	{"first", func(_ *budget, args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		return end(args[0], 0), nil
	}},
	{"last", func(_ *budget, args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		return end(args[0], -1), nil
	}},
}

// ownMethods are such methods of strings.
var ownMethods = []function{
	{"replace", replace},
	{"join", func(b *budget, args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if len(args) != 2 {
			return jinja.Undefined(), errors.New("join takes one list")
		}
		return join(b, []jinja.Value{args[1], args[0]}, nil)
	}},
	{"split", func(b *budget, args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error) {
		return splitText(b, args, kw, false)
	}},
	{"rsplit", func(b *budget, args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error) {
		return splitText(b, args, kw, true)
	}},
	{"splitlines", func(b *budget, args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		s := strings.TrimSuffix(strings.ReplaceAll(str(args, 0), "\r\n", "\n"), "\n")
		if s == "" {
			return jinja.NewList(nil), nil
		}
		return texts(b, strings.Split(s, "\n"))
	}},
	{"format", format},
}

func ownFilter(name string) bool {
	return slices.ContainsFunc(ownFilters, func(f function) bool { return f.name == name })
}

func ownMethod(name string) bool {
	return slices.ContainsFunc(ownMethods, func(f function) bool { return f.name == name })
}

func sorted(keys []string) []string {
	out := slices.Clone(keys)
	slices.Sort(out)
	return out
}

// texts makes a list of strings.
func texts(b *budget, parts []string) (jinja.Value, error) {
	items := make([]jinja.Value, len(parts))
	n := 0
	for i, p := range parts {
		items[i] = jinja.NewString(p)
		n += len(p) + 1
	}
	return jinja.NewList(items), b.charge(n)
}

// print writes a value as a template does: strings bare, nothing for none.
func print(v jinja.Value) string {
	switch {
	case v.IsString():
		return v.AsString()
	case v.IsNone() || v.IsUndefined():
		return ""
	}
	return v.String()
}

func join(b *budget, args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error) {
	if !args[0].IsList() {
		return jinja.NewString(print(args[0])), nil
	}
	sep := ""
	if len(args) > 1 {
		sep = print(args[1])
	} else if d, ok := kw["d"]; ok {
		sep = print(d)
	}
	attr := kw["attribute"]
	items := args[0].AsList().Items
	n := len(items) * len(sep)
	for i := range items {
		n += size(items[i], maxValue)
		if n > maxValue {
			return jinja.Undefined(), errBudget
		}
	}
	parts := make([]string, len(items))
	for i, v := range items {
		if attr.IsString() && v.IsDict() {
			v, _ = v.AsDict().Get(attr.AsString())
		}
		parts[i] = print(v)
	}
	return jinja.NewString(strings.Join(parts, sep)), b.charge(n)
}

func replace(b *budget, args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error) {
	if len(args) < 3 {
		return jinja.Undefined(), errors.New("replace takes two texts")
	}
	s, from, to := print(args[0]), print(args[1]), print(args[2])
	count := -1
	if len(args) > 3 && args[3].IsInt() {
		count = int(args[3].AsInt())
	} else if c := kw["count"]; c.IsInt() {
		count = int(c.AsInt())
	}
	hits := strings.Count(s, from)
	if count >= 0 {
		hits = min(hits, count)
	}
	if n := len(s) + hits*max(0, len(to)-len(from)); n > maxValue {
		return jinja.Undefined(), errBudget
	}
	out := strings.Replace(s, from, to, count)
	return jinja.NewString(out), b.charge(len(out))
}

// indent puts width spaces in front of every line but the first and the empty ones.
func indent(b *budget, args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error) {
	arg := func(i int, name string) jinja.Value {
		if i < len(args) {
			return args[i]
		}
		return kw[name]
	}
	pad := "    "
	switch w := arg(1, "width"); {
	case w.IsInt():
		pad = strings.Repeat(" ", int(min(max(w.AsInt(), 0), 1000)))
	case w.IsString():
		pad = w.AsString()
	}
	first, blank := arg(2, "first").IsTruthy(), arg(3, "blank").IsTruthy()
	lines := strings.Split(print(args[0]), "\n")
	if len(lines)*len(pad) > maxValue {
		return jinja.Undefined(), errBudget
	}
	for i, l := range lines {
		if (i > 0 || first) && (l != "" || blank) {
			lines[i] = pad + l
		}
	}
	out := strings.Join(lines, "\n")
	return jinja.NewString(out), b.charge(len(out))
}

func list(b *budget, args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	switch v := args[0]; {
	case v.IsDict():
		return texts(b, v.AsDict().OrderedKeys())
	case v.IsString():
		return texts(b, strings.Split(v.AsString(), ""))
	case v.IsList():
		return jinja.NewList(slices.Clone(v.AsList().Items)), b.charge(v.AsList().Len())
	}
	return jinja.NewList(nil), nil
}

// end gives the first or last element of a list, or character of a text.
func end(v jinja.Value, at int) jinja.Value {
	var items []jinja.Value
	switch {
	case v.IsList():
		items = v.AsList().Items
	case v.IsString():
		r := []rune(v.AsString())
		if len(r) > 0 {
			items = []jinja.Value{jinja.NewString(string(r[0])), jinja.NewString(string(r[len(r)-1]))}
		}
	case v.IsDict():
		for _, k := range v.AsDict().Keys {
			items = append(items, jinja.NewString(k))
		}
	}
	if len(items) == 0 {
		return jinja.Undefined()
	}
	if at < 0 {
		at += len(items)
	}
	return items[at]
}

// splitText splits as Python's str.split and rsplit: at white space without a separator, at most maxsplit times.
func splitText(b *budget, args []jinja.Value, kw map[string]jinja.Value, right bool) (jinja.Value, error) {
	s := print(args[0])
	most := -1
	switch {
	case len(args) > 2 && args[2].IsInt():
		most = int(args[2].AsInt())
	case kw["maxsplit"].IsInt():
		v := kw["maxsplit"]
		most = int(v.AsInt())
	}
	if len(args) < 2 || args[1].IsNone() || args[1].IsUndefined() {
		return texts(b, strings.Fields(s))
	}
	sep := print(args[1])
	if sep == "" {
		return jinja.Undefined(), errors.New("split needs a separator that is not empty")
	}
	if most < 0 {
		return texts(b, strings.Split(s, sep))
	}
	if !right {
		return texts(b, strings.SplitN(s, sep, most+1))
	}
	var parts []string
	for ; most > 0; most-- {
		i := strings.LastIndex(s, sep)
		if i < 0 {
			break
		}
		parts = append(parts, s[i+len(sep):])
		s = s[:i]
	}
	parts = append(parts, s)
	slices.Reverse(parts)
	return texts(b, parts)
}

// format fills the fields {} and {N} of a text, and {{ and }}.
func format(b *budget, args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error) {
	var out strings.Builder
	next := 0
	for s := print(args[0]); s != ""; {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			out.WriteString(s)
			break
		}
		out.WriteString(s[:i])
		if strings.HasPrefix(s[i+1:], s[i:i+1]) {
			out.WriteByte(s[i])
			s = s[i+2:]
			continue
		}
		end := strings.IndexByte(s[i:], '}')
		if s[i] == '}' || end < 0 {
			return jinja.Undefined(), errors.New("format: a brace has no partner")
		}
		v, err := field(s[i+1:i+end], &next, args[1:], kw)
		if err != nil {
			return v, err
		}
		text := print(v)
		if out.Len()+len(text) > maxValue {
			return v, errBudget
		}
		out.WriteString(text)
		s = s[i+end+1:]
	}
	return jinja.NewString(out.String()), b.charge(out.Len())
}

func field(name string, next *int, args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error) {
	n := *next
	if name == "" {
		*next++
	} else if v, ok := kw[name]; ok {
		return v, nil
	} else if _, err := fmt.Sscanf(name, "%d", &n); err != nil {
		return jinja.Undefined(), fmt.Errorf("format: there is no value for {%s}", fault.Clip(name, 40))
	}
	if n < 0 || n >= len(args) {
		return jinja.Undefined(), fmt.Errorf("format: there is no value %d", n)
	}
	return args[n], nil
}
