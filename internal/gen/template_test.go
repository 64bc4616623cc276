package gen

import (
	"slices"
	"strings"
	"testing"

	"tinyloop/internal/chat"
	"tinyloop/internal/fixture"
	"tinyloop/internal/tensorfile"
	"tinyloop/internal/tok"
)

// With the vocabularies and templates of real models: an ordinary conversation is encoded as the whole text would be, and every control text of
// the vocabulary that a person types, in any turn, stays text.
func TestRealTemplates(t *testing.T) {
	for vocabulary, template := range map[string]string{
		"ggml-vocab-qwen2.gguf":     "Qwen-Qwen3-0.6B.jinja",
		"ggml-vocab-llama-bpe.gguf": "meta-llama-Llama-3.1-8B-Instruct.jinja",
		"ggml-vocab-phi-3.gguf":     "microsoft-Phi-3.5-mini-instruct.jinja",
	} {
		t.Run(template, func(t *testing.T) {
			f, err := tensorfile.Open(fixture.Path(t, "vocab", vocabulary))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			tk, err := tok.FromGGUF(f.Meta)
			if err != nil {
				t.Fatal(err)
			}
			tm, err := chat.Compile(string(fixture.Read(t, "templates", template)))
			if err != nil {
				t.Fatal(err)
			}
			g := newGenerator(tk, &script{ids: []tok.ID{tk.EOS()}}, 1<<20)
			g.tmpl = tm
			turn := func(s string) []chat.Message {
				return []chat.Message{{Role: "system", Content: "Be brief. " + s}, {Role: "user", Content: s + "Hi\n\n" + s}, {Role: "assistant", Content: "Ho " + s}, {Role: "user", Content: " Été? " + s}}
			}
			plain := promptOf(t, g, &Request{Messages: turn("")})
			parts, err := g.render(&Request{}, turn(""))
			if err != nil {
				t.Fatal(err)
			}
			var whole strings.Builder
			for _, p := range parts {
				whole.WriteString(p.Text)
			}
			if want := g.withBOS(tk.EncodeMarkup(nil, whole.String())); !slices.Equal(plain, want) {
				t.Errorf("an ordinary conversation is %v, as a whole %v", plain, want)
			}
			want := only(tk, plain)
			controls := g.controls
			if len(controls) > 40 { // Llama 3 reserves hundreds of the same kind
				controls = append(slices.Clone(controls[:10]), controls[len(controls)-10:]...)
			}
			for _, c := range controls {
				got := only(tk, promptOf(t, g, &Request{Messages: turn(c)}))
				if !slices.Equal(got, want) {
					t.Errorf("%q in messages gives the control ids %v, want %v", c, got, want)
				}
			}
		})
	}
}

func only(tk *tok.Tokenizer, ids []tok.ID) (out []tok.ID) {
	for _, id := range ids {
		if tk.IsControl(id) {
			out = append(out, id)
		}
	}
	return out
}
