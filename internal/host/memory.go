package host

import (
	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
	"tinyloop/internal/machine"
	"tinyloop/internal/model"
)

const (
	defaultRows    = 64
	defaultWindows = 8       // full windows that the chosen KV store holds
	fallbackMemory = 4 << 30 // where the machine does not say
)

// scratchOptions sizes the working memory of a model whose weights take the given bytes. The KV store is o.KVBudget bytes; when that is 0, enough for eight
// full windows at the default number of loops and one at the most, but at most a quarter of the machine's memory and what the weights leave of that which is
// free. A store that cannot hold one full window at the default number of loops is refused: such a model could not serve what it promises. So is a model for which
// there is not enough memory.
func scratchOptions(s *model.Spec, kv kernel.Type, weights int64, o Options) (model.Options, error) {
	so := model.Options{Threads: o.Threads, KVType: kv, MaxRows: rows(o), Context: s.Context, MaxLoops: s.Loops.HardMax}
	if o.MaxSeqLen > 0 {
		so.Context = min(so.Context, o.MaxSeqLen)
	}
	if o.MaxLoops > 0 {
		so.MaxLoops = max(min(so.MaxLoops, o.MaxLoops), 1)
	}
	window := windowPages(s, so.Context, min(s.Loops.Default, so.MaxLoops))
	page := s.PageBytes(kv)
	free := o.Memory
	if free == 0 {
		free = machine.Available()
	}
	if least := max(o.KVBudget, window*page); weights+least > free {
		return so, fault.New(fault.Invalid, "memory", "the weights take %s, keys and values %s (one window of %d tokens takes %s), but only %s of memory are free: "+
			"take a smaller number format, a shorter longest sequence or a smaller budget for keys and values, or end other programs",
			SizeText(weights), SizeText(least), so.Context, SizeText(window*page), SizeText(max(free, 0)))
	}
	budget := o.KVBudget
	if budget == 0 {
		want := max(defaultWindows*window, windowPages(s, so.Context, so.MaxLoops))
		budget = min(want*page, memory()/4, free-weights)
	}
	pages := budget / page
	if pages < window {
		return so, fault.New(fault.Invalid, "kv_budget", "keys and values of one window of %d tokens at %d loops need %s (%s each token), but the budget is %s: raise it, or lower the longest sequence",
			so.Context, s.Loops.Default, SizeText(window*page), SizeText(s.KVBytesPerToken(s.Loops.Default, kv)), SizeText(budget))
	}
	so.Pages = int(min(pages, 1<<31-1))
	return so, nil
}

func rows(o Options) int {
	if o.StepRows > 0 {
		return o.StepRows
	}
	return defaultRows
}

// windowPages gives the pages of a sequence that fills the window.
func windowPages(s *model.Spec, context, loops int) int64 {
	return int64((context+model.PagePositions-1)/model.PagePositions) * int64(s.Slots(loops))
}

// memory gives the bytes that this process may use, a modest figure where the system does not say: --kv-budget sets another.
func memory() int64 {
	if n := machine.Memory(); n > 0 {
		return n
	}
	return fallbackMemory
}
