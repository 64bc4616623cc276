// Package chat renders conversations with the template that a model ships, keeping apart what the template wrote (markup: special tokens are
// recognised) and what people wrote (plain text for ever).
package chat

import "time"

// Message is one turn.
type Message struct {
	Role    string // system, user, assistant, tool (developer and function are mapped by the dialects)
	Content string
	Name    string

	ToolCallID string // of a tool turn: the call it answers
	ToolCalls  []any  // of an assistant turn: ordered values, see Object
}

// Object is a JSON object that keeps the order of its keys, which templates print. Values are nil, bool, int64, float64, string, []any, Object.
type Object []Field

// Field is one member of an Object.
type Field struct {
	Key   string
	Value any
}

// Part is a run of rendered text: markup written by the template, or text that came from a message.
type Part struct {
	Text string
	User bool // from a message: never becomes a special token
}

// Render is everything a template may look at.
type Render struct {
	Messages            []Message
	AddGenerationPrompt bool
	BOS, EOS            string // texts of the start and end tokens, "" when there are none
	Now                 time.Time
	Tools               []any          // ordered values, see Object
	Vars                map[string]any // further variables, as chat_template_kwargs gives them
	// Controls are the texts that the tokenizer turns into control tokens. They are looked for in messages where the template handles a
	// message in a way that keeps its text from being followed through.
	Controls []string
}
