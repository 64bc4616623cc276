// Package serve is the HTTP side that all dialects share: mux, admission, the one generate path, SSE framing, health, metrics, shutdown.
//
// A request passes two wrappers: ServeHTTP (request id, recover, Host check, CORS, log, metrics) and the path's own handler (method, body).
// What then happens depends on the route: a small answer at once, or generate, which is the same for every dialect.
package serve

import (
	"cmp"
	"crypto/rand"
	"log/slog"
	"net/http"
	"time"

	"tinyloop/internal/dialect/minilab"
	"tinyloop/internal/host"
	"tinyloop/internal/web"
)

// Config is how a server behaves. Zero values mean the defaults given.
type Config struct {
	// Addr is the address to be bound, host:port. Its host is accepted in Host headers; an unspecified one (0.0.0.0) accepts any IP address.
	Addr string
	// Origins are the web origins allowed besides DefaultOrigins: exact (https://a.example), with a star for one label (https://*.a.example)
	// or for the port (http://a.example:*), or "*" for all. A first element "none" drops the defaults.
	Origins []string
	// Hosts are further names accepted in Host headers, without port; "*" accepts all.
	Hosts []string

	BodyLimit    int64         // most bytes of a request body; 8 MiB
	BodyTimeout  time.Duration // longest pause while a body arrives, and half of what a trickle may last; 30 s
	WriteTimeout time.Duration // longest time one write may take before the client counts as gone; 30 s
	PingEvery    time.Duration // silence on a stream after which a comment is sent; 5 s
	DrainTimeout time.Duration // from the end of Serve's context to its return; 10 s
	Stall        time.Duration // age of an engine step after which /health answers 503; 60 s
	MaxConns     int           // open connections; 1024

	NoPage       bool           // browsers get the list of routes at / as programs do, and no page
	StrictOpenAI bool           // completions without max_tokens end after 16 tokens
	MiniLab      minilab.Limits // bounds of /v1/chat
	Version      string         // shown on the index page

	Log   *slog.Logger     // nil = silent
	Now   func() time.Time // nil = time.Now
	NewID func() string    // nil = random
}

// DefaultOrigins are the web origins allowed without configuration: pages of this machine, and those of the MiniLab course.
func DefaultOrigins() []string {
	return []string{
		"http://localhost:*", "https://localhost:*", "http://127.0.0.1:*", "https://127.0.0.1:*", "http://[::1]:*", "https://[::1]:*",
		"https://minilab-llm.com", "https://www.minilab-llm.com", "https://*.vercel.app",
	}
}

func (c Config) withDefaults() Config {
	c.BodyLimit = cmp.Or(c.BodyLimit, 8<<20)
	c.BodyTimeout = cmp.Or(c.BodyTimeout, 30*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 30*time.Second)
	c.PingEvery = cmp.Or(c.PingEvery, 5*time.Second)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 10*time.Second)
	c.Stall = cmp.Or(c.Stall, time.Minute)
	c.MaxConns = cmp.Or(c.MaxConns, 1024)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = rand.Text
	}
	return c
}

// New makes a server over the models of h.
func New(h *host.Host, c Config) *Server {
	c = c.withDefaults()
	s := &Server{host: h, cfg: c, log: c.Log, origins: newOrigins(c.Origins), metrics: newMetrics(h)}
	if !c.NoPage {
		s.page = web.New()
	}
	s.stop, s.halt = newStop()
	s.mux = s.routes()
	return s
}

// Handler gives the whole server as a handler, for tests and for calls in process.
func (s *Server) Handler() http.Handler { return s }
