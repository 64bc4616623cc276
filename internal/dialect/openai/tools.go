package openai

import (
	"encoding/json"

	"tinyloop/internal/chat"
	"tinyloop/internal/dialect"
	"tinyloop/internal/fault"
	"tinyloop/internal/gen"
)

const (
	maxTools    = 128
	maxToolName = 64
)

// form reads what the answer is to be: tools, whether and which of them are called, and the format of text.
func form(o *dialect.Object, r *gen.Request) {
	readTools(o, r)
	readChoice(o, r)
	r.OneCall = !o.Flag("parallel_tool_calls", true)
	if v := o.Get("response_format"); v.Present() {
		r.Format = readFormat(v)
	}
}

// readTools reads tools and, where there are none, their older form, functions.
func readTools(o *dialect.Object, r *gen.Request) {
	v, old := o.Get("tools"), o.Get("functions")
	oneOf(v, old)
	legacy := v.Empty() && !old.Empty()
	if legacy {
		v = old
	}
	if v.Empty() {
		return
	}
	if v.IsArray() && v.Len() > maxTools {
		v.Fail(fault.Invalid, "array_above_max_length", "%s may have at most %d elements, got %d", v.Path(), maxTools, v.Len())
		return
	}
	names := map[string]bool{}
	v.Each(func(_ int, e dialect.Value) {
		f := e
		if !legacy {
			if f = toolFunction(e); !f.Present() {
				return
			}
		}
		t, at := readFunction(f)
		if names[t.Name] && at.Present() {
			at.Fail(fault.Invalid, "invalid_value", "%s %q stands twice", at.Path(), t.Name)
		}
		names[t.Name] = true
		r.Tools = append(r.Tools, t)
	})
}

// oneOf refuses a field beside its older form: one of them would have to be ignored.
func oneOf(v, old dialect.Value) {
	if !v.Empty() && !old.Empty() {
		old.Fail(fault.Invalid, "invalid_value", "%s is the older form of %s: give one of them, not both", old.Path(), v.Path())
	}
}

// toolFunction gives the function of a tool.
func toolFunction(v dialect.Value) dialect.Value {
	o := v.Object()
	t := o.Need("type")
	if !t.Present() {
		return dialect.Value{}
	}
	if t.String() != "function" {
		t.Fail(fault.Unsupported, "unsupported_parameter", "%s %q is not supported: tools are functions", t.Path(), fault.Clip(t.String(), 40))
		return dialect.Value{}
	}
	return o.Need("function")
}

// readFunction reads the definition of a function, and gives its name's place besides.
func readFunction(v dialect.Value) (t gen.Tool, name dialect.Value) {
	o := v.Object()
	if name = o.Need("name"); name.Present() {
		if t.Name = name.String(); !toolName(t.Name) {
			name.Fail(fault.Invalid, "invalid_value", "%s must have 1 to %d letters, digits, _ and -, got %q", name.Path(), maxToolName, fault.Clip(t.Name, 80))
		}
	}
	if p := o.Get("parameters"); p.Present() {
		if p.Object(); p.IsObject() {
			t.Schema, t.Field = p.Raw(), p.Path()
		}
		if p.Empty() { // as written for functions without arguments
			t.Schema = nil
		}
	}
	if s := o.Get("strict"); s.Present() {
		yes := s.Bool()
		t.Strict = &yes
	}
	o.Skip("description")
	o.Done()
	t.Value = chat.Object{{Key: "type", Value: "function"}, {Key: "function", Value: shown(v)}}
	return t, name
}

// shown is a function as the model sees it: as it came, without what only concerns the server.
func shown(v dialect.Value) any {
	parsed, err := chat.ParseJSON(v.Raw())
	if err != nil {
		v.Fail(fault.Invalid, "invalid_value", "%s: %v", v.Path(), err)
		return nil
	}
	o, _ := parsed.(chat.Object)
	var out chat.Object
	for _, f := range o {
		if f.Key != "strict" && f.Value != nil {
			out = append(out, f)
		}
	}
	return out
}

func toolName(s string) bool {
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return len(s) > 0 && len(s) <= maxToolName
}

// readChoice reads tool_choice and, where it is absent, function_call.
func readChoice(o *dialect.Object, r *gen.Request) {
	v, old := o.Get("tool_choice"), o.Get("function_call")
	oneOf(v, old)
	if !v.Present() {
		v = old
	}
	switch {
	case !v.Present():
	case v.IsString():
		r.ToolUse = use(v, choices, "none", "auto", "required")
	case v.IsObject():
		named(v, r)
	default:
		v.WrongType(choices)
	}
}

// choices is what tool_choice may be.
const choices = "none, auto, required or an object that names a function"

// use reads one of the words for how tools are used; allowed says in an error what would have been right.
func use(v dialect.Value, allowed string, words ...string) gen.ToolUse {
	word := v.String()
	for _, w := range words {
		if w != word {
			continue
		}
		switch w {
		case "none":
			return gen.ToolsNone
		case "required":
			return gen.ToolsRequired
		}
		return gen.ToolsAuto
	}
	v.Fail(fault.Invalid, "invalid_value", "%s must be %s, got %q", v.Path(), allowed, fault.Clip(word, 40))
	return gen.ToolsAuto
}

