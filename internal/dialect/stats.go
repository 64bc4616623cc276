package dialect

import (
	"cmp"
	"math"
	"strconv"
	"time"

	"tinyloop/internal/gen"
)

// StopReason is why a choice ended, in LM Studio's words. Unlike OpenAI's "length" it tells the token budget and the window apart.
func StopReason(e *gen.Event) string {
	switch e.Finish {
	case gen.FinishCalls:
		return "toolCalls"
	case gen.FinishStop:
		if e.Stats.StopString != "" {
			return "stopStringFound"
		}
		return "eosFound"
	case gen.FinishLength:
		return "maxPredictedTokensReached"
	case gen.FinishWindow:
		return "contextLengthReached"
	case gen.FinishTimeout:
		return "timeout"
	case gen.FinishCancel:
		return "userStopped"
	}
	return "failed"
}

// FinishReason is why a choice ended, in OpenAI's words. A deadline that cut the answer is a length for clients that know only these.
func FinishReason(f gen.Finish) string {
	switch f {
	case gen.FinishStop:
		return "stop"
	case gen.FinishCalls:
		return "tool_calls"
	}
	return "length"
}

// AppendStats appends the stats object of a finished choice: what it cost and the effective values it ran with. Times are milliseconds.
func AppendStats(dst []byte, e *gen.Event, p *Prompt) []byte {
	return append(AppendOpenStats(dst, e, p), '}')
}

// AppendOpenStats is AppendStats without the closing brace, for dialects that add names of their own.
func AppendOpenStats(dst []byte, e *gen.Event, p *Prompt) []byte {
	st := &e.Stats
	dst = append(dst, `{"prompt_tokens":`...)
	dst = AppendInt(dst, st.PromptTokens)
	dst = append(dst, `,"cached_prompt_tokens":`...)
	dst = AppendInt(dst, st.CachedTokens)
	dst = append(dst, `,"completion_tokens":`...)
	dst = AppendInt(dst, st.CompletionTokens)
	dst = append(dst, `,"max_tokens":`...)
	dst = AppendInt(dst, p.MaxTokens)
	dst = append(dst, `,"mode":`...)
	dst = AppendString(dst, cmp.Or(st.Mode, "autoregressive"))
	dst = append(dst, `,"loops":`...)
	dst = AppendInt(dst, st.Loops)
	dst = append(dst, `,"mean_loops":`...)
	dst = AppendFloat(dst, math.Round(1000*st.MeanLoops)/1000)
	dst = append(dst, `,"core_calls":`...)
	dst = AppendInt(dst, st.Turns)
	dst = append(dst, `,"rows_per_call":`...)
	dst = AppendFloat(dst, ratio(st.Rows, st.Turns))
	dst = append(dst, `,"kv_mode":`...)
	dst = AppendString(dst, cmp.Or(st.KVMode, "per_loop"))
	if st.KVBytes > 0 {
		dst = append(dst, `,"kv_bytes":`...)
		dst = strconv.AppendInt(dst, st.KVBytes, 10)
	}
	if st.Histogram != nil {
		dst = append(dst, `,"loop_histogram":[`...)
		for i, n := range st.Histogram[1:] {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendInt(dst, int(n))
		}
		dst = append(dst, ']')
	}
	dst = appendDraft(dst, st)
	dst = append(dst, `,"seed":`...)
	dst = strconv.AppendUint(dst, st.Seed, 10)
	dst = append(dst, `,"stop_reason":`...)
	dst = AppendString(dst, StopReason(e))
	dst = append(dst, `,"queued_ms":`...)
	dst = AppendMillis(dst, st.Queued)
	dst = append(dst, `,"ttft_ms":`...)
	dst = AppendMillis(dst, st.TTFT)
	dst = append(dst, `,"prefill_ms":`...)
	dst = AppendMillis(dst, st.Prefill)
	dst = append(dst, `,"decode_ms":`...)
	dst = AppendMillis(dst, st.Decode)
	dst = append(dst, `,"wall_ms":`...)
	dst = AppendMillis(dst, st.Wall)
	dst = append(dst, `,"tokens_per_second":`...)
	dst = AppendRate(dst, st.TokensPerSecond)
	warnings := st.Warnings
	if len(warnings) == 0 {
		warnings = p.Warnings
	}
	return AppendStrings(append(dst, `,"warnings":`...), warnings)
}

// appendDraft appends what guessing has cost and brought, if there was any.
func appendDraft(dst []byte, st *gen.Stats) []byte {
	d := &st.Draft
	if st.Chosen != "" {
		dst = append(dst, `,"chosen_mode":`...)
		dst = AppendString(dst, st.Chosen)
	}
	if d.DraftLoops == 0 && d.Drafted == 0 {
		return dst
	}
	for _, f := range [...]struct {
		name string
		v    int
	}{{"draft_loops", d.DraftLoops}, {"verify_loops", st.Loops}, {"draft_ahead", d.Ahead}, {"K_branches", d.Branches}, {"drafted", d.Drafted}, {"accepted", d.Accepted}, {"rounds", d.Rounds}} {
		dst = append(append(append(dst, `,"`...), f.name...), `":`...)
		dst = AppendInt(dst, f.v)
	}
	dst = append(dst, `,"acceptance_rate":`...)
	dst = AppendFloat(dst, ratio(d.Accepted, d.Judged))
	dst = append(dst, `,"mean_accepted_len":`...)
	dst = AppendFloat(dst, ratio(d.Accepted, d.Rounds))
	dst = append(dst, `,"verify":`...)
	return AppendString(dst, d.Verify)
}

// ratio is a/b to three decimals, 0 for b = 0.
func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return math.Round(1000*float64(a)/float64(b)) / 1000
}

// AppendStrings appends a JSON array of strings.
func AppendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, w := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, w)
	}
	return append(dst, ']')
}

// Millis is d in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// AppendMillis appends d in milliseconds with one decimal.
func AppendMillis(dst []byte, d time.Duration) []byte { return AppendTenths(dst, Millis(d)) }

// AppendRate appends a rate with one decimal, null when it is unknown.
func AppendRate(dst []byte, x float64) []byte {
	if x <= 0 {
		return append(dst, "null"...)
	}
	return AppendTenths(dst, x)
}
