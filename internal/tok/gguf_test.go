package tok_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tinyloop/internal/fault"
	"tinyloop/internal/fixture"
	"tinyloop/internal/tok"
)

// meta is tok.Meta over a map, as GGUF writes it.
type meta map[string]any

func get[T any](m meta, key string) (T, bool) {
	v, ok := m[key].(T)
	return v, ok
}

func (m meta) String(key string) (string, bool)    { return get[string](m, key) }
func (m meta) Strings(key string) ([]string, bool) { return get[[]string](m, key) }
func (m meta) Ints(key string) ([]int32, bool)     { return get[[]int32](m, key) }
func (m meta) Floats(key string) ([]float32, bool) { return get[[]float32](m, key) }
func (m meta) Bool(key string) (bool, bool)        { return get[bool](m, key) }
func (m meta) Get(key string) (any, bool)          { v, ok := m[key]; return v, ok }
func (m meta) Uint(key string) (uint64, bool) {
	v, ok := get[uint32](m, key)
	return uint64(v), ok
}

// TestGGUFRoundTrip: what GGUF writes, FromGGUF reads back as the same tokenizer.
func TestGGUFRoundTrip(t *testing.T) {
	for _, name := range []string{"tiktoken/gpt2", "llama.cpp/llama-bpe", "llama.cpp/qwen2", "llama.cpp/llama-spm", "llama.cpp/phi-3", "llama.cpp/tok512"} {
		t.Run(name, func(t *testing.T) {
			tk := load(t, name)
			again, err := tok.FromGGUF(meta(tk.GGUF()))
			if err != nil {
				t.Fatal(err)
			}
			if again.Hash() != tk.Hash() {
				t.Error("the hash changed")
			}
			if !slices.Equal(again.Stops(), tk.Stops()) || again.EOT() != tk.EOT() || again.BOS() != tk.BOS() {
				t.Errorf("stops %v, eot %d, bos %d; before %v, %d, %d", again.Stops(), again.EOT(), again.BOS(), tk.Stops(), tk.EOT(), tk.BOS())
			}
		})
	}
}

// TestSameVocabulary: the same vocabulary from two sources is the same tokenizer.
func TestSameVocabulary(t *testing.T) {
	if tok.GPT2().Hash() != load(t, "llama.cpp/gpt-2").Hash() {
		t.Error("the compiled-in GPT-2 vocabulary is not that of the GGUF file")
	}
	if load(t, "llama.cpp/tok512").Hash() != gguf(t, "stories260K", "stories260K-f32.gguf").Hash() {
		t.Error("tok512.bin and the GGUF file differ")
	}
	if load(t, "llama.cpp/qwen2").Hash() == load(t, "llama.cpp/llama-bpe").Hash() {
		t.Error("two vocabularies have one hash")
	}
}

// TestHashSeesEverything: each setting that changes ids or their meaning changes the hash.
func TestHashSeesEverything(t *testing.T) {
	base := func() meta { return meta(load(t, "llama.cpp/tok512").GGUF()) }
	seen := map[[32]byte]string{}
	for name, change := range map[string]func(m meta){
		"nothing":  func(m meta) {},
		"score":    func(m meta) { m["tokenizer.ggml.scores"].([]float32)[300] = -7.5 },
		"piece":    func(m meta) { m["tokenizer.ggml.tokens"].([]string)[300] = "zzz" },
		"type":     func(m meta) { m["tokenizer.ggml.token_type"].([]int32)[300] = 4 },
		"prefix":   func(m meta) { m["tokenizer.ggml.add_space_prefix"] = false },
		"add bos":  func(m meta) { m["tokenizer.ggml.add_bos_token"] = false },
		"eos":      func(m meta) { m["tokenizer.ggml.eos_token_id"] = uint32(1) },
		"nfc":      func(m meta) { m["tokenizer.tinyloop.nfc"] = true },
		"scheme":   func(m meta) { m["tokenizer.tinyloop.space_prefix"] = uint32(2) },
		"rstrip":   func(m meta) { m["tokenizer.tinyloop.rstrip"] = []int32{1} },
		"stripped": func(m meta) { m["tokenizer.tinyloop.lstrip"] = []int32{1} },
	} {
		m := base()
		change(m)
		tk, err := tok.FromGGUF(m)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if other, ok := seen[tk.Hash()]; ok {
			t.Errorf("%q and %q have one hash", name, other)
		}
		seen[tk.Hash()] = name
	}
}

