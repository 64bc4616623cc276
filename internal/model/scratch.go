package model

import (
	"runtime"

	"tinyloop/internal/kernel"
	"tinyloop/internal/nn"
	"tinyloop/internal/par"
)

// PagePositions is the number of positions of one KV page.
const PagePositions = nn.PagePositions

// tile is the number of rows that pass through the layers together, or the most that a worker takes through them alone; a longer call runs in tiles, which are admissible because rows
// of one sequence come in ascending position. It bounds the working memory and keeps the activations of a layer in the cache.
const tile = 64

// Options of a Scratch.
type Options struct {
	Threads  int         // compute workers, the caller included; 0 = as many as CPUs and the width of the model make worth it
	KVType   kernel.Type // F32, F16 or Q8_0
	Pages    int         // pages of the KV store, each 16 positions of one slot
	MaxRows  int         // most rows alive at a time; 0 = 64
	Context  int         // longest sequence, at most Spec.Context; 0 = Spec.Context
	MaxLoops int         // most loops a row may run; 0 = Spec.Loops.HardMax
}

// Scratch is everything one owner needs to run a model: hidden states, KV pages, working memory and workers. It implements Runner. All calls come
// from one goroutine; calls allocate nothing in steady state.
type Scratch struct {
	m    *Model
	o    Options
	pool *par.Pool
	kv   *kernel.KV
	rope *nn.Rope

	h, e   nn.Stream // [MaxRows] state and injected input of each row; Index is of the running call
	x      nn.Stream // [tile] copies of the state on the way out, those of row i of the call at ring[i]
	places []nn.Place
	states []int32 // [MaxRows] State of each row of the running call
	ident  []int32 // 0, 1, 2, …
	ring   []int32 // the same modulo tile

	all   desk   // [tile] rows, for workers that share them
	parts []desk // [worker] the same memory by rows, for workers that have rows of their own

	tile    int // rows of all parts together
	ownRows int // least rows of a worker that has its own

	blockWeights int // of a block's matrices

	watch                 watch
	rows                  []Row   // of the running call
	want, wantIn          []int32 // rows of the last Leave that want logits: in the call, in their tile
	logits                []float32
	logitsAt              []int32 // row of the last Leave -> place in logits, -1 = not wanted
	enterF, turnF, leaveF func(*par.Worker)
}

// desk is the working memory of the layers over some rows.
type desk struct {
	acts   *nn.Acts // [rows][Dim]
	joined *nn.Acts // [rows][2*Dim], InjectConcat only
	attn   *nn.AttentionScratch
	mlp    *nn.MLPScratch
	y      []float32 // [rows][Dim] result of a branch
}

// NewScratch makes room for o.MaxRows live rows and o.Pages pages and starts the workers.
func (m *Model) NewScratch(o Options) (*Scratch, error) {
	if err := o.complete(&m.Spec); err != nil {
		return nil, err
	}
	b := &m.Spec.Block
	kv, err := kernel.NewKV(o.Pages, b.KVHeads, b.HeadDim, o.KVType)
	if err != nil {
		return nil, err
	}
	s := &Scratch{m: m, o: o, kv: kv, pool: par.New(o.Threads)}
	if m.heads.Rot > 0 {
		s.rope = nn.NewRope(o.Context, m.heads.Rot, float64(b.RopeTheta), m.W.RopeFactors)
	}
	s.allocate()
	s.enterF, s.turnF, s.leaveF = s.enter, s.turn, s.leave
	return s, nil
}

func (o *Options) complete(s *Spec) error {
	if o.Threads == 0 {
		o.Threads = s.workers(runtime.GOMAXPROCS(0))
	}
	if o.MaxRows == 0 {
		o.MaxRows = tile
	}
	if o.Context == 0 {
		o.Context = s.Context
	}
	if o.MaxLoops == 0 {
		o.MaxLoops = s.Loops.HardMax
	}
	if kernel.KVBytes(s.Block.HeadDim, o.KVType) == 0 {
		return bad("kv_type", "must be f32, f16 or q8, is %s", o.KVType)
	}
	if s.Core == 0 && o.MaxLoops != 1 {
		return bad("max_loops", "must be 1 for a model without core blocks, is %d", o.MaxLoops)
	}
	return within([]bound{
		{"threads", o.Threads, 1, 1024},
		{"pages", o.Pages, 1, 1 << 30},
		{"max_rows", o.MaxRows, 1, 1 << 16},
		{"context", o.Context, 1, s.Context},
		{"max_loops", o.MaxLoops, 1, maxLoops},
	})
}

const (
	// blockShare is how many products of a block one worker should at least have, of the rows that all workers take together: below, it waits at the block's barriers for longer
	// than it computes (measured on two cores, docs/LOG.md).
	blockShare = 200_000
	// poolShare is how many weights of a block there should be for each worker of a pool. Workers with rows of their own meet no barrier, so less is enough than for one row.
	poolShare = 25_000
)

