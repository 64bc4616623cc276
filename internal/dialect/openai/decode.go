package openai

import (
	"strings"

	"tinyloop/internal/chat"
	"tinyloop/internal/dialect"
	"tinyloop/internal/fault"
	"tinyloop/internal/gen"
)

const (
	maxPrompts  = 128  // prompts of one completions request
	maxAnswers  = 1024 // prompts times choices
	maxMessages = 4096 // turns of one conversation
)

// decodeChat reads the body of POST /v1/chat/completions.
func decodeChat(c *dialect.Call) (*dialect.Job, error) {
	o, err := dialect.ParseObject(c.Body)
	if err != nil {
		return nil, err
	}
	r := &gen.Request{ID: c.ID}
	rename := dialect.Sampling(o, r)
	rename["prompt"] = "messages"
	r.Messages = messages(o.Need("messages"))
	form(o, r)
	r.MaxTokens = chatBudget(o, rename)
	r.Logprobs = o.Flag("logprobs", false)
	r.TopLogprobs = topLogprobs(o, r.Logprobs)
	r.NoGenerationPrompt = !o.Flag("add_generation_prompt", true)
	e := &encoder{chat: true, logprobs: r.Logprobs}
	j := job(c, o, e, rename)
	unserved(o)
	o.Unsupported("json_schema", "best_of", "suffix", "continue_final_message")
	o.Skip("verbosity", "modalities", "moderation")
	o.Done()
	j.Requests = []*gen.Request{r}
	e.choices = max(r.N, 1)
	c.Ignored = o.Ignored()
	return j, o.Err()
}

// chatBudget reads the two names of the token budget; the newer wins.
func chatBudget(o *dialect.Object, rename map[string]string) *int {
	old := o.Int("max_tokens")
	if n := o.Int("max_completion_tokens"); n != nil {
		rename["max_tokens"] = "max_completion_tokens"
		return n
	}
	return old
}

func topLogprobs(o *dialect.Object, on bool) int {
	v := o.Get("top_logprobs")
	if !v.Present() {
		return 0
	}
	n := v.Int()
	if n > 0 && !on {
		v.Fail(fault.Invalid, "invalid_value", "top_logprobs needs logprobs to be true")
	}
	return n
}

// job reads what both routes share apart from sampling.
func job(c *dialect.Call, o *dialect.Object, e *encoder, rename map[string]string) *dialect.Job {
	j := &dialect.Job{Model: o.Str("model"), Stream: o.Flag("stream", false), Encoder: e, Rename: rename}
	e.stream, e.id, e.created = j.Stream, c.ID, c.Created.Unix()
	if v := o.Get("stream_options"); v.Present() {
		if !j.Stream {
			v.Fail(fault.Invalid, "invalid_value", "stream_options needs stream to be true")
		}
		so := v.Object()
		e.usage = so.Flag("include_usage", false)
		so.Skip("include_obfuscation") // hides the sizes of frames; our frames are never padded
		so.Done()
	}
	o.Skip("store", "metadata", "user", "safety_identifier", "service_tier", "prompt_cache_key", "prompt_cache_retention", "prediction", "ttl")
	return j
}

// unserved refuses what would change the answer and is not built yet: silence would be a lie.
func unserved(o *dialect.Object) {
	o.Unsupported("grammar", "audio", "web_search_options", "images", "post_sampling_probs", "chat_template_kwargs")
	if v := o.Get("typical_p"); v.Present() && v.Float() != 1 { // 1 is how llama.cpp's clients write "off"
		v.Fail(fault.Unsupported, "unsupported_parameter", "typical_p other than 1 is not supported by this server")
	}
}

// formless refuses what only conversations have: tools and formats.
func formless(o *dialect.Object) {
	o.Unsupported("tools", "functions", "json_schema")
	o.Skip("parallel_tool_calls")
	for _, name := range []string{"tool_choice", "function_call"} {
		if v := o.Get(name); v.Present() && !(v.IsString() && (v.String() == "none" || v.String() == "auto")) {
			v.Fail(fault.Unsupported, "unsupported_parameter", "%s other than none or auto is not supported here: tools belong to chat completions", name)
		}
	}
	if v := o.Get("response_format"); v.Present() {
		f := v.Object()
		if t := f.Need("type"); t.Present() && t.String() != "text" {
			t.Fail(fault.Unsupported, "unsupported_parameter", "%s must be \"text\" here: other formats belong to chat completions", t.Path())
		}
		f.Done()
	}
}

// messages reads a conversation. Roles and their order are checked by gen and the model's template.
func messages(v dialect.Value) []chat.Message {
	if !v.Present() {
		return nil
	}
	if v.IsArray() && v.Len() > maxMessages {
		v.Fail(fault.Invalid, "array_above_max_length", "messages may have at most %d elements, got %d", maxMessages, v.Len())
		return nil
	}
	out := []chat.Message{} // an empty list is not an absent one
	v.Each(func(_ int, e dialect.Value) { out = append(out, message(e)) })
	nameResults(out)
	return out
}

func message(v dialect.Value) chat.Message {
	o := v.Object()
	m := chat.Message{Name: o.Str("name")}
	if role := o.Need("role"); role.Present() {
		m.Role = mapRole(role)
	}
	content := o.Get("content")
	switch {
	case content.IsArray():
		m.Content = parts(content)
	case content.Present():
		m.Content = content.String()
	case m.Role != "assistant":
		o.Need("content")
	}
	if m.Role == "assistant" {
		m.ToolCalls = history(o)
	} else {
		o.Unsupported("tool_calls", "function_call")
	}
	m.ToolCallID = o.Str("tool_call_id")
	o.Unsupported("audio")
	o.Skip("refusal")
	o.Done()
	return m
}

