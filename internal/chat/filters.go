package chat

import (
	"slices"

	"github.com/ardanlabs/jinja"
)

type function = func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error)

// ownFilters are the filters that differ from Jinja2's in the interpreter.
func ownFilters() map[string]function {
	return map[string]function{"tojson": tojson}
}

func ownFilter(name string) bool {
	_, ok := ownFilters()[name]
	return ok
}

func sorted(keys []string) []string {
	out := slices.Clone(keys)
	slices.Sort(out)
	return out
}
