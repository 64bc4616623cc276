// Command tinyloop loads and serves small looped language models.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"tinyloop/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly end; with the handler gone, a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	status := cli.Main(os.Args[1:], &cli.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Ctx: ctx})
	stop()
	os.Exit(status)
}
