package gen

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"tinyloop/internal/chat"
	"tinyloop/internal/engine"
	"tinyloop/internal/fault"
	"tinyloop/internal/tok"
)

// Every refusal names the field, the limit and the value, and nothing reaches the engine.
func TestRefusals(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	allBanned := map[tok.ID]float64{}
	for id := range tok.ID(259) {
		allBanned[id] = -100
	}
	user := []chat.Message{{Role: "user", Content: "hi"}}
	many := make([]string, 17)
	for i := range many {
		many[i] = "x"
	}
	for _, c := range []struct {
		field string
		r     Request
		in    string
	}{
		{"temperature", Request{Temperature: ptr(2.1)}, "temperature must be between 0 and 2, got 2.1"},
		{"temperature", Request{Temperature: ptr(-0.1)}, "-0.1"},
		{"temperature", Request{Temperature: &nan}, "NaN"},
		{"temperature", Request{Temperature: &inf}, "+Inf"},
		{"top_p", Request{TopP: ptr(-0.5)}, "top_p must be between 0 and 1, got -0.5"},
		{"top_p", Request{TopP: ptr(2.0)}, "got 2"},
		{"top_k", Request{TopK: ptr(-1)}, "top_k must be at least 0, got -1"},
		{"min_p", Request{MinP: ptr(1.5)}, "got 1.5"},
		{"presence", Request{Presence: ptr(2.5)}, "between -2 and 2"},
		{"frequency", Request{Frequency: ptr(-2.5)}, "between -2 and 2"},
		{"repeat", Request{Repeat: ptr(0.0)}, "above 0"},
		{"repeat", Request{Repeat: ptr(-1.0)}, "got -1"},
		{"repeat_last", Request{RepeatLast: ptr(-2)}, "got -2"},
		{"n", Request{N: 129}, "between 1 and 128, got 129"},
		{"n", Request{N: -1}, "got -1"},
		{"best_of", Request{N: 3, BestOf: 2}, "got 2"},
		{"best_of", Request{BestOf: 129}, "128"},
		{"top_logprobs", Request{Logprobs: true, TopLogprobs: 21}, "between 0 and 20, got 21"},
		{"top_logprobs", Request{TopLogprobs: 2}, "logprobs"},
		{"top_logprobs", Request{Logprobs: true, TopLogprobs: -1}, "got -1"},
		{"stop[0]", Request{Stop: []string{""}}, "stop[0] must not be empty"},
		{"stop[1]", Request{Stop: []string{"a", ""}}, "stop[1]"},
		{"stop[0]", Request{Stop: []string{"\xff"}}, "UTF-8"},
		{"stop[0]", Request{Stop: []string{strings.Repeat("x", 5000)}}, "5000"},
		{"stop", Request{Stop: many}, "at most 16 strings, got 17"},
		{"stop_ids[1]", Request{StopIDs: []tok.ID{1, 1 << 20}}, "1048576"},
		{"logit_bias", Request{LogitBias: allBanned}, "bans all 259 tokens"},
		{"logit_bias.-1", Request{LogitBias: map[tok.ID]float64{-1: 1}}, "-1"},
		{"logit_bias.259", Request{LogitBias: map[tok.ID]float64{259: 1}}, "are 0 to 258"},
		{"logit_bias.5", Request{LogitBias: map[tok.ID]float64{5: 101}}, "between -100 and 100, got 101"},
		{"logit_bias.5", Request{LogitBias: map[tok.ID]float64{5: nan}}, "NaN"},
		{"max_tokens", Request{MaxTokens: ptr(-2)}, "got -2"},
		{"min_tokens", Request{MinTokens: -1}, "got -1"},
		{"min_tokens", Request{MinTokens: 5, MaxTokens: ptr(4)}, "at most max_tokens = 4, got 5"},
		{"loops", Request{Loops: ptr(0)}, "between 1 and 8, got 0"},
		{"loops", Request{Loops: ptr(9)}, "between 1 and 8, got 9"},
		{"effort", Request{Effort: "huge"}, "huge"},
		{"cache_window", Request{CacheWindow: ptr(15)}, "at least 16, got 15"},
		{"cache_sinks", Request{CacheSinks: ptr(-1)}, "got -1"},
		{"timeout", Request{Timeout: -time.Second}, "-1s"},
		{"mode", Request{Mode: "sideways"}, "sideways"},
		{"verify_loops", Request{VerifyLoops: ptr(9)}, "between 1 and 8, got 9"},
		{"draft_loops", Request{Mode: "wavefront", DraftLoops: ptr(4)}, "between 1 and 3, got 4"},
		{"draft_loops", Request{Mode: "wavefront", DraftLoops: ptr(0)}, "between 1 and 3, got 0"},
		{"draft_ahead", Request{Mode: "speculative", DraftAhead: ptr(17)}, "between 1 and 16, got 17"},
		{"K_branches", Request{Mode: "tree_speculative", Branches: ptr(0)}, "between 1 and 8, got 0"},
		{"draft_ahead", Request{DraftAhead: ptr(17)}, "between 1 and 16, got 17"},
		{"draft_loops", Request{DraftLoops: ptr(9)}, "between 1 and 7, got 9"},
		{"K_branches", Request{Mode: "wavefront", Branches: ptr(-1)}, "between 1 and 8, got -1"},
		{"exit.rule", Request{Exit: &Exit{Rule: "luck"}}, "one of none, gate, latent, accel, kl, entropy, argmax"},
		{"exit.threshold", Request{Exit: &Exit{Rule: "latent", Threshold: &nan}}, "above 0 and at most 3.4e+38, got NaN"},
		{"exit.threshold", Request{Exit: &Exit{Rule: "kl", Threshold: &inf}}, "+Inf"},
		{"exit.threshold", Request{Exit: &Exit{Rule: "gate", Threshold: ptr(1.01)}}, "at most 1, got 1.01"},
		{"exit.threshold", Request{Exit: &Exit{Rule: "gate", Threshold: &nan}}, "NaN"},
		{"exit.threshold", Request{Exit: &Exit{Rule: "argmax", Threshold: ptr(0.9)}}, "passes, 1 to 3.4e+38, got 0.9"},
		{"exit.threshold", Request{Exit: &Exit{Rule: "accel", Threshold: ptr(0.0)}}, "above 0 and at most 3.4e+38, got 0"},
		{"exit.min_loops", Request{Exit: &Exit{Rule: "kl", MinLoops: ptr(5)}}, "between 1 and 4, got 5"},
		{"exit.min_loops", Request{Exit: &Exit{Rule: "kl", MinLoops: ptr(0)}}, "between 1 and 4, got 0"},
		{"exit.kv", Request{Exit: &Exit{Rule: "kl", KV: "lost"}}, "complete, deepest"},
		{"kv_mode", Request{KVMode: "mod:-1"}, "mod:-1"},
		{"kv_mode", Request{KVMode: "mod:99999999999"}, "mod:99999999999"},
		{"verify", Request{Mode: "speculative", Verify: "hope"}, "one of replay, rejection, typical"},
		{"accept_threshold", Request{Mode: "speculative", Accept: ptr(0.0)}, "above 0"},
		{"prompt[1]", Request{PromptIDs: []tok.ID{1, -1}}, "from 0 to 258, got -1"},
		{"prompt[0]", Request{PromptIDs: []tok.ID{259}}, "got 259"},
		{"prompt", Request{PromptIDs: []tok.ID{}}, "empty"},
		{"prompt", Request{Messages: user, Prompt: ptr("x")}, "exclude"},
		{"messages", Request{Messages: []chat.Message{}}, "empty"},
		{"messages[1].role", Request{Messages: append(user, chat.Message{Role: "owner"})}, "owner"},
	} {
		t.Run(fmt.Sprintf("%s %s", c.field, c.in), func(t *testing.T) {
			g, e := says(t)
			r := c.r
			if r.Messages == nil && r.PromptIDs == nil && r.Prompt == nil {
				r.Prompt = ptr("hi")
			}
			_, err := g.Generate(t.Context(), &r)
			kind := fault.Invalid
			if c.field == "mode" {
				kind = fault.Unsupported
			}
			wantFault(t, err, kind, c.field, c.in)
			if e.got != nil {
				t.Error("the engine saw the request")
			}
		})
	}
	g, _ := says(t)
	_, err := g.Generate(t.Context(), &Request{})
	wantFault(t, err, fault.Invalid, "prompt", "missing")
	_, err = g.Generate(t.Context(), &Request{Prompt: ptr("x"), Mode: "tree"})
	if fault.As(err).Code != "unsupported_parameter" {
		t.Errorf("code %q", fault.As(err).Code)
	}
}

