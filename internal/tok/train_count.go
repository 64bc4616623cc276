package tok

import (
	"context"
	"sync"

	"tinyloop/internal/fault"
)

// wordCounts are distinct words and how often each occurs.
type wordCounts struct {
	index  map[string]int32
	words  []string
	counts []int64
	bytes  int64 // of all distinct words
}

func newWordCounts() *wordCounts { return &wordCounts{index: map[string]int32{}} }

// add counts n more of word, which is copied if it is new.
func (w *wordCounts) add(word []byte, n int64) {
	if i, ok := w.index[string(word)]; ok {
		w.counts[i] += n
		return
	}
	s := string(word)
	w.index[s] = int32(len(w.words))
	w.words, w.counts = append(w.words, s), append(w.counts, n)
	w.bytes += int64(len(s))
}

// countWords reads all texts and counts their words on o.Threads workers. Sums do not depend on who counted what.
func countWords(ctx context.Context, o *TrainOptions, split splitter, texts func(yield func(string) error) error) (*wordCounts, int64, error) {
	var specials matcher
	for _, list := range [][]string{o.Control, o.Markers} {
		for _, text := range list {
			specials.add(text, 0)
		}
	}
	specials.sort()
	c := &counting{ctx: ctx, o: o, batches: make(chan []string)}
	parts := make([]*wordCounts, o.Threads)
	var wg sync.WaitGroup
	for i := range parts {
		parts[i] = newWordCounts()
		wg.Go(func() {
			for batch := range c.batches {
				for _, text := range batch {
					parts[i].text(split, &specials, text)
				}
			}
		})
	}
	err := texts(c.add)
	if err == nil {
		err = c.send()
	}
	close(c.batches)
	wg.Wait()
	if err != nil {
		return nil, 0, err
	}
	return gather(parts), c.read, nil
}

// gather adds up what the workers counted.
func gather(parts []*wordCounts) *wordCounts {
	all := parts[0]
	for _, p := range parts[1:] {
		for i, word := range p.words {
			if j, ok := all.index[word]; ok {
				all.counts[j] += p.counts[i]
				continue
			}
			all.index[word] = int32(len(all.words))
			all.words, all.counts = append(all.words, word), append(all.counts, p.counts[i])
			all.bytes += int64(len(word))
		}
	}
	all.index = nil
	return all
}

// counting gathers texts into batches.
type counting struct {
	ctx     context.Context
	o       *TrainOptions
	batches chan []string
	batch   []string
	size    int
	read    int64
}

func (c *counting) add(text string) error {
	c.batch = append(c.batch, text)
	c.size += len(text)
	c.read += int64(len(text))
	if c.size < batchBytes {
		return nil
	}
	return c.send()
}

func (c *counting) send() error {
	select {
	case <-c.ctx.Done():
		return fault.New(fault.Canceled, "", "stopped")
	case c.batches <- c.batch:
	}
	c.batch, c.size = nil, 0
	c.o.Progress(TrainProgress{Bytes: c.read, Target: c.o.Vocab})
	return nil
}

// text counts the words of a text between its control tokens and markers.
func (w *wordCounts) text(split splitter, specials *matcher, text string) {
	count := func(word []byte) { w.add(word, 1) }
	done := 0
	for i := 0; len(specials.texts) > 0 && i < len(text); i++ {
		if !specials.first[text[i]] {
			continue
		}
		if _, n := specials.longest(text[i:]); n > 0 {
			split.pieces([]byte(text[done:i]), 0, count)
			done = i + n
			i = done - 1
		}
	}
	split.pieces([]byte(text[done:]), 0, count)
}

// pieces cuts text by the patterns from level on, as Encode does, and yields each piece.
func (sp splitter) pieces(text []byte, level int, yield func(piece []byte)) {
	if len(text) == 0 {
		return
	}
	if level == len(sp) {
		yield(text)
		return
	}
	s := &sp[level]
	if s.re == nil {
		for len(text) > 0 {
			n := s.scan.next(text)
			sp.pieces(text[:n], level+1, yield)
			text = text[n:]
		}
		return
	}
	done := 0
	for _, m := range s.spans(text) {
		sp.pieces(text[done:m[0]], level+1, yield)
		sp.pieces(text[m[0]:m[1]], level+1, yield)
		done = m[1]
	}
	sp.pieces(text[done:], level+1, yield)
}
