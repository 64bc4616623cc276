package arch

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// reference is one file that testdata/reference.py wrote.
type reference struct {
	Config    json.RawMessage
	Dtype     string
	Tensors   []refTensor
	Tokens    []int32
	Positions []int
	Logits    map[string][][]float64 // by passes
	GGUF      *struct {
		Architecture string `json:"general.architecture"`
		Prefix       string
		Keys         map[string]any
		Tensors      [][3]string // name there, name here, how it follows
		Extra        []refExtra
	}
}

// refTensor is [name, shape, scale, mean].
type refTensor struct {
	name        string
	shape       []int
	scale, mean float64
}

func (r *refTensor) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&r.name, &r.shape, &r.scale, &r.mean})
}

// refExtra is [name, values].
type refExtra struct {
	name   string
	values []float32
}

func (r *refExtra) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&r.name, &r.values})
}

func references(t *testing.T) map[string]*reference {
	t.Helper()
	paths, _ := filepath.Glob(filepath.Join("testdata", "*.json"))
	out := map[string]*reference{}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		r := new(reference)
		dec := json.NewDecoder(bytes.NewReader(b))
		dec.UseNumber()
		if err := dec.Decode(r); err != nil {
			t.Fatal(p, err)
		}
		out[strings.TrimSuffix(filepath.Base(p), ".json")] = r
	}
	if len(out) < 9 {
		t.Fatalf("only %d references", len(out))
	}
	return out
}

// values makes the weights as the script does.
func (r *refTensor) values(dtype string) []float32 {
	h := fnv.New64a()
	h.Write([]byte(r.name))
	n := 1
	for _, d := range r.shape {
		n *= d
	}
	out := make([]float32, n)
	for i := range out {
		z := h.Sum64() + uint64(i) + 0x9E3779B97F4A7C15
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		z ^= z >> 31
		u := float64(z>>40)/(1<<23) - 1
		out[i] = float32(r.mean + float64(r.scale*u)) // the conversion keeps the two steps apart
		if dtype == "BF16" {
			b := math.Float32bits(out[i])
			out[i] = math.Float32frombits((b + 0x7FFF + b>>16&1) >> 16 << 16)
		}
	}
	return out
}

// folder writes the reference as a Hugging Face folder.
func (r *reference) folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var data bytes.Buffer
	head := map[string]any{}
	for _, x := range r.Tensors {
		at := data.Len()
		for _, v := range x.values(r.Dtype) {
			if r.Dtype == "BF16" {
				binary.Write(&data, binary.LittleEndian, uint16(math.Float32bits(v)>>16))
			} else {
				binary.Write(&data, binary.LittleEndian, v)
			}
		}
		head[x.name] = map[string]any{"dtype": r.Dtype, "shape": x.shape, "data_offsets": []int{at, data.Len()}}
	}
	h, _ := json.Marshal(head)
	h = append(h, strings.Repeat(" ", (8-len(h)%8)%8)...)
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(h))), h...)
	for name, b := range map[string][]byte{"config.json": r.Config, "model.safetensors": append(file, data.Bytes()...)} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// gguf writes the reference as a GGUF file.
func (r *reference) gguf(t *testing.T) string {
	t.Helper()
	keys := []tensorfile.KV{{Key: "general.architecture", Value: r.GGUF.Architecture}}
	for k, v := range r.GGUF.Keys {
		if n, ok := v.(json.Number); ok {
			if u, err := strconv.ParseUint(n.String(), 10, 32); err == nil {
				v = uint32(u)
			} else {
				x, _ := n.Float64()
				v = float32(x)
			}
		}
		keys = append(keys, tensorfile.KV{Key: r.GGUF.Prefix + k, Value: v})
	}
	byName := map[string]*refTensor{}
	for i := range r.Tensors {
		byName[r.Tensors[i].name] = &r.Tensors[i]
	}
	var tensors []tensorfile.Source
	add := func(name string, shape []int, v []float32) {
		tensors = append(tensors, tensorfile.Source{Name: name, Type: kernel.F32, Shape: shape, WriteTo: func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, v) }})
	}
	for _, x := range r.GGUF.Tensors {
		from := byName[x[1]]
		shape, v := follow(t, x[2], from.shape, from.values(r.Dtype))
		add(x[0], shape, v)
	}
	for _, x := range r.GGUF.Extra {
		add(x.name, []int{len(x.values)}, x.values)
	}
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := tensorfile.Write(path, keys, tensors); err != nil {
		t.Fatal(err)
	}
	return path
}

// follow turns a tensor of Hugging Face's layout into that of GGUF.
func follow(t *testing.T, how string, shape []int, v []float32) ([]int, []float32) {
	t.Helper()
	out := make([]float32, len(v))
	switch {
	case how == "":
		return shape, v
	case how == "plus1":
		for i, x := range v {
			out[i] = x + 1
		}
		return shape, out
	case how == "turn":
		for i := range shape[0] {
			for j := range shape[1] {
				out[j*shape[0]+i] = v[i*shape[1]+j]
			}
		}
		return []int{shape[1], shape[0]}, out
	case strings.HasPrefix(how, "pairs"): // halves of each head become neighbours
		dim, _ := strconv.Atoi(how[5:])
		k := shape[1]
		for r := range shape[0] {
			head, j := r/dim*dim, r%dim
			to := head + 2*j
			if j >= dim/2 {
				to = head + 2*(j-dim/2) + 1
			}
			copy(out[to*k:(to+1)*k], v[r*k:(r+1)*k])
		}
		return shape, out
	}
	t.Fatalf("unknown %q", how)
	return nil, nil
}

// worst is the largest difference of a logit of m from the reference, over all depths it has.
func (r *reference) worst(t *testing.T, m *model.Model) float64 {
	t.Helper()
	worst := 0.0
	for passes, want := range r.Logits {
		depth, _ := strconv.Atoi(passes)
		st := newStory(t, m, depth, 2)
		st.run(0, r.Tokens)
		for i, pos := range r.Positions {
			for id, x := range st.s.Logits(pos) {
				worst = max(worst, math.Abs(float64(x)-want[i][id]))
			}
		}
	}
	return worst
}

// TestParity: every family computes what its straight-line reference does, from each container that it has; decoding with the cache gives the bits of the
// whole sequence at once; a .tinyloop made of it is the same model.
func TestParity(t *testing.T) {
	for name, r := range references(t) {
		t.Run(name, func(t *testing.T) {
			dir := r.folder(t)
			m := load(t, dir)
			if d := r.worst(t, m); !(d <= 1e-5) {
				t.Errorf("safetensors: a logit differs by %.3g", d)
			} else {
				t.Logf("largest difference of a logit %.2g", d)
			}
			want := bits(t, m, r.Tokens, 1)
			st := newStory(t, m, m.Spec.Loops.Default, 2)
			for pos, id := range r.Tokens {
				st.run(pos, []int32{id})
				equalBits(t, "decoding", want[pos:pos+1], [][]float32{st.s.Logits(0)})
			}
			out := filepath.Join(t.TempDir(), "m.tinyloop")
			if err := Convert(open(t, dir), out, ConvertOptions{}); err != nil {
				t.Fatal(err)
			}
			equalBits(t, "converted", want, bits(t, load(t, out), r.Tokens, 1))
			if r.GGUF == nil {
				return
			}
			if d := r.worst(t, load(t, r.gguf(t))); !(d <= 1e-5) {
				t.Errorf("GGUF: a logit differs by %.3g", d)
			}
		})
	}
}
