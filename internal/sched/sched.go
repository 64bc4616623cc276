package sched

import (
	"fmt"
	"slices"
	"sort"

	"tinyloop/internal/fault"
	"tinyloop/internal/invariants"
)

// Config is the shape of the model's K/V and the limits of a step.
type Config struct {
	Prelude, Core, Coda int // blocks of each part; Core >= 1
	Pages               int
	StepRows            int // most rows in flight
	ChunkRows           int // most rows of one sequence entering in a step; 0 = StepRows
	MaxSeqs             int // most sequences holding pages
	NoPrefixCache       bool
}

// Span is rows of one sequence that enter: positions From to From+N-1.
type Span struct {
	Seq     *Seq
	From, N int
}

// Plan is what the next step does besides the rows in flight, valid until the next call of Next or Clear. Preempted sequences have lost their pages and
// their rows in flight; they were also Admitted if they are in both lists.
type Plan struct {
	Admitted  []*Seq
	Preempted []*Seq
	Enter     []Span // oldest sequence first; at most one Span a sequence
}

// Clear forgets the sequences of a plan that has been carried out.
func (p *Plan) Clear() {
	clear(p.Admitted)
	clear(p.Preempted)
	clear(p.Enter)
	p.Admitted, p.Preempted, p.Enter = p.Admitted[:0], p.Preempted[:0], p.Enter[:0]
}

// Scheduler holds every sequence that is not finished. One owner.
type Scheduler struct {
	cfg     Config
	pool    pool
	idx     *index
	running []*Seq // oldest first
	waiting []*Seq // oldest first
	flight  int    // rows in flight
	ages    int64
	decode  cursor
	guess   cursor // of drafts
	prefill cursor
	fed     bool // the last row of a one-row budget went to a prefill
	stuck   bool // the oldest waiting sequence did not fit, and nothing has changed since
	plan    Plan
}

// cursor is where a round over the running sequences goes on.
type cursor int

func (c *cursor) removed(i int) {
	if i < int(*c) {
		*c--
	}
}

func (c *cursor) inserted(i int) {
	if i < int(*c) {
		*c++
	}
}

// New makes a Scheduler with all pages free.
func New(c Config) *Scheduler {
	if c.ChunkRows <= 0 || c.ChunkRows > c.StepRows {
		c.ChunkRows = c.StepRows
	}
	s := &Scheduler{cfg: c, pool: newPool(c.Pages)}
	s.idx = newIndex(&s.pool, c)
	s.pool.idx = s.idx
	return s
}

// Slots is the number of pages that one block of PageLen positions takes.
func (s *Scheduler) Slots(loops int) int { return s.cfg.Prelude + loops*s.cfg.Core + s.cfg.Coda }

// Fits refuses a sequence that could never run, even alone: fault.TooLong with both numbers. It may be called from any goroutine.
func (s *Scheduler) Fits(q *Seq) error {
	need := s.need(q, q.Limit)
	if need <= s.cfg.Pages {
		return nil
	}
	return &fault.Error{Kind: fault.TooLong, Field: "max_tokens", Code: "kv_budget_exceeded",
		Msg: fmt.Sprintf("the request needs %d KV pages (%d positions at %d loops), the server has %d", need, q.Limit, q.Loops, s.cfg.Pages)}
}

// Room is the most positions, up to most, that q could compute were it alone, whatever its Limit. It may be called from any goroutine.
func (s *Scheduler) Room(q *Seq, most int) int {
	return sort.Search(most, func(n int) bool { return s.need(q, n+1) > s.cfg.Pages })
}

// Held is the number of pages that q holds, those that others share included.
func (s *Scheduler) Held(q *Seq) int {
	n := 0
	for slot, table := range q.Pages {
		at := s.first(q, slot)
		for b := range q.blocks {
			if table[b] >= 0 && (at == slot || q.Pages[at][b] != table[b]) {
				n++
			}
		}
	}
	return n
}

