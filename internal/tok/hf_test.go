package tok_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tinyloop/internal/fault"
	"tinyloop/internal/tok"
)

type object = map[string]any

const (
	llama3Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen2Pattern  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

func byteLevel(useRegex bool) object {
	return object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": useRegex}
}

func splitOn(pattern string) object {
	return object{"type": "Sequence", "pretokenizers": []any{
		object{"type": "Split", "pattern": object{"Regex": pattern}, "behavior": "Isolated", "invert": false}, byteLevel(false)}}
}

func template(begin string) object {
	return object{"type": "Sequence", "processors": []any{byteLevel(true), object{"type": "TemplateProcessing",
		"single": []any{object{"SpecialToken": object{"id": begin, "type_id": 0}}, object{"Sequence": object{"id": "A", "type_id": 0}}}}}}
}

// hfOf writes the vocabulary of tk as a tokenizer.json.
func hfOf(tk *tok.Tokenizer, pairs bool) object {
	m := meta(tk.GGUF())
	vocab, added := object{}, []any{}
	types, _ := m.Ints("tokenizer.ggml.token_type")
	for i, ty := range types {
		piece := tk.Piece(tok.ID(i))
		switch ty {
		case 3, 4:
			added = append(added, object{"id": i, "content": piece, "special": ty == 3, "normalized": false})
		default:
			vocab[piece] = i
		}
	}
	lines, _ := m.Strings("tokenizer.ggml.merges")
	merges := []any{}
	for _, line := range lines {
		if left, right, _ := strings.Cut(line, " "); pairs {
			merges = append(merges, []string{left, right})
		} else {
			merges = append(merges, line)
		}
	}
	return object{"version": "1.0", "added_tokens": added, "pre_tokenizer": byteLevel(true), "decoder": byteLevel(true),
		"model": object{"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": "", "vocab": vocab, "merges": merges}}
}

func fromHF(t testing.TB, f, config object) (*tok.Tokenizer, error) {
	t.Helper()
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var c []byte
	if config != nil {
		if c, err = json.Marshal(config); err != nil {
			t.Fatal(err)
		}
	}
	return tok.FromHF(data, c)
}

// TestHFByteLevel: the same vocabulary as tokenizer.json and as GGUF is the same tokenizer.
func TestHFByteLevel(t *testing.T) {
	for _, c := range []struct {
		name   string
		pairs  bool
		change func(f object)
		config object
	}{
		{"tiktoken/gpt2", false, func(f object) {}, object{"bos_token": "<|endoftext|>", "eos_token": object{"content": "<|endoftext|>"}}},
		{"llama.cpp/llama-bpe", true, func(f object) {
			f["pre_tokenizer"], f["post_processor"] = splitOn(llama3Pattern), template("<|begin_of_text|>")
			f["model"].(object)["ignore_merges"] = true
		}, object{"eos_token": "<|end_of_text|>", "bos_token": "<|begin_of_text|>"}},
		{"llama.cpp/qwen2", false, func(f object) { f["pre_tokenizer"] = splitOn(qwen2Pattern) },
			object{"eos_token": "<|endoftext|>", "bos_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "add_bos_token": false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := beginning(t, load(t, c.name), 8000)
			f := hfOf(want, c.pairs)
			c.change(f)
			got, err := fromHF(t, f, c.config)
			if err != nil {
				t.Fatal(err)
			}
			if got.Hash() != want.Hash() {
				t.Errorf("pre %q and %q, bos %v and %v, add %v and %v", got.Pre(), want.Pre(), got.BOS(), want.BOS(), got.AddBOS(), want.AddBOS())
			}
		})
	}
}

// beginning is the tokenizer of the first n tokens of tk and of its control tokens.
func beginning(t *testing.T, tk *tok.Tokenizer, n int) *tok.Tokenizer {
	t.Helper()
	m := meta(tk.GGUF())
	old, _ := m.Ints("tokenizer.ggml.token_type")
	var pieces []string
	var types []int32
	ids := map[string]uint32{}
	for i, ty := range old {
		if i < n || ty == 3 {
			ids[tk.Piece(tok.ID(i))] = uint32(len(pieces))
			pieces, types = append(pieces, tk.Piece(tok.ID(i))), append(types, ty)
		}
	}
	var merges []string
	lines, _ := m.Strings("tokenizer.ggml.merges")
	for _, line := range lines {
		left, right, _ := strings.Cut(line, " ")
		_, ok1 := ids[left]
		_, ok2 := ids[right]
		if _, ok := ids[left+right]; ok && ok1 && ok2 {
			merges = append(merges, line)
		}
	}
	for key, v := range m {
		if id, ok := v.(uint32); ok {
			m[key] = ids[tk.Piece(tok.ID(id))]
		}
	}
	m["tokenizer.ggml.tokens"], m["tokenizer.ggml.token_type"], m["tokenizer.ggml.merges"] = pieces, types, merges
	out, err := tok.FromGGUF(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// hfSPM writes a small model in the shape that SentencePiece vocabularies are converted to.
func hfSPM() object {
	vocab := object{}
	add := func(pieces ...string) {
		for _, p := range pieces {
			vocab[p] = len(vocab)
		}
	}
	add("<unk>", "<s>", "</s>")
	for b := range 256 {
		add("<0x" + strings.ToUpper(string("0123456789abcdef"[b>>4])+string("0123456789abcdef"[b&15])) + ">")
	}
	add("▁a", "he", "▁t", "▁the", "▁▁", "▁", "a", "h", "e", "t")
	merges := []any{"▁ a", "h e", "▁ t", "▁t he", "▁ ▁"}
	added := []any{}
	for i, p := range []string{"<unk>", "<s>", "</s>"} {
		added = append(added, object{"id": i, "content": p, "special": true})
	}
	return object{"added_tokens": added,
		"normalizer": object{"type": "Sequence", "normalizers": []any{object{"type": "Prepend", "prepend": "▁"},
			object{"type": "Replace", "pattern": object{"String": " "}, "content": "▁"}}},
		"decoder": object{"type": "Sequence", "decoders": []any{object{"type": "Replace", "pattern": object{"String": "▁"}, "content": " "},
			object{"type": "ByteFallback"}, object{"type": "Fuse"}, object{"type": "Strip", "content": " ", "start": 1, "stop": 0}}},
		"post_processor": object{"type": "TemplateProcessing", "single": []any{object{"SpecialToken": object{"id": "<s>"}}, object{"Sequence": object{"id": "A"}}}},
		"model":          object{"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "vocab": vocab, "merges": merges}}
}

// TestHFSentencePiece: the three ways to put a space in front.
func TestHFSentencePiece(t *testing.T) {
	metaspace := func(scheme string) func(f object) {
		return func(f object) {
			f["normalizer"] = nil
			f["pre_tokenizer"] = object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": false}
			f["decoder"] = object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": false}
		}
	}
	for name, c := range map[string]struct {
		change        func(f object)
		ids           map[string]string
		back, addsBOS bool // decoding gives the text back, whatever it begins with
	}{
		"prepend": {func(f object) {}, map[string]string{"the a": "▁the ▁a", " the": "▁ ▁the", "": "", "the<s>a": "▁the <s> ▁a", "é": "▁ <0xC3> <0xA9>"}, true, true},
		"always":  {metaspace("always"), map[string]string{"the a": "▁the ▁a", " the": "▁the", "the<s>a": "▁the <s> ▁a"}, false, true},
		"first":   {metaspace("first"), map[string]string{"the a": "▁the ▁a", " the": "▁the", "the<s>a": "▁the <s> a"}, false, true},
		"never": {func(f object) { metaspace("never")(f); f["post_processor"] = nil },
			map[string]string{"the a": "t he ▁a", " the": "▁the", "the<s>a": "t he <s> a"}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := hfSPM()
			c.change(f)
			tk, err := fromHF(t, f, object{"eos_token": "</s>"})
			if err != nil {
				t.Fatal(err)
			}
			if tk.Kind() != "spm" || tk.AddBOS() != c.addsBOS || tk.EOS() != 2 {
				t.Errorf("kind %s, add bos %v, eos %d", tk.Kind(), tk.AddBOS(), tk.EOS())
			}
			for text, want := range c.ids {
				ids := tk.EncodeMarkup(nil, text)
				var pieces []string
				for _, id := range ids {
					pieces = append(pieces, tk.Piece(id))
				}
				if got := strings.Join(pieces, " "); got != want {
					t.Errorf("%q gave %q, want %q", text, got, want)
				}
				plain := strings.ReplaceAll(text, "<s>", "")
				if got := string(tk.Decode(nil, ids)); c.back && got != plain || !c.back && strings.TrimPrefix(plain, " ") != got {
					t.Errorf("%q came back as %q", text, got)
				}
			}
			again, err := tok.FromGGUF(meta(tk.GGUF()))
			if err != nil || again.Hash() != tk.Hash() {
				t.Errorf("through GGUF: %v", err)
			}
		})
	}
}

// hfSmall is the beginning of GPT-2's vocabulary as a tokenizer.json.
func hfSmall() object {
	const n = 6000
	full := hfOf(tok.GPT2(), false)
	model := full["model"].(object)
	vocab := object{}
	for piece, id := range model["vocab"].(object) {
		if id.(int) < n {
			vocab[piece] = id
		}
	}
	model["vocab"], model["merges"] = vocab, model["merges"].([]any)[:n-256]
	full["added_tokens"].([]any)[0].(object)["id"] = n
	return full
}

// TestHFOther: unknown patterns, digits, NFC and stripping; all survive the way through GGUF.
func TestHFOther(t *testing.T) {
	for name, c := range map[string]struct {
		change     func(f object)
		text, want string // want: the pieces
	}{
		"unknown pattern": {func(f object) { f["pre_tokenizer"] = splitOn(`[a-z]+|\d(?!x)`) }, "the1xy 2the", "the 1 xy Ġ 2 the"},
		"text pattern": {func(f object) {
			f["pre_tokenizer"] = object{"type": "Sequence", "pretokenizers": []any{
				object{"type": "Split", "pattern": object{"String": "h."}, "behavior": "Isolated"}, byteLevel(false)}}
		}, "that h.the", "that Ġ h . the"},
		"digits": {func(f object) {
			f["pre_tokenizer"] = object{"type": "Sequence", "pretokenizers": []any{object{"type": "Digits", "individual_digits": true}, byteLevel(true)}}
		}, "the 123", "the Ġ 1 2 3"},
		"digit groups": {func(f object) {
			f["pre_tokenizer"] = object{"type": "Sequence", "pretokenizers": []any{object{"type": "Digits", "individual_digits": false}, byteLevel(true)}}
		}, "the 100", "the Ġ 100"},
		"no pattern": {func(f object) { f["pre_tokenizer"] = byteLevel(false) }, "the the", "the Ġthe"},
		"nfc":        {func(f object) { f["normalizer"] = object{"type": "NFC"} }, "e\u0301", "Ã©"},
		"strip": {func(f object) {
			a := f["added_tokens"].([]any)[0].(object)
			a["lstrip"], a["rstrip"] = true, true
		}, "the \n<|endoftext|> \u3000the", "the <|endoftext|> the"},
		"removed": {func(f object) {
			f["pre_tokenizer"] = object{"type": "Sequence", "pretokenizers": []any{
				object{"type": "Split", "pattern": object{"Regex": llama3Pattern}, "behavior": "Removed", "invert": true}, byteLevel(false)}}
		}, "the 100", "the Ġ 100"},
	} {
		t.Run(name, func(t *testing.T) {
			f := hfSmall()
			c.change(f)
			tk, err := fromHF(t, f, nil)
			if err != nil {
				t.Fatal(err)
			}
			again, err := tok.FromGGUF(meta(tk.GGUF()))
			if err != nil || again.Hash() != tk.Hash() {
				t.Fatalf("through GGUF: %v", err)
			}
			for _, x := range []*tok.Tokenizer{tk, again} {
				var pieces []string
				for _, id := range x.EncodeMarkup(nil, c.text) {
					pieces = append(pieces, x.Piece(id))
				}
				if got := strings.Join(pieces, " "); got != c.want {
					t.Errorf("%q gave %q, want %q", c.text, got, c.want)
				}
			}
		})
	}
}

// TestHFRefusals: what is not read is refused by name.
func TestHFRefusals(t *testing.T) {
	model := func(f object) object { return f["model"].(object) }
	for name, c := range map[string]struct {
		base   func() object
		change func(f object)
		kind   fault.Kind
		says   string
	}{
		"unigram":   {hfSmall, func(f object) { model(f)["type"] = "Unigram" }, fault.Unsupported, "Unigram"},
		"wordpiece": {hfSmall, func(f object) { model(f)["type"] = "WordPiece" }, fault.Unsupported, "WordPiece"},
		"dropout":   {hfSmall, func(f object) { model(f)["dropout"] = 0.1 }, fault.Unsupported, "dropout"},
		"suffix":    {hfSmall, func(f object) { model(f)["end_of_word_suffix"] = "</w>" }, fault.Unsupported, "</w>"},
		"lowercase": {hfSmall, func(f object) { f["normalizer"] = object{"type": "Lowercase"} }, fault.Unsupported, "Lowercase"},
		"nfkc in a list": {hfSmall, func(f object) {
			f["normalizer"] = object{"type": "Sequence", "normalizers": []any{object{"type": "NFKC"}}}
		}, fault.Unsupported, "NFKC"},
		"punctuation": {hfSmall, func(f object) {
			f["pre_tokenizer"] = object{"type": "Sequence", "pretokenizers": []any{object{"type": "Punctuation"}, byteLevel(true)}}
		}, fault.Unsupported, "Punctuation"},
		"prefix space": {hfSmall, func(f object) { f["pre_tokenizer"] = object{"type": "ByteLevel", "add_prefix_space": true} }, fault.Unsupported, "add_prefix_space"},
		"behind bytes": {hfSmall, func(f object) {
			f["pre_tokenizer"] = object{"type": "Sequence", "pretokenizers": []any{byteLevel(true), object{"type": "Digits"}}}
		}, fault.Unsupported, "Digits"},
		"removing": {hfSmall, func(f object) {
			f["pre_tokenizer"].(object)["type"] = "Sequence"
			f["pre_tokenizer"].(object)["pretokenizers"] = []any{object{"type": "Split", "pattern": object{"String": "x"}, "behavior": "Removed"}, byteLevel(true)}
		}, fault.Unsupported, "Removed"},
		"bad pattern":    {hfSmall, func(f object) { f["pre_tokenizer"] = splitOn("(") }, fault.Invalid, "regular expression"},
		"no pre":         {hfSmall, func(f object) { f["pre_tokenizer"] = nil }, fault.Unsupported, "byte_fallback"},
		"odd decoder":    {hfSmall, func(f object) { f["decoder"] = object{"type": "CTC"} }, fault.Unsupported, "CTC"},
		"bert processor": {hfSmall, func(f object) { f["post_processor"] = object{"type": "BertProcessing"} }, fault.Unsupported, "BertProcessing"},
		"token behind": {hfSmall, func(f object) {
			f["post_processor"] = object{"type": "TemplateProcessing", "single": []any{object{"Sequence": object{"id": "A"}}, object{"SpecialToken": object{"id": "<|endoftext|>"}}}}
		}, fault.Unsupported, "behind the text"},
		"single word":     {hfSmall, func(f object) { f["added_tokens"].([]any)[0].(object)["single_word"] = true }, fault.Unsupported, "single_word"},
		"id taken":        {hfSmall, func(f object) { f["added_tokens"].([]any)[0].(object)["id"] = 7 }, fault.Invalid, "share the id 7"},
		"id negative":     {hfSmall, func(f object) { model(f)["vocab"].(object)["zzz"] = -1 }, fault.Invalid, "-1"},
		"id huge":         {hfSmall, func(f object) { model(f)["vocab"].(object)["zzz"] = 1 << 40 }, fault.Invalid, "1099511627776"},
		"two on one id":   {hfSmall, func(f object) { model(f)["vocab"].(object)["zzz"] = 5 }, fault.Invalid, "share the id 5"},
		"vocab a list":    {hfSmall, func(f object) { model(f)["vocab"] = []any{} }, fault.Malformed, "model.vocab"},
		"merges a number": {hfSmall, func(f object) { model(f)["merges"] = 3 }, fault.Malformed, "model.merges"},
		"spm nmt":         {hfSPM, func(f object) { f["normalizer"] = object{"type": "Precompiled"} }, fault.Unsupported, "Precompiled"},
		"spm no fallback": {hfSPM, func(f object) { model(f)["byte_fallback"] = false }, fault.Unsupported, "byte_fallback"},
		"spm long token":  {hfSPM, func(f object) { model(f)["vocab"].(object)[strings.Repeat("a", 300)] = 269 }, fault.Invalid, "300 bytes"},
		"spm no strip":    {hfSPM, func(f object) { f["decoder"] = object{"type": "Fuse"} }, fault.Unsupported, "disagree"},
		"spm merge gone":  {hfSPM, func(f object) { model(f)["merges"] = model(f)["merges"].([]any)[1:] }, fault.Unsupported, "▁a"},
		"spm merge order": {hfSPM, func(f object) { l := model(f)["merges"].([]any); model(f)["merges"] = append(slices.Clone(l), l[0]) }, fault.Unsupported, "▁a"},
	} {
		f := c.base()
		c.change(f)
		_, err := fromHF(t, f, nil)
		var fe *fault.Error
		if !errors.As(err, &fe) || fe.Kind != c.kind || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %v with %q", name, err, c.kind, c.says)
		}
	}
	for _, data := range []string{"", "null", "[]", "{", "<html></html>", `{"model":{"type":"BPE"}}`, `{"model":{"type":"BPE","vocab":{}},"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false}}`} {
		if _, err := tok.FromHF([]byte(data), nil); err == nil || fault.Of(err) == fault.Internal {
			t.Errorf("%q: %v", data, err)
		}
	}
	if _, err := tok.FromHF([]byte(`{"model":{"type":"BPE"}}`), []byte("{")); fault.Of(err) != fault.Malformed {
		t.Errorf("broken configuration: %v", err)
	}
}

// use runs every method of a tokenizer that came out of a fuzzed file.
func use(t *testing.T, tk *tok.Tokenizer) {
	text := "a b  <s>\n▁日\xff" + tk.Piece(tok.ID(tk.Size()-1))
	for _, ids := range [][]tok.ID{tk.Encode(nil, text), tk.EncodeMarkup(nil, text)} {
		s := tk.NewStreamAfter(ids)
		for _, id := range ids {
			if !tk.Valid(id) {
				t.Fatalf("token %d of %d", id, tk.Size())
			}
			s.Add(nil, id)
		}
		s.Flush(nil)
		tk.Decode(nil, ids)
	}
	again, err := tok.FromGGUF(meta(tk.GGUF()))
	if err != nil {
		t.Fatalf("its own GGUF keys: %v", err)
	}
	if again.Hash() != tk.Hash() {
		t.Fatal("its own GGUF keys make another tokenizer")
	}
}

// FuzzFromHF: no tokenizer.json makes loading or using it panic, and what loads survives the way through GGUF.
func FuzzFromHF(f *testing.F) {
	small := hfSPM()
	bpe := object{"added_tokens": []any{object{"id": 3, "content": "<x>", "special": true}}, "pre_tokenizer": byteLevel(true),
		"model": object{"type": "BPE", "unk_token": "u", "vocab": object{"a": 0, "b": 1, "ab": 2, "u": 4}, "merges": []any{"a b"}}}
	for _, o := range []object{small, bpe} {
		data, err := json.Marshal(o)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, []byte(`{"bos_token":"<s>","eos_token":{"content":"</s>"},"add_bos_token":true}`))
	}
	f.Fuzz(func(t *testing.T, data, config []byte) {
		if tk, err := tok.FromHF(data, config); err == nil {
			use(t, tk)
		} else if fault.Of(err) == fault.Internal {
			t.Fatalf("an error that is no fault: %v", err)
		}
	})
}

// FuzzFromLlama2c is the same for tokenizer.bin.
func FuzzFromLlama2c(f *testing.F) {
	f.Add(small2c(), 262)
	f.Fuzz(func(t *testing.T, data []byte, vocab int) {
		if tk, err := tok.FromLlama2c(data, vocab); err == nil {
			use(t, tk)
		} else if fault.Of(err) == fault.Internal {
			t.Fatalf("an error that is no fault: %v", err)
		}
	})
}

// small2c is a tokenizer.bin of 262 entries.
func small2c() []byte {
	data := []byte{4, 0, 0, 0}
	add := func(s string) { data = append(append(data, 0, 0, 0x80, 0x3f, byte(len(s)), 0, 0, 0), s...) }
	add("<unk>")
	add("\n<s>\n")
	add("\n</s>\n")
	for b := range 256 {
		add("<0x" + string("0123456789ABCDEF"[b>>4]) + string("0123456789ABCDEF"[b&15]) + ">")
	}
	for _, s := range []string{" ", "a", " a"} {
		add(s)
	}
	return data
}

// TestHFEnds: generation_config.json adds tokens that end an answer; those that are known already change nothing.
func TestHFEnds(t *testing.T) {
	data, _ := json.Marshal(hfSmall())
	plain, err := tok.FromHF(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := plain.Stops()[len(plain.Stops())-1]
	for config, want := range map[string][]tok.ID{
		"":                            nil,
		`{"eos_token_id": null}`:      nil,
		`{"temperature": 1}`:          nil,
		`{"eos_token_id": 7}`:         {7},
		`{"eos_token_id": [9, 8, 9]}`: {8, 9},
		fmt.Sprintf(`{"eos_token_id": %d}`, last): nil,
	} {
		tk, err := tok.FromHFFiles(data, nil, []byte(config))
		if err != nil {
			t.Fatal(config, err)
		}
		all := append(slices.Clone(want), plain.Stops()...)
		slices.Sort(all)
		if !slices.Equal(tk.Stops(), all) {
			t.Errorf("%s: stops %v, want %v", config, tk.Stops(), all)
		}
		again, err := tok.FromGGUF(meta(tk.GGUF()))
		if err != nil || !slices.Equal(again.Stops(), all) {
			t.Errorf("%s: through GGUF: %v", config, err)
		}
	}
	for _, config := range []string{"{", `{"eos_token_id": "</s>"}`, `{"eos_token_id": -1}`, `{"eos_token_id": [1, 99999999]}`} {
		if _, err := tok.FromHFFiles(data, nil, []byte(config)); err == nil || !strings.Contains(err.Error(), "eos_token_id") {
			t.Errorf("%s: %v", config, err)
		}
	}
}
