package tensorfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
)

// value draws a metadata value of any type that the format has.
func value(t *rapid.T, depth int) any {
	kinds := 25
	if depth == 0 {
		kinds = 24
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.Uint8().Draw(t, "v")
	case 1:
		return rapid.Int8().Draw(t, "v")
	case 2:
		return rapid.Uint16().Draw(t, "v")
	case 3:
		return rapid.Int16().Draw(t, "v")
	case 4:
		return rapid.Uint32().Draw(t, "v")
	case 5:
		return rapid.Int32().Draw(t, "v")
	case 6:
		return rapid.Float32().Draw(t, "v")
	case 7:
		return rapid.Bool().Draw(t, "v")
	case 8:
		return string(rapid.SliceOf(rapid.Byte()).Draw(t, "v"))
	case 9:
		return rapid.Uint64().Draw(t, "v")
	case 10:
		return rapid.Int64().Draw(t, "v")
	case 11:
		return rapid.Float64().Draw(t, "v")
	case 24:
		nested := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "n") {
			nested = append(nested, array(t, depth-1))
		}
		return nested
	}
	return array(t, depth)
}

func array(t *rapid.T, depth int) any {
	switch rapid.IntRange(0, 11).Draw(t, "element") {
	case 0:
		return rapid.SliceOf(rapid.Uint8()).Draw(t, "v")
	case 1:
		return rapid.SliceOf(rapid.Int8()).Draw(t, "v")
	case 2:
		return rapid.SliceOf(rapid.Uint16()).Draw(t, "v")
	case 3:
		return rapid.SliceOf(rapid.Int16()).Draw(t, "v")
	case 4:
		return rapid.SliceOf(rapid.Uint32()).Draw(t, "v")
	case 5:
		return rapid.SliceOf(rapid.Int32()).Draw(t, "v")
	case 6:
		return rapid.SliceOf(rapid.Float32()).Draw(t, "v")
	case 7:
		return rapid.SliceOf(rapid.Bool()).Draw(t, "v")
	case 8:
		return rapid.SliceOf(rapid.String()).Draw(t, "v")
	case 9:
		return rapid.SliceOf(rapid.Uint64()).Draw(t, "v")
	case 10:
		return rapid.SliceOf(rapid.Int64()).Draw(t, "v")
	}
	return rapid.SliceOf(rapid.Float64()).Draw(t, "v")
}

