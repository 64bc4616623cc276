package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
)

// IO is what a subcommand may touch of the process around it.
type IO struct {
	In       io.Reader
	Out, Err io.Writer
	Ctx      context.Context // ends at the first interrupt
}

// measuring gives what shows the work in hand on one line of a terminal, nil where there is none or it is not wanted, and what wipes that line at the end.
func (o *IO) measuring(quiet bool) (progress func(what string), done func()) {
	if quiet || !isTerminal(o.Err) {
		return nil, func() {}
	}
	return func(what string) { fmt.Fprintf(o.Err, "\r\x1b[K%s", what) }, func() { fmt.Fprint(o.Err, "\r\x1b[K") }
}

// writeJSON prints a value as indented JSON.
func (o *IO) writeJSON(v any) error {
	e := json.NewEncoder(o.Out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
