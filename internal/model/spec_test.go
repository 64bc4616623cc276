package model

import (
	"runtime"
	"strings"
	"testing"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
)

func fixedLoops(n int) Loops { return Loops{n, n, n, n, 4 * n} }

// ouro is the published shape of ByteDance's Ouro (arXiv 2510.25741).
func ouro(layers int) *Spec {
	return &Spec{Vocab: 49152, Dim: 2048, Context: 65536, Core: layers, ExitGate: true, LoopNorm: LoopNormBetween, Loops: fixedLoops(4),
		Block: Block{NormPlace: BranchSandwich, Eps: 1e-6, Heads: 16, KVHeads: 16, HeadDim: 128, RopeTheta: 1e6, Hidden: 5632}}
}

// huginn is the published shape of Huginn-0125 (arXiv 2502.05171).
func huginn() *Spec {
	return &Spec{Vocab: 65536, Dim: 5280, Context: 4096, Prelude: 2, Core: 4, Coda: 2, Injection: InjectConcat, StateInit: StateZero, CodaNorm: CodaNormFinal,
		TiedHead: true, Loops: fixedLoops(32), Embed: Embed{Scale: 72.66},
		Block: Block{NormPlace: ResidualSandwich, Eps: 1e-6, Heads: 55, KVHeads: 55, HeadDim: 96, QKBias: true, Pos: RopeInterleaved, RopeTheta: 50000, Hidden: 17920}}
}

