package cli

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"tinyloop/internal/fault"
	"tinyloop/internal/fixture"
	"tinyloop/internal/host"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
	"tinyloop/internal/tok"
)

func testIO(ctx context.Context) (*IO, *bytes.Buffer) {
	out := new(bytes.Buffer)
	return &IO{In: strings.NewReader(""), Out: out, Err: new(bytes.Buffer), Ctx: ctx}, out
}

// TestSynthInterrupted: an interrupt leaves no file and no temporary one.
func TestSynthInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dir := t.TempDir()
	io, _ := testIO(ctx)
	err := (&SynthCmd{Out: filepath.Join(dir, "m.gguf"), Shape: "15m", Type: "q8_0", Loops: 1}).Run(io)
	if fault.Of(err) != fault.Canceled {
		t.Errorf("error %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestConvertInterrupted: the same of convert, before and while it writes.
func TestConvertInterrupted(t *testing.T) {
	src := filepath.Join(t.TempDir(), "m.gguf")
	io, _ := testIO(context.Background())
	if err := (&SynthCmd{Out: src, Shape: "15m", Type: "f32", Loops: 1}).Run(io); err != nil {
		t.Fatal(err)
	}
	for _, wait := range []time.Duration{0, 20 * time.Millisecond, 200 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		dir := t.TempDir()
		io, _ := testIO(ctx)
		err := (&ConvertCmd{In: src, Out: filepath.Join(dir, "m.tinyloop"), Type: "q4_0", Check: true}).Run(io)
		left, _ := os.ReadDir(dir)
		if err == nil {
			t.Logf("done within %v", wait)
		} else if fault.Of(err) != fault.Canceled || len(left) > 0 {
			t.Errorf("after %v: %v, left behind: %v", wait, err, left)
		}
		cancel()
	}
}

// TestMessages: what a file says of itself reaches the terminal as one line of plain signs, and not at length.
func TestMessages(t *testing.T) {
	long := strings.Repeat("x", 60000)
	for name, keys := range map[string][]tensorfile.KV{
		"odd sign":  {{Key: "general.architecture", Value: "llama"}, {Key: "llama.a\xff\n\x1b[31m", Value: "\xfe\r\x07"}},
		"long key":  {{Key: "general.architecture", Value: "tinyloop"}, {Key: "tinyloop.format_version", Value: uint32(1)}, {Key: "tinyloop." + long, Value: long}},
		"long arch": {{Key: "general.architecture", Value: long}},
		"long list": {{Key: "general.architecture", Value: "llama"}, {Key: "llama.context_length", Value: make([]uint32, 100000)}},
	} {
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := tensorfile.Write(path, keys, nil); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"convert", path, "o.gguf"}, {"generate", "--model", path}, {"inspect", path}} {
			io, out := testIO(context.Background())
			Main(args, io)
			text := out.String() + io.Err.(*bytes.Buffer).String()
			for line := range strings.Lines(text) {
				if line = strings.TrimSuffix(line, "\n"); len(line) > 700 || printable(line) != line || !utf8.ValidString(line) {
					t.Errorf("%s: %s prints %d bytes %q", name, args[0], len(line), line[:min(len(line), 200)])
				}
			}
			if args[0] != "inspect" && strings.Count(text, "\n") != 1 {
				t.Errorf("%s: %s prints %d lines", name, args[0], strings.Count(text, "\n"))
			}
		}
	}
}

// TestSynthTokenizer: any bytes survive the vocabulary that synth writes, and the words that fill it print as something.
func TestSynthTokenizer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	io, _ := testIO(context.Background())
	if err := (&SynthCmd{Out: path, Shape: "260k", Type: "f32", Loops: 1}).Run(io); err != nil {
		t.Fatal(err)
	}
	f, err := tensorfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	k, err := tok.FromGGUF(f.Meta)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"Once upon a time", "é 模 🦙", "w300 a\x00b", "\xff\xfe", " two  spaces "} {
		if back := k.Decode(nil, k.Encode(nil, text)); string(back) != text && string(back) != " "+text {
			t.Errorf("%q came back as %q", text, back)
		}
	}
	if got := string(k.Bytes(300)); got != " w300" {
		t.Errorf("token 300 is %q", got)
	}
}

