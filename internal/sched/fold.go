package sched

// Fold is how the core's loops share their K/V once a prompt is computed. The prompt itself is computed with K/V of its own for every loop.
// Afterwards loops with the same residue share the pages of a block: entries of the table are the same page.
//
//	Mod = 2, 5 loops      prompt's block           after Fold, and every later block
//	loop 0                [a]                      [e]
//	loop 1                   [b]                      [d]
//	loop 2                [c]                      [e]
//	loop 3                   [d]                      [d]
//	loop 4                [e]                      [e]        what the last loop of each residue has written
//
// With Mean the owner makes every position of a block's pages the mean over the loops, and Merge then leaves one page. The block being written
// needs one page a loop until it is full, because a row sees its own K/V of the running loop.
type Fold struct {
	Mod  int // loops t and t+Mod share; 0 = none do
	Mean bool
}

// residues is how many pages a core block takes where a block of positions is folded.
func (f Fold) residues(loops int) int {
	switch {
	case f.Mean:
		return 1
	case f.Mod > 0:
		return min(f.Mod, loops)
	}
	return loops
}

// first is the slot that comes first among those that share with slot.
func (s *Scheduler) first(q *Seq, slot int) int {
	core := slot - s.cfg.Prelude
	if core < 0 || core >= q.Loops*s.cfg.Core {
		return slot
	}
	n := q.Fold.residues(q.Loops)
	return s.cfg.Prelude + core/s.cfg.Core%n*s.cfg.Core + core%s.cfg.Core
}

// last is the slot that comes last among them.
func (s *Scheduler) last(q *Seq, slot int) int {
	core := slot - s.cfg.Prelude
	if core < 0 || core >= q.Loops*s.cfg.Core {
		return slot
	}
	n, loop := q.Fold.residues(q.Loops), core/s.cfg.Core
	return s.cfg.Prelude + (loop+(q.Loops-1-loop)/n*n)*s.cfg.Core + core%s.cfg.Core
}

// Collapse folds every block of q by residues: its prompt is complete, and no row of it is in flight.
func (s *Scheduler) Collapse(q *Seq) {
	q.folded = true
	for b := range q.blocks {
		s.merge(q, b)
	}
	s.stuck = false
}

// Merge leaves one page of a block for every core block: all hold the same.
func (s *Scheduler) Merge(q *Seq, b int) {
	s.merge(q, b)
	s.stuck = false
}

func (s *Scheduler) merge(q *Seq, b int) {
	for slot := range s.Slots(q.Loops) {
		page, own := q.Pages[s.last(q, slot)][b], q.Pages[slot][b]
		if page == own || own < 0 {
			continue
		}
		s.pool.hold(page)
		q.Pages[slot][b] = page
		s.pool.release(own)
	}
}

// need is the pages that q takes at its peak when it computes up to limit positions.
func (s *Scheduler) need(q *Seq, limit int) int {
	full := s.Slots(q.Loops)
	all := peak(limit, q.Window, q.Sinks)
	if q.Fold == (Fold{}) {
		return all * full
	}
	prompt := peak(min(q.Share, limit), q.Window, q.Sinks)
	small := s.cfg.Prelude + q.Fold.residues(q.Loops)*s.cfg.Core + s.cfg.Coda
	n := all * small
	if q.Fold.Mean {
		n += full - small // the block being written
	}
	return max(prompt*full, n)
}
