package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unicode"

	"tinyloop/internal/dialect"
	"tinyloop/internal/fault"
)

const maxWrite = 64 << 10 // bytes that fall under one write deadline

// exchange is one request with its answer, and what the log and the metrics want to know about it at the end.
type exchange struct {
	http.ResponseWriter
	id      string
	ownID   bool // id is fresh, not the caller's
	start   time.Time
	status  int
	bytes   int64
	dialect *dialect.Dialect
	call    *dialect.Call
	route   string // pattern of the path
	rc      *http.ResponseController
	pause   time.Duration // longest time one write may take
	wrote   time.Time     // when the last write began
	armed   time.Time     // when the deadline of writes was set last
	cut     bool          // what was sent is not the whole: the connection must not end as if it were

	model      string
	outcome    string
	prompt     int // tokens
	completion int
	err        error
}

func (x *exchange) WriteHeader(code int) {
	if x.status == 0 {
		x.status = code
	}
	x.ResponseWriter.WriteHeader(code)
}

// Write sends a large answer in pieces, each with its own deadline: a slow reader may take long for the whole, one that does not read may not.
func (x *exchange) Write(b []byte) (n int, err error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	for n < len(b) || len(b) == 0 {
		x.patient()
		k, err := x.ResponseWriter.Write(b[n:min(n+maxWrite, len(b))])
		n += k
		x.bytes += int64(k)
		if err != nil || len(b) == 0 {
			return n, err
		}
	}
	return n, nil
}

// patient gives the next write its time, or little less: small writes that follow each other closely share a deadline, which takes as long to set as an event to
// encode. What the server itself writes behind the handler falls under the last one given.
func (x *exchange) patient() {
	x.wrote = time.Now()
	if !x.armed.IsZero() && x.wrote.Sub(x.armed) < x.pause/16 {
		return
	}
	x.armed = x.wrote
	x.rc.SetWriteDeadline(x.wrote.Add(x.pause)) // not every writer has deadlines; those of tests need none
}

// Unwrap lets http.ResponseController reach the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// ServeHTTP is the outer wrapper around everything.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{ResponseWriter: w, start: s.cfg.Now(), route: "other", dialect: s.dialectOf(r.URL.Path),
		rc: http.NewResponseController(w), pause: s.cfg.WriteTimeout}
	x.patient()
	if x.id = r.Header.Get("X-Request-Id"); !harmless(x.id) {
		x.id, x.ownID = s.cfg.NewID(), true
	}
	x.Header().Set("X-Request-Id", x.id)
	x.Header().Set("X-Content-Type-Options", "nosniff")
	defer s.finish(x, r)
	if !s.hostAllowed(r) {
		plain(x, http.StatusForbidden, "host "+clean(r.Host, 200)+" is not a name of this server; add it to the setting \"hosts\" (flag --hosts, TINYLOOP_HOSTS)\n")
		return
	}
	if !s.cors(x, r) {
		return
	}
	if !strings.HasPrefix(r.URL.Path, "/") { // CONNECT, or the target *
		s.unknown(x, r)
		return
	}
	s.mux.ServeHTTP(x, tidy(r))
}

// tidy drops doubled and final slashes from the path. They come from base URLs that end in one, and the mux would answer them with a
// redirect that turns POST into GET.
func tidy(r *http.Request) *http.Request {
	raw := r.URL.EscapedPath()
	short := raw
	for strings.Contains(short, "//") {
		short = strings.ReplaceAll(short, "//", "/")
	}
	if len(short) > 1 {
		short = strings.TrimSuffix(short, "/")
	}
	if short == raw {
		return r
	}
	path, err := url.PathUnescape(short)
	if err != nil {
		return r
	}
	u := *r.URL
	u.Path, u.RawPath = path, short
	c := *r // the same request to a tidier place; nobody else holds r
	c.URL = &u
	return &c
}

// finish recovers from a panic of the handler, then logs and counts.
func (s *Server) finish(x *exchange, r *http.Request) {
	defer func() {
		if x.cut {
			panic(http.ErrAbortHandler)
		}
	}()
	if v := recover(); v != nil {
		if v == http.ErrAbortHandler {
			panic(v)
		}
		s.log.Error("panic while answering", "request_id", x.id, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		if x.cut = x.status != 0; !x.cut {
			s.fail(x, &fault.Error{Kind: fault.Internal, Msg: "internal error", Err: fmt.Errorf("panic: %v", v)})
		}
	}
	if x.status == 0 {
		x.status = http.StatusOK
	}
	took := s.cfg.Now().Sub(x.start)
	s.metrics.answered(x, r.Method)
	if !s.log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", x.id), slog.String("method", clean(r.Method, 20)), slog.String("path", clean(r.URL.Path, 200)),
		slog.Int("status", x.status), slog.Int64("bytes", x.bytes), slog.Float64("took_ms", dialect.Millis(took)), slog.String("from", r.RemoteAddr),
	}
	if x.model != "" {
		attrs = append(attrs, slog.String("model", clean(x.model, 100)), slog.String("outcome", x.outcome),
			slog.Int("prompt_tokens", x.prompt), slog.Int("completion_tokens", x.completion))
	}
	if x.err != nil {
		attrs = append(attrs, slog.String("error", clean(x.err.Error(), 500)))
	}
	s.log.LogAttrs(context.Background(), level(x.status), "request", attrs...)
}

func level(status int) slog.Level {
	if status >= 500 {
		return slog.LevelError
	}
	return slog.LevelInfo
}

// fail answers with an error in the envelope of the route's dialect. It must come before any other byte.
func (s *Server) fail(x *exchange, err error) {
	e := fault.As(err)
	s.failWith(x, x.dialect.Status(e.Kind), err)
}

func (s *Server) failWith(x *exchange, status int, err error) {
	e := fault.As(err)
	x.err = err
	d := x.dialect
	c := x.call
	if c == nil {
		c = &dialect.Call{ID: x.id, Created: x.start}
	}
	h := x.Header()
	s.answerHeader(x, d)
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	if status == http.StatusTooManyRequests || e.Kind == fault.Unavailable {
		h.Set("Retry-After", strconv.Itoa(s.retryAfter()))
	}
	if !retryable(e.Kind, status) {
		h.Set("X-Should-Retry", "false")
	}
	body := append(d.Error(nil, c, status, err), '\n')
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.WriteHeader(status)
	x.Write(body)
}

// retryable is false for a server error that would only come again: official clients try 5xx three times, and each try is a whole prefill.
func retryable(k fault.Kind, status int) bool {
	return status < 500 || k == fault.Unavailable
}

func (s *Server) answerHeader(x *exchange, d *dialect.Dialect) {
	if d.Header != nil {
		d.Header(x.Header(), s.cfg.Now().Sub(x.start))
	}
	if x.call != nil && len(x.call.Ignored) > 0 {
		x.Header().Set("X-Tinyloop-Ignored", strings.Join(x.call.Ignored, ", "))
	}
}

// harmless says whether a caller's request id may stand in headers and logs as it is.
func harmless(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for _, c := range []byte(id) {
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
		if !ok {
			return false
		}
	}
	return true
}

// clean makes a caller's text fit for one line of a log or an error: control characters are escaped and the length is bounded.
func clean(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			q := strconv.QuoteToGraphic(s)
			return q[1 : len(q)-1]
		}
	}
	return s
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	w.Write([]byte(text))
}
