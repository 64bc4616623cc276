package host

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"tinyloop/internal/arch"
	"tinyloop/internal/chat"
	"tinyloop/internal/fault"
	"tinyloop/internal/gen"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
	"tinyloop/internal/tok"
)

// Tokenizer finds the tokenizer of a model: in the file itself, else beside it (tokenizer.json with its optional tokenizer_config.json, or one of
// llama2.c). It is a fault of kind NotFound that there is none, and one of kind Invalid that it has more tokens than the model.
func Tokenizer(f *tensorfile.File) (*tok.Tokenizer, error) {
	t, err := findTokenizer(f)
	if err != nil {
		return nil, err
	}
	if spec, err := arch.SpecOf(f); err == nil && t.Size() > spec.Vocab {
		return nil, fault.New(fault.Invalid, "", "the tokenizer has %d tokens, but the model only %d", t.Size(), spec.Vocab)
	}
	return t, nil
}

func findTokenizer(f *tensorfile.File) (*tok.Tokenizer, error) {
	if _, ok := f.Meta.Get("tokenizer.ggml.model"); ok {
		return tok.FromGGUF(f.Meta)
	}
	var names []string
	vocab := 0
	if f.Format != tensorfile.Safetensors {
		spec, err := arch.SpecOf(f)
		if err != nil {
			return nil, err
		}
		vocab, names = spec.Vocab, []string{fmt.Sprintf("tok%d.bin", spec.Vocab), "tokenizer.bin"}
	}
	names = append(names, "tokenizer.json")
	for _, name := range names {
		b, err := f.Sidecar(name)
		if fault.Of(err) == fault.NotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		if name != "tokenizer.json" {
			return tok.FromLlama2c(b, vocab)
		}
		config, _ := f.Sidecar("tokenizer_config.json") // optional
		generation, _ := f.Sidecar("generation_config.json")
		return tok.FromHFFiles(b, config, generation)
	}
	return nil, fault.New(fault.NotFound, "", "no tokenizer: the file holds none, and %s is not beside it", strings.Join(names, " or "))
}

// template finds the chat template: in the file, else in tokenizer_config.json or chat_template.jinja beside it, else ChatML. One that we
// cannot use must not keep the model from loading: plain prompts need none.
func template(f *tensorfile.File, log *slog.Logger) *chat.Template {
	source := TemplateSource(f)
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

// talks says whether a model is made for conversations: its file has a template that can be used, or its vocabulary has the control tokens of the one
// that takes its place.
func talks(tm *chat.Template, t *tok.Tokenizer) bool {
	_, marked := t.Special("<|im_start|>")
	return marked || tm.Source() != ""
}

// TemplateSource gives the text of the chat template: in the file, else, for a Hugging Face folder, chat_template.jinja or what
// tokenizer_config.json holds; "" = none.
func TemplateSource(f *tensorfile.File) string {
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

// SizeText prints bytes for people.
func SizeText(n int64) string {
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
