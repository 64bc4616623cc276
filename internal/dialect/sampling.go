package dialect

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"tinyloop/internal/fault"
	"tinyloop/internal/gen"
	"tinyloop/internal/tok"
)

// MaxStop is how many stop strings a request may carry.
const MaxStop = 16

// names maps gen's field names to the names on the wire, where they differ, for errors that gen finds.
var names = map[string]string{
	"repeat": "repeat_penalty", "repeat_last": "repeat_last_n", "presence": "presence_penalty", "frequency": "frequency_penalty",
	"effort": "reasoning_effort", "timeout": "timeout_ms", "prompt_ids": "prompt",
}

// Sampling reads the fields that every generation route of ours shares: those of OpenAI and TinyLoop's own, the latter at top level and
// inside an object "tinyloop", where they win. It gives the names to report errors under.
func Sampling(o *Object, r *gen.Request) map[string]string {
	rename := maps.Clone(names)
	common(o, r)
	own(o, r)
	if v := o.Get("tinyloop"); v.Present() {
		t := v.Object()
		own(t, r)
		t.Unsupported("messages", "tools", "functions", "tool_choice", "function_call", "response_format", "grammar", "json_schema", "suffix", "best_of",
			"typical_p", "post_sampling_probs")
		nest(rename, t)
		t.Done()
	}
	return rename
}

// nest makes the names that stand inside t be reported with their full path.
func nest(rename map[string]string, t *Object) {
	for i := range t.members {
		key := t.members[i].key
		rename[key] = t.join(key)
		for field, wire := range names {
			if wire == key {
				rename[field] = t.join(key)
			}
		}
	}
}

// common reads what OpenAI defines alike on its routes.
func common(o *Object, r *gen.Request) {
	r.Temperature = o.Float("temperature")
	r.TopP = o.Float("top_p")
	r.Presence = o.Float("presence_penalty")
	r.Frequency = o.Float("frequency_penalty")
	r.Stop = stops(o.Get("stop"))
	r.LogitBias = bias(o.Get("logit_bias"))
	if n := o.Int("n"); n != nil {
		r.N = *n
		if *n < 1 {
			o.Get("n").Fail(fault.Invalid, "invalid_value", "n must be at least 1, got %d", *n)
		}
	}
}

// own reads the fields of TinyLoop and of llama.cpp. Absent ones keep what r has.
func own(o *Object, r *gen.Request) {
	keep(&r.Loops, o.Int("loops"))
	keep(&r.CacheWindow, o.Int("cache_window"))
	keep(&r.CacheSinks, o.Int("cache_sinks"))
	keep(&r.TopK, o.Int("top_k"))
	keep(&r.MinP, o.Float("min_p"))
	keep(&r.Repeat, o.Float("repeat_penalty"))
	keep(&r.RepeatLast, o.Int("repeat_last_n"))
	keep(&r.Seed, o.Seed("seed"))
	if s := o.Str("reasoning_effort"); s != "" {
		r.Effort = s
	}
	if n := o.Int("min_tokens"); n != nil {
		r.MinTokens = *n
	}
	r.IgnoreEOS = o.Flag("ignore_eos", r.IgnoreEOS)
	r.NoCache = !o.Flag("cache_prompt", !r.NoCache)
	keep(&r.VerifyLoops, o.Int("verify_loops"))
	keep(&r.DraftLoops, o.Int("draft_loops"))
	keep(&r.DraftAhead, o.Int("draft_ahead"))
	keep(&r.Branches, o.Int("K_branches"))
	keep(&r.Accept, o.Float("accept_threshold"))
	r.LogprobsByLoop = o.Flag("logprobs_by_loop", r.LogprobsByLoop)
	if s := o.Str("kv_mode"); s != "" {
		r.KVMode = s
	}
	r.Exit = exit(o.Get("exit"), r.Exit)
	if s := o.Str("mode"); s != "" {
		r.Mode = s
	}
	if s := o.Str("verify"); s != "" {
		r.Verify = s
	}
	if ms := o.Int("timeout_ms"); ms != nil {
		r.Timeout = timeout(o.Get("timeout_ms"), *ms)
	}
}

