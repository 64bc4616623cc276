package cli

import (
	"context"
	"io"
)

// IO is what a subcommand may touch of the process around it.
type IO struct {
	In       io.Reader
	Out, Err io.Writer
	Ctx      context.Context // ends at the first interrupt
}
