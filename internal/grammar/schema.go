package grammar

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"tinyloop/internal/fault"
)

// compiler turns rules and schemas into nodes.
type compiler struct {
	g         *Grammar
	schemas   []schema
	arguments []argument
	bytes     int // of schemas so far
	field     string
	any       int32
	objects   int32
}

// schema is one that is being compiled, or was.
type schema struct {
	field string
	top   *value
	known map[*value]int32 // nodes of the places compiled so far
	root  int32
}

// argument is a schema of arguments, which are objects.
type argument struct {
	root  int32
	field string
}

const keyNode int32 = 0 // any string, as a key

// newCompiler makes the nodes that every grammar has: any string, any value, any object.
func newCompiler() *compiler {
	c := &compiler{g: &Grammar{}}
	c.g.nodes = []node{
		{kind: text, max: -1},
		{kind: choice, alts: []int32{0, 2, 3, 4, 5}},
		{kind: mapping, item: 1},
		{kind: array, item: 1, max: -1},
		{kind: number},
		{kind: literal, texts: []string{"true", "false", "null"}},
	}
	c.any, c.objects = 1, 2
	return c
}

func (c *compiler) rule(r Rule) (int32, error) {
	switch {
	case r.Calls == nil && r.Format == nil:
		return 0, fault.New(fault.Internal, "", "a grammar without a rule")
	case r.Calls == nil:
		return c.value(r.Format.Schema, r.Format.Field)
	}
	calls, err := c.calls(r.Calls)
	if err != nil || r.Format == nil {
		return calls, err
	}
	format, err := c.value(r.Format.Schema, r.Format.Field)
	if err != nil {
		return 0, err
	}
	return c.add(node{kind: choice, alts: []int32{format, calls}})
}

// calls makes the node of an answer that calls functions.
func (c *compiler) calls(r *Calls) (int32, error) {
	if r.Open == "" || r.Most < 1 || len(r.Functions) == 0 {
		return 0, fault.New(fault.Internal, "", "calls without a mark, a number or a function")
	}
	if len(r.Functions) > maxThreads {
		return 0, c.tooLarge("functions", maxThreads)
	}
	var alts []int32
	for _, f := range r.Functions {
		args, err := c.value(f.Schema, f.Field)
		if err != nil {
			return 0, err
		}
		c.arguments = append(c.arguments, argument{args, f.Field})
		name, err := c.add(node{kind: literal, texts: []string{quote(f.Name)}})
		if err != nil {
			return 0, err
		}
		call, err := c.add(node{kind: object, props: []prop{{`"name"`, name, true}, {`"arguments"`, args, true}}})
		if err != nil {
			return 0, err
		}
		alts = append(alts, call)
	}
	call, err := c.add(node{kind: choice, alts: alts})
	if err != nil {
		return 0, err
	}
	var steps []int32
	if !r.Free {
		open, err := c.add(node{kind: literal, texts: []string{r.Open}})
		if err != nil {
			return 0, err
		}
		steps = append(steps, open)
	}
	steps = append(steps, call)
	line, err := c.add(node{kind: literal, texts: []string{"\n"}})
	if err != nil {
		return 0, err
	}
	return c.marked(r, steps, line, call)
}

// marked puts calls between their marks: a line feed may stand behind the one that opens and before the one that closes.
func (c *compiler) marked(r *Calls, steps []int32, line, call int32) (int32, error) {
	last := len(steps) - 1
	broken, err := c.add(node{kind: series, alts: []int32{line, call}})
	if err != nil {
		return 0, err
	}
	if steps[last], err = c.add(node{kind: choice, alts: []int32{call, broken}}); err != nil {
		return 0, err
	}
	if r.Close != "" {
		end, err := c.add(node{kind: literal, texts: []string{r.Close, "\n" + r.Close}})
		if err != nil {
			return 0, err
		}
		steps = append(steps, end)
	}
	one, err := c.add(node{kind: series, alts: steps})
	if err != nil {
		return 0, err
	}
	if r.Free {
		return c.add(node{kind: free, texts: []string{r.Open}, item: one, max: int32(r.Most)})
	}
	return c.add(node{kind: repeat, item: one, min: 1, max: int32(r.Most)})
}

