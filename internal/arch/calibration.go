package arch

import (
	"encoding/binary"
	"io"
	"slices"

	"tinyloop/internal/kernel"
	"tinyloop/internal/tensorfile"
)

// Where a .tinyloop file states its calibration. The keys of exits are columns of one table.
const (
	keyExitRule      = "tinyloop.calibration.exit.rule"
	keyExitThreshold = "tinyloop.calibration.exit.threshold"
	keyExitLoops     = "tinyloop.calibration.exit.loops"
	keyExitAgreement = "tinyloop.calibration.exit.agreement"
)

// ExitPoint is what an early exit by one rule was worth on the text of a calibration.
type ExitPoint struct {
	Rule      string  // as in a request's exit.rule
	Threshold float32 //
	Loops     float32 // mean passes a position made
	Agreement float32 // share of positions whose most probable token is that of the default depth
}

// Calibration is what has been measured of a model's depths.
type Calibration struct {
	Agreement []float32 // see Info
	Exits     []ExitPoint
}

func (c *Calibration) keys() []tensorfile.KV {
	keys := []tensorfile.KV{{Key: keyAgreement, Value: c.Agreement}}
	if len(c.Exits) == 0 {
		return keys
	}
	rules, columns := make([]string, len(c.Exits)), [3][]float32{}
	for i, x := range c.Exits {
		rules[i] = x.Rule
		for k, v := range [...]float32{x.Threshold, x.Loops, x.Agreement} {
			columns[k] = append(columns[k], v)
		}
	}
	return append(keys, tensorfile.KV{Key: keyExitRule, Value: rules}, tensorfile.KV{Key: keyExitThreshold, Value: columns[0]},
		tensorfile.KV{Key: keyExitLoops, Value: columns[1]}, tensorfile.KV{Key: keyExitAgreement, Value: columns[2]})
}

// exitsOf reads the table of exits; columns of unequal length are none.
func exitsOf(m *tensorfile.Meta) []ExitPoint {
	rules, _ := m.Strings(keyExitRule)
	threshold, _ := m.Floats(keyExitThreshold)
	loops, _ := m.Floats(keyExitLoops)
	agreement, _ := m.Floats(keyExitAgreement)
	if len(threshold) != len(rules) || len(loops) != len(rules) || len(agreement) != len(rules) {
		return nil
	}
	var out []ExitPoint
	for i, r := range rules {
		out = append(out, ExitPoint{r, threshold[i], loops[i], agreement[i]})
	}
	return out
}

// Gate is the exit gate of a model: sigmoid(Weight . s + Bias) of a state s is the probability of leaving after its pass (Ouro, arXiv 2510.25741).
type Gate struct {
	Weight []float32 // [Dim]
	Bias   float32
}

// Calibrate writes the model of in, a .tinyloop file, to out with another calibration and, unless gate is nil, another exit gate; everything else is the
// same bytes. out may be the file that in was opened from: it is replaced whole or not at all.
func Calibrate(in *tensorfile.File, out string, c Calibration, gate *Gate) error {
	if a, _ := in.Meta.String("general.architecture"); a != "tinyloop" {
		return unsupported("general.architecture", "a calibration is kept by .tinyloop files only: convert the model first")
	}
	if len(c.Agreement) == 0 {
		return invalid(keyAgreement, "the calibration is empty")
	}
	var meta []tensorfile.KV
	old := []string{keyAgreement, keyExitRule, keyExitThreshold, keyExitLoops, keyExitAgreement}
	if gate != nil {
		old = append(old, keyHash, keyGate)
	}
	for _, kv := range in.Meta.KVs() {
		if !slices.Contains(old, kv.Key) {
			meta = append(meta, kv)
		}
	}
	var tensors []tensorfile.Source
	for _, t := range in.Tensors() {
		if gate != nil && (t.Name == gateWeight || t.Name == gateBias) {
			continue
		}
		tensors = append(tensors, stored(t.Name, t.Type, t.Shape, t.Stored()))
	}
	if gate != nil {
		tensors = append(tensors, vector(gateWeight, gate.Weight), vector(gateBias, []float32{gate.Bias}))
		sum, err := hash(tensors)
		if err != nil {
			return err
		}
		meta = append(meta, tensorfile.KV{Key: keyGate, Value: true}, tensorfile.KV{Key: keyHash, Value: sum})
	}
	return tensorfile.Write(out, append(meta, c.keys()...), tensors)
}

// Names of the exit gate in a .tinyloop file: its tensors stand last, as in the order of model.Weights.Slots.
const (
	keyGate    = "tinyloop.exit_gate"
	gateWeight = "exit_gate.weight"
	gateBias   = "exit_gate.bias"
)

func stored(name string, typ kernel.Type, shape []int, bytes []byte) tensorfile.Source {
	return tensorfile.Source{Name: name, Type: typ, Shape: shape, WriteTo: func(w io.Writer) error {
		_, err := w.Write(bytes)
		return err
	}}
}

func vector(name string, v []float32) tensorfile.Source {
	return tensorfile.Source{Name: name, Type: kernel.F32, Shape: []int{len(v)}, WriteTo: func(w io.Writer) error {
		return binary.Write(w, binary.LittleEndian, v)
	}}
}
