package eval

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"tinyloop/internal/fault"
)

// Gate is one thing that a looped model must show.
type Gate struct {
	Name   string  `json:"name"`
	What   string  `json:"what"`
	Limit  float64 `json:"limit"`
	Value  float64 `json:"value"`
	Status Status  `json:"status"`
	Detail string  `json:"detail,omitempty"` // where the value stands, or what is missing
}

// Status of a gate.
type Status string

const (
	Pass        Status = "pass"
	Fail        Status = "fail"
	NotMeasured Status = "not measured"
)

// Thresholds are the numbers that the gates compare with. Shares and points are fractions of one.
type Thresholds map[string]float64

// DefaultThresholds are the project's own.
func DefaultThresholds() Thresholds {
	return Thresholds{
		"g1.hops":         4,    // chains of 1 … so many hops
		"g1.accuracy":     0.90, // at least, with as many loops as hops or more
		"g1.above_chance": 0.15, // at most, with one loop on the longest of them
		"g2.low":          2,
		"g2.high":         8,
		"g2.gain":         0.25, // of the mean over chain and arith from low to high loops
		"g3.base":         8,
		"g3.deep":         16,
		"g3.loss":         0.05, // at most, of any family from base to deep loops
		"g4.controls":     2,    // other models with the same budget that are shown beside it
		"g5.bits":         0.01, // at most, int8 over f32, bits a byte
		"g5.points":       0.01, // at most, of any family
		"g6.exact":        0.95,
		"g6.refused":      0.90,
		"g6.false":        0.05,
	}
}

// With replaces some of the numbers.
func (t Thresholds) With(changes map[string]float64) (Thresholds, error) {
	out := maps.Clone(t)
	for _, k := range slices.Sorted(maps.Keys(changes)) {
		if _, ok := t[k]; !ok {
			return nil, fault.New(fault.Invalid, "gate", "there is no threshold %q; there are %s", k, strings.Join(slices.Sorted(maps.Keys(t)), ", "))
		}
		if v := changes[k]; math.IsNaN(v) || v < 0 || v > 1000 {
			return nil, fault.New(fault.Invalid, "gate", "the threshold %s is %g, expected 0 to 1000", k, v)
		}
		out[k] = changes[k]
	}
	return out, nil
}

// slack keeps a difference of exactly the limit from failing by rounding.
const slack = 1e-9

func atLeast(g *Gate) Status { return status(g.Value >= g.Limit-slack) }
func atMost(g *Gate) Status  { return status(g.Value <= g.Limit+slack) }

func status(ok bool) Status {
	if ok {
		return Pass
	}
	return Fail
}

// Check measures the report against the thresholds and puts the gates into it.
func (r *Report) Check(t Thresholds) []Gate {
	r.Gates = nil
	if len(r.Models) == 0 {
		return nil
	}
	r.staircase(t)
	r.gain(t)
	r.stability(t)
	r.controls(t)
	r.quantised(t)
	r.conversation(t)
	return r.Gates
}

// Failed says whether a gate has failed or was not measured.
func (r *Report) Failed() bool {
	return slices.ContainsFunc(r.Gates, func(g Gate) bool { return g.Status != Pass })
}

func (r *Report) gate(g Gate, judge func(*Gate) Status) {
	if g.Status != NotMeasured {
		g.Status = judge(&g)
	}
	r.Gates = append(r.Gates, g)
}

// trained gives the set in which the chains of the gates stand: the first that has some of the longest asked for.
func (r *Report) trained(hops int) string {
	for _, in := range r.Inputs {
		if slices.Contains(r.groupsOf(in.Set), Group{in.Set, "chain", hops}) {
			return in.Set
		}
	}
	return ""
}

