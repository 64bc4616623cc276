package cli

import (
	"os"
	"path/filepath"
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
