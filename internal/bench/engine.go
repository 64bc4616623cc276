package bench

import (
	"context"
	"runtime"
	"slices"
	"time"

	"tinyloop/internal/engine"
	"tinyloop/internal/fault"
	"tinyloop/internal/sample"
)

// engineRows lists the rows through the engine: those of the bare model without long contexts, so that the cost of everything around the model shows.
func (b *bed) engineRows(e *engine.Engine, o *Options) []*series {
	var out []*series
	for _, n := range b.prefills {
		n = min(n, b.m.Spec.Context-1) // one place for the token that ends the measurement
		out = append(out, &series{Rate: Rate{Work: Prefill, N: n, Via: Engine}, sample: func(ctx context.Context, _ *series) (float64, error) {
			g, err := b.submit(ctx, e, 1, n, 0)
			if err != nil {
				return 0, err
			}
			return float64(n) / g.at[0][0].Sub(g.begin).Seconds(), nil
		}})
	}
	if slices.Contains(b.contexts, 0) {
		out = append(out, b.engineDecode(e, Decode, 0, 1, 1, o.Tokens))
	}
	for _, n := range b.streams {
		out = append(out, b.engineDecode(e, Streams, n, n, streamPrompt, o.Tokens))
	}
	return out
}

// engineDecode is the rate of requests of a prompt each, while all of them decode.
func (b *bed) engineDecode(e *engine.Engine, work string, n, requests, prompt, tokens int) *series {
	return &series{Rate: Rate{Work: work, N: n, Via: Engine}, sample: func(ctx context.Context, s *series) (float64, error) {
		g, err := b.submit(ctx, e, requests, prompt, tokens)
		if err != nil {
			return 0, err
		}
		gaps := g.gaps()
		if len(gaps) == 0 {
			return 0, fault.New(fault.Invalid, "streams", "the %d streams never decoded at the same time within a context of %d", requests, b.m.Spec.Context)
		}
		s.allocs = append(s.allocs, float64(g.allocs)/float64(requests*tokens))
		return s.steps(requests, gaps), nil
	}}
}

// group is what came of requests that ran together.
type group struct {
	begin  time.Time
	at     [][]time.Time // [request] when each token came
	allocs uint64        // of the process from the first token of the last request on
}

// gaps gives the times in ms between tokens of the request that began to decode last, as long as all of them decode: each is one step of the engine.
func (g *group) gaps() []float64 {
	last, end := g.at[0], g.at[0][len(g.at[0])-1]
	for _, at := range g.at {
		if at[0].After(last[0]) {
			last = at
		}
		if t := at[len(at)-1]; t.Before(end) {
			end = t
		}
	}
	var out []float64
	for i := 1; i < len(last) && !last[i].After(end); i++ {
		out = append(out, ms(last[i].Sub(last[i-1])))
	}
	return out
}

// submit runs requests of equal prompts until each has given tokens more since the last of them gave its first. Those that began sooner go on as long as the
// context lets them, since a prompt of many takes longer than few tokens.
func (b *bed) submit(ctx context.Context, e *engine.Engine, requests, prompt, tokens int) (*group, error) {
	ids := make([]int32, prompt)
	for i := range ids {
		ids[i] = token(i, b.m.Spec.Vocab)
	}
	g := &group{begin: time.Now(), at: make([][]time.Time, requests)}
	ends, all := make(chan error, requests), make(chan struct{})
	sinks := make([]sink, requests)
	waiting := requests // of the engine's goroutine: requests without a token yet
	var before, after runtime.MemStats
	for i := range sinks {
		most := min(b.m.Spec.Context-prompt, streamTokens(requests, tokens))
		sinks[i] = sink{at: make([]time.Time, 0, most), ends: ends, all: all, waiting: &waiting, before: &before, left: tokens}
		r := &engine.Request{Prompt: ids, MaxTokens: most, Loops: b.loops, IgnoreStop: true}
		if err := e.Submit(ctx, r, &sinks[i]); err != nil {
			close(all)
			return nil, err
		}
	}
	close(all)
	for range requests {
		if err := <-ends; err != nil {
			return nil, err
		}
	}
	runtime.ReadMemStats(&after)
	g.allocs = after.Mallocs - before.Mallocs
	for i := range sinks {
		g.at[i] = sinks[i].at
	}
	return g, nil
}

// sink notes when tokens come.
type sink struct {
	at      []time.Time
	ends    chan<- error
	all     <-chan struct{} // closed when every request has been submitted
	waiting *int
	before  *runtime.MemStats
	left    int // tokens to come once nobody waits
}

// Started keeps the engine until all requests are there: on a busy machine the first would otherwise be through before the last has come.
func (s *sink) Started() { <-s.all }

func (s *sink) PromptToken(int, sample.Choice) {}

// Token takes the time after the counts, which stop the world: a first token that is late makes the window of the rate shorter, not longer.
func (s *sink) Token(int, sample.Choice) bool {
	if len(s.at) == 0 {
		if *s.waiting--; *s.waiting == 0 {
			runtime.ReadMemStats(s.before)
		}
	}
	s.at = append(s.at, time.Now())
	if *s.waiting > 0 {
		return true
	}
	s.left--
	return s.left >= 0
}

func (s *sink) Finish(_ int, why engine.Why, st engine.Stats) {
	switch {
	case st.Err != nil:
		s.ends <- st.Err
	case why == engine.Cancel:
		s.ends <- canceled()
	default:
		s.ends <- nil
	}
}
