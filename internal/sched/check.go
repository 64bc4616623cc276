package sched

import "fmt"

// Check recounts everything that is counted along the way and names the first difference: free + held + cached == total, references, owners,
// idle pages, rows in flight, visible blocks. For tests and for builds with invariants; it costs a pass over all pages.
func (s *Scheduler) Check() error {
	refs := make([]int32, s.cfg.Pages)
	flight := 0
	for i, q := range s.running {
		if i > 0 && s.running[i-1].age > q.age {
			return fmt.Errorf("running sequence %d is older than its predecessor", i)
		}
		if err := s.checkSeq(q, refs); err != nil {
			return fmt.Errorf("running sequence %d: %w", i, err)
		}
		flight += q.Flight()
	}
	for i, q := range s.waiting {
		if q.running || q.held != 0 || q.tip >= 0 || q.Entered != 0 {
			return fmt.Errorf("waiting sequence %d holds %d pages, tip %d", i, q.held, q.tip)
		}
	}
	if flight != s.flight || flight > s.cfg.StepRows {
		return fmt.Errorf("%d rows in flight, counted %d, allowed %d", flight, s.flight, s.cfg.StepRows)
	}
	if len(s.running) > s.cfg.MaxSeqs {
		return fmt.Errorf("%d running sequences, allowed %d", len(s.running), s.cfg.MaxSeqs)
	}
	return s.checkPages(refs)
}

func (s *Scheduler) checkSeq(q *Seq, refs []int32) error {
	held := 0
	for slot, table := range q.Pages {
		for b, page := range table {
			if page >= 0 {
				refs[page]++
				held++
			}
			if seen := b < q.blocks && q.keeps(b, q.Computed); seen != (page >= 0) {
				return fmt.Errorf("slot %d block %d of %d (computed %d): page %d", slot, b, q.blocks, q.Computed, page)
			}
		}
	}
	if held != q.held {
		return fmt.Errorf("holds %d pages, counted %d", held, q.held)
	}
	if q.Computed > q.Entered || q.Entered > q.blocks*PageLen || q.Entered > q.Limit {
		return fmt.Errorf("computed %d, entered %d, blocks %d, limit %d", q.Computed, q.Entered, q.blocks, q.Limit)
	}
	return nil
}

func (s *Scheduler) checkPages(refs []int32) error {
	free := make([]bool, s.cfg.Pages)
	for _, p := range s.pool.free {
		if free[p] || s.pool.refs[p] != 0 || s.pool.owner[p] >= 0 {
			return fmt.Errorf("free page %d: twice %v, refs %d, owner %d", p, free[p], s.pool.refs[p], s.pool.owner[p])
		}
		free[p] = true
	}
	cached, held, idle := 0, 0, map[int32]int32{}
	for p, r := range s.pool.refs {
		if r != refs[p] {
			return fmt.Errorf("page %d has %d holders, counted %d", p, refs[p], r)
		}
		switch own := s.pool.owner[p]; {
		case r > 0:
			held++
		case own >= 0:
			cached++
			idle[own]++
		case !free[p]:
			return fmt.Errorf("page %d is lost", p)
		}
	}
	if cached != s.pool.cached || len(s.pool.free)+held+cached != s.cfg.Pages {
		return fmt.Errorf("free %d + held %d + cached %d (counted %d) of %d", len(s.pool.free), held, cached, s.pool.cached, s.cfg.Pages)
	}
	return s.checkIndex(idle)
}

func (s *Scheduler) checkIndex(idle map[int32]int32) error {
	x := s.idx
	listed := map[int32]bool{}
	for id := x.head; id >= 0; id = x.nodes[id].next {
		listed[id] = true
	}
	children := map[int32]int32{}
	pins := map[int32]int32{}
	for _, q := range s.running {
		if q.tip >= 0 {
			pins[q.tip]++
		}
	}
	for id := range x.nodes {
		if n := &x.nodes[id]; n.used && n.parent >= 0 {
			children[n.parent]++
		}
	}
	for i := range x.nodes {
		n, id := &x.nodes[i], int32(i)
		if !n.used {
			continue
		}
		if n.idle != idle[id] || listed[id] != (n.idle > 0) || n.children != children[id] || n.pins != pins[id] {
			return fmt.Errorf("node %d: idle %d/%d, listed %v, children %d/%d, pins %d/%d", id, n.idle, idle[id], listed[id],
				n.children, children[id], n.pins, pins[id])
		}
		if n.children == 0 && n.pins == 0 && len(n.pages) == 0 && len(n.sets) == 0 {
			return fmt.Errorf("node %d is of no use", id)
		}
		for _, p := range n.pages {
			if x.pool.owner[p] != id {
				return fmt.Errorf("page %d of node %d has owner %d", p, id, x.pool.owner[p])
			}
		}
	}
	return nil
}
