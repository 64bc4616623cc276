//go:build !linux

package host

// memory gives a modest figure where the system is not asked: --kv-budget sets another.
func memory() int64 { return fallbackMemory }
