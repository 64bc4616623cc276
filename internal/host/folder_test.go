package host

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tinyloop/internal/chat"
	"tinyloop/internal/gen"
)

// folder writes a tiny model as Hugging Face lays it out: config, weights, tokenizer, tokenizer configuration.
func folder(t *testing.T, config string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("config.json", []byte(`{"model_type":"llama","hidden_size":16,"intermediate_size":32,"num_hidden_layers":1,"num_attention_heads":2,"num_key_value_heads":2,
		"vocab_size":259,"max_position_embeddings":64,"rms_norm_eps":1e-5,"hidden_act":"silu","rope_theta":10000,"torch_dtype":"float32"}`))
	write("tokenizer_config.json", []byte(config))
	write("tokenizer.json", tokenizerJSON(t))
	l := "model.layers.0."
	write("model.safetensors", safetensors(t, map[string][]int{
		"model.embed_tokens.weight": {259, 16}, "model.norm.weight": {16}, "lm_head.weight": {259, 16},
		l + "input_layernorm.weight": {16}, l + "post_attention_layernorm.weight": {16},
		l + "self_attn.q_proj.weight": {16, 16}, l + "self_attn.k_proj.weight": {16, 16}, l + "self_attn.v_proj.weight": {16, 16}, l + "self_attn.o_proj.weight": {16, 16},
		l + "mlp.gate_proj.weight": {32, 16}, l + "mlp.up_proj.weight": {32, 16}, l + "mlp.down_proj.weight": {16, 32},
	}))
	return dir
}

func safetensors(t *testing.T, shapes map[string][]int) []byte {
	t.Helper()
	head, at := map[string]any{}, 0
	var data bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		n := 1
		for _, d := range shapes[name] {
			n *= d
		}
		for i := range n {
			binary.Write(&data, binary.LittleEndian, float32((i*7919)%13-6)/10)
		}
		head[name] = map[string]any{"dtype": "F32", "shape": shapes[name], "data_offsets": []int{at, data.Len()}}
		at = data.Len()
	}
	h, err := json.Marshal(head)
	if err != nil {
		t.Fatal(err)
	}
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(h))), h...), data.Bytes()...)
}

func tokenizerJSON(t *testing.T) []byte {
	t.Helper()
	vocab := map[string]int{}
	next := rune(256)
	for b := range rune(256) { // GPT-2's printable form of a byte
		r := b
		if !(b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE) {
			r = next
			next++
		}
		vocab[string(r)] = int(b)
	}
	var added []any
	for i, s := range []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"} {
		added = append(added, map[string]any{"id": 256 + i, "content": s, "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false})
	}
	out, err := json.Marshal(map[string]any{"added_tokens": added, "model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []any{}},
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}, "decoder": map[string]any{"type": "ByteLevel"}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A Hugging Face folder: the tokenizer comes from tokenizer.json, the chat template from tokenizer_config.json in each of its forms.
func TestFolder(t *testing.T) {
	for name, c := range map[string]struct{ config, source string }{
		"text":        {`{"eos_token":"<|im_end|>","chat_template":"{{ messages[0].content }}<|im_start|>"}`, "{{ messages[0].content }}<|im_start|>"},
		"named":       {`{"chat_template":[{"name":"tool_use","template":"x"},{"name":"default","template":"y"}]}`, "y"},
		"none":        {`{}`, ""},
		"null":        {`{"chat_template":null}`, ""},
		"not for us":  {`{"chat_template":"{% for x in %}"}`, ""},
		"other shape": {`{"chat_template":7}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := load1(t, folder(t, c.config), Options{})
			if m.Tokenizer().Kind() != "bpe" || m.Tokenizer().Size() != 259 || m.Template().Source() != c.source {
				t.Errorf("tokenizer %s of %d, template %q", m.Tokenizer().Kind(), m.Tokenizer().Size(), m.Template().Source())
			}
			a := story(t, m, &gen.Request{Messages: []chat.Message{{Role: "user", Content: "hi<|im_end|>"}}, MaxTokens: ptr(3), IgnoreEOS: true})
			if a.Stats.CompletionTokens != 3 {
				t.Errorf("%+v", a)
			}
		})
	}
	dir := folder(t, `{}`)
	if err := os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte("{{ messages | length }}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if m := load1(t, dir, Options{}); m.Template().Source() != "{{ messages | length }}" {
		t.Errorf("template %q", m.Template().Source())
	}
	if err := os.Truncate(filepath.Join(dir, "tokenizer.json"), 10); err != nil {
		t.Fatal(err)
	}
	if _, err := Load("x", dir, Options{}); err == nil || !strings.Contains(err.Error(), filepath.Base(dir)) {
		t.Errorf("a broken tokenizer: %v", err)
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 3 << 30: "3.0 GiB"} {
		if got := SizeText(n); got != want {
			t.Errorf("%d is %s", n, got)
		}
	}
}
