package tensorfile

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
	"tinyloop/internal/fault"
	"tinyloop/internal/fixture"
	"tinyloop/internal/kernel"
)

func write(t *testing.T, path string, b []byte) string {
	t.Helper()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOpenNoModel: what people give as a model by mistake (ggml 1505, llama.cpp PR 2629) is each refused for what it is.
func TestOpenNoModel(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	closed := write(t, filepath.Join(dir, "closed.gguf"), smallGGUF(t))
	os.Chmod(closed, 0)
	file := func(name string, b string) string { return write(t, filepath.Join(dir, name), []byte(b)) }
	for _, c := range []struct {
		path, code string
		kind       fault.Kind
		words      []string
	}{
		{filepath.Join(dir, "nowhere.gguf"), codeMissing, fault.NotFound, []string{"nowhere.gguf", "no such file"}},
		{filepath.Join(dir, "fifo", "x"), codeUnreadable, fault.Invalid, nil},
		{dir, codeDirectory, fault.Invalid, []string{"folder without a model", singleName, indexName}},
		{fifo, codeSpecial, fault.Invalid, []string{"named pipe"}},
		{"/dev/null", codeSpecial, fault.Invalid, []string{"device"}},
		{closed, codeUnreadable, fault.Denied, []string{"permission"}},
		{file("empty.gguf", ""), codeEmpty, fault.Invalid, []string{"empty"}},
		{file("page.gguf", "<!doctype html><html>"), codeHTML, fault.Invalid, []string{"not a model file (looks like HTML)", "page.gguf"}},
		{file("page2.gguf", "\xef\xbb\xbf\n  <HTML lang=en>"), codeHTML, fault.Invalid, []string{"looks like HTML"}},
		{file("lfs.gguf", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), codeLFS, fault.Invalid, []string{"Git LFS"}},
		{file("torch.bin", "PK\x03\x04 and so on"), codeZip, fault.Invalid, []string{"zip"}},
		{file("text.gguf", "Once upon a time there was"), codeMagic, fault.Invalid, []string{"expected GGUF, safetensors or llama2.c", "4f 6e 63 65"}},
		{file("short", "x"), codeMagic, fault.Invalid, nil},
	} {
		if c.path == closed && os.Geteuid() == 0 {
			continue // root reads everything
		}
		_, err := Open(c.path)
		if err == nil {
			t.Errorf("%s opened", c.path)
			continue
		}
		wantFault(t, err, c.code, c.words...)
		if fault.Of(err) != c.kind {
			t.Errorf("%s: kind %v, expected %v", c.path, fault.Of(err), c.kind)
		}
	}
}

// TestOpenPermission checks the message for an unreadable file also where the tests run as root.
func TestOpenPermission(t *testing.T) {
	wantFault(t, pathFault("x", os.ErrPermission), codeUnreadable, "permission")
}

// TestOpenAnyName: names are bytes to the system and to us (llama.cpp 5802, 18571).
func TestOpenAnyName(t *testing.T) {
	for _, name := range []string{"modèles", "Ж 模", "emoji 🦙", "%41 #?&"} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := Open(write(t, filepath.Join(dir, name+".gguf"), smallGGUF(t)))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name+".txt"), []byte("beside"))
		if b, err := f.Sidecar(name + ".txt"); err != nil || string(b) != "beside" {
			t.Errorf("%q: sidecar %q, %v", name, b, err)
		}
		f.Close()
	}
}

// TestReplaceWhileOpen: a file replaced by a rename, or deleted, goes on being served from the old data.
func TestReplaceWhileOpen(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "m.gguf"), smallGGUF(t))
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	x, _ := f.Tensor("token_embd.weight")
	want := bytes.Clone(x.Data)
	sum, err := f.Sum()
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteAtomic(path, func(w io.Writer) error { _, err := w.Write([]byte("short")); return err }); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(x.Data, want) || !sameSum(f, sum) {
		t.Error("the open file changed with its replacement")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if !sameSum(f, sum) {
		t.Error("the open file changed with its removal")
	}
}

func sameSum(f *File, want [32]byte) bool {
	sum, err := f.Sum()
	return err == nil && sum == want
}

// TestTruncateWhileOpen: a file cut in place costs an error under Guard, not the process.
func TestTruncateWhileOpen(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "m.gguf"), append(smallGGUF(t), make([]byte, 1<<16)...))
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	_, err = f.Sum()
	wantFault(t, err, codeTruncated, "cut short")
	if err := f.Guard(func() error { return nil }); err != nil {
		t.Error(err)
	}
	defer func() {
		if r := recover(); r != "mine" {
			t.Errorf("a panic of the guarded function became %v", r)
		}
	}()
	f.Guard(func() error { panic("mine") })
}

func TestCloseTwice(t *testing.T) {
	f, err := Open(write(t, filepath.Join(t.TempDir(), "m.gguf"), smallGGUF(t)))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, ok := f.Tensor("token_embd.weight"); ok || f.Size() != 0 {
		t.Error("a closed file still has tensors")
	}
}

// BenchmarkOpen opens a file of 200 tensors and a vocabulary of 32,000.
func BenchmarkOpen(b *testing.B) {
	tokens := make([]string, 32000)
	for i := range tokens {
		tokens[i] = fmt.Sprint("token", i)
	}
	var tensors []Source
	for i := range 200 {
		tensors = append(tensors, Source{fmt.Sprintf("blk.%d.attn_q.weight", i), kernel.F32, []int{64, 64}, bytesOf(make([]byte, 4*64*64))})
	}
	path := filepath.Join(b.TempDir(), "m.gguf")
	if err := Write(path, []KV{{"tokenizer.ggml.tokens", tokens}, {"tokenizer.ggml.scores", make([]float32, 32000)}}, tensors); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		f, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}

// A container in memory reads as the same file on disk does, wherever its bytes lie, and has nothing beside it.
func TestOpenBytes(t *testing.T) {
	path := fixture.Path(t, "stories260K", "stories260K-f32.gguf")
	want, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	whole := fixture.Read(t, "stories260K", "stories260K-f32.gguf")
	for shift := range 3 {
		b := append(make([]byte, shift, len(whole)+shift), whole...)[shift:]
		f, err := OpenBytes("inside.tinyloop", b)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range f.Tensors() {
			w := want.Tensors()[i]
			if x.Name != w.Name || !bytes.Equal(x.Data, w.Data) || uintptr(unsafe.Pointer(&x.Data[0]))%32 != 0 {
				t.Errorf("shift %d: tensor %s differs from %s, or lies at %p", shift, x.Name, w.Name, &x.Data[0])
			}
		}
		if _, err := f.Sidecar("open_test.go"); fault.Of(err) != fault.NotFound {
			t.Errorf("a sidecar of a model in memory: %v", err)
		}
		if f.Size() != want.Size() || f.Close() != nil || !bytes.Equal(b, whole) {
			t.Errorf("shift %d: size %d, or the bytes were changed", shift, f.Size())
		}
	}
	for _, b := range [][]byte{nil, []byte("<html>"), whole[:1000]} {
		if _, err := OpenBytes("inside.tinyloop", b); err == nil || !strings.Contains(err.Error(), "inside.tinyloop") {
			t.Errorf("%d bytes: %v", len(b), err)
		}
	}
}
