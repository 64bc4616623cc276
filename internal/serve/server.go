package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"tinyloop/internal/dialect"
	"tinyloop/internal/host"
	"tinyloop/internal/web"
)

// Server answers HTTP. Make one with New. It is safe for concurrent use.
type Server struct {
	host    *host.Host
	cfg     Config
	log     *slog.Logger
	mux     *http.ServeMux
	origins *origins
	metrics *metrics
	pace    pace
	openai  *dialect.Dialect
	native  *dialect.Dialect
	page    *web.Page // nil = none
	paths   []string

	draining atomic.Bool
	stop     context.Context // ends when what still runs must end: every answer is cut off with an error
	halt     context.CancelCauseFunc
}

// errDraining is why answers are cut off at shutdown.
var errDraining = errors.New("the server is shutting down")

func newStop() (context.Context, context.CancelCauseFunc) {
	return context.WithCancelCause(context.Background())
}

// Serve accepts connections on l until ctx ends. Then it refuses new work, lets open answers finish for three quarters of DrainTimeout, cuts
// the rest off with an error, and returns within DrainTimeout whatever clients do. The error is nil after such an end.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(limitConns(l, s.cfg.MaxConns)) }()
	select {
	case err := <-failed:
		s.halt(errDraining)
		srv.Close()
		return err
	case <-ctx.Done():
	}
	s.drain(srv)
	<-failed
	return nil
}

func (s *Server) drain(srv *http.Server) {
	s.draining.Store(true)
	s.log.Info("draining", "within", s.cfg.DrainTimeout.String())
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	cut := time.AfterFunc(s.cfg.DrainTimeout*3/4, func() { s.halt(errDraining) })
	defer cut.Stop()
	if srv.Shutdown(ctx) != nil {
		srv.Close() // a client that neither reads nor leaves
	}
	s.halt(errDraining)
}

// limitConns accepts at most n connections at a time; more of them wait in the system's queue.
func limitConns(l net.Listener, n int) net.Listener {
	return &limited{Listener: l, free: make(chan struct{}, n), done: make(chan struct{})}
}

type limited struct {
	net.Listener
	free   chan struct{} // full when no connection may be added
	done   chan struct{}
	closed atomic.Bool
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.free <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.free
		return nil, err
	}
	return &counted{Conn: c, free: l.free}, nil
}

func (l *limited) Close() error {
	if l.closed.CompareAndSwap(false, true) {
		close(l.done)
	}
	return l.Listener.Close()
}

type counted struct {
	net.Conn
	free   chan struct{}
	closed atomic.Bool
}

func (c *counted) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		<-c.free
	}
	return c.Conn.Close()
}
