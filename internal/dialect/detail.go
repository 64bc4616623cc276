package dialect

import (
	"errors"

	"tinyloop/internal/fault"
)

// maxEcho is how much of a wrong value an error repeats.
const maxEcho = 500

// AppendError appends the error object of OpenAI, all four keys.
func AppendError(dst []byte, typ, code string, e *fault.Error) []byte {
	dst = append(dst, `{"message":`...)
	dst = AppendString(dst, Message(e))
	dst = append(dst, `,"type":`...)
	dst = AppendString(dst, typ)
	dst = append(dst, `,"param":`...)
	dst = appendOrNull(dst, e.Field)
	dst = append(dst, `,"code":`...)
	return append(appendOrNull(dst, code), '}')
}

func appendOrNull(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return AppendString(dst, s)
}

// Message is the text a user may see. What went wrong inside stays in the log.
func Message(e *fault.Error) string {
	if e.Kind == fault.Internal {
		return "internal error; the server's log tells more under this request id"
	}
	return e.Msg
}

// ErrorType is the "type" of OpenAI's error object.
func ErrorType(k fault.Kind) string {
	switch k {
	case fault.Busy, fault.Limited:
		return "rate_limit_error"
	case fault.NotFound:
		return "not_found_error"
	case fault.Denied:
		return "permission_error"
	case fault.NoModel, fault.Unavailable:
		return "unavailable_error"
	case fault.Internal, fault.Timeout, fault.Canceled:
		return "server_error"
	}
	return "invalid_request_error"
}

// ErrorCode is the "code" of OpenAI's error object: the error's own, or one by its kind.
func ErrorCode(e *fault.Error) string {
	if e.Code != "" {
		return e.Code
	}
	switch e.Kind {
	case fault.Malformed:
		return "invalid_json"
	case fault.Invalid:
		return "invalid_value"
	case fault.Unsupported:
		return "unsupported_parameter"
	case fault.TooLong:
		return "context_length_exceeded"
	case fault.TooLarge:
		return "request_too_large"
	case fault.NotFound:
		return "model_not_found"
	case fault.NoModel:
		return "no_model"
	case fault.Busy:
		return "queue_full"
	case fault.Limited:
		return "rate_limit_exceeded"
	case fault.Denied:
		return "denied"
	case fault.Timeout:
		return "timeout"
	case fault.Unavailable:
		return "unavailable"
	}
	return ""
}

// AppendBothErrors appends an error body with OpenAI's "error" and FastAPI's "detail": a list of {type, loc, msg, input} for a body
// that breaks the schema, a sentence otherwise.
func AppendBothErrors(dst []byte, c *Call, err error) []byte {
	e := fault.As(err)
	dst = append(dst, `{"detail":`...)
	if e.Kind == fault.Invalid || e.Kind == fault.Unsupported {
		dst = appendDetails(dst, c.Body, list(err, e))
	} else {
		dst = AppendString(dst, Message(e))
	}
	dst = append(dst, `,"error":`...)
	return append(AppendError(dst, ErrorType(e.Kind), ErrorCode(e), e), '}')
}

func list(err error, first *fault.Error) []*fault.Error {
	if p, ok := errors.AsType[*Problems](err); ok {
		return p.List
	}
	return []*fault.Error{first}
}

func appendDetails(dst, body []byte, problems []*fault.Error) []byte {
	dst = append(dst, '[')
	for i, e := range problems {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"type":`...)
		dst = AppendString(dst, detailType(e))
		dst = append(dst, `,"loc":["body"`...)
		for _, step := range Steps(e.Field) {
			dst = append(dst, ',')
			switch k := step.(type) {
			case string:
				dst = AppendString(dst, k)
			case int:
				dst = AppendInt(dst, k)
			}
		}
		dst = append(dst, `],"msg":`...)
		dst = AppendString(dst, e.Msg)
		dst = append(dst, `,"input":`...)
		dst = append(appendInput(dst, body, e.Field), '}')
	}
	return append(dst, ']')
}

// detailType is Pydantic's name of a problem.
func detailType(e *fault.Error) string {
	switch e.Code {
	case "missing_required_parameter":
		return "missing"
	case "invalid_type":
		return "type_error"
	case "string_above_max_length":
		return "string_too_long"
	case "array_above_max_length":
		return "too_long"
	case "", "invalid_value":
		return "value_error"
	}
	return e.Code
}

func appendInput(dst, body []byte, field string) []byte {
	raw := Find(body, field)
	if raw == nil || len(raw) > maxEcho {
		return append(dst, "null"...)
	}
	for _, c := range raw { // line ends between tokens would break the one-line form
		if c != '\n' && c != '\r' {
			dst = append(dst, c)
		}
	}
	return dst
}
