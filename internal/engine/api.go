// Package engine is the one decoding loop. One goroutine owns the model: it alone touches KV pages, scheduler and scratch. Others hand it a
// Request and a Sink. It never waits for a client, never touches a socket, and knows nothing of text, JSON or HTTP.
package engine

import (
	"time"

	"tinyloop/internal/model"
	"tinyloop/internal/sample"
)

// Mode is how tokens are scheduled over rows and turns. With Verify Replay it never changes which tokens come out.
type Mode uint8

const (
	// Autoregressive: one row a choice in flight, one token after Loops turns.
	Autoregressive Mode = iota
	// Speculative: up to DraftAhead tokens are guessed from readouts at DraftLoops, then their rows run on to Loops in one batch.
	Speculative
	// TreeSpeculative is Speculative with Branches guesses for the first position, each with a chain of its own behind it.
	TreeSpeculative
	// Wavefront: the rows of a choice lie on a diagonal, the youngest at a shallow loop, the oldest at a deep one; every turn advances all, and
	// whenever the oldest reaches Loops its token is checked and a new one is guessed from the youngest.
	Wavefront
	// Auto takes the one of these, or none, that the measured cost of a turn and the share of right guesses make fastest.
	Auto
)

// Verify is how a guessed token is judged against the distribution at full depth.
type Verify uint8

const (
	// Replay draws the target's token with the random number of its position, as Autoregressive does, and keeps the guess if it is the same.
	Replay Verify = iota
	// Rejection keeps a guess with probability min(1, p/q) and else draws from what is left of p (Leviathan et al., arXiv 2211.17192; Chen et al.,
	// arXiv 2302.01318): the tokens have the target's distribution, but which ones come out depends on the mode.
	Rejection
	// Typical keeps a guess whose probability is at least Accept times that of the most probable token. It changes the distribution.
	Typical
)

// Bounds and defaults of drafting.
const (
	MaxAhead      = 16 // guessed tokens in flight a branch
	MaxBranches   = 8
	MaxTree       = 32 // guessed tokens in flight over all branches
	DefaultAhead  = 4
	DefaultAccept = 0.3

	DefaultBranches = 2 // of TreeSpeculative
)

// KV is how the loops of decoded positions share their K/V. A prompt is always computed with K/V of its own for every loop, which are then reduced.
// All but KVPerLoop are lossy: they change the tokens, by little where the model tolerates it, and take less memory.
type KV uint8

const (
	KVPerLoop KV = iota
	KVLast       // a row sees the last loop of earlier positions
	KVMean       // a row sees the mean over the loops of earlier positions
	KVMod        // loop t sees the last loop of earlier positions that is t modulo Residues
)

// Request is one prompt with everything that decides its answer. The engine only reads it; the caller must not change it until the last Finish.
type Request struct {
	ID     string // for logs only
	Prompt []int32
	// MaxTokens is the most tokens to sample per choice; the caller has already clamped it to the window. 0 = prompt only.
	MaxTokens      int
	Choices        int     // n: forks after one prefill, 1..; 0 means 1
	Loops          int     // core passes, 1..HardMax; 0 = the model's default
	Window, Sinks  int     // cache_window; 0 = everything
	Stop           []int32 // ids that end a choice (end of text, end of turn); sampled, reported through Token, then Finish(Stop)
	IgnoreStop     bool
	MinTokens      int // Stop ids are banned before that many tokens
	Sampling       sample.Params
	Constraints    []Constraint // one a choice; nil = none
	PromptLogprobs bool         // call PromptToken for every prompt token
	ByLoop         bool         // tell the sink, which must be a LoopSink, how each loop rates the tokens; with Mode Autoregressive only
	NoCache        bool         // neither use nor fill the prefix cache
	Mode           Mode
	DraftLoops     int       // passes before a row is read out for a guess, 1..Loops-1; 0 = by Config.Agreement, else a quarter of Loops, rounded up
	DraftAhead     int       // most guessed tokens in flight a branch, 1..MaxAhead; 0 = DefaultAhead. Bounds the rows of a Wavefront
	Branches       int       // of TreeSpeculative, 1..MaxBranches; 0 = 2
	Verify         Verify    // not with Autoregressive
	Accept         float32   // of Typical, in (0, 1]; 0 = DefaultAccept
	Exit           Exit      // early exit of decoded positions
	Lens           bool      // show every prompt position after every loop to the sink, which must be a LensSink; not with a Mode or Exit
	KV             KV        // sharing of K/V between loops
	Residues       int       // of KVMod: how many loops keep K/V of their own, 1..Loops
	Deadline       time.Time // zero = none; passing it ends every choice with Finish(Timeout)
	Priority       int       // reserved
}

