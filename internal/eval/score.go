package eval

import (
	"context"
	"strconv"
	"strings"

	"tinyloop/internal/data"
	"tinyloop/internal/engine"
	"tinyloop/internal/fault"
	"tinyloop/internal/sample"
	"tinyloop/internal/tok"
)

// scorer collects the log-probabilities of a prompt's tokens.
type scorer struct {
	lp   []float32
	best []bool // the token is the most probable one
	why  engine.Why
	err  error
	done chan struct{}
}

func (s *scorer) Started() {}

func (s *scorer) PromptToken(i int, c sample.Choice) {
	s.lp[i] = c.Logprob
	s.best[i] = len(c.Top) > 0 && c.Top[0].ID == c.ID
}

func (s *scorer) Token(int, sample.Choice) bool { return false }

func (s *scorer) Finish(_ int, why engine.Why, st engine.Stats) {
	s.why, s.err = why, st.Err
	close(s.done)
}

// score gives the log-probability of every token of ids after the ones before it, and whether it was the most probable one. Entry 0 has none.
func (s *Subject) score(ctx context.Context, ids []tok.ID, loops int) ([]float32, []bool, error) {
	sc := &scorer{lp: make([]float32, len(ids)), best: make([]bool, len(ids)), done: make(chan struct{})}
	r := &engine.Request{Prompt: ids, Loops: loops, PromptLogprobs: true, NoCache: true, Sampling: sample.Params{Logprobs: true, Top: 1}}
	if err := s.Gen.Engine().Submit(ctx, r, sc); err != nil {
		return nil, nil, err
	}
	<-sc.done
	switch {
	case sc.err != nil:
		return nil, nil, sc.err
	case sc.why == engine.Cancel:
		return nil, nil, fault.New(fault.Canceled, "", "interrupted")
	}
	return sc.lp, sc.best, nil
}

// window is a stretch of a document that is read in one piece. Tokens [from, len(ids)) that lie in learn count; what is before is what they are
// seen after.
type window struct {
	row   lossKey
	ids   []tok.ID
	learn []data.Range // within ids
	from  int
	first bool // of its document
	bytes int  // of text beyond those of the counted tokens, where the tokenizer changes it
}

// windows cuts a document so that each token is counted once and, from the second window on, sees at least half a window.
//
//	tokens    0 ────────────── W
//	                  W/2 ─────╂──────── 3W/2      counted: W … 3W/2
//	                            W ───────╂──────── 2W
func windows(row lossKey, ids []tok.ID, learn []data.Range, size int) []window {
	var out []window
	for lo, done := 0, 0; done < len(ids); {
		hi := min(lo+size, len(ids))
		w := window{row: row, ids: ids[lo:hi], from: done - lo, first: lo == 0}
		for _, r := range learn {
			a, b := max(int(r.Start), done, lo), min(int(r.End), hi)
			if a < b {
				w.learn = append(w.learn, data.Range{Start: uint32(a - lo), End: uint32(b - lo)})
			}
		}
		if len(w.learn) > 0 || w.first {
			out = append(out, w)
		}
		done = hi
		lo = hi - size + max(size/2, 1)
	}
	return out
}

// lossKey is a row of the table of losses.
type lossKey struct{ set, group string }

// tally is a sum over tokens.
type tally struct {
	docs, tokens, bytes, right int
	nats                       float64
}

// paper is what one subject reads for the loss.
type paper struct {
	s       *Subject
	windows []window
}

