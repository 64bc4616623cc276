package tensorfile

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tinyloop/internal/fault"
)

// WriteAtomic writes a file so that its name always stands for a whole one: body fills a temporary file in the same folder, which is synced and
// then renamed over path, or over what a symbolic link of that name leads to. After an error path is as it was and the temporary file is gone. A reader that has the
// old file mapped keeps it. What is no file, as a device or a pipe, is written to as it stands.
func WriteAtomic(path string, body func(w io.Writer) error) (err error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			path = target
		}
	}
	switch info, err := os.Stat(path); {
	case err != nil: // a new file
	case info.IsDir():
		return pathError(fault.Invalid, codeDirectory, "%s is a folder, expected the name of a file to write", path)
	case !info.Mode().IsRegular():
		return writeThrough(path, body)
	}
	folder := filepath.Dir(path)
	f, err := os.OpenFile(filepath.Join(folder, tempName()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return writeFault(path, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := body(w); err != nil {
		return bodyFault(path, f.Name(), err)
	}
	if err := finishFile(f, w); err != nil {
		return writeFault(path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return writeFault(path, err)
	}
	return syncFolder(folder)
}

// writeThrough writes to a device or a pipe, which has a reader of its own and must not be replaced by a file.
func writeThrough(path string, body func(w io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return writeFault(path, err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if err := body(w); err != nil {
		f.Close()
		return bodyFault(path, path, err)
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		return writeFault(path, err)
	}
	return nil
}

func finishFile(f *os.File, w *bufio.Writer) error {
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// tempName is short, so that it fits wherever the real name does.
func tempName() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return tempPrefix + hex.EncodeToString(b[:]) + tempSuffix
}

const tempPrefix, tempSuffix = ".tinyloop-", ".tmp"

// Sweep removes what WriteAtomic left in a folder when its process was killed. Nobody may be writing there.
func Sweep(folder string) {
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if name := e.Name(); e.Type().IsRegular() && strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, tempSuffix) {
			os.Remove(filepath.Join(folder, name))
		}
	}
}

// syncFolder makes the rename itself durable. Systems that cannot sync a folder say so; the file is whole all the same.
func syncFolder(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return nil
	}
	defer d.Close()
	d.Sync()
	return nil
}

// bodyFault tells a disk that failed under body from a mistake of body's own, which stays as it is.
func bodyFault(path, temp string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) && pe.Path == temp {
		return writeFault(path, err)
	}
	return err
}

// writeFault names the file that was asked for, not the temporary one.
func writeFault(path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	e := pathError(fault.Invalid, codeNotWritten, "%s cannot be written", path)
	e.Err = err
	return e
}
