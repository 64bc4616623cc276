package arch

import (
	"runtime"
	"sync"
	"sync/atomic"

	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// Options say how a file is loaded.
type Options struct {
	Loop Range // a range of layers to loop over, in a model that has no loop; the zero Range leaves the model as it is
}

// Load reads the Spec and the weights of any supported file, which may be closed after. Weights that are no finite numbers are refused by the tensor's name:
// such a model answers nothing. The model keeps nothing of f, except of a .tinyloop file in panels: its matrices are the file's own pages, taken as they are,
// and stay mapped until the model is closed.
func Load(f *tensorfile.File) (*model.Model, error) { return LoadWith(f, Options{}) }

// Memory reads the Spec, and how many bytes of memory the matrices will take: none where they are served from the file, whose pages the system takes back
// when it needs them.
func Memory(f *tensorfile.File, o Options) (*model.Spec, int64, error) {
	found, err := identify(f, o.Loop)
	if err != nil {
		return nil, 0, err
	}
	slots := new(model.Weights).Slots(&found.spec)
	weights, err := found.bind(f, slots)
	if err != nil {
		return nil, 0, err
	}
	total := int64(0)
	for i := range slots {
		s, w := &slots[i], &weights[i]
		shape := kernel.Shape{Source: w.tensor.Type, N: s.N, K: s.K}
		if s.Matrix != nil && w.tensor.Panels == nil && shape.Check() == nil {
			total += int64(shape.PanelBytes())
		}
	}
	return &found.spec, total, nil
}

// LoadWith is Load with options.
func LoadWith(f *tensorfile.File, o Options) (*model.Model, error) {
	found, err := identify(f, o.Loop)
	if err != nil {
		return nil, err
	}
	w := &model.Weights{}
	slots := w.Slots(&found.spec)
	weights, err := found.bind(f, slots)
	if err != nil {
		return nil, err
	}
	if err := fill(f, slots, weights); err != nil {
		w.Free(&found.spec)
		return nil, err
	}
	m, err := model.New(found.spec, w)
	if err != nil {
		w.Free(&found.spec)
	}
	return m, err
}

const (
	jobBytes  = 2 << 20   // about what one job repacks of a file
	stepBytes = 128 << 10 // about what is checked, and then repacked while it is in the cache
)

// job is rows [from, to) of the tensor of a slot.
type job struct {
	slot, from, to int
	whole          bool // the tensor is no matrix, or cannot be taken in parts
}

// fill repacks all tensors, on all processors. Pages of f that are lost on the way are an error: every job reads under a guard of its own.
//
// The file's pages of a job are given back as soon as it is done, so that a load needs the memory of the model and of the jobs in work, not twice that of the
// model.
func fill(f *tensorfile.File, slots []model.Slot, weights []weight) error {
	if err := allocate(f, slots, weights); err != nil {
		return err
	}
	jobs := cut(slots, weights)
	errs := make([]error, len(jobs))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(jobs); i = int(next.Add(1)) - 1 {
				j := &jobs[i]
				errs[i] = f.Guard(func() error { return j.run(f, &slots[j.slot], &weights[j.slot]) })
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// allocate makes all matrices, in one region of memory: that of f where they lie there in panels, else of their own.
func allocate(f *tensorfile.File, slots []model.Slot, weights []weight) error {
	var shapes []kernel.Shape
	var panels [][]byte
	for i := range slots {
		if slots[i].Matrix == nil {
			continue
		}
		t := &weights[i].tensor
		s := kernel.Shape{Source: t.Type, N: slots[i].N, K: slots[i].K}
		if err := s.Check(); err != nil {
			return invalid(clip(t.Name), "tensor %q: %v", clip(t.Name), err)
		}
		shapes = append(shapes, s)
		if t.Panels != nil {
			panels = append(panels, t.Panels)
		}
	}
	made, err := matrices(f, shapes, panels)
	if err != nil {
		return err
	}
	for i := range slots {
		if slots[i].Matrix != nil {
			*slots[i].Matrix, made = made[0], made[1:]
		}
	}
	return nil
}

func matrices(f *tensorfile.File, shapes []kernel.Shape, panels [][]byte) ([]*kernel.Matrix, error) {
	if len(panels) == 0 {
		return kernel.NewMatrices(shapes)
	}
	release := f.Hold()
	made, err := kernel.ViewMatrices(shapes, panels, release)
	if err != nil {
		release()
	}
	return made, err
}

// cut divides the work into jobs, in the order of the slots.
func cut(slots []model.Slot, weights []weight) []job {
	var jobs []job
	for i := range slots {
		s, w := &slots[i], &weights[i]
		if w.tensor.Panels != nil {
			continue // it is there
		}
		if s.Matrix == nil || w.moved() {
			jobs = append(jobs, job{i, 0, s.N, true})
			continue
		}
		rows := wholePanels(jobBytes, len(w.stored())/s.N)
		for at := 0; at < s.N; at += rows {
			jobs = append(jobs, job{i, at, min(at+rows, s.N), false})
		}
	}
	return jobs
}

// wholePanels gives how many rows of the given bytes make up about n bytes and whole panels.
func wholePanels(n, row int) int { return max(1, n/row/kernel.Panel) * kernel.Panel }

func (j *job) run(f *tensorfile.File, s *model.Slot, w *weight) error {
	if j.whole {
		defer f.Release(w.stored())
		return fillWhole(s, w)
	}
	row := len(w.stored()) / s.N
	defer f.Release(w.stored()[j.from*row : j.to*row])
	step := wholePanels(stepBytes, row)
	for at := j.from; at < j.to; at += step {
		part := w.stored()[at*row : min(at+step, j.to)*row]
		if err := checkFinite(w.tensor.Name, w.tensor.Type, part, at*s.K); err != nil {
			return err
		}
		(*s.Matrix).Fill(at/kernel.Panel, part)
	}
	return nil
}

func fillWhole(s *model.Slot, w *weight) error {
	if err := w.check(); err != nil {
		return err
	}
	data, err := w.data()
	if err != nil {
		return err
	}
	if s.Matrix != nil {
		(*s.Matrix).Fill(0, data)
		return nil
	}
	v := make([]float32, s.N)
	kernel.Dequantize(v, w.format(), data)
	*s.Vector = v
	return nil
}
