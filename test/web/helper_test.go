package web

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"github.com/go-rod/rod/lib/launcher/flags"
)

func flagName(s string) flags.Flag { return flags.Flag(s) }

// record keeps a request's body and puts it back.
func (s *server) record(r *http.Request) {
	b, _ := io.ReadAll(r.Body) // a body that breaks off is the server's to report
	r.Body = io.NopCloser(bytes.NewReader(b))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies = append(s.bodies, string(b))
}

func contains(s, part string) bool { return strings.Contains(s, part) }
