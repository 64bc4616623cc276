package arch

import (
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

//go:embed torch/modeling_tinyloop.py
var modeling []byte

//go:embed torch/train.py
var trainer []byte

//go:embed torch/transformers_tinyloop.py
var adapter []byte

// ExportOptions say how a model is written for PyTorch.
type ExportOptions struct {
	Type kernel.Type // of the matrices: F32 (also the zero value), F16 or BF16; vectors are always f32
	// Done, when closed, ends the work with a fault of kind Canceled and the unfinished file taken away.
	Done <-chan struct{}
}

// Export writes the model of in as a folder: config.json (model_type "tinyloop", the keys of a .tinyloop file without their prefix), model.safetensors under
// the names of a .tinyloop file, modeling_tinyloop.py, which computes it in plain PyTorch, transformers_tinyloop.py, which the transformers library finds, and train.py, which trains it
// on. The folder is made if it is not there; the tokenizer's files are the caller's business. What was written is read back by Load and Convert.
func Export(in *tensorfile.File, dir string, o ExportOptions) error {
	m, slots, weights, err := openRewritable(in, Range{})
	if err != nil {
		return err
	}
	if err := exportFolder(dir); err != nil {
		return err
	}
	co := ConvertOptions{Type: &o.Type, Done: o.Done}
	sources := make([]tensorfile.Source, len(slots))
	for i := range slots {
		sources[i] = co.source(in, slots[i].Name, &slots[i], &weights[i])
	}
	if err := tensorfile.WriteSafetensors(filepath.Join(dir, "model.safetensors"), carriedTexts(in), sources); err != nil {
		return err
	}
	for name, text := range map[string][]byte{"modeling_tinyloop.py": modeling, "train.py": trainer, "transformers_tinyloop.py": adapter} {
		if err := WriteFile(filepath.Join(dir, name), text); err != nil {
			return err
		}
	}
	return WriteFile(filepath.Join(dir, configName), hfTinyloopConfig(&m.spec))
}

const configName = "config.json"

// exportFolder makes the folder and takes away the config.json of an earlier export, which is written last: a folder that has one is whole.
func exportFolder(dir string) error {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return invalid("dir", "%s is a file, expected a folder to write into", filepath.Base(dir))
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return invalid("dir", "the folder %s cannot be made: %v", filepath.Base(dir), cause(err))
	}
	if err := os.Remove(filepath.Join(dir, configName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return invalid("dir", "the old %s of %s cannot be taken away: %v", configName, filepath.Base(dir), cause(err))
	}
	return nil
}

// cause is what the system says, without the path.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// WriteFile writes a whole file at once, atomically.
func WriteFile(path string, data []byte) error {
	return tensorfile.WriteAtomic(path, func(w io.Writer) error { _, err := w.Write(data); return err })
}

// carriedTexts is the metadata that goes along in the safetensors file.
func carriedTexts(in *tensorfile.File) map[string]string {
	out := map[string]string{"format": "pt"} // Hugging Face's loaders ask for it
	for _, key := range []string{"general.name", "general.license"} {
		if v, ok := in.Meta.String(key); ok {
			out[key] = v
		}
	}
	return out
}

// hfTinyloopConfig writes the Spec as a config.json. The names that other tools look for stand beside ours.
func hfTinyloopConfig(s *model.Spec) []byte {
	var b strings.Builder
	b.WriteString("{\n")
	member := func(key string, v any) {
		x, _ := json.Marshal(v) // texts, numbers and switches
		b.WriteString("  \"" + key + "\": " + string(x) + ",\n")
	}
	member("architectures", []string{"TinyLoopForCausalLM"})
	member("model_type", "tinyloop")
	member("auto_map", map[string]string{"AutoConfig": "transformers_tinyloop.TinyLoopConfig", "AutoModelForCausalLM": "transformers_tinyloop.TinyLoopForCausalLM"})
	member("format_version", formatVersion)
	for _, f := range fields(s) {
		member(f.key, f.value())
	}
	member("hidden_size", s.Dim)
	member("num_hidden_layers", s.Prelude+s.Core+s.Coda)
	member("num_attention_heads", s.Block.Heads)
	member("max_position_embeddings", s.Context)
	return []byte(strings.TrimSuffix(b.String(), ",\n") + "\n}\n")
}

// hfTinyloopSpec reads model_type "tinyloop", which Export writes.
func hfTinyloopSpec(c *config, f *tensorfile.File) model.Spec {
	s := tinyloopSpec(c, f)
	c.ignore("tie_word_embeddings") // written by transformers, whose tying the model has no need of: tied_head says it
	c.agrees("hidden_size", s.Dim, "embedding_length")
	c.agrees("num_hidden_layers", s.Prelude+s.Core+s.Coda, "prelude_count, core_count and coda_count")
	c.agrees("num_attention_heads", s.Block.Heads, "attention.head_count")
	c.agrees("max_position_embeddings", s.Context, "context_length")
	return s
}
