// Package sample turns logits into a token: bias and penalties, mask, temperature, top_k, top_p, min_p, then one draw with a
// counter-based random number f(seed, choice, output position). It never reads a clock or shared state, so a request's tokens do not depend on
// its neighbours.
package sample

import "math"

// Params are the sampling parameters of one choice. The zero value is greedy.
type Params struct {
	Temperature float32 // 0 = greedy, ties to the lowest id
	TopK        int     // 0 = off
	TopP        float32 // 0 or >= 1 = off
	MinP        float32 // 0 = off
	Repeat      float32 // multiplicative repetition penalty over prompt and output; 0 or 1 = off
	RepeatLast  int     // window of Repeat in tokens: 0 = 64, -1 = everything
	Presence    float32 // additive, over generated tokens
	Frequency   float32 // additive per occurrence, over generated tokens
	Bias        []Bias  // added to the logits; -100 or less bans, sorted by ID
	// Mask, where it is not nil, holds a bit for every id that may be drawn: bit id%64 of Mask[id/64]. It allows at least one id.
	Mask     []uint64
	Seed     uint64
	Logprobs bool // fill Choice.Logprob
	Top      int  // how many alternatives to report in Choice.Top, 0..20; needs Logprobs
}

type Bias struct {
	ID    int32
	Value float32
}

// Alt is one alternative with its log-probability under the model's own distribution.
type Alt struct {
	ID      int32
	Logprob float32
}

// Choice is one sampled token.
type Choice struct {
	ID      int32
	Logprob float32 // of the model's distribution before bias, penalties, mask and temperature; floor LogprobFloor
	Top     []Alt   // most probable first; owned by the Sampler, valid until the next Pick
}

// LogprobFloor stands for the logarithm of zero, which JSON cannot carry.
const LogprobFloor = float32(-9999)

// Uniform is the random number in [0,1) of an output position: a pure function, the same in every mode, batch and schedule.
func Uniform(seed uint64, choice, position int) float64 {
	x := seed ^ mix(uint64(choice)+0x9e3779b97f4a7c15) ^ mix(mix(uint64(position)+0xd1b54a32d192ed03))
	return float64(mix(mix(x))>>11) / (1 << 53)
}

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func clampLogprob(x float64) float32 {
	if math.IsNaN(x) || x < float64(LogprobFloor) {
		return LogprobFloor
	}
	return float32(x)
}