// value makes the node of a schema; none is any object.
func (c *compiler) value(data []byte, field string) (int32, error) {
	if data == nil {
		return c.objects, nil
	}
	if c.bytes += len(data); c.bytes > MaxSchema {
		return 0, fault.New(fault.Invalid, field, "the schemas of a request may have %d bytes together, with %s they have %d", MaxSchema, field, c.bytes)
	}
	c.field = field
	v, err := parse(data, field)
	if err != nil {
		return 0, err
	}
	s := &schema{field: field, top: v, known: map[*value]int32{}}
	if s.root, err = c.schema(s, v, field); err != nil {
		return 0, err
	}
	c.schemas = append(c.schemas, *s)
	return s.root, nil
}

func (c *compiler) tooLarge(what string, most int) error {
	return fault.New(fault.Invalid, c.field, "%s has too many %s: allowed are %d", c.field, what, most)
}

// add makes a node.
func (c *compiler) add(n node) (int32, error) {
	if len(c.g.nodes) >= maxNodes {
		return 0, c.tooLarge("parts", maxNodes)
	}
	c.g.nodes = append(c.g.nodes, n)
	return int32(len(c.g.nodes) - 1), nil
}

// schema gives the node of one place of a schema. It is known before its parts are looked at, so a schema may refer to itself.
func (c *compiler) schema(s *schema, v *value, path string) (int32, error) {
	if n, ok := s.known[v]; ok {
		return n, nil
	}
	if yes, ok := v.v.(bool); ok && yes {
		return c.any, nil
	}
	m, ok := v.v.(*members)
	if !ok {
		return 0, fault.New(fault.Invalid, path, "%s must be a schema: an object, or true, got %s", path, v.short())
	}
	if err := understood(m, path); err != nil {
		return 0, err
	}
	at, err := c.add(node{})
	if err != nil {
		return 0, err
	}
	s.known[v] = at
	n, err := c.keywords(s, m, path)
	if err != nil {
		return 0, err
	}
	c.g.nodes[at] = n
	return at, nil
}

// understood refuses keywords that are not served.
func understood(m *members, path string) error {
	for _, k := range m.names {
		if !slices.Contains(keywordNames(), k) {
			f := path + "." + k
			return fault.New(fault.Unsupported, f, "%s is not supported: the answer could not be held to it. What is: %s", f, "docs/api/openai.md, JSON answers")
		}
	}
	return nil
}

