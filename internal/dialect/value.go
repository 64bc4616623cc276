package dialect

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"tinyloop/internal/fault"
)

const (
	maxMembers = 1 << 16 // names in one object
	maxProblem = 16      // problems reported at once
	maxIgnored = 32      // unknown names reported
)

// Doc is one request body under decoding. It collects every problem instead of stopping at the first, and the names nobody asked for, so that
// decoders are straight lines of getters followed by one Err. A Doc belongs to one goroutine.
type Doc struct {
	body     []byte
	problems []*fault.Error
	ignored  []string
}

// Value is one JSON value of a Doc, not decoded yet. The zero Value stands for "absent".
type Value struct {
	doc  *Doc
	raw  []byte
	path string
}

// Object is a JSON object whose names are looked up by getters. A name with the value null counts as absent; of equal names the last one wins.
type Object struct {
	doc     *Doc
	path    string
	members []member
}

type member struct {
	key  string
	raw  []byte
	used bool
}

// ParseObject checks a whole request body and opens it as an object. A UTF-8 byte order mark in front is skipped.
// The error is fault.Malformed with the position for broken JSON, fault.Invalid for JSON that is no object.
func ParseObject(body []byte) (*Object, error) {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	if err := check(body); err != nil {
		return nil, err
	}
	d := &Doc{body: body}
	v := Value{doc: d, raw: bytes.TrimSpace(body)}
	if v.raw[0] != '{' {
		return nil, &fault.Error{Kind: fault.Invalid, Code: "invalid_type", Msg: "the body must be a JSON object, got " + v.kind()}
	}
	o := v.Object()
	return o, o.Err()
}

// kind names the JSON type of v for messages.
func (v Value) kind() string {
	switch v.raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// Present says whether the value is there and not null.
func (v Value) Present() bool { return v.raw != nil && v.raw[0] != 'n' }

func (v Value) IsString() bool { return v.Present() && v.raw[0] == '"' }
func (v Value) IsArray() bool  { return v.Present() && v.raw[0] == '[' }
func (v Value) IsObject() bool { return v.Present() && v.raw[0] == '{' }
func (v Value) IsNumber() bool {
	return v.Present() && (v.raw[0] == '-' || v.raw[0] >= '0' && v.raw[0] <= '9')
}

// Empty says whether the value is absent, null, or an empty array, object or string.
func (v Value) Empty() bool {
	if !v.Present() {
		return true
	}
	switch v.raw[0] {
	case '[', '{', '"':
		return len(bytes.TrimSpace(v.raw[1:len(v.raw)-1])) == 0
	}
	return false
}

// Raw is the value as it was sent. It must not be changed.
func (v Value) Raw() []byte { return v.raw }

// Path is where the value stands in the body: messages[0].content.
func (v Value) Path() string { return v.path }

// Fail records a problem with the value.
func (v Value) Fail(kind fault.Kind, code, format string, args ...any) {
	v.doc.fail(kind, v.path, code, format, args...)
}

func (d *Doc) fail(kind fault.Kind, field, code, format string, args ...any) {
	if len(d.problems) >= maxProblem {
		return
	}
	d.problems = append(d.problems, &fault.Error{Kind: kind, Field: field, Code: code, Msg: fmt.Sprintf(format, args...)})
}

// WrongType records that the value is of another type than its meaning needs.
func (v Value) WrongType(want string) {
	v.Fail(fault.Invalid, "invalid_type", "%s must be %s, got %s", v.path, want, v.kind())
}

// String decodes a string.
func (v Value) String() string {
	if v.raw[0] != '"' {
		v.WrongType("a string")
		return ""
	}
	return unquote(v.raw)
}

// Bool decodes a boolean.
func (v Value) Bool() bool {
	if v.raw[0] != 't' && v.raw[0] != 'f' {
		v.WrongType("a boolean")
		return false
	}
	return v.raw[0] == 't'
}

// Float decodes a finite number.
func (v Value) Float() float64 {
	if !v.IsNumber() {
		v.WrongType("a number")
		return 0
	}
	x, err := strconv.ParseFloat(string(v.raw), 64)
	if err != nil || math.IsInf(x, 0) {
		v.Fail(fault.Invalid, "invalid_value", "%s must be a finite number, got %s", v.path, v.short())
		return 0
	}
	return x
}

// Int decodes a whole number that fits in 53 bits; 3.0 and 1e3 are whole.
func (v Value) Int() int {
	if !v.IsNumber() {
		v.WrongType("an integer")
		return 0
	}
	x, ok := wholeNumber(v.raw)
	if !ok {
		v.Fail(fault.Invalid, "invalid_type", "%s must be an integer within ±2^53, got %s", v.path, v.short())
		return 0
	}
	return x
}

func wholeNumber(raw []byte) (int, bool) {
	const limit = 1 << 53
	if len(raw) <= 17 {
		if x, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			return int(x), x >= -limit && x <= limit
		}
	}
	x, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || x != math.Trunc(x) || math.Abs(x) > limit {
		return 0, false
	}
	return int(x), true
}