// Add queues a new sequence.
func (s *Scheduler) Add(q *Seq) {
	s.ages++
	q.age = s.ages
	q.reset()
	s.wait(q)
}

// Next decides what enters the coming step. The caller computes it, together with what is in flight, and reports with Commit.
func (s *Scheduler) Next() *Plan {
	s.plan.Clear()
	s.admit()
	s.share()
	s.place()
	return &s.plan
}

// Commit notes that the next n positions in flight of q have their K/V in every slot.
func (s *Scheduler) Commit(q *Seq, n int) {
	q.Computed += n
	s.flight -= n
	if q.tip >= 0 {
		for (q.indexed+1)*PageLen <= min(q.Computed, q.shared()) {
			s.idx.insert(q, q.indexed)
			s.stuck = false // a longer prefix to find, perhaps doubled pages given back
		}
	}
	s.shed(q)
	if invariants.Enabled {
		invariants.Check(q.Computed <= q.Entered, "more rows complete than entered")
	}
}

// Retract takes the positions of q from n on back: their tokens turned out not to be what follows. Their rows must not be in flight any more. The
// pages stay for what comes in their place.
func (s *Scheduler) Retract(q *Seq, n int) {
	if invariants.Enabled {
		invariants.Check(n >= q.Computed && n <= q.Entered, "retracted positions are complete or were never in flight")
	}
	s.flight -= q.Entered - n
	q.Entered = n
}

// Branch makes child a side branch of parent that goes on behind the positions that parent has entered, those in flight included: it shares the
// full blocks and gets a copy of a partial last one, by copyPage for each slot. Rows of parent in flight in a partial block must write to the
// child's pages as well from now on (mirror is true then). A side branch has no row of its own yet, stays out of the prefix index, and is dropped
// under pressure instead of waiting. ok is false, and nothing has changed, where there is no room for one.
func (s *Scheduler) Branch(parent, child *Seq, copyPage func(dst, src int32)) (mirror, ok bool) {
	slots := s.Slots(parent.Loops)
	n := blocksOf(parent.Entered)
	part := parent.Entered%PageLen != 0
	if len(s.running) >= s.cfg.MaxSeqs || part && s.pool.spare() < slots {
		return false, false
	}
	child.reset()
	child.age, child.side = parent.age, true
	child.grow(slots, n)
	s.lend(parent, child, n, part, copyPage)
	child.Computed, child.Entered, child.root = parent.Computed, parent.Entered, parent.Entered
	child.blocks, child.low = n, parent.low // what rows of parent in flight still see stays: after Promote the table is theirs
	s.start(child)
	return part, true
}

// Promote gives parent the positions, pages and rows in flight of its side branch, which takes what parent had and is dropped. Rows of parent in flight
// from where the child branched off on must be gone already; older ones go on with the new pages.
func (s *Scheduler) Promote(parent, child *Seq) {
	parent.Pages, child.Pages = child.Pages, parent.Pages
	parent.Entered, child.Entered = child.Entered, parent.Entered
	parent.blocks, child.blocks = child.blocks, parent.blocks
	parent.low, child.low = child.low, parent.low
	parent.held, child.held = child.held, parent.held
	child.Computed = min(child.Computed, child.Entered)
	s.stop(child)
	s.shed(parent)
}

// Fork makes child a branch of parent, which has no rows in flight: full blocks are shared, a partial last block is copied by calling
// copyPage for each slot. child.Tokens begins with the parent's computed tokens. Without room now, child waits like a preempted sequence
// and computes its tokens again.
func (s *Scheduler) Fork(parent, child *Seq, copyPage func(dst, src int32)) {
	child.reset()
	child.age = parent.age
	slots := s.Slots(parent.Loops)
	part := parent.Computed%PageLen != 0
	if len(s.running) >= s.cfg.MaxSeqs || part && s.pool.spare() < slots {
		s.wait(child)
		return
	}
	child.grow(slots, parent.blocks)
	s.lend(parent, child, parent.blocks, part, copyPage)
	child.Computed, child.Entered, child.folded = parent.Computed, parent.Computed, parent.folded
	child.blocks, child.low, child.indexed = parent.blocks, parent.low, parent.indexed
	if parent.tip >= 0 {
		s.idx.stand(child, parent.tip)
	}
	s.start(child)
}