// TestSynthWeights: the variance of a matrix is one over its width, whatever the format.
func TestSynthWeights(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	for _, typ := range []string{"f32", "f16", "q8_0", "q4_0"} {
		io, _ := testIO(context.Background())
		if err := (&SynthCmd{Out: path, Shape: "260k", Type: typ, Loops: 1, Seed: 9}).Run(io); err != nil {
			t.Fatal(err)
		}
		f, err := tensorfile.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		x, _ := f.Tensor("token_embd.weight")
		v := make([]float32, x.Len())
		kernel.Dequantize(v, x.Type, x.Data)
		var mean, square float64
		for _, w := range v {
			mean += float64(w) / float64(len(v))
			square += float64(w) * float64(w) / float64(len(v))
		}
		if x.Type.String() != typ || mean > 0.003 || mean < -0.003 || square*64 < 0.97 || square*64 > 1.03 {
			t.Errorf("%s: mean %v, variance %v of 1/64", x.Type, mean, square*64)
		}
		f.Close()
	}
}

// TestCompare: the error that convert reports is the one that is there.
func TestCompare(t *testing.T) {
	matrix := func(typ kernel.Type, values ...float32) *kernel.Matrix {
		data := make([]byte, len(values)*typ.BlockBytes())
		kernel.Quantize(data, typ, values)
		m, err := kernel.NewMatrix(typ, 2, len(values)/2, data)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Free)
		return m
	}
	a, b := matrix(kernel.F32, 1, 2, -3, 4), matrix(kernel.F16, 1, 2, -2, 4)
	e := compare(&model.Slot{N: 2, K: 2, Matrix: &a}, &model.Slot{N: 2, K: 2, Matrix: &b})
	if e.largest != 1 || e.n != 4 || e.sum != 1 || e.square != 30 {
		t.Errorf("matrices: %+v", e)
	}
	u, v := []float32{1, 2}, []float32{1, 2.5}
	if e := compare(&model.Slot{N: 2, Vector: &u}, &model.Slot{N: 2, Vector: &v}); e.largest != 0.5 || e.n != 2 {
		t.Errorf("vectors: %+v", e)
	}
}

// checkpoint writes a one-layer llama of random weights as a Hugging Face folder: two shards, a byte-level tokenizer, a template.
func checkpoint(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	put := func(name string, v any) {
		b, ok := v.([]byte)
		if !ok {
			b, _ = json.Marshal(v)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("config.json", map[string]any{"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
		"num_key_value_heads": 1, "vocab_size": 257, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": true})
	vocab, next := map[string]int{}, rune(256)
	for b := range rune(256) {
		r := b
		if b <= ' ' || b >= 0x7f && b <= 0xa0 || b == 0xad {
			r, next = next, next+1
		}
		vocab[string(r)] = int(b)
	}
	put("tokenizer.json", map[string]any{"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}},
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}, "decoder": map[string]any{"type": "ByteLevel"},
		"added_tokens": []any{map[string]any{"id": 256, "content": "<|end|>", "special": true}}})
	put("tokenizer_config.json", map[string]any{"eos_token": "<|end|>", "chat_template": []any{
		map[string]any{"name": "tool_use", "template": "other"}, map[string]any{"name": "default", "template": "{{ messages[0].content }}"}}})
	home := map[string]string{}
	shard := func(name string, shapes map[string][]int) {
		head, data := map[string]any{}, []byte{}
		for _, tensor := range slices.Sorted(maps.Keys(shapes)) {
			n, at := 1, len(data)
			for _, d := range shapes[tensor] {
				n *= d
			}
			for i := range n {
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32((i*7919+at)%2048)/1024-1))
			}
			head[tensor], home[tensor] = map[string]any{"dtype": "F32", "shape": shapes[tensor], "data_offsets": []int{at, len(data)}}, name
		}
		h, _ := json.Marshal(head)
		put(name, slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(h))), h, data))
	}
	l := "model.layers.0."
	shard("model-00001-of-00002.safetensors", map[string][]int{"model.embed_tokens.weight": {257, 32}, "model.norm.weight": {32}})
	shard("model-00002-of-00002.safetensors", map[string][]int{l + "input_layernorm.weight": {32}, l + "post_attention_layernorm.weight": {32},
		l + "self_attn.q_proj.weight": {32, 32}, l + "self_attn.k_proj.weight": {16, 32}, l + "self_attn.v_proj.weight": {16, 32}, l + "self_attn.o_proj.weight": {32, 32},
		l + "mlp.gate_proj.weight": {64, 32}, l + "mlp.up_proj.weight": {64, 32}, l + "mlp.down_proj.weight": {32, 64}})
	put("model.safetensors.index.json", map[string]any{"metadata": map[string]any{}, "weight_map": home})
	return dir
}