// TestWriteRoundTrip: whatever is written is read back the same, in the same order.
func TestWriteRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	types := []kernel.Type{kernel.F32, kernel.F16, kernel.BF16, kernel.Q8_0, kernel.Q4_0, kernel.Q4_1, kernel.Q5_0, kernel.Q5_1}
	rapid.Check(t, func(t *rapid.T) {
		var meta []KV
		for _, k := range rapid.SliceOfNDistinct(rapid.StringN(1, 20, -1), 0, 6, rapid.ID).Draw(t, "keys") {
			meta = append(meta, KV{k, value(t, 2)})
		}
		align := uint32(1) << rapid.IntRange(3, 7).Draw(t, "alignment")
		meta = append(meta, KV{"general.alignment", align})
		var tensors []Source
		data := map[string][]byte{}
		for _, n := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z._0-9]{1,63}`), 0, 5, rapid.ID).Draw(t, "names") {
			typ := rapid.SampledFrom(types).Draw(t, "type")
			shape := rapid.SliceOfN(rapid.IntRange(1, 4), 1, 4).Draw(t, "shape")
			shape[len(shape)-1] *= typ.Block()
			size := typ.BlockBytes()
			for _, d := range shape {
				size *= d
			}
			size /= typ.Block()
			b := bytes.Repeat([]byte{byte(len(n))}, size)
			data[n] = b
			tensors = append(tensors, Source{n, typ, shape, bytesOf(b)})
		}
		if err := Write(path, meta, tensors); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if got := f.Meta.KVs(); !sameKVs(got, meta) {
			t.Fatalf("wrote %#v, read %#v", meta, got)
		}
		back := f.Tensors()
		if len(back) != len(tensors) {
			t.Fatalf("wrote %d tensors, read %d", len(tensors), len(back))
		}
		for i, x := range back {
			s := tensors[i]
			if x.Name != s.Name || x.Type != s.Type || !reflect.DeepEqual(x.Shape, s.Shape) || !bytes.Equal(x.Data, data[s.Name]) {
				t.Fatalf("wrote %v, read %v", s, x)
			}
		}
		if f.Size()%int64(align) != 0 {
			t.Errorf("a file of %d bytes is not padded to %d", f.Size(), align)
		}
	})
}

// sameKVs compares by bits, so that a NaN equals itself and an empty array equals none.
func sameKVs(a, b []KV) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, err1 := appendValue(nil, a[i].Value)
		y, err2 := appendValue(nil, b[i].Value)
		if a[i].Key != b[i].Key || err1 != nil || err2 != nil || !bytes.Equal(x, y) || reflect.TypeOf(a[i].Value) != reflect.TypeOf(b[i].Value) {
			return false
		}
	}
	return true
}

func TestWriteRefuses(t *testing.T) {
	ok := Source{"w", kernel.F32, []int{1}, bytesOf(make([]byte, 4))}
	with := func(change func(*Source)) []Source {
		s := ok
		change(&s)
		return []Source{s}
	}
	for name, c := range map[string]struct {
		meta    []KV
		tensors []Source
	}{
		"key twice":    {[]KV{{"a", true}, {"a", true}}, nil},
		"key empty":    {[]KV{{"", true}}, nil},
		"value type":   {[]KV{{"a", 1}}, nil},
		"nested type":  {[]KV{{"a", []any{1}}}, nil},
		"alignment":    {[]KV{{"general.alignment", uint32(33)}}, nil},
		"name twice":   {nil, []Source{ok, ok}},
		"name empty":   {nil, with(func(s *Source) { s.Name = "" })},
		"name long":    {nil, with(func(s *Source) { s.Name = string(make([]byte, 64)) })},
		"no dimension": {nil, with(func(s *Source) { s.Shape = nil })},
		"5 dimensions": {nil, with(func(s *Source) { s.Shape = []int{1, 1, 1, 1, 1} })},
		"zero":         {nil, with(func(s *Source) { s.Shape = []int{0} })},
		"negative":     {nil, with(func(s *Source) { s.Shape = []int{-1} })},
		"unknown type": {nil, with(func(s *Source) { s.Type = 12 })},
		"half a block": {nil, with(func(s *Source) { s.Type, s.Shape = kernel.Q8_0, []int{2, 16} })},
		"too little":   {nil, with(func(s *Source) { s.WriteTo = bytesOf(make([]byte, 3)) })},
		"too much":     {nil, with(func(s *Source) { s.WriteTo = bytesOf(make([]byte, 5)) })},
	} {
		dir := t.TempDir()
		if err := Write(filepath.Join(dir, "m.gguf"), c.meta, c.tensors); err == nil {
			t.Errorf("%s was written", name)
		}
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("%s left %v behind", name, left)
		}
	}
}

func TestWriteAtomic(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "f"), []byte("old"))
	boom := errors.New("boom")
	err := WriteAtomic(path, func(w io.Writer) error {
		w.Write(make([]byte, 3<<20))
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "old" {
		t.Errorf("a failed write left %q", b)
	}
	if err := WriteAtomic(path, bytesOf([]byte("new"))); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "new" {
		t.Errorf("read back %q", b)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	full := &fs.PathError{Op: "write", Path: "/somewhere/.tinyloop-1.tmp", Err: errors.New("disk full")}
	err = bodyFault("out.gguf", full.Path, fmt.Errorf("tensor: %w", full))
	wantFault(t, err, codeNotWritten, "out.gguf cannot be written", "disk full")
	if strings.Contains(err.Error(), ".tmp") {
		t.Errorf("the temporary name shows: %v", err)
	}
	if err := WriteAtomic(dir, bytesOf(nil)); fault.Of(err) != fault.Invalid {
		t.Errorf("writing over a folder: %v", err)
	}
	if err := WriteAtomic(filepath.Join(dir, "none", "f"), bytesOf(nil)); fault.Of(err) != fault.Invalid {
		t.Errorf("writing into no folder: %v", err)
	}
}

// TestWriteAtomicFollowsLinks: a link still leads to its target afterwards, which has the new contents.
func TestWriteAtomicFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "there", "real"), filepath.Join(dir, "link")
	if err := os.Mkdir(filepath.Dir(real), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(real, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Skip("this system makes no symbolic links: ", err)
	}
	if err := WriteAtomic(link, func(w io.Writer) error { _, err := w.Write([]byte("new")); return err }); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is one no more: %v, %v", info.Mode(), err)
	}
	if b, err := os.ReadFile(real); err != nil || string(b) != "new" {
		t.Errorf("behind the link is %q, %v", b, err)
	}
}
