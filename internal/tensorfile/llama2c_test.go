package tensorfile

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"tinyloop/internal/fixture"
	"tinyloop/internal/kernel"
)

func f32s(b []byte) []float32 {
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

// TestLlama2cEqualsGGUF: the .bin and the f32 GGUF of one model are the same tensors, byte for byte, and the same numbers of metadata.
func TestLlama2cEqualsGGUF(t *testing.T) {
	g, err := Open(fixture.Path(t, "stories260K", "stories260K-f32.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	l, err := Open(fixture.Path(t, "stories260K", "stories260K.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if l.Format != Llama2c || len(l.Tensors()) != 47 {
		t.Fatalf("%s with %d tensors", l.Format, len(l.Tensors()))
	}
	for _, x := range l.Tensors() {
		y, ok := g.Tensor(x.Name)
		if !ok || x.Type != kernel.F32 || !bytes.Equal(x.Data, y.Data) || len(x.Shape) != len(y.Shape) || x.Shape[0] != y.Shape[0] {
			t.Errorf("%s differs: %v and %v", x.Name, x.Shape, y.Shape)
		}
	}
	for _, k := range g.Meta.Keys() {
		if k[:6] != "llama." {
			continue
		}
		a, _ := g.Meta.Get(k)
		b, ok := l.Meta.Get(k)
		if !ok || a != b {
			t.Errorf("%s: %v in GGUF, %v in llama2.c", k, a, b)
		}
	}
	if _, err := l.Sidecar("tok512.bin"); err != nil {
		t.Error(err)
	}
}

// TestLlama2cGroups: the int8 file is the f32 file to within half a step of each group's scale.
func TestLlama2cGroups(t *testing.T) {
	a, err := Open(fixture.Path(t, "stories260K", "stories260K.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := Open(fixture.Path(t, "stories260K", "stories260K-q8.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, x := range a.Tensors() {
		y, ok := b.Tensor(x.Name)
		if !ok || y.Type != kernel.F32 || y.Len() != x.Len() {
			t.Fatalf("%s: %s of %d values", x.Name, y.Type, y.Len())
		}
		u, v := f32s(x.Data), f32s(y.Data)
		for i := 0; i < len(u); i += 8 {
			n := min(8, len(u)-i)
			top := 0.0
			for _, w := range u[i : i+n] {
				top = max(top, math.Abs(float64(w)))
			}
			for j := i; j < i+n; j++ {
				if d := math.Abs(float64(u[j] - v[j])); d > top/127*0.501 {
					t.Fatalf("%s[%d]: %v became %v", x.Name, j, u[j], v[j])
				}
			}
		}
	}
}

func TestLlama2cVersions(t *testing.T) {
	base, err := parse(smallLlama2c(0, 0, true))
	if err != nil {
		t.Fatal(err)
	}
	if base.Format != Llama2c || len(base.Tensors()) != 1+2*9+1 {
		t.Fatalf("%s with %d tensors", base.Format, len(base.Tensors()))
	}
	if x, _ := base.Tensor("token_embd.weight"); f32s(x.Data)[0] != 1.0/64 {
		t.Error("the embedding is not at the start of version 0")
	}
	own, err := parse(smallLlama2c(0, 0, false))
	if err != nil {
		t.Fatal(err)
	}
	if x, ok := own.Tensor("output.weight"); !ok || x.Shape[0] != 16 {
		t.Error("a negative vocabulary means a head of its own")
	}
	v1, err := parse(smallLlama2c(1, 0, true))
	if err != nil {
		t.Fatal(err)
	}
	if x, _ := v1.Tensor("blk.0.attn_norm.weight"); f32s(x.Data)[0] != 1.0/64 {
		t.Error("version 1 starts with the norms")
	}
	for _, f := range []*File{own, v1} {
		for _, x := range base.Tensors() {
			if y, ok := f.Tensor(x.Name); !ok || y.Len() != x.Len() {
				t.Errorf("%s is missing or of another size", x.Name)
			}
		}
	}
	v2, err := parse(smallLlama2c(2, 4, false))
	if err != nil {
		t.Fatal(err)
	}
	x, _ := v2.Tensor("token_embd.weight")
	if v := f32s(x.Data); v[0] != 1.0/128 || v[3] != 4.0/128 || v[4] != 5*2.0/128 || v[127] != -128*32.0/128 {
		t.Errorf("groups of version 2: %v", v)
	}
}

func TestLlama2cHostile(t *testing.T) {
	set := func(b []byte, at int, v uint32) []byte {
		b = bytes.Clone(b)
		binary.LittleEndian.PutUint32(b[at:], v)
		return b
	}
	v0, v2 := smallLlama2c(0, 0, true), smallLlama2c(2, 4, true)
	for _, c := range []struct {
		name, code string
		b          []byte
		words      []string
	}{
		{"one byte short", codeTruncated, v0[:len(v0)-1], []string{"truncated", "has"}},
		{"half", codeTruncated, v0[:len(v0)/2], []string{"truncated"}},
		{"one byte long", codeTruncated, append(bytes.Clone(v0), 0), nil},
		{"dim that no file holds", codeTruncated, set(v0, 0, 1<<15), nil},
		{"dim beyond the limit", codeMagic, set(v0, 0, 1<<30), []string{"not a model"}},
		{"dim 0", codeMagic, set(v0, 0, 0), nil},
		{"heads 3", codeMagic, set(v0, 12, 3), nil},
		{"version 2, dim 0", codeHeader, set(v2, 8, 0), []string{"dim is 0", "1 to 65536"}},
		{"version 2, heads", codeHeader, set(v2, 20, 3), []string{"heads"}},
		{"version 2, KV heads", codeHeader, set(v2, 24, 9), []string{"9 KV heads"}},
		{"version 3", codeVersion, set(v2, 4, 3), []string{"version 3"}},
		{"group 0", codeValue, set(v2, 37, 0), []string{"group size is 0"}},
		{"group negative", codeValue, set(v2, 37, 0xffffffff), nil},
		{"group that does not divide", codeShape, set(v2, 37, 3), []string{"groups of 3"}},
		{"version 2 short", codeTruncated, v2[:len(v2)-1], nil},
		{"header only", codeTruncated, v2[:200], []string{"256", "200"}},
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

// TestLlama2cBlocks: groups of a multiple of 32 become q8_0 with the same values, up to the scale's rounding to f16.
func TestLlama2cBlocks(t *testing.T) {
	const n, cols = 256, 64
	q := make([]byte, n)
	for i := range q {
		q[i] = byte(i*37 - 128)
	}
	for _, group := range []int{32, 64} {
		var scales []byte
		for g := range n / group {
			scales = append(scales, floatsOf(0.0123*float32(g+1))...)
		}
		typ, exact := unpackGroups(q, scales, group, 33) // blocks would run across rows
		if typ != kernel.F32 {
			t.Fatalf("type %s for rows of 33", typ)
		}
		typ, data := unpackGroups(q, scales, group, cols)
		if typ != kernel.Q8_0 || len(data) != n/32*34 {
			t.Fatalf("%s of %d bytes for groups of %d", typ, len(data), group)
		}
		got := make([]float32, n)
		kernel.Dequantize(got, typ, data)
		for i, w := range f32s(exact) {
			if d := math.Abs(float64(got[i] - w)); d > math.Abs(float64(w))/2048 {
				t.Fatalf("value %d: %v, expected %v", i, got[i], w)
			}
		}
		tiny := append(bytes.Clone(scales[4:]), floatsOf(1e-6)...)
		if typ, _ := unpackGroups(q, tiny, group, cols); typ != kernel.F32 {
			t.Errorf("a scale that f16 cannot hold gave %s", typ)
		}
	}
}