func mapRole(v dialect.Value) string {
	switch role := v.String(); role {
	case "system", "user", "assistant", "tool":
		return role
	case "developer":
		return "system"
	case "function":
		return "tool"
	default:
		v.Fail(fault.Invalid, "invalid_value", "%s must be developer, system, user, assistant, tool or function, got %q", v.Path(), fault.Clip(role, 40))
		return ""
	}
}

// parts joins the text parts of a message with line ends; other kinds of parts need a model that sees or hears.
func parts(v dialect.Value) string {
	var texts []string
	v.Each(func(_ int, e dialect.Value) {
		o := e.Object()
		t := o.Need("type")
		if !t.Present() {
			return
		}
		switch t.String() {
		case "text", "input_text", "output_text":
			if x := o.Need("text"); x.Present() {
				texts = append(texts, x.String())
			}
		case "refusal":
			texts = append(texts, o.Str("refusal"))
		default:
			t.Fail(fault.Unsupported, "unsupported_parameter", "%s %q is not supported: the model reads text only", t.Path(), fault.Clip(t.String(), 40))
		}
	})
	return strings.Join(texts, "\n")
}

// decodeCompletion reads the body of POST /v1/completions.
func (opt Options) decodeCompletion(c *dialect.Call) (*dialect.Job, error) {
	o, err := dialect.ParseObject(c.Body)
	if err != nil {
		return nil, err
	}
	base := gen.Request{ID: c.ID}
	rename := dialect.Sampling(o, &base)
	base.MaxTokens = opt.budget(o)
	base.Echo = o.Flag("echo", false)
	base.Logprobs, base.TopLogprobs = legacyLogprobs(o)
	rename["top_logprobs"] = "logprobs"
	e := &encoder{logprobs: base.Logprobs, echo: base.Echo}
	j := job(c, o, e, rename)
	base.BestOf = bestOf(o, base.N, j.Stream)
	unserved(o)
	formless(o)
	o.Unsupported("suffix", "messages")
	prompt := o.Need("prompt")
	j.Requests = prompts(prompt, &base)
	j.Listed = prompt.IsArray() && !prompt.First().IsNumber()
	e.prompts = j.Requests
	if n := len(j.Requests) * max(base.N, base.BestOf, 1); n > maxAnswers {
		o.Get("n").Fail(fault.Invalid, "invalid_value", "n times the number of prompts may be at most %d, got %d", maxAnswers, n)
	}
	o.Done()
	e.choices = max(base.N, 1)
	c.Ignored = o.Ignored()
	return j, o.Err()
}

func (opt Options) budget(o *dialect.Object) *int {
	n := o.Int("max_tokens")
	if n == nil && opt.Strict {
		n = new(int)
		*n = 16
	}
	return n
}

// legacyLogprobs reads the integer form: 0 still asks for the chosen tokens.
func legacyLogprobs(o *dialect.Object) (on bool, top int) {
	v := o.Get("logprobs")
	if !v.Present() {
		return false, 0
	}
	n := v.Int()
	if n < 0 || n > 5 {
		v.Fail(fault.Invalid, "invalid_value", "logprobs must be between 0 and 5, got %d", n)
	}
	return true, n
}

// bestOf reads how many answers to sample for the n best ones; they are known only at the end, so they cannot be streamed.
func bestOf(o *dialect.Object, n int, stream bool) int {
	v := o.Get("best_of")
	if !v.Present() {
		return 0
	}
	b := v.Int()
	switch {
	case b < 1 || b > 20:
		v.Fail(fault.Invalid, "invalid_value", "best_of must be between 1 and 20, got %d", b)
	case b < n:
		v.Fail(fault.Invalid, "invalid_value", "best_of must be at least n = %d, got %d", n, b)
	case b > 1 && stream:
		v.Fail(fault.Invalid, "invalid_value", "best_of above 1 cannot be streamed, got %d", b)
	}
	return b
}

// prompts reads the union of a text, ids, a list of texts, a list of lists of ids: one request a prompt.
func prompts(v dialect.Value, base *gen.Request) []*gen.Request {
	if !v.Present() {
		return nil
	}
	if v.IsString() {
		return []*gen.Request{withText(base, v)}
	}
	if !v.IsArray() {
		v.Fail(fault.Invalid, "invalid_type", "prompt must be a string, an array of strings, an array of token ids or an array of those")
		return nil
	}
	first := v.First()
	if !first.Present() {
		v.Fail(fault.Invalid, "invalid_value", "prompt must not be an empty array")
		return nil
	}
	if first.IsNumber() {
		return []*gen.Request{withIDs(base, v)}
	}
	if n := v.Len(); n > maxPrompts {
		v.Fail(fault.Invalid, "array_above_max_length", "prompt may have at most %d elements, got %d", maxPrompts, n)
		return nil
	}
	var out []*gen.Request
	v.Each(func(_ int, e dialect.Value) {
		switch {
		case e.IsString():
			out = append(out, withText(base, e))
		case e.IsArray():
			out = append(out, withIDs(base, e))
		default:
			e.Fail(fault.Invalid, "invalid_type", "%s must be a string or an array of token ids", e.Path())
		}
	})
	return out
}

func withText(base *gen.Request, v dialect.Value) *gen.Request {
	r := *base
	s := v.String()
	r.Prompt = &s
	return &r
}

func withIDs(base *gen.Request, v dialect.Value) *gen.Request {
	r := *base
	r.PromptIDs = v.IDs()
	if len(r.PromptIDs) == 0 {
		v.Fail(fault.Invalid, "invalid_value", "%s must not be an empty array", v.Path())
	}
	return &r
}
