package par

import "golang.org/x/sys/unix"

// yieldThread offers the processor to other threads of the program. The runtime's own way, Gosched, would hand a locked goroutine through two other threads and
// back.
func yieldThread() { unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// sleepThread gives the processor away for some 50 to 100 µs.
func sleepThread() {
	t := unix.Timespec{Nsec: 50_000}
	_ = unix.Nanosleep(&t, nil) // cut short by a signal is as good
}
