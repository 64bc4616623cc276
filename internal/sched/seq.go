package sched

import "math"

// PageLen is the number of positions of a page.
const PageLen = 16

// Seq is one branch of tokens with its K/V pages. The first group of fields is set by the owner before Add; Tokens may grow afterwards. The
// second group is written by the Scheduler only.
type Seq struct {
	Tokens        []int32 // prompt and output so far: everything that is known
	Loops         int     // core passes of every row
	Window, Sinks int     // Window 0 = full attention
	Limit         int     // most positions that will ever have K/V
	NoCache       bool    // keep out of the prefix index
	Fresh         bool    // compute every position: take nothing from the prefix index (logits of the prompt are still due)
	Drafts        int     // tokens at the end of Tokens that are only guessed: their rows come after everyone's agreed ones and cost nobody pages
	Upto          int     // only positions below it may enter for now; 0 = all
	Share         int     // only positions below it are looked up in and given to the prefix index; 0 = all
	Fold          Fold    // sharing of K/V between loops behind the prompt, whose length Share is then
	Owner         any     // not touched

	Pages     [][]int32 // [slot][block]: page, -1 = none. The outer slice never changes, so rows may share it
	Computed  int       // positions whose K/V are complete in every slot
	Entered   int       // positions whose rows have entered
	Cached    int       // positions found in the prefix index when last admitted
	Preempted int       // times its pages were taken away

	age     int64
	running bool
	folded  bool  // Collapse has been called
	side    bool  // a branch of guesses that hangs on another sequence
	root    int   // of a side: where it branched off; the rows of older positions are the other's
	grant   int   // rows that the step in preparation gives it
	bulk    int   // positions below it entered as chunks of a prompt
	blocks  int   // blocks with a place in the table, released ones included
	low     int   // blocks below low are released, but for those of the sinks
	reserve int   // pages that admission promised it
	held    int   // table entries that hold a page
	tip     int32 // index node of the last indexed block, -1 = none
	indexed int   // blocks indexed
}

// Flight is the number of its rows that have entered and are not complete.
func (q *Seq) Flight() int { return q.Entered - max(q.Computed, q.root) }

// Running says whether the sequence holds pages; otherwise it waits.
func (q *Seq) Running() bool { return q.running }

// pending is the number of known positions that have not entered.
func (q *Seq) pending() int {
	n := min(len(q.Tokens), q.Limit)
	if q.Upto > 0 {
		n = min(n, q.Upto)
	}
	return max(0, n-q.Entered)
}

// shared is how many of its positions the prefix index may know.
func (q *Seq) shared() int {
	if q.Share > 0 {
		return q.Share
	}
	return math.MaxInt
}

// reset is the state of a sequence without K/V.
func (q *Seq) reset() {
	q.Computed, q.Entered, q.running, q.grant, q.folded = 0, 0, false, 0, false
	q.blocks, q.low, q.reserve, q.held, q.tip, q.indexed, q.bulk, q.root = 0, 0, 0, 0, -1, 0, 0, 0
}

// keeps says whether block b is visible to a row at position pos or later, or to the rows between.
func (q *Seq) keeps(b, pos int) bool {
	return q.Window == 0 || b*PageLen < q.Sinks || b*PageLen+PageLen-1 > pos-q.Window
}

// grow makes room for n blocks in the table.
func (q *Seq) grow(slots, n int) {
	if q.Pages == nil {
		q.Pages = make([][]int32, slots)
	}
	have := len(q.Pages[0])
	if n <= have {
		return
	}
	size := max(n, min(2*have, blocksOf(q.Limit)), min(blocksOf(q.Limit), 64))
	flat := make([]int32, slots*size)
	for i := range flat {
		flat[i] = -1
	}
	for i := range q.Pages {
		row := flat[i*size : (i+1)*size : (i+1)*size]
		copy(row, q.Pages[i])
		q.Pages[i] = row
	}
}

func blocksOf(positions int) int { return (positions + PageLen - 1) / PageLen }

// peak is the most blocks that a sequence holds at a time while it computes up to limit positions one by one: with a window, the sinks, the
// blocks of the last window-1 positions, and the one being written.
func peak(limit, window, sinks int) int {
	all := blocksOf(limit)
	if window == 0 {
		return all
	}
	return min(all, blocksOf(sinks)+blocksOf(window-1)+1)
}