// named reads a choice that names tools.
//
//	{"type":"function","function":{"name":N}}   {"name":N}   {"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[…]}}
func named(v dialect.Value, r *gen.Request) {
	o := v.Object()
	kind := o.Str("type")
	switch {
	case kind == "allowed_tools":
		a := o.Need("allowed_tools")
		if !a.Present() {
			return
		}
		in := a.Object()
		if m := in.Need("mode"); m.Present() {
			r.ToolUse = use(m, "auto or required", "auto", "required")
		}
		r.Callable = []string{}
		if list := in.Need("tools"); list.Present() {
			list.Each(func(_ int, e dialect.Value) {
				if f := toolFunction(e); f.Present() {
					callable(f.Object(), r)
				}
			})
		}
		in.Done()
	case kind == "function":
		r.ToolUse = gen.ToolsRequired
		if f := o.Need("function"); f.Present() {
			callable(f.Object(), r)
		}
	case kind == "":
		r.ToolUse = gen.ToolsRequired
		callable(o, r)
	default:
		t := o.Get("type")
		t.Fail(fault.Unsupported, "unsupported_parameter", "%s %q is not supported: function and allowed_tools are", t.Path(), fault.Clip(kind, 40))
	}
	o.Done()
}

func callable(o *dialect.Object, r *gen.Request) {
	if n := o.Need("name"); n.Present() {
		r.Callable = append(r.Callable, n.String())
	}
	o.Done()
}

// readFormat reads response_format, in OpenAI's forms and in the one of llama.cpp, whose json_object may have a schema.
func readFormat(v dialect.Value) *gen.Format {
	o := v.Object()
	t := o.Need("type")
	if !t.Present() {
		return nil
	}
	defer o.Done()
	switch t.String() {
	case "text":
		return nil
	case "json_object":
		return schemaOf(o)
	case "json_schema":
		j := o.Need("json_schema")
		if !j.Present() {
			return nil
		}
		in := j.Object()
		in.Skip("name", "description", "strict")
		defer in.Done()
		return schemaOf(in)
	}
	t.Fail(fault.Invalid, "invalid_value", "%s must be text, json_object or json_schema, got %q", t.Path(), fault.Clip(t.String(), 40))
	return nil
}

func schemaOf(o *dialect.Object) *gen.Format {
	s := o.Get("schema")
	if !s.Present() {
		return &gen.Format{}
	}
	return &gen.Format{Schema: s.Raw(), Field: s.Path()}
}

// history reads the calls of an assistant's turn: tool_calls, or the one of the older function_call.
func history(o *dialect.Object) []any {
	var out []any
	if v := o.Get("tool_calls"); !v.Empty() {
		v.Each(func(_ int, e dialect.Value) {
			c := e.Object()
			c.Skip("type", "index")
			f := c.Need("function")
			if f.Present() {
				out = append(out, madeCall(f.Object(), c.Str("id")))
			}
			c.Done()
		})
	}
	if v := o.Get("function_call"); !v.Empty() {
		out = append(out, madeCall(v.Object(), ""))
	}
	return out
}

// madeCall is a call as templates know it. Arguments that are a JSON object become one, as templates expect; anything else, which an earlier answer may
// have left, goes in as the text that it is.
func madeCall(f *dialect.Object, id string) any {
	name := f.Need("name")
	text := ""
	if name.Present() {
		text = name.String()
	}
	args := f.Str("arguments")
	f.Done()
	var shown any = args
	if parsed, err := chat.ParseJSON([]byte(args)); err == nil && json.Valid([]byte(args)) {
		if o, ok := parsed.(chat.Object); ok {
			shown = o
		}
	}
	call := chat.Object{}
	if id != "" {
		call = append(call, chat.Field{Key: "id", Value: id})
	}
	return append(call, chat.Field{Key: "type", Value: "function"},
		chat.Field{Key: "function", Value: chat.Object{{Key: "name", Value: text}, {Key: "arguments", Value: shown}}})
}

// nameResults tells each turn of a tool which function it is the result of, where it does not say itself: some templates show it.
func nameResults(ms []chat.Message) {
	names := map[string]string{}
	for i := range ms {
		m := &ms[i]
		for _, c := range m.ToolCalls {
			o, _ := c.(chat.Object)
			id, name := callOf(o)
			names[id] = name
		}
		if m.Role == "tool" && m.Name == "" && m.ToolCallID != "" {
			m.Name = names[m.ToolCallID]
		}
	}
}

func callOf(o chat.Object) (id, name string) {
	for _, f := range o {
		switch v := f.Value.(type) {
		case string:
			if f.Key == "id" {
				id = v
			}
		case chat.Object:
			for _, g := range v {
				if s, ok := g.Value.(string); ok && g.Key == "name" {
					name = s
				}
			}
		}
	}
	return id, name
}
