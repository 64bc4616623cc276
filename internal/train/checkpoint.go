package train

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
	"tinyloop/internal/tensorfile"
)

// A checkpoint is two files: step-00000120.tinyloop, the weights as they are trained (not averaged), and step-00000120.state, everything else that a
// run needs to go on as if it had never stopped. The second is written last and states the hash of the first: without it there is no checkpoint.
const (
	checkpointFolder = "checkpoints"
	stateSuffix      = ".state"
	modelSuffix      = ".tinyloop"
	keyState         = "training.state"
	keySum           = "training.sha256" // of the moments
)

// state is what a run knows besides its weights and moments.
type state struct {
	Step       int           `json:"step"`    // steps done
	Updates    int           `json:"updates"` // of the optimizer, those of the run that the moments come from included
	Elapsed    time.Duration `json:"elapsed_ns"`
	Tokens     int64         `json:"tokens"`
	Work       float64       `json:"flops"`
	Level      int           `json:"level"`       // of the curriculum
	LevelSince int           `json:"level_since"` // step at which it was reached
	Norm       float64       `json:"norm_mean"`   // running mean of the gradient's norm
	Skipped    int           `json:"skipped"`
	InRow      int           `json:"skipped_in_row"`
	Best       float64       `json:"best_bpb"` // 0 = none yet
	BestStep   int           `json:"best_step"`
	Evaluated  int           `json:"evaluated"` // step of the last evaluation
	Weights    string        `json:"weights"`   // hash of the file beside
	// Unsettled: the run was stopped before it had done what follows this step, its look at the curriculum or its evaluation.
	Unsettled bool `json:"unsettled,omitempty"`
}

func checkpointPath(dir string, step int) string {
	return filepath.Join(dir, checkpointFolder, fmt.Sprintf("step-%08d", step))
}

// writeCheckpoint writes both files and removes all but the last keep. After an error neither is there.
func writeCheckpoint(dir string, id *identity, t *trainer, st state, keep int) (base string, err error) {
	defer func() {
		if err != nil {
			os.Remove(checkpointPath(dir, st.Step) + modelSuffix)
		}
	}()
	base, err = writeFiles(dir, id, t, st)
	if err == nil {
		prune(dir, keep)
	}
	return base, err
}

func writeFiles(dir string, id *identity, t *trainer, st state) (string, error) {
	base := checkpointPath(dir, st.Step)
	if err := os.MkdirAll(filepath.Dir(base), 0o777); err != nil {
		return "", fault.New(fault.Invalid, "out", "%v", err)
	}
	if err := id.writeModel(base+modelSuffix, t.spec, t.params); err != nil {
		return "", err
	}
	hash, err := statedHash(base + modelSuffix)
	if err != nil {
		return "", err
	}
	st.Weights = hash
	text, err := json.Marshal(st)
	if err != nil {
		return "", err
	}
	first, second := t.opt.State()
	sources := []tensorfile.Source{floats("first", []int{len(first)}, first)}
	if len(second) > 0 {
		sources = append(sources, floats("second", []int{len(second)}, second))
	}
	if t.ema != nil {
		sources = append(sources, floats("average", []int{len(t.ema)}, t.ema))
	}
	h := sha256.New()
	for _, s := range sources {
		s.WriteTo(h) // into memory
	}
	meta := []tensorfile.KV{{Key: "general.architecture", Value: "tinyloop-training"}, {Key: keyState, Value: string(text)}, {Key: keySum, Value: hex.EncodeToString(h.Sum(nil))}}
	if err := tensorfile.Write(base+stateSuffix, meta, sources); err != nil {
		return "", err
	}
	return base, nil
}

func statedHash(path string) (string, error) {
	f, err := tensorfile.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash, _ := f.Meta.String("tinyloop.hash")
	return hash, nil
}

// checkpoints lists the whole ones of a run, the oldest first, without their endings.
func checkpoints(dir string) []string {
	names, _ := filepath.Glob(filepath.Join(globSafe(dir), checkpointFolder, "step-*"+stateSuffix))
	slices.Sort(names)
	var out []string
	for _, n := range names {
		base := strings.TrimSuffix(n, stateSuffix)
		if _, err := os.Stat(base + modelSuffix); err == nil {
			out = append(out, base)
		}
	}
	return out
}

// globSafe takes the signs of a pattern in a folder's name for themselves.
func globSafe(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}

// prune removes old checkpoints, the state first. What cannot be removed stays.
func prune(dir string, keep int) {
	list := checkpoints(dir)
	for _, base := range list[:max(len(list)-keep, 0)] {
		os.Remove(base + stateSuffix)
		os.Remove(base + modelSuffix)
	}
}

