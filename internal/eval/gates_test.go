package eval

import (
	"math"
	"testing"
)

// level makes a level of shares out of 100.
func level(loops int, rights map[Group]int, bpb float64) *Level {
	l := &Level{Loops: loops, Complete: true}
	for g, k := range rights {
		l.Tasks = append(l.Tasks, Task{share(g, k, 100), 0.2})
	}
	if bpb > 0 {
		l.Loss = []Loss{loss(lossKey{"valid", "chain/1"}, &tally{docs: 1, tokens: 100, bytes: 1000, nats: bpb * 1000 * ln2})}
	}
	return l
}

func g(family string, d int) Group { return Group{"valid", family, d} }

// staircase is a report of a model that passes everything with nothing to spare.
func staircase() *Report {
	shallow := map[Group]int{g("chain", 1): 95, g("chain", 2): 50, g("chain", 3): 35, g("chain", 4): 35, g("arith", 1): 40, g("acceptance", 0): 50}
	two := map[Group]int{g("chain", 1): 95, g("chain", 2): 95, g("chain", 3): 40, g("chain", 4): 40, g("arith", 1): 50, g("acceptance", 0): 90}
	full := map[Group]int{g("chain", 1): 100, g("chain", 2): 95, g("chain", 3): 90, g("chain", 4): 90, g("arith", 1): 75, g("acceptance", 0): 95}
	deep := map[Group]int{g("chain", 1): 100, g("chain", 2): 95, g("chain", 3): 90, g("chain", 4): 90, g("arith", 1): 70, g("acceptance", 0): 95}
	m := &Model{Name: "m", Role: Main, Quant: "f32", Levels: []*Level{level(1, shallow, 1.2), level(2, two, 1.1), level(8, full, 1), level(16, deep, 1.02)}}
	m.Loops.Default = 8
	for _, l := range m.Levels {
		l.Refusals = []Refusal{{Set: "refusals", Unknown: 100, Refused: 90, Known: 100, False: 5}}
	}
	full2 := map[Group]int{}
	for k, v := range full {
		full2[k] = v
	}
	full2[g("arith", 1)] = 74
	q := &Model{Name: "m q8_0", Role: Typed, Quant: "q8_0", Levels: []*Level{level(8, full2, 1.01)}}
	c := &Model{Name: "flat", Role: Control, Quant: "f32", Levels: []*Level{level(1, shallow, 1.2)}}
	d := &Model{Name: "wide", Role: Control, Quant: "f32", Levels: []*Level{level(1, two, 1.2)}}
	return &Report{Format: Format, Complete: true, Inputs: []Input{{Set: "valid", Docs: 5, Questions: 5}}, Models: []*Model{m, q, c, d}}
}

// The mean of chain and arith grows from (67.5+50)/2 to (93.75+75)/2: 25.6 points.
func TestGatesPass(t *testing.T) {
	r := staircase()
	for _, x := range r.Check(DefaultThresholds()) {
		if x.Status != Pass {
			t.Errorf("%s %s: %s, %g against %g (%s)", x.Name, x.What, x.Status, x.Value, x.Limit, x.Detail)
		}
	}
	if len(r.Gates) != 10 || r.Failed() {
		t.Errorf("%d gates, failed %v", len(r.Gates), r.Failed())
	}
}

// TestGatesFail spoils one number at a time, and expects one gate to fail with the number that it was.
func TestGatesFail(t *testing.T) {
	set := func(r *Report, model, loops int, x Group, k int) {
		for i := range r.Models[model].At(loops).Tasks {
			if c := &r.Models[model].At(loops).Tasks[i]; c.Group == x {
				c.Share = share(x, k, 100)
			}
		}
	}
	for name, c := range map[string]struct {
		spoil func(*Report)
		gate  int
		value float64
	}{
		"a step is missing": {func(r *Report) { set(r, 0, 16, g("chain", 3), 89) }, 0, 0.89},
		"one loop does it":  {func(r *Report) { set(r, 0, 1, g("chain", 4), 36) }, 1, 0.16},
		"loops do nothing":  {func(r *Report) { set(r, 0, 2, g("arith", 1), 52) }, 2, (0.9375+0.75)/2 - (0.675+0.52)/2},
		"deep is worse":     {func(r *Report) { set(r, 0, 16, g("arith", 1), 69) }, 3, 0.06},
		"no control":        {func(r *Report) { r.Models = r.Models[:3] }, 4, 1},
		"int8 loses bits": {func(r *Report) {
			r.Models[1].Levels[0].Loss[0] = loss(lossKey{"valid", "chain/1"}, &tally{docs: 1, tokens: 100, bytes: 1000, nats: 1011 * ln2})
		}, 5, 0.011},
		"int8 loses points": {func(r *Report) { set(r, 1, 8, g("arith", 1), 73) }, 6, 0.02},
		"wrong first answers": {func(r *Report) {
			set(r, 0, 8, g("acceptance", 0), 94)
			set(r, 0, 16, g("acceptance", 0), 94)
			set(r, 1, 8, g("acceptance", 0), 94)
		}, 7, 0.94},
		"knows too much":   {func(r *Report) { r.Models[0].At(8).Refusals[0].Refused = 89 }, 8, 0.89},
		"refuses too much": {func(r *Report) { r.Models[0].At(8).Refusals[0].False = 6 }, 9, 0.06},
	} {
		t.Run(name, func(t *testing.T) {
			r := staircase()
			c.spoil(r)
			for i, x := range r.Check(DefaultThresholds()) {
				if want := map[bool]Status{true: Fail, false: Pass}[i == c.gate]; x.Status != want {
					t.Errorf("gate %d, %s: %s with %g (%s)", i, x.What, x.Status, x.Value, x.Detail)
				}
				if i == c.gate && math.Abs(x.Value-c.value) > 1e-9 {
					t.Errorf("gate %d: value %g, want %g", i, x.Value, c.value)
				}
			}
			if !r.Failed() {
				t.Error("the report has not failed")
			}
		})
	}
}

func TestGatesMissing(t *testing.T) {
	r := &Report{Models: []*Model{{Name: "m", Levels: []*Level{{Loops: 1}}}}}
	for _, x := range r.Check(DefaultThresholds()) {
		if x.Status != NotMeasured || x.Detail == "" {
			t.Errorf("%s %s: %s %q", x.Name, x.What, x.Status, x.Detail)
		}
	}
	if !r.Failed() {
		t.Error("what was not measured counts as passed")
	}
}

func TestThresholds(t *testing.T) {
	x, err := DefaultThresholds().With(map[string]float64{"g1.hops": 3})
	if err != nil || x["g1.hops"] != 3 || DefaultThresholds()["g1.hops"] != 4 {
		t.Errorf("%v, %v", x, err)
	}
	for _, bad := range []map[string]float64{{"g9": 1}, {"g1.hops": -1}, {"g1.hops": math.NaN()}} {
		if _, err := DefaultThresholds().With(bad); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}
