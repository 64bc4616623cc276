package gen

import (
	"fmt"
	"slices"
	"sort"

	"tinyloop/internal/chat"
	"tinyloop/internal/engine"
	"tinyloop/internal/fault"
	"tinyloop/internal/tok"
)

// prompt gives the token ids of the request and, with an explicit max_tokens, makes sure that they fit. limit is the most tokens to
// sample; room says that the window, not the request, set it.
func (g *Generator) prompt(r *Request, p *plan) (ids []tok.ID, limit int, room bool, err error) {
	if err := g.hopeless(r); err != nil {
		return nil, 0, false, err
	}
	if r.Messages != nil && r.FitWindow {
		ids, err = g.fitted(r)
	} else {
		ids, err = g.encode(r, r.Messages)
	}
	if err != nil {
		return nil, 0, false, err
	}
	limit, room, err = g.fit(r, len(ids))
	if room {
		limit = g.withinMemory(p, ids, limit)
	}
	return ids, limit, room, err
}

// hopeless refuses a text that no encoding brings into the window: encoding it first would take time and memory for nothing. Normalisation may
// shorten a text, to a third at most (a letter with two marks of its own becomes one letter).
func (g *Generator) hopeless(r *Request) error {
	size := 0
	if r.Prompt != nil {
		size = len(*r.Prompt)
	}
	if !r.FitWindow {
		for i := range r.Messages {
			size += len(r.Messages[i].Content)
		}
	}
	least := size / (4 * g.longest)
	if least <= g.info.Context {
		return nil
	}
	return tooLong("the prompt has at least %d tokens, which leaves no room for an answer in the window of %d", least, g.info.Context)
}

// longest is how many bytes of text one token stands for at most.
func longest(t *tok.Tokenizer) int {
	n := 1
	for id := range tok.ID(t.Size()) {
		n = max(n, len(t.Bytes(id)), len(t.Piece(id)))
	}
	return n
}

// withinMemory cuts an answer without a limit of its own to what the KV store can hold of one sequence. The last token of an answer is never
// fed back, so it needs no place. A prompt that does not fit by itself is refused by the engine.
func (g *Generator) withinMemory(p *plan, prompt []tok.ID, limit int) int {
	if g.positions == nil {
		return limit
	}
	n := len(prompt)
	most := g.positions(&engine.Request{Prompt: prompt, Loops: p.loops, Window: p.window, Sinks: p.sinks, KV: p.kv, Residues: p.kvMod}, n+limit-1) + 1 - n
	if most >= limit || most < 1 {
		return limit
	}
	p.warnings = append(p.warnings, fmt.Sprintf("the answer is limited to %d tokens by the memory for keys and values at %d loops", most, p.loops))
	return most
}

// fit decides how many tokens may follow a prompt of n tokens.
func (g *Generator) fit(r *Request, n int) (limit int, room bool, err error) {
	window := g.info.Context
	if r.MaxTokens == nil || *r.MaxTokens < 0 {
		if n >= window {
			return 0, false, tooLong("the prompt has %d tokens, which leaves no room for an answer in the window of %d", n, window)
		}
		return window - n, true, nil
	}
	asked := *r.MaxTokens
	if n > window || n == window && asked > 0 {
		return 0, false, tooLong("the prompt has %d tokens and max_tokens asks for %d more, but the window holds %d", n, asked, window)
	}
	if asked > window-n {
		return 0, false, tooLong("the prompt has %d tokens and max_tokens asks for %d more, but the window holds %d", n, asked, window)
	}
	return asked, false, nil
}

func tooLong(format string, args ...any) error {
	e := fault.New(fault.TooLong, "prompt", format, args...)
	e.Code = "context_length_exceeded"
	return e
}

// encode turns the request's input into ids. messages replaces r.Messages, so that turns can be dropped.
func (g *Generator) encode(r *Request, messages []chat.Message) ([]tok.ID, error) {
	switch {
	case r.PromptIDs != nil:
		return slices.Clone(r.PromptIDs), nil
	case r.Prompt != nil:
		return g.encodeText(*r.Prompt)
	}
	parts, err := g.render(r, messages)
	if err != nil {
		return nil, err
	}
	return g.withBOS(g.encodeParts(parts)), nil
}

