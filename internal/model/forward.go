package model

import (
	"tinyloop/internal/invariants"
	"tinyloop/internal/kernel"
	"tinyloop/internal/nn"
)

// Enter implements Runner.
func (s *Scratch) Enter(rows []Row) {
	if len(rows) == 0 {
		return
	}
	s.begin(rows, Prelude)
	last := 0
	for i := range rows {
		last = max(last, int(rows[i].Pos))
	}
	if s.rope != nil {
		s.rope.Reserve(last)
	}
	crew := s.crew(s.layerWork())
	if crew > 1 && s.layerWork()*s.m.Spec.Prelude <= soonDone && s.pool.Rouse() {
		crew = 1 // the others are awake for the Turn
	}
	s.pool.RunMost(s.enterF, crew)
}

// soonDone is how many products one worker has made before another is awake: some 100 µs.
const soonDone = 6 << 20

// Turn implements Runner.
func (s *Scratch) Turn(rows []Row) {
	if len(rows) == 0 {
		return
	}
	s.begin(rows, Core)
	s.look(rows)
	s.pool.RunMost(s.turnF, s.crew(s.layerWork()))
	if s.watch.on {
		s.measure(rows)
	}
	for i := range rows {
		rows[i].Loop++
	}
}

// Leave implements Runner. The hidden state of a row stays as it was, so that a row that was read out early can run on.
func (s *Scratch) Leave(rows []Row) {
	s.beginLogits(rows)
	if len(s.want) == 0 && (s.m.Spec.Coda == 0 || len(rows) == 0) {
		return
	}
	s.begin(rows, Coda)
	s.pool.RunMost(s.leaveF, s.crew(max(s.layerWork(), len(s.want)*s.m.Spec.Vocab*s.m.Spec.Dim)))
}

// Logits implements Runner; nil for a row that did not want any.
func (s *Scratch) Logits(i int) []float32 {
	at := int(s.logitsAt[i])
	if at < 0 {
		return nil
	}
	v := s.m.Spec.Vocab
	return s.logits[at*v : (at+1)*v : (at+1)*v]
}

// begin sets the call's rows and where they stand. The page tables of a row start at the first slot of the part, which for the core lies behind
// the passes made so far, and for the coda behind all passes that the row will make.
func (s *Scratch) begin(rows []Row, p Part) {
	sp := &s.m.Spec
	s.rows = rows
	for i := range rows {
		r := &rows[i]
		s.check(r, p)
		first, blocks := 0, sp.Prelude
		switch p {
		case Core:
			first, blocks = sp.Prelude+int(r.Loop)*sp.Core, sp.Core
		case Coda:
			first, blocks = sp.Prelude+int(r.Depth)*sp.Core, sp.Coda
		}
		s.states[i] = r.State
		s.places[i] = nn.Place{Pos: int(r.Pos), Pages: r.Pages[first : first+blocks], Also: r.Also, First: first, Span: s.span(r)}
	}
	s.h.Index, s.e.Index = s.states[:len(rows)], s.states[:len(rows)]
}

// check holds the caller to the contract of Row, under the build tag only.
func (s *Scratch) check(r *Row, p Part) {
	if !invariants.Enabled {
		return
	}
	invariants.Check(int(r.State) < s.o.MaxRows && r.State >= 0, "row state within MaxRows")
	invariants.Check(int(r.Pos) < s.o.Context && r.Pos >= 0, "row position within the context")
	invariants.Check(r.Depth >= 1 && int(r.Depth) <= s.o.MaxLoops, "row depth within MaxLoops")
	invariants.Check(p != Prelude || r.Token >= 0 && int(r.Token) < s.m.Spec.Vocab, "token within the vocabulary")
	invariants.Check(p != Core || r.Loop < r.Depth, "pass within the depth")
}

// span joins the window of the request with the model's own. A model with a window of its own never saw sinks, so it gets none.
func (s *Scratch) span(r *Row) kernel.Span {
	own := s.m.Spec.Block.Window
	switch {
	case own == 0:
		return kernel.Span{Window: int(r.Window), Sinks: int(r.Sinks)}
	case r.Window == 0:
		return kernel.Span{Window: own}
	}
	return kernel.Span{Window: min(own, int(r.Window))}
}

// beginLogits gives every wanted row its place.
func (s *Scratch) beginLogits(rows []Row) {
	s.want, s.wantIn, s.logitsAt = s.want[:0], s.wantIn[:0], s.logitsAt[:0]
	for i := range rows {
		at := int32(-1)
		if rows[i].Want {
			at = int32(len(s.want))
			s.want = append(s.want, int32(i))
			s.wantIn = append(s.wantIn, s.ring[i])
		}
		s.logitsAt = append(s.logitsAt, at)
	}
	// The buffer grows to the most rows ever wanted at once: a prompt with logprobs wants every row, everything else a few.
	if n := len(s.want) * s.m.Spec.Vocab; n > len(s.logits) {
		s.logits = make([]float32, n)
	}
}