// workers gives the number of workers that pay for a model of this Spec when rows are many.
func (s *Spec) workers(cpus int) int { return max(1, min(cpus, s.blockWeights()/poolShare)) }

// blockWeights gives the number of weights in the matrices of a block.
func (s *Spec) blockWeights() int {
	b := &s.Block
	attn := (2*b.Heads + 2*b.KVHeads) * b.HeadDim * s.Dim
	mlp := 2 * s.Dim * b.Hidden
	if b.MLP.Gated() {
		mlp += s.Dim * b.Hidden
	}
	return attn + mlp
}

func (s *Scratch) allocate() {
	sp, n := &s.m.Spec, s.o.MaxRows
	own := pieceRows(n, s.o.Threads, s.m.layerBytes())
	t := own * s.o.Threads
	s.tile = t
	stream := func(rows int) nn.Stream {
		stride := sp.Dim + 16 // not a multiple of 4 KiB: rows must not fall on the same cache sets
		return nn.Stream{Data: make([]float32, rows*stride), Stride: stride, Dim: sp.Dim}
	}
	s.h, s.x = stream(n), stream(t)
	if sp.Injection != InjectNone {
		s.e = stream(n)
	}
	s.places, s.states = make([]nn.Place, n), make([]int32, n)
	s.ident, s.ring = make([]int32, max(n, t)), make([]int32, max(n, t))
	s.want, s.wantIn, s.logitsAt = make([]int32, 0, n), make([]int32, 0, n), make([]int32, 0, n)
	for i := range s.ident {
		s.ident[i], s.ring[i] = int32(i), int32(i%t)
	}
	s.ownRows, s.blockWeights = s.m.ownRows(), sp.blockWeights()
	s.all = desk{acts: nn.NewActs(t, sp.Dim, s.o.Threads), y: make([]float32, t*sp.Dim)}
	if sp.Injection == InjectConcat {
		s.all.joined = nn.NewActs(t, 2*sp.Dim, s.o.Threads)
	}
	s.all.attn = nn.NewAttentionScratch(&s.m.heads, t, s.o.Context, s.o.Threads)
	s.all.mlp = nn.NewMLPScratch(sp.activation(), t, sp.Block.Hidden, s.o.Threads)
	for i := range s.o.Threads {
		s.parts = append(s.parts, s.part(i*own, (i+1)*own, i))
	}
}

// part gives rows [lo, hi) of the working memory to a worker.
func (s *Scratch) part(lo, hi, worker int) desk {
	d := desk{acts: s.all.acts.Part(lo, hi), attn: s.all.attn.Part(&s.m.heads, lo, hi, worker), mlp: s.all.mlp.Part(lo, hi)}
	d.y = s.all.y[lo*s.m.Spec.Dim : hi*s.m.Spec.Dim]
	if s.all.joined != nil {
		d.joined = s.all.joined.Part(lo, hi)
	}
	return d
}

func (s *Spec) activation() nn.Activation { return nn.Activation(s.Block.MLP) }

// Limits implements Runner.
func (s *Scratch) Limits() Limits {
	sp := &s.m.Spec
	l := sp.Loops
	l.HardMax = s.o.MaxLoops
	l.Default = min(l.Default, l.HardMax)
	return Limits{Vocab: sp.Vocab, Context: s.o.Context, Prelude: sp.Prelude, Core: sp.Core, Coda: sp.Coda, Loops: l, MaxRows: s.o.MaxRows, Pages: s.o.Pages, Gate: s.m.W.Gate != nil}
}

// CopyPage implements Runner.
func (s *Scratch) CopyPage(dst, src int32) { s.kv.Copy(dst, src) }

// KVBytes gives the memory of the KV store.
func (s *Scratch) KVBytes() int64 { return int64(s.o.Pages) * int64(s.kv.PageBytes()) }

// Close stops the workers and gives the KV store back. The Scratch must not be used after.
func (s *Scratch) Close() {
	s.pool.Close()
	s.kv.Free()
}

// PageBytes gives the memory of one KV page in format t.
func (s *Spec) PageBytes(t kernel.Type) int64 {
	return PagePositions * s.KVBytesPerToken(1, t) / int64(s.Slots(1))
}

// ScratchBytes estimates the memory of a Scratch besides its KV pages and logits.
func (s *Spec) ScratchBytes(o Options) int64 {
	b, rows := &s.Block, int64(max(o.MaxRows, tile))
	params, _ := s.Params()
	params -= int64(s.Vocab) * int64(s.Dim)
	desk := int64(pieceRows(int(rows), max(o.Threads, 1), params) * max(o.Threads, 1)) // as if weights took a byte each
	states := 2 * rows * int64(s.Dim)
	wide := int64(4*s.Dim + (2*b.Heads+2*b.KVHeads)*b.HeadDim + 3*b.Hidden)
	return 4*(states+desk*wide) + 4*int64(kernel.AttendScratch(o.Context)*max(o.Threads, 1))
}
