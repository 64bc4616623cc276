package tok_test

import (
	"slices"
	"strings"
	"testing"

	"tinyloop/internal/tok"
)

var vocabularies = []string{"llama.cpp/llama-bpe", "llama.cpp/qwen2", "llama.cpp/llama-spm", "llama.cpp/phi-3", "tiktoken/gpt2", "llama.cpp/tok512"}

// TestControlNeverFromText: text that a person types never becomes a control token, whatever it spells; the same text as markup does.
func TestControlNeverFromText(t *testing.T) {
	for _, name := range vocabularies {
		tk := load(t, name)
		n := 0
		for id := range tok.ID(tk.Size()) {
			text := tk.Piece(id)
			if got, ok := tk.Special(text); !ok || got != id {
				continue
			}
			n++
			for _, s := range []string{text, "a" + text + "b", text + text} {
				if ids := tk.Encode(nil, s); slices.Contains(ids, id) {
					t.Fatalf("%s: typing %q gave token %d: %v", name, s, id, ids)
				}
				if ids := tk.EncodeMarkup(nil, s); !slices.Contains(ids, id) {
					t.Fatalf("%s: markup %q gave no token %d: %v", name, s, id, ids)
				}
				spans := []tok.Span{{Text: "x"}, {Text: s}, {Text: s[:1], Markup: true}, {Text: s[1:]}}
				if ids := tk.EncodeSpans(nil, spans); slices.Contains(ids, id) {
					t.Fatalf("%s: spans %v gave token %d", name, spans, id)
				}
			}
		}
		if n == 0 {
			t.Errorf("%s has no special token", name)
		}
	}
}

// TestSpans: a prompt in spans has the ids of the whole string, as far as no special token is spelt by text.
func TestSpans(t *testing.T) {
	for _, name := range vocabularies {
		tk := load(t, name)
		open, closed := "<|im_start|>", "<|im_end|>"
		parts := []tok.Span{{Text: open + "user\n", Markup: true}, {Text: "\n hi, the"}, {Text: "re" + closed + "\n", Markup: true}}
		whole := ""
		for _, p := range parts {
			whole += p.Text
		}
		if got, want := tk.EncodeSpans(nil, parts), tk.EncodeMarkup(nil, whole); !slices.Equal(got, want) {
			t.Errorf("%s: spans %v, whole %v", name, got, want)
		}
	}
}

// TestLongestSpecial: of two special tokens that begin alike the longer one is taken.
func TestLongestSpecial(t *testing.T) {
	m := meta(tok.GPT2().GGUF())
	pieces, types := m["tokenizer.ggml.tokens"].([]string), m["tokenizer.ggml.token_type"].([]int32)
	for _, s := range []string{"<|a|>", "<|a|>b", "<|a|>bcd", "  ", "   "} {
		pieces, types = append(pieces, s), append(types, 3)
	}
	types[len(types)-1], types[len(types)-2] = 4, 4
	m["tokenizer.ggml.tokens"], m["tokenizer.ggml.token_type"] = pieces, types
	tk, err := tok.FromGGUF(m)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]tok.ID{
		"<|a|>":        {50257},
		"<|a|>b":       {50258},
		"<|a|>bc":      {50258, 66},
		"<|a|>bcd":     {50259},
		"<|a|<|a|>":    {27, 91, 64, 91, 50257},
		"   a":         {50261, 64},
		"    ":         {50261, 220},
		"     <|a|>bc": {50261, 50260, 50258, 66},
	} {
		if got := tk.EncodeMarkup(nil, text); !slices.Equal(got, want) {
			t.Errorf("%q gave %v, want %v", text, got, want)
		}
	}
	if got := tk.Encode(nil, "   a<|a|>"); got[0] != 50261 || slices.Contains(got, 50257) {
		t.Errorf("plain text gave %v: user-defined white space is found, control tokens are not", got)
	}
	if got := string(tk.Decode(nil, tk.EncodeMarkup(nil, "x<|a|>y   z"))); got != "xy   z" {
		t.Errorf("decoded as %q", got)
	}
}

// TestRoles: the tokens that begin and end texts and turns.
func TestRoles(t *testing.T) {
	for name, want := range map[string]struct {
		bos, eos, eot tok.ID
		addBOS        bool
		stops         []tok.ID
	}{
		"tiktoken/gpt2":       {50256, 50256, -1, false, []tok.ID{50256}},
		"llama.cpp/llama-bpe": {128000, 128001, 128009, true, []tok.ID{128001, 128009}},
		"llama.cpp/qwen2":     {151643, 151643, 151645, false, []tok.ID{151643, 151645}},
		"llama.cpp/llama-spm": {1, 2, -1, true, []tok.ID{2}},
		"llama.cpp/phi-3":     {1, 32000, 32007, true, []tok.ID{32000, 32007}},
		"llama.cpp/tok512":    {1, 2, -1, true, []tok.ID{2}},
	} {
		tk := load(t, name)
		if tk.BOS() != want.bos || tk.EOS() != want.eos || tk.EOT() != want.eot || tk.AddBOS() != want.addBOS || !slices.Equal(tk.Stops(), want.stops) {
			t.Errorf("%s: bos %d eos %d eot %d add %v stops %v", name, tk.BOS(), tk.EOS(), tk.EOT(), tk.AddBOS(), tk.Stops())
		}
		for _, id := range tk.Stops() {
			if !tk.IsControl(id) || tk.Bytes(id) != nil {
				t.Errorf("%s: stop %d is no control token", name, id)
			}
		}
	}
}

// TestUnknownIDs: ids outside the vocabulary do no harm.
func TestUnknownIDs(t *testing.T) {
	tk := tok.GPT2()
	for _, id := range []tok.ID{-1, -1 << 31, 50257, 1<<31 - 1} {
		s := tk.NewStream()
		if tk.Valid(id) || tk.Bytes(id) != nil || tk.Piece(id) != "" || tk.IsControl(id) || len(tk.Decode(nil, []tok.ID{id})) > 0 || len(s.Add(nil, id)) > 0 {
			t.Errorf("id %d counts for something", id)
		}
	}
}

// TestSpaceRule: the space that SentencePiece puts in front is gone after decoding, and only that one.
func TestSpaceRule(t *testing.T) {
	tk := load(t, "llama.cpp/llama-spm")
	for _, text := range []string{"a", " a", "  a", " ", "\n a", "a b"} {
		if got := string(tk.Decode(nil, tk.Encode(nil, text))); got != text {
			t.Errorf("%q came back as %q", text, got)
		}
		if got := string(tk.Decode(nil, tk.EncodeMarkup(nil, "<s>"+text))); got != text {
			t.Errorf("<s>%q came back as %q", text, got)
		}
		if got := string(tk.Decode(nil, tk.EncodeMarkup(nil, text+"</s><s>"+text))); got != text+text {
			t.Errorf("%q twice came back as %q", text, got)
		}
	}
	prompt := tk.Encode(nil, "Once upon a")
	s := tk.NewStreamAfter(append([]tok.ID{tk.BOS()}, prompt...))
	next, _ := tk.Special("</s>")
	time := tk.Encode(nil, "time")
	if got := string(s.Add(nil, time[0])); got != " time" {
		t.Errorf("behind a prompt the word came as %q", got)
	}
	fresh := tk.NewStream()
	if got := string(fresh.Add(fresh.Add(nil, next), time[0])); got != "time" {
		t.Errorf("at the start the word came as %q", got)
	}
	if !strings.HasPrefix(tk.Piece(time[0]), "▁") {
		t.Errorf("piece %q", tk.Piece(time[0]))
	}
}
