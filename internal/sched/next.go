package sched

import "slices"

// admit moves the oldest waiting sequences among the running, strictly in order of age, while there is room. Room means pages for all their known
// tokens and one more, beyond what the running ones were promised and have not taken yet: so a prompt that starts can finish its prefill.
func (s *Scheduler) admit() {
	if len(s.waiting) == 0 || s.stuck || len(s.running) >= s.cfg.MaxSeqs {
		return
	}
	promised := 0
	for _, q := range s.running {
		promised += max(0, q.reserve-q.held)
	}
	for len(s.waiting) > 0 && len(s.running) < s.cfg.MaxSeqs {
		q := s.waiting[0]
		path := s.match(q)
		reserve := s.need(q, min(len(q.Tokens)+1, q.Limit))
		if reserve-s.shared(q, path) > s.pool.spare()-promised {
			s.stuck = true
			return
		}
		s.waiting = slices.Delete(s.waiting, 0, 1)
		s.enter(q, path)
		q.reserve = reserve
		promised += max(0, reserve-q.held)
		s.plan.Admitted = append(s.plan.Admitted, q)
	}
}

func (s *Scheduler) match(q *Seq) []int32 {
	if s.cfg.NoPrefixCache {
		return nil
	}
	return s.idx.match(q)
}

// shared counts the pages of a matched prefix that some sequence holds already: they cost nothing.
func (s *Scheduler) shared(q *Seq, path []int32) int {
	n := 0
	for b, id := range path {
		if !q.keeps(b, len(path)*PageLen) {
			continue
		}
		for slot := range s.Slots(q.Loops) {
			if s.pool.refs[s.idx.nodes[id].page(s.idx, slot, q.Loops)] > 0 {
				n++
			}
		}
	}
	return n
}

// enter starts q with the K/V of its matched prefix.
func (s *Scheduler) enter(q *Seq, path []int32) {
	slots := s.Slots(q.Loops)
	q.grow(slots, max(1, len(path)))
	q.Cached = len(path) * PageLen
	q.Computed, q.Entered, q.blocks, q.indexed = q.Cached, q.Cached, len(path), len(path)
	for b, id := range path {
		if !q.keeps(b, q.Cached) {
			continue
		}
		for slot := range slots {
			page := s.idx.nodes[id].page(s.idx, slot, q.Loops)
			s.pool.hold(page)
			q.Pages[slot][b] = page
			q.held++
		}
	}
	s.shed(q)
	if !s.cfg.NoPrefixCache && !q.NoCache {
		at := int32(-1)
		if len(path) > 0 {
			at = path[len(path)-1]
		} else {
			at = s.idx.root(q.Window, q.Sinks)
		}
		s.idx.stand(q, at)
	}
	s.start(q)
}

// share divides the rows that may still be in flight: first one row to every sequence that decodes, in turn; then prefill chunks in equal
// shares. Where prompts wait, a small part of the budget is kept from decoding, so that neither starves the other.
func (s *Scheduler) share() {
	budget := s.cfg.StepRows - s.flight
	prompts, theirs := 0, 0
	for _, q := range s.running {
		q.grant = 0
		if q.pending() > 1 {
			prompts++
		}
		theirs += max(0, min(q.bulk, q.Entered)-q.Computed)
	}
	kept := 0
	if prompts > 0 {
		kept = min(max(0, max(1, s.cfg.StepRows/8)-theirs), max(0, budget))
		if s.cfg.StepRows == 1 && s.fed {
			kept = 0
		}
	}
	given := s.shareDecode(budget-kept, false)
	given += s.shareDecode(budget-kept-given, true)
	if budget -= given; budget > 0 && prompts > 0 {
		s.sharePrefill(budget, prompts)
		s.fed = true
	}
	if given > 0 {
		s.fed = false
	}
}

// shareDecode grants one row each to sequences with a single token to enter, agreed or drafted, and says how many got one.
func (s *Scheduler) shareDecode(budget int, drafts bool) int {
	n, given := len(s.running), 0
	start := int(s.decode)
	if drafts {
		start = int(s.guess)
	}
	for i := 0; i < n && given < budget; i++ {
		at := (start + i) % n
		q := s.running[at]
		if q.pending() != 1 || drafts != (q.Drafts > 0) {
			continue
		}
		q.grant = 1
		given++
		if drafts {
			s.guess = cursor(at + 1)
		} else {
			s.decode = cursor(at + 1)
		}
	}
	return given
}

// sharePrefill grants equal shares of the budget to prompts, then the rest in turn.
func (s *Scheduler) sharePrefill(budget, prompts int) {
	n := len(s.running)
	start := int(s.prefill)
	left := prompts
	for round := 0; round < 2; round++ {
		for i := 0; i < n && budget > 0; i++ {
			at := (start + i) % n
			q := s.running[at]
			if q.pending() <= 1 {
				continue
			}
			fair := budget
			if round == 0 {
				fair = (budget + left - 1) / left
				left--
				s.prefill = cursor(at + 1)
			}
			g := min(fair, min(q.pending(), s.cfg.ChunkRows)-q.grant)
			q.grant += g
			budget -= g
		}
	}
}

// place finds pages for the granted rows, oldest sequence first. Under pressure a chunk shrinks; where not even one row has a page, the youngest
// running sequence gives its pages up, be it the asking one. The oldest never does, so it always ends, and so does everyone after it.
func (s *Scheduler) place() {
	for i := 0; i < len(s.running); i++ {
		q := s.running[i]
		if q.grant == 0 {
			continue
		}
		n := s.room(q, q.grant)
		for n == 0 && q.Flight() == 0 && q.Drafts == 0 { // with rows in flight it waits for them: their end may release pages
			if s.preempt() == q {
				break
			}
			n = s.room(q, q.grant)
		}
		if n == 0 || !q.running {
			continue
		}
		s.plan.Enter = append(s.plan.Enter, Span{Seq: q, From: q.Entered, N: n})
		if q.Entered += n; q.Drafts == 0 && q.pending() > 0 || n > 1 {
			q.bulk = q.Entered
		}
		s.flight += n
	}
}

// room takes pages for up to n more rows of q and says for how many there are.
func (s *Scheduler) room(q *Seq, n int) int {
	slots := s.Slots(q.Loops)
	want, fresh := blocksOf(q.Entered+n), slots
	if q.folded {
		fresh -= (q.Loops - q.Fold.residues(q.Loops)) * s.cfg.Core
	}
	for q.blocks < want && s.pool.spare() >= fresh {
		q.grow(slots, q.blocks+1)
		for slot := range slots {
			if at := s.first(q, slot); q.folded && at < slot {
				q.Pages[slot][q.blocks] = q.Pages[at][q.blocks]
				s.pool.hold(q.Pages[at][q.blocks])
				continue
			}
			q.Pages[slot][q.blocks] = s.pool.take()
		}
		q.held += slots
		q.blocks++
	}
	return min(n, q.blocks*PageLen-q.Entered)
}

// preempt takes the pages of the youngest running sequence and lets it wait; a side branch is gone for good.
func (s *Scheduler) preempt() *Seq {
	q := s.running[len(s.running)-1]
	s.stop(q)
	if !q.side {
		q.Preempted++
		s.wait(q)
	}
	s.plan.Preempted = append(s.plan.Preempted, q)
	return q
}
