//go:build !linux

package machine

import "math"

// Memory gives the bytes that this process may use; 0 where the system does not say.
func Memory() int64 { return 0 }

// Available gives no bound where the system is not asked.
func Available() int64 { return math.MaxInt64 }
