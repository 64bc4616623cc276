// Package arch maps the model files of the world to Spec and Weights, and back: one short file per family, a plain table, no registration by
// import. Configuration that this build does not know is refused by name: a model that loads is computed as its authors meant it.
package arch

import (
	"strings"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// family is one kind of model file.
type family struct {
	name string
	// spec reads the configuration; mistakes stay in c. The file is only looked at for which tensors there are; it is nil for HF families, whose
	// configuration says everything.
	spec func(c *config, f *tensorfile.File) model.Spec
	// tensor says where the file has a tensor, by its name in model.Slot, where a model without a loop range has all its blocks in the core.
	tensor func(s *model.Spec, name string) place
	// keys gives the configuration of a Spec for a GGUF file; nil = cannot be written.
	keys func(s *model.Spec) []tensorfile.KV
	// spare says of a tensor that the Spec does not call for that it may be there all the same; nil = none may.
	spare func(s *model.Spec, name string) bool
	// classes are the published code's, of which a checkpoint may be; nil = any.
	classes []string
	// prefix may stand before every name of the file's tensors.
	prefix string
	// pairs: rows of queries and keys are stored for rotations of neighbours.
	pairs bool
}

// families is the table of everything that can be loaded from GGUF and llama2.c files, by general.architecture.
func families() []family {
	return []family{
		{name: "llama", spec: llamaSpec, tensor: ggufPlace, keys: llamaKeys, pairs: true},
		{name: "nanbeige", spec: nanbeigeSpec, tensor: ggufPlace, keys: nanbeigeKeys, pairs: true},
		{name: "qwen2", spec: qwenSpec, tensor: ggufPlace, keys: qwenKeys("qwen2")},
		{name: "qwen3", spec: qwenSpec, tensor: ggufPlace, keys: qwenKeys("qwen3")},
		{name: "gemma2", spec: gemma2Spec, tensor: gemma2Place, keys: gemma2Keys},
		{name: "gpt2", spec: gpt2Spec, tensor: gpt2Place},
		{name: "tinyloop", spec: tinyloopSpec, tensor: samePlace, keys: tinyloopKeys},
	}
}

// hfFamilies is the same for safetensors with a config.json, by model_type.
func hfFamilies() []family {
	return []family{
		{name: "llama", spec: hfLlamaSpec, tensor: hfPlace, spare: hfSpare, classes: []string{"LlamaForCausalLM"}},
		{name: "mistral", spec: hfMistralSpec, tensor: hfPlace, spare: hfSpare, classes: []string{"MistralForCausalLM"}},
		{name: "qwen2", spec: hfQwen2Spec, tensor: hfPlace, spare: hfSpare, classes: []string{"Qwen2ForCausalLM"}},
		{name: "qwen3", spec: hfQwen3Spec, tensor: hfPlace, spare: hfSpare, classes: []string{"Qwen3ForCausalLM"}},
		{name: "gemma2", spec: hfGemma2Spec, tensor: hfGemma2Place, spare: hfSpare, classes: []string{"Gemma2ForCausalLM"}},
		{name: "ouro", spec: hfOuroSpec, tensor: hfPlace, spare: hfSpare, classes: []string{"OuroForCausalLM"}},
		{name: "nanbeige", spec: hfNanbeigeSpec, tensor: hfPlace, spare: hfSpare, classes: []string{"NanbeigeForCausalLM"}},
		{name: "gpt2", spec: hfGPT2Spec, tensor: hfGPT2Place, spare: hfGPT2Spare, prefix: "transformer.", classes: []string{"GPT2LMHeadModel", "GPT2Model"}},
		{name: "tinyloop", spec: hfTinyloopSpec, tensor: samePlace},
		{name: "parcae", spec: hfParcaeSpec, tensor: hfParcaePlace, spare: hfHuginnSpare},
		{name: "huginn_raven", spec: hfHuginnSpec, tensor: hfHuginnPlace, spare: hfHuginnSpare, classes: []string{"RavenForCausalLM"}},
	}
}

func unsupported(field, format string, args ...any) error {
	return fault.New(fault.Unsupported, field, format, args...)
}

func invalid(field, format string, args ...any) error {
	return fault.New(fault.Invalid, field, format, args...)
}

// found is a file whose family and Spec are known.
type found struct {
	family
	spec model.Spec
	made map[string][]float32 // tensors that follow from the configuration, by their names in model.Slot
	loop Range
}

// identify finds the family of a file and reads its Spec, which is valid.
func identify(f *tensorfile.File, loop Range) (*found, error) {
	fam, c, err := familyOf(f)
	if err != nil {
		return nil, err
	}
	return read(fam, c, f, loop)
}

func read(fam family, c *config, f *tensorfile.File, loop Range) (*found, error) {
	s := fam.spec(c, f)
	if f == nil || f.Format == tensorfile.Safetensors {
		c.classes(fam.classes)
	}
	if err := c.done(); err != nil {
		return nil, err
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if err := loop.apply(&s); err != nil {
		return nil, err
	}
	return &found{family: fam, spec: s, made: c.made, loop: loop}, nil
}

// familyOf finds the family of a file, and opens its configuration.
func familyOf(f *tensorfile.File) (family, *config, error) {
	list, key := families(), "general.architecture"
	name, _ := f.Meta.String(key)
	c := newConfig(f, name+".")
	if f.Format == tensorfile.Safetensors {
		list, key = hfFamilies(), "model_type"
		var err error
		if c, err = hfConfig(f); err != nil {
			return family{}, nil, err
		}
		name = hfKind(c)
	}
	fam, err := pick(list, key, name)
	return fam, c, err
}

// hfKind gives the model_type, which Parcae's files leave to their class.
func hfKind(c *config) string {
	if name := c.text("model_type"); name != "" || c.text("_class_name") != "ParcaeConfig" {
		return name
	}
	return "parcae"
}

func pick(list []family, key, name string) (family, error) {
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

// ModelType gives the family of a file: general.architecture, or model_type of a folder. It is one that this build knows.
func ModelType(f *tensorfile.File) (string, error) {
	fam, _, err := familyOf(f)
	return fam.name, err
}

// SpecOf reads what kind of model a file holds, without touching tensor data.
func SpecOf(f *tensorfile.File) (*model.Spec, error) {
	m, err := identify(f, Range{})
	if err != nil {
		return nil, err
	}
	return &m.spec, nil
}

// Info is what a file says of itself besides its Spec.
type Info struct {
	Name, License string
	Hash          string // of the tensors, as stated by a .tinyloop file; "" = none
	Quant         string // format of most of the values
	Bytes         int64  // tensor data
	// Agreement[d-1] is the measured share of positions whose most probable token after d loops is that of the default depth; nil = not measured.
	Agreement []float32
	Exits     []ExitPoint // early exits that were measured
}

// InfoOf reads the description of a file.
func InfoOf(f *tensorfile.File) Info {
	var i Info
	i.Name, _ = f.Meta.String("general.name")
	i.License, _ = f.Meta.String("general.license")
	i.Hash, _ = f.Meta.String(keyHash)
	i.Agreement, _ = f.Meta.Floats(keyAgreement)
	i.Exits = exitsOf(&f.Meta)
	values := map[kernel.Type]int{}
	most := 0
	for _, t := range f.Tensors() {
		i.Bytes += int64(len(t.Stored()))
		values[t.Type] += t.Len()
		if values[t.Type] > most {
			most, i.Quant = values[t.Type], t.TypeName()
		}
	}
	return i
}
