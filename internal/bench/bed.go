package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tinyloop/internal/engine"
	"tinyloop/internal/fault"
	"tinyloop/internal/machine"
	"tinyloop/internal/model"
)

const (
	streamPrompt = 128 // positions of each stream before its first decoded token
	maxRows      = 512 // rows of one call: a prompt of the usual length in one piece
)

// bed is a loaded model with sequences to run on it.
type bed struct {
	m                  *model.Model
	s                  *model.Scratch
	loops              int
	contexts, prefills []int
	streams            []int
	lanes              []lane
	rows               []model.Row
	filled             int // positions of lane 0 that hold K/V
}

// lane is one sequence: its page tables, one a slot, and how many positions they hold.
type lane struct {
	pages [][]int32
	limit int
}

// newBed makes room for the longest row of every kind. What the window does not hold goes to skipped.
func newBed(m *model.Model, o *Options, threads, loops int, skipped *[]string) (*bed, error) {
	b := &bed{m: m, loops: loops}
	window := m.Spec.Context
	for _, c := range o.Context {
		if c+o.Tokens+1 > window {
			skip(skipped, fmt.Sprintf("decode after %d tokens: the window is %d", c, window))
			continue
		}
		b.contexts = append(b.contexts, c)
	}
	for _, n := range o.Prefill {
		b.prefills = append(b.prefills, min(n, window))
	}
	for _, n := range o.Streams {
		if n > 1 {
			b.streams = append(b.streams, n)
		}
	}
	if len(b.streams) > 0 && streamPrompt+o.Tokens+2 > window {
		skip(skipped, fmt.Sprintf("streams of %d tokens: the window is %d", streamPrompt+o.Tokens, window))
		b.streams = nil
	}
	return b, b.allocate(o, threads)
}

func skip(list *[]string, what string) {
	if !slices.Contains(*list, what) {
		*list = append(*list, what)
	}
}

// allocate takes KV pages for lane 0, which runs the longest row, and for the streams beside it.
func (b *bed) allocate(o *Options, threads int) error {
	sp := &b.m.Spec
	count := 1
	longest := 1
	for _, c := range b.contexts {
		longest = max(longest, c+o.Tokens+1)
	}
	for _, n := range b.prefills {
		longest = max(longest, n+1)
	}
	for _, n := range b.streams {
		count, longest = max(count, n), max(longest, streamPrompt+streamTokens(n, o.Tokens)+1)
	}
	longest = min(longest, sp.Context)
	var pages int32
	for i := range count {
		limit := longest
		if i > 0 {
			limit = min(streamPrompt+streamTokens(count, o.Tokens)+1, sp.Context)
		}
		b.lanes = append(b.lanes, newLane(sp.Slots(b.loops), limit, &pages))
	}
	if need := int64(pages) * sp.PageBytes(o.KVType); need > machine.Available()/10*9 {
		return fault.New(fault.Limited, "streams", "keys and values of these rows need %d MiB, but only %d MiB of memory are free: ask for shorter contexts or fewer streams", need>>20, machine.Available()>>20)
	}
	rows := max(count, 64, min(maxRows, longest))
	var err error
	b.s, err = b.m.NewScratch(model.Options{Threads: threads, KVType: o.KVType, Pages: int(pages), MaxRows: rows, MaxLoops: b.loops})
	b.rows = make([]model.Row, 0, rows)
	return err
}

// streamTokens gives the most tokens of each of n streams of which all are to decode so many together: the first of them goes on while the engine takes the prompts of the others,
// which takes it some 40 positions a step.
func streamTokens(n, tokens int) int { return tokens + 1 + (n-1)*streamPrompt/32 }

func newLane(slots, limit int, pages *int32) lane {
	l := lane{limit: limit}
	for range slots {
		table := make([]int32, (limit+model.PagePositions-1)/model.PagePositions)
		for i := range table {
			table[i] = *pages
			*pages++
		}
		l.pages = append(l.pages, table)
	}
	return l
}

func (b *bed) close() { b.s.Close() }

// push runs the rows that were collected through the whole model.
func (b *bed) push() {
	b.s.Enter(b.rows)
	for range b.loops {
		b.s.Turn(b.rows)
	}
	b.s.Leave(b.rows)
	b.rows = b.rows[:0]
}

func (b *bed) row(l *lane, pos int, want bool) {
	b.rows = append(b.rows, model.Row{Token: token(pos, b.m.Spec.Vocab), Pos: int32(pos), Depth: int32(b.loops), State: int32(len(b.rows)), Pages: l.pages, Want: want})
}

// token is the prompt: which ids it holds does not matter to the work, only that they are not all the same row.
func token(i, vocab int) int32 { return int32((i*7919 + 13) % vocab) }

// fill runs positions [from, to) of a lane, with logits for the last.
func (b *bed) fill(ctx context.Context, l *lane, from, to int) error {
	for pos := from; pos < to; pos++ {
		b.row(l, pos, pos == to-1)
		if len(b.rows) == cap(b.rows) || pos == to-1 {
			if ctx.Err() != nil {
				return canceled()
			}
			b.push()
		}
	}
	return nil
}

func canceled() error { return fault.New(fault.Canceled, "", "interrupted") }

