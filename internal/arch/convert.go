package arch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// ConvertOptions say how a file is rewritten.
type ConvertOptions struct {
	// Type is the format of the matrices; nil keeps each one's own. Vectors (norms, biases, injection, gate) are always f32, and a matrix whose
	// width is no multiple of the format's block keeps its plain format, or becomes f16 if it had none.
	Type *kernel.Type
	// Tokenizer replaces the tokenizer.* keys of the input, for inputs that have none of their own.
	Tokenizer []tensorfile.KV
	Template  string // replaces the chat template (tokenizer.chat_template); "" keeps the input's
	License   string // general.license; "" keeps the input's
	Loop      Range  // layers to loop over; only for a .tinyloop
	// Layout of a .gguf: "" keeps the input's own; "nanbeige" is the one in which stock llama.cpp runs a loop, for models that fit it. Layout of a .tinyloop:
	// "" keeps the matrices as GGUF has them; "panels" as the kernels read them, so that they are served from the file without a copy.
	Layout string
	// Done, when closed, ends the work with a fault of kind Canceled and nothing written.
	Done <-chan struct{}
	// Note, if set, is told of every matrix that did not get the asked format.
	Note func(tensor string, asked, got kernel.Type)
}

// Convert writes the model of in to out: a .tinyloop file, or a .gguf of the same architecture as the input's. The Spec, tokenizer, chat template and
// licence go along. An input in panels is refused: they are for serving.
func Convert(in *tensorfile.File, out string, o ConvertOptions) error {
	m, slots, weights, err := openRewritable(in, o.Loop)
	if err != nil {
		return err
	}
	to, err := target(out, o.Layout, m)
	if err != nil {
		return err
	}
	if o.Loop.Loops > 0 && to.name != "tinyloop" {
		return unsupported("loop_range", "loop_range: only a .tinyloop file can say which layers are looped")
	}
	if to.pairs && m.spec.Block.Pos == model.RopeHalf {
		pairRows(&m.spec, slots, weights)
	}
	sources, extra := make([]tensorfile.Source, len(slots)), o.carried(in)
	for i := range slots {
		sources[i] = o.source(in, to.tensor(&m.spec, slots[i].Name).name, &slots[i], &weights[i])
		if o.Layout == "panels" {
			inPanels(&sources[i])
		}
	}
	if o.Layout == "panels" {
		extra = append(extra, tensorfile.KV{Key: tensorfile.KeyLayout, Value: kernel.PanelLayout}, tensorfile.KV{Key: "general.alignment", Value: uint32(64)})
	}
	return write(out, to, &m.spec, extra, sources)
}

// openRewritable identifies a model whose tensors may be read again and finds them, in the order of the slots.
func openRewritable(in *tensorfile.File, loop Range) (*found, []model.Slot, []weight, error) {
	if err := rewritable(in); err != nil {
		return nil, nil, nil, err
	}
	m, err := identify(in, loop)
	if err != nil {
		return nil, nil, nil, err
	}
	slots := new(model.Weights).Slots(&m.spec)
	weights, err := m.bind(in, slots)
	return m, slots, weights, err
}

// rewritable refuses files in panels.
func rewritable(in *tensorfile.File) error {
	for _, t := range in.Tensors() {
		if t.Panels != nil {
			return t.Usable()
		}
	}
	return nil
}

// target picks the family of the output by its name.
func target(out, layout string, in *found) (family, error) {
	switch ext := strings.ToLower(filepath.Ext(out)); {
	case ext == ".tinyloop" && (layout == "" || layout == "panels"):
		return tinyloopFamily(), nil
	case ext == ".tinyloop":
		return family{}, invalid("layout", "--layout %s is for .gguf, a .tinyloop file can be in panels or not", clip(layout))
	case layout == "panels":
		return family{}, invalid("layout", "only a .tinyloop file can be in panels, the output is %s", filepath.Base(out))
	case ext == ".gguf":
		return ggufTarget(layout, in)
	}
	return family{}, invalid("out", "the output must end in .tinyloop or .gguf, is %s", filepath.Base(out))
}

