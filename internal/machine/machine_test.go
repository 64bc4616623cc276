package machine

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestLockIsHeldByOne(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("not every system has such locks")
	}
	dir := t.TempDir()
	first, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := Lock(dir); !errors.Is(err, ErrLocked) || f != nil {
		t.Fatalf("a folder that is held gives %v", err)
	}
	first.Close()
	second, err := Lock(dir)
	if err != nil {
		t.Fatalf("a folder that was given back gives %v", err)
	}
	second.Close()
	if _, err := Lock(filepath.Join(dir, "nothing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there gives %v", err)
	}
}

func TestMemory(t *testing.T) {
	if n := Memory(); runtime.GOOS == "linux" && (n < 1<<20 || n > 1<<50) {
		t.Errorf("the machine has %d bytes", n)
	}
	if n := Available(); n < 1<<20 {
		t.Errorf("%d bytes are free, with this test running", n)
	}
}
