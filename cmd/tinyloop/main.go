// Command tinyloop loads and serves small looped language models.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"tinyloop/internal/cli"
)

func main() {
	collectLater()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly end; with the handler gone, a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	status := cli.Main(os.Args[1:], &cli.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Ctx: ctx})
	stop()
	os.Exit(status)
}

// firstHeap is about the size of the heap, in MiB, at which memory is collected for the first time.
const firstHeap = 32

// collectLater lets the heap of a young process grow before it is collected: nothing of what the load of a model makes is garbage, and a collector that begins at
// 4 MiB costs a small model a quarter of the time to its first token. The first collection sets the usual pace. GOGC, where it is set, says otherwise.
func collectLater() {
	if os.Getenv("GOGC") != "" {
		return
	}
	usual := debug.SetGCPercent(100 * firstHeap / 4)
	runtime.AddCleanup(&struct{ _ [64]byte }{}, func(percent int) { debug.SetGCPercent(percent) }, usual)
}
