// Package chat renders conversations with the template that a model ships, keeping apart what the template wrote (markup: special tokens are
// recognised) and what people wrote (plain text for ever).
package chat

// Message is one turn.
type Message struct {
	Role    string // system, user, assistant, tool (developer and function are mapped by the dialects)
	Content string
	Name    string
}

// Part is a run of rendered text: markup written by the template, or text that came from a message.
type Part struct {
	Text string
	User bool // from a message: never becomes a special token
}

// Contract of the package (bodies in their own files):
//
//	// Template is a compiled chat template; safe for concurrent use.
//	type Template struct { … }
//	func Compile(source string) (*Template, error)     // size and depth are bounded; a fault is a clear error
//	func ChatML() *Template                            // the default of models without one
//	func (t *Template) Source() string
//	func (t *Template) Render(r Render) ([]Part, error)  // a raise_exception of the template is fault.Invalid with its text
//	type Render struct { Messages []Message; AddGenerationPrompt bool; BOS, EOS string; Now time.Time; Tools []any /*ordered*/; Vars map[string]any }