// staircase is G1: a chain of h hops is solved with h loops, and not with one.
func (r *Report) staircase(t Thresholds) {
	hops := int(t["g1.hops"])
	up := Gate{Name: "G1", What: fmt.Sprintf("chains of 1 to %d hops, loops at least the hops: the worst accuracy", hops), Limit: t["g1.accuracy"], Value: 2}
	down := Gate{Name: "G1", What: fmt.Sprintf("chains of %d hops, one loop: accuracy above chance", hops), Limit: t["g1.above_chance"]}
	set := r.trained(hops)
	for _, l := range r.Main().Levels {
		for _, x := range l.Tasks {
			if x.Set != set || x.Family != "chain" || x.Difficulty < 1 || x.Difficulty > hops {
				continue
			}
			if l.Loops >= x.Difficulty && x.Rate < up.Value {
				up.Value, up.Detail = x.Rate, fmt.Sprintf("%s: %d hops at %s, %d of %d", set, x.Difficulty, times(l.Loops), x.K, x.N)
			}
			if l.Loops == 1 && x.Difficulty == hops {
				down.Value, down.Detail = x.Rate-x.Chance, fmt.Sprintf("%s: %d of %d, chance %.1f %%", set, x.K, x.N, 100*x.Chance)
			}
		}
	}
	if up.Detail == "" {
		up.miss("no chains of %d hops among the questions", hops)
	}
	if down.Detail == "" {
		down.miss("no chains of %d hops at one loop", hops)
	}
	r.gate(up, atLeast)
	r.gate(down, atMost)
}

func (g *Gate) miss(format string, args ...any) {
	g.Status, g.Value, g.Detail = NotMeasured, 0, fmt.Sprintf(format, args...)
}

// Mean gives the mean accuracy over chain and arith in a set; ok is false where one is missing.
func (l *Level) Mean(set string) (mean float64, ok bool) {
	chain, arith := l.Family(set, "chain"), l.Family(set, "arith")
	return (chain.Rate + arith.Rate) / 2, chain.N > 0 && arith.N > 0
}

// gain is G2: more loops, more right answers.
func (r *Report) gain(t Thresholds) {
	lo, hi := int(t["g2.low"]), int(t["g2.high"])
	g := Gate{Name: "G2", What: fmt.Sprintf("mean over chain and arith: gain from %d to %d loops", lo, hi), Limit: t["g2.gain"]}
	set := r.trained(int(t["g1.hops"]))
	a, b := r.Main().At(lo), r.Main().At(hi)
	if a == nil || b == nil {
		g.miss("needs %d and %d loops", lo, hi)
		r.gate(g, atLeast)
		return
	}
	x, ok := a.Mean(set)
	y, ok2 := b.Mean(set)
	if g.Value, g.Detail = y-x, fmt.Sprintf("%s: %.1f %% to %.1f %%", set, 100*x, 100*y); !ok || !ok2 {
		g.miss("no chain and arith among the questions")
	}
	r.gate(g, atLeast)
}

// stability is G3: twice the loops of training lose nothing.
func (r *Report) stability(t Thresholds) {
	base, deep := int(t["g3.base"]), int(t["g3.deep"])
	g := Gate{Name: "G3", What: fmt.Sprintf("most that a family loses from %d to %d loops", base, deep), Limit: t["g3.loss"], Value: -2}
	a, b := r.Main().At(base), r.Main().At(deep)
	if a == nil || b == nil {
		g.miss("needs %d and %d loops", base, deep)
		r.gate(g, atMost)
		return
	}
	r.worst(&g, a, b)
	if g.Detail == "" {
		g.miss("no questions")
	}
	r.gate(g, atMost)
}

// worst finds the family that loses most from a to b.
func (r *Report) worst(g *Gate, a, b *Level) {
	for _, in := range r.Inputs {
		for _, f := range r.familiesOf(in.Set) {
			x, y := a.Family(in.Set, f), b.Family(in.Set, f)
			if d := x.Rate - y.Rate; x.N > 0 && y.N > 0 && d > g.Value {
				g.Value, g.Detail = d, fmt.Sprintf("%s %s: %.1f %% to %.1f %% at %s", in.Set, f, 100*x.Rate, 100*y.Rate, times(b.Loops))
			}
		}
	}
}

// controls is G4: models with the same budget stand beside it. It passes when they are shown, whatever they say.
func (r *Report) controls(t Thresholds) {
	g := Gate{Name: "G4", What: "controls with the same budget that are shown", Limit: t["g4.controls"]}
	set := r.trained(int(t["g1.hops"]))
	var parts []string
	for _, m := range r.Models {
		l := m.usual()
		if m.Role != Control && m != r.Main() || l == nil {
			continue
		}
		if m.Role == Control {
			g.Value++
		}
		if mean, ok := l.Mean(set); ok {
			parts = append(parts, fmt.Sprintf("%s at %s %.1f %%", m.Name, times(l.Loops), 100*mean))
		}
	}
	g.Detail = strings.Join(parts, ", ")
	if g.Value == 0 {
		g.miss("no control was named")
	}
	r.gate(g, atLeast)
}

