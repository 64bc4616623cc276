//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package machine

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the lock of an open file, which the system gives back when the process ends. File systems that know no locks hold nothing.
func lock(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return nil
}
