package grammar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"tinyloop/internal/fault"
)

// value is a value of JSON with its object's members in order: nil, bool, json.Number, string, []*value or *members.
type value struct{ v any }

// short says in an error what stands where something else should: a number or a text itself, shortened, or what kind of thing it is.
func (v *value) short() string {
	switch x := v.v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(x)
	case json.Number:
		return fault.Clip(string(x), 40)
	case string:
		return strconv.Quote(fault.Clip(x, 40))
	case []*value:
		if len(x) == 0 {
			return "an empty list"
		}
		return "a list"
	}
	return "an object"
}

// members are those of an object; a name stands once.
type members struct {
	names  []string
	values []*value
}

// get gives a member, nil when there is none.
func (m *members) get(name string) *value {
	for i, n := range m.names {
		if n == name {
			return m.values[i]
		}
	}
	return nil
}

// parse reads a schema.
func parse(data []byte, field string) (*value, error) {
	if len(data) > MaxSchema {
		return nil, fault.New(fault.Invalid, field, "%s has %d bytes, allowed are %d", field, len(data), MaxSchema)
	}
	if !utf8.Valid(data) {
		return nil, fault.New(fault.Invalid, field, "%s is not valid UTF-8", field)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := parseValue(d, 0)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = fmt.Errorf("there is text after the value")
		}
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, field, "%s is not a JSON value: %v", field, err)
	}
	return v, nil
}

func parseValue(d *json.Decoder, depth int) (*value, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	if depth > maxNesting {
		return nil, fmt.Errorf("it is nested deeper than %d", maxNesting)
	}
	switch t {
	case json.Delim('['):
		list := []*value{}
		for d.More() {
			e, err := parseValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, e)
		}
		_, err := d.Token()
		return &value{list}, err
	case json.Delim('{'):
		return parseObject(d, depth)
	}
	return &value{t}, nil
}

// parseObject reads members; of two with one name the last counts, in the first one's place.
func parseObject(d *json.Decoder, depth int) (*value, error) {
	m := &members{}
	at := map[string]int{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string)
		e, err := parseValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		if i, twice := at[name]; twice {
			m.values[i] = e
			continue
		}
		at[name] = len(m.names)
		m.names, m.values = append(m.names, name), append(m.values, e)
	}
	_, err := d.Token()
	return &value{m}, err
}

// write appends a value in its shortest form.
func (v *value) write(b *strings.Builder) {
	switch x := v.v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(x))
	case json.Number:
		b.WriteString(x.String())
	case string:
		b.WriteString(quote(x))
	case []*value:
		b.WriteByte('[')
		for i, e := range x {
			if i > 0 {
				b.WriteByte(',')
			}
			e.write(b)
		}
		b.WriteByte(']')
	case *members:
		b.WriteByte('{')
		for i, n := range x.names {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(quote(n) + ":")
			x.values[i].write(b)
		}
		b.WriteByte('}')
	}
}

// quote writes a string with no more escapes than JSON asks for.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// typeOf is the name that JSON Schema has for the type of a value; whole numbers are integers.
func (v *value) typeOf() string {
	switch x := v.v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		if f, err := x.Float64(); err == nil && f == float64(int64(f)) && f < 1<<62 && f > -1<<62 {
			return "integer"
		}
		return "number"
	case string:
		return "string"
	case []*value:
		return "array"
	}
	return "object"
}

// point follows a JSON pointer (RFC 6901) within a URI fragment.
func (v *value) point(path string) *value {
	if path == "" {
		return v
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		switch x := v.v.(type) {
		case *members:
			v = x.get(part)
		case []*value:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
		if v == nil {
			return nil
		}
	}
	return v
}
