package serve

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tinyloop/internal/dialect"
	"tinyloop/internal/fault"
	"tinyloop/internal/gen"
	"tinyloop/internal/host"
)

// run is one generation request on its way: the decoded job, the streams of its prompts, and what was sent.
type run struct {
	s       *Server
	x       *exchange
	job     *dialect.Job
	ctx     context.Context
	streams []*gen.Stream
	batches chan batch

	out       []byte // encoded, not sent yet
	committed bool   // the headers of a stream are out
	open      int    // streams that have not ended
	gaps      prometheus.Observer
}

// batch is what one stream had new. The receiver is done with it before it receives the next one.
type batch struct {
	prompt int
	events []gen.Event
	err    error
}

// generate is the one path from a body to an answer, whatever the dialect. Everything that can be refused is refused before the first byte.
func (s *Server) generate(x *exchange, r *http.Request, route dialect.Route) {
	job, err := route.Decode(x.call)
	if err != nil {
		s.fail(x, err)
		return
	}
	m, release, err := s.host.Get(job.Model)
	if err != nil {
		s.fail(x, err)
		return
	}
	defer release()
	x.model, x.outcome = m.Name, "rejected"
	defer func() { s.metrics.generation(x, s.cfg.Now().Sub(x.start).Seconds()) }()

	ctx, cancel := context.WithCancelCause(r.Context())
	unhook := context.AfterFunc(s.stop, func() { cancel(errDraining) })
	defer unhook()
	var pumps sync.WaitGroup
	defer pumps.Wait()
	defer cancel(nil)

	g := &run{s: s, x: x, job: job, ctx: ctx, batches: make(chan batch), gaps: s.metrics.interToken.WithLabelValues(m.Name)}
	if err := g.admit(m); err != nil {
		s.fail(x, dialect.Rename(err, job.Rename))
		return
	}
	for i, st := range g.streams {
		defer st.Close()
		pumps.Go(func() { pump(ctx, i, st, g.batches) })
	}
	g.serve(m)
}

// admit submits every prompt of the job, or none of them.
func (g *run) admit(m *host.Model) error {
	for i, r := range g.job.Requests {
		if r.Seed == nil {
			r.Seed = freshSeed()
		}
		st, err := m.Generate(g.ctx, r)
		if err != nil {
			for _, st := range g.streams {
				st.Close()
			}
			if g.job.Listed {
				return dialect.Element(err, i)
			}
			return err
		}
		g.streams = append(g.streams, st)
		g.x.prompt += len(st.Prompt())
	}
	g.open = len(g.streams)
	return nil
}

// freshSeed is a random seed of 53 bits: the seed is told in the answer, and clients whose numbers are floats must be able to send it back.
func freshSeed() *uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	seed := binary.LittleEndian.Uint64(b[:]) >> 11
	return &seed
}

