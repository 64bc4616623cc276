package serve

import (
	"net/http"
	"strconv"

	"tinyloop/internal/fault"
)

// health answers whether the server works: not that it listens, but that every engine still steps.
func (s *Server) health(x *exchange, r *http.Request) {
	if err := s.stalled(); err != nil {
		s.fail(x, err)
		return
	}
	body := []byte(`{"status":"ok"}`)
	x.Header().Set("Content-Type", "application/json")
	x.Header().Set("Cache-Control", "no-store")
	x.Header().Set("Content-Length", strconv.Itoa(len(body)))
	x.WriteHeader(http.StatusOK)
	x.Write(body)
}

// ready answers whether new work is welcome.
func (s *Server) ready(x *exchange, r *http.Request) {
	switch {
	case s.draining.Load():
		s.fail(x, &fault.Error{Kind: fault.Unavailable, Msg: errDraining.Error()})
	case len(s.host.List()) == 0:
		s.fail(x, &fault.Error{Kind: fault.NoModel, Msg: "no model is loaded"})
	default:
		s.health(x, r)
	}
}

func (s *Server) stalled() error {
	for _, m := range s.host.List() {
		h := m.Engine().Health()
		if h.Err != nil {
			return &fault.Error{Kind: fault.Unavailable, Code: "engine_failed", Msg: "the engine of model " + m.Name + " no longer serves", Err: h.Err}
		}
		if h.Age > s.cfg.Stall {
			return fault.New(fault.Unavailable, "", "the engine of model %s has been in one step for %v", m.Name, h.Age.Round(1e8))
		}
	}
	return nil
}
