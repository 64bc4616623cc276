// Package native speaks TinyLoop's own routes: /generate and its stream, /tokenize and /detokenize (the shapes of llama.cpp's server).
package native

import (
	"net/http"

	"tinyloop/internal/dialect"
	"tinyloop/internal/fault"
	"tinyloop/internal/gen"
)

// New gives the dialect.
func New() *dialect.Dialect {
	post := func(path string, f func(*dialect.Call) (*dialect.Job, error)) dialect.Route {
		return dialect.Route{Method: http.MethodPost, Path: path, Decode: f}
	}
	return &dialect.Dialect{
		Name: "native", Status: dialect.Status, Error: appendError,
		Routes: []dialect.Route{
			post("/generate", func(c *dialect.Call) (*dialect.Job, error) { return decode(c, false, "") }),
			post("/generate/stream", func(c *dialect.Call) (*dialect.Job, error) { return decode(c, true, "") }),
			post("/generate/speculative", func(c *dialect.Call) (*dialect.Job, error) { return decode(c, false, "speculative") }),
			post("/generate/tree_speculative", func(c *dialect.Call) (*dialect.Job, error) { return decode(c, false, "tree_speculative") }),
			{Method: http.MethodPost, Path: "/lens", Answer: lens},
			{Method: http.MethodPost, Path: "/tokenize", Answer: tokenize},
			{Method: http.MethodPost, Path: "/detokenize", Answer: detokenize},
		},
	}
}

func appendError(dst []byte, c *dialect.Call, status int, err error) []byte {
	return dialect.AppendBothErrors(dst, c, err)
}

// decode reads the body of POST /generate. A route of one decoding mode has its name.
func decode(c *dialect.Call, stream bool, mode string) (*dialect.Job, error) {
	o, err := dialect.ParseObject(c.Body)
	if err != nil {
		return nil, err
	}
	r := &gen.Request{ID: c.ID}
	rename := dialect.Sampling(o, r)
	if mode != "" {
		if r.Mode != "" && r.Mode != mode {
			o.Get("mode").Fail(fault.Invalid, "invalid_value", "mode must be %q on this route, or absent; /generate takes every mode", mode)
		}
		r.Mode = mode
	}
	prompt(o.Need("prompt"), r)
	r.MaxTokens = o.Int("max_tokens")
	r.Echo = o.Flag("echo", false)
	r.StopIDs = stopIDs(o)
	logprobs(o, r)
	e := &encoder{stream: o.Flag("stream", stream), ids: o.Flag("return_tokens", false), logprobs: r.Logprobs, id: c.ID}
	j := &dialect.Job{Model: o.Str("model"), Stream: e.stream, Encoder: e, Rename: rename}
	o.Unsupported("messages", "grammar", "json_schema", "response_format", "tools", "functions", "tool_choice", "function_call", "suffix",
		"typical_p", "post_sampling_probs", "best_of")
	o.Done()
	e.choices = max(r.N, 1)
	j.Requests = []*gen.Request{r}
	c.Ignored = o.Ignored()
	return j, o.Err()
}

// prompt reads a text or an array of token ids, which goes past the tokenizer.
func prompt(v dialect.Value, r *gen.Request) {
	switch {
	case !v.Present():
	case v.IsString():
		s := v.String()
		r.Prompt = &s
	case v.IsArray():
		r.PromptIDs = v.IDs()
	default:
		v.Fail(fault.Invalid, "invalid_type", "prompt must be a string or an array of token ids")
	}
}

func stopIDs(o *dialect.Object) []int32 {
	if v := o.Get("stop_ids"); v.Present() {
		return v.IDs()
	}
	return nil
}

// logprobs takes both forms: true with top_logprobs, or the number of alternatives.
func logprobs(o *dialect.Object, r *gen.Request) {
	if n := o.Int("top_logprobs"); n != nil {
		r.TopLogprobs = *n
	}
	v := o.Get("logprobs")
	switch {
	case !v.Present():
	case v.IsNumber():
		r.Logprobs, r.TopLogprobs = true, v.Int()
	default:
		r.Logprobs = v.Bool()
	}
}
