//go:build !linux

package par

import (
	"runtime"
	"time"
)

// yieldThread offers the processor to others.
func yieldThread() { runtime.Gosched() }

// sleepThread gives the processor away for a moment.
func sleepThread() { time.Sleep(50 * time.Microsecond) }
