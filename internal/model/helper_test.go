package model

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"pgregory.net/rapid"

	"tinyloop/internal/kernel"
)

// randomWeights fills every tensor of the Spec: matrices with deviation 1/sqrt(K) in format t where the width allows it, gains around one, the rest
// small.
func randomWeights(tb rapid.TB, s *Spec, t kernel.Type, seed uint64) *Model {
	tb.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &Weights{}
	for _, sl := range w.Slots(s) {
		vals := make([]float32, sl.Count())
		scale, mean := 0.1, 0.0
		if sl.Matrix != nil {
			scale = 1 / math.Sqrt(float64(sl.K))
		} else if sl.N != 1 && len(sl.Name) > 7 && sl.Name[len(sl.Name)-7:] == ".weight" {
			mean = 1
		}
		for i := range vals {
			vals[i] = float32(mean + scale*rng.NormFloat64())
		}
		if sl.Matrix == nil {
			*sl.Vector = vals
			continue
		}
		m, err := packed(t, sl.N, sl.K, vals)
		if err != nil {
			tb.Fatal(err)
		}
		*sl.Matrix = m
	}
	m, err := New(*s, w)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func packed(t kernel.Type, n, k int, vals []float32) (*kernel.Matrix, error) {
	if k%t.Block() != 0 {
		t = kernel.F32
	}
	if t == kernel.F32 {
		data := make([]byte, 4*len(vals))
		for i, v := range vals {
			binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
		}
		return kernel.NewMatrix(t, n, k, data)
	}
	data := make([]byte, len(vals)/t.Block()*t.BlockBytes())
	kernel.Quantize(data, t, vals)
	return kernel.NewMatrix(t, n, k, data)
}

// drawSpec draws a tiny Spec over every option.
func drawSpec(t *rapid.T) *Spec {
	pick := func(name string, hi int) int { return rapid.IntRange(0, hi).Draw(t, name) }
	yes := func(name string) bool { return rapid.Bool().Draw(t, name) }
	maybe := func(name string, v float32) float32 {
		if yes(name) {
			return v
		}
		return 0
	}
	s := &Spec{Family: "test", Vocab: 5 + pick("vocab", 40), Dim: 4 * (2 + pick("dim", 10)), Context: 96,
		Prelude: pick("prelude", 2), Core: 1 + pick("core", 1), Coda: pick("coda", 2)}
	kv := 1 + pick("kv_heads", 2)
	s.Block = Block{
		Norm: Norm(pick("norm", 1)), NormPlace: NormPlace(pick("norm_place", 3)), Eps: 1e-5,
		KVHeads: kv, Heads: kv * (1 + pick("group", 2)), HeadDim: 2 * (1 + pick("head_dim", 6)),
		QKVBias: yes("qkv_bias"), OutBias: yes("out_bias"), QKNorm: yes("qk_norm"), QKBias: yes("qk_bias"),
		AttnScale: maybe("attn_scale", 0.3), AttnSoftcap: maybe("attn_softcap", 3),
		Pos: Pos(pick("pos", 3)), RopeTheta: 10000,
		MLP: MLP(pick("mlp", 3)), Hidden: 5 + pick("hidden", 60), MLPBias: yes("mlp_bias"),
		ResidualScale: maybe("residual_scale", 0.7),
	}
	if yes("partial") {
		s.Block.RopeDim = 2 * (1 + pick("rope_dim", s.Block.HeadDim/2-1))
	}
	s.Block.RopeFactors = s.Block.Pos.Rotary() && yes("rope_factors")
	if yes("windowed") {
		s.Block.Window = 1 + pick("window", 30)
	}
	s.Embed = Embed{Scale: maybe("embed_scale", 3), NormAfter: yes("embed_norm")}
	s.PreludeNorm, s.Readout, s.ExitGate, s.TiedHead = yes("prelude_norm"), yes("readout"), yes("exit_gate"), yes("tied")
	s.Injection = Injection(pick("injection", 4))
	s.InjectMatrix = s.Injection == InjectDiagonal && yes("inject_matrix")
	if s.Injection != InjectNone {
		s.StateInit = StateInit(pick("state_init", 1))
	}
	s.LoopNorm, s.CodaNorm = LoopNorm(pick("loop_norm", 2)), CodaNorm(pick("coda_norm", 2))
	s.LogitScale, s.LogitSoftcap = maybe("logit_scale", 0.5), maybe("logit_softcap", 5)
	s.Loops = Loops{Default: 2, TrainedMin: 1, TrainedMean: 2, TrainedMax: 3, HardMax: 4}
	return s
}

// runSeq is a sequence being run: its tokens, its page tables, and how far each position has come.
type runSeq struct {
	tokens        []int32
	depth         int
	window, sinks int
	pages         [][]int32
}

// newSeq gives a sequence pages of the store in scrambled order, from *next on.
func newSeq(s *Spec, tokens []int32, depth int, next *int32, rng *rand.Rand) *runSeq {
	q := &runSeq{tokens: tokens, depth: depth}
	blocks := (len(tokens) + PagePositions - 1) / PagePositions
	n := s.Slots(depth) * blocks
	order := rng.Perm(n)
	for range s.Slots(depth) {
		var table []int32
		for range blocks {
			table = append(table, *next+int32(order[0]))
			order = order[1:]
		}
		q.pages = append(q.pages, table)
	}
	*next += int32(n)
	return q
}

func (q *runSeq) row(pos int, state int32) Row {
	return Row{Token: q.tokens[pos], Pos: int32(pos), Depth: int32(q.depth), State: state, Pages: q.pages, Window: int32(q.window), Sinks: int32(q.sinks), Want: true}
}

// alone runs one position after the other and gives the logits of all.
func (q *runSeq) alone(s *Scratch) [][]float32 {
	var out [][]float32
	for pos := range q.tokens {
		rows := []Row{q.row(pos, 0)}
		s.Enter(rows)
		for range q.depth {
			s.Turn(rows)
		}
		s.Leave(rows)
		out = append(out, append([]float32(nil), s.Logits(0)...))
	}
	return out
}

// whole runs all positions in one call.
func (q *runSeq) whole(s *Scratch) [][]float32 {
	var rows []Row
	for pos := range q.tokens {
		rows = append(rows, q.row(pos, int32(pos)))
	}
	s.Enter(rows)
	for range q.depth {
		s.Turn(rows)
	}
	s.Leave(rows)
	var out [][]float32
	for pos := range q.tokens {
		out = append(out, append([]float32(nil), s.Logits(pos)...))
	}
	return out
}

func drawTokens(rng *rand.Rand, vocab, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(rng.IntN(vocab))
	}
	return out
}

func scratch(tb rapid.TB, m *Model, o Options) *Scratch {
	tb.Helper()
	s, err := m.NewScratch(o)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func sameBits(a, b [][]float32) (row, col int, same bool) {
	for i := range a {
		for j := range a[i] {
			if math.Float32bits(a[i][j]) != math.Float32bits(b[i][j]) {
				return i, j, false
			}
		}
	}
	return 0, 0, true
}
