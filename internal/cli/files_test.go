package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tinyloop/internal/fault"
	"tinyloop/internal/fixture"
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

// TestCheckWeights: the error that convert reports is the one that is there.
func TestCheckWeights(t *testing.T) {
	t1 := tensorfile.Tensor{Name: "a", Type: kernel.F32, Shape: []int{2}, Data: []byte{0, 0, 128, 63, 0, 0, 0, 64}} // 1, 2
	t2 := tensorfile.Tensor{Name: "a", Type: kernel.F16, Shape: []int{2}, Data: []byte{0, 60, 0, 66}}               // 1, 3
	e, err := compare(t1, t2)
	if err != nil || e.largest != 1 || e.rms*e.rms < 0.4999 || e.rms*e.rms > 0.5001 {
		t.Errorf("%+v, %v", e, err)
	}
	t2.Shape = []int{3}
	if _, err := compare(t1, t2); err == nil {
		t.Error("shapes that differ were compared")
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
		k, err := tokenizerOf(f, &model.Spec{Vocab: 512})
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
		if got := sizeText(n); got != want {
			t.Errorf("sizeText(%d) = %q", n, got)
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
