// Package serve is the HTTP side that all dialects share: mux, admission, the one generate path, SSE framing, health, metrics, shutdown.
package serve

// Contract of the package (kong/cli fills Config; tests fill it directly):
//
//	type Config struct { Addr string; Origins []string; Hosts []string; BodyLimit int64; WriteTimeout, PingEvery, DrainTimeout, Stall time.Duration; MaxLoops …; Log *slog.Logger;
//	                     StrictOpenAI bool; MiniLab limits … }
//	func New(h *host.Host, c Config) *Server
//	func (s *Server) Handler() http.Handler                   // in process: smoke test, httptest
//	func (s *Server) Serve(ctx context.Context, l net.Listener) error   // until ctx ends, then drains within DrainTimeout
