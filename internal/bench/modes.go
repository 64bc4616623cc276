package bench

import (
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"runtime/debug"
	"text/tabwriter"
	"time"

	"tinyloop/internal/engine"
	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/sample"
)

// ModesOptions say what Modes measures.
type ModesOptions struct {
	Path    string
	Loops   int       // of the answer; 0 = the model's default
	Draft   int       // draft depth; 0 = a quarter of the loops
	Accept  []float64 // shares of right guesses
	Threads int
	Tokens  int // of one answer
	Rounds  int
	KVType  kernel.Type

	Progress func(what string) // nil = silent
}

// turnTime is after how long the cost of a turn by rows is known well enough.
const turnTime = 2500 * time.Millisecond

// TurnCost is what a turn of so many rows takes.
type TurnCost struct {
	Rows   int     `json:"rows"`
	Best   float64 `json:"best_ms"`   // fastest tenth
	Median float64 `json:"median_ms"` //
}

// ModeRow is one mode at one share of right guesses.
type ModeRow struct {
	Mode         string  `json:"mode"`
	Accept       float64 `json:"accept"`
	PerToken     Spread  `json:"ms_per_token"`
	OverPlain    float64 `json:"over_plain"` // plain's median over this one's: above 1 is faster
	TurnsPer     float64 `json:"turns_per_token"`
	RowsPerTurn  float64 `json:"rows_per_turn"`
	RightGuesses float64 `json:"right_guesses"`
	samples      []float64
}

// ModesReport is the result of Modes.
type ModesReport struct {
	File    string     `json:"file"`
	Quant   string     `json:"quant"`
	Core    int64      `json:"core_bytes"` // read by one turn
	Loops   int        `json:"loops"`
	Draft   int        `json:"draft_loops"`
	Threads int        `json:"threads"`
	Turns   []TurnCost `json:"turns"`
	Modes   []ModeRow  `json:"modes"`
	// Memory: what the model, its scratch and its KV pages were reckoned to take; the process's most from before the load on, without the file's map, which
	// is gone then; and what the process had before. 0 where the system does not say.
	Estimate int64 `json:"estimate_bytes"`
	Peak     int64 `json:"peak_rss"`
	Before   int64 `json:"rss_before"`
}

// steered runs a model in full and then decides which token its logits favour: a fixed one at full depth, and on the way the same one for a given
// share of the readouts. So a mode meets exactly the share of right guesses that is asked for, at the model's real cost.
type steered struct {
	*model.Scratch
	accept float64
	seed   uint64
	draws  int
}

func (s *steered) Leave(rows []model.Row) {
	s.Scratch.Leave(rows)
	vocab := s.Limits().Vocab
	for i := range rows {
		l := s.Logits(i)
		if l == nil {
			continue
		}
		t := int(token(int(rows[i].Pos), vocab))
		if rows[i].Loop < rows[i].Depth {
			if s.draws++; sample.Uniform(s.seed, 0, s.draws) >= s.accept {
				t = (t + 1) % vocab
			}
		}
		l[t] = math.MaxFloat32
	}
}

// Modes measures what a turn costs by its rows, and every decoding mode over plain decoding at given shares of right guesses.
func Modes(ctx context.Context, o ModesOptions) (*ModesReport, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	debug.FreeOSMemory() // what was measured before must not count
	resetPeak()
	before := peakRSS()
	m, quant, err := opened(o.Path)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if o.Loops == 0 {
		o.Loops = m.Spec.Loops.Default
	}
	if o.Draft == 0 {
		o.Draft = (o.Loops + 3) / 4
	}
	if o.Loops < 2 || o.Loops > m.Spec.Loops.HardMax || o.Draft >= o.Loops || o.Draft < 1 {
		return nil, fault.New(fault.Invalid, "loops", "modes need loops of 2 to %d and draft loops below them, not %d and %d", m.Spec.Loops.HardMax, o.Loops, o.Draft)
	}
	if o.Tokens < 2 || o.Tokens+streamPrompt > m.Spec.Context || o.Rounds < 1 {
		return nil, fault.New(fault.Invalid, "tokens", "tokens must be 2 to %d for this model, is %d, and rounds at least 1, is %d", m.Spec.Context-streamPrompt, o.Tokens, o.Rounds)
	}
	blocks := (o.Tokens + streamPrompt + model.PagePositions) / model.PagePositions
	so := model.Options{Threads: o.Threads, KVType: o.KVType, Pages: 3 * blocks * m.Spec.Slots(o.Loops), MaxRows: 64, MaxLoops: o.Loops}
	s, err := m.NewScratch(so)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r := &ModesReport{File: o.Path, Quant: quant, Before: before, Core: readPerToken(m, 2) - readPerToken(m, 1), Loops: o.Loops, Draft: o.Draft, Threads: o.Threads}
	o.Progress("the cost of a turn")
	r.turns(m, s, &o)
	err = r.modes(ctx, s, &o)
	r.Estimate, r.Peak = m.Bytes()+m.Spec.ScratchBytes(so)+s.KVBytes(), peakRSS()
	return r, err
}