func tinyloopFamily() family {
	fam, _ := pick(families(), "", "tinyloop") // it is there
	return fam
}

// Save writes a .tinyloop file of a Spec and its tensors, in the order of model.Weights.Slots and under its names. extra is further metadata:
// general.name, general.license, tokenizer.*, calibration.
func Save(path string, s *model.Spec, extra []tensorfile.KV, tensors []tensorfile.Source) error {
	if err := s.Validate(); err != nil {
		return err
	}
	return write(path, tinyloopFamily(), s, extra, tensors)
}

func write(path string, fam family, s *model.Spec, extra []tensorfile.KV, tensors []tensorfile.Source) error {
	meta := []tensorfile.KV{{Key: "general.architecture", Value: fam.name}}
	meta = append(meta, fam.keys(s)...)
	if fam.name == "tinyloop" {
		sum, err := hash(tensors)
		if err != nil {
			return err
		}
		meta = append(meta, tensorfile.KV{Key: keyHash, Value: sum})
	}
	if ft, ok := fileType(tensors); ok {
		meta = append(meta, tensorfile.KV{Key: "general.file_type", Value: ft}, tensorfile.KV{Key: "general.quantization_version", Value: uint32(2)})
	}
	return tensorfile.Write(path, append(meta, extra...), tensors)
}