// TestGGUFRefusals: broken and unknown tokenizers are errors that name the key.
func TestGGUFRefusals(t *testing.T) {
	bpe := func() meta { return meta(tok.GPT2().GGUF()) }
	spm := func() meta { return meta(load(t, "llama.cpp/tok512").GGUF()) }
	for name, c := range map[string]struct {
		base   func() meta
		change func(m meta)
		kind   fault.Kind
		says   string
	}{
		"no model":      {bpe, func(m meta) { delete(m, "tokenizer.ggml.model") }, fault.Invalid, "tokenizer.ggml.model"},
		"unknown model": {bpe, func(m meta) { m["tokenizer.ggml.model"] = "bert" }, fault.Unsupported, `"bert"`},
		"unknown pre":   {bpe, func(m meta) { m["tokenizer.ggml.pre"] = "kimi-k9" }, fault.Unsupported, `"kimi-k9"`},
		"no tokens":     {bpe, func(m meta) { delete(m, "tokenizer.ggml.tokens") }, fault.Invalid, "tokenizer.ggml.tokens"},
		"empty tokens":  {spm, func(m meta) { m["tokenizer.ggml.tokens"], m["tokenizer.ggml.token_type"] = []string{}, []int32{} }, fault.Invalid, "0 tokens"},
		"eos behind":    {spm, func(m meta) { m["tokenizer.ggml.add_eos_token"] = true }, fault.Unsupported, "tokenizer.ggml.add_eos_token is true"},
		"no merges":     {bpe, func(m meta) { delete(m, "tokenizer.ggml.merges") }, fault.Invalid, "tokenizer.ggml.merges"},
		"types short":   {bpe, func(m meta) { m["tokenizer.ggml.token_type"] = []int32{1} }, fault.Invalid, "tokenizer.ggml.token_type has 1"},
		"type 9":        {bpe, func(m meta) { m["tokenizer.ggml.token_type"].([]int32)[5] = 9 }, fault.Invalid, "[5] is 9"},
		"merge of one":  {bpe, func(m meta) { m["tokenizer.ggml.merges"] = []string{"abc"} }, fault.Invalid, "merge 0"},
		"merge unknown": {bpe, func(m meta) { m["tokenizer.ggml.merges"] = []string{"t h", "qqqq q"} }, fault.Invalid, "merge 1"},
		"merge to none": {bpe, func(m meta) { m["tokenizer.ggml.merges"] = []string{"Ā Ā"} }, fault.Invalid, "no token"},
		"eos outside":   {bpe, func(m meta) { m["tokenizer.ggml.eos_token_id"] = uint32(70000) }, fault.Invalid, "70000"},
		"same text":     {spm, func(m meta) { m["tokenizer.ggml.tokens"].([]string)[1] = "<unk>" }, fault.Invalid, "tokens 0 and 1"},
		"lost byte":     {bpe, func(m meta) { m["tokenizer.ggml.tokens"].([]string)[188] = "zzzzz" }, fault.Invalid, "0x00"},
		"long token":    {spm, func(m meta) { m["tokenizer.ggml.tokens"].([]string)[300] = strings.Repeat("x", 5000) }, fault.Invalid, "5000 bytes"},
		"no scores":     {spm, func(m meta) { delete(m, "tokenizer.ggml.scores") }, fault.Invalid, "tokenizer.ggml.scores"},
		"few scores":    {spm, func(m meta) { m["tokenizer.ggml.scores"] = []float32{1} }, fault.Invalid, "1 scores"},
		"score not a number": {spm, func(m meta) {
			s := m["tokenizer.ggml.scores"].([]float32)
			s[4] = (s[4] - s[4]) / (s[4] - s[4])
		}, fault.Invalid, "token 4"},
		"spm pre":          {spm, func(m meta) { m["tokenizer.ggml.pre"] = "qwen2" }, fault.Unsupported, `"qwen2"`},
		"extra whitespace": {spm, func(m meta) { m["tokenizer.ggml.remove_extra_whitespaces"] = true }, fault.Unsupported, "remove_extra"},
		"strip outside":    {spm, func(m meta) { m["tokenizer.tinyloop.rstrip"] = []int32{-2} }, fault.Invalid, "-2"},
		"eos a text":       {bpe, func(m meta) { m["tokenizer.ggml.eos_token_id"] = "0" }, fault.Invalid, "of at least 0, is of type string"},
		"eos negative":     {spm, func(m meta) { m["tokenizer.ggml.eos_token_id"] = int32(-1) }, fault.Invalid, "eos_token_id must be"},
		"bos a list":       {spm, func(m meta) { m["tokenizer.ggml.bos_token_id"] = []int32{1} }, fault.Invalid, "bos_token_id must be"},
		"types of texts":   {spm, func(m meta) { m["tokenizer.ggml.token_type"] = []string{"1"} }, fault.Invalid, "list of integers"},
		"add_bos a number": {spm, func(m meta) { m["tokenizer.ggml.add_bos_token"] = uint32(0) }, fault.Invalid, "true or false"},
		"nfc a number":     {bpe, func(m meta) { m["tokenizer.tinyloop.nfc"] = uint32(1) }, fault.Invalid, "true or false"},
		"pre a number":     {bpe, func(m meta) { m["tokenizer.ggml.pre"] = uint32(1) }, fault.Invalid, "a text"},
		"bad pattern":      {bpe, func(m meta) { m["tokenizer.tinyloop.patterns"] = []string{"(a"} }, fault.Invalid, "(a"},
	} {
		m := c.base()
		c.change(m)
		_, err := tok.FromGGUF(m)
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != c.kind || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %v with %q", name, err, c.kind, c.says)
		}
	}
}

