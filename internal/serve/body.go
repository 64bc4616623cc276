package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"tinyloop/internal/fault"
)

const statusUnsupportedMedia = http.StatusUnsupportedMediaType

// body reads the whole request body into x.call, or answers with what is wrong with it.
func (s *Server) body(x *exchange, r *http.Request) bool {
	if enc := r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		s.failWith(x, statusUnsupportedMedia, &fault.Error{Kind: fault.Malformed, Code: "unsupported_encoding",
			Msg: "content-encoding " + clean(enc, 40) + " is not accepted; send the body as it is"})
		return false
	}
	limit := s.cfg.BodyLimit
	if r.ContentLength > limit {
		s.tooLarge(x, r.ContentLength)
		return false
	}
	b, err := s.read(x, r, limit)
	switch {
	case err == nil:
	case s.stop.Err() != nil:
		x.Header().Set("Connection", "close")
		s.fail(x, &fault.Error{Kind: fault.Unavailable, Msg: errDraining.Error(), Err: err})
		return false
	case errors.Is(err, os.ErrDeadlineExceeded):
		x.Header().Set("Connection", "close")
		s.failWith(x, http.StatusRequestTimeout, &fault.Error{Kind: fault.Malformed, Code: "body_timeout",
			Msg: fmt.Sprintf("the request body came too slowly: a pause may last %v, and the whole must come at %d bytes a second", s.cfg.BodyTimeout, slowest), Err: err})
		return false
	default:
		s.failWith(x, http.StatusBadRequest, &fault.Error{Kind: fault.Malformed, Code: "incomplete_body", Msg: "the request body ended early", Err: err})
		return false
	}
	if int64(len(b)) > limit {
		s.tooLarge(x, int64(len(b)))
		return false
	}
	x.call.Body = b
	if !acceptable(r.Header.Get("Content-Type"), b) {
		s.failWith(x, statusUnsupportedMedia, &fault.Error{Kind: fault.Malformed, Code: "unsupported_media_type",
			Msg: "content-type " + clean(r.Header.Get("Content-Type"), 60) + " is not accepted; send a JSON object as application/json"})
		return false
	}
	return true
}

func (s *Server) tooLarge(x *exchange, got int64) {
	x.Header().Set("Connection", "close") // what is left of the body is not read
	s.fail(x, &fault.Error{Kind: fault.TooLarge, Msg: fmt.Sprintf("the request body may have at most %d bytes, got %d or more", s.cfg.BodyLimit, got)})
}

// slowest is the rate below which a body counts as stopped, in bytes a second: a byte now and then must not hold a connection for ever.
const slowest = 1 << 10

// read takes the body as it arrives, one byte past the limit at most. Each pause may last BodyTimeout, and all of it twice that beside the
// time that the slowest rate allows.
func (s *Server) read(x *exchange, r *http.Request, limit int64) ([]byte, error) {
	defer x.rc.SetReadDeadline(time.Time{})
	unhook := context.AfterFunc(s.stop, func() { x.rc.SetReadDeadline(time.Unix(1, 0)) })
	defer unhook()
	start := time.Now()
	size := 4096
	if r.ContentLength >= 0 {
		size = int(min(r.ContentLength+bytes.MinRead, 64<<10))
	}
	buf := make([]byte, 0, size)
	for int64(len(buf)) <= limit {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		x.rc.SetReadDeadline(earlier(time.Now().Add(s.cfg.BodyTimeout), start.Add(2*s.cfg.BodyTimeout+time.Duration(len(buf))*time.Second/slowest)))
		if s.stop.Err() != nil { // perhaps before this deadline was set
			return nil, errDraining
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return buf, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// acceptable is false only for a content type that clearly is not JSON over a body that is no object either: curl and browsers label JSON
// in many ways.
func acceptable(contentType string, body []byte) bool {
	if contentType == "" {
		return true
	}
	if bytes.HasPrefix(bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")), " \t\r\n"), []byte("{")) {
		return true
	}
	t, _, err := mime.ParseMediaType(contentType)
	switch {
	case err != nil:
		return false
	case t == "application/json", t == "text/json", t == "text/plain", strings.HasSuffix(t, "+json"):
		return true
	}
	return false
}
