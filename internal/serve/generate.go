package serve

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net/http"
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
	ready   chan struct{} // one slot: some stream has something new

	events    []gen.Event // scratch of take
	out       []byte      // encoded, not sent yet
	committed bool        // the headers of a stream are out
	open      int         // streams that have not ended
	gaps      prometheus.Observer
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
	defer cancel(nil)

	g := &run{s: s, x: x, job: job, ctx: ctx, ready: make(chan struct{}, 1), gaps: s.metrics.interToken.WithLabelValues(m.Name)}
	if err := g.admit(m); err != nil {
		s.fail(x, dialect.Rename(err, job.Rename))
		return
	}
	g.serve(m)
}

// admit submits every prompt of the job, or none of them.
func (g *run) admit(m *host.Model) error {
	for i, r := range g.job.Requests {
		if r.Seed == nil {
			r.Seed = freshSeed()
		}
		r.Ready = g.ready
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

// serve turns what is new into bytes until all streams have ended or something breaks. What came while the client was written to goes out together.
func (g *run) serve(m *host.Model) {
	g.out = g.job.Encoder.Begin(g.out, g.started(m))
	ping := time.NewTimer(g.s.cfg.PingEvery)
	defer ping.Stop()
	for {
		select {
		case <-g.ready:
			if err := g.take(); err != nil {
				g.broken(err)
				return
			}
		case now := <-ping.C:
			g.ping(ping, now)
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

// ping adds a comment to a stream that has been silent for so long, and sets the timer again, which writes leave alone: they come far more often.
func (g *run) ping(timer *time.Timer, now time.Time) {
	left := g.s.cfg.PingEvery - now.Sub(g.x.wrote)
	if left <= 0 {
		left = g.s.cfg.PingEvery
		if g.job.Stream {
			g.out = append(g.out, ": ping\n\n"...)
		}
	}
	timer.Reset(left)
}

func (g *run) started(m *host.Model) *dialect.Started {
	st := &dialect.Started{Model: m.Name, Info: m.Info(), Tokenizer: m.Tokenizer()}
	for _, s := range g.streams {
		st.Prompts = append(st.Prompts, dialect.Prompt{IDs: s.Prompt(), Seed: s.Seed(), MaxTokens: s.MaxTokens(), Warnings: s.Warnings()})
	}
	return st
}

// take encodes what is new of all streams. The error is that of a choice.
func (g *run) take() error {
	for i, st := range g.streams {
		if st == nil {
			continue
		}
		var end error
		g.events, end = st.Take(g.events[:0])
		if err := g.encode(i, g.events); err != nil {
			return err
		}
		if end != nil {
			g.streams[i] = nil
			g.open--
		}
	}
	clear(g.events)
	return nil
}

func (g *run) encode(prompt int, events []gen.Event) error {
	for i := range events {
		e := &events[i]
		if e.Gap > 0 {
			g.gaps.Observe(e.Gap.Seconds())
		}
		if e.Kind == gen.Done {
			if err := g.ended(e); err != nil {
				return err
			}
		}
		g.out = g.job.Encoder.Event(g.out, prompt, e)
	}
	return nil
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
