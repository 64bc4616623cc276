package chat

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ardanlabs/jinja"

	"tinyloop/internal/fault"
)

// Template is a compiled chat template; it is safe for concurrent use.
type Template struct {
	source string
	prog   *jinja.Template // nil: ChatML, written in Go
	forms  func() forms
}

func newTemplate(source string, prog *jinja.Template) *Template {
	t := &Template{source: source, prog: prog}
	t.forms = sync.OnceValue(t.findForms)
	return t
}

// Compile prepares a Jinja template as model files ship it. Its size and nesting are bounded, because a model file is outside input.
func Compile(source string) (*Template, error) {
	src, err := normalise(source)
	if err != nil {
		return nil, fault.New(fault.Invalid, "chat_template", "the chat template cannot be used: %v", err)
	}
	prog, err := jinja.Compile(src)
	if err != nil {
		return nil, fault.New(fault.Invalid, "chat_template", "the chat template cannot be used: %v", err)
	}
	return newTemplate(source, prog), nil
}

// Source gives the template's text, "" for the built-in one.
func (t *Template) Source() string { return t.source }

// raised is what a template says about a conversation it cannot render.
type raised struct{ msg string }

func (e *raised) Error() string { return e.msg }

// run renders once, as part of a Render that began at start. text is applied to every text of the request.
func (t *Template) run(r *Render, start time.Time, text func(string) string) (out string, err error) {
	defer func() { // the interpreter panics on some malformed calls
		if p := recover(); p != nil {
			out, err = "", fmt.Errorf("%v", p)
		}
	}()
	b := &budget{start: start}
	if err := b.charge(0); err != nil {
		return "", err
	}
	out, err = t.prog.RenderValues(globals(r, b, text))
	if err == nil && len(out) > maxOutput {
		return "", fmt.Errorf("it writes more than %d bytes", maxOutput)
	}
	return out, err
}

// refusal turns an error of a render into one that may be shown.
func refusal(err error) error {
	var r *raised
	if errors.As(err, &r) {
		return fault.New(fault.Invalid, "messages", "the chat template refuses these messages: %s", strings.TrimSpace(r.msg))
	}
	return &fault.Error{Kind: fault.Invalid, Field: "messages", Msg: "the chat template cannot render these messages", Err: err}
}
