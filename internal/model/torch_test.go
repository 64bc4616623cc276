package model

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

// torchGolden is what testdata/torch_train.py wrote.
type torchGolden struct {
	Models []struct {
		Name            string
		Layout          []string
		Loss, Objective float64
		Extra           []float64
		Trace           float64
		Traces          int
		Grads, States   string
	}
}

// torchSpec gives the models of the script in our terms.
func torchSpec(t *testing.T, name string) (*Spec, *Pass) {
	s := &Spec{Family: "test", Vocab: 23, Dim: 16, Context: 16, Prelude: 1, Core: 1, Coda: 1, Loops: Loops{3, 1, 3, 4, 8},
		Block: Block{Eps: 1e-5, Heads: 2, KVHeads: 2, HeadDim: 8, RopeTheta: 100, Hidden: 32}}
	p := &Pass{Rows: 2, T: 12, Loops: 3, Scale: 1}
	b := &s.Block
	switch name {
	case "recipe":
		b.QKNorm, b.MLP, s.Core, s.PreludeNorm, s.Injection, s.LoopNorm = true, ReLU2, 2, true, InjectScaled, LoopNormBetween
		s.TiedHead, s.Embed.Scale, s.LogitSoftcap = true, 4, 15
		p.Loops, p.Extra, p.TraceWeight, p.ZLoss = 4, []Readout{{2, 0.3}}, 0.5, 1e-3
	case "sandwich":
		b.Norm, b.NormPlace, b.Heads, b.KVHeads, b.HeadDim, b.QKBias = LayerNorm, ResidualSandwich, 4, 2, 4, true
		b.QKVBias, b.OutBias, b.MLPBias, b.Pos, b.RopeTheta, b.AttnSoftcap, b.Window = true, true, true, RopeInterleaved, 1000, 2, 4
		b.MLP, b.Hidden, b.ResidualScale = SwiGLU, 24, 0.5
		s.Injection, s.StateInit, s.LoopNorm, s.CodaNorm, s.Embed.NormAfter = InjectConcat, StateZero, LoopNormOwn, CodaNormFinal, true
		p.GradLoops = 2
	case "diagonal":
		b.NormPlace, b.KVHeads, b.QKNorm, b.MLP = BranchSandwich, 1, true, GELU
		s.Coda, s.PreludeNorm, s.Injection, s.InjectMatrix, s.Readout, s.CodaNorm, s.TiedHead = 0, true, InjectDiagonal, true, true, CodaNormOwn, true
		p.Extra, p.ZLoss = []Readout{{1, 0.5}, {2, 0.25}}, 1e-2
	default:
		t.Fatalf("unknown model %q", name)
	}
	for i := range int32(24) {
		p.Input = append(p.Input, (7*i*i+3*i+5)%23)
		p.Target = append(p.Target, (5*i*i+i+2)%23)
		if i%5 == 3 {
			p.Target[i] = -1
		}
	}
	p.Start = []int32{0, 0, 0, 0, 0, 5, 5, 5, 5, 5, 5, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9}
	p.Traces = []TraceTarget{{2, 1, 4}, {8, 2, 9}, {13, 1, 1}, {20, 3, 7}, {15, 2, 3}}
	return s, p
}

// torchParams draws the weights by the script's rule.
func torchParams(s *Spec) []float32 {
	flat := make([]float32, s.Size())
	for _, p := range s.Layout() {
		scale, shift := 0.5, 0.0
		if p.K > 0 {
			scale = float64(float32(3.4 / math.Sqrt(float64(p.K))))
		} else if strings.HasSuffix(p.Name, ".weight") {
			shift = 1
		}
		for i := p.Off; i < p.Off+p.Len; i++ {
			h := uint32(i+1) * 2654435761 >> 8
			flat[i] = float32(shift + float64(float32(scale*(float64(h)/(1<<24)-0.5))))
		}
	}
	return flat
}

func floatsOf(t *testing.T, text string) []float32 {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float32, len(raw)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return out
}

// apart gives the largest difference relative to the largest value.
func apart(got, want []float32) float64 {
	worst, top := 0.0, 1e-6
	for i, w := range want {
		worst, top = max(worst, math.Abs(float64(got[i]-w))), max(top, math.Abs(float64(w)))
	}
	return worst / top
}

// TestTorch: losses, states after every loop and gradients are those that PyTorch's autograd computes from another description of the same models.
func TestTorch(t *testing.T) {
	data, err := os.ReadFile("testdata/torch_train.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden torchGolden
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	const within = 1e-5
	for _, g := range golden.Models {
		s, pass := torchSpec(t, g.Name)
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		layout := s.Layout()
		var names []string
		for _, p := range layout {
			names = append(names, fmt.Sprintf("%s %d %d", p.Name, p.N, p.K))
		}
		if a, b := strings.Join(names, "\n"), strings.Join(g.Layout, "\n"); a != b {
			t.Fatalf("%s: parameters\n%s\nwant\n%s", g.Name, a, b)
		}
		tr := newTrainer(s, torchParams(s), Shape{Rows: 2, T: 12, MaxLoops: pass.Loops})
		res := tr.tape.Grad(tr.pack, tr.flat, tr.grads, pass)
		got := append([]float64{res.Loss, res.Objective, res.TraceLoss}, res.ExtraLoss...)
		for i, want := range append([]float64{g.Loss, g.Objective, g.Trace}, g.Extra...) {
			if d := math.Abs(got[i] - want); !(d <= within*max(1, want)) {
				t.Errorf("%s: loss %d is %v, want %v", g.Name, i, got[i], want)
			}
		}
		if res.Traces != g.Traces {
			t.Errorf("%s: %d traces, want %d", g.Name, res.Traces, g.Traces)
		}
		want := floatsOf(t, g.Grads)
		for _, p := range layout {
			if d := apart(tr.grads[p.Off:p.Off+p.Len], want[p.Off:p.Off+p.Len]); !(d < within) {
				t.Errorf("%s: gradient of %s differs by %.2g of its largest value", g.Name, p.Name, d)
			}
		}
		n := 24 * s.Dim
		states := floatsOf(t, g.States)
		for l := range pass.Loops {
			state := tr.tape.out
			if i := l + 1 - tr.tape.first; l+1 < pass.Loops && i >= 0 {
				state = tr.tape.passes[i].h
			} else if l+1 < pass.Loops {
				continue // not kept
			}
			if d := apart(state[:n], states[l*n:(l+1)*n]); !(d < within) {
				t.Errorf("%s: state after loop %d differs by %.2g of its largest value", g.Name, l+1, d)
			}
		}
	}
}
