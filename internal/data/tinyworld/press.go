package tinyworld

import (
	"bufio"
	"context"
	"io"
	"sync"

	"tinyloop/internal/data"
	"tinyloop/internal/fault"
)

// block is how many documents of a family are made at a time.
const block = 64

// made is a document ready to be written.
type made struct {
	line []byte
	text int64
}

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
	next   uint64 // number of the next document to make
	ready  []made
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
		d := l.ready[0]
		l.ready = l.ready[1:]
		if _, err := w.Write(d.line); err != nil {
			return p.counts(), err
		}
		docs++
		bytes += int64(len(d.line))
		l.count.Docs++
		l.count.Text += d.text
		l.count.Bytes += int64(len(d.line))
	}
	return p.counts(), w.Flush()
}

// behind gives the family with the least written for its weight, the first one of equals.
func (p *press) behind() *lane {
	best := &p.lanes[0]
	for i := range p.lanes {
		if l := &p.lanes[i]; l.count.Text*best.weight < best.count.Text*l.weight {
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
		l.ready = make([]made, block)
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
				d := p.w.make(p.o, j.l.f, j.l.next+uint64(j.i))
				out := &j.l.ready[j.i]
				out.text = textBytes(d)
				out.line, errs[t] = d.AppendJSON(nil)
			}
		})
	}
	wg.Wait()
	for k := 0; k < len(jobs); k += block {
		jobs[k].l.next += block
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// textBytes is how much of a document a model reads.
func textBytes(d *data.Doc) int64 {
	n := len(d.Text) + len(d.Tools)
	for _, m := range d.Messages {
		n += len(m.Content)
		for _, c := range m.ToolCalls {
			n += len(c.Function.Name) + len(c.Function.Arguments)
		}
	}
	return int64(n)
}

func (p *press) counts() map[string]Count {
	m := map[string]Count{}
	for i := range p.lanes {
		m[p.lanes[i].f.name] = p.lanes[i].count
	}
	return m
}
