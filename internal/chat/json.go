package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/ardanlabs/jinja"

	"tinyloop/internal/fault"
)

const maxJSONDepth = 64

// ParseJSON reads one JSON value with its objects' keys in order: the form of tools and tool calls that templates print.
func ParseJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := parseValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("there is text after the JSON value at byte %d", d.InputOffset())
	}
	return v, nil
}

func parseValue(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	if depth > maxJSONDepth {
		return nil, fmt.Errorf("JSON is nested deeper than %d", maxJSONDepth)
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			return parseList(d, depth)
		}
		return parseObject(d, depth)
	case json.Number:
		if i, err := t.Int64(); err == nil {
			return i, nil
		}
		return t.Float64()
	}
	return t, nil
}

func parseList(d *json.Decoder, depth int) (any, error) {
	out := []any{}
	for d.More() {
		v, err := parseValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := d.Token()
	return out, err
}

func parseObject(d *json.Decoder, depth int) (any, error) {
	out := Object{}
	for d.More() {
		k, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := parseValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		key, _ := k.(string)
		out = out.with(key, v)
	}
	_, err := d.Token()
	return out, err
}

// with sets a member; the last of two equal keys wins, in the first one's place.
func (o Object) with(key string, v any) Object {
	for i := range o {
		if o[i].Key == key {
			o[i].Value = v
			return o
		}
	}
	return append(o, Field{key, v})
}

// printer writes JSON as Python's json.dumps does, which is what templates were written against.
type printer struct {
	strings.Builder
	item, key string // separators
	indent    string // "" = one line
	ascii     bool
	sorted    bool
}

func tojson(b *budget, args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error) {
	p := printer{item: ", ", key: ": "}
	if n := size(args[0], maxKept); n > maxValue {
		return jinja.Undefined(), errBudget
	}
	indent := kw["indent"]
	if len(args) > 1 {
		indent = args[1]
	}
	if indent.IsInt() {
		p.indent = strings.Repeat(" ", int(min(max(indent.AsInt(), 0), 16)))
		p.item = ","
	}
	if s := kw["separators"]; s.IsList() && s.AsList().Len() == 2 {
		p.item, p.key = str(s.AsList().Items, 0), str(s.AsList().Items, 1)
	}
	p.ascii = kw["ensure_ascii"].IsTruthy()
	p.sorted = kw["sort_keys"].IsTruthy()
	if err := p.value(args[0], 0); err != nil {
		return jinja.Undefined(), err
	}
	return jinja.NewString(p.String()), b.charge(p.Len())
}

func (p *printer) value(v jinja.Value, depth int) error {
	switch {
	case depth > maxJSONDepth:
		return fmt.Errorf("tojson: nested deeper than %d", maxJSONDepth)
	case v.IsBool():
		p.WriteString(strconv.FormatBool(v.AsBool()))
	case v.IsInt():
		p.WriteString(strconv.FormatInt(v.AsInt(), 10))
	case v.IsFloat():
		p.WriteString(float(v.AsFloat()))
	case v.IsString():
		p.quote(v.AsString())
	case v.IsList():
		return p.list(v.AsList(), depth)
	case v.IsDict():
		return p.dict(v.AsDict(), depth)
	case v.IsNone():
		p.WriteString("null")
	default:
		return fmt.Errorf("tojson: %s is not JSON", fault.Clip(v.String(), 40))
	}
	return nil
}

func (p *printer) list(l *jinja.List, depth int) error {
	p.WriteByte('[')
	for i, v := range l.Items {
		p.between(i, depth+1)
		if err := p.value(v, depth+1); err != nil {
			return err
		}
	}
	p.end(l.Len(), depth)
	p.WriteByte(']')
	return nil
}

func (p *printer) dict(d *jinja.Dict, depth int) error {
	p.WriteByte('{')
	keys := d.Keys
	if p.sorted {
		keys = sorted(keys)
	}
	for i, k := range keys {
		p.between(i, depth+1)
		p.quote(k)
		p.WriteString(p.key)
		if err := p.value(d.Data[k], depth+1); err != nil {
			return err
		}
	}
	p.end(len(keys), depth)
	p.WriteByte('}')
	return nil
}

func (p *printer) between(i, depth int) {
	if i > 0 {
		p.WriteString(p.item)
	}
	if p.indent != "" {
		p.WriteString("\n" + strings.Repeat(p.indent, depth))
	}
}

func (p *printer) end(n, depth int) {
	if n > 0 && p.indent != "" {
		p.WriteString("\n" + strings.Repeat(p.indent, depth))
	}
}

func (p *printer) quote(s string) {
	p.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			p.WriteByte('\\')
			p.WriteRune(r)
		case r == '\n':
			p.WriteString(`\n`)
		case r == '\r':
			p.WriteString(`\r`)
		case r == '\t':
			p.WriteString(`\t`)
		case r == '\b':
			p.WriteString(`\b`)
		case r == '\f':
			p.WriteString(`\f`)
		case r < 0x20 || p.ascii && r > 0x7e && r < 0x10000:
			fmt.Fprintf(p, `\u%04x`, r)
		case p.ascii && r >= 0x10000:
			r -= 0x10000
			fmt.Fprintf(p, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			p.WriteRune(r)
		}
	}
	p.WriteByte('"')
}

// float prints as Python's repr: the shortest digits, always with a point or an exponent.
func float(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
