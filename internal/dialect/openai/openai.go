// Package openai speaks OpenAI's chat completions, completions and models, as its published API document (2.3.0) and the official clients
// have them.
package openai

import (
	"net/http"
	"strconv"
	"time"

	"tinyloop/internal/dialect"
	"tinyloop/internal/fault"
)

// Options are the choices a server makes for this dialect.
type Options struct {
	// Strict restores defaults of OpenAI that surprise local users: completions without max_tokens end after 16 tokens.
	Strict bool
	// Version is that of the program, told on LM Studio's routes.
	Version string
}

// New gives the dialect. Every route is also there without the prefix /v1, since clients differ in the base URL they are given, and below /api/v0 as LM
// Studio has it.
func New(o Options) *dialect.Dialect {
	d := &dialect.Dialect{Name: "openai", Status: dialect.Status, Error: appendError, Header: header}
	for _, prefix := range []string{"/v1", ""} {
		d.Routes = append(d.Routes,
			dialect.Route{Method: http.MethodPost, Path: prefix + "/chat/completions", Decode: decodeChat},
			dialect.Route{Method: http.MethodPost, Path: prefix + "/completions", Decode: o.decodeCompletion},
			dialect.Route{Method: http.MethodGet, Path: prefix + "/models", Answer: listModels},
			dialect.Route{Method: http.MethodGet, Path: prefix + "/models/{id...}", Answer: getModel},
		)
	}
	d.Routes = append(d.Routes, o.studioRoutes()...)
	return d
}

// appendError appends OpenAI's error envelope.
func appendError(dst []byte, c *dialect.Call, status int, err error) []byte {
	e := fault.As(err)
	dst = append(dst, `{"error":`...)
	return append(dialect.AppendError(dst, dialect.ErrorType(e.Kind), dialect.ErrorCode(e), e), '}')
}

func header(h http.Header, elapsed time.Duration) {
	h.Set("Openai-Version", "2020-10-01")
	h.Set("Openai-Processing-Ms", strconv.FormatInt(elapsed.Milliseconds(), 10))
}
