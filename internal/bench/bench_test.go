package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tinyloop/internal/arch"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// testModel writes a small looped model of random q8_0 weights.
func testModel(t *testing.T, tied bool) (path string, spec *model.Spec) {
	t.Helper()
	s := &model.Spec{Family: "tinyloop", Vocab: 96, Dim: 32, Context: 192, Prelude: 1, Core: 2, Coda: 1, TiedHead: tied}
	s.Block = model.Block{Eps: 1e-5, Heads: 2, KVHeads: 1, HeadDim: 16, Pos: model.RopeInterleaved, RopeTheta: 10000, Hidden: 64}
	s.Loops = model.Loops{Default: 3, TrainedMin: 1, TrainedMean: 3, TrainedMax: 3, HardMax: 6}
	rng := rand.New(rand.NewPCG(1, 2))
	var sources []tensorfile.Source
	for _, slot := range new(model.Weights).Slots(s) {
		values := make([]float32, slot.Count())
		for i := range values {
			values[i] = rng.Float32() - 0.5
		}
		src := tensorfile.Source{Name: slot.Name, Type: kernel.F32, Shape: slot.Shape()}
		src.WriteTo = func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, values) }
		if slot.Matrix != nil {
			src.Type = kernel.Q8_0
			packed := make([]byte, len(values)/32*kernel.Q8_0.BlockBytes())
			kernel.Quantize(packed, kernel.Q8_0, values)
			src.WriteTo = func(w io.Writer) error { _, err := w.Write(packed); return err }
		}
		sources = append(sources, src)
	}
	path = filepath.Join(t.TempDir(), "m.tinyloop")
	if err := arch.Save(path, s, nil, sources); err != nil {
		t.Fatal(err)
	}
	return path, s
}

func TestMeasure(t *testing.T) {
	path, _ := testModel(t, true)
	starts := 0
	o := Options{Path: path, Prefill: []int{20, 4000}, Context: []int{0, 33, 5000}, Streams: []int{1, 3}, Loops: []int{0, 5}, Threads: []int{1, 2}, Tokens: 4, Rounds: 3,
		KVType: kernel.F16, NoProbe: true, Start: func(context.Context, int) (time.Duration, time.Duration, error) {
			starts++
			return time.Millisecond, 2 * time.Millisecond, nil
		}}
	r, err := Measure(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Runs) != 4 || starts != 4 {
		t.Fatalf("%d runs and %d starts, want 4 of each", len(r.Runs), starts)
	}
	want := []string{"prefill 20 model", "prefill 192 model", "decode 0 model", "decode 33 model", "streams 3 model", "prefill 20 engine", "prefill 191 engine", "decode 0 engine", "streams 3 engine"}
	for i, run := range r.Runs {
		if loops := []int{3, 5}[i%2]; run.Loops != loops || run.Threads != 1+i/2 || run.First != 2 {
			t.Errorf("run %d: %d threads, %d loops, first token %v ms", i, run.Threads, run.Loops, run.First)
		}
		var got []string
		for _, x := range run.Rates {
			got = append(got, strings.Join([]string{x.Work, itoa(x.N), x.Via}, " "))
			v := x.TokensPerSecond
			if len(x.Samples) != 3 || v.Min <= 0 || v.Median < v.Min || v.Max < v.Median {
				t.Errorf("%v", x)
			}
			if x.Work != Prefill && (x.Best < v.Median || x.GapMedian <= 0 || x.GapP99 < x.GapMedian) {
				t.Errorf("gaps of streams: %v", x)
			}
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("rows %q\nwant %q", got, want)
		}
	}
	if len(r.Skipped) != 1 || !strings.Contains(r.Skipped[0], "5000") {
		t.Errorf("skipped %q", r.Skipped)
	}
	var out bytes.Buffer
	if err := r.Table(&out); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"2 threads, 5 loops", "prefill of 192 tokens", "decode after 33 tokens", "3 streams", "left out: decode after 5000 tokens"} {
		if !strings.Contains(out.String(), s) {
			t.Errorf("the table lacks %q:\n%s", s, out.String())
		}
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

// The bytes of a token are those of every block times its visits and of the head once; the embedding counts only when it is the head.
func TestReadPerToken(t *testing.T) {
	for _, tied := range []bool{true, false} {
		path, s := testModel(t, tied)
		f, err := tensorfile.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m, err := arch.Load(f)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		block := 0
		b := &m.W.Core[0]
		for _, w := range []*kernel.Matrix{b.Attn.Q.W, b.Attn.K.W, b.Attn.V.W, b.Attn.Out.W, b.MLP.Gate.W, b.MLP.Up.W, b.MLP.Down.W} {
			block += w.Bytes()
		}
		for _, loops := range []int{1, 5} {
			want := int64(block*(s.Prelude+s.Core*loops+s.Coda) + m.W.Embed.Bytes())
			if got := readPerToken(m, loops); got != want {
				t.Errorf("tied %v, %d loops: %d bytes, want %d", tied, loops, got, want)
			}
		}
	}
}

func TestBadOptions(t *testing.T) {
	path, _ := testModel(t, true)
	good := Options{Path: path, Loops: []int{0}, Threads: []int{1}, Tokens: 1, Rounds: 1, NoProbe: true}
	for name, o := range map[string]Options{
		"threads": func() Options { o := good; o.Threads = []int{0}; return o }(),
		"loops":   func() Options { o := good; o.Loops = []int{7}; return o }(),
		"tokens":  func() Options { o := good; o.Tokens = 0; return o }(),
		"prefill": func() Options { o := good; o.Prefill = []int{-1}; return o }(),
	} {
		if _, err := Measure(t.Context(), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	good.Prefill = []int{4}
	if _, err := Measure(ctx, good); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("an ended context gives %v", err)
	}
}

func TestProbe(t *testing.T) {
	m, err := probe(t.Context(), []int{1, 2}, 2<<20, []int64{3 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for _, threads := range []int{1, 2} {
		for _, n := range []int64{1 << 20, 2 << 20, 3 << 20} {
			if m.read(threads, n) <= 0 {
				t.Errorf("no read rate of %d bytes with %d threads", n, threads)
			}
		}
	}
	if len(m.Products) != 8 {
		t.Errorf("%d products, want 8", len(m.Products))
	}
	for _, p := range m.Products {
		if p.Gops.Median <= 0 {
			t.Errorf("%+v", p)
		}
	}
}

// A step counts only while every request decodes.
func TestGaps(t *testing.T) {
	at := func(seconds ...float64) []time.Time {
		var out []time.Time
		for _, s := range seconds {
			out = append(out, time.Unix(0, int64(s*1e9)))
		}
		return out
	}
	g := group{at: [][]time.Time{at(0, 1, 2, 3, 4), at(2, 3, 3.5, 4.5)}}
	if got := fmt.Sprint(g.gaps()); got != "[1000 500]" {
		t.Errorf("gaps %v", got)
	}
	var s series
	if rate := s.steps(8, []float64{4, 100, 2}); rate != 2000 {
		t.Errorf("rate of 8 tokens in a median step of 4 ms: %v, want 2000", rate)
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want Spread
	}{{nil, Spread{}}, {[]float64{3, 1, 2}, Spread{2, 1, 3}}, {[]float64{4, 1, 2, 3}, Spread{2.5, 1, 4}}} {
		if got := spread(c.in); got != c.want {
			t.Errorf("spread(%v) = %v, want %v", c.in, got, c.want)
		}
	}
}
