package arch

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// place is where a file keeps a tensor of ours.
type place struct {
	name string
	// whole is the shape of the file's tensor where ours is a part of it: the rows (for a vector, the values) from `from` on. nil: it is ours.
	whole []int
	from  int
	// turned: the file keeps the matrix as [inputs, outputs], so that our rows are its columns.
	turned bool
	// plus is added to every value: some keep the gains of norms less one.
	plus float32
	// times multiplies every value, if not 0.
	times float32
	// dim and rot ask for rows in another order, if not 0: within each dim of them, the first rot go from halves to neighbours (see pairRows).
	dim, rot int
}

func samePlace(_ *model.Spec, name string) place { return place{name: name} }

// ggufPlace is the naming of GGUF.
func ggufPlace(_ *model.Spec, name string) place { return place{name: ggufName(name)} }

// ggufName is the naming of GGUF for models whose blocks are all in the core.
func ggufName(name string) string {
	if rest, ok := strings.CutPrefix(name, "core."); ok {
		return "blk." + rest
	}
	return name
}

// weight is a tensor of ours in a file: n rows of k values (k = 0: a vector of n).
type weight struct {
	place
	n, k   int
	tensor tensorfile.Tensor
}

// bind pairs every tensor that the Spec calls for with the file's, checked for shape and format. The file may hold no other.
func (m *found) bind(f *tensorfile.File, slots []model.Slot) ([]weight, error) {
	used := make(map[string]bool, len(slots))
	out := make([]weight, len(slots))
	for i := range slots {
		s := &slots[i]
		if v, ok := m.made[s.Name]; ok {
			out[i] = madeWeight(s, v)
			continue
		}
		p := m.tensor(&m.spec, m.loop.original(s.Name))
		t, ok := m.find(f, p.name)
		if !ok {
			return nil, invalid(p.name, "tensor %q is missing, expected %v", p.name, p.fileShape(s))
		}
		if err := checkTensor(&t, s, p.fileShape(s)); err != nil {
			return nil, err
		}
		used[t.Name] = true
		out[i] = weight{place: p, n: s.N, k: s.K, tensor: t}
	}
	for _, t := range f.Tensors() {
		if used[t.Name] || m.spare != nil && m.spare(&m.spec, strings.TrimPrefix(t.Name, m.prefix)) {
			continue
		}
		return nil, unsupported(clip(t.Name), "tensor %q %v is not part of a %s model as this build knows it", clip(t.Name), t.Shape, m.name)
	}
	return out, nil
}

// find looks a tensor up by its name, with or without the family's prefix.
func (m *found) find(f *tensorfile.File, name string) (tensorfile.Tensor, bool) {
	t, ok := f.Tensor(name)
	if !ok && m.prefix != "" {
		t, ok = f.Tensor(m.prefix + name)
	}
	return t, ok
}

// fileShape is the shape that the file's tensor must have.
func (p *place) fileShape(s *model.Slot) []int {
	switch {
	case p.whole != nil:
		return p.whole
	case p.turned:
		return []int{s.K, s.N}
	}
	return s.Shape()
}

func checkTensor(t *tensorfile.Tensor, s *model.Slot, want []int) error {
	if err := t.Usable(); err != nil && t.Panels == nil {
		return err
	}
	if t.Panels != nil && s.Matrix == nil {
		return invalid(clip(t.Name), "tensor %q has shape %v, expected %v", clip(t.Name), t.Shape, want)
	}
	shape := t.Shape
	for len(shape) > 1 && s.Vector != nil && shape[0] == 1 && len(want) < len(shape) {
		shape = shape[1:] // a row vector
	}
	if !slices.Equal(shape, want) {
		return invalid(clip(t.Name), "tensor %q has shape %v, expected %v", clip(t.Name), t.Shape, want)
	}
	return nil
}

