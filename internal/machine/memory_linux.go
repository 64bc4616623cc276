package machine

import (
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Memory gives the bytes that this process may use: the machine's, or its control group's if that is less; 0 where the system does not say.
func Memory() int64 {
	var total int64
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) == nil {
		total = int64(uint64(si.Totalram) * uint64(si.Unit))
	}
	if n, ok := number(read("/sys/fs/cgroup/memory.max"), ""); ok {
		if total == 0 {
			return n
		}
		total = min(total, n)
	}
	return total
}

// Available gives the bytes that this process may take now: what the machine has free or can free at once, and what its control group leaves of its limit, where
// pages of files do not count.
func Available() int64 {
	free := Memory()
	if free == 0 {
		free = math.MaxInt64
	}
	if kib, ok := number(read("/proc/meminfo"), "MemAvailable:"); ok {
		free = min(free, kib<<10)
	}
	limit, limited := number(read("/sys/fs/cgroup/memory.max"), "")
	used, ok := number(read("/sys/fs/cgroup/memory.current"), "")
	if !limited || !ok {
		return free
	}
	stat := read("/sys/fs/cgroup/memory.stat")
	for _, key := range []string{"inactive_file", "active_file"} {
		n, _ := number(stat, key)
		used -= n
	}
	return min(free, limit-max(used, 0))
}

// read gives a small file of the system, "" where there is none.
func read(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

// number gives the number behind a key that begins a line, or, for the key "", the number that is all of the text.
func number(text, key string) (int64, bool) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if key != "" && len(f) > 0 && f[0] == key {
			f = f[1:]
		} else if key != "" {
			continue
		}
		if len(f) == 0 {
			return 0, false
		}
		n, err := strconv.ParseInt(f[0], 10, 64)
		return n, err == nil && n > 0
	}
	return 0, false
}
