package host

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"

	"tinyloop/internal/arch"
	"tinyloop/internal/chat"
	"tinyloop/internal/fault"
	"tinyloop/internal/gen"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
	"tinyloop/internal/tok"
)

// tokenizer finds the tokenizer of a model: in the file itself, else beside it.
func tokenizer(f *tensorfile.File) (*tok.Tokenizer, error) {
	if _, ok := f.Meta.String("tokenizer.ggml.model"); ok {
		return tok.FromGGUF(f.Meta)
	}
	if data, err := f.Sidecar("tokenizer.json"); err == nil {
		config, _ := f.Sidecar("tokenizer_config.json") // optional
		return tok.FromHF(data, config)
	}
	spec, err := arch.SpecOf(f)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{fmt.Sprintf("tok%d.bin", spec.Vocab), "tokenizer.bin"} {
		if data, err := f.Sidecar(name); err == nil {
			return tok.FromLlama2c(data, spec.Vocab)
		}
	}
	return nil, fault.New(fault.Invalid, "", "it has no tokenizer: neither in its metadata, nor as tokenizer.json or tok%d.bin beside it", spec.Vocab)
}

// template finds the chat template: in the file, else in tokenizer_config.json or chat_template.jinja beside it, else ChatML. One that we
// cannot use must not keep the model from loading: plain prompts need none.
func template(f *tensorfile.File, log *slog.Logger) *chat.Template {
	source := templateSource(f)
	if source == "" {
		return chat.ChatML()
	}
	t, err := chat.Compile(source)
	if err != nil {
		log.Warn("the model's chat template cannot be used; ChatML takes its place", "model", f.Path, "error", err)
		return chat.ChatML()
	}
	return t
}

func templateSource(f *tensorfile.File) string {
	if s, ok := f.Meta.String("tokenizer.chat_template"); ok {
		return s
	}
	if f.Format != tensorfile.Safetensors {
		return ""
	}
	if b, err := f.Sidecar("chat_template.jinja"); err == nil {
		return string(b)
	}
	b, err := f.Sidecar("tokenizer_config.json")
	if err != nil {
		return ""
	}
	return configTemplate(b)
}

// configTemplate reads the template of a tokenizer_config.json, which is a text or a list of named ones.
func configTemplate(config []byte) string {
	var c struct {
		Template json.RawMessage `json:"chat_template"`
	}
	if json.Unmarshal(config, &c) != nil {
		return ""
	}
	var one string
	if json.Unmarshal(c.Template, &one) == nil {
		return one
	}
	var many []struct{ Name, Template string }
	if json.Unmarshal(c.Template, &many) != nil {
		return ""
	}
	for _, t := range many {
		if t.Name == "default" {
			return t.Template
		}
	}
	return ""
}

// info describes a loaded model.
func info(name string, f *tensorfile.File, m *model.Model, s *model.Scratch, kv kernel.Type) gen.Info {
	about := arch.InfoOf(f)
	lim := s.Limits()
	unique, unrolled := m.Spec.Params()
	out := gen.Info{
		Name:            name,
		Path:            f.Path,
		Family:          m.Spec.Family,
		Quant:           about.Quant,
		Params:          unique,
		UnrolledParams:  unrolled,
		Bytes:           m.Bytes(),
		Vocab:           lim.Vocab,
		Context:         lim.Context,
		TrainedContext:  m.Spec.Context,
		License:         about.License,
		Hash:            about.Hash,
		KVBytesPerToken: m.Spec.KVBytesPerToken(lim.Loops.Default, kv),
		KVType:          kv.String(),
	}
	out.Loops.Default = lim.Loops.Default
	out.Loops.TrainedMin = cmp.Or(lim.Loops.TrainedMin, 1)
	out.Loops.TrainedMean = lim.Loops.TrainedMean
	out.Loops.TrainedMax = lim.Loops.TrainedMax
	out.Loops.HardMax = lim.Loops.HardMax
	if st, err := os.Stat(f.Path); err == nil {
		out.Created = st.ModTime()
	}
	return out
}

// size prints bytes for people.
func size(n int64) string {
	v, unit := float64(n), "B"
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if v < 1024 {
			break
		}
		v, unit = v/1024, u
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, unit)
}
