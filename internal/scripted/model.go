package scripted

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tinyloop/internal/model"
)

const pageLen = 16 // positions of a KV page

// Options is the shape of a Model. Zero values give a small looped model: vocabulary 64, context 512, 1 prelude, 2 core, no coda block, loops
// 1..8 (default 4), 64 rows, 4096 pages.
type Options struct {
	Vocab, Context      int
	Prelude, Core, Coda int // all zero: 1, 2, 0
	Loops               model.Loops
	MaxRows, Pages      int
	Answers             []Answer
	Agree               float64 // with what probability a row read out early gives the same favourite as at full depth; 0 = logits by depth alone
	After               int32   // with Answers: the answer begins after the last occurrence of this token; 0 = off
}

// Violation is the panic value of a broken rule of model.Runner.
type Violation string

func (v Violation) Error() string { return "scripted: " + string(v) }

// cell is what a page holds of one position: the K/V of the real model.
type cell struct {
	value   uint64 // what a later row sees
	history uint64 // hash of the tokens up to and including this position; 0 = unknown (its predecessor was out of sight)
	slot    int32  // -1 = empty
	depth   int32  // of coda cells, 0 otherwise
	lent    bool   // copied or averaged from other slots, so its slot may be another
	early   bool   // coda cell of a row that has more passes to make
	pos     int32
	token   int32
	window  int32
	sinks   int32
}

// state is the hidden state of a row.
type state struct {
	value, history   uint64
	pos, token, loop int32
	live             bool
}

// Model is the scripted runner. The Runner methods belong to one goroutine; SetDelay, Freeze, PanicAt, Calls and Violations may be called from any.
type Model struct {
	lim    model.Limits
	cells  []cell // page*pageLen + position within the page
	states []state
	marks  []int64 // call number that last used a state
	logits []float32
	moved  []model.Motion
	row    []int // row of logits of rows[i] of the last Leave, -1 without
	book   *book
	agree  float64

	calls   atomic.Int64
	delay   atomic.Int64
	panicAt atomic.Int64

	mu         sync.Mutex
	frozen     chan struct{}
	violations []string
	rows       [3]int64 // Enter, Turn, Leave
	copies     int64
}

// New makes a Model.
func New(o Options) *Model {
	o = o.defaults()
	m := &Model{
		lim: model.Limits{Vocab: o.Vocab, Context: o.Context, Prelude: o.Prelude, Core: o.Core, Coda: o.Coda,
			Loops: o.Loops, MaxRows: o.MaxRows, Pages: o.Pages, Gate: true},
		cells:  make([]cell, o.Pages*pageLen),
		states: make([]state, o.MaxRows),
		marks:  make([]int64, o.MaxRows),
		logits: make([]float32, o.MaxRows*o.Vocab),
		moved:  make([]model.Motion, o.MaxRows),
		row:    make([]int, 0, o.MaxRows),
	}
	for i := range m.cells {
		m.cells[i].slot = -1
	}
	m.agree = o.Agree
	m.panicAt.Store(-1)
	if len(o.Answers) > 0 {
		m.book = newBook(o.Answers, o.After)
	}
	return m
}

func (o Options) defaults() Options {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&o.Vocab, 64)
	set(&o.Context, 512)
	if o.Prelude+o.Core+o.Coda == 0 {
		o.Prelude, o.Core = 1, 2
	}
	set(&o.MaxRows, 64)
	set(&o.Pages, 4096)
	if o.Loops.HardMax == 0 {
		o.Loops = model.Loops{Default: 4, TrainedMin: 1, TrainedMean: 4, TrainedMax: 6, HardMax: 8}
	}
	return o
}

// Limits is part of model.Runner.
func (m *Model) Limits() model.Limits { return m.lim }

// SetDelay makes each following Enter, Turn and Leave take at least d.
func (m *Model) SetDelay(d time.Duration) { m.delay.Store(int64(d)) }

// PanicAt makes call number k (counted from 0 over Enter, Turn and Leave) panic; -1 = never.
func (m *Model) PanicAt(k int64) { m.panicAt.Store(k) }

// Calls is the number of Enter, Turn and Leave so far.
func (m *Model) Calls() int64 { return m.calls.Load() }

// Rows is how many rows passed Enter, Turn and Leave, and how many pages were copied.
func (m *Model) Rows() (enter, turn, leave, copies int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rows[0], m.rows[1], m.rows[2], m.copies
}

// Freeze blocks every call from the next one on until thaw is called.
func (m *Model) Freeze() (thaw func()) {
	c := make(chan struct{})
	m.mu.Lock()
	m.frozen = c
	m.mu.Unlock()
	return sync.OnceFunc(func() {
		m.mu.Lock()
		m.frozen = nil
		m.mu.Unlock()
		close(c)
	})
}

// Violations lists the broken rules so far.
func (m *Model) Violations() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.violations...)
}

// begin is the common entry of a call: faults on request, then the rules that hold for every call.
func (m *Model) begin(kind int, rows []model.Row) int64 {
	n := m.calls.Add(1) - 1
	m.mu.Lock()
	frozen := m.frozen
	m.rows[kind] += int64(len(rows))
	m.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
	if d := m.delay.Load(); d > 0 {
		time.Sleep(time.Duration(d))
	}
	if n == m.panicAt.Load() {
		panic("scripted: panic on request")
	}
	if len(rows) == 0 || len(rows) > m.lim.MaxRows {
		m.violate("a call with %d rows, allowed are 1 to %d", len(rows), m.lim.MaxRows)
	}
	for i := range rows {
		m.common(&rows[i], n+1)
	}
	return n
}

// common checks what every row of every call must obey.
func (m *Model) common(r *model.Row, call int64) {
	if r.State < 0 || int(r.State) >= m.lim.MaxRows {
		m.violate("state %d outside 0..%d", r.State, m.lim.MaxRows-1)
	}
	if m.marks[r.State] == call {
		m.violate("state %d twice in one call", r.State)
	}
	m.marks[r.State] = call
	if r.Depth < 1 || int(r.Depth) > m.lim.Loops.HardMax {
		m.violate("depth %d outside 1..%d", r.Depth, m.lim.Loops.HardMax)
	}
	if r.Pos < 0 || int(r.Pos) >= m.lim.Context {
		m.violate("position %d outside the context of %d", r.Pos, m.lim.Context)
	}
	if r.Token < 0 || int(r.Token) >= m.lim.Vocab {
		m.violate("token %d outside the vocabulary of %d", r.Token, m.lim.Vocab)
	}
	if want := m.lim.Prelude + int(r.Depth)*m.lim.Core + m.lim.Coda; len(r.Pages) != want {
		m.violate("a page table of %d slots, depth %d needs %d", len(r.Pages), r.Depth, want)
	}
}

// violate records a breach and panics. It formats only on failure.
func (m *Model) violate(format string, args ...any) {
	v := fmt.Sprintf(format, args...)
	m.mu.Lock()
	m.violations = append(m.violations, v)
	m.mu.Unlock()
	panic(Violation(v))
}