// What is legal arrives at the engine as it should.
func TestEffective(t *testing.T) {
	for _, c := range []struct {
		name string
		r    Request
		ok   func(e *script) bool
	}{
		{"defaults", Request{}, func(e *script) bool {
			p := e.got.Sampling
			return p.Temperature == 1 && p.TopP == 1 && e.got.Loops == 4 && e.got.Window == 0 && e.got.Choices == 1
		}},
		{"top_p 0 is greedy", Request{TopP: ptr(0.0), Temperature: ptr(1.0)}, func(e *script) bool { return e.got.Sampling.Temperature == 0 }},
		{"effort none", Request{Effort: "none"}, func(e *script) bool { return e.got.Loops == 1 }},
		{"effort minimal", Request{Effort: "minimal"}, func(e *script) bool { return e.got.Loops == 1 }},
		{"effort low", Request{Effort: "low"}, func(e *script) bool { return e.got.Loops == 2 }},
		{"effort medium", Request{Effort: "medium"}, func(e *script) bool { return e.got.Loops == 4 }},
		{"effort max", Request{Effort: "max"}, func(e *script) bool { return e.got.Loops == 6 }},
		{"mod:k of as many as there are loops", Request{KVMode: "mod:4"}, func(e *script) bool { return e.got.KV == engine.KVPerLoop }},
		{"kv_mode at one loop", Request{KVMode: "last", Loops: ptr(1), Mode: "wavefront"}, func(e *script) bool { return e.got.KV == engine.KVPerLoop && e.got.Mode == engine.Autoregressive }},
		{"kv_mode", Request{KVMode: "mod:3"}, func(e *script) bool { return e.got.KV == engine.KVMod && e.got.Residues == 3 }},
		{"verify where nothing is guessed", Request{Verify: "typical"}, func(e *script) bool { return e.got.Verify == engine.Replay }},
		{"branches of no tree", Request{Mode: "speculative", Branches: ptr(3)}, func(e *script) bool { return e.got.Branches == 0 }},
		{"loops win over effort", Request{Effort: "max", Loops: ptr(3)}, func(e *script) bool { return e.got.Loops == 3 }},
		{"window", Request{CacheWindow: ptr(64)}, func(e *script) bool { return e.got.Window == 64 && e.got.Sinks == 4 }},
		{"window as long as the context", Request{CacheWindow: ptr(512)}, func(e *script) bool { return e.got.Window == 0 && e.got.Sinks == 0 }},
		{"sinks", Request{CacheWindow: ptr(64), CacheSinks: ptr(0)}, func(e *script) bool { return e.got.Window == 64 && e.got.Sinks == 0 }},
		{"-1 is until the end", Request{MaxTokens: ptr(-1)}, func(e *script) bool { return e.got.MaxTokens == 512-2 }},
		{"absent is until the end", Request{}, func(e *script) bool { return e.got.MaxTokens == 512-2 }},
		{"none at all", Request{MaxTokens: ptr(0)}, func(e *script) bool { return e.got.MaxTokens == 0 }},
		{"the seed", Request{Seed: ptr(uint64(math.MaxUint64))}, func(e *script) bool { return e.got.Sampling.Seed == math.MaxUint64 }},
		{"ends of the tokenizer", Request{}, func(e *script) bool { return fmt.Sprint(e.got.Stop) == "[0 2]" && !e.got.IgnoreStop }},
		{"more ends", Request{StopIDs: []tok.ID{9}}, func(e *script) bool { return fmt.Sprint(e.got.Stop) == "[9 0 2]" }},
		{"ignore_eos", Request{IgnoreEOS: true}, func(e *script) bool { return len(e.got.Stop) == 0 && e.got.IgnoreStop }},
		{"ignore_eos with others", Request{IgnoreEOS: true, StopIDs: []tok.ID{9}}, func(e *script) bool { return fmt.Sprint(e.got.Stop) == "[9]" && !e.got.IgnoreStop }},
		{"bias in order", Request{LogitBias: map[tok.ID]float64{7: 1, 3: -100, 5: 2}}, func(e *script) bool { return fmt.Sprint(e.got.Sampling.Bias) == "[{3 -100} {5 2} {7 1}]" }},
		{"repeat_last 0 is no penalty", Request{Repeat: ptr(1.3), RepeatLast: ptr(0)}, func(e *script) bool { return e.got.Sampling.Repeat == 1 }},
		{"n", Request{N: 3}, func(e *script) bool { return e.got.Choices == 3 }},
		{"best_of", Request{N: 2, BestOf: 4}, func(e *script) bool { return e.got.Choices == 4 && e.got.Sampling.Logprobs }},
		{"no cache", Request{NoCache: true}, func(e *script) bool { return e.got.NoCache }},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, e := says(t, "<|im_end|>")
			r := c.r
			r.Prompt = ptr("hi")
			events(t, g, &r)
			if !c.ok(e) {
				t.Errorf("the engine got %+v", *e.got)
			}
		})
	}
}

