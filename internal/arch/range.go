package arch

import (
	"fmt"
	"strconv"
	"strings"

	"tinyloop/internal/model"
)

// Range makes a loop of some layers of a model that has none: layers First to Last become the core and run Loops times, those before them the prelude, those
// behind the coda. No training is needed, and none is promised to help: the model was trained at one pass. (Looping the middle layers of a finished model:
// arXiv 2605.23872.) The zero Range changes nothing.
type Range struct {
	First, Last int // counted from 0, both included
	Loops       int // passes when a request does not say; 0 = no Range
}

// ParseRange reads "8-11" (two passes) or "8-11x4". "" is no range.
func ParseRange(text string) (Range, error) {
	if text == "" {
		return Range{}, nil
	}
	bad := invalid("loop_range", "loop_range must be FIRST-LAST or FIRST-LASTxLOOPS, as in 8-11x2, is %q", clip(text))
	layers, loops, some := strings.Cut(text, "x")
	first, last, ok := strings.Cut(layers, "-")
	r := Range{Loops: 2}
	var err error
	for _, n := range []struct {
		text string
		to   *int
		read bool
	}{{first, &r.First, true}, {last, &r.Last, ok}, {loops, &r.Loops, some}} {
		if n.read && err == nil {
			*n.to, err = strconv.Atoi(n.text)
		}
	}
	if !ok || err != nil || r.First < 0 || r.Last < r.First || r.Loops < 1 {
		return Range{}, bad
	}
	return r, nil
}

func (r Range) String() string {
	if r.Loops == 0 {
		return ""
	}
	return fmt.Sprintf("%d-%dx%d", r.First, r.Last, r.Loops)
}

// rangeLoops is the most passes of a loop that was not trained, unless more are asked for.
const rangeLoops = 8

// apply cuts the layers of s in three.
func (r Range) apply(s *model.Spec) error {
	if r.Loops == 0 {
		return nil
	}
	if s.Loops.HardMax > 1 || s.Prelude > 0 || s.Coda > 0 {
		return unsupported("loop_range", "loop_range: a %s model has a loop of its own", s.Family)
	}
	if r.Last >= s.Core {
		return invalid("loop_range", "loop_range %s: the model has the layers 0 to %d", r, s.Core-1)
	}
	s.Prelude, s.Core, s.Coda = r.First, r.Last-r.First+1, s.Core-r.Last-1
	s.Loops.Default, s.Loops.HardMax = r.Loops, max(r.Loops, rangeLoops)
	return s.Validate()
}

// original gives the name that a tensor has without the range, where all layers are of the core.
func (r Range) original(name string) string {
	part, rest, ok := strings.Cut(name, ".")
	first, known := map[string]int{"prelude": 0, "core": r.First, "coda": r.Last + 1}[part]
	if r.Loops == 0 || !ok || !known {
		return name
	}
	number, rest, ok := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	if !ok || err != nil {
		return name // "prelude_norm.weight" has no number
	}
	return fmt.Sprintf("core.%d.%s", first+n, rest)
}
