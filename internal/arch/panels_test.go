package arch

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

func convertTo(t *testing.T, in, name string, o ConvertOptions) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), name)
	if err := Convert(open(t, in), out, o); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestPanels: a model that is repacked while it is loaded, from either container, and one that is served from a file in panels are the same to the bit.
func TestPanels(t *testing.T) {
	odd := everything()
	wide := everything()
	wide.Dim, wide.Block.Hidden, wide.Block.HeadDim = 256, 512, 64
	tokens := []int32{1, 5, 39, 0, 22, 7, 7, 13}
	for _, c := range []struct {
		spec  model.Spec
		types []kernel.Type
	}{
		{odd, []kernel.Type{kernel.F32, kernel.F16, kernel.BF16, kernel.Q8_0, kernel.Q4_0, kernel.Q4_1, kernel.Q5_0, kernel.Q5_1}},
		{wide, []kernel.Type{kernel.Q4_K, kernel.Q5_K, kernel.Q6_K}},
	} {
		src := save(t, &c.spec)
		for _, q := range c.types {
			plain := convertTo(t, src, "plain.tinyloop", ConvertOptions{Type: &q})
			gguf := convertTo(t, plain, "m.gguf", ConvertOptions{})
			panels := convertTo(t, gguf, "panels.tinyloop", ConvertOptions{Layout: "panels"})
			want := bits(t, load(t, plain), tokens, 1)
			equalBits(t, q.String()+" gguf", want, bits(t, load(t, gguf), tokens, 2))
			f, err := tensorfile.Open(panels)
			if err != nil {
				t.Fatal(err)
			}
			if err := CheckHash(f); err != nil {
				t.Error(err)
			}
			m, err := Load(f)
			if err != nil {
				t.Fatal(err)
			}
			f.Close() // the model holds what it needs
			equalBits(t, q.String()+" panels", want, bits(t, m, tokens, 2))
			m.Close()
		}
	}
}

// TestPanelsAreTheFile: nothing is copied, and the matrices lie where the processor's lines and the kernels want them.
func TestPanelsAreTheFile(t *testing.T) {
	s := everything()
	f := open(t, convertTo(t, save(t, &s), "p.tinyloop", ConvertOptions{Layout: "panels"}))
	m, err := Load(f)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, sl := range m.W.Slots(&m.Spec) {
		x, _ := f.Tensor(sl.Name)
		if sl.Matrix == nil {
			continue
		}
		if x.Data != nil || &(*sl.Matrix).Packed()[0] != &x.Panels[0] {
			t.Errorf("%s is a copy", sl.Name)
		}
	}
}

func TestPanelsRefusals(t *testing.T) {
	s := everything()
	plain := save(t, &s)
	panels := convertTo(t, plain, "p.tinyloop", ConvertOptions{Layout: "panels"})
	whole, err := os.ReadFile(panels)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, err error, kind fault.Kind, says string) {
		t.Helper()
		if fault.Of(err) != kind || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	written := func(b []byte) error {
		path := filepath.Join(t.TempDir(), "x.tinyloop")
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		f, err := tensorfile.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		m, err := Load(f)
		if err == nil {
			m.Close()
		}
		return err
	}
	if err := written(whole); err != nil {
		t.Fatal(err)
	}
	other := strings.Repeat("9", len(kernel.PanelLayout))
	refused("another layout", written(bytes.Replace(whole, []byte(kernel.PanelLayout), []byte(other), 1)), fault.Invalid, other)
	refused("cut", written(whole[:len(whole)-64]), fault.Invalid, "truncated")
	to := filepath.Join(t.TempDir(), "m.gguf")
	refused("convert", Convert(open(t, panels), to, ConvertOptions{}), fault.Unsupported, "for serving only")
	refused("export", Export(open(t, panels), t.TempDir(), ExportOptions{}), fault.Unsupported, "for serving only")
	refused("gguf in panels", Convert(open(t, plain), to, ConvertOptions{Layout: "panels"}), fault.Invalid, ".tinyloop")
	if _, err := os.Stat(to); err == nil {
		t.Error("a file was written")
	}
}
