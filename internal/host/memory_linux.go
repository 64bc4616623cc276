package host

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memory gives the bytes that this process may use: the machine's, or its control group's if that is less.
func memory() int64 {
	total := int64(fallbackMemory)
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) == nil {
		total = int64(uint64(si.Totalram) * uint64(si.Unit))
	}
	if b, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 {
			total = min(total, n)
		}
	}
	return total
}
