package model

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"testing"

	"tinyloop/internal/fixture"
	"tinyloop/internal/kernel"
)

// nanoFile is a file of gpt-nano-sort: named arrays in base64.
type nanoFile map[string]json.RawMessage

func (f nanoFile) floats(t *testing.T, name string) []float32 {
	t.Helper()
	var a struct {
		Shape []int
		Data  string
	}
	if err := json.Unmarshal(f[name], &a); err != nil {
		t.Fatal(name, err)
	}
	raw, err := base64.StdEncoding.DecodeString(a.Data)
	if err != nil {
		t.Fatal(name, err)
	}
	out := make([]float32, len(raw)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return out
}

// nanoModel is the trained 3-layer GPT-2 block stack of the fixture.
func nanoModel(t *testing.T, f nanoFile) *Model {
	const dim = 48
	s := Spec{Vocab: 3, Dim: dim, Context: 11, Core: 3, Loops: Loops{1, 1, 1, 1, 1},
		Block: Block{Norm: LayerNorm, Eps: 1e-5, Heads: 3, KVHeads: 3, HeadDim: 16, QKVBias: true, OutBias: true, Pos: Learned, MLP: GELU, Hidden: 4 * dim, MLPBias: true}}
	vals := map[string][]float32{
		"token_embd.weight": f.floats(t, "transformer.wte.weight"), "pos_embd.weight": f.floats(t, "transformer.wpe.weight"),
		"output.weight":      f.floats(t, "lm_head.weight"),
		"output_norm.weight": f.floats(t, "transformer.ln_f.weight"), "output_norm.bias": f.floats(t, "transformer.ln_f.bias"),
	}
	for _, l := range []string{"0", "1", "2"} {
		from, to := "transformer.h."+l+".", "core."+l+"."
		for ours, theirs := range map[string]string{"attn_norm": "ln_1", "ffn_norm": "ln_2"} {
			vals[to+ours+".weight"], vals[to+ours+".bias"] = f.floats(t, from+theirs+".weight"), f.floats(t, from+theirs+".bias")
		}
		for i, part := range []string{"attn_q", "attn_k", "attn_v"} {
			vals[to+part+".weight"] = f.floats(t, from+"attn.c_attn.weight")[i*dim*dim : (i+1)*dim*dim]
			vals[to+part+".bias"] = f.floats(t, from+"attn.c_attn.bias")[i*dim : (i+1)*dim]
		}
		for ours, theirs := range map[string]string{"attn_output": "attn.c_proj", "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"} {
			vals[to+ours+".weight"], vals[to+ours+".bias"] = f.floats(t, from+theirs+".weight"), f.floats(t, from+theirs+".bias")
		}
	}
	w := &Weights{}
	for _, sl := range w.Slots(&s) {
		v, ok := vals[sl.Name]
		if !ok {
			t.Fatal("no value for", sl.Name)
		}
		if sl.Vector != nil {
			*sl.Vector = v
			continue
		}
		m, err := packed(kernel.F32, sl.N, sl.K, v)
		if err != nil {
			t.Fatal(err)
		}
		*sl.Matrix = m
	}
	m, err := New(s, w)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestNanoGPT: a trained model of the GPT-2 kind (LayerNorm with bias, learned positions, tanh GELU, biases) gives the logits and probabilities that
// its own framework computed.
func TestNanoGPT(t *testing.T) {
	read := func(name string) (f nanoFile) {
		if err := json.Unmarshal(fixture.Read(t, "gpt-nano-sort", name), &f); err != nil {
			t.Fatal(err)
		}
		return f
	}
	m, partial := nanoModel(t, read("model.json")), read("partials.json")
	defer m.Close()
	idx, logits, probs := partial.floats(t, "idx"), partial.floats(t, "lm_head"), partial.floats(t, "probs")
	s := scratch(t, m, Options{Threads: 2, Pages: 3 * m.Spec.Slots(1), MaxRows: 33})
	defer s.Close()
	var rows []Row
	for b := range 3 {
		pages := [][]int32{{int32(3 * b)}, {int32(3*b + 1)}, {int32(3*b + 2)}}
		for pos := range 11 {
			rows = append(rows, Row{Token: int32(idx[b*11+pos]), Pos: int32(pos), Depth: 1, State: int32(len(rows)), Pages: pages, Want: true})
		}
	}
	s.Enter(rows)
	s.Turn(rows)
	s.Leave(rows)
	worst := 0.0
	for i := range rows {
		got, sum := s.Logits(i), 0.0
		for _, x := range got {
			sum += math.Exp(float64(x))
		}
		for j, x := range got {
			worst = max(worst, math.Abs(float64(x-logits[3*i+j]))/10, math.Abs(math.Exp(float64(x))/sum-float64(probs[3*i+j])))
		}
	}
	t.Logf("largest difference %.3g", worst)
	if !(worst < 2e-6) {
		t.Errorf("differs by %v", worst)
	}
}
