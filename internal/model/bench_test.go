package model

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"tinyloop/internal/kernel"
)

// benchSpecs are shapes whose weights lie in different places: stories260K in the first cache, a 15M Llama at the edge of the last, and a looped
// core that is read eight times from it.
func benchSpecs() map[string]*Spec {
	llama := func(dim, layers, heads, kv, hidden, vocab int) *Spec {
		return &Spec{Vocab: vocab, Dim: dim, Context: 512, Core: layers, TiedHead: true, Loops: fixedLoops(1),
			Block: Block{Eps: 1e-5, Heads: heads, KVHeads: kv, HeadDim: dim / heads, Pos: RopeInterleaved, RopeTheta: 10000, Hidden: hidden}}
	}
	looped := llama(512, 4, 8, 2, 1536, 8192)
	looped.Loops, looped.LoopNorm = fixedLoops(8), LoopNormBetween
	return map[string]*Spec{"260K": llama(64, 5, 8, 4, 172, 512), "15M": llama(288, 6, 6, 6, 768, 32000), "loop8": looped}
}

// BenchmarkDecode is one token of one sequence at position 100.
func BenchmarkDecode(b *testing.B) {
	benchmark(b, 1)
}

// BenchmarkPrefill is 64 tokens at once, per token.
func BenchmarkPrefill(b *testing.B) {
	benchmark(b, 64)
}

func benchmark(b *testing.B, n int) {
	for name, s := range benchSpecs() {
		for _, t := range []kernel.Type{kernel.F32, kernel.Q8_0, kernel.Q4_0} {
			b.Run(fmt.Sprintf("%s/%s", name, t), func(b *testing.B) {
				m := randomWeights(b, s, t, 1)
				defer m.Close()
				for _, threads := range []int{1, 2} {
					b.Run(fmt.Sprint("threads", threads), func(b *testing.B) { decode(b, m, n, threads) })
				}
			})
		}
	}
}

func decode(b *testing.B, m *Model, n, threads int) {
	rng := rand.New(rand.NewPCG(1, 1))
	var next int32
	depth := m.Spec.Loops.Default
	q := newSeq(&m.Spec, drawTokens(rng, m.Spec.Vocab, 100+n), depth, &next, rng)
	s := scratch(b, m, Options{Threads: threads, Pages: int(next), MaxRows: n})
	defer s.Close()
	rows := make([]Row, n)
	b.ReportAllocs()
	for b.Loop() {
		for i := range rows {
			rows[i] = q.row(100+i, int32(i))
			rows[i].Want = i == n-1
		}
		s.Enter(rows)
		for range depth {
			s.Turn(rows)
		}
		s.Leave(rows)
	}
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "tok/s")
}