// sweep removes what a kill during a save left: temporary files, and weights whose state was never written. Only who holds the folder may do it.
func sweep(dir string) {
	tensorfile.Sweep(dir)
	tensorfile.Sweep(filepath.Join(dir, checkpointFolder))
	names, _ := filepath.Glob(filepath.Join(globSafe(dir), checkpointFolder, "step-*"+modelSuffix))
	for _, n := range names {
		if _, err := os.Stat(strings.TrimSuffix(n, modelSuffix) + stateSuffix); errors.Is(err, fs.ErrNotExist) {
			os.Remove(n)
		}
	}
}

// moments are the values of a .state file; average is nil where there is none.
type moments struct{ first, second, average []float32 }

// readState reads a .state file; weights is the hash that the file beside it states.
func readState(path, weights string) (state, moments, error) {
	var st state
	var m moments
	f, err := tensorfile.Open(path)
	if err != nil {
		return st, m, err
	}
	defer f.Close()
	text, _ := f.Meta.String(keyState)
	if err := json.Unmarshal([]byte(text), &st); err != nil {
		return st, m, fault.New(fault.Invalid, "resume", "%s: holds no state of training: %s", path, fault.JSONText(err))
	}
	if st.Weights != weights {
		return st, m, fault.New(fault.Invalid, "resume", "%s belongs to weights of hash %.24s, those beside it have %.24s", path, st.Weights, weights)
	}
	for _, p := range []struct {
		name string
		to   *[]float32
	}{{"first", &m.first}, {"second", &m.second}, {"average", &m.average}} {
		if err := f.Guard(func() error { return readFloats(f, p.name, p.to) }); err != nil {
			return st, m, err
		}
	}
	if want, ok := f.Meta.String(keySum); ok && m.sum() != want {
		return st, m, fault.New(fault.Invalid, "resume", "%s is damaged: its values are not those that were written", path)
	}
	return st, m, st.check(path)
}

// sum is the SHA-256 of the values as they are written.
func (m *moments) sum() string {
	h := sha256.New()
	for _, x := range [][]float32{m.first, m.second, m.average} {
		floats("", nil, x).WriteTo(h) // into memory
	}
	return hex.EncodeToString(h.Sum(nil))
}

// check refuses what no run writes.
func (st *state) check(path string) error {
	if st.Step < 0 || st.Step > mostSteps || st.Updates < 0 || st.Updates > mostUpdates || st.Elapsed < 0 || st.Level < 0 || st.Level > 1000 || st.Evaluated > st.Step {
		return fault.New(fault.Invalid, "resume", "%s: holds no state of training: step %d, %d updates, level %d, evaluated at %d", path, st.Step, st.Updates, st.Level, st.Evaluated)
	}
	return nil
}

// The most steps of a run, and of those before it whose moments it has.
const (
	mostSteps   = 99_999_999 // eight digits: checkpoints are found in the order of their names
	mostUpdates = 1 << 40
)

func readFloats(f *tensorfile.File, name string, to *[]float32) error {
	t, ok := f.Tensor(name)
	if !ok {
		return nil
	}
	if err := t.Usable(); err != nil {
		return err
	}
	if t.Type != kernel.F32 {
		return fault.New(fault.Invalid, "resume", "%s: tensor %s has the format %s, expected f32", f.Path, name, t.TypeName())
	}
	*to = make([]float32, t.Len())
	kernel.Dequantize(*to, kernel.F32, t.Data)
	return nil
}

// restore puts moments back. Sizes that differ mean another model or recipe.
func (t *trainer) restore(m *moments) error {
	first, second := t.opt.State()
	if len(m.first) != len(first) || len(m.second) != len(second) {
		return fault.New(fault.Invalid, "resume", "the saved moments have %d and %d values, the recipe's optimizer %d and %d", len(m.first), len(m.second), len(first), len(second))
	}
	copy(first, m.first)
	copy(second, m.second)
	if t.ema != nil {
		switch len(m.average) {
		case 0: // the saved run had no average: it begins with the weights
		case len(t.ema):
			copy(t.ema, m.average)
		default:
			return fault.New(fault.Invalid, "resume", "the saved average has %d values, the model %d", len(m.average), len(t.ema))
		}
	}
	return nil
}

// LastCheckpoint gives the weights of a run's last checkpoint; ok is false when it has none.
func LastCheckpoint(dir string) (path string, ok bool) {
	list := checkpoints(dir)
	if len(list) == 0 {
		return "", false
	}
	return list[len(list)-1] + modelSuffix, true
}
