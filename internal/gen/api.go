// Package gen is the text side of generation: template, tokenise, check, stop strings, detokenise. gen.Request in, gen.Event out: the one neutral
// language between the dialects and the engine. A whole answer is a fold over the events of the stream, so the two can never differ.
package gen

import (
	"time"

	"tinyloop/internal/chat"
	"tinyloop/internal/tok"
)

// Request is what a dialect asks for. Exactly one of Messages, Prompt, PromptIDs is set. Field names in errors are the names of the Go
// fields in snake case (max_tokens, top_p, stop[1], messages[0].role, prompt[3], loops, cache_window, …); a dialect whose name differs renames them.
//
// Sampling fields that are nil take the defaults of the field: temperature 1, everything else off. top_p = 0 means greedy.
type Request struct {
	ID        string
	Messages  []chat.Message
	Prompt    *string // "" = from the start token
	PromptIDs []tok.ID

	Tools    []Tool // functions that the model may call; with Messages only
	ToolUse  ToolUse
	Callable []string // the tools that may be called; nil = all
	OneCall  bool     // at most one call
	Format   *Format  // nil = text

	MaxTokens          *int // nil or -1 = until the end or the window; over the room = fault.TooLong when explicit
	Loops              *int
	Effort             string // reasoning_effort, used only when Loops is nil: none, minimal, low, medium, high, xhigh, max
	CacheWindow        *int
	CacheSinks         *int // default 4
	N                  int  // 0 = 1; 1..128
	BestOf             int
	Stop               []string // at most 16, none empty
	StopIDs            []tok.ID
	IgnoreEOS          bool
	MinTokens          int
	Seed               *uint64 // nil = random; the effective one is reported
	Temperature        *float64
	TopK               *int
	TopP, MinP         *float64
	Repeat             *float64
	RepeatLast         *int
	Presence           *float64
	Frequency          *float64
	LogitBias          map[tok.ID]float64
	Logprobs           bool
	TopLogprobs        int
	LogprobsByLoop     bool     // with Logprobs: how every loop rates the tokens
	Echo               bool     // emit the prompt text (and its logprobs when asked) before the answer
	VerifyLoops        *int     // another name for Loops, which it wins over
	Mode               string   // "" or autoregressive, speculative, tree_speculative, wavefront, auto; see engine.Mode
	DraftLoops         *int     // passes before a token is guessed, less than the loops; nil = by the calibration, else a quarter of them
	DraftAhead         *int     // guesses in flight a branch, 1..16; nil = 4
	Branches           *int     // K_branches of tree_speculative, 1..8; nil = 2
	Verify             string   // "" or replay, rejection, typical
	Accept             *float64 // accept_threshold of typical, in (0, 1]
	Exit               *Exit    // nil = every position makes all passes
	KVMode             string   // \"\" = the server's; per_loop, last, mean, mod:k
	Timeout            time.Duration
	FitWindow          bool // drop whole oldest turns (never the system message, never the last) until the conversation fits
	NoGenerationPrompt bool
	NoCache            bool

	// Ready, of one slot, gets a value whenever there may be something for Stream.Take, so that one reader can wait for several streams; nil = the stream has its own,
	// for Stream.Next.
	Ready chan struct{}
}

// Kind tells events apart.
type Kind uint8

const (
	// Delta is one sampled token of a choice, with the text it released ("" while a character or a possible stop string is held back). The
	// id that ends a choice has no Delta: it is counted, and named by Stats.StopID.
	Delta  Kind = iota
	Flush       // text released at the end without a token
	Prompt      // echo: one prompt token; choices after the first get the whole prompt in one event of its own
	Done        // the choice ended
)

// Logprob is one token with the distribution around it, as the model gave it.
type Logprob struct {
	ID      tok.ID
	Text    string // lossy
	Bytes   []byte // what the token added to the text; without the space that a tokenizer takes away at the start of a text
	At      int    // code points of the text in front of it, an echoed prompt included; a token that begins within a character has that character's
	Logprob float32
	First   bool // first prompt token: no logprob (null)
	Top     []Logprob
	ByLoop  []float32 // with LogprobsByLoop: of the same token after each pass that was made, the last as Logprob
}

// Event is one step of one choice. Slices and strings belong to the receiver.
type Event struct {
	Kind     Kind
	Choice   int
	Index    int    // token index within the choice (Delta, Prompt)
	ID       tok.ID // sampled token, -1 for Flush and Done
	Text     string
	Calls    []Call        // parts of calls; they come after Text
	Gap      time.Duration // Delta: since the choice's token before; 0 for the first
	Logprobs []Logprob     // entries whose text this event releases (none for tokens wholly cut by a stop string)
	Finish   Finish        // Done only
	Err      error         // Done with FinishError: a *fault.Error
	Stats    Stats         // Done only
}

// Finish is why a choice ended.
type Finish uint8

const (
	FinishStop   Finish = iota // a stop id or stop string, or what was asked for is complete
	FinishLength               // MaxTokens
	FinishWindow               // the window is full (dialects say "length", stats say which)
	FinishTimeout
	FinishCancel
	FinishError
	FinishCalls // as FinishStop, and the answer calls functions, none of which a stop string has cut
)

// Stats goes with Done. Times are wall times since the request came in.
type Stats struct {
	PromptTokens, CachedTokens, CompletionTokens int // completion counts every sampled token, the ending one included
	Loops                                        int
	MeanLoops                                    float64
	Turns, Rows                                  int    // passes through the core that the choice took part in, and its rows in them
	Chosen                                       string // mode that auto ended with, "" otherwise
	Draft                                        Draft
	Histogram                                    []int32 // with Exit: tokens by the passes behind them; entry i is i passes
	KVMode                                       string
	KVBytes                                      int64  // most memory that its keys and values took, at the end of the prompt or of the answer
	StopString                                   string // the stop string that matched
	StopID                                       tok.ID // the stop token, -1 otherwise
	Seed                                         uint64
	Queued, TTFT, Prefill, Decode, Wall          time.Duration
	TokensPerSecond                              float64 // tokens after the first / time after the first; 0 when unknown
	Warnings                                     []string
	Mode                                         string
}

// Answer is one finished choice: the fold of its events.
type Answer struct {
	Text           string // with Echo, the prompt's text comes first
	Calls          []Call // whole
	IDs            []tok.ID
	Logprobs       []Logprob
	PromptLogprobs []Logprob
	Finish         Finish
	Stats          Stats
}

// Limits are the operator's bounds on every request of one generator.
type Limits struct {
	MaxSeqLen      int           // 0 = the model's window
	KVMode         string        // of requests that name none; "" = per_loop
	DefaultTimeout time.Duration // used when a request names none; 0 = no deadline
	MaxTimeout     time.Duration // longer wishes are cut to it, with a warning; 0 = no bound
}

// Info describes a loaded model.
type Info struct {
	Name, Path, Family, Quant string
	Params                    int64 // unique
	UnrolledParams            int64 // at the default loops
	Bytes                     int64 // weights in memory
	Vocab, Context            int   // Context is the effective window (min of model and configuration)
	TrainedContext            int
	Loops                     struct{ Default, TrainedMin, TrainedMean, TrainedMax, HardMax int }
	Chat                      bool // made for conversations: the file has a template that can be used, or the vocabulary has ChatML's control tokens
	Created                   time.Time
	License, Hash             string
	KVBytesPerToken           int64 // at default loops
	KVType                    string
}