// TestConvertCheckpoint: a sharded Hugging Face folder becomes one file with its tokenizer and template in it.
func TestConvertCheckpoint(t *testing.T) {
	dir := checkpoint(t)
	out := filepath.Join(t.TempDir(), "m.tinyloop")
	io, text := testIO(context.Background())
	if err := (&ConvertCmd{In: dir, Out: out, Type: "keep", Check: true}).Run(io); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "11 of 11 tensors unchanged\n") {
		t.Errorf("printed %q", text)
	}
	f, err := tensorfile.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if s, _ := f.Meta.String("general.name"); s != filepath.Base(dir) {
		t.Errorf("name %q, want that of the folder %q", s, filepath.Base(dir))
	}
	if s, _ := f.Meta.String("tokenizer.chat_template"); s != "{{ messages[0].content }}" {
		t.Errorf("template %q", s)
	}
	k, err := tok.FromGGUF(f.Meta)
	if err != nil {
		t.Fatal(err)
	}
	if ids := k.Encode(nil, "Aé"); !slices.Equal(ids, []tok.ID{'A', 0xc3, 0xa9}) || k.EOS() != 256 {
		t.Errorf("ids %v, eos %d", ids, k.EOS())
	}
	io, text = testIO(context.Background())
	if err := (&InspectCmd{File: dir}).Run(io); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"(safetensors, ", "chat template  25 bytes", "257 tokens", "model.layers.0.mlp.down_proj.weight", "rope_half"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("inspect lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text.String(), "problem") {
		t.Errorf("inspect sees a problem:\n%s", text)
	}
	q := filepath.Join(t.TempDir(), "q.tinyloop")
	io, text = testIO(context.Background())
	if err := (&ConvertCmd{In: dir, Out: q, Type: "q8_0", Check: true}).Run(io); err != nil || !strings.Contains(text.String(), "3 of 11 tensors unchanged; largest error 0.00") {
		t.Errorf("%v, printed %q", err, text)
	}
}

// TestTokenizerOf looks in the file, then beside it, and says what it missed.
func TestTokenizerOf(t *testing.T) {
	bin := fixture.Read(t, "stories260K", "stories260K.bin")
	vocab := fixture.Read(t, "stories260K", "tok512.bin")
	for _, name := range []string{"", "tok512.bin", "tokenizer.bin"} {
		dir := t.TempDir()
		os.WriteFile(filepath.Join(dir, "m.bin"), bin, 0o600)
		if name != "" {
			os.WriteFile(filepath.Join(dir, name), vocab, 0o600)
		}
		f, err := tensorfile.Open(filepath.Join(dir, "m.bin"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		k, err := host.Tokenizer(f)
		if name == "" {
			if fault.Of(err) != fault.NotFound || !strings.Contains(err.Error(), "tok512.bin") {
				t.Errorf("error %v", err)
			}
			continue
		}
		if err != nil || k.Size() != 512 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTexts(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 30: "5.0 GiB", 3 << 50: "3072.0 TiB"} {
		if got := host.SizeText(n); got != want {
			t.Errorf("SizeText(%d) = %q", n, got)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := countText(n); got != want {
			t.Errorf("countText(%d) = %q", n, got)
		}
	}
	if got := printable("a\x1b[31m\nb模"); got != "a\ufffd[31m\ufffdb模" {
		t.Errorf("printable gave %q", got)
	}
}