// AppendByLoop appends how every loop rates a token, as a list.
func AppendByLoop(dst []byte, l *gen.Logprob) []byte {
	dst = append(dst, '[')
	for i, v := range l.ByLoop {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendFloat32(dst, v)
	}
	return append(dst, ']')
}

// exit reads the object of early exits; null and false are none.
func exit(v Value, was *gen.Exit) *gen.Exit {
	if !v.Present() || v.raw[0] == 'f' {
		return was
	}
	o := v.Object()
	x := &gen.Exit{Rule: o.Str("rule"), Threshold: o.Float("threshold"), MinLoops: o.Int("min_loops"), KV: o.Str("kv")}
	o.Done()
	return x
}

func keep[T any](dst **T, v *T) {
	if v != nil {
		*dst = v
	}
}

func timeout(v Value, ms int) time.Duration {
	const most = 24 * 60 * 60 * 1000
	if ms < 1 || ms > most {
		v.Fail(fault.Invalid, "invalid_value", "%s must be between 1 and %d, got %d", v.Path(), most, ms)
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// stops reads one stop string or a list of them. An empty one is refused by gen, which names it.
func stops(v Value) []string {
	switch {
	case !v.Present():
		return nil
	case v.IsString():
		return []string{v.String()}
	case v.IsArray():
		return v.Strings(MaxStop)
	}
	v.Fail(fault.Invalid, "invalid_type", "%s must be a string or an array of strings, got %s", v.Path(), v.kind())
	return nil
}

// bias reads an object from token ids, written as decimal strings, to numbers. An id has one spelling, so that no two names mean the same token.
func bias(v Value) map[tok.ID]float64 {
	if !v.Present() {
		return nil
	}
	out := map[tok.ID]float64{}
	v.Object().Pairs(func(name string, e Value) {
		id, err := strconv.ParseInt(name, 10, 32)
		if err != nil || strconv.FormatInt(id, 10) != name {
			e.Fail(fault.Invalid, "invalid_value", "the names of logit_bias must be token ids, as in \"5\", got %.32q", name)
			return
		}
		out[tok.ID(id)] = e.Float()
	})
	return out
}

// Rename gives err with the field, the field's name at the start of its message, and other fields that the message names, as the caller wrote them.
func Rename(err error, to map[string]string) error {
	e := fault.As(err)
	if e.Field == "" {
		return err
	}
	end := strings.IndexAny(e.Field, ".[")
	if end < 0 {
		end = len(e.Field)
	}
	c := *e
	if name, ok := to[e.Field[:end]]; ok {
		c = *moved(e, name+e.Field[end:])
	}
	if c.Msg = mentions(c.Msg, to); c.Field == e.Field && c.Msg == e.Msg {
		return err
	}
	return &c
}

// mentions renames the fields within a message that cannot be ordinary words: those with an underscore, and not behind the dot of a path.
func mentions(msg string, to map[string]string) string {
	inName := func(r rune) bool { return r == '_' || r == '.' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
	var b strings.Builder
	for len(msg) > 0 {
		n := strings.IndexFunc(msg, func(r rune) bool { return !inName(r) })
		if n < 0 {
			n = len(msg)
		}
		word := msg[:n]
		if name, ok := to[word]; ok && strings.Contains(word, "_") {
			word = name
		}
		b.WriteString(word)
		rest := strings.IndexFunc(msg[n:], inName)
		if rest < 0 {
			rest = len(msg) - n
		}
		b.WriteString(msg[n : n+rest])
		msg = msg[n+rest:]
	}
	return b.String()
}

// moved is e about another field, named at the start of its message as well.
func moved(e *fault.Error, field string) *fault.Error {
	c := *e
	c.Field = field
	if rest, ok := strings.CutPrefix(e.Msg, e.Field); ok {
		c.Msg = c.Field + rest
	}
	return &c
}

// Element gives err, about the prompt of a request, as one about element i of a list of prompts.
func Element(err error, i int) error {
	e := fault.As(err)
	rest, ok := strings.CutPrefix(e.Field, "prompt")
	if !ok || rest != "" && rest[0] != '[' {
		return err
	}
	return moved(e, fmt.Sprintf("prompt[%d]%s", i, rest))
}