// prefill gives the tokens per second of a prompt of n tokens. The first one of a process meets memory that nobody has touched yet, and does not count.
func (b *bed) prefill(ctx context.Context, n int) (float64, error) {
	if b.filled < n {
		if err := b.fill(ctx, &b.lanes[0], 0, n); err != nil {
			return 0, err
		}
	}
	begin := time.Now()
	err := b.fill(ctx, &b.lanes[0], 0, n)
	b.filled = max(b.filled, n)
	return float64(n) / time.Since(begin).Seconds(), err
}

// decode runs steps of n sequences together, each from its first from positions on, and notes how long each step took. The rate is that of the median step: on
// a machine with other work the mean is mostly theirs.
func (b *bed) decode(ctx context.Context, s *series, n, from, tokens int) (float64, error) {
	b.step(n, from) // wakes the workers and brings the weights to where they are read from
	steps := make([]float64, tokens)
	for i := range steps {
		if ctx.Err() != nil {
			return 0, canceled()
		}
		begin := time.Now()
		b.step(n, from+1+i)
		steps[i] = ms(time.Since(begin))
	}
	return s.steps(n, steps), nil
}

func (b *bed) step(n, pos int) {
	for i := range n {
		b.row(&b.lanes[i], pos, true)
	}
	b.push()
}

// series is a row of the result while it is measured.
type series struct {
	Rate
	gaps   []float64 // ms of every step of n tokens, all rounds
	allocs []float64
	sample func(ctx context.Context, s *series) (float64, error)
}

// steps takes the times in ms of steps of n tokens, and gives the rate of the median one.
func (s *series) steps(n int, times []float64) float64 {
	s.gaps = append(s.gaps, times...)
	return 1000 * float64(n) / quantile(times, 0.5)
}

// rates measures every row o.Rounds times, in turn.
func (b *bed) rates(ctx context.Context, o *Options, run *Run) error {
	for i, part := range [][]*series{b.single(o), b.together(o)} {
		if err := measure(ctx, o, part); err != nil {
			return err
		}
		run.add(part)
		if i == 0 {
			run.Peak = peakRSS() // before the streams, whose K/V are not those of one user
		}
	}
	if o.NoEngine {
		return nil
	}
	e := engine.New(b.s, engine.Config{NoPrefixCache: true, MaxSeqs: len(b.lanes)})
	defer e.Close()
	part := b.engineRows(e, o)
	if err := measure(ctx, o, part); err != nil {
		return err
	}
	run.add(part)
	return nil
}

func (run *Run) add(part []*series) {
	for _, s := range part {
		s.TokensPerSecond = spread(s.Samples)
		s.Best = s.TokensPerSecond.Max
		if len(s.gaps) > 0 {
			s.GapMedian, s.GapP99 = quantile(s.gaps, 0.5), quantile(s.gaps, 0.99)
			s.Best = s.TokensPerSecond.Median * s.GapMedian / quantile(s.gaps, 0.1)
		}
		s.AllocsPerToken = spread(s.allocs).Min // the smallest: others in the process may allocate too
		run.Rates = append(run.Rates, s.Rate)
	}
}

func quantile(v []float64, q float64) float64 {
	slices.Sort(v)
	return v[min(len(v)-1, int(q*float64(len(v))))]
}

func measure(ctx context.Context, o *Options, part []*series) error {
	for range o.Rounds {
		for _, s := range part {
			o.Progress(fmt.Sprintf("%s %d, %s", s.Work, s.N, s.Via))
			v, err := s.sample(ctx, s)
			if err != nil {
				return err
			}
			s.Samples = append(s.Samples, v)
		}
	}
	return nil
}

// single lists the rows of one sequence: prompts, then decoding after contexts.
func (b *bed) single(o *Options) []*series {
	var out []*series
	for _, n := range b.prefills {
		out = append(out, &series{Rate: Rate{Work: Prefill, N: n, Via: Model}, sample: func(ctx context.Context, _ *series) (float64, error) { return b.prefill(ctx, n) }})
	}
	for _, c := range b.contexts {
		out = append(out, &series{Rate: Rate{Work: Decode, N: c, Via: Model}, sample: func(ctx context.Context, s *series) (float64, error) {
			// K/V that nobody wrote are pages of zeros that all lie in the same cache lines: the context is filled once, for real.
			if err := b.fill(ctx, &b.lanes[0], b.filled, c); err != nil {
				return 0, err
			}
			b.filled = max(b.filled, c)
			return b.decode(ctx, s, 1, c, o.Tokens)
		}})
	}
	return out
}

// together lists the rows of several sequences.
func (b *bed) together(o *Options) []*series {
	var out []*series
	ready := 0
	for _, n := range b.streams {
		out = append(out, &series{Rate: Rate{Work: Streams, N: n, Via: Model}, sample: func(ctx context.Context, s *series) (float64, error) {
			for ; ready < n; ready++ {
				if err := b.fill(ctx, &b.lanes[ready], 0, streamPrompt); err != nil {
					return 0, err
				}
			}
			return b.decode(ctx, s, n, streamPrompt, o.Tokens)
		}})
	}
	return out
}
