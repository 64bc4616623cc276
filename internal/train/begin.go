package train

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"tinyloop/internal/fault"
	"tinyloop/internal/model"
)

// beginning is where a run starts.
type beginning struct {
	params  []float32
	moments *moments
	what    string
}

// start finds the weights: those of the run that goes on, those that the recipe names, or fresh ones.
func (r *run) start() (*beginning, error) {
	if r.o.Resume {
		if list := checkpoints(r.o.Dir); len(list) > 0 {
			return r.goOn(list)
		}
		if err := r.beganOnly(); err != nil {
			return nil, err
		}
	}
	if from := r.cfg.Init.From; from != "" {
		return r.from(from)
	}
	var err error
	if r.spec, err = r.cfg.spec(r.o.Tokenizer.Size()); err != nil {
		return nil, err
	}
	if err := r.affordable(); err != nil {
		return nil, err
	}
	params, what := model.InitParams(r.spec, r.cfg.Seed), fmt.Sprintf("fresh weights of seed %d", r.cfg.Seed)
	if r.cfg.Model.Init == "induction" {
		r.spec.Induct(params)
		what += " with induction heads"
	}
	return &beginning{params: params, what: what}, nil
}

// beganOnly allows a run without a checkpoint to begin again if it was killed before its first one. Any other has lost its checkpoints, and beginning again would write
// over the weights that are left of it.
func (r *run) beganOnly() error {
	m := r.manifest
	parts, _ := filepath.Glob(filepath.Join(globSafe(r.o.Dir), checkpointFolder, "step-*"))
	every := m.Config.Save.Every
	if m.Status == Running && len(parts) == 0 && (every == 0 || m.Progress.Step < every) {
		return nil
	}
	return fault.New(fault.Invalid, "resume", "%s has no whole checkpoint, though the run came to step %d: to train on from weights that are left, name them by --from and another folder by -o", r.o.Dir, m.Progress.Step)
}

// goOn begins with the last checkpoint.
func (r *run) goOn(list []string) (*beginning, error) {
	base := list[len(list)-1]
	b, st, err := r.readCheckpoint(base)
	if err != nil {
		return nil, broken(list, err)
	}
	if l := &r.cfg.Loops; l.Max > r.spec.Loops.HardMax {
		return nil, fault.New(fault.Invalid, "loops.max", "loops.max must be at most %d, the most loops of the model, is %d", r.spec.Loops.HardMax, l.Max)
	}
	r.spec.Loops.TrainedMax = max(r.spec.Loops.TrainedMax, r.cfg.Loops.Max)
	if err := r.affordable(); err != nil {
		return nil, err
	}
	r.st, r.saved, r.parent = *st, st.Step, r.manifest.Parent
	b.what = fmt.Sprintf("goes on from step %d", st.Step)
	return b, nil
}

// BrokenCheckpoint explains err, met in reading the last checkpoint of the run in dir, and says what to do about it.
func BrokenCheckpoint(dir string, err error) error { return broken(checkpoints(dir), err) }

// broken says what to do about a last checkpoint that cannot be read: bytes of a disk go bad, though no kill leaves half a file.
func broken(list []string, err error) error {
	base := list[len(list)-1]
	if len(list) < 2 {
		return fault.New(fault.Invalid, "resume", "the only checkpoint, %s, cannot be used: %v", base, err)
	}
	return fault.New(fault.Invalid, "resume", "the last checkpoint cannot be used: %v. To go on from %s, remove %s.*", err, filepath.Base(list[len(list)-2]), base)
}

// readCheckpoint reads weights and state, and sets the Spec.
func (r *run) readCheckpoint(base string) (*beginning, *state, error) {
	spec, params, hash, err := readModel(base + modelSuffix)
	if err != nil {
		return nil, nil, err
	}
	st, m, err := readState(base+stateSuffix, hash)
	if err != nil {
		return nil, nil, err
	}
	r.spec = spec
	return &beginning{params: params, moments: &m}, &st, nil
}

// from begins with the weights of a run, of a checkpoint, or of any model. Of a run, or with Warm, the moments come along, and the averaged weights
// are what the new run begins with.
func (r *run) from(path string) (*beginning, error) {
	base := path
	if list := checkpoints(path); len(list) > 0 {
		base = list[len(list)-1] + modelSuffix
	}
	spec, params, hash, err := readModel(base)
	if err != nil {
		return nil, err
	}
	if err := checkSame(base, r.o.Tokenizer); err != nil {
		return nil, err
	}
	r.spec, r.parent = spec, hash
	r.cfg.keepLoops(spec)
	if err := r.affordable(); err != nil {
		return nil, err
	}
	b := &beginning{params: params, what: "weights of " + path}
	ext := filepath.Ext(base)
	st, m, err := readState(base[:len(base)-len(ext)]+stateSuffix, hash)
	if err != nil {
		if _, serr := os.Stat(base[:len(base)-len(ext)] + stateSuffix); serr == nil {
			return nil, err
		}
		return b, nil // a model without moments
	}
	if len(m.average) == len(params) {
		b.params = m.average
	}
	if r.cfg.Init.Warm {
		m.average = slices.Clone(b.params)
		r.st.Updates = st.Updates
		b.moments = &m
		b.what += fmt.Sprintf(" and its moments after %d steps", st.Updates)
	}
	return b, nil
}
