package engine

import (
	"tinyloop/internal/fault"
	"tinyloop/internal/model"
	"tinyloop/internal/sched"
)

// folding is how far the K/V of a choice have been reduced to what its loops share.
type folding struct {
	folded int // positions
	due    bool
}

func foldOf(r *Request) sched.Fold {
	switch r.KV {
	case KVLast:
		return sched.Fold{Mod: 1}
	case KVMod:
		return sched.Fold{Mod: r.Residues}
	case KVMean:
		return sched.Fold{Mean: true}
	}
	return sched.Fold{}
}

func validateKV(r *Request) error {
	switch {
	case r.KV == KVPerLoop:
		return nil
	case r.KV > KVMod:
		return fault.New(fault.Invalid, "kv_mode", "kv_mode is %d, allowed are 0 to %d", r.KV, KVMod)
	case r.KV == KVMod && (r.Residues < 1 || r.Residues > 1<<16):
		return fault.New(fault.Invalid, "kv_mode", "kv_mode mod:%d: the number must be 1 or more", r.Residues)
	case r.Mode != Autoregressive:
		return fault.New(fault.Unsupported, "kv_mode", "kv_mode other than per_loop excludes a mode that guesses: a guess would see K/V that earlier positions have not finished")
	case r.Exit.Rule != NoExit:
		return fault.New(fault.Unsupported, "kv_mode", "kv_mode other than per_loop excludes exit: a position that leaves early has no last loop")
	}
	return nil
}

// setFold prepares a choice whose loops share K/V. With one loop there is nothing to share.
func (c *choice) setFold(f sched.Fold) {
	if f == (sched.Fold{}) || c.seq.Loops < 2 {
		return
	}
	c.seq.Fold = f
	c.serial()
	c.seq.NoCache = c.seq.NoCache || f.Mean // pages of the index must not change
}

// fold reduces the K/V of the positions that have become complete. Decoded positions enter one by one, so none is in flight.
func (e *Engine) fold(c *choice) {
	c.due = false
	q := &c.seq
	if c.done || !q.Running() {
		return
	}
	if !q.Fold.Mean {
		if c.folded == 0 {
			e.sch.Collapse(q)
		}
		c.folded = q.Computed
		return
	}
	for c.folded < q.Computed {
		b := c.folded / model.PagePositions
		end := min(q.Computed, (b+1)*model.PagePositions)
		e.average(q, b, c.folded%model.PagePositions, end-b*model.PagePositions)
		if c.folded = end; end == (b+1)*model.PagePositions {
			e.sch.Merge(q, b)
		}
	}
}

// average makes positions [from, to) of a block the mean over the loops, in the pages of every loop.
func (e *Engine) average(q *sched.Seq, b, from, to int) {
	for k := range e.lim.Core {
		e.pages = e.pages[:0]
		for loop := range q.Loops {
			if page := q.Pages[e.lim.Prelude+loop*e.lim.Core+k][b]; page >= 0 {
				e.pages = append(e.pages, page)
			}
		}
		if len(e.pages) > 0 {
			e.r.MeanCells(e.pages, from, to)
		}
	}
}
