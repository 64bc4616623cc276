package gen

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"tinyloop/internal/fault"
	"tinyloop/internal/sample"
	"tinyloop/internal/tok"
)

// Limits of one request that hold whatever the model.
const (
	maxChoices    = 128
	maxStops      = 16
	maxStopIDs    = 256
	maxStopBytes  = 4096
	maxTop        = 20
	minWindow     = 16
	defaultSinks  = 4
	maxRepeatLast = 1 << 20
)

// plan is a checked request: every value effective, nothing left to refuse but the length.
type plan struct {
	choices int // sampled
	keep    int // reported: the best ones when fewer than choices
	depth
	window   int
	sinks    int
	stops    []tok.ID
	params   sample.Params
	form     form
	logprobs bool
	timeout  time.Duration
	warnings []string
}

// check refuses what no engine should see. It looks at every field, reads no clock and takes no memory that grows with the request's numbers.
func (g *Generator) check(r *Request) (*plan, error) {
	p := &plan{logprobs: r.Logprobs}
	for _, f := range []func(*Request, *plan) error{g.checkInput, g.checkChoices, checkStops, g.checkDepth, g.checkCache, g.checkSampling, g.checkBias, g.checkForm, g.checkTimeout} {
		if err := f(r, p); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (g *Generator) checkInput(r *Request, _ *plan) error {
	given := 0
	for _, set := range []bool{r.Messages != nil, r.Prompt != nil, r.PromptIDs != nil} {
		if set {
			given++
		}
	}
	switch {
	case given == 0:
		return fault.New(fault.Invalid, "prompt", "messages or prompt is missing")
	case given > 1:
		return fault.New(fault.Invalid, "prompt", "messages and prompt exclude each other")
	case r.Messages != nil:
		return g.checkMessages(r)
	case r.Prompt != nil:
		return nil
	}
	if len(r.PromptIDs) == 0 {
		return fault.New(fault.Invalid, "prompt", "prompt must not be an empty list")
	}
	return g.checkIDs("prompt", r.PromptIDs)
}

func (g *Generator) checkMessages(r *Request) error {
	if len(r.Messages) == 0 {
		return fault.New(fault.Invalid, "messages", "messages must not be empty")
	}
	for i := range r.Messages {
		switch r.Messages[i].Role {
		case "system", "user", "assistant", "tool":
		default:
			return fault.New(fault.Invalid, fmt.Sprintf("messages[%d].role", i), "messages[%d].role must be system, user, assistant or tool, got %q", i, fault.Clip(r.Messages[i].Role, 40))
		}
		if f := fmt.Sprintf("messages[%d].tool_calls", i); len(r.Messages[i].ToolCalls) > 0 && !g.tmpl.ShowsCalls() {
			return fault.New(fault.Unsupported, f, "%s is not supported by this model: its chat template does not write calls", f)
		}
	}
	return nil
}

func (g *Generator) checkIDs(field string, ids []tok.ID) error {
	size := g.tok.Size()
	for i, id := range ids {
		if id < 0 || int(id) >= size {
			f := fmt.Sprintf("%s[%d]", field, i)
			return fault.New(fault.Invalid, f, "%s must be a token id from 0 to %d, got %d", f, size-1, id)
		}
	}
	return nil
}

func (g *Generator) checkChoices(r *Request, p *plan) error {
	n := r.N
	if n == 0 {
		n = 1
	}
	if n < 1 || n > maxChoices {
		return between("n", 1, maxChoices, r.N)
	}
	best := r.BestOf
	if best == 0 {
		best = n
	}
	if best < n || best > maxChoices {
		return fault.New(fault.Invalid, "best_of", "best_of must be between n = %d and %d, got %d", n, maxChoices, r.BestOf)
	}
	if r.MaxTokens != nil && *r.MaxTokens < -1 {
		return fault.New(fault.Invalid, "max_tokens", "max_tokens must be at least 0, or -1 for no limit, got %d", *r.MaxTokens)
	}
	if r.MinTokens < 0 {
		return fault.New(fault.Invalid, "min_tokens", "min_tokens must be at least 0, got %d", r.MinTokens)
	}
	if r.MaxTokens != nil && *r.MaxTokens >= 0 && r.MinTokens > *r.MaxTokens {
		return fault.New(fault.Invalid, "min_tokens", "min_tokens must be at most max_tokens = %d, got %d", *r.MaxTokens, r.MinTokens)
	}
	p.keep, p.choices = n, best
	return nil
}

func checkStops(r *Request, _ *plan) error {
	if len(r.Stop) > maxStops {
		return fault.New(fault.Invalid, "stop", "stop may hold at most %d strings, got %d", maxStops, len(r.Stop))
	}
	if len(r.StopIDs) > maxStopIDs {
		return fault.New(fault.Invalid, "stop_ids", "stop_ids may hold at most %d ids, got %d", maxStopIDs, len(r.StopIDs))
	}
	for i, s := range r.Stop {
		f := fmt.Sprintf("stop[%d]", i)
		switch {
		case s == "":
			return fault.New(fault.Invalid, f, "%s must not be empty", f)
		case len(s) > maxStopBytes:
			return fault.New(fault.Invalid, f, "%s may have at most %d bytes, got %d", f, maxStopBytes, len(s))
		case !utf8.ValidString(s):
			return fault.New(fault.Invalid, f, "%s must be valid UTF-8", f)
		}
	}
	return nil
}

// effort maps a reasoning effort to loops, at most as many as the server allows.
//
//	none, minimal     the fewest trained
//	low               half the default, rounded up, but no fewer than trained
//	medium, absent    the default
//	high, xhigh, max  the most trained
func (g *Generator) effort(name string) (int, error) {
	l := g.info.Loops
	n := l.Default
	switch name {
	case "none", "minimal":
		n = l.TrainedMin
	case "low":
		n = max((l.Default+1)/2, l.TrainedMin)
	case "medium", "":
	case "high", "xhigh", "max":
		n = l.TrainedMax
	default:
		return 0, fault.New(fault.Invalid, "effort", "effort must be none, minimal, low, medium, high, xhigh or max, got %q", fault.Clip(name, 40))
	}
	return max(1, min(n, l.HardMax)), nil
}

func (g *Generator) checkCache(r *Request, p *plan) error {
	p.sinks = defaultSinks
	if r.CacheSinks != nil {
		if p.sinks = *r.CacheSinks; p.sinks < 0 || p.sinks > g.info.Context {
			return between("cache_sinks", 0, g.info.Context, p.sinks)
		}
	}
	if r.CacheWindow == nil {
		p.sinks = 0
		return nil
	}
	if p.window = *r.CacheWindow; p.window < minWindow {
		return fault.New(fault.Invalid, "cache_window", "cache_window must be at least %d, got %d", minWindow, p.window)
	}
	if p.window >= g.info.Context { // nothing is ever outside it
		p.window, p.sinks = 0, 0
	}
	return nil
}

func (g *Generator) checkSampling(r *Request, p *plan) error {
	s := &p.params
	ranges := []struct {
		field  string
		v      *float64
		lo, hi float64
		absent float64
		to     *float32
	}{
		{"temperature", r.Temperature, 0, 2, 1, &s.Temperature},
		{"top_p", r.TopP, 0, 1, 1, &s.TopP},
		{"min_p", r.MinP, 0, 1, 0, &s.MinP},
		{"presence", r.Presence, -2, 2, 0, &s.Presence},
		{"frequency", r.Frequency, -2, 2, 0, &s.Frequency},
		{"repeat", r.Repeat, math.SmallestNonzeroFloat32, 100, 1, &s.Repeat},
	}
	for _, c := range ranges {
		v := c.absent
		if c.v != nil {
			v = *c.v
		}
		if !(v >= c.lo && v <= c.hi) { // NaN fails every comparison, so it lands here too
			return outside(c.field, c.lo, c.hi, v)
		}
		*c.to = float32(v)
	}
	if s.TopP == 0 { // the smallest nucleus is the most probable token
		s.Temperature, s.TopP = 0, 1
	}
	if r.TopK != nil {
		if *r.TopK < 0 {
			return fault.New(fault.Invalid, "top_k", "top_k must be at least 0, got %d", *r.TopK)
		}
		s.TopK = min(*r.TopK, g.tok.Size())
	}
	if r.RepeatLast != nil {
		if *r.RepeatLast < -1 || *r.RepeatLast > maxRepeatLast {
			return between("repeat_last", -1, maxRepeatLast, *r.RepeatLast)
		}
		s.RepeatLast = *r.RepeatLast
		if s.RepeatLast == 0 { // "no window" asks for no penalty; the sampler's own 0 means its default
			s.Repeat = 1
		}
	}
	if r.TopLogprobs < 0 || r.TopLogprobs > maxTop {
		return between("top_logprobs", 0, maxTop, r.TopLogprobs)
	}
	if r.TopLogprobs > 0 && !r.Logprobs {
		return fault.New(fault.Invalid, "top_logprobs", "top_logprobs needs logprobs to be true, got %d", r.TopLogprobs)
	}
	s.Logprobs = r.Logprobs || p.choices > p.keep // the best are told by their log-probability
	s.Top = r.TopLogprobs
	s.Seed = seed(r.Seed)
	return nil
}

// seed gives the request's seed, or one that no other request will have.
func seed(given *uint64) uint64 {
	if given != nil {
		return *given
	}
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

func (g *Generator) checkBias(r *Request, p *plan) error {
	banned := 0
	for _, id := range slices.Sorted(maps.Keys(r.LogitBias)) { // in order, so that of several mistakes the same one is always told
		v := r.LogitBias[id]
		f := fmt.Sprintf("logit_bias.%d", id)
		if id < 0 || int(id) >= g.tok.Size() {
			return fault.New(fault.Invalid, f, "%s: the token ids of this model are 0 to %d", f, g.tok.Size()-1)
		}
		if !(v >= -100 && v <= 100) {
			return outside(f, -100, 100, v)
		}
		if v <= float64(sample.Ban) {
			banned++
		}
		p.params.Bias = append(p.params.Bias, sample.Bias{ID: id, Value: float32(v)})
	}
	if banned == g.tok.Size() {
		return fault.New(fault.Invalid, "logit_bias", "logit_bias bans all %d tokens: at least one must be left to say", banned)
	}
	return g.checkIDs("stop_ids", r.StopIDs)
}

func (g *Generator) checkTimeout(r *Request, p *plan) error {
	if r.Timeout < 0 {
		return fault.New(fault.Invalid, "timeout", "timeout must not be negative, got %v", r.Timeout)
	}
	p.timeout = r.Timeout
	if p.timeout == 0 {
		p.timeout = g.lim.DefaultTimeout
	}
	if m := g.lim.MaxTimeout; m > 0 && (p.timeout == 0 || p.timeout > m) {
		if r.Timeout > m {
			p.warnings = append(p.warnings, fmt.Sprintf("timeout %v is cut to %v", r.Timeout, m))
		}
		p.timeout = m
	}
	return nil
}

// stopIDs lists the ids that end an answer: the model's own unless they are ignored, and the request's. A start token ends one too: what comes after
// it is another document (models that were trained without an end token, as llama2.c's, say nothing else at the end of a text).
func (g *Generator) stopIDs(r *Request) []tok.ID {
	ids := slices.Clone(r.StopIDs)
	if !r.IgnoreEOS {
		ids = append(ids, g.tok.Stops()...)
		if start := g.tok.BOS(); start >= 0 && !slices.Contains(ids, start) {
			ids = append(ids, start)
		}
	}
	return ids
}

func between(field string, lo, hi, got int) *fault.Error {
	return fault.New(fault.Invalid, field, "%s must be between %d and %d, got %d", field, lo, hi, got)
}

func outside(field string, lo, hi, got float64) *fault.Error {
	if field == "repeat" {
		return fault.New(fault.Invalid, field, "repeat must be above 0 and at most %g, got %g", hi, got)
	}
	return fault.New(fault.Invalid, field, "%s must be between %g and %g, got %g", field, lo, hi, got)
}