// usual gives the level of the default depth, else the deepest one.
func (m *Model) usual() *Level {
	if l := m.At(m.Loops.Default); l != nil {
		return l
	}
	if len(m.Levels) == 0 {
		return nil
	}
	return m.Levels[len(m.Levels)-1]
}

// quantised is G5: int8 is as good as f32 at every number of loops.
func (r *Report) quantised(t Thresholds) {
	bits := Gate{Name: "G5", What: "int8 over f32: most bits per byte lost at any depth", Limit: t["g5.bits"], Value: -1e9}
	points := Gate{Name: "G5", What: "int8 over f32: most that a family loses at any depth", Limit: t["g5.points"], Value: -2}
	full, small := r.byQuant("f32"), r.byQuant("q8_0")
	if full == nil || small == nil {
		bits.miss("needs the same model in f32 and in q8_0")
		points.miss("needs the same model in f32 and in q8_0")
		r.gate(bits, atMost)
		r.gate(points, atMost)
		return
	}
	for _, a := range full.Levels {
		b := small.At(a.Loops)
		if b == nil {
			continue
		}
		r.worst(&points, a, b)
		for _, in := range r.Inputs {
			x, y := a.Total(in.Set), b.Total(in.Set)
			if d := y.BPB - x.BPB; x.Bytes > 0 && y.Bytes > 0 && d > bits.Value {
				bits.Value, bits.Detail = d, fmt.Sprintf("%s: %.4f to %.4f at %s", in.Set, x.BPB, y.BPB, times(a.Loops))
			}
		}
	}
	if bits.Detail == "" {
		bits.miss("no loss was measured")
	}
	if points.Detail == "" {
		points.miss("no questions")
	}
	r.gate(bits, atMost)
	r.gate(points, atMost)
}

// byQuant gives the model itself or its like in another format.
func (r *Report) byQuant(name string) *Model {
	for _, m := range r.Models {
		if m.Role != Control && strings.EqualFold(m.Quant, name) {
			return m
		}
	}
	return nil
}

// conversation is G6, at the default depth.
func (r *Report) conversation(t Thresholds) {
	exact := Gate{Name: "G6", What: "acceptance questions and their paraphrases: exact", Limit: t["g6.exact"]}
	refused := Gate{Name: "G6", What: "questions without an answer: refused", Limit: t["g6.refused"]}
	wrong := Gate{Name: "G6", What: "questions with an answer: refused", Limit: t["g6.false"]}
	l := r.Main().usual()
	if l == nil {
		l = &Level{}
	}
	if s := l.Pool(func(g Group) bool { return g.Family == "acceptance" }); s.N > 0 {
		exact.Value, exact.Detail = s.Rate, fmt.Sprintf("%d of %d at %s", s.K, s.N, times(l.Loops))
	} else {
		exact.miss("no acceptance set")
	}
	i := slices.IndexFunc(l.Refusals, func(x Refusal) bool { return x.Set == "refusals" })
	if i < 0 || l.Refusals[i].Known == 0 {
		refused.miss("no set called refusals")
		wrong.miss("no set called refusals")
	} else {
		x := l.Refusals[i]
		refused.Value, refused.Detail = rate(x.Refused, x.Unknown), fmt.Sprintf("%d of %d at %s", x.Refused, x.Unknown, times(l.Loops))
		wrong.Value, wrong.Detail = rate(x.False, x.Known), fmt.Sprintf("%d of %d at %s", x.False, x.Known, times(l.Loops))
	}
	r.gate(exact, atLeast)
	r.gate(refused, atLeast)
	r.gate(wrong, atMost)
}

func rate(k, n int) float64 {
	if n == 0 {
		return 0
	}
	return float64(k) / float64(n)
}

// times is a number of loops in words.
func times(loops int) string {
	if loops == 1 {
		return "1 loop"
	}
	return strconv.Itoa(loops) + " loops"
}