// lend shares the first n blocks of parent with child; with part the last of them is copied.
func (s *Scheduler) lend(parent, child *Seq, n int, part bool, copyPage func(dst, src int32)) {
	for b := range n {
		for slot := range parent.Pages {
			page := parent.Pages[slot][b]
			if page < 0 {
				continue
			}
			child.held++
			if !part || b < n-1 {
				s.pool.hold(page)
				child.Pages[slot][b] = page
				continue
			}
			if at := s.first(parent, slot); at < slot && parent.Pages[at][b] == page {
				child.Pages[slot][b] = child.Pages[at][b]
				s.pool.hold(child.Pages[at][b])
				continue
			}
			own := s.pool.take()
			copyPage(own, page)
			child.Pages[slot][b] = own
		}
	}
}

// Drop forgets a sequence: the way out of every sequence, whatever its state.
func (s *Scheduler) Drop(q *Seq) {
	if q.running {
		s.stop(q)
		return
	}
	for i, w := range s.waiting {
		if w == q {
			s.waiting = slices.Delete(s.waiting, i, i+1)
			s.stuck = false
			return
		}
	}
}

// Pages gives the number of pages held by sequences, kept by the prefix index alone, and in all.
func (s *Scheduler) Pages() (held, cached, total int) {
	return s.cfg.Pages - s.pool.spare(), s.pool.cached, s.cfg.Pages
}

// Running and Waiting count sequences with and without pages; Flight counts rows.
func (s *Scheduler) Running() int { return len(s.running) }
func (s *Scheduler) Waiting() int { return len(s.waiting) }
func (s *Scheduler) Flight() int  { return s.flight }

// wait puts q among the waiting, by age, after those of its own age.
func (s *Scheduler) wait(q *Seq) {
	s.waiting = insertByAge(s.waiting, q)
	s.stuck = false
}

// start puts q among the running.
func (s *Scheduler) start(q *Seq) {
	q.running = true
	s.running = insertByAge(s.running, q)
	i := len(s.running) - 1
	for s.running[i] != q {
		i--
	}
	s.decode.inserted(i)
	s.guess.inserted(i)
	s.prefill.inserted(i)
}

// stop takes q from the running and gives its pages back, last block first, so that the index evicts the ends of prompts before their heads.
func (s *Scheduler) stop(q *Seq) {
	s.flight -= q.Flight()
	for i, r := range s.running {
		if r == q {
			s.running = slices.Delete(s.running, i, i+1)
			s.decode.removed(i)
			s.guess.removed(i)
			s.prefill.removed(i)
			break
		}
	}
	for b := q.blocks - 1; b >= 0; b-- {
		s.freeBlock(q, b)
	}
	s.idx.leave(q)
	q.reset()
	s.stuck = false
}

func (s *Scheduler) freeBlock(q *Seq, b int) {
	for _, table := range q.Pages {
		if table[b] >= 0 {
			s.pool.release(table[b])
			table[b] = -1
			q.held--
		}
	}
}

// shed gives back the blocks that no position from Computed on sees.
func (s *Scheduler) shed(q *Seq) {
	if q.Window == 0 {
		return
	}
	q.low = max(q.low, min(blocksOf(q.Sinks), q.blocks))
	for q.low < q.blocks && !q.keeps(q.low, q.Computed) {
		s.freeBlock(q, q.low)
		q.low++
		s.stuck = false
	}
}

func insertByAge(list []*Seq, q *Seq) []*Seq {
	list = append(list, q)
	i := len(list) - 1
	for i > 0 && list[i-1].age > q.age {
		list[i] = list[i-1]
		i--
	}
	list[i] = q
	return list
}