// TestParams: the counts of published models, to the last parameter.
func TestParams(t *testing.T) {
	for _, c := range []struct {
		name string
		spec *Spec
		want int64
	}{{"Ouro-1.4B", ouro(24), 1_434_652_673}, {"Ouro-2.6B", ouro(48), 2_667_974_657}, {"Huginn-0125", huginn(), 3_564_976_800}} {
		if err := c.spec.Validate(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got, _ := c.spec.Params(); got != c.want {
			t.Errorf("%s: %d parameters, want %d", c.name, got, c.want)
		}
	}
	s := ouro(24)
	one, four := *s, *s
	one.Loops, four.Loops = fixedLoops(1), fixedLoops(4)
	unique, u1 := one.Params()
	_, u4 := four.Params()
	if u1 != unique || u4-u1 != 3*24*(4*2048*2048+3*2048*5632+4*2048) {
		t.Errorf("unrolled: %d at one loop (unique %d), %d at four", u1, unique, u4)
	}
}

// TestKVBytes: the published sizes of the caches, and the store's own.
func TestKVBytes(t *testing.T) {
	if got := ouro(24).KVBytesPerToken(4, kernel.F16); got != 768<<10 {
		t.Errorf("Ouro-1.4B: %d bytes a token, want 768 KiB", got)
	}
	s := fixedSpec()
	s.Block.HeadDim = 6 // padded to 8 for values
	for _, f := range []kernel.Type{kernel.F32, kernel.F16, kernel.Q8_0} {
		kv, err := kernel.NewKV(1, s.Block.KVHeads, s.Block.HeadDim, f)
		if err != nil {
			t.Fatal(err)
		}
		defer kv.Free()
		if got := s.PageBytes(f); got != int64(kv.PageBytes()) {
			t.Errorf("a page of %v is %d bytes, the store says %d", f, got, kv.PageBytes())
		}
	}
}

func TestProgram(t *testing.T) {
	s := fixedSpec()
	steps := s.Program(3)
	if len(steps) != s.Slots(3) {
		t.Fatalf("%d steps, %d slots", len(steps), s.Slots(3))
	}
	for i, st := range steps {
		want := Step{Core, (i - 1) % 2, (i - 1) / 2, i}
		if i == 0 {
			want = Step{Prelude, 0, 0, 0}
		} else if i == 7 {
			want = Step{Coda, 0, 0, 7}
		}
		if st != want {
			t.Errorf("step %d is %v, want %v", i, st, want)
		}
	}
}

// TestValidate: every inconsistency is named.
func TestValidate(t *testing.T) {
	for field, breakIt := range map[string]func(s *Spec){
		"vocab":             func(s *Spec) { s.Vocab = 0 },
		"dim":               func(s *Spec) { s.Dim = 1 << 40 },
		"context":           func(s *Spec) { s.Context = -1 },
		"blocks":            func(s *Spec) { s.Prelude, s.Core, s.Coda = 0, 0, 0 },
		"heads":             func(s *Spec) { s.Block.Heads = 0 },
		"kv_heads":          func(s *Spec) { s.Block.KVHeads = 3 },
		"head_dim":          func(s *Spec) { s.Block.HeadDim = 0 },
		"hidden":            func(s *Spec) { s.Block.Hidden = 0 },
		"eps":               func(s *Spec) { s.Block.Eps = 0 },
		"rope_dim":          func(s *Spec) { s.Block.RopeDim = 3 },
		"rope_factors":      func(s *Spec) { s.Block.Pos, s.Block.RopeFactors = NoPos, true },
		"rope_theta":        func(s *Spec) { s.Block.RopeTheta = 0 },
		"norm_place":        func(s *Spec) { s.Block.NormPlace = 9 },
		"injection":         func(s *Spec) { s.Injection = 9 },
		"inject_matrix":     func(s *Spec) { s.InjectMatrix = true },
		"state_init":        func(s *Spec) { s.Injection = InjectNone },
		"attn_softcap":      func(s *Spec) { s.Block.AttnSoftcap = -1 },
		"loops":             func(s *Spec) { s.Core = 0 },
		"loops.hard_max":    func(s *Spec) { s.Loops.HardMax = 1 << 20 },
		"loops.trained_min": func(s *Spec) { s.Loops.TrainedMin = 3 },
		"loops.trained_max": func(s *Spec) { s.Loops.TrainedMax = 9 },
		"loops.default":     func(s *Spec) { s.Loops.Default = 0 },
		"slots":             func(s *Spec) { s.Core, s.Loops.HardMax = 4000, 4000 },
		"params":            func(s *Spec) { s.Dim, s.Block.Hidden, s.Core = 1<<17, 1<<20, 2000 },
	} {
		s := fixedSpec()
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		breakIt(s)
		err := s.Validate()
		if err == nil || fault.As(err).Field != field || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

// TestNewRefuses: weights that do not fit the Spec, and options out of range.
func TestNewRefuses(t *testing.T) {
	m := randomWeights(t, fixedSpec(), kernel.F32, 1)
	defer m.Close()
	bigger := m.Spec
	bigger.Vocab++
	if _, err := New(bigger, m.W); err == nil || !strings.Contains(err.Error(), "token_embd.weight: want [51 32], have [50 32]") {
		t.Errorf("wrong shape: %v", err)
	}
	untied := m.Spec
	untied.TiedHead = false
	if _, err := New(untied, m.W); err == nil || !strings.Contains(err.Error(), "output.weight: missing") {
		t.Errorf("missing: %v", err)
	}
	for field, o := range map[string]Options{
		"pages": {}, "threads": {Pages: 1, Threads: -1}, "max_rows": {Pages: 1, MaxRows: -1}, "context": {Pages: 1, Context: 65},
		"kv_type": {Pages: 1, KVType: kernel.Q4_0}, "max_loops": {Pages: 1, MaxLoops: -3},
	} {
		if _, err := m.NewScratch(o); err == nil || fault.As(err).Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

// TestWorkers: a model that fits the first caches runs on one worker, whatever the machine.
func TestWorkers(t *testing.T) {
	if n := fixedSpec().workers(8); n != 1 {
		t.Errorf("tiny model: %d workers", n)
	}
	if n := ouro(24).workers(8); n != 8 {
		t.Errorf("Ouro-1.4B: %d workers of 8", n)
	}
}

// TestMemory: the estimates against what is really taken.
func TestMemory(t *testing.T) {
	s := benchSpecs()["15M"]
	m := randomWeights(t, s, kernel.Q8_0, 1)
	defer m.Close()
	for _, o := range []Options{{Threads: 1, Pages: 100, MaxRows: 64}, {Threads: 2, Pages: 100, MaxRows: 500}} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		sc := scratch(t, m, o)
		runtime.ReadMemStats(&after)
		took, said := float64(after.TotalAlloc-before.TotalAlloc), float64(s.ScratchBytes(o))
		if said < 0.7*took || said > 1.4*took {
			t.Errorf("%+v: estimated %.0f bytes, took %.0f", o, said, took)
		}
		if want := 100 * s.PageBytes(kernel.F32); sc.KVBytes() != want {
			t.Errorf("KV store of %d bytes, estimated %d", sc.KVBytes(), want)
		}
		sc.Close()
	}
	if b := m.Bytes(); b < 15_000_000 || b > 17_500_000 {
		t.Errorf("15M parameters in q8_0 take %d bytes", b)
	}
}
