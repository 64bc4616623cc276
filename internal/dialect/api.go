// Package dialect is the contract of a wire format: Dialect, Route, Call, Job, Encoder. A dialect turns a body into a gen.Request and events into
// bytes; package serve does everything in between, once for all dialects. The dialects themselves are sub-packages.
//
// The package also holds what dialects share: the one strict reader of JSON bodies, the appenders, the sampling fields and the stats object.
package dialect

import (
	"context"
	"net/http"
	"time"

	"tinyloop/internal/fault"
	"tinyloop/internal/gen"
	"tinyloop/internal/tok"
)

// Dialect is one wire format: its routes and how it reports errors.
type Dialect struct {
	Name   string
	Routes []Route
	// Status gives the HTTP status of an error kind.
	Status func(k fault.Kind) int
	// Error appends the body of an error answer. c.Body is what the client sent, as far as it was read.
	Error func(dst []byte, c *Call, status int, err error) []byte
	// Header sets headers of every answer before it is sent; nil = none. elapsed is the time since the request came in.
	Header func(h http.Header, elapsed time.Duration)
}

// Route is one method and path. Exactly one of Decode and Answer is set.
type Route struct {
	Method string
	Path   string // as http.ServeMux writes paths, without a method: /v1/models/{id...}
	// Decode turns the body into generation work.
	Decode func(c *Call) (*Job, error)
	// Answer gives a small JSON body at once.
	Answer func(c *Call) ([]byte, error)
}

// Call is one request as a dialect sees it.
type Call struct {
	Ctx     context.Context          // ends when the client leaves; nil = never
	ID      string                   // request id, also the stem of the answer's id
	Created time.Time                // when the request came in
	Body    []byte                   // whole; "" for GET
	Value   func(name string) string // wildcard of the route's path, percent-decoded
	Models  Models
	Ignored []string // names of the body that nobody used; for the response header
}

// Models is what is loaded.
type Models interface {
	// Open finds a model by name ("" and "tl" = the default) and keeps it loaded until release is called.
	// Errors: fault.NotFound, fault.NoModel.
	Open(name string) (g *gen.Generator, release func(), err error)
	List() []Listed
}

// Listed is one loaded model with the names it answers to.
type Listed struct {
	Name    string
	Aliases []string
	Info    gen.Info
}

// Job is decoded work: one gen.Request a prompt, answered together.
type Job struct {
	Model    string // as the caller wrote it
	Requests []*gen.Request
	Stream   bool
	Encoder  Encoder
	// Listed says that the prompts came as a list: an error about one of them names its index.
	Listed bool
	// Rename maps names of gen's fields to the names the caller used, where they differ.
	Rename map[string]string
}

// Started is what is known once all prompts are admitted.
type Started struct {
	Model     string // name of the model that answers
	Info      gen.Info
	Tokenizer *tok.Tokenizer
	Prompts   []Prompt
}

// Prompt is one admitted prompt with its effective values.
type Prompt struct {
	IDs       []tok.ID
	Seed      uint64
	MaxTokens int
	Warnings  []string
}

// Encoder appends the bytes of one answer. It is used by one goroutine: Begin, then Event for every event in order, then End; Fail in place of
// what is left when something breaks after bytes were sent. For a whole (not streamed) answer Begin and Event only collect, and End appends
// the body: it is a fold over the same events. Events are valid only during the call.
type Encoder interface {
	Begin(dst []byte, s *Started) []byte
	Event(dst []byte, prompt int, e *gen.Event) []byte
	End(dst []byte) []byte
	Fail(dst []byte, err *fault.Error) []byte
}

// Status is the status of a kind of error on the routes that the source documents name: a body that breaks the schema is 422, one that cannot
// be parsed or does not fit the window is 400.
func Status(k fault.Kind) int {
	switch k {
	case fault.Malformed, fault.TooLong:
		return http.StatusBadRequest
	case fault.Invalid, fault.Unsupported:
		return http.StatusUnprocessableEntity
	case fault.TooLarge:
		return http.StatusRequestEntityTooLarge
	case fault.NotFound:
		return http.StatusNotFound
	case fault.NoModel, fault.Unavailable:
		return http.StatusServiceUnavailable
	case fault.Busy, fault.Limited:
		return http.StatusTooManyRequests
	case fault.Denied:
		return http.StatusForbidden
	case fault.Timeout:
		return http.StatusGatewayTimeout
	case fault.Canceled:
		return 499 // nobody is there to read it; for the log
	}
	return http.StatusInternalServerError
}