// newPaper encodes the documents of the sets, at most o.Docs of each group.
func newPaper(s *Subject, sets []*Set, o *Options) (*paper, error) {
	p := &paper{s: s}
	for _, set := range sets {
		var err error
		switch {
		case set.Raw != "":
			err = p.raw(set)
		case len(set.Learned) > 0:
			for _, i := range choosing(len(set.Learned), o.Docs, o.Seed, func(i int) string { return set.Learned[i].Group }) {
				x := &set.Learned[i]
				p.add(lossKey{set.Name, x.Group}, x.IDs, x.Learn)
			}
		case !o.NoLoss:
			err = p.docs(set, o)
		}
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *paper) docs(set *Set, o *Options) error {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	for _, i := range choosing(len(set.Docs), o.Docs, o.Seed, func(i int) string { return set.Docs[i].Group() }) {
		var t data.Tokens
		if err := p.s.coderOf().Encode(set.Docs[i], &t); err != nil {
			return err
		}
		p.add(lossKey{set.Name, set.Docs[i].Group()}, t.IDs, t.Learn)
	}
	return nil
}

func (p *paper) add(k lossKey, ids []tok.ID, learn []data.Range) {
	p.windows = append(p.windows, windows(k, ids, learn, p.s.Gen.Info().Context)...)
}

// raw reads a text as one document. Its first token counts where the tokenizer has a token to begin with; else it and its bytes are left out.
func (p *paper) raw(set *Set) error {
	t := p.s.Gen.Tokenizer()
	var ids []tok.ID
	if start := startOf(t); start >= 0 {
		ids = append(ids, start)
	}
	begin := len(ids)
	ids = t.Encode(ids, set.Raw)
	if len(ids) < 2 {
		return fault.New(fault.Invalid, "text", "%s: %d bytes of text are too few to measure", set.Name, len(set.Raw))
	}
	all := 0
	for _, id := range ids[begin:] {
		all += len(t.Bytes(id))
	}
	ws := windows(lossKey{set.Name, "text"}, ids, []data.Range{{Start: 1, End: uint32(len(ids))}}, p.s.Gen.Info().Context)
	ws[len(ws)-1].bytes = len(set.Raw) - all
	p.windows = append(p.windows, ws...)
	return nil
}

// startOf gives the token that texts begin with, or −1.
func startOf(t *tok.Tokenizer) tok.ID {
	for _, id := range []tok.ID{t.BOS(), t.EOS(), t.EOT()} {
		if id >= 0 {
			return id
		}
	}
	return -1
}

// read gives the loss of every row at a number of loops, of the windows that were complete when ctx ended.
func (p *paper) read(ctx context.Context, loops, par int, tick func()) (map[lossKey]*tally, error) {
	parts := make([]*tally, len(p.windows))
	err := each(ctx, len(p.windows), par, func(ctx context.Context, i int) error {
		defer tick()
		w := &p.windows[i]
		t := &tally{bytes: w.bytes}
		parts[i] = t
		if w.first {
			t.docs = 1
		}
		if len(w.learn) == 0 {
			return nil
		}
		lp, best, err := p.s.score(ctx, w.ids, loops)
		if err != nil {
			parts[i] = nil
			return err
		}
		p.count(w, t, lp, best)
		return nil
	})
	sums := map[lossKey]*tally{}
	for i, t := range parts { // in their order, so that the sums are the same every time
		if t == nil {
			continue
		}
		k := p.windows[i].row
		if sums[k] == nil {
			sums[k] = &tally{}
		}
		sums[k].add(t)
	}
	return sums, err
}

func (p *paper) count(w *window, t *tally, lp []float32, best []bool) {
	for _, r := range w.learn {
		for i := max(int(r.Start), 1); i < int(r.End); i++ {
			t.tokens++
			t.bytes += len(p.s.Gen.Tokenizer().Bytes(w.ids[i]))
			t.nats -= float64(lp[i])
			if best[i] {
				t.right++
			}
		}
	}
}

func (t *tally) add(o *tally) {
	t.docs += o.docs
	t.tokens += o.tokens
	t.bytes += o.bytes
	t.right += o.right
	t.nats += o.nats
}

// splitGroup takes family and difficulty out of a document's group; the difficulty is −1 where there is none.
func splitGroup(g string) (family string, difficulty int) {
	f, d, ok := strings.Cut(g, "/")
	n, err := strconv.Atoi(d)
	if !ok || err != nil {
		return g, -1
	}
	return f, n
}
