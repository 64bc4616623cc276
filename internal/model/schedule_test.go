package model

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tinyloop/internal/fixture"
	"tinyloop/internal/kernel"
)

// racer drives sequences through a Scratch in a random admissible order.
type racer struct {
	rng  *rand.Rand
	s    *Scratch
	seqs []*racing
	free []int32 // states
	coda bool
}

// racing is one sequence with its rows in flight. Rows leave in ascending order when there is a coda.
type racing struct {
	*runSeq
	entered int
	rows    map[int]*Row // by position, entered and not left
	loops   []int        // passes made, by position
	left    []bool
	logits  [][]float32
}

func (r *racer) add(q *runSeq) {
	n := len(q.tokens)
	r.seqs = append(r.seqs, &racing{runSeq: q, rows: map[int]*Row{}, loops: make([]int, n), left: make([]bool, n), logits: make([][]float32, n)})
}

func (r *racer) done() bool {
	for _, q := range r.seqs {
		if slices.Contains(q.left, false) {
			return false
		}
	}
	return true
}

// call runs f over a random interleaving of the picked rows, ascending within a sequence, and writes the rows back.
func (r *racer) call(picked [][]*Row, f func([]Row)) []*Row {
	var order []*Row
	for {
		var open []int
		for i, p := range picked {
			if len(p) > 0 {
				open = append(open, i)
			}
		}
		if len(open) == 0 {
			break
		}
		i := open[r.rng.IntN(len(open))]
		order = append(order, picked[i][0])
		picked[i] = picked[i][1:]
	}
	rows := make([]Row, len(order))
	for i, p := range order {
		rows[i] = *p
	}
	f(rows)
	for i, p := range order {
		*p = rows[i]
	}
	return order
}

func (r *racer) enter() {
	var picked [][]*Row
	for _, q := range r.seqs {
		var mine []*Row
		for n := r.rng.IntN(60); n > 0 && q.entered < len(q.tokens) && len(r.free) > 0; n-- {
			row := q.row(q.entered, r.free[len(r.free)-1])
			r.free = r.free[:len(r.free)-1]
			q.rows[q.entered] = &row
			mine = append(mine, &row)
			q.entered++
		}
		picked = append(picked, mine)
	}
	r.call(picked, r.s.Enter)
}

// turn picks rows that may run: every earlier position has made more passes, or runs the same pass in this call.
func (r *racer) turn() {
	var picked [][]*Row
	for _, q := range r.seqs {
		var mine []*Row
		running := map[int]bool{}
		for pos := range q.entered {
			row, ok := q.rows[pos]
			if !ok || int(row.Loop) >= q.depth || r.rng.IntN(4) == 0 {
				continue
			}
			t, may := q.loops[pos], true
			for j := range pos {
				may = may && (q.loops[j] > t || q.loops[j] == t && running[j])
			}
			if may {
				running[pos] = true
				mine = append(mine, row)
			}
		}
		picked = append(picked, mine)
	}
	for _, row := range r.call(picked, r.s.Turn) {
		for _, q := range r.seqs {
			if q.rows[int(row.Pos)] == row {
				q.loops[row.Pos]++
			}
		}
	}
}

func (r *racer) leave() {
	var picked [][]*Row
	for _, q := range r.seqs {
		var mine []*Row
		for pos := range q.entered {
			row, ok := q.rows[pos]
			if !ok {
				continue
			}
			if int(row.Loop) < q.depth || r.rng.IntN(3) == 0 {
				if r.coda {
					break // later rows need this one's coda K/V
				}
				continue
			}
			mine = append(mine, row)
		}
		picked = append(picked, mine)
	}
	for i, row := range r.call(picked, r.s.Leave) {
		for _, q := range r.seqs {
			if q.rows[int(row.Pos)] == row {
				q.logits[row.Pos] = append([]float32(nil), r.s.Logits(i)...)
				q.left[row.Pos] = true
				delete(q.rows, int(row.Pos))
				r.free = append(r.free, row.State)
			}
		}
	}
}

