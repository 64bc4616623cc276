// Package machine says what the machine under this process offers, and keeps two processes out of one folder.
package machine

import (
	"errors"
	"os"
	"path/filepath"
)

// ErrLocked is the error of a folder that another process holds.
var ErrLocked = errors.New("another process holds this folder")

// LockName is the empty file that Lock puts into a folder. It stays there: who removed it could take it from under a process that waits for it.
const LockName = ".lock"

// Lock holds a folder for this process until the file is closed or the process ends, however it ends. It never waits: a folder that is held gives
// ErrLocked. Systems without such locks hold nothing.
func Lock(folder string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(folder, LockName), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
