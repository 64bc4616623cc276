package dialect

import (
	"strconv"
	"time"

	"tinyloop/internal/gen"
)

// StopReason is why a choice ended, in LM Studio's words. Unlike OpenAI's "length" it tells the token budget and the window apart.
func StopReason(e *gen.Event) string {
	switch e.Finish {
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
	if f == gen.FinishStop {
		return "stop"
	}
	return "length"
}

// AppendStats appends the stats object of a finished choice: what it cost and the effective values it ran with. Times are milliseconds.
func AppendStats(dst []byte, e *gen.Event, p *Prompt) []byte {
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
	dst = AppendString(dst, mode(st.Mode))
	dst = append(dst, `,"loops":`...)
	dst = AppendInt(dst, st.Loops)
	dst = append(dst, `,"mean_loops":`...)
	dst = AppendFloat(dst, st.MeanLoops)
	dst = append(dst, `,"core_calls":`...)
	dst = AppendInt(dst, st.Turns)
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
	dst = append(dst, `,"warnings":`...)
	return append(appendWarnings(dst, st.Warnings, p.Warnings), '}')
}

func mode(m string) string {
	if m == "" {
		return "autoregressive"
	}
	return m
}

// appendWarnings appends those of the choice, or of the request where the choice has none.
func appendWarnings(dst []byte, own, request []string) []byte {
	if len(own) == 0 {
		own = request
	}
	dst = append(dst, '[')
	for i, w := range own {
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
