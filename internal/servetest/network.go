package servetest

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Timed runs a test in a bubble of its own clock (testing/synctest): time passes only while every goroutine waits, so delays, deadlines and
// pings come in the same order on any machine, at once. Connections are those of a network in memory, which such a clock can see.
func Timed(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// Site is a server on a network in memory, without buffers: what is written waits until it is read. It is for tests under Timed.
type Site struct {
	URL    string
	Client *http.Client
	dial   chan net.Conn
	closed chan struct{}
	end    func()
}

// newSite is a listener and a client that reaches it.
func newSite(t testing.TB) *Site {
	s := &Site{URL: "http://localhost", dial: make(chan net.Conn), closed: make(chan struct{})}
	s.end = sync.OnceFunc(func() { close(s.closed) })
	s.Client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.connect(ctx) }}}
	t.Cleanup(func() {
		s.Client.CloseIdleConnections()
		time.Sleep(time.Second) // net/http lingers over a connection that it has cut
	})
	return s
}

func (s *Site) connect(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case s.dial <- theirs:
		return ours, nil
	case <-s.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept, Close and Addr make a Site the listener of its server.
func (s *Site) Accept() (net.Conn, error) {
	select {
	case c := <-s.dial:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close refuses further connections.
func (s *Site) Close() error { s.end(); return nil }

// Addr is that of a pipe.
func (s *Site) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// Dial opens a bare connection, closed at the end of the test.
func (s *Site) Dial(t testing.TB) net.Conn {
	t.Helper()
	c, err := s.connect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Listen serves the world on a network in memory until the end of the test, for what needs a connection: leaving, timing of bytes.
func (w *World) Listen() *Site { return w.serve(w.Server.Handler()) }

func (w *World) serve(h http.Handler) *Site {
	s := newSite(w.T)
	srv := &http.Server{Handler: h}
	var running sync.WaitGroup
	running.Go(func() { srv.Serve(s) })
	w.T.Cleanup(func() {
		srv.Close()
		running.Wait()
	})
	return s
}
