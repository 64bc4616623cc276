package scripted

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"tinyloop/internal/model"
)

// lane drives one sequence through a Model position by position, with pages of its own.
type lane struct {
	m             *Model
	pages         [][]int32
	depth         int
	window, sinks int
}

func newLane(m *Model, depth, positions int, next *int32) *lane {
	l := m.Limits()
	q := &lane{m: m, depth: depth}
	for range l.Prelude + depth*l.Core + l.Coda {
		var table []int32
		for b := 0; b*pageLen < positions; b++ {
			table = append(table, *next)
			*next++
		}
		q.pages = append(q.pages, table)
	}
	return q
}

func (q *lane) row(token, pos int) model.Row {
	return model.Row{Token: int32(token), Pos: int32(pos), Depth: int32(q.depth), Pages: q.pages, Window: int32(q.window), Sinks: int32(q.sinks), Want: true}
}

// push computes one position and gives its logits.
func (q *lane) push(token, pos int) []float32 {
	rows := []model.Row{q.row(token, pos)}
	q.m.Enter(rows)
	for range q.depth {
		q.m.Turn(rows)
	}
	q.m.Leave(rows)
	return append([]float32(nil), q.m.Logits(0)...)
}

func breach(t *testing.T, what, want string, f func()) {
	t.Helper()
	defer func() {
		v, ok := recover().(Violation)
		if !ok || !strings.Contains(v.Error(), want) {
			t.Errorf("%s: %v", what, v)
		}
	}()
	f()
}

// TestBreaches: each broken rule of Runner is caught, and named.
func TestBreaches(t *testing.T) {
	for _, o := range []Options{{}, {Core: 1}, {Prelude: 1, Core: 1, Coda: 1}} {
		var next int32
		m := New(o)
		fresh := func() *lane {
			q := newLane(m, 2, 48, &next)
			for pos := range 20 {
				q.push(pos%5, pos)
			}
			return q
		}
		q := fresh()
		last := len(q.pages) - 1
		q.pages[last][0], q.pages[last][1] = q.pages[last][1], q.pages[last][0]
		breach(t, "swapped blocks", "finds position", func() { q.push(1, 20) })

		q = fresh()
		q.pages[0], q.pages[last] = q.pages[last], q.pages[0]
		breach(t, "swapped slots", "finds position", func() { q.push(1, 20) })

		q = fresh()
		breach(t, "a gap", "finds position", func() { q.push(1, 22) })

		q = fresh()
		q.pages[last][0] = -1
		breach(t, "a missing page", "has page -1", func() { q.push(1, 20) })

		q = fresh()
		other := newLane(m, 2, 48, &next)
		for pos := range 20 {
			other.push(pos%4, pos) // another history
		}
		q.pages[last][0] = other.pages[last][0]
		breach(t, "another's page", "another history", func() { q.push(1, 20) })

		q = fresh()
		q.window = 16
		breach(t, "another window", "computed with window", func() { q.push(1, 20) })

		q = fresh()
		row := []model.Row{q.row(1, 20)}
		breach(t, "a turn without entry", "holds position", func() { m.Turn(row) })
		breach(t, "leaving before a pass", "leaves at loop", func() { m.Enter(row); m.Leave(row) })
		row[0].Loop = 0
		breach(t, "one turn too many", "turns at loop", func() { m.Enter(row); m.Turn(row); m.Turn(row); m.Turn(row) })
		two := []model.Row{q.row(1, 20), q.row(1, 21)}
		breach(t, "one state for two rows", "twice in one call", func() { m.Enter(two) })
		q = fresh()
		two[0], two[1] = q.row(1, 21), q.row(1, 20)
		two[1].State = 1
		breach(t, "descending rows", "finds position", func() { m.Enter(two); m.Turn(two) })
		breach(t, "logits not wanted", "did not compute", func() { m.Logits(7) })
		if len(m.Violations()) != 12 {
			t.Errorf("%d violations kept", len(m.Violations()))
		}
	}
}

