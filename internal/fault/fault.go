// Package fault names the kinds of errors that a user can meet, and the field at fault. It is the one vocabulary between the
// packages that find a mistake and the dialects that report it: a dialect turns a Kind into its own status and envelope.
package fault

import (
	"errors"
	"fmt"
)

// Kind says whose mistake it was and what the caller can do about it.
type Kind uint8

const (
	Internal    Kind = iota // a bug of ours; the text is logged, never sent
	Malformed               // the body cannot be parsed at all (broken JSON, wrong content type)
	Invalid                 // a field is missing, has the wrong type or lies outside its range
	Unsupported             // a known parameter or value that this build does not serve
	TooLong                 // prompt plus answer do not fit the window
	TooLarge                // the body exceeds the byte limit
	NotFound                // no such model or route
	NoModel                 // no model is loaded at all
	Busy                    // the queue is full; retry later
	Limited                 // a rate limit or quota of this caller; retry later
	Denied                  // origin, host, key or scope refused
	Canceled                // the caller went away
	Timeout                 // the deadline passed before any answer
	Unavailable             // starting or draining
)

var kindNames = [...]string{"internal", "malformed", "invalid", "unsupported", "too_long", "too_large", "not_found",
	"no_model", "busy", "limited", "denied", "canceled", "timeout", "unavailable"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Error is an error that may be shown to a user.
type Error struct {
	Kind  Kind
	Field string // path of the field at fault in the caller's own request, "" when none: "stop[0]", "messages[2].content"
	Code  string // machine-readable detail, e.g. "context_length_exceeded"; "" lets the dialect choose by Kind
	Msg   string // one sentence: the field, the limit and the value
	Err   error  // the cause, for the log only
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Msg + ": " + e.Err.Error()
	}
	return e.Msg
}

func (e *Error) Unwrap() error { return e.Err }

// New makes an error of kind k about field.
func New(k Kind, field, format string, args ...any) *Error {
	return &Error{Kind: k, Field: field, Msg: fmt.Sprintf(format, args...)}
}

// Of gives the kind of err: that of the first *Error in its chain, Internal otherwise.
func Of(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Internal
}

// As gives the first *Error in the chain of err, or an Internal one that wraps it.
func As(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Kind: Internal, Msg: "internal error", Err: err}
}
