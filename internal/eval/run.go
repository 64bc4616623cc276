package eval

import (
	"context"

	"tinyloop/internal/fault"
)

// Session measures models on the same sets.
type Session struct {
	o      Options
	sets   []*Set
	qs     []question
	pools  pools
	report *Report
}

// NewSession chooses the questions. The names of the sets must differ.
func NewSession(sets []*Set, o Options) (*Session, error) {
	s := &Session{o: o.filled(), sets: sets}
	s.report = &Report{Format: Format, Complete: true, Seed: o.Seed, Limit: o.Limit, LossDocs: o.Docs}
	names := map[string]bool{}
	var every []question
	for _, set := range sets {
		if names[set.Name] {
			return nil, fault.New(fault.Invalid, "sets", "two sets are called %q", set.Name)
		}
		names[set.Name] = true
		all, err := questions(set)
		if err != nil {
			return nil, err
		}
		every = append(every, all...)
		kept := choosing(len(all), set.limit(o.Limit), o.Seed, func(i int) Group { return all[i].group })
		for _, i := range kept {
			s.qs = append(s.qs, all[i])
		}
		in := Input{Set: set.Name, Docs: len(set.Docs) + len(set.Learned), Questions: len(kept)}
		if set.Raw != "" {
			in.Docs = 1
		}
		s.report.Inputs = append(s.report.Inputs, in)
	}
	s.pools = poolsOf(every)
	return s, nil
}

// Report is what has been measured so far.
func (s *Session) Report() *Report { return s.report }

// Measure adds a model to the report. When ctx ends, what was measured until then is in the report, which is no longer complete, and Measure
// returns a fault of kind Canceled. The first model measured is the one the report is about.
func (s *Session) Measure(ctx context.Context, sub *Subject) error {
	m := describe(sub)
	e, err := newExam(ctx, sub, s.qs, s.pools, s.o.Refusals)
	if err != nil {
		return err
	}
	for i := range e.prompts {
		if why := e.prompts[i].short; why != "" {
			if m.Skipped == nil {
				m.Skipped = map[string]int{}
			}
			m.Skipped[why]++
		}
	}
	p, err := newPaper(sub, s.sets, &s.o)
	if err != nil {
		return err
	}
	cs, err := e.choices(s.o.Choices, s.o.MCLimit, s.o.Seed)
	if err != nil {
		return err
	}
	depths := sub.depths(s.o.Loops)
	if len(depths) == 0 {
		return fault.New(fault.Invalid, "loops", "%s runs 1 to %d loops, none of those asked for", sub.Name, sub.Gen.Info().Loops.HardMax)
	}
	s.report.Models = append(s.report.Models, m)
	for _, n := range depths {
		l := &Level{Loops: n}
		m.Levels = append(m.Levels, l)
		if err := s.level(ctx, l, e, p, cs); err != nil {
			s.report.Complete = false
			return err
		}
		l.Complete = true
	}
	return nil
}

// level measures one number of loops.
func (s *Session) level(ctx context.Context, l *Level, e *exam, p *paper, cs []choice) error {
	rs, err := e.ask(ctx, l.Loops, s.o.Parallel, s.ticker(e.s, l.Loops, "questions", len(e.qs)))
	l.Tasks, l.Refusals, l.Samples = e.tasks(rs), e.refusals(rs), e.samples(rs, s.o.Samples)
	if err != nil {
		return stopped(ctx, err)
	}
	sums, err := p.read(ctx, l.Loops, s.o.Parallel, s.ticker(e.s, l.Loops, "loss", len(p.windows)))
	l.Loss = losses(s.sets, sums)
	if err != nil {
		return stopped(ctx, err)
	}
	right, err := e.choose(ctx, cs, l.Loops, s.o.Parallel, s.ticker(e.s, l.Loops, "choices", len(cs)))
	l.Choices = e.picked(cs, right)
	if err != nil || s.o.NoCost {
		return stopped(ctx, err)
	}
	l.Cost, err = e.s.cost(ctx, l.Loops)
	return stopped(ctx, err)
}

// stopped gives one error for everything that the end of ctx brings about.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fault.New(fault.Canceled, "", "interrupted")
	}
	return err
}

// ticker counts what is done; it may be called from several goroutines.
func (s *Session) ticker(sub *Subject, loops int, what string, total int) func() {
	if s.o.Progress == nil {
		return func() {}
	}
	n := make(chan int, 1)
	n <- 0
	return func() {
		v := <-n + 1
		s.o.Progress(Progress{sub.Name, loops, what, v, total})
		n <- v
	}
}

func describe(s *Subject) *Model {
	i := s.Gen.Info()
	m := &Model{Name: s.Name, Role: s.Role, Path: i.Path, Family: i.Family, Quant: i.Quant, Hash: i.Hash, Params: i.Params, Bytes: i.Bytes, Context: i.Context}
	if s.Role == Typed {
		m.Path = "" // a temporary file
	}
	m.Loops.Default, m.Loops.TrainedMax, m.Loops.HardMax = i.Loops.Default, i.Loops.TrainedMax, i.Loops.HardMax
	return m
}
