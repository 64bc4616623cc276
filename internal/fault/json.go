package fault

import "strings"

// JSONText says what encoding/json has against a document, without the types of the program that it was read into. Other errors are themselves.
// It goes by the words of the message, so that packages that must not know JSON may import this one.
func JSONText(err error) string {
	s := err.Error()
	rest, ok := strings.CutPrefix(s, "json: cannot unmarshal ")
	if !ok {
		return strings.TrimPrefix(s, "json: ")
	}
	value, into, ok := strings.Cut(rest, " into Go ")
	if !ok {
		return s
	}
	what := "it"
	if field, ok := strings.CutPrefix(into, "struct field "); ok {
		field, _, _ = strings.Cut(field, " of type ")
		_, field, _ = strings.Cut(field, ".")
		what = "field " + field
	}
	return what + " is a JSON " + value + ", which it must not be"
}
