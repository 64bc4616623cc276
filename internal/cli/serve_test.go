package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSplitModel(t *testing.T) {
	dir := t.TempDir()
	file, odd := filepath.Join(dir, "m.gguf"), filepath.Join(dir, "a=b.gguf")
	for _, f := range []string{file, odd} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for spec, want := range map[string][2]string{
		file: {"m", file}, odd: {"a=b", odd}, "tl=" + file: {"tl", file}, "org/model:v1=" + file: {"org/model:v1", file}, "x=" + odd: {"x", odd},
		"x=missing.gguf": {"x", "missing.gguf"}, "dir/a=missing.gguf": {"a=missing", "dir/a=missing.gguf"}, "=" + file: {"m", "=" + file},
	} {
		if name, path := splitModel(spec); name != want[0] || path != want[1] {
			t.Errorf("%s: %q %q, want %q", spec, name, path, want)
		}
	}
}

// An address without a port, or none at all, must not become any port on all interfaces.
func TestListenNeedsAPort(t *testing.T) {
	for _, addr := range []string{"", ":", "127.0.0.1:", "[::1]:"} {
		if l, err := listen(addr); err == nil {
			t.Errorf("%q listens on %s", addr, l.Addr())
			l.Close()
		} else if !strings.Contains(err.Error(), "HOST:PORT") {
			t.Errorf("%q: %v", addr, err)
		}
	}
	l, err := listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}
