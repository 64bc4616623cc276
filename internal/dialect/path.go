package dialect

import (
	"bytes"
	"strconv"
	"strings"
)

// Find gives the raw bytes of the value at a path like messages[0].content of a body that has been parsed, nil when there is none.
func Find(body []byte, path string) []byte {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")))
	if path == "" || check(body) != nil {
		return nil
	}
	v := Value{doc: &Doc{}, raw: body}
	for _, step := range Steps(path) {
		switch k := step.(type) {
		case string:
			if !v.IsObject() {
				return nil
			}
			v = v.Object().Get(k)
		case int:
			if !v.IsArray() {
				return nil
			}
			v = v.at(k)
		}
	}
	return v.raw
}

func (v Value) at(k int) Value {
	var out Value
	i := 0
	v.walk(func(raw []byte) error {
		if i == k {
			out = Value{doc: v.doc, raw: raw}
			return errStop
		}
		i++
		return nil
	})
	return out
}

// Steps splits a path into its names (string) and indexes (int).
func Steps(path string) []any {
	var out []any
	for _, part := range strings.Split(path, ".") {
		name, rest, _ := strings.Cut(part, "[")
		if name != "" {
			out = append(out, name)
		}
		for _, ix := range strings.Split(rest, "[") {
			if n, err := strconv.Atoi(strings.TrimSuffix(ix, "]")); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}