// TestSchedules: any admissible order of rows, in any mixture of sequences and loops, with any number of workers, in every weight format, gives
// the bits of each sequence run alone, one position at a time.
func TestSchedules(t *testing.T) {
	types := []kernel.Type{kernel.F32, kernel.F32, kernel.F16, kernel.BF16, kernel.Q8_0, kernel.Q4_0, kernel.Q5_1}
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		typ := rapid.SampledFrom(types).Draw(t, "type")
		if typ.Block() > 1 {
			s.Dim, s.Block.Hidden = 32*rapid.IntRange(1, 2).Draw(t, "dim32"), 64
		}
		seed := rapid.Uint64().Draw(t, "seed")
		rng := rand.New(rand.NewPCG(seed, 3))
		m := randomWeights(t, s, typ, seed)
		defer m.Close()
		var seqs []*runSeq
		var next int32
		for range rapid.IntRange(1, 3).Draw(t, "seqs") {
			q := newSeq(s, drawTokens(rng, s.Vocab, 1+rng.IntN(50)), 1+rng.IntN(4), &next, rng)
			if rng.IntN(3) == 0 {
				q.window, q.sinks = 1+rng.IntN(40), rng.IntN(8)
			}
			seqs = append(seqs, q)
		}
		kv := rapid.SampledFrom([]kernel.Type{kernel.F32, kernel.F16, kernel.Q8_0}).Draw(t, "kv")
		one := scratch(t, m, Options{Threads: 1, Pages: int(next), MaxRows: 1, KVType: kv})
		var want [][][]float32
		for _, q := range seqs {
			want = append(want, q.alone(one))
		}
		one.Close()
		rows := rapid.IntRange(1, 150).Draw(t, "max_rows")
		r := &racer{rng: rng, coda: s.Coda > 0,
			s: scratch(t, m, Options{Threads: rapid.IntRange(1, 3).Draw(t, "threads"), Pages: int(next), MaxRows: rows, KVType: kv})}
		defer r.s.Close()
		for i := range rows {
			r.free = append(r.free, int32(i))
		}
		for _, q := range seqs {
			r.add(q)
		}
		for !r.done() {
			r.enter()
			r.turn()
			r.leave()
		}
		for i, q := range r.seqs {
			if row, col, ok := sameBits(want[i], q.logits); !ok {
				t.Fatalf("sequence %d, row %d, logit %d: %v alone, %v in the crowd", i, row, col, want[i][row][col], q.logits[row][col])
			}
		}
	})
}

// fixedSpec is a small looped model with everything that costs memory or barriers.
func fixedSpec() *Spec {
	return &Spec{Family: "test", Vocab: 50, Dim: 32, Context: 64, Prelude: 1, Core: 2, Coda: 1,
		Block:     Block{Eps: 1e-5, Heads: 4, KVHeads: 2, HeadDim: 8, QKNorm: true, RopeTheta: 10000, Hidden: 64},
		Injection: InjectConcat, StateInit: StateZero, LoopNorm: LoopNormBetween, CodaNorm: CodaNormFinal, TiedHead: true,
		Loops: Loops{Default: 2, TrainedMin: 1, TrainedMean: 2, TrainedMax: 4, HardMax: 8}}
}

// TestNoAllocations: a token costs no memory, with one worker and with two, for few rows and for many.
func TestNoAllocations(t *testing.T) {
	m := randomWeights(t, fixedSpec(), kernel.Q8_0, 1)
	defer m.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	for _, threads := range []int{1, 2} {
		for _, n := range []int{1, 2, 20, 50} {
			var next int32
			q := newSeq(&m.Spec, drawTokens(rng, 50, n), 2, &next, rng)
			s := scratch(t, m, Options{Threads: threads, Pages: int(next), MaxRows: n})
			rows := make([]Row, n)
			step := func() {
				for i := range rows {
					rows[i] = q.row(i, int32(i))
				}
				s.Enter(rows)
				s.Turn(rows)
				s.Turn(rows)
				s.Leave(rows)
			}
			step()
			if a := fixture.Allocations(50, step); a != 0 {
				t.Errorf("%d threads, %d rows: %v allocations a step", threads, n, a)
			}
			s.Close()
		}
	}
}

// TestLeaveKeepsState: a row that is read out early runs on as if it had not been.
func TestLeaveKeepsState(t *testing.T) {
	m := randomWeights(t, fixedSpec(), kernel.F32, 2)
	defer m.Close()
	rng := rand.New(rand.NewPCG(2, 2))
	var next int32
	q := newSeq(&m.Spec, drawTokens(rng, 50, 10), 4, &next, rng)
	s := scratch(t, m, Options{Threads: 2, Pages: int(next), MaxRows: 16})
	defer s.Close()
	want := q.whole(s)
	for pos := range q.tokens {
		rows := []Row{q.row(pos, 0)}
		s.Enter(rows)
		for range 4 {
			s.Leave(rows)
			s.Turn(rows)
		}
		s.Leave(rows)
		if _, col, ok := sameBits(want[pos:pos+1], [][]float32{s.Logits(0)}); !ok {
			t.Fatalf("position %d, logit %d", pos, col)
		}
	}
}

// TestForkedPage: a copied page stands in for the original.
func TestForkedPage(t *testing.T) {
	m := randomWeights(t, fixedSpec(), kernel.F32, 3)
	defer m.Close()
	rng := rand.New(rand.NewPCG(3, 3))
	var next int32
	q := newSeq(&m.Spec, drawTokens(rng, 50, 30), 2, &next, rng)
	s := scratch(t, m, Options{Threads: 1, Pages: 2 * int(next), MaxRows: 32})
	defer s.Close()
	want := q.whole(s)
	fork := *q
	fork.pages = nil
	for _, table := range q.pages {
		var copied []int32
		for _, p := range table {
			s.CopyPage(p+next, p)
			copied = append(copied, p+next)
		}
		fork.pages = append(fork.pages, copied)
	}
	rows := []Row{fork.row(29, 0)}
	s.Enter(rows)
	s.Turn(rows)
	s.Turn(rows)
	s.Leave(rows)
	if _, col, ok := sameBits(want[29:], [][]float32{s.Logits(0)}); !ok {
		t.Fatalf("logit %d differs after the fork", col)
	}
}
