package tok_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tiktoken-go/tokenizer/codec"

	"tinyloop/internal/fixture"
	"tinyloop/internal/tensorfile"
	"tinyloop/internal/tok"
)

// gguf reads the tokenizer of a fixture.
func gguf(t testing.TB, rel ...string) *tok.Tokenizer {
	t.Helper()
	f, err := tensorfile.Open(fixture.Path(t, rel...))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tk, err := tok.FromGGUF(f.Meta)
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

// rankTable makes a tokenizer from one of the vocabularies that the registry dependency compiles in.
func rankTable(t testing.TB, table *codec.Codec, size int, pattern string) *tok.Tokenizer {
	t.Helper()
	texts := make([]string, size)
	for i := range texts {
		texts[i], _ = table.Decode([]uint{uint(i)})
	}
	if !slices.Contains(texts, "\x7f") {
		gap := slices.Index(texts, "")
		texts[gap] = "\x7f"
	}
	tk, err := tok.FromRankTable(texts, pattern)
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

var named = map[string]func(t testing.TB) *tok.Tokenizer{
	"tiktoken/gpt2":        func(t testing.TB) *tok.Tokenizer { return tok.GPT2() },
	"tiktoken/r50k_base":   func(t testing.TB) *tok.Tokenizer { return rankTable(t, codec.NewR50kBase(), 50256, tok.PatGPT2) },
	"tiktoken/p50k_base":   func(t testing.TB) *tok.Tokenizer { return rankTable(t, codec.NewP50kBase(), 50281, tok.PatGPT2) },
	"tiktoken/cl100k_base": func(t testing.TB) *tok.Tokenizer { return rankTable(t, codec.NewCl100kBase(), 100256, tok.PatCL100K) },
	"tiktoken/o200k_base":  func(t testing.TB) *tok.Tokenizer { return rankTable(t, codec.NewO200kBase(), 199998, tok.PatO200K) },
	"llama.cpp/llama-spm":  func(t testing.TB) *tok.Tokenizer { return gguf(t, "vocab", "ggml-vocab-llama-spm.gguf") },
	"llama.cpp/phi-3":      func(t testing.TB) *tok.Tokenizer { return gguf(t, "vocab", "ggml-vocab-phi-3.gguf") },
	"llama.cpp/gpt-2":      func(t testing.TB) *tok.Tokenizer { return gguf(t, "vocab", "ggml-vocab-gpt-2.gguf") },
	"llama.cpp/llama-bpe":  func(t testing.TB) *tok.Tokenizer { return gguf(t, "vocab", "ggml-vocab-llama-bpe.gguf") },
	"llama.cpp/qwen2":      func(t testing.TB) *tok.Tokenizer { return gguf(t, "vocab", "ggml-vocab-qwen2.gguf") },
	"llama.cpp/tok512": func(t testing.TB) *tok.Tokenizer {
		tk, err := tok.FromLlama2c(fixture.Read(t, "stories260K", "tok512.bin"), 512)
		if err != nil {
			t.Fatal(err)
		}
		return tk
	},
}

// built keeps the tokenizers that several tests use, as the large ones take a moment to build.
var built sync.Map

func load(t testing.TB, name string) *tok.Tokenizer {
	t.Helper()
	if tk, ok := built.Load(name); ok {
		return tk.(*tok.Tokenizer)
	}
	tk := named[name](t)
	built.Store(name, tk)
	return tk
}

// TestGoldens holds every encoder against ids that tiktoken and llama.cpp gave for the same strings.
func TestGoldens(t *testing.T) {
	var g struct {
		Strings   []string
		Encodings map[string][][]tok.ID
	}
	if err := json.Unmarshal(fixture.Read(t, "goldens", "tokenizer_goldens.json"), &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Encodings) != len(named) {
		t.Errorf("%d encoders in the goldens, %d here", len(g.Encodings), len(named))
	}
	for name, want := range g.Encodings {
		t.Run(name, func(t *testing.T) {
			tk := load(t, name)
			for i, s := range g.Strings {
				got := tk.Encode(nil, s)
				if !slices.Equal(got, want[i]) {
					t.Errorf("string %d %q\n got %v\nwant %v", i, s, got, want[i])
				}
				checkDecode(t, tk, s, got)
			}
		})
	}
}

// checkDecode demands that ids give text back, whole and streamed.
func checkDecode(t *testing.T, tk *tok.Tokenizer, text string, ids []tok.ID) {
	t.Helper()
	if tk.Kind() == "spm" {
		text = strings.ReplaceAll(text, "▁", " ")
	}
	if got := string(tk.Decode(nil, ids)); got != text {
		t.Errorf("%q decoded as %q", text, got)
	}
	s := tk.NewStream()
	var out []byte
	for _, id := range ids {
		out = s.Add(out, id)
	}
	if got := string(s.Flush(out)); got != strings.ToValidUTF8(text, "\uFFFD") && strings.ToValidUTF8(text, "") == text {
		t.Errorf("%q streamed as %q", text, got)
	}
}

// TestVocabPairs holds the vocabularies against llama.cpp's own test pairs.
func TestVocabPairs(t *testing.T) {
	for _, name := range []string{"gpt-2", "llama-bpe", "llama-spm", "phi-3", "qwen2"} {
		t.Run(name, func(t *testing.T) {
			tk := load(t, "llama.cpp/"+name)
			texts := strings.Split(string(fixture.Read(t, "vocab", "ggml-vocab-"+name+".gguf.inp")), "\n__ggml_vocab_test__\n")
			lines := strings.Split(strings.TrimSuffix(string(fixture.Read(t, "vocab", "ggml-vocab-"+name+".gguf.out")), "\n"), "\n")
			texts = texts[:len(texts)-1] // what follows the last line is empty and no test
			if len(texts) != len(lines) {
				t.Fatalf("%d texts, %d lines of ids", len(texts), len(lines))
			}
			for i, text := range texts {
				var want []tok.ID
				for _, f := range strings.Fields(lines[i]) {
					n, err := strconv.Atoi(f)
					if err != nil {
						t.Fatal(err)
					}
					want = append(want, tok.ID(n))
				}
				if got := tk.Encode(nil, text); !slices.Equal(got, want) {
					t.Errorf("%d %q\n got %v\nwant %v", i, text, got, want)
				}
			}
		})
	}
}