func keywordNames() []string {
	return []string{"type", "properties", "required", "additionalProperties", "items", "minItems", "maxItems", "enum", "const", "minLength", "maxLength", "anyOf",
		"$ref", "$defs", "definitions", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$schema", "$id", "$comment"}
}

// constrains lists the keywords that say what a value is, in the order of the schema.
func constrains(m *members) (out []string) {
	for _, k := range m.names {
		switch k {
		case "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$schema", "$id", "$comment", "$defs", "definitions":
		default:
			out = append(out, k)
		}
	}
	return out
}

// keywords makes the node of a schema that is an object.
func (c *compiler) keywords(s *schema, m *members, path string) (node, error) {
	on := constrains(m)
	for _, k := range []string{"$ref", "anyOf", "const", "enum"} {
		v := m.get(k)
		if v == nil {
			continue
		}
		for _, other := range on {
			if other != k && !(other == "type" && (k == "const" || k == "enum")) {
				return node{}, fault.New(fault.Unsupported, path+"."+other, "%s.%s beside %s is not supported: a value would have to obey both", path, other, k)
			}
		}
		switch k {
		case "$ref":
			return c.reference(s, v, path+"."+k)
		case "anyOf":
			return c.anyOf(s, v, path+"."+k)
		case "const":
			return c.literals(m, []*value{v}, path+"."+k)
		}
		list, ok := v.v.([]*value)
		if !ok || len(list) == 0 {
			return node{}, fault.New(fault.Invalid, path+".enum", "%s.enum must be a list of at least one value, got %s", path, v.short())
		}
		return c.literals(m, list, path+".enum")
	}
	types, err := typesOf(m, on, path)
	if err != nil {
		return node{}, err
	}
	return c.typed(s, m, types, path)
}

// typesOf gives the types that a schema names, or else those that its keywords speak of; none means any value.
func typesOf(m *members, on []string, path string) ([]string, error) {
	v := m.get("type")
	if v == nil {
		var types []string
		for _, k := range on {
			t := map[string]string{"properties": "object", "required": "object", "additionalProperties": "object", "items": "array", "minItems": "array",
				"maxItems": "array", "minLength": "string", "maxLength": "string"}[k]
			if !slices.Contains(types, t) {
				types = append(types, t)
			}
		}
		return types, nil
	}
	list, ok := v.v.([]*value)
	if !ok {
		list = []*value{v}
	}
	if len(list) == 0 {
		return nil, fault.New(fault.Invalid, path+".type", "%s.type must name a type, got %s", path, v.short())
	}
	var types []string
	for _, e := range list {
		t, _ := e.v.(string)
		if !slices.Contains([]string{"object", "array", "string", "number", "integer", "boolean", "null"}, t) {
			return nil, fault.New(fault.Invalid, path+".type", "%s.type must be object, array, string, number, integer, boolean or null, or a list of those, got %s", path, e.short())
		}
		if !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types, nil
}

// typed makes the node of a schema by its types.
func (c *compiler) typed(s *schema, m *members, types []string, path string) (node, error) {
	if len(types) == 0 {
		return node{kind: choice, alts: []int32{c.any}}, nil
	}
	if slices.Contains(types, "number") { // integers are among them
		types = slices.DeleteFunc(slices.Clone(types), func(t string) bool { return t == "integer" })
	}
	if len(types) == 1 {
		return c.ofType(s, m, types[0], path)
	}
	n := node{kind: choice}
	for _, t := range types {
		one, err := c.ofType(s, m, t, path)
		if err != nil {
			return node{}, err
		}
		at, err := c.add(one)
		if err != nil {
			return node{}, err
		}
		n.alts = append(n.alts, at)
	}
	return n, nil
}

func (c *compiler) ofType(s *schema, m *members, t, path string) (n node, err error) {
	switch t {
	case "object":
		return c.object(s, m, path)
	case "array":
		n.kind = array
		n.item = c.any
		if v := m.get("items"); v != nil {
			if n.item, err = c.schema(s, v, path+".items"); err != nil {
				return n, err
			}
		}
		n.min, n.max, err = bounds(m, "minItems", "maxItems", path)
		return n, err
	case "string":
		n.kind = text
		n.min, n.max, err = bounds(m, "minLength", "maxLength", path)
		return n, err
	case "number":
		return node{kind: number}, nil
	case "integer":
		return node{kind: integer}, nil
	case "boolean":
		return node{kind: literal, texts: []string{"true", "false"}}, nil
	}
	return node{kind: literal, texts: []string{"null"}}, nil
}

// bounds reads a pair of counts; max is -1 where there is none.
func bounds(m *members, least, most, path string) (lo, hi int32, err error) {
	hi = -1
	for _, k := range []struct {
		name string
		to   *int32
	}{{least, &lo}, {most, &hi}} {
		v := m.get(k.name)
		if v == nil {
			continue
		}
		f := path + "." + k.name
		num, ok := v.v.(json.Number)
		x, bad := num.Float64()
		if !ok || bad != nil || x < 0 || x > maxCount || x != float64(int32(x)) {
			return 0, 0, fault.New(fault.Invalid, f, "%s must be a whole number from 0 to %d, got %s", f, maxCount, v.short())
		}
		*k.to = int32(x)
	}
	if hi >= 0 && lo > hi {
		return 0, 0, fault.New(fault.Invalid, path+"."+least, "%s.%s is %d, more than %s = %d: no value obeys both", path, least, lo, most, hi)
	}
	return lo, hi, nil
}

// object makes the node of an object.
func (c *compiler) object(s *schema, m *members, path string) (node, error) {
	extra, open, err := c.additional(s, m, path)
	if err != nil {
		return node{}, err
	}
	props := &members{}
	if v := m.get("properties"); v != nil {
		p, ok := v.v.(*members)
		if !ok {
			return node{}, fault.New(fault.Invalid, path+".properties", "%s.properties must be an object, got %s", path, v.short())
		}
		props = p
	}
	required, err := names(m, path)
	if err != nil {
		return node{}, err
	}
	if len(props.names) == 0 && len(required) == 0 && open {
		return node{kind: mapping, item: extra}, nil
	}
	n := node{kind: object}
	for i, name := range props.names {
		at, err := c.schema(s, props.values[i], path+".properties."+name)
		if err != nil {
			return node{}, err
		}
		n.props = append(n.props, prop{quote(name), at, required[name]})
		delete(required, name)
	}
	for _, name := range sortedNames(required) {
		if !open {
			return node{}, fault.New(fault.Invalid, path+".required", "%s.required names %q, which is none of the properties", path, fault.Clip(name, 40))
		}
		n.props = append(n.props, prop{quote(name), extra, true})
	}
	return n, nil
}

// additional gives the node of properties that are not listed, and whether there may be any.
func (c *compiler) additional(s *schema, m *members, path string) (item int32, open bool, err error) {
	v := m.get("additionalProperties")
	if v == nil {
		return c.any, true, nil
	}
	if yes, ok := v.v.(bool); ok {
		return c.any, yes, nil
	}
	item, err = c.schema(s, v, path+".additionalProperties")
	return item, true, err
}

// names reads the required properties.
func names(m *members, path string) (map[string]bool, error) {
	out := map[string]bool{}
	v := m.get("required")
	if v == nil {
		return out, nil
	}
	list, ok := v.v.([]*value)
	for _, e := range list {
		name, isText := e.v.(string)
		ok = ok && isText
		out[name] = true
	}
	if !ok {
		return nil, fault.New(fault.Invalid, path+".required", "%s.required must be a list of names, got %s", path, v.short())
	}
	return out, nil
}

func sortedNames(m map[string]bool) []string {
	var out []string
	for n := range m {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// reference follows $ref within the schema.
func (c *compiler) reference(s *schema, v *value, path string) (node, error) {
	ref, _ := v.v.(string)
	fragment, ok := strings.CutPrefix(ref, "#")
	fragment, bad := url.PathUnescape(fragment)
	var to *value
	if ok && bad == nil && (fragment == "" || fragment[0] == '/') {
		to = s.top.point(fragment)
	}
	if to == nil {
		return node{}, fault.New(fault.Invalid, path, "%s must point into the schema itself, as \"#/$defs/NAME\": %q does not", path, fault.Clip(ref, 80))
	}
	at, err := c.schema(s, to, s.field+strings.ReplaceAll(fragment, "/", "."))
	return node{kind: choice, alts: []int32{at}}, err
}

func (c *compiler) anyOf(s *schema, v *value, path string) (node, error) {
	list, ok := v.v.([]*value)
	if !ok || len(list) == 0 {
		return node{}, fault.New(fault.Invalid, path, "%s must be a list of at least one schema, got %s", path, v.short())
	}
	if len(list) > maxThreads {
		return node{}, fault.New(fault.Invalid, path, "%s has %d schemas, allowed are %d", path, len(list), maxThreads)
	}
	n := node{kind: choice}
	for i, e := range list {
		at, err := c.schema(s, e, fmt.Sprintf("%s[%d]", path, i))
		if err != nil {
			return node{}, err
		}
		n.alts = append(n.alts, at)
	}
	return n, nil
}

// literals makes the node of a list of values, without those that are not of the schema's types.
func (c *compiler) literals(m *members, list []*value, path string) (node, error) {
	var types []string
	if m.get("type") != nil {
		var err error
		if types, err = typesOf(m, nil, strings.TrimSuffix(strings.TrimSuffix(path, ".enum"), ".const")); err != nil {
			return node{}, err
		}
	}
	n := node{kind: literal}
	for _, v := range list {
		t := v.typeOf()
		if types != nil && !slices.Contains(types, t) && !(t == "integer" && slices.Contains(types, "number")) {
			continue
		}
		var b strings.Builder
		v.write(&b)
		n.texts = append(n.texts, b.String())
	}
	if len(n.texts) == 0 {
		return node{}, fault.New(fault.Invalid, path, "%s has no value of the type that the schema asks for", path)
	}
	return n, nil
}
