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

// Load reads the Spec and the weights of any supported file. The model keeps nothing of f, which may be closed after. Weights that are no finite
// numbers are refused by the tensor's name: such a model answers nothing.
func Load(f *tensorfile.File) (*model.Model, error) { return LoadWith(f, Options{}) }

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

// fill repacks all tensors, several at a time. Pages of f that are lost on the way are an error: every worker reads under a guard of its own.
//
// The file's pages of a tensor are given back as soon as it is repacked, so that a load needs the memory of the model and of the tensors in work, not twice
// that of the model.
func fill(f *tensorfile.File, slots []model.Slot, weights []weight) error {
	errs := make([]error, len(slots))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(slots)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(slots); i = int(next.Add(1)) - 1 {
				errs[i] = f.Guard(func() error { return fillSlot(&slots[i], &weights[i]) })
				f.Release(weights[i].stored())
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

func fillSlot(s *model.Slot, w *weight) error {
	if err := w.check(); err != nil {
		return err
	}
	data, err := w.data()
	if err != nil {
		return err
	}
	if s.Vector != nil {
		v := make([]float32, s.N)
		kernel.Dequantize(v, w.format(), data)
		*s.Vector = v
		return nil
	}
	m, err := kernel.NewMatrix(w.format(), s.N, s.K, data)
	if err != nil {
		return invalid(w.tensor.Name, "tensor %q: %v", w.tensor.Name, err)
	}
	*s.Matrix = m
	return nil
}