// Seed decodes an integer of 64 bits, signed or unsigned, exactly; a negative one stands for its two's complement.
func (v Value) Seed() uint64 {
	if !v.IsNumber() {
		v.WrongType("an integer")
		return 0
	}
	if u, err := strconv.ParseUint(string(v.raw), 10, 64); err == nil {
		return u
	}
	if i, err := strconv.ParseInt(string(v.raw), 10, 64); err == nil {
		return uint64(i)
	}
	if i, ok := wholeNumber(v.raw); ok {
		return uint64(int64(i))
	}
	v.Fail(fault.Invalid, "invalid_value", "%s must be an integer of 64 bits, got %s", v.path, v.short())
	return 0
}

// short is the value's own text, cut, for messages.
func (v Value) short() string {
	if len(v.raw) > 40 {
		return string(v.raw[:40]) + "…"
	}
	return string(v.raw)
}

// Each calls f for every element of an array.
func (v Value) Each(f func(i int, e Value)) {
	i := 0
	v.walk(func(raw []byte) error {
		f(i, Value{doc: v.doc, raw: raw, path: v.path + "[" + strconv.Itoa(i) + "]"})
		i++
		return nil
	})
}

// Len counts the elements of an array.
func (v Value) Len() int {
	n := 0
	v.walk(func([]byte) error { n++; return nil })
	return n
}

func (v Value) walk(f func(raw []byte) error) {
	if !v.IsArray() {
		v.WrongType("an array")
		return
	}
	s := scanner{b: v.raw, i: 1}
	for {
		s.space()
		if s.eat(']') {
			return
		}
		if f(s.skip()) != nil {
			return
		}
		s.space()
		s.eat(',')
	}
}

// First gives the first element of an array, absent when it is empty.
func (v Value) First() Value {
	var first Value
	v.walk(func(raw []byte) error {
		first = Value{doc: v.doc, raw: raw, path: v.path + "[0]"}
		return errStop
	})
	return first
}

// IDs decodes an array of token ids. Whether they lie in the vocabulary is for the model to say.
func (v Value) IDs() []int32 {
	ids := make([]int32, 0, min(len(v.raw)/2, 4096))
	i := 0
	v.walk(func(raw []byte) error {
		x, ok := wholeNumber(raw)
		if !ok || x != int(int32(x)) {
			e := Value{doc: v.doc, raw: raw, path: v.path + "[" + strconv.Itoa(i) + "]"}
			e.Fail(fault.Invalid, "invalid_type", "%s must be a token id, got %s", e.path, e.short())
			return errStop
		}
		ids = append(ids, int32(x))
		i++
		return nil
	})
	return ids
}

// Strings decodes an array of at most limit strings.
func (v Value) Strings(limit int) []string {
	if n := v.Len(); n > limit {
		v.Fail(fault.Invalid, "array_above_max_length", "%s may have at most %d elements, got %d", v.path, limit, n)
		return nil
	}
	var out []string
	v.Each(func(_ int, e Value) { out = append(out, e.String()) })
	return out
}

