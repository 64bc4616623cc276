// Package arch maps the model files of the world to Spec and Weights, and back: one short file per family, a plain table, no registration by
// import. Configuration that this build does not know is refused by name: a model that loads is computed as its authors meant it.
package arch

import (
	"fmt"
	"strings"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// family is one kind of model file.
type family struct {
	name string
	// spec reads the configuration; tensors are only looked at for their shape.
	spec func(f *tensorfile.File) (model.Spec, error)
	// tensor translates the name of a tensor from that of model.Slot to the file's.
	tensor func(name string) string
	// keys gives the configuration of a Spec for a GGUF file; nil = cannot be written.
	keys func(s *model.Spec) []tensorfile.KV
	// spare says of a tensor that the Spec does not call for that it may be there all the same; nil = none may.
	spare func(s *model.Spec, name string) bool
}

// families is the table of everything that can be loaded from GGUF and llama2.c files, by general.architecture.
func families() []family {
	return []family{
		{"llama", llamaSpec, ggufName, llamaKeys, nil},
		{"nanbeige", nanbeigeSpec, ggufName, nanbeigeKeys, nil},
		{"tinyloop", tinyloopSpec, sameName, tinyloopKeys, nil},
	}
}

// hfFamilies is the same for safetensors with a config.json, by model_type.
func hfFamilies() []family {
	return []family{
		{"llama", hfLlamaSpec, hfName, nil, hfSpare},
		{"ouro", hfOuroSpec, hfName, nil, hfSpare},
	}
}

func sameName(name string) string { return name }

// ggufName is the naming of GGUF for models whose blocks are all in the core.
func ggufName(name string) string {
	if rest, ok := strings.CutPrefix(name, "core."); ok {
		return "blk." + rest
	}
	return name
}

func unsupported(field, format string, args ...any) error {
	return fault.New(fault.Unsupported, field, format, args...)
}

func invalid(field, format string, args ...any) error {
	return fault.New(fault.Invalid, field, format, args...)
}

// familyOf finds the family of a file.
func familyOf(f *tensorfile.File) (family, error) {
	list, key := families(), "general.architecture"
	name, _ := f.Meta.String(key)
	if f.Format == tensorfile.Safetensors {
		list, key = hfFamilies(), "model_type"
		c, err := hfConfig(f)
		if err != nil {
			return family{}, err
		}
		name = c.ModelType
	}
	var known []string
	for _, fam := range list {
		if fam.name == name {
			return fam, nil
		}
		known = append(known, fam.name)
	}
	if name == "" {
		return family{}, unsupported(key, "the file does not say what model it is (no %s); known are %s", key, strings.Join(known, ", "))
	}
	return family{}, unsupported(key, "models of %s %s are not supported; known are %s", key, clip(name), strings.Join(known, ", "))
}

// SpecOf reads what kind of model a file holds, without touching tensor data.
func SpecOf(f *tensorfile.File) (*model.Spec, error) {
	fam, err := familyOf(f)
	if err != nil {
		return nil, err
	}
	s, err := fam.read(f)
	if err != nil {
		return nil, err
	}
	return &s, nil
}

// read gives a Spec that is valid.
func (fam *family) read(f *tensorfile.File) (model.Spec, error) {
	s, err := fam.spec(f)
	if err != nil {
		return s, err
	}
	return s, s.Validate()
}

// Info is what a file says of itself besides its Spec.
type Info struct {
	Name, License string
	Hash          string // of the tensors, as stated by a .tinyloop file; "" = none
	Quant         string // format of most of the values
	Bytes         int64  // tensor data
	// Agreement[d-1] is the measured share of positions whose most probable token after d loops is that of the default depth; nil = not measured.
	Agreement []float32
}

// InfoOf reads the description of a file.
func InfoOf(f *tensorfile.File) Info {
	var i Info
	i.Name, _ = f.Meta.String("general.name")
	i.License, _ = f.Meta.String("general.license")
	i.Hash, _ = f.Meta.String(keyHash)
	i.Agreement, _ = f.Meta.Floats(keyAgreement)
	values := map[kernel.Type]int{}
	most := 0
	for _, t := range f.Tensors() {
		i.Bytes += int64(len(t.Data))
		values[t.Type] += t.Len()
		if values[t.Type] > most {
			most, i.Quant = values[t.Type], t.TypeName()
		}
	}
	return i
}

// bind pairs every tensor that the Spec calls for with the file's, checked for shape and format. The file may hold no other.
func (fam *family) bind(f *tensorfile.File, spec *model.Spec, slots []model.Slot) ([]tensorfile.Tensor, error) {
	used := make(map[string]bool, len(slots))
	out := make([]tensorfile.Tensor, len(slots))
	for i := range slots {
		name := fam.tensor(slots[i].Name)
		t, ok := f.Tensor(name)
		if !ok {
			return nil, invalid(name, "tensor %q is missing, expected %v", name, slots[i].Shape())
		}
		if err := checkTensor(&t, &slots[i]); err != nil {
			return nil, err
		}
		used[name], out[i] = true, t
	}
	for _, t := range f.Tensors() {
		if !used[t.Name] && (fam.spare == nil || !fam.spare(spec, t.Name)) {
			return nil, unsupported(clip(t.Name), "tensor %q %v is not part of a %s model as this build knows it", clip(t.Name), t.Shape, fam.name)
		}
	}
	return out, nil
}

func checkTensor(t *tensorfile.Tensor, s *model.Slot) error {
	if err := t.Usable(); err != nil {
		return err
	}
	shape := t.Shape
	for len(shape) > 1 && s.Vector != nil && shape[0] == 1 {
		shape = shape[1:] // a row vector
	}
	if fmt.Sprint(shape) != fmt.Sprint(s.Shape()) {
		return invalid(clip(t.Name), "tensor %q has shape %v, expected %v", clip(t.Name), t.Shape, s.Shape())
	}
	return nil
}
