package gen

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"

	"tinyloop/internal/chat"
	"tinyloop/internal/engine"
	"tinyloop/internal/fault"
	"tinyloop/internal/grammar"
	"tinyloop/internal/tok"
)

// This file is the form of an answer: JSON, calls of functions, or text with calls in it. What a grammar can hold to is compiled before anything
// starts, and then masks tokens; calls in an answer without one are read from what the model says.

// Format asks for an answer that is JSON.
type Format struct {
	Schema []byte // a JSON Schema as package grammar understands it; nil = any object
	Field  string // name of the schema in errors
}

// Tool is a function that the model may call.
type Tool struct {
	Name   string
	Value  any    // as the template shows it: an ordered value of package chat
	Schema []byte // of its arguments; nil = any object
	Field  string // name of the schema in errors
	// Strict: a call that the model makes of its own accord is held to the schema, which must be understood. Nil: it is held to what is understood of
	// it. False: it is read as the model writes it, and is text where it is no call. A call that is required is always held to the schema.
	Strict *bool
}

// ToolUse says whether functions are called.
type ToolUse uint8

const (
	ToolsAuto     ToolUse = iota // as the model likes; a call it gets wrong is text
	ToolsNone                    // the model does not see them
	ToolsRequired                // the answer is at least one call
)

// Call is a part of a call in an answer: the first part has the name, the ones behind it the next bytes of the arguments' JSON.
type Call struct {
	Index     int // from 0, by choice
	Name      string
	Arguments string
}

const (
	maxCalls    = 64 // of one answer
	maxMatchers = 8  // compiled forms that are kept
)

// form is what a request's answer is held to and read by.
type form struct {
	matcher *grammar.Matcher // nil = nothing is masked
	marks   chat.Marks
	names   []string // functions that may be called; nil = none, the answer is text
	most    int      // calls
}

func (g *Generator) checkForm(r *Request, p *plan) error {
	p.stops = g.stopIDs(r)
	if len(r.Tools) > 0 && r.Messages == nil {
		return fault.New(fault.Invalid, "tools", "tools need messages: a bare prompt has no place for them")
	}
	if len(r.Tools) == 0 && r.ToolUse == ToolsRequired {
		return fault.New(fault.Invalid, "tool_choice", "tool_choice asks for a call, but there are no tools")
	}
	var rule grammar.Rule
	must := false
	if r.Format != nil && r.ToolUse != ToolsRequired {
		rule.Format, must = &grammar.Format{Schema: r.Format.Schema, Field: r.Format.Field}, true
	}
	if len(r.Tools) > 0 && r.ToolUse != ToolsNone {
		hold, err := g.calls(r, p, &rule)
		if err != nil {
			return err
		}
		must = must || hold
	}
	if rule.Format == nil && rule.Calls == nil {
		return nil
	}
	err := g.compile(r, p, &rule)
	if !must {
		return nil // then calls are read as they come
	}
	return err
}

// compile finds the matcher of a rule.
func (g *Generator) compile(r *Request, p *plan, rule *grammar.Rule) (err error) {
	field := "response_format"
	if rule.Format == nil {
		field = "tools"
	}
	if len(p.stops) == 0 {
		return fault.New(fault.Invalid, field, "%s needs a token that ends the answer: this model has none, or ignore_eos takes it away", field)
	}
	p.form.matcher, err = g.matchers.get(rule, field)
	return err
}

// calls says how functions are called. hold says that the answer must be held to it; otherwise it is where that can be done.
func (g *Generator) calls(r *Request, p *plan, rule *grammar.Rule) (hold bool, err error) {
	if p.form.marks, err = g.tmpl.Marks(); err != nil {
		return false, err
	}
	if p.form.most = maxCalls; r.OneCall {
		p.form.most = 1
	}
	hold = r.ToolUse == ToolsRequired
	free := r.Format == nil && !hold
	c := &grammar.Calls{Open: p.form.marks.Open, Close: p.form.marks.Close, Most: p.form.most, Free: r.ToolUse == ToolsAuto && r.Format == nil}
	for _, t := range r.Tools {
		if r.Callable != nil && !slices.Contains(r.Callable, t.Name) {
			continue
		}
		f := grammar.Function{Name: t.Name, Field: t.Field, Schema: t.Schema}
		switch {
		case r.ToolUse == ToolsRequired:
		case t.Strict == nil:
			free = false
			if !understood(t) {
				f.Schema = nil
			}
		case *t.Strict:
			hold, free = true, false
		default:
			f.Schema = nil
		}
		p.form.names = append(p.form.names, t.Name)
		c.Functions = append(c.Functions, f)
	}
	for _, name := range r.Callable {
		if !slices.Contains(p.form.names, name) {
			return false, fault.New(fault.Invalid, "tool_choice", "tool_choice names %q, which is none of the tools", fault.Clip(name, 64))
		}
	}
	if len(c.Functions) == 0 {
		return false, fault.New(fault.Invalid, "tool_choice", "tool_choice allows no tool")
	}
	if !free {
		rule.Calls = c
	}
	return hold, nil
}