// encodeText encodes a bare prompt. An empty one stands for the start of a document.
func (g *Generator) encodeText(text string) ([]tok.ID, error) {
	var ids []tok.ID
	if text != "" {
		return g.withBOS(g.tok.Encode(nil, text)), nil
	}
	for _, id := range []tok.ID{g.tok.BOS(), g.tok.EOS(), g.tok.EOT()} {
		if id >= 0 {
			return append(ids, id), nil
		}
	}
	return nil, fault.New(fault.Invalid, "prompt", "prompt must not be empty: this model has no start token")
}

// withBOS puts the start token first where the tokenizer asks for it and the template has not written it already.
func (g *Generator) withBOS(ids []tok.ID) []tok.ID {
	bos := g.tok.BOS()
	if !g.tok.AddBOS() || bos < 0 || len(ids) > 0 && ids[0] == bos {
		return ids
	}
	return slices.Insert(ids, 0, bos)
}

func (g *Generator) render(r *Request, messages []chat.Message) ([]chat.Part, error) {
	return g.tmpl.Render(chat.Render{
		Messages:            messages,
		Tools:               r.offered(),
		AddGenerationPrompt: !r.NoGenerationPrompt,
		BOS:                 g.piece(g.tok.BOS()),
		EOS:                 g.piece(g.tok.EOS()),
		Now:                 g.now(),
		Controls:            g.controls,
	})
}

func (g *Generator) piece(id tok.ID) string {
	if id < 0 {
		return ""
	}
	return g.tok.Piece(id)
}

// encodeParts encodes rendered text as the one string that it is, with control tokens from the template alone.
func (g *Generator) encodeParts(parts []chat.Part) []tok.ID {
	spans := make([]tok.Span, len(parts))
	for i, p := range parts {
		spans[i] = tok.Span{Text: p.Text, Markup: !p.User}
	}
	return g.tok.EncodeSpans(nil, spans)
}

// fitted drops whole oldest turns until the conversation and the answer fit. A turn is a user message with everything up to the next one.
// System messages stay, the last turn stays: when they do not fit alone, that is the caller's error.
func (g *Generator) fitted(r *Request) ([]tok.ID, error) {
	starts := turns(r.Messages)
	try := func(drop int) ([]tok.ID, error) {
		ids, err := g.encode(r, without(r.Messages, starts, drop))
		if err == nil {
			_, _, err = g.fit(r, len(ids))
		}
		return ids, err
	}
	ids, err := try(0)
	if fault.Of(err) != fault.TooLong || len(starts) < 2 {
		return ids, err
	}
	// Fewer turns never make a longer prompt, so the fewest to drop is found by halving.
	last := len(starts) - 1
	n := 1 + sort.Search(last-1, func(i int) bool {
		_, err := try(1 + i)
		return err == nil
	})
	return try(n)
}

// turns gives where each turn begins: every user message that does not follow another, and the first message that is not system.
func turns(ms []chat.Message) []int {
	var starts []int
	for i, m := range ms {
		if m.Role != "system" && (m.Role == "user" || len(starts) == 0) {
			starts = append(starts, i)
		}
	}
	return starts
}

// without drops the first n turns and keeps every system message.
func without(ms []chat.Message, starts []int, n int) []chat.Message {
	if n == 0 {
		return ms
	}
	var out []chat.Message
	for i, m := range ms {
		if m.Role == "system" || i >= starts[n] {
			out = append(out, m)
		}
	}
	return out
}

// controlTexts lists what the tokenizer turns into control ids when a template writes it.
func controlTexts(t *tok.Tokenizer) []string {
	var out []string
	for id := range tok.ID(t.Size()) {
		if !t.IsControl(id) {
			continue
		}
		if s := t.Piece(id); s != "" {
			out = append(out, s)
		}
	}
	return out
}