// Object opens an object; for another type it records the problem and gives an empty one.
func (v Value) Object() *Object {
	o := &Object{doc: v.doc, path: v.path}
	if !v.IsObject() {
		v.WrongType("an object")
		return o
	}
	s := scanner{b: v.raw, i: 1}
	for {
		s.space()
		if s.eat('}') {
			break
		}
		key := unquote(s.skip())
		s.space()
		s.eat(':')
		s.space()
		o.members = append(o.members, member{key: key, raw: s.skip()})
		s.space()
		s.eat(',')
		if len(o.members) > maxMembers {
			v.Fail(fault.Invalid, "invalid_value", "%s has more than %d names", cmp.Or(v.path, "the body"), maxMembers)
			break
		}
	}
	return o
}

// Get looks a name up. The value is not Present when the name is missing or null.
func (o *Object) Get(name string) Value {
	v := Value{doc: o.doc, path: o.join(name)}
	for i := len(o.members) - 1; i >= 0; i-- {
		m := &o.members[i]
		if m.key != name {
			continue
		}
		m.used = true
		if v.raw == nil {
			v.raw = m.raw
		}
	}
	return v
}

func (o *Object) join(name string) string {
	if o.path == "" {
		return name
	}
	return o.path + "." + name
}

// Need is Get that records a problem when the name is missing or null.
func (o *Object) Need(name string) Value {
	v := o.Get(name)
	if !v.Present() {
		v.Fail(fault.Invalid, "missing_required_parameter", "%s is required", v.path)
	}
	return v
}

// Pairs calls f for every name and value of the object, each name once.
func (o *Object) Pairs(f func(name string, v Value)) {
	seen := make(map[string]bool, len(o.members))
	for i := len(o.members) - 1; i >= 0; i-- {
		m := &o.members[i]
		m.used = true
		if seen[m.key] {
			continue
		}
		seen[m.key] = true
		f(m.key, Value{doc: o.doc, raw: m.raw, path: o.join(m.key)})
	}
}

// The getters below give nil (or the default) for an absent name.

func (o *Object) Str(name string) string {
	if v := o.Get(name); v.Present() {
		return v.String()
	}
	return ""
}

func (o *Object) Flag(name string, otherwise bool) bool {
	if v := o.Get(name); v.Present() {
		return v.Bool()
	}
	return otherwise
}

func (o *Object) Int(name string) *int {
	v := o.Get(name)
	if !v.Present() {
		return nil
	}
	x := v.Int()
	return &x
}

func (o *Object) Float(name string) *float64 {
	v := o.Get(name)
	if !v.Present() {
		return nil
	}
	x := v.Float()
	return &x
}

func (o *Object) Seed(name string) *uint64 {
	v := o.Get(name)
	if !v.Present() {
		return nil
	}
	x := v.Seed()
	return &x
}

// Skip marks names as known although they change nothing here.
func (o *Object) Skip(names ...string) {
	for _, n := range names {
		o.Get(n)
	}
}

// Unsupported records a problem for each name that is present, not empty and not false.
func (o *Object) Unsupported(names ...string) {
	for _, n := range names {
		if v := o.Get(n); !v.Empty() && v.raw[0] != 'f' {
			v.Fail(fault.Unsupported, "unsupported_parameter", "%s is not supported by this server", v.path)
		}
	}
}

// Done notes the names nobody asked for. Call it when all getters have run.
func (o *Object) Done() {
	for i := range o.members {
		m := &o.members[i]
		if m.used || m.raw[0] == 'n' || len(o.doc.ignored) >= maxIgnored {
			continue
		}
		m.used = true
		o.doc.ignored = append(o.doc.ignored, cleanName(o.join(m.key)))
	}
}

// Ignored lists the names that Done found, fit for a header.
func (o *Object) Ignored() []string { return o.doc.ignored }

// cleanName keeps what is safe in a header: letters, digits and a little punctuation.
func cleanName(s string) string {
	if len(s) > 64 {
		s = s[:64]
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("_-.[]$", r):
			return r
		}
		return '?'
	}, s)
}

// Err gives all problems so far as one error, nil when there are none.
func (o *Object) Err() error {
	if len(o.doc.problems) == 0 {
		return nil
	}
	return &Problems{List: o.doc.problems}
}

// Problems is everything wrong with one body. It unwraps to the first.
type Problems struct{ List []*fault.Error }

func (p *Problems) Error() string { return p.List[0].Error() }
func (p *Problems) Unwrap() error { return p.List[0] }
