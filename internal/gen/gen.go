package gen

import (
	"context"
	"slices"
	"sync"
	"time"

	"tinyloop/internal/chat"
	"tinyloop/internal/engine"
	"tinyloop/internal/fault"
	"tinyloop/internal/model"
	"tinyloop/internal/tok"
)

// Generator is one loaded model: its tokenizer, template and engine. It is safe for concurrent use.
type Generator struct {
	eng      *engine.Engine
	tok      *tok.Tokenizer
	tmpl     *chat.Template
	info     Info
	lim      Limits
	controls []string
	matchers *matchers
	marks    func() map[tok.ID][]byte
	longest  int // bytes of text that one token stands for at most
	submit   func(context.Context, *engine.Request, engine.Sink) error

	positions func(r *engine.Request, most int) int // of which the KV store can hold keys and values; nil without an engine
	pageBytes int64                                 // of a KV page; 0 = unknown
	now       func() time.Time
}

// New joins a running engine, its tokenizer and its template. info.Context is cut to lim.MaxSeqLen.
func New(e *engine.Engine, t *tok.Tokenizer, tm *chat.Template, info Info, lim Limits) *Generator {
	if lim.MaxSeqLen > 0 && lim.MaxSeqLen < info.Context {
		info.Context = lim.MaxSeqLen
	}
	g := &Generator{eng: e, tok: t, tmpl: tm, info: info, lim: lim, controls: controlTexts(t), longest: longest(t), matchers: newMatchers(t, tm), submit: e.Submit, now: time.Now}
	g.marks = sync.OnceValue(func() map[tok.ID][]byte { return markTexts(t, tm) })
	if e != nil {
		l := e.Limits()
		g.positions = e.Positions
		g.pageBytes = model.PagePositions * info.KVBytesPerToken / int64(max(1, l.Prelude+l.Loops.Default*l.Core+l.Coda))
	}
	return g
}

// Info describes the model.
func (g *Generator) Info() Info { return g.info }

// Tokenizer gives the model's tokenizer.
func (g *Generator) Tokenizer() *tok.Tokenizer { return g.tok }

// Template gives the model's chat template.
func (g *Generator) Template() *chat.Template { return g.tmpl }

// Engine gives the engine that runs the model.
func (g *Generator) Engine() *engine.Engine { return g.eng }

// Generate checks everything, encodes the prompt and submits. When it gives an error nothing has been started: a *fault.Error names the
// field at fault (Invalid, Unsupported, TooLong) or the state of the engine (Busy, Unavailable). ctx bounds the whole life of the stream:
// when it ends, the answer is cancelled. The caller must read the stream to its end or Close it.
func (g *Generator) Generate(ctx context.Context, r *Request) (*Stream, error) {
	start := g.now()
	p, err := g.check(r)
	if err != nil {
		return nil, err
	}
	ids, limit, room, err := g.prompt(r, p)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, &fault.Error{Kind: fault.Canceled, Msg: "the request was cancelled", Err: err}
	}
	walkers := p.walkers(p.choices)
	er := &engine.Request{
		ID:         r.ID,
		Prompt:     ids,
		MaxTokens:  limit,
		Choices:    p.choices,
		Loops:      p.loops,
		Window:     p.window,
		Sinks:      p.sinks,
		Stop:       p.stops,
		IgnoreStop: len(p.stops) == 0,
		MinTokens:  min(r.MinTokens, limit),
		Sampling:   p.params,

		Constraints: constraints(walkers),

		PromptLogprobs: r.Echo && r.Logprobs,
		ByLoop:         r.LogprobsByLoop,
		NoCache:        r.NoCache,

		Mode: p.mode, DraftLoops: p.draft, DraftAhead: p.ahead, Branches: p.fan, Verify: p.verify, Accept: p.accept, Exit: p.exit, KV: p.kv, Residues: p.kvMod,
	}
	if p.timeout > 0 {
		er.Deadline = start.Add(p.timeout)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := newStream(g, r, p, er, room, start, cancel)
	s.hold(g, &p.form, walkers)
	if err := g.submit(ctx, er, s); err != nil {
		cancel()
		return nil, fault.As(err)
	}
	return s, nil
}

// Count gives the prompt ids of a request without generating: what /tokenize-like routes and token counters need. It checks the input only.
func (g *Generator) Count(r *Request) ([]tok.ID, error) {
	if err := g.checkInput(r, nil); err != nil {
		return nil, err
	}
	ids, err := g.encode(r, r.Messages)
	return slices.Clip(ids), err
}
