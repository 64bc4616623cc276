package data

import (
	"math/bits"

	"tinyloop/internal/fault"
	"tinyloop/internal/invariants"
	"tinyloop/internal/tok"
)

// NoTarget marks a position whose next token is not learned.
const NoTarget tok.ID = -1

// Batch is Rows × T positions, row after row. Its memory is reused by the next Next.
//
//	Input   a  b  c  |  x  y  |  0  0     documents side by side, then padding
//	Target  b  c  d  |  y  z  | -1 -1     -1 where nothing is learned
//	Start   0  0  0  |  3  3  |  5  6     index within the row where the position's document begins: attention goes no further back
type Batch struct {
	Rows, T int
	Input   []tok.ID
	Target  []tok.ID
	Start   []int32
	Traces  []BatchTrace
	Learned int // positions with a target

	ids     []tok.ID
	scratch []byte
}

// BatchTrace says that after Step loops, while there are more to come, position Pos (an index into Input) should expect ID.
type BatchTrace struct {
	Pos  int32
	Step int32
	ID   tok.ID
}

// Loader hands out batches. What a batch holds depends on the plan, the seed and the step alone: not on the machine, on threads, or on which
// steps were asked for before, so that resuming a run needs the step's number and nothing else. Safe for concurrent use, one Batch each.
type Loader struct {
	shards []*Shard
	pack   *Pack
	rows   int
	seed   uint64
	inRow  bool // rows in their order instead of shuffled
}

// LoaderOptions are the shape and order of batches.
type LoaderOptions struct {
	Rows, T int
	Seed    uint64
	Ordered bool                    // rows in the order of the plan, as evaluation wants them
	Keep    func(group string) bool // which groups take part; nil = all
}

// NewLoader plans the rows over shards, which stay the caller's to close.
func NewLoader(shards []*Shard, o LoaderOptions) (*Loader, error) {
	if o.Rows < 1 || o.Rows > 1<<16 {
		return nil, fault.New(fault.Invalid, "batch", "batches of %d rows, expected 1 to %d", o.Rows, 1<<16)
	}
	p, err := NewPack(shards, o.T, o.Keep)
	if err != nil {
		return nil, err
	}
	return &Loader{shards: shards, pack: p, rows: o.Rows, seed: o.Seed, inRow: o.Ordered}, nil
}

// Stats says how the rows are filled.
func (l *Loader) Stats() PackStats { return l.pack.Stats }

// Steps gives the batches of one pass over the corpus, the last one filled up from the next pass.
func (l *Loader) Steps() int { return (l.pack.Stats.Rows + l.rows - 1) / l.rows }

// Next fills b with the batch of the given step, 0 being the first. It allocates nothing once b has been filled.
func (l *Loader) Next(step uint64, b *Batch) error {
	b.reset(l.rows, l.pack.T)
	n := uint64(l.pack.Stats.Rows)
	for r := range l.rows {
		k := step*uint64(l.rows) + uint64(r)
		row := k % n
		if !l.inRow {
			row = permute(row, n, mix(l.seed, k/n))
		}
		if err := l.fill(b, r, int(row)); err != nil {
			return err
		}
	}
	return nil
}

func (b *Batch) reset(rows, t int) {
	n := rows * t
	if len(b.Input) != n || b.T != t {
		b.Rows, b.T = rows, t
		b.Input, b.Target, b.Start = make([]tok.ID, n), make([]tok.ID, n), make([]int32, n)
		b.ids, b.scratch = make([]tok.ID, t+1), make([]byte, 4*(t+1))
	}
	b.Traces = b.Traces[:0]
	b.Learned = 0
}

// fill writes row `row` of the plan as row r of the batch.
func (l *Loader) fill(b *Batch, r, row int) error {
	at := 0
	for _, p := range l.pack.pieces[l.pack.rows[row]:l.pack.rows[row+1]] {
		if err := l.piece(b, r*b.T, at, p); err != nil {
			return err
		}
		at += int(p.n)
	}
	invariants.Check(at <= b.T, "a row holds more than it can")
	base := r * b.T
	for i := at; i < b.T; i++ { // padding sees itself and nothing else
		b.Input[base+i], b.Target[base+i], b.Start[base+i] = 0, NoTarget, int32(i)
	}
	return nil
}

func (l *Loader) piece(b *Batch, base, at int, p piece) error {
	s := l.shards[p.shard]
	n := int(p.n)
	ids := b.ids[:n+1]
	if err := s.Read(int(p.doc), int(p.off), ids, b.scratch); err != nil {
		return err
	}
	copy(b.Input[base+at:], ids[:n])
	for i := range n {
		b.Target[base+at+i], b.Start[base+at+i] = NoTarget, int32(at)
	}
	for _, r := range s.Learn(int(p.doc)) { // token off+i+1 is the target of input i
		lo, hi := max(int(r.Start), int(p.off)+1), min(int(r.End), int(p.off)+n+1)
		for j := lo; j < hi; j++ {
			b.Target[base+at+j-int(p.off)-1] = ids[j-int(p.off)]
			b.Learned++
		}
	}
	for _, t := range s.Traces(int(p.doc)) {
		if j := int(t.At) - int(p.off); j >= 1 && j <= n {
			b.Traces = append(b.Traces, BatchTrace{Pos: int32(base + at + j - 1), Step: int32(t.Step), ID: t.ID})
		}
	}
	return nil
}

// permute gives the place of i in a pseudo-random order of 0…n−1 that key chooses: a four-round Feistel network over the next even number of
// bits, walked until it lands below n. Luby & Rackoff 1988; cycle walking: Black & Rogaway 2002.
func permute(i, n, key uint64) uint64 {
	if n < 2 {
		return 0
	}
	half := (bits.Len64(n-1) + 1) / 2
	mask := uint64(1)<<half - 1
	for {
		lo, hi := i&mask, i>>half
		for round := range uint64(4) {
			lo, hi = hi^mix(key+round, lo)&mask, lo
		}
		i = hi<<half | lo
		if i < n {
			return i
		}
	}
}

// mix is a hash of two numbers: the finaliser of SplitMix64 (Steele, Lea & Flood 2014) over their sum on its Weyl sequence.
func mix(key, n uint64) uint64 {
	z := key*0xd1342543de82ef95 + (n+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