// pump carries a stream's events to the request's goroutine, in two buffers that take turns.
func pump(ctx context.Context, prompt int, st *gen.Stream, to chan<- batch) {
	var bufs [2][]gen.Event
	for k := 0; ; k ^= 1 {
		events, err := st.Next(ctx, bufs[k][:0])
		bufs[k] = events
		select {
		case to <- batch{prompt, events, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// serve turns batches into bytes until all streams have ended or something breaks.
func (g *run) serve(m *host.Model) {
	g.out = g.job.Encoder.Begin(g.out, g.started(m))
	ping := time.NewTimer(g.s.cfg.PingEvery)
	defer ping.Stop()
	for g.open > 0 {
		select {
		case b := <-g.batches:
			if err := g.take(&b); err != nil {
				g.broken(err)
				return
			}
		case <-ping.C:
			if g.job.Stream {
				g.out = append(g.out, ": ping\n\n"...)
			}
		case <-g.ctx.Done():
			g.broken(context.Cause(g.ctx))
			return
		}
		if g.open == 0 {
			break
		}
		if g.job.Stream && len(g.out) > 0 {
			if err := g.send(); err != nil {
				g.gone(err)
				return
			}
			ping.Reset(g.s.cfg.PingEvery)
		}
	}
	g.out = g.job.Encoder.End(g.out)
	if !g.job.Stream {
		g.s.whole(g.x, append(g.out, '\n'))
		return
	}
	if err := g.send(); err != nil {
		g.gone(err)
	}
}

func (g *run) started(m *host.Model) *dialect.Started {
	st := &dialect.Started{Model: m.Name, Info: m.Info(), Tokenizer: m.Tokenizer()}
	for _, s := range g.streams {
		st.Prompts = append(st.Prompts, dialect.Prompt{IDs: s.Prompt(), Seed: s.Seed(), MaxTokens: s.MaxTokens(), Warnings: s.Warnings()})
	}
	return st
}

// take encodes a batch. The error is that of a choice or of the stream.
func (g *run) take(b *batch) error {
	for i := range b.events {
		e := &b.events[i]
		if e.Gap > 0 {
			g.gaps.Observe(e.Gap.Seconds())
		}
		if e.Kind == gen.Done {
			if err := g.ended(e); err != nil {
				return err
			}
		}
		g.out = g.job.Encoder.Event(g.out, b.prompt, e)
	}
	if errors.Is(b.err, io.EOF) {
		g.open--
		return nil
	}
	return b.err
}

// ended notes the end of a choice.
func (g *run) ended(e *gen.Event) error {
	g.x.completion += e.Stats.CompletionTokens
	switch {
	case e.Err != nil:
		return e.Err
	case e.Finish == gen.FinishError:
		return &fault.Error{Kind: fault.Internal, Msg: "the engine failed"}
	case e.Finish == gen.FinishCancel:
		return errDraining
	}
	g.x.outcome = outcome(e.Finish)
	if e.Choice == 0 {
		g.s.pace.add(e.Stats.Wall - e.Stats.Queued)
	}
	g.s.metrics.choice(g.x.model, &e.Stats, e.Choice == 0)
	return nil
}

func outcome(f gen.Finish) string {
	switch f {
	case gen.FinishStop, gen.FinishCalls:
		return "stop"
	case gen.FinishTimeout:
		return "timeout"
	}
	return "length"
}

// broken ends an answer that cannot be finished: with a proper status while nothing was sent, with an error frame afterwards, with nothing
// when the client has gone.
func (g *run) broken(err error) {
	if g.clientGone(err) {
		g.gone(err)
		return
	}
	if errors.Is(err, errDraining) || errors.Is(err, context.Canceled) {
		err = &fault.Error{Kind: fault.Unavailable, Msg: errDraining.Error()}
	}
	g.x.outcome = "error"
	if fault.Of(err) == fault.Timeout {
		g.x.outcome = "timeout"
	}
	if !g.committed {
		g.s.fail(g.x, dialect.Rename(err, g.job.Rename))
		return
	}
	g.x.err = err
	g.out = g.job.Encoder.Fail(g.out, fault.As(err))
	if g.send() != nil {
		g.gone(err)
	}
}

// clientGone tells a client that left from a server that stops: both end the context.
func (g *run) clientGone(err error) bool {
	return g.ctx.Err() != nil && !errors.Is(context.Cause(g.ctx), errDraining)
}

// gone ends an answer that nobody waits for any more. A client that has only closed its own side looks the same, and still reads: it must not
// see an empty 200, nor a stream that ends as if it were whole.
func (g *run) gone(err error) {
	g.x.outcome = "cancel"
	if g.x.status == 0 {
		g.s.fail(g.x, &fault.Error{Kind: fault.Canceled, Code: "client_closed_request", Msg: "the client closed its side of the connection before the answer was ready", Err: err})
		return
	}
	g.x.cut, g.x.err = true, err
}

// send writes and flushes what is encoded. A client that takes longer than WriteTimeout counts as gone.
func (g *run) send() error {
	if !g.committed {
		g.commit()
	}
	if _, err := g.x.Write(g.out); err != nil {
		return err
	}
	g.out = g.out[:0]
	if err := g.x.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

func (g *run) commit() {
	g.committed = true
	g.s.answerHeader(g.x, g.x.dialect)
	h := g.x.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	g.x.WriteHeader(http.StatusOK)
}
