//go:build !linux

package host

import "math"

// memory gives a modest figure where the system is not asked: --kv-budget sets another.
func memory() int64 { return fallbackMemory }

// available gives no bound where the system is not asked.
func available() int64 { return math.MaxInt64 }