// haystack 1269: without a seed every request has its own, and says which.
func TestSeeds(t *testing.T) {
	g, _ := says(t, "<|im_end|>")
	seen := map[uint64]bool{}
	for range 20 {
		s, err := g.Generate(t.Context(), hi())
		if err != nil {
			t.Fatal(err)
		}
		es := drain(t, s)
		if es[len(es)-1].Stats.Seed != s.Seed() || seen[s.Seed()] {
			t.Fatalf("seed %d comes twice, or is not the one reported", s.Seed())
		}
		seen[s.Seed()] = true
	}
}

func TestNoLoop(t *testing.T) {
	g, _ := says(t, "<|im_end|>")
	g.info.Loops.Default, g.info.Loops.TrainedMin, g.info.Loops.TrainedMax, g.info.Loops.HardMax = 1, 1, 1, 1
	_, err := g.Generate(t.Context(), &Request{Prompt: ptr("x"), Loops: ptr(2)})
	wantFault(t, err, fault.Invalid, "loops", "no loop", "got 2")
	for _, effort := range []string{"", "none", "low", "max"} {
		r := &Request{Prompt: ptr("x"), Loops: ptr(1), Effort: effort}
		if es := events(t, g, r); es[len(es)-1].Stats.Loops != 1 {
			t.Errorf("effort %q: %d loops", effort, es[len(es)-1].Stats.Loops)
		}
	}
}

