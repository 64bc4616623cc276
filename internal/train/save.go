package train

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"tinyloop/internal/arch"
	"tinyloop/internal/chat"
	"tinyloop/internal/data"
	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
	"tinyloop/internal/tok"
)

// identity is what goes into a model file beside its weights, so that it can be served.
type identity struct {
	name     string
	tok      *tok.Tokenizer
	template string // Jinja
}

// newIdentity chooses the chat template: the one that the corpus was written with, ours where that was ChatML.
func newIdentity(name string, t *tok.Tokenizer, m *data.Manifest) (*identity, error) {
	id := &identity{name: name, tok: t, template: m.Template}
	if m.Template == "chatml" {
		id.template = chatTemplate
	}
	if _, err := chat.Compile(id.template); err != nil {
		return nil, err
	}
	return id, nil
}

// keys are the metadata of a file.
func (id *identity) keys() []tensorfile.KV {
	keys := []tensorfile.KV{{Key: "general.name", Value: id.name}}
	var tk []tensorfile.KV
	for k, v := range id.tok.GGUF() {
		tk = append(tk, tensorfile.KV{Key: k, Value: v})
	}
	slices.SortFunc(tk, func(a, b tensorfile.KV) int { return strings.Compare(a.Key, b.Key) })
	return append(append(keys, tk...), tensorfile.KV{Key: "tokenizer.chat_template", Value: id.template})
}

// writeModel writes flat as a .tinyloop file of f32 values.
func (id *identity) writeModel(path string, s *model.Spec, flat []float32, extra ...tensorfile.KV) error {
	var sources []tensorfile.Source
	for _, p := range s.Layout() {
		shape := []int{p.N}
		if p.K > 0 {
			shape = []int{p.N, p.K}
		}
		sources = append(sources, floats(p.Name, shape, flat[p.Off:p.Off+p.Len]))
	}
	return arch.Save(path, s, append(id.keys(), extra...), sources)
}

// floats is a tensor of plain values.
func floats(name string, shape []int, x []float32) tensorfile.Source {
	return tensorfile.Source{Name: name, Type: kernel.F32, Shape: shape, WriteTo: func(w io.Writer) error {
		var buf [4 << 12]byte
		for lo := 0; lo < len(x); lo += len(buf) / 4 {
			part := x[lo:min(lo+len(buf)/4, len(x))]
			kernel.Quantize(buf[:4*len(part)], kernel.F32, part)
			if _, err := w.Write(buf[:4*len(part)]); err != nil {
				return err
			}
		}
		return nil
	}}
}

// readModel loads the Spec and the weights of any model file as plain values, and the hash that it states.
func readModel(path string) (*model.Spec, []float32, string, error) {
	f, err := tensorfile.Open(path)
	if err != nil {
		return nil, nil, "", err
	}
	defer f.Close()
	if err := arch.CheckHash(f); err != nil {
		return nil, nil, "", err
	}
	var m *model.Model
	if err := f.Guard(func() (err error) { m, err = arch.Load(f); return err }); err != nil {
		return nil, nil, "", err
	}
	defer m.Close()
	s := m.Spec
	return &s, model.ParamsOf(m), arch.InfoOf(f).Hash, nil
}

// checkVocab makes sure that every id of the tokenizer is one of the model.
func checkVocab(s *model.Spec, t *tok.Tokenizer) error {
	if t.Size() > s.Vocab {
		return fault.New(fault.Invalid, "data.tokenizer", "the tokenizer has %d entries, the model only %d", t.Size(), s.Vocab)
	}
	return nil
}

// checkSame makes sure that the tokenizer of the corpus is the one that weights were trained with, where their file has it: the ids must stand for the
// same bytes.
func checkSame(path string, t *tok.Tokenizer) error {
	f, err := tensorfile.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	was, err := tok.FromGGUF(f.Meta)
	if err != nil {
		return nil // a file without one: its vocabulary is all that can be compared
	}
	for id := range tok.ID(min(was.Size(), t.Size())) {
		if a, b := was.Bytes(id), t.Bytes(id); !bytes.Equal(a, b) {
			return fault.New(fault.Invalid, "data.tokenizer", "the weights of %s were trained with another tokenizer: token %d is %q there and %q in that of the corpus", path, id,
				fault.Clip(string(a), 40), fault.Clip(string(b), 40))
		}
	}
	return nil
}
