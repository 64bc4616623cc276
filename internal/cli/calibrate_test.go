package cli

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"tinyloop/internal/arch"
	"tinyloop/internal/tensorfile"
)

// TestCalibrate: the file keeps its tensors, states the agreement of every depth and a table of exits, and a second calibration replaces the first.
func TestCalibrate(t *testing.T) {
	dir := t.TempDir()
	model, text := filepath.Join(dir, "m.tinyloop"), filepath.Join(dir, "text")
	io, _ := testIO(context.Background())
	if err := (&SynthCmd{Out: model, Shape: "custom", Dim: 32, Layers: 1, Heads: 2, Hidden: 64, Vocab: 300, Context: 128, Type: "f32", Loops: 4}).Run(io); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(text, []byte("the quick brown fox jumps over the lazy dog, and then the dog jumps over the fox as well"), 0o600); err != nil {
		t.Fatal(err)
	}
	var first arch.Info
	for round := range 2 {
		io, _ := testIO(context.Background())
		c := CalibrateCmd{File: model, Text: text, Tokens: 60 + 20*round, Window: 32, EngineFlags: EngineFlags{KVMode: "per_loop", KVDtype: "f32", Threads: 1}}
		if err := c.Run(io); err != nil {
			t.Fatal(err)
		}
		f, err := tensorfile.Open(model)
		if err != nil {
			t.Fatal(err)
		}
		i := arch.InfoOf(f)
		if err := arch.CheckHash(f); err != nil {
			t.Error(err)
		}
		f.Close()
		if len(i.Agreement) != 4 || i.Agreement[3] != 1 || i.Agreement[0] < 0 || i.Agreement[0] > 1 {
			t.Errorf("agreement %v", i.Agreement)
		}
		for _, x := range i.Exits {
			if x.Loops < 1 || x.Loops > 4 || x.Agreement < 0 || x.Agreement > 1 || x.Rule == "gate" || x.Loops == 4 && x.Agreement != 1 {
				t.Errorf("exit %+v", x)
			}
		}
		if len(i.Exits) < 10 {
			t.Errorf("%d exits", len(i.Exits))
		}
		if round == 0 {
			first = i
		} else if i.Hash != first.Hash || i.Bytes != first.Bytes {
			t.Errorf("the tensors have changed: %+v, %+v", i, first)
		}
	}
}

func TestProbeLeaves(t *testing.T) {
	signal := make([][signals]float64, 4)
	for d := range signal {
		signal[d][sigKL] = math.Pow(10, -float64(d))
		signal[d][sigSame] = float64(d + 1)
	}
	for _, c := range []struct {
		p    probe
		want int
	}{{probe{signal: sigKL, threshold: 0.05}, 3}, {probe{signal: sigKL, threshold: 1e-9}, 4}, {probe{signal: sigSame, threshold: 2, above: true}, 2}} {
		if n := c.p.leaves(signal); n != c.want {
			t.Errorf("%+v leaves after %d, want %d", c.p, n, c.want)
		}
	}
}
