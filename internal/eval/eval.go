// Package eval says how good a model is: exact answers by family and difficulty, multiple choice, bits per byte, refusals, each at every number
// of loops and with its 95 % interval; what a token costs there; and how far a quantised model, or another one, is from it.
//
//	documents ── Pick ──> questions ── prompt as served ──> engine, greedy ──> judge ──> counts ──> Report
//
// What is asked depends on the documents, the limit and the seed alone, so that two models, or one model on two machines, are asked the same. What a
// row gives never depends on its neighbours, so a report does not depend on threads or on how many questions run at a time; times do.
package eval

import (
	"context"
	"sync"
	"sync/atomic"

	"tinyloop/internal/chat"
	"tinyloop/internal/data"
	"tinyloop/internal/gen"
	"tinyloop/internal/model"
)

// Set is a named list of documents.
type Set struct {
	Name string
	Docs []*data.Doc
	Raw  string // text to be read as it stands, in one piece; then Docs is empty
	// Learned are encoded documents, as a prepared corpus holds them; then Docs is empty and nothing is asked.
	Learned []Passage
	Whole   bool // ask all of it, whatever the limit
}

func (s *Set) limit(n int) int {
	if s.Whole {
		return 0
	}
	return n
}

// Passage is an encoded document.
type Passage struct {
	Group string
	IDs   []int32
	Learn []data.Range
}

// Role is what a model takes part as.
type Role string

const (
	Main    Role = "model"
	Typed   Role = "type"    // the same weights in another number format
	Against Role = "against" // another file, whose distance is shown
	Control Role = "control" // another model with the same budget
)

// Subject is a model under examination.
type Subject struct {
	Name string
	Role Role
	Gen  *gen.Generator
	Spec *model.Spec // for the work of a token; nil = not told

	coder *data.Coder
	mu    sync.Mutex // of coder
}

// Options say what is measured.
type Options struct {
	Loops    []int // ascending; those that a model cannot run are left out for it
	Limit    int   // questions of each group; 0 = all
	Seed     uint64
	Docs     int      // documents of each group for the loss; 0 = all
	Parallel int      // requests at a time; 0 = 64
	Choices  int      // candidates of a multiple choice, the right one included; 0 = none
	MCLimit  int      // questions of each group with a multiple choice; 0 = all
	Samples  int      // wrong answers of each group that the report shows
	Refusals []string // what says that one does not know; nil = the synthetic world's two
	NoLoss   bool     // leave out the loss on the documents of the sets
	NoCost   bool     // leave out the times
	Progress func(Progress)
}

// Progress says how far a model is at one number of loops.
type Progress struct {
	Model       string
	Loops       int
	What        string
	Done, Total int
}

// DefaultRefusals are the synthetic world's ways of not knowing.
func DefaultRefusals() []string { return []string{"I do not know", "Je ne sais pas"} }

// DefaultLoops are the depths of the loops table.
func DefaultLoops() []int { return []int{1, 2, 3, 4, 6, 8, 12, 16} }

func (o Options) filled() Options {
	if o.Parallel <= 0 {
		o.Parallel = 64
	}
	if o.Refusals == nil {
		o.Refusals = DefaultRefusals()
	}
	if len(o.Loops) == 0 {
		o.Loops = DefaultLoops()
	}
	return o
}

// coderOf makes the coder that writes conversations as the model is served.
func (s *Subject) coderOf() *data.Coder {
	if s.coder == nil {
		t := s.Gen.Template()
		if t == nil {
			t = chat.ChatML()
		}
		s.coder = data.NewCoder(s.Gen.Tokenizer(), t)
	}
	return s.coder
}

// depths are the numbers of loops that the model can run.
func (s *Subject) depths(asked []int) []int {
	var out []int
	for _, n := range asked {
		if n >= 1 && n <= max(1, s.Gen.Info().Loops.HardMax) {
			out = append(out, n)
		}
	}
	return out
}

// each runs f for 0 … n−1, at most par at a time, and stops handing out numbers after the first error or the end of ctx. It returns the error of
// the lowest number that failed.
func each(ctx context.Context, n, par int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var next atomic.Int64
	var mu sync.Mutex
	var first error
	at := n
	var wg sync.WaitGroup
	for range min(par, n) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(ctx, i); err != nil {
					mu.Lock()
					if i < at {
						first, at = err, i
					}
					mu.Unlock()
					cancel()
				}
			}
		})
	}
	wg.Wait()
	return first
}
