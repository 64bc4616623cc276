package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tinyloop/internal/arch"
	"tinyloop/internal/fault"
	"tinyloop/internal/host"
	"tinyloop/internal/kernel"
	"tinyloop/internal/tensorfile"
	"tinyloop/internal/tok"
)

// ExportCmd writes a model for other programs.
type ExportCmd struct {
	Model  string `arg:"" help:"Model file, or folder of safetensors."`
	HF     string `name:"hf" help:"Folder to write for PyTorch: config.json, model.safetensors, modeling_tinyloop.py, transformers_tinyloop.py, train.py, tokenizer.json, tokenizer_config.json, generation_config.json." type:"place" placeholder:"DIR" xor:"to" required:""`
	GGUF   string `name:"gguf" help:"GGUF file to write." type:"place" placeholder:"FILE" xor:"to" required:""`
	Dtype  string `help:"With --hf, number format of the matrices (${enum})." enum:"f32,f16,bf16" default:"f32"`
	Type   string `help:"With --gguf, number format of the matrices (${enum})." enum:"keep,f32,f16,bf16,q8_0,q5_1,q5_0,q4_1,q4_0,q4_K,q5_K,q6_K" default:"keep"`
	Layout string `help:"With --gguf: own (the model's own architecture, or tinyloop), or nanbeige, in which stock llama.cpp runs loops, for models without prelude, coda and injection." enum:"own,nanbeige" default:"own"`
}

// Run writes, and prints what to io.Out.
func (c *ExportCmd) Run(io *IO) error {
	if c.GGUF != "" {
		if !strings.EqualFold(filepath.Ext(c.GGUF), ".gguf") {
			return fault.New(fault.Invalid, "gguf", "--gguf must name a file that ends in .gguf, not %s", filepath.Base(c.GGUF))
		}
		to := ConvertCmd{In: c.Model, Out: c.GGUF, Type: c.Type, gguf: strings.TrimPrefix(c.Layout, "own")}
		return to.Run(io)
	}
	in, err := tensorfile.Open(c.Model)
	if err != nil {
		return err
	}
	defer in.Close()
	t, err := host.Tokenizer(in)
	if err != nil {
		return err
	}
	format, _ := kernel.ParseType(c.Dtype)
	if err := in.Guard(func() error { return arch.Export(in, c.HF, arch.ExportOptions{Type: format, Done: io.Ctx.Done()}) }); err != nil {
		return err
	}
	missing, err := writeTokenizer(c.HF, t, host.TemplateSource(in))
	if err != nil {
		return err
	}
	if missing != nil {
		fmt.Fprintf(io.Err, "tinyloop: no tokenizer.json is written: %s\n", printable(missing.Error()))
	}
	fmt.Fprintf(io.Out, "%s -> %s (%s, PyTorch: modeling_tinyloop.py)\n", printable(filepath.Base(c.Model)), printable(filepath.Base(c.HF)), c.Dtype)
	return nil
}

// writeTokenizer writes the files of the tokenizer; missing says why there is no tokenizer.json.
func writeTokenizer(dir string, t *tok.Tokenizer, template string) (missing, err error) {
	files := map[string][]byte{"tokenizer_config.json": t.HFConfig(template), "generation_config.json": generationConfig(t)}
	b, missing := t.HF()
	if missing == nil {
		files["tokenizer.json"] = b
	} else if err := os.Remove(filepath.Join(dir, "tokenizer.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return missing, err // one of an earlier export would be of another model
	}
	for name, data := range files {
		if err := arch.WriteFile(filepath.Join(dir, name), data); err != nil {
			return missing, err
		}
	}
	return missing, nil
}

// generationConfig says with which tokens texts begin and end.
func generationConfig(t *tok.Tokenizer) []byte {
	c := map[string]any{"eos_token_id": t.Stops(), "do_sample": true, "use_cache": false} // modeling_tinyloop.py has none
	if id := t.BOS(); id >= 0 {
		c["bos_token_id"] = id
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	_ = e.Encode(c) // numbers and switches into memory
	return b.Bytes()
}

// ImportCmd takes a model back that export wrote and other programs trained on.
type ImportCmd struct {
	Dir       string `arg:"" help:"Folder that export --hf wrote, perhaps with other weights since."`
	Out       string `arg:"" help:".tinyloop file to write."`
	Type      string `help:"Number format of the matrices (${enum}); keep leaves each as it is." enum:"keep,f32,f16,bf16,q8_0,q5_1,q5_0,q4_1,q4_0,q4_K,q5_K,q6_K" default:"keep"`
	Tokenizer string `help:"Tokenizer file, or the model file that has it, where the folder has none." type:"place" placeholder:"FILE"`
	Template  string `help:"Chat template file (Jinja) to put into the output." type:"place" placeholder:"FILE"`
	License   string `help:"Licence to state in the output." placeholder:"NAME"`
}

// Run writes the file, and prints the sizes to io.Out.
func (c *ImportCmd) Run(io *IO) error {
	if !strings.EqualFold(filepath.Ext(c.Out), ".tinyloop") {
		return fault.New(fault.Invalid, "out", "the output must end in .tinyloop, is %s", filepath.Base(c.Out))
	}
	f, err := tensorfile.Open(c.Dir)
	if err != nil {
		return err
	}
	kind, err := arch.ModelType(f)
	f.Close()
	if err != nil {
		return err
	}
	if kind != "tinyloop" {
		return fault.New(fault.Unsupported, "model_type", "the folder holds a model of type %s; import takes back what export --hf wrote, tinyloop convert reads the others", kind)
	}
	to := ConvertCmd{In: c.Dir, Out: c.Out, Type: c.Type, Tokenizer: c.Tokenizer, Template: c.Template, License: c.License}
	return to.Run(io)
}