// TestCodaOfAnotherDepth: the coda's K/V of a position computed at one depth are refused at another, the core's are not.
func TestCodaOfAnotherDepth(t *testing.T) {
	m := New(Options{Prelude: 1, Core: 1, Coda: 1})
	var next int32
	deep, flat := newLane(m, 3, 16, &next), newLane(m, 2, 16, &next)
	deep.push(1, 0)
	want := func() string { flat.push(1, 0); return fmt.Sprint(flat.push(2, 1)) }()
	own := flat.pages[3][0]
	flat.pages = [][]int32{deep.pages[0], deep.pages[1], deep.pages[2], {own}}
	if got := fmt.Sprint(flat.push(2, 1)); got != want {
		t.Error("core pages of a deeper run give other logits")
	}
	flat.pages[3] = deep.pages[4]
	breach(t, "coda of depth 3 at depth 2", "finds position", func() { flat.push(2, 1) })
}

// TestDependsOnWhatItSees: other token, depth or window, other logits; the same again, the same.
func TestDependsOnWhatItSees(t *testing.T) {
	run := func(depth, window int, tokens ...int) string {
		var next int32
		q := newLane(New(Options{}), depth, 64, &next)
		q.window = window
		var out []float32
		for pos, tok := range tokens {
			out = q.push(tok, pos)
		}
		return fmt.Sprint(out)
	}
	base := run(3, 0, 1, 2, 3)
	if run(3, 0, 1, 2, 3) != base || run(3, 9, 1, 2, 3) != base {
		t.Error("not a function of what it sees")
	}
	for i, other := range []string{run(2, 0, 1, 2, 3), run(3, 0, 7, 2, 3), run(3, 0, 1, 2, 4), run(3, 2, 1, 2, 3)} {
		if other == base {
			t.Errorf("variant %d changes nothing", i)
		}
	}
}

// TestScript: probabilities come out as written, the last step repeats, and a prompt that contains an earlier answer starts afresh.
func TestScript(t *testing.T) {
	m := New(Options{Vocab: 10, Answers: []Answer{
		{Prompt: []int32{1, 2}, Steps: []Step{{{ID: 7, P: 0.75}, {ID: 9, P: 0.125}}, {{ID: 3, P: 1}}}},
		{Steps: Say(4, 5, 6)},
	}})
	var next int32
	top := func(q *lane, want bool, pos int, tok int) int {
		rows := []model.Row{q.row(tok, pos)}
		rows[0].Want = want
		m.Enter(rows)
		for range q.depth {
			m.Turn(rows)
		}
		m.Leave(rows)
		if !want {
			return -1
		}
		best := 0
		for i, l := range m.Logits(0) {
			if l > m.Logits(0)[best] {
				best = i
			}
		}
		return best
	}
	q := newLane(m, 2, 32, &next)
	top(q, false, 0, 1)
	logits := q.push(2, 1)
	var sum float64
	for _, l := range logits {
		sum += math.Exp(float64(l))
	}
	if math.Abs(sum-1) > 1e-6 || math.Abs(math.Exp(float64(logits[7]))-0.75) > 1e-6 || math.Abs(math.Exp(float64(logits[0]))-0.125/8) > 1e-6 {
		t.Errorf("logits %v sum to %v", logits, sum)
	}
	if a, b := top(q, true, 2, 7), top(q, true, 3, 3); a != 3 || b != 3 {
		t.Errorf("then %d, %d", a, b)
	}
	q = newLane(m, 2, 32, &next)
	top(q, false, 0, 8)
	for i, want := range []int{4, 5, 6, 6} {
		if got := top(q, true, i+1, want); got != want {
			t.Errorf("step %d: %d", i, got)
		}
	}
	q = newLane(m, 2, 32, &next) // a second turn whose prompt is the first one's prompt and answer, and more
	for i, tok := range []int{8, 4, 4, 5, 1, 1} {
		top(q, false, i, tok)
	}
	if got := top(q, true, 6, 2); got != 4 {
		t.Errorf("a new prompt that contains an old answer begins with %d", got)
	}
}
