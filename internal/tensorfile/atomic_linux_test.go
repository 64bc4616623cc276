package tensorfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"tinyloop/internal/fault"
)

// A pipe has a reader, and a device belongs to everybody: neither is replaced by a file.
func TestWriteAtomicKeepsWhatIsNoFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Skip("no pipes here: ", err)
	}
	read := make(chan string)
	go func() {
		b, err := os.ReadFile(pipe)
		if err != nil {
			t.Error(err)
		}
		read <- string(b)
	}()
	say := func(w io.Writer) error {
		_, err := io.WriteString(w, "through")
		return err
	}
	if err := WriteAtomic(pipe, say); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "through" {
		t.Errorf("the reader got %q", got)
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is now %v, %v", info, err)
	}

	link := filepath.Join(t.TempDir(), "link") // as of a name in /dev/fd
	if err := os.Symlink("/dev/full", link); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat("/dev/full")
	if err != nil || before.Mode().IsRegular() {
		t.Skip("no full device here")
	}
	if err := WriteAtomic(link, say); !errors.Is(err, unix.ENOSPC) || fault.Of(err) != fault.Invalid {
		t.Errorf("a full device: %v", err)
	}
	if after, err := os.Stat("/dev/full"); err != nil || after.Mode() != before.Mode() {
		t.Errorf("/dev/full is now %v, %v", after, err)
	}
}
