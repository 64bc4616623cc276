package data

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"tinyloop/internal/tok"
)

// Whatever the documents, one pass over the rows shows every target that is to be learned exactly once, after the tokens that stand before it
// in its own document and no others; no chat example is lost.
func TestPackingLosesNothing(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		docs := make([]Tokens, rapid.IntRange(1, 12).Draw(r, "docs"))
		want := map[string]int{} // "doc:index" of every learned token
		next := tok.ID(1)
		for d := range docs {
			x := drawTokens(r, 2, 30)
			for i := range x.IDs { // every token of the corpus another id, so that each can be told
				x.IDs[i] = next
				next++
			}
			x.Traces = nil
			if rapid.Bool().Draw(r, "whole") && len(x.IDs) > 1 {
				x.Learn = []Range{{1, uint32(len(x.IDs))}}
			}
			docs[d] = x
			for _, g := range x.Learn {
				for i := max(g.Start, 1); i < g.End; i++ {
					want[fmt.Sprint(x.IDs[i])] = 1
				}
			}
		}
		if len(want) == 0 {
			return
		}
		cut := rapid.IntRange(1, len(docs)).Draw(r, "first shard")
		shards := []*Shard{writeShard(t, filepath.Join(dir, "p.tlbin"), 1000, docs[:cut])}
		if cut < len(docs) {
			shards = append(shards, writeShard(t, filepath.Join(dir, "q.tlbin"), 1000, docs[cut:]))
		}
		defer func() {
			for _, s := range shards {
				s.Close()
			}
		}()
		T := rapid.IntRange(1, 40).Draw(r, "T")
		l, err := NewLoader(shards, LoaderOptions{Rows: 1, T: T, Seed: rapid.Uint64().Draw(r, "seed"), Ordered: rapid.Bool().Draw(r, "ordered")})
		if err != nil {
			r.Fatal(err)
		}
		got := map[string]int{}
		var b Batch
		for step := range l.Steps() {
			if err := l.Next(uint64(step), &b); err != nil {
				r.Fatal(err)
			}
			for i := range T {
				start := int(b.Start[i])
				if start > i || start < i && b.Input[i-1]+1 != b.Input[i] {
					r.Fatalf("position %d of %v begins at %d", i, b.Input, start)
				}
				if b.Target[i] == NoTarget {
					continue
				}
				got[fmt.Sprint(b.Target[i])]++
				if b.Input[i]+1 != b.Target[i] {
					r.Fatalf("the target of %d is %d", b.Input[i], b.Target[i])
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			r.Fatalf("T %d: targets (-want +got):\n%s", T, diff)
		}
		if l.Stats().Learned != int64(len(want)) {
			r.Fatalf("%d learned by the plan, %d there are", l.Stats().Learned, len(want))
		}
	})
}

