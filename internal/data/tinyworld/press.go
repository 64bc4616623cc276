package tinyworld

import (
	"bufio"
	"context"
	"io"
	"sync"

	"tinyloop/internal/fault"
)

// block is how many documents of a family are made at a time.
const block = 64

// press writes a mixture of families.
type press struct {
	w       *World
	o       *Options
	lanes   []lane
	threads int
}

// lane is one family of a mixture: documents made and not yet written.
type lane struct {
	f      *family
	weight int64
	made   uint64
	ready  [][]byte
	count  Count
}

func (p *press) run(ctx context.Context, out io.Writer, progress Progress) (map[string]Count, error) {
	w := bufio.NewWriterSize(out, 1<<18)
	docs, bytes := 0, int64(0)
	for (p.o.Docs <= 0 || docs < p.o.Docs) && (p.o.Bytes <= 0 || bytes < p.o.Bytes) {
		l := p.behind()
		if len(l.ready) == 0 {
			if ctx.Err() != nil {
				return p.counts(), fault.New(fault.Canceled, "", "stopped after %d documents", docs)
			}
			if err := p.refill(); err != nil {
				return p.counts(), err
			}
			if progress != nil {
				progress(docs, bytes)
			}
		}
		line := l.ready[0]
		l.ready = l.ready[1:]
		if _, err := w.Write(line); err != nil {
			return p.counts(), err
		}
		docs++
		bytes += int64(len(line))
		l.count.Docs++
		l.count.Bytes += int64(len(line))
	}
	return p.counts(), w.Flush()
}

// behind gives the family with the least written for its weight, the first one of equals.
func (p *press) behind() *lane {
	best := &p.lanes[0]
	for i := range p.lanes {
		if l := &p.lanes[i]; l.count.Bytes*best.weight < best.count.Bytes*l.weight {
			best = l
		}
	}
	return best
}

// refill makes the next block of every family that has run dry.
func (p *press) refill() error {
	type job struct {
		l *lane
		i int
	}
	var jobs []job
	for k := range p.lanes {
		l := &p.lanes[k]
		if len(l.ready) > 0 {
			continue
		}
		l.ready = make([][]byte, block)
		for i := range block {
			jobs = append(jobs, job{l, i})
		}
	}
	errs := make([]error, p.threads)
	var wg sync.WaitGroup
	for t := range p.threads {
		wg.Go(func() {
			for k := t; k < len(jobs) && errs[t] == nil; k += p.threads {
				j := jobs[k]
				j.l.ready[j.i], errs[t] = p.w.make(p.o, j.l.f, j.l.made+uint64(j.i)).AppendJSON(nil)
			}
		})
	}
	wg.Wait()
	for k := 0; k < len(jobs); k += block {
		jobs[k].l.made += block
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *press) counts() map[string]Count {
	m := map[string]Count{}
	for i := range p.lanes {
		m[p.lanes[i].f.name] = p.lanes[i].count
	}
	return m
}
