package tensorfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
)

// raw builds the bytes of a GGUF file piece by piece, right or wrong.
type raw struct{ b []byte }

func (r *raw) u8(v uint8) *raw   { r.b = append(r.b, v); return r }
func (r *raw) u32(v uint32) *raw { r.b = binary.LittleEndian.AppendUint32(r.b, v); return r }
func (r *raw) u64(v uint64) *raw { r.b = binary.LittleEndian.AppendUint64(r.b, v); return r }
func (r *raw) str(s string) *raw { r.b = append(r.u64(uint64(len(s))).b, s...); return r }

func (r *raw) head(version uint32, tensors, keys uint64) *raw {
	r.b = append(r.b, "GGUF"...)
	return r.u32(version).u64(tensors).u64(keys)
}

func (r *raw) info(name string, typ uint32, offset uint64, dims ...uint64) *raw {
	r.str(name).u32(uint32(len(dims)))
	for _, d := range dims {
		r.u64(d)
	}
	return r.u32(typ).u64(offset)
}

// data pads the header and appends n bytes of data.
func (r *raw) data(n int) []byte {
	return append(pad(r.b, ggufAlignment), bytes.Repeat([]byte{1}, n)...)
}

func parse(b []byte) (*File, error) {
	f := &File{Path: "test", reading: "test"}
	return f.finish(f.read(b))
}

// wantFault checks that an error is a fault of the code and that its text holds every word.
func wantFault(t *testing.T, err error, code string, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, expected %s", code)
	}
	var e *fault.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v is no fault", err)
	}
	if e.Code != code || e.Kind == fault.Internal {
		t.Fatalf("code %s, kind %v (%v), expected %s", e.Code, e.Kind, err, code)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Fatalf("error %q lacks %q", err, w)
		}
	}
}

// allocated gives the bytes that fn takes from the heap, given back or not.
func allocated(fn func()) uint64 {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	fn()
	runtime.ReadMemStats(&b)
	return b.TotalAlloc - a.TotalAlloc
}

func bytesOf(b []byte) func(io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(b); return err }
}

func floatsOf(v ...float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// smallGGUF writes a valid file with a bit of everything and gives its bytes.
func smallGGUF(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "small.gguf")
	meta := []KV{
		{"general.architecture", "llama"}, {"a.u8", uint8(7)}, {"a.i16", int16(-3)}, {"a.f64", 2.5}, {"a.bool", true},
		{"a.ints", []int32{1, -2, 3}}, {"a.texts", []string{"", "é", "three"}}, {"a.bools", []bool{true, false}},
		{"a.nested", []any{[]uint16{1, 2}, []string{"x"}}},
	}
	tensors := []Source{
		{"token_embd.weight", kernel.F32, []int{3, 2}, bytesOf(floatsOf(1, 2, 3, 4, 5, 6))},
		{"blk.0.attn_q.weight", kernel.Q8_0, []int{2, 32}, bytesOf(make([]byte, 68))},
		{"output_norm.weight", kernel.F16, []int{5}, bytesOf(make([]byte, 10))},
	}
	if err := Write(path, meta, tensors); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// safe builds the bytes of a safetensors file.
func safe(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), bytes.Repeat([]byte{2}, data)...)
}

const smallSafe = `{"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]}}`

// smallLlama2c builds a llama2.c file: dim 8, hidden 12, 2 layers, 2 heads, 1 KV head, vocabulary 16, context 4.
func smallLlama2c(version, group int, shared bool) []byte {
	vocab := 16
	if version == 0 && !shared {
		vocab = -vocab
	}
	r := &raw{}
	if version > 0 {
		r.u32(llama2cMagic).u32(uint32(version))
	}
	for _, v := range []int{8, 12, 2, 2, 1, vocab, 4} {
		r.u32(uint32(int32(v)))
	}
	if version > 0 {
		if shared {
			r.u8(1)
		} else {
			r.u8(0)
		}
		if version == 2 {
			r.u32(uint32(group))
		}
		r.b = append(r.b, make([]byte, llama2cHeader-len(r.b))...)
	}
	h := llama2cHead{version, 8, 12, 2, 2, 1, 16, 4, shared, group, 0}
	x := float32(0)
	for _, p := range h.parts() {
		one := int(p.len()) / max(p.layers, 1)
		for range max(p.layers, 1) {
			if !p.packed {
				for range one {
					x++
					r.u32(math.Float32bits(x / 64))
				}
				continue
			}
			for i := range one {
				r.u8(uint8(i%255 + 1))
			}
			for g := range one / group {
				r.u32(math.Float32bits(float32(g+1) / 128))
			}
		}
	}
	return r.b
}