// A conversation that is too long keeps its end: the last answer sees as much before it as a row holds.
func TestLongChatKeepsItsEnd(t *testing.T) {
	ids := make([]tok.ID, 50)
	for i := range ids {
		ids[i] = tok.ID(i)
	}
	s := writeShard(t, filepath.Join(t.TempDir(), "c.tlbin"), 100, []Tokens{{IDs: ids, Learn: []Range{{10, 14}, {30, 33}, {46, 48}}}})
	p, err := NewPack([]*Shard{s}, 20, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got [][2]uint32
	for _, x := range p.pieces {
		got = append(got, [2]uint32{x.off, x.n})
	}
	slices.SortFunc(got, func(a, b [2]uint32) int { return int(a[0]) - int(b[0]) })
	// The last window ends with token 47 and begins 20 inputs before; it covers 46 and 47 and, of the second answer, nothing before 28.
	if want := [][2]uint32{{0, 13}, {27, 20}}; !slices.Equal(got, want) {
		t.Errorf("pieces %v, want %v", got, want)
	}
	if p.Stats.Learned != 9 || p.Stats.Cut != 1 || p.Stats.Docs != 1 {
		t.Errorf("%+v", p.Stats)
	}
}

func TestBestFit(t *testing.T) {
	var docs []Tokens
	for _, n := range []int{3, 9, 6, 5, 2, 11, 8, 4} { // inputs 2 8 5 4 1 10 7 3: 40 in all
		x := Tokens{IDs: make([]tok.ID, n)}
		x.Learn = []Range{{1, uint32(n)}}
		docs = append(docs, x)
	}
	s := writeShard(t, filepath.Join(t.TempDir(), "b.tlbin"), 100, docs)
	p, err := NewPack([]*Shard{s}, 10, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p.Stats.Rows != 4 || p.Stats.Fill(10) != 1 {
		t.Errorf("%d rows for four full ones: %+v", p.Stats.Rows, p.Stats)
	}
	only, err := NewPack([]*Shard{s}, 10, func(g string) bool { return g == "g/1" })
	if err != nil || only.Stats.Docs != 3 {
		t.Errorf("kept %+v, %v", only.Stats, err)
	}
}

func manyDocs(t testing.TB) *Shard {
	docs := make([]Tokens, 500)
	for i := range docs {
		n := 2 + int(mix(9, uint64(i))%90)
		docs[i].IDs = make([]tok.ID, n)
		for j := range docs[i].IDs {
			docs[i].IDs[j] = tok.ID(mix(uint64(i), uint64(j)) % 1000)
		}
		docs[i].Learn = []Range{{1, uint32(n)}}
		docs[i].Traces = []Trace{{At: uint32(n - 1), Step: 2, ID: 5}}
	}
	return writeShard(t, filepath.Join(t.TempDir(), "m.tlbin"), 1000, docs)
}

// Next(step) is a function of the step: the order of asking, other loaders and other goroutines change nothing, and golden sums hold it to the
// same bytes on every machine.
func TestLoaderIsDeterministic(t *testing.T) {
	s := manyDocs(t)
	opts := LoaderOptions{Rows: 4, T: 64, Seed: 42}
	a, err := NewLoader([]*Shard{s}, opts)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := NewLoader([]*Shard{s}, opts)
	var x, y Batch
	sum := uint64(0)
	for _, step := range []uint64{7, 0, 3, 1 << 40, 7} {
		if err := a.Next(step, &x); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- b.Next(step, &y) }()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(x, y, cmpopts.IgnoreUnexported(Batch{})); diff != "" {
			t.Fatalf("step %d differs:\n%s", step, diff)
		}
		for i := range x.Input {
			sum = mix(sum, uint64(uint32(x.Input[i]))<<32|uint64(uint32(x.Target[i]))) + uint64(x.Start[i])
		}
	}
	if want := uint64(0xe6490d41ec98795c); sum != want {
		t.Errorf("the batches' sum is %#x, want %#x", sum, want)
	}
}

func TestLoaderCoversEveryRowEachPass(t *testing.T) {
	l, err := NewLoader([]*Shard{manyDocs(t)}, LoaderOptions{Rows: 1, T: 64, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	first := func(epoch int) []string {
		var out []string
		var b Batch
		for i := range l.Stats().Rows {
			if err := l.Next(uint64(epoch*l.Stats().Rows+i), &b); err != nil {
				t.Fatal(err)
			}
			out = append(out, fmt.Sprint(b.Input))
		}
		return out
	}
	p, q := first(0), first(1)
	if slices.Equal(p, q) {
		t.Error("two passes in the same order")
	}
	slices.Sort(p)
	slices.Sort(q)
	if !slices.Equal(p, q) || len(slices.Compact(p)) != l.Stats().Rows {
		t.Error("a pass does not show every row once")
	}
}

func TestPermute(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 5, 16, 17, 1000} {
		seen := map[uint64]bool{}
		for i := range n {
			seen[permute(i, n, 99)] = true
		}
		if uint64(len(seen)) != n {
			t.Errorf("n %d: %d values", n, len(seen))
		}
		for v := range seen {
			if v >= n {
				t.Errorf("n %d: %d", n, v)
			}
		}
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	l, err := NewLoader([]*Shard{manyDocs(t)}, LoaderOptions{Rows: 8, T: 64})
	if err != nil {
		t.Fatal(err)
	}
	var b Batch
	for step := range uint64(2 * l.Steps()) {
		if err := l.Next(step, &b); err != nil {
			t.Fatal(err)
		}
	}
	step := uint64(0)
	if n := testing.AllocsPerRun(50, func() { l.Next(step, &b); step++ }); n != 0 {
		t.Errorf("%v allocations a batch", n)
	}
}

func BenchmarkNext(b *testing.B) {
	l, err := NewLoader([]*Shard{manyDocs(b)}, LoaderOptions{Rows: 32, T: 256})
	if err != nil {
		b.Fatal(err)
	}
	var x Batch
	b.ReportAllocs()
	for i := range b.N {
		if err := l.Next(uint64(i), &x); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(32 * 256)
}