// Constraint narrows the tokens of one choice: a grammar. It is asked on the engine's goroutine, wherever a token of the choice is drawn or
// guessed, so it holds in every mode and never depends on the schedule.
type Constraint interface {
	// Mask gives the ids that may follow output, the choice's tokens up to now, guesses included: bit id%64 of word id/64, at least one of them; nil
	// = all. The words are the constraint's own and good until the next call.
	Mask(output []int32) []uint64
}

// Why is the reason a choice ended.
type Why uint8

const (
	Stop     Why = iota // a stop id was sampled
	StopSink            // the sink said so (a stop string)
	Length              // MaxTokens reached
	Window              // the model's window is full
	Cancel              // the context ended
	Timeout             // the deadline passed
	Fail                // a bug or shutdown; Stats.Err says more
)

// Sink receives a request's tokens. Every method is called on the engine's goroutine and must return at once: no blocking, no I/O.
// For each choice: any number of Token, then exactly one Finish. After the Finish of the last choice the engine holds no reference to the request.
type Sink interface {
	// Started is called once when the request leaves the queue for the first time.
	Started()
	// PromptToken reports the log-probability of Prompt[i]; for i = 0 there is none (c.Logprob is 0, c.Top nil). Only with PromptLogprobs.
	PromptToken(i int, c sample.Choice)
	// Token reports one sampled token of a choice; more = false ends that choice with StopSink. c.Top is valid only during the call.
	Token(choice int, c sample.Choice) (more bool)
	Finish(choice int, why Why, st Stats)
}

// LensSink is a Sink that also sees what each position would say after each loop. With a coda, a readout on the way sees the coda's K/V of the
// latest readouts of earlier positions.
type LensSink interface {
	Sink
	// Lens is called for every position of the prompt and every loop from 1 on, in ascending loop for each position. logits are valid only during the call.
	Lens(pos, loop int, logits []float32, m model.Motion)
}

// LoopSink is a Sink that also learns how probable each sampled token was after each pass.
type LoopSink interface {
	Sink
	// Loops is called before Token with the log-probability of the same token after every pass that was made, the last as in Token. The slice is
	// valid only during the call. With a coda, a readout on the way sees the coda's K/V of the positions before as they stayed.
	Loops(choice int, logprobs []float32)
}

// Stats is what a choice cost. Times are measured by the engine's clock.
type Stats struct {
	PromptTokens, CachedTokens, Tokens int
	Loops                              int // depth that was run
	Turns                              int // turns this choice's rows took part in
	Rows                               int // rows of this choice over all those turns
	Mode                               Mode
	DraftLoops, DraftAhead, Branches   int     // in effect; 0 with Autoregressive
	Drafted, Judged, Accepted          int     // guessed tokens whose rows ran; positions at which guesses were judged; those at which one was right
	Rounds                             int     // times a sequence of guesses began
	Histogram                          []int32 // with Exit: tokens by the passes behind them, [Loops+1]
	Queued, Prefill, Decode            time.Duration
	Preempted                          int
	Pages                              int   // most KV pages that were held, at the end of the prompt or of the answer; those shared with others included
	Err                                error // with Fail
}
