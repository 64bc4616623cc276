package tensorfile

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
)

func TestSafetensors(t *testing.T) {
	f, err := parse(safe(smallSafe+"   ", 32))
	if err != nil {
		t.Fatal(err)
	}
	w, _ := f.Tensor("w")
	b, _ := f.Tensor("b")
	if f.Format != Safetensors || w.Type != kernel.F32 || !reflect.DeepEqual(w.Shape, []int{2, 3}) || len(w.Data) != 24 || b.Type != kernel.BF16 || len(b.Data) != 8 {
		t.Errorf("%s %+v %+v", f.Format, w, b)
	}
	if v, _ := f.Meta.String("format"); v != "pt" {
		t.Errorf("metadata: %q", v)
	}
	if x := f.Tensors(); x[0].Name != "w" || x[1].Name != "b" {
		t.Error("not in file order")
	}
}

func TestSafetensorsUnusable(t *testing.T) {
	f, err := parse(safe(`{"m":{"dtype":"BOOL","shape":[8],"data_offsets":[0,8]},"n":{"dtype":"NEW","shape":[],"data_offsets":[8,11]},"i":{"dtype":"I64","shape":[1],"data_offsets":[11,19]}}`, 19))
	if err != nil {
		t.Fatal(err)
	}
	for name, dtype := range map[string]string{"m": "BOOL", "n": "NEW", "i": "I64"} {
		x, _ := f.Tensor(name)
		if err := x.Usable(); fault.Of(err) != fault.Unsupported || !strings.Contains(err.Error(), dtype) || x.Data != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSafetensorsAligned: the format only recommends alignment; data that kernels read is aligned all the same.
func TestSafetensorsAligned(t *testing.T) {
	for n := range 8 {
		f, err := parse(safe(smallSafe+strings.Repeat(" ", n), 32))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range f.Tensors() {
			if a := aligned(x.Data, uint64(x.Type.BlockBytes())); &a[0] != &x.Data[0] {
				t.Errorf("%s is not aligned after %d spaces", x.Name, n)
			}
		}
	}
}

func TestSafetensorsHostile(t *testing.T) {
	entry := func(dtype, shape, offsets string) string {
		return fmt.Sprintf(`{"w":{"dtype":%q,"shape":[%s],"data_offsets":[%s]}}`, dtype, shape, offsets)
	}
	long := binary.LittleEndian.AppendUint64(nil, 1<<40)
	for _, c := range []struct {
		name, code string
		b          []byte
		words      []string
	}{
		{"header beyond the file", codeTruncated, append(binary.LittleEndian.AppendUint64(nil, 5000), "{}    "...), []string{"5008", "14"}},
		{"header beyond the limit", codeMagic, append(long, "{}    "...), nil},
		{"not JSON", codeHeader, safe(`{"w":`, 8), nil},
		{"no object", codeMagic, safe(`["w"]`, 8), nil},
		{"entry no object", codeHeader, safe(`{"w":[1]}`, 8), []string{`"w"`}},
		{"junk behind", codeHeader, safe(entry("F32", "2", "0,8")+"x", 8), nil},
		{"name twice", codeDuplicate, safe(`{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), []string{`"w"`, "twice"}},
		{"name empty", codeValue, safe(`{"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), nil},
		{"negative", codeHeader, safe(entry("F32", "-1", "0,8"), 8), nil},
		{"fraction", codeHeader, safe(entry("F32", "1.5", "0,8"), 8), nil},
		{"zero dimension (llama.cpp 24263)", codeShape, safe(entry("F32", "0", "0,0"), 0), []string{"[0]"}},
		{"size wraps (llama.cpp 18674)", codeShape, safe(entry("F32", "4294967296,4294967296", "0,0"), 8), []string{"overflows"}},
		{"huge", codeTruncated, safe(entry("F32", "1099511627776", "0,4398046511104"), 8), []string{"4398046511104"}},
		{"size and offsets", codeOffset, safe(entry("F32", "2", "0,4"), 4), []string{"needs 8 bytes", "give 4"}},
		{"offsets swapped", codeOffset, safe(entry("F32", "2", "8,0"), 8), nil},
		{"one offset", codeOffset, safe(entry("F32", "2", "8"), 8), []string{"[begin, end]"}},
		{"nine dimensions", codeShape, safe(entry("U8", "1,1,1,1,1,1,1,1,1", "0,1"), 1), []string{"9 dimensions"}},
		{"overlap", codeOffset, safe(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 3), []string{"overlap"}},
		{"hole", codeOffset, safe(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}}`, 5), []string{"no tensor"}},
		{"one byte short", codeTruncated, safe(smallSafe, 31), []string{"32", "31"}},
		{"half", codeTruncated, safe(smallSafe, 16), nil},
		{"one byte long", codeOffset, safe(smallSafe, 33), []string{"end at"}},
		{"metadata no text", codeHeader, safe(`{"__metadata__":{"a":1}}`, 0), nil},
		{"metadata twice", codeDuplicate, safe(`{"__metadata__":{"a":"1","a":"2"}}`, 0), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var err error
			if n := allocated(func() { _, err = parse(c.b) }); n > 64<<10 {
				t.Errorf("%d bytes taken for a file of %d", n, len(c.b))
			}
			wantFault(t, err, c.code, c.words...)
		})
	}
}

const (
	shardA = `{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`
	shardB = `{"__metadata__":{"format":"pt"},"b":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}`
	index  = `{"metadata":{"total_size":12},"weight_map":{"b":"m-2.safetensors","a":"m-1.safetensors"}}`
)

// folder writes files into a new folder and gives its path.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestShards(t *testing.T) {
	dir := folder(t, map[string]string{indexName: index, "m-1.safetensors": string(safe(shardA, 8)), "m-2.safetensors": string(safe(shardB, 4)), "config.json": `{"x":1}`})
	for _, path := range []string{dir, filepath.Join(dir, indexName)} {
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if x := f.Tensors(); len(x) != 2 || x[0].Name != "a" || x[1].Name != "b" || f.Size() != int64(len(safe(shardA, 8))+len(safe(shardB, 4))) {
			t.Errorf("%+v", x)
		}
		if b, err := f.Sidecar("config.json"); err != nil || string(b) != `{"x":1}` {
			t.Errorf("config.json: %q, %v", b, err)
		}
		_, err = f.Sidecar("tokenizer.json")
		wantFault(t, err, codeMissing, "tokenizer.json")
		for _, name := range []string{"../x", "", ".", "..", "a/b"} {
			if _, err := f.Sidecar(name); fault.Of(err) != fault.Invalid {
				t.Errorf("sidecar %q: %v", name, err)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	single := folder(t, map[string]string{singleName: string(safe(shardA, 8))})
	f, err := Open(single)
	if err != nil || len(f.Tensors()) != 1 {
		t.Fatal(err)
	}
	f.Close()
}

func TestShardsHostile(t *testing.T) {
	for _, c := range []struct {
		name, code, index, a, b string
		words                   []string
	}{
		{"shard missing", codeMissing, index, string(safe(shardA, 8)), "", []string{"m-2.safetensors"}},
		{"shard cut", codeTruncated, index, string(safe(shardA, 8)), string(safe(shardB, 3)), []string{"m-2.safetensors"}},
		{"shard is HTML", codeHTML, index, string(safe(shardA, 8)), "<!DOCTYPE html>", []string{"m-2.safetensors", "HTML"}},
		{"shard is GGUF", codeMagic, index, string(safe(shardA, 8)), "GGUF", []string{"m-2.safetensors"}},
		{"tensor elsewhere", codeShard, strings.ReplaceAll(index, "m-1", "m-2"), "", string(safe(shardB, 4)), []string{`"a"`, "m-2.safetensors"}},
		{"tensor twice", codeDuplicate, index, string(safe(shardA, 8)), string(safe(shardB[:len(shardB)-1]+`,"a":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}}`, 5)), nil},
		{"path in index", codeShard, strings.ReplaceAll(index, "m-1", "../m-1"), "", "", []string{"same folder"}},
		{"no shard file", codeShard, strings.ReplaceAll(index, "m-1.safetensors", "/etc/passwd"), "", "", nil},
		{"empty map", codeShard, `{"weight_map":{}}`, "", "", nil},
		{"index no JSON", codeHeader, `{"weight_map"`, "", "", nil},
		{"index is HTML", codeHTML, `<html>`, "", "", []string{indexName}},
		{"index twice", codeDuplicate, `{"weight_map":{"a":"m-1.safetensors","a":"m-2.safetensors"}}`, "", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{indexName: c.index}
			if c.a != "" {
				files["m-1.safetensors"] = c.a
			}
			if c.b != "" {
				files["m-2.safetensors"] = c.b
			}
			_, err := Open(folder(t, files))
			wantFault(t, err, c.code, c.words...)
		})
	}
}