// TestBlankTokens: a role may name a token without text; a vocabulary of nothing else cannot write a byte, and says so unless it has an unknown token.
func TestBlankTokens(t *testing.T) {
	m := meta(load(t, "llama.cpp/tok512").GGUF())
	pieces := m["tokenizer.ggml.tokens"].([]string)
	pieces[2] = ""
	tk, err := tok.FromGGUF(m)
	if err != nil || tk.EOS() != 2 {
		t.Fatalf("%v", err)
	}
	if ids := tk.Encode(nil, "</s>"); slices.Contains(ids, 2) {
		t.Errorf("text became the blank token: %v", ids)
	}
	m["tokenizer.ggml.tokens"] = make([]string, len(pieces))
	if _, err := tok.FromGGUF(m); err != nil {
		t.Errorf("%v", err)
	}
	delete(m, "tokenizer.ggml.unknown_token_id")
	if _, err := tok.FromGGUF(m); err == nil || !strings.Contains(err.Error(), "0x00") {
		t.Errorf("got %v", err)
	}
}

// TestLlama2cTruncated: every cut of the file is an error, none a panic.
func TestLlama2cTruncated(t *testing.T) {
	data := fixture.Read(t, "stories260K", "tok512.bin")
	for n := range data {
		if _, err := tok.FromLlama2c(data[:n], 512); fault.Of(err) != fault.Invalid || err == nil {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
	for _, vocab := range []int{-1, 0, 258, 511, 513, 1 << 30} {
		if _, err := tok.FromLlama2c(data, vocab); fault.Of(err) != fault.Invalid || err == nil {
			t.Errorf("%d entries: %v", vocab, err)
		}
	}
}