// understood says whether the arguments of a tool can be held to its schema.
func understood(t Tool) bool {
	one := grammar.Calls{Functions: []grammar.Function{{Name: t.Name, Schema: t.Schema, Field: t.Field}}, Open: "<", Most: 1}
	_, err := grammar.Compile(grammar.Rule{Calls: &one})
	return err == nil
}

// offered gives the functions that the template shows.
func (r *Request) offered() []any {
	if r.ToolUse == ToolsNone {
		return nil
	}
	var out []any
	for _, t := range r.Tools {
		out = append(out, t.Value)
	}
	return out
}

// reader takes an answer of this form apart; nil where it is text.
func (f *form) reader() *chat.Reader {
	if f.names == nil {
		return nil
	}
	return &chat.Reader{Marks: f.marks, Names: f.names, Sure: f.matcher != nil}
}

// walkers makes a constraint for each of n choices.
func (p *plan) walkers(n int) []*grammar.Walker {
	if p.form.matcher == nil {
		return nil
	}
	out := make([]*grammar.Walker, n)
	for i := range out {
		out[i] = p.form.matcher.Walk(p.stops)
	}
	return out
}

func constraints(walkers []*grammar.Walker) []engine.Constraint {
	var out []engine.Constraint
	for _, w := range walkers {
		out = append(out, w)
	}
	return out
}

// matchers keeps the compiled forms of the latest requests: agents send the same one every turn.
type matchers struct {
	vocabulary func() (*grammar.Vocabulary, error) // built when the first form is asked for

	mu   sync.Mutex
	kept []kept // the latest last
}

type kept struct {
	key [32]byte
	m   *grammar.Matcher
}

func newMatchers(t *tok.Tokenizer, tm *chat.Template) *matchers {
	return &matchers{vocabulary: sync.OnceValues(func() (*grammar.Vocabulary, error) {
		marks := markTexts(t, tm)
		return grammar.NewVocabulary(t.Size(), func(id int32) []byte {
			if text, ok := marks[id]; ok {
				return text
			}
			return t.Bytes(id)
		})
	})}
}

// get compiles a rule, or finds it.
func (c *matchers) get(r *grammar.Rule, field string) (*grammar.Matcher, error) {
	key := identify(r)
	c.mu.Lock()
	for i, k := range c.kept {
		if k.key == key {
			c.kept = append(slices.Delete(c.kept, i, i+1), k)
			c.mu.Unlock()
			return k.m, nil
		}
	}
	c.mu.Unlock()
	form, err := grammar.Compile(*r)
	if err != nil {
		return nil, err
	}
	v, err := c.vocabulary()
	if err != nil {
		e := *fault.As(err)
		e.Field = field
		return nil, &e
	}
	m := grammar.NewMatcher(form, v)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.kept) == maxMatchers {
		c.kept = slices.Delete(c.kept, 0, 1)
	}
	c.kept = append(c.kept, kept{key, m})
	return m, nil
}

// identify hashes everything of a rule that its grammar depends on, each part with its length.
func identify(r *grammar.Rule) [32]byte {
	var b []byte
	part := func(s []byte, there bool) {
		if !there {
			b = append(b, 0)
			return
		}
		b = append(binary.AppendUvarint(append(b, 1), uint64(len(s))), s...)
	}
	if f := r.Format; f != nil {
		b = append(b, 'f')
		part(f.Schema, f.Schema != nil)
	}
	if c := r.Calls; c != nil {
		b = append(b, 'c')
		if c.Free {
			b = append(b, 'F')
		}
		b = binary.AppendUvarint(b, uint64(c.Most))
		part([]byte(c.Open), true)
		part([]byte(c.Close), true)
		for _, f := range c.Functions {
			part([]byte(f.Name), true)
			part(f.Schema, f.Schema != nil)
		}
	}
	return sha256.Sum256(b)
}

// markTexts gives the texts of the marks of calls that are control tokens: those have no text of their own, but around a call they are read.
func markTexts(t *tok.Tokenizer, tm *chat.Template) map[tok.ID][]byte {
	if tm == nil {
		return nil
	}
	m, err := tm.Marks()
	if err != nil {
		return nil
	}
	out := map[tok.ID][]byte{}
	for _, text := range []string{m.Open, m.Close} {
		if id, ok := t.Special(text); ok && t.IsControl(id) {
			out[id] = []byte(text)
		}
	}
	return out
}