// madeWeight is a vector that stands in no file.
func madeWeight(s *model.Slot, v []float32) weight {
	data := make([]byte, 0, 4*len(v))
	for _, x := range v {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	return weight{n: s.N, k: s.K, tensor: tensorfile.Tensor{Name: s.Name, Type: kernel.F32, Shape: []int{len(v)}, Data: data}}
}

// check refuses values that are no finite numbers, by the name of the file's tensor.
func (w *weight) check() error { return checkFinite(w.tensor.Name, w.tensor.Type, w.stored(), 0) }

// moved says that our values do not lie in the file as they are needed: data makes a copy of them.
func (w *weight) moved() bool { return w.dim > 0 || w.turned || w.plus != 0 || w.times != 0 }

// stored gives the part of the file's data that holds our values; of a turned matrix it is all of it.
func (w *weight) stored() []byte {
	t := &w.tensor
	if w.turned || w.whole == nil {
		return t.Data
	}
	row := len(t.Data) / max(w.rows(), 1)
	return t.Data[w.from*row : (w.from+w.n)*row]
}

// rows is the number of rows (of values, for vectors) of the file's tensor.
func (w *weight) rows() int {
	n := w.tensor.Len()
	return n / max(w.k, 1)
}

// data gives our values, row after row, in the format of the file's tensor: a view of the file where they lie so, else a copy.
func (w *weight) data() ([]byte, error) {
	if w.dim > 0 {
		return w.paired(w.stored()), nil
	}
	if !w.moved() {
		return w.stored(), nil
	}
	size := w.tensor.Type.BlockBytes()
	if w.tensor.Type.Block() > 1 {
		return nil, unsupported(clip(w.tensor.Name), "tensor %q has the number format %s, in which it cannot be rearranged", clip(w.tensor.Name), w.tensor.TypeName())
	}
	out := w.stored()
	if w.turned {
		out = turn(w.tensor.Data, size, w.rows(), w.from, w.n, w.k)
	}
	if w.plus == 0 && w.times == 0 {
		return out, nil
	}
	return w.shifted(out), nil
}

// turn makes the n by k matrix whose rows are columns [from, from+n) of a matrix of k rows of all values.
func turn(src []byte, size, all, from, n, k int) []byte {
	out := make([]byte, n*k*size)
	for i := range k {
		row := src[(i*all+from)*size : (i*all+from+n)*size]
		for j := range n {
			copy(out[(j*k+i)*size:(j*k+i+1)*size], row[j*size:])
		}
	}
	return out
}

// shifted is times*x + plus of plain values, in f32 where the values are a vector's; a matrix keeps its format, which loses nothing for a power of two.
func (w *weight) shifted(src []byte) []byte {
	vals := make([]float32, len(src)/w.tensor.Type.BlockBytes())
	kernel.Dequantize(vals, w.tensor.Type, src)
	times := w.times
	if times == 0 {
		times = 1
	}
	for i := range vals {
		vals[i] = vals[i]*times + w.plus
	}
	out := make([]byte, len(vals)*w.format().BlockBytes())
	kernel.Quantize(out, w.format(), vals)
	return out
}

// format is the number format of data.
func (w *weight) format() kernel.Type {
	if w.k == 0 && w.plus != 0 {
		return kernel.F32
	}
	return w.tensor.Type
}

// blockPart cuts "core.3.attn_q.weight" in "3", "attn_q" and "weight"; ok is false for names outside the core.
func blockPart(name string) (number, what, kind string, ok bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 4 || parts[0] != "core" {
		return "", "", "", false
	}
	return parts[1], parts[2], parts[3], true
}

// rowsOf gives the place of rows [from, …) of a fused matrix [rows, k], or of its bias.
func rowsOf(name, kind string, rows, k, from int) place {
	if kind == "bias" {
		return place{name: name + ".bias", whole: []int{rows}, from: from}
	}
	return place{name: name + ".weight", whole: []int{rows, k}, from: from}
}

// cutName cuts "token_embd.weight" in "token_embd" and "weight".
func cutName(name string) (what, kind string) {
	what, kind, _ = strings.Cut(name, ".")
	return what, kind
}