// hash is the SHA-256 over every tensor in file order: a line "name type shape\n", then the data.
func hash(tensors []tensorfile.Source) (string, error) {
	h := sha256.New()
	for _, t := range tensors {
		fmt.Fprintf(h, "%s %s %v\n", t.Name, t.Type, t.Shape)
		if err := t.WriteTo(h); err != nil {
			return "", err
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// CheckHash says whether the tensors of a .tinyloop file are those whose hash it states; other files, which state none, pass. It reads the whole file.
func CheckHash(f *tensorfile.File) error {
	want, ok := f.Meta.String(keyHash)
	if !ok {
		return nil
	}
	var tensors []tensorfile.Source
	for _, t := range f.Tensors() {
		tensors = append(tensors, stored(t.Name, t.Type, t.Shape, t.Stored()))
	}
	var have string
	err := f.Guard(func() (err error) { have, err = hash(tensors); return err })
	if err == nil && have != want {
		err = invalid(keyHash, "the tensors are not those that were written: their hash is %s, the file states %s", have, clip(want))
	}
	return err
}

// fileType gives ggml's number of the format that holds most of the values.
func fileType(tensors []tensorfile.Source) (uint32, bool) {
	numbers := map[kernel.Type]uint32{kernel.F32: 0, kernel.F16: 1, kernel.Q4_0: 2, kernel.Q4_1: 3, kernel.Q8_0: 7, kernel.Q5_0: 8, kernel.Q5_1: 9, kernel.BF16: 32,
		kernel.Q3_K: 11, kernel.Q4_K: 14, kernel.Q5_K: 16, kernel.Q6_K: 18, kernel.IQ4_NL: 25}
	values := map[kernel.Type]int{}
	most, best := 0, kernel.F32
	for _, t := range tensors {
		n := 1
		for _, d := range t.Shape {
			n *= d
		}
		values[t.Type] += n
		if values[t.Type] > most {
			most, best = values[t.Type], t.Type
		}
	}
	n, ok := numbers[best]
	return n, ok
}

// carried is the metadata that goes along unchanged.
func (o *ConvertOptions) carried(in *tensorfile.File) []tensorfile.KV {
	var out []tensorfile.KV
	skip := func(key string) bool {
		own := len(o.Tokenizer) > 0 && strings.HasPrefix(key, "tokenizer.") && key != "tokenizer.chat_template"
		return own || o.Template != "" && key == "tokenizer.chat_template" || o.License != "" && key == "general.license"
	}
	if _, own := in.Meta.Get("general.name"); !own && in.Format == tensorfile.Safetensors {
		out = append(out, tensorfile.KV{Key: "general.name", Value: nameOf(in.Path)})
	}
	for _, kv := range in.Meta.KVs() {
		switch {
		case kv.Key == "general.name", kv.Key == "general.license", strings.HasPrefix(kv.Key, "tinyloop.calibration."), strings.HasPrefix(kv.Key, "tokenizer."):
			if !skip(kv.Key) {
				out = append(out, kv)
			}
		}
	}
	out = append(out, o.Tokenizer...)
	if o.Template != "" {
		out = append(out, tensorfile.KV{Key: "tokenizer.chat_template", Value: o.Template})
	}
	if o.License != "" {
		out = append(out, tensorfile.KV{Key: "general.license", Value: o.License})
	}
	return out
}

// nameOf makes a model's name from its path: that of the folder where the file's own is the same for every model.
func nameOf(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		path = full
	}
	name := filepath.Base(path)
	if strings.HasPrefix(name, "model.safetensors") {
		return filepath.Base(filepath.Dir(path))
	}
	switch ext := filepath.Ext(name); strings.ToLower(ext) {
	case ".gguf", ".tinyloop", ".safetensors", ".bin":
		return strings.TrimSuffix(name, ext)
	}
	return name
}

// inPanels makes a matrix be written as the kernels read it. All of it is in memory meanwhile, twice.
func inPanels(s *tensorfile.Source) {
	if len(s.Shape) != 2 {
		return
	}
	rows := s.WriteTo
	s.WriteTo = func(w io.Writer) error {
		var b bytes.Buffer
		if err := rows(&b); err != nil {
			return err
		}
		m, err := kernel.NewMatrix(s.Type, s.Shape[0], s.Shape[1], b.Bytes())
		if err != nil {
			return err
		}
		defer m.Free()
		_, err = w.Write(m.Packed())
		return err
	}
}

// source gives one tensor in its new format.
func (o *ConvertOptions) source(in *tensorfile.File, name string, s *model.Slot, from *weight) tensorfile.Source {
	to := kernel.F32
	if s.Matrix != nil {
		to = o.format(name, s.K, from.format())
	}
	return tensorfile.Source{Name: name, Type: to, Shape: s.Shape(), WriteTo: func(w io.Writer) error {
		defer in.Release(from.stored())
		return rewrite(&stoppable{w, o.Done}, to, from, max(s.K, 1))
	}}
}

func (o *ConvertOptions) format(name string, k int, from kernel.Type) kernel.Type {
	if o.Type == nil || *o.Type == from {
		return from
	}
	to := *o.Type
	if k%to.Block() != 0 {
		to = from // from is plain: its own block divides k
		if from.Block() > 1 {
			to = kernel.F16
		}
		if o.Note != nil {
			o.Note(name, *o.Type, to)
		}
	}
	return to
}

// stoppable passes data on until done is closed.
type stoppable struct {
	w    io.Writer
	done <-chan struct{}
}

func (s *stoppable) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		select {
		case <-s.done:
			return n, fault.New(fault.Canceled, "", "interrupted")
		default:
		}
		var m int
		m, err = s.w.Write(p[:min(len(p), 1<<20)])
		n, p = n+m, p[m:]
	}
	return n, err
}

// rewrite streams a tensor in another format, some rows at a time.
func rewrite(w io.Writer, to kernel.Type, from *weight, k int) error {
	if err := from.check(); err != nil {
		return err
	}
	src, err := from.data()
	if err != nil {
		return err
	}
	t, name := from.format(), from.tensor.Name
	if to == t {
		_, err := w.Write(src)
		return err
	}
	n, step := from.n*k, max(1, (1<<16)/k)*k
	if k == 1 {
		step = n // a vector: always plain f32
	}
	vals, data := make([]float32, step), make([]byte, step/to.Block()*to.BlockBytes())
	for at := 0; at < n; at += step {
		m := min(step, n-at)
		kernel.Dequantize(vals[:m], t, src[at/t.Block()*t.BlockBytes():][:m/t.Block()*t.BlockBytes()])
		out := data[:m/to.Block()*to.BlockBytes()]
		kernel.Quantize(out, to, vals[:m])
		if checkFinite(name, to, out, 0) != nil {
			return invalid(clip(name), "tensor %q has values too large for %s: choose another --type", clip(name), to)
		}
		if _, err := w.Write(out); err != nil {
			return err
		}
	}
	return nil
}
