package arch

import (
	"io"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"tinyloop/internal/fault"
	"tinyloop/internal/fixture"
	"tinyloop/internal/kernel"
	"tinyloop/internal/tensorfile"
)

// TestCheckFinite: one bad number at any place of any format is found, and no finite one is taken for bad.
func TestCheckFinite(t *testing.T) {
	for _, typ := range []kernel.Type{kernel.F32, kernel.F16, kernel.BF16, kernel.Q8_0, kernel.Q4_0, kernel.Q4_1, kernel.Q5_0, kernel.Q5_1,
		kernel.Q4_K, kernel.Q5_K, kernel.Q6_K} {
		n := 3 * typ.Block()
		if typ.Block() == 1 {
			n = 7
		}
		vals, data := make([]float32, n), make([]byte, n/typ.Block()*typ.BlockBytes())
		for i := range vals {
			vals[i] = float32(65000 * math.Sin(float64(i)))
		}
		kernel.Quantize(data, typ, vals)
		if err := checkFinite("x", typ, data, 0); err != nil {
			t.Errorf("%s: %v", typ, err)
		}
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			half := kernel.F32ToF16(float32(bad))
			for block := range len(data) / typ.BlockBytes() {
				at := block * typ.BlockBytes()
				hurt := append([]byte(nil), data...)
				switch typ {
				case kernel.F32, kernel.BF16:
					kernel.Quantize(hurt[at:at+typ.BlockBytes()], typ, []float32{float32(bad)})
				default:
					first, _ := typ.Halves()
					hurt[at+first], hurt[at+first+1] = byte(half), byte(half>>8)
				}
				if err := checkFinite("x", typ, hurt, 0); fault.Of(err) != fault.Invalid {
					t.Errorf("%s: %v in block %d is not seen", typ, bad, block)
				}
				if _, n := typ.Halves(); n == 2 {
					hurt = append([]byte(nil), data...)
					hurt[at+2], hurt[at+3] = byte(half), byte(half>>8)
					if checkFinite("x", typ, hurt, 0) == nil {
						t.Errorf("%s: the minimum %v of block %d is not seen", typ, bad, block)
					}
				}
			}
		}
	}
}

// TestDamagedWeights: a NaN is refused by name, on loading and on converting, and so are values that the asked format cannot hold.
func TestDamagedWeights(t *testing.T) {
	src := open(t, fixture.Path(t, "stories260K", "stories260K-f32.gguf"))
	write := func(bad float32) *tensorfile.File {
		var tensors []tensorfile.Source
		for _, x := range src.Tensors() {
			if x.Name == "blk.2.ffn_up.weight" {
				x.Data = append([]byte(nil), x.Data...)
				kernel.Quantize(x.Data[4000:4004], kernel.F32, []float32{bad})
			}
			tensors = append(tensors, tensorfile.Source{Name: x.Name, Type: x.Type, Shape: x.Shape, WriteTo: func(w io.Writer) error { _, err := w.Write(x.Data); return err }})
		}
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := tensorfile.Write(path, src.Meta.KVs(), tensors); err != nil {
			t.Fatal(err)
		}
		return open(t, path)
	}
	f := write(float32(math.NaN()))
	for what, run := range map[string]func() error{
		"load":    func() error { _, err := Load(f); return err },
		"convert": func() error { return Convert(f, filepath.Join(t.TempDir(), "o.gguf"), ConvertOptions{}) },
	} {
		if err := run(); fault.Of(err) != fault.Invalid || !strings.Contains(err.Error(), "blk.2.ffn_up.weight") || !strings.Contains(err.Error(), "value 1000") {
			t.Errorf("%s: %v", what, err)
		}
	}
	half := kernel.F16
	err := Convert(write(1e30), filepath.Join(t.TempDir(), "o.gguf"), ConvertOptions{Type: &half})
	if fault.Of(err) != fault.Invalid || !strings.Contains(err.Error(), "too large for f16") {
		t.Errorf("f16: %v", err)
	}
}