// turns measures a turn of 1 to 16 rows after a prompt.
func (r *ModesReport) turns(m *model.Model, s *model.Scratch, o *ModesOptions) {
	var pages int32
	l := newLane(m.Spec.Slots(o.Loops), streamPrompt+16, &pages)
	b := &bed{m: m, s: s, loops: o.Loops, rows: make([]model.Row, 0, 64)}
	_ = b.fill(context.Background(), &l, 0, streamPrompt)
	sizes := []int{1, 2, 3, 4, 5, 6, 8, 12, 16}
	times := make([][]float64, len(sizes))
	start := time.Now()
	for k := range max(8, o.Rounds*8) { // sizes in turn, so that all meet the same neighbours
		if k >= 3 && time.Since(start) > turnTime {
			break
		}
		for i, n := range sizes {
			b.rows = b.rows[:0]
			for k := range n {
				b.row(&l, streamPrompt+k, false)
			}
			s.Enter(b.rows)
			begin := time.Now()
			for range o.Loops {
				s.Turn(b.rows)
			}
			times[i] = append(times[i], ms(time.Since(begin))/float64(o.Loops))
		}
	}
	for i, n := range sizes {
		r.Turns = append(r.Turns, TurnCost{Rows: n, Best: quantile(times[i], 0.1), Median: quantile(times[i], 0.5)})
	}
}

// modes measures every mode, in turn.
func (r *ModesReport) modes(ctx context.Context, s *model.Scratch, o *ModesOptions) error {
	type setting struct {
		name string
		req  engine.Request
	}
	d := o.Draft
	settings := []setting{{"autoregressive", engine.Request{}}, {"speculative", engine.Request{Mode: engine.Speculative, DraftLoops: d}},
		{"tree_speculative", engine.Request{Mode: engine.TreeSpeculative, DraftLoops: d}}, {"wavefront", engine.Request{Mode: engine.Wavefront, DraftLoops: d, DraftAhead: engine.MaxAhead}},
		{"auto", engine.Request{Mode: engine.Auto}}}
	for _, accept := range o.Accept {
		st := &steered{Scratch: s, accept: accept}
		e := engine.New(st, engine.Config{NoPrefixCache: true})
		first := len(r.Modes)
		for _, x := range settings {
			r.Modes = append(r.Modes, ModeRow{Mode: x.name, Accept: accept})
		}
		for round := range o.Rounds + 1 { // the first does not count: auto learns in it, and everything wakes up
			for i, x := range settings {
				if round == 0 && x.name != "auto" {
					continue
				}
				o.Progress(fmt.Sprintf("%s at %.2f, round %d", x.name, accept, round))
				q := x.req
				q.Loops, q.MaxTokens, q.IgnoreStop = o.Loops, o.Tokens, true
				for k := range streamPrompt {
					q.Prompt = append(q.Prompt, token(k, s.Limits().Vocab))
				}
				row := &r.Modes[first+i]
				if round == 0 {
					row = new(ModeRow)
				}
				if err := row.run(ctx, e, &q); err != nil {
					e.Close()
					return err
				}
			}
		}
		e.Close()
		plain := spread(r.Modes[first].samples).Median
		for i := first; i < len(r.Modes); i++ {
			r.Modes[i].PerToken = spread(r.Modes[i].samples)
			r.Modes[i].OverPlain = plain / r.Modes[i].PerToken.Median
		}
	}
	return nil
}

// run decodes one answer.
func (m *ModeRow) run(ctx context.Context, e *engine.Engine, q *engine.Request) error {
	end := &ending{done: make(chan struct{})}
	if err := e.Submit(ctx, q, end); err != nil {
		return err
	}
	<-end.done
	st := end.st
	if st.Err != nil {
		return st.Err
	}
	if st.Tokens < q.MaxTokens {
		return canceled()
	}
	n := float64(st.Tokens - 1)
	m.samples = append(m.samples, ms(st.Decode)/n)
	turns := float64(st.Turns - q.Loops*((len(q.Prompt)+63)/64))
	m.TurnsPer, m.RowsPerTurn = turns/n, float64(st.Rows-q.Loops*len(q.Prompt))/turns
	if st.Judged > 0 {
		m.RightGuesses = float64(st.Accepted) / float64(st.Judged)
	}
	return nil
}

// ending is a sink that waits for the statistics.
type ending struct {
	st   engine.Stats
	done chan struct{}
}

func (*ending) Started()                       {}
func (*ending) PromptToken(int, sample.Choice) {}
func (*ending) Token(int, sample.Choice) bool  { return true }
func (x *ending) Finish(_ int, _ engine.Why, st engine.Stats) {
	x.st = st
	close(x.done)
}

// Table writes the report for people.
func (r *ModesReport) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%s: %s, a turn reads %s of weights; %d loops, guesses after %d, %s\n\n", filepath.Base(r.File), r.Quant, size(r.Core), r.Loops, r.Draft, plural(r.Threads, "thread"))
	fmt.Fprint(t, "rows of a turn\tms (fastest tenth)\tover one row\tms (median)\t\n")
	for _, c := range r.Turns {
		fmt.Fprintf(t, "%d\t%.3f\t%.2f\t%.3f\t\n", c.Rows, c.Best, c.Best/r.Turns[0].Best, c.Median)
	}
	fmt.Fprint(t, "\nright guesses\tmode\tms a token\tmin\tmax\tover plain\tturns a token\trows a turn\tseen\t\n")
	for _, m := range r.Modes {
		fmt.Fprintf(t, "%.2f\t%s\t%.3f\t%.3f\t%.3f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", m.Accept, m.Mode, m.PerToken.Median, m.PerToken.Min, m.PerToken.Max, m.OverPlain, m.TurnsPer, m.RowsPerTurn, m.RightGuesses)
	}
	return t.Flush()
}
