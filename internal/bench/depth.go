package bench

import (
	"context"
	"fmt"
	"time"

	"tinyloop/internal/arch"
	"tinyloop/internal/engine"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// This file measures what depth costs where it is not a mode: looped layers against untied ones, answers of many depths together, sharing of K/V.

// CacheRow compares a looped core with as many untied layers as it makes passes: the same work, other bytes.
type CacheRow struct {
	Quant    string  `json:"quant"`
	Core     int64   `json:"core_bytes"`    // of the looped model
	Untied   int64   `json:"untied_bytes"`  // of the layers of the other
	Looped   float64 `json:"looped_ms"`     // a token, median
	Layers   float64 `json:"untied_ms"`     //
	Ratio    float64 `json:"ratio"`         // of medians: above 1 the loop is faster
	BestOver float64 `json:"ratio_fastest"` // of the fastest tenths
}

// MixedRow is answers of many depths, together and otherwise.
type MixedRow struct {
	Quant    string  `json:"quant"`
	Core     int64   `json:"core_bytes"`
	Together float64 `json:"together_tokens_per_second"`
	Grouped  float64 `json:"grouped_tokens_per_second"` // one depth after the other
	OneByOne float64 `json:"one_by_one_tokens_per_second"`
}

// KVRow is one way of keeping K/V.
type KVRow struct {
	Mode     string  `json:"kv_mode"`
	Type     string  `json:"kv_type"`
	Context  int     `json:"context"`
	Pages    int     `json:"pages"` // held at the end of the answer
	Bytes    int64   `json:"bytes"`
	PerToken float64 `json:"ms_per_token"`
}

// opened loads a model of a file, which it closes, and says in what format its weights are.
func opened(path string) (*model.Model, string, error) {
	f, err := tensorfile.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	var m *model.Model
	err = f.Guard(func() (err error) { m, err = arch.Load(f); return err })
	return m, arch.InfoOf(f).Quant, err
}

// Cache decodes with a looped model and one of untied layers, in turn.
func Cache(ctx context.Context, looped, untied string, threads, tokens int) (*CacheRow, error) {
	var beds [2]*bed
	r := &CacheRow{}
	for i, path := range [...]string{looped, untied} {
		m, _, err := opened(path)
		if err != nil {
			return nil, err
		}
		defer m.Close()
		b := &bed{m: m, loops: m.Spec.Loops.Default, contexts: []int{streamPrompt}}
		if err := b.allocate(&Options{Tokens: tokens, KVType: kernel.F32}, threads); err != nil {
			return nil, err
		}
		defer b.close()
		if err := b.fill(ctx, &b.lanes[0], 0, streamPrompt); err != nil {
			return nil, err
		}
		beds[i] = b
	}
	m := beds[0].m
	r.Core = readPerToken(m, 2) - readPerToken(m, 1)
	m = beds[1].m
	r.Untied = m.Bytes()
	var times [2][]float64
	for i := range tokens {
		for k, b := range beds {
			if ctx.Err() != nil {
				return nil, canceled()
			}
			b.step(1, streamPrompt+1+i)
			b.step(1, streamPrompt+1+i) // the first one brings the weights back that the other model has pushed out
			begin := time.Now()
			b.step(1, streamPrompt+1+i)
			times[k] = append(times[k], ms(time.Since(begin)))
		}
	}
	r.Looped, r.Layers = quantile(times[0], 0.5), quantile(times[1], 0.5)
	r.Ratio, r.BestOver = r.Layers/r.Looped, quantile(times[1], 0.1)/quantile(times[0], 0.1)
	return r, nil
}

// Mixed answers 16 requests of 2 to 16 loops, two of each even number: all together, one depth after the other, and one after another.
func Mixed(ctx context.Context, path string, threads, tokens int) (*MixedRow, error) {
	m, _, err := opened(path)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	const deepest, prompt = 16, 8
	blocks := (prompt+tokens)/model.PagePositions + 1
	s, err := m.NewScratch(model.Options{Threads: threads, KVType: kernel.F32, Pages: 16 * blocks * m.Spec.Slots(deepest), MaxRows: 128, MaxLoops: deepest})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	e := engine.New(s, engine.Config{NoPrefixCache: true, StepRows: 128})
	defer e.Close()
	var requests []*engine.Request
	for i := range 16 {
		q := &engine.Request{Loops: 2 + i/2*2, MaxTokens: tokens, IgnoreStop: true}
		for k := range prompt {
			q.Prompt = append(q.Prompt, token(i*prompt+k, m.Spec.Vocab))
		}
		requests = append(requests, q)
	}
	r := &MixedRow{Core: readPerToken(m, 2) - readPerToken(m, 1)}
	for range 2 { // the first round wakes everything up
		for _, way := range []struct {
			at    int
			to    *float64
			label string
		}{{16, &r.Together, "together"}, {2, &r.Grouped, "grouped"}, {1, &r.OneByOne, "one by one"}} {
			begin := time.Now()
			for lo := 0; lo < 16; lo += way.at {
				if err := answerAll(ctx, e, requests[lo:lo+way.at]); err != nil {
					return nil, err
				}
			}
			*way.to = max(*way.to, float64(16*tokens)/time.Since(begin).Seconds())
		}
	}
	return r, nil
}

// answerAll runs requests to their ends.
func answerAll(ctx context.Context, e *engine.Engine, requests []*engine.Request) error {
	ends := make([]ending, len(requests))
	for i, q := range requests {
		ends[i].done = make(chan struct{})
		if err := e.Submit(ctx, q, &ends[i]); err != nil {
			return err
		}
	}
	for i := range ends {
		if <-ends[i].done; ends[i].st.Err != nil {
			return ends[i].st.Err
		}
	}
	if ctx.Err() != nil {
		return canceled()
	}
	return nil
}

// weighing is a sink that notes the pages in use before the answer ends.
type weighing struct {
	ending
	e     *engine.Engine
	pages int
}

func (w *weighing) Finish(n int, why engine.Why, st engine.Stats) {
	w.pages = w.e.Health().PagesUsed
	w.ending.Finish(n, why, st)
}

// Policies decodes after a long prompt with each way of sharing K/V between the loops and each format.
func Policies(ctx context.Context, path string, threads, context_, tokens int, types []kernel.Type) ([]KVRow, error) {
	m, _, err := opened(path)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	var rows []KVRow
	for _, typ := range types {
		loops := m.Spec.Loops.Default
		s, err := m.NewScratch(model.Options{Threads: threads, KVType: typ, Pages: ((context_+tokens)/model.PagePositions + 2) * m.Spec.Slots(loops), MaxRows: 64, MaxLoops: loops})
		if err != nil {
			return nil, err
		}
		e := engine.New(s, engine.Config{NoPrefixCache: true})
		for _, p := range []struct {
			name string
			kv   engine.KV
			mod  int
		}{{"per_loop", engine.KVPerLoop, 0}, {"mod:4", engine.KVMod, 4}, {"mod:2", engine.KVMod, 2}, {"last", engine.KVLast, 0}, {"mean", engine.KVMean, 0}} {
			q := &engine.Request{Loops: loops, MaxTokens: tokens, IgnoreStop: true, KV: p.kv, Residues: p.mod}
			for k := range context_ {
				q.Prompt = append(q.Prompt, token(k, m.Spec.Vocab))
			}
			w := &weighing{ending: ending{done: make(chan struct{})}, e: e}
			if err = e.Submit(ctx, q, w); err == nil {
				<-w.done
				err = w.st.Err
			}
			if err != nil {
				break
			}
			rows = append(rows, KVRow{Mode: p.name, Type: typ.String(), Context: context_, Pages: w.pages, Bytes: int64(w.pages) * m.Spec.PageBytes(typ), PerToken: ms(w.st.Decode) / float64(tokens-1)})
		}
		e.Close()
		s.Close()
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// DepthReport is the result of tinyloop bench depth.
type DepthReport struct {
	Turns []*ModesReport `json:"turns,omitempty"`
	Modes []*ModesReport `json:"modes,omitempty"`
	Cache []*CacheRow    `json:"cache,omitempty"`
	Mixed []*MixedRow    `json:"mixed,omitempty"`
	KV    []KVRow        `json:"kv,omitempty"`
	Large []*ModesReport `json:"large,omitempty"`
}

// Markdown gives the report as tables.
func (r *DepthReport) Markdown() string {
	b := ""
	add := func(format string, a ...any) { b += fmt.Sprintf(format, a...) }
	if len(r.Turns) > 0 {
		add("| core | format | one row, ms | GB/s |")
		for _, c := range r.Turns[0].Turns[1:] {
			add(" %d |", c.Rows)
		}
		add("\n|---|---|---|---|")
		for range r.Turns[0].Turns[1:] {
			add("---|")
		}
		add("\n")
		for _, t := range r.Turns {
			one := t.Turns[0].Best
			add("| %s | %s | %.3f | %.1f |", size(t.Core), t.Quant, one, float64(t.Core)/one/1e6)
			for _, c := range t.Turns[1:] {
				add(" %.2f |", c.Best/one)
			}
			add("\n")
		}
		add("\n")
	}
	for _, list := range [][]*ModesReport{r.Modes, r.Large} {
		if len(list) == 0 {
			continue
		}
		add("| core | format | loops | right guesses | plain, ms a token | speculative | tree | wavefront | auto | peak / estimate, MiB |\n|---|---|---|---|---|---|---|---|---|---|\n")
		for _, m := range list {
			for i := 0; i+4 < len(m.Modes); i += 5 {
				row := m.Modes[i : i+5]
				add("| %s | %s | %d | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %d / %d |\n", size(m.Core), m.Quant, m.Loops, row[0].Accept, row[0].PerToken.Median,
					row[1].OverPlain, row[2].OverPlain, row[3].OverPlain, row[4].OverPlain, (m.Peak-m.Before)>>20, m.Estimate>>20)
			}
		}
		add("\n")
	}
	if len(r.Cache) > 0 {
		add("| format | looped core | untied | looped, ms a token | untied | ratio | of the fastest |\n|---|---|---|---|---|---|---|\n")
		for _, c := range r.Cache {
			add("| %s | %s | %s | %.2f | %.2f | %.2f | %.2f |\n", c.Quant, size(c.Core), size(c.Untied), c.Looped, c.Layers, c.Ratio, c.BestOver)
		}
		add("\n")
	}
	if len(r.Mixed) > 0 {
		add("| core | format | together, tokens/s | by depth | one by one |\n|---|---|---|---|---|\n")
		for _, m := range r.Mixed {
			add("| %s | %s | %.1f | %.1f | %.1f |\n", size(m.Core), m.Quant, m.Together, m.Grouped, m.OneByOne)
		}
		add("\n")
	}
	if len(r.KV) > 0 {
		add("| kv_mode | format | context | pages | MiB | ms a token |\n|---|---|---|---|---|---|\n")
		for _, k := range r.KV {
			add("| %s | %s | %d | %d | %.1f | %.3f |\n", k.Mode, k.Type, k.Context, k.Pages, float64(k.Bytes)/(1<<20), k.PerToken)
		}
	}
	return b
}
