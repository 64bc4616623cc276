package tensorfile

import (
	"os"
	"testing"
)

// check is what must hold of any bytes at all: no panic, memory of the order of the input, and views that lie within it.
func check(t *testing.T, b []byte) {
	var f *File
	var err error
	if n := allocated(func() { f, err = parse(b) }); n > 64*uint64(len(b))+1<<18 {
		t.Fatalf("%d bytes taken for an input of %d", n, len(b))
	}
	if err != nil {
		if err.Error() == "" || len(err.Error()) > 2000 {
			t.Fatalf("an error of %d bytes", len(err.Error()))
		}
		return
	}
	total := 0
	for _, x := range f.Tensors() {
		if x.Usable() != nil {
			continue
		}
		if want := x.Len() / x.Type.Block() * x.Type.BlockBytes(); len(x.Data) != want || want == 0 {
			t.Fatalf("tensor %q of shape %v has %d bytes, expected %d", x.Name, x.Shape, len(x.Data), want)
		}
		total += len(x.Data)
	}
	if f.Format != Llama2c && total > len(b) {
		t.Fatalf("%d bytes of tensors in a file of %d", total, len(b))
	}
}

func FuzzGGUF(f *testing.F) {
	b := smallGGUF(f)
	f.Add(b)
	f.Add(b[:100])
	f.Add((&raw{}).head(3, 2, 0).info("a", 10, 0, 64).info("b", 200, 32, 64).data(64))
	f.Add((&raw{}).head(2, 1<<40, 1<<40).b)
	f.Fuzz(check)
}

func FuzzSafetensors(f *testing.F) {
	f.Add(safe(smallSafe, 32))
	f.Add(safe(smallSafe+" ", 31))
	f.Add(safe(`{"m":{"dtype":"BOOL","shape":[],"data_offsets":[0,1]}}`, 1))
	f.Fuzz(check)
}

func FuzzLlama2c(f *testing.F) {
	f.Add(smallLlama2c(0, 0, true))
	f.Add(smallLlama2c(1, 0, false))
	f.Add(smallLlama2c(2, 4, true))
	f.Fuzz(check)
}

// FuzzIndex reads an index of shards beside one small shard.
func FuzzIndex(f *testing.F) {
	dir := f.TempDir()
	if err := os.WriteFile(dir+"/m-1.safetensors", safe(shardA, 8), 0o600); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(index))
	f.Add([]byte(`{"weight_map":{"a":"m-1.safetensors"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &File{reading: indexName, folder: dir}
		home, err := s.weightMap(b)
		if err != nil {
			return
		}
		if x, err := s.finish(s.readShards(home)); err == nil {
			x.Close()
		}
	})
}
