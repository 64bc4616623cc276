package bench

import (
	"bytes"
	"os"
	"strconv"
)

// peakRSS gives the largest resident memory of this process since resetPeak, 0 where the system does not say.
func peakRSS() int64 { return field("/proc/self/status", "VmHWM:") }

// resetPeak makes the peak the present size. Linux only; elsewhere and where it is forbidden the peak stays that of the whole process.
func resetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// field reads a size in kB from a file of "name: value kB" lines, in bytes.
func field(path, name string) int64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(data) {
		f := bytes.Fields(line)
		if len(f) >= 2 && string(f[0]) == name {
			n, _ := strconv.ParseInt(string(f[1]), 10, 64)
			return n << 10
		}
	}
	return 0
}