func TestWarnings(t *testing.T) {
	g, _ := says(t, "<|im_end|>")
	g.lim.MaxTimeout = time.Minute
	es := events(t, g, &Request{Prompt: ptr("x"), Loops: ptr(7), Timeout: time.Hour})
	w := es[len(es)-1].Stats.Warnings
	if len(w) != 2 || !strings.Contains(w[0], "loops = 7 is above the 6") || !strings.Contains(w[1], "1h0m0s is cut to 1m0s") {
		t.Errorf("warnings %q", w)
	}
}

// TestDepthWarnings: whatever leads to a depth outside the trained range, the reply says so; effort never leads beyond what the server allows.
func TestDepthWarnings(t *testing.T) {
	for _, c := range []struct {
		loops [5]int // default, trained min, mean, max, hard max
		r     Request
		want  int
		says  string
	}{
		{[5]int{4, 2, 4, 6, 8}, Request{Loops: ptr(7)}, 7, "loops = 7 is above the 6"},
		{[5]int{4, 2, 4, 6, 8}, Request{VerifyLoops: ptr(8)}, 8, "verify_loops = 8 is above the 6"},
		{[5]int{4, 2, 4, 6, 8}, Request{Loops: ptr(1)}, 1, "loops = 1 is below the 2"},
		{[5]int{4, 1, 1, 1, 8}, Request{}, 4, "loops = 4 is above the 1"},
		{[5]int{2, 2, 2, 2, 8}, Request{Effort: "low"}, 2, ""},
		{[5]int{2, 2, 2, 2, 8}, Request{Effort: "minimal"}, 2, ""},
		{[5]int{2, 1, 4, 8, 2}, Request{Effort: "high"}, 2, ""},
		{[5]int{4, 1, 4, 8, 16}, Request{Effort: "high"}, 8, ""},
		{[5]int{4, 1, 4, 8, 16}, Request{Exit: &Exit{Threshold: ptr(0.5)}}, 4, "exit names no rule"},
		{[5]int{4, 1, 4, 8, 16}, Request{Exit: &Exit{Rule: "none", MinLoops: ptr(2)}}, 4, "exit names no rule"},
		{[5]int{4, 1, 4, 8, 16}, Request{Exit: &Exit{KV: "deepest"}}, 4, "exit names no rule"},
		{[5]int{4, 1, 4, 8, 16}, Request{Exit: &Exit{Rule: "none"}}, 4, ""},
	} {
		g, e := says(t, "<|im_end|>")
		l := &g.info.Loops
		l.Default, l.TrainedMin, l.TrainedMean, l.TrainedMax, l.HardMax = c.loops[0], c.loops[1], c.loops[2], c.loops[3], c.loops[4]
		c.r.Prompt = ptr("x")
		es := events(t, g, &c.r)
		w := strings.Join(es[len(es)-1].Stats.Warnings, "; ")
		if e.got.Loops != c.want || !strings.Contains(w, c.says) || (c.says == "") != (w == "") {
			t.Errorf("%+v: %d loops, warnings %q", c, e.got.Loops, w)
		}
	}
}
