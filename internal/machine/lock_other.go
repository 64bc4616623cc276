//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package machine

import "os"

func lock(*os.File) error { return nil }
