package arch

import (
	"runtime"
	"sync"
	"sync/atomic"

	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// Load reads the Spec and the weights of any supported file. The model keeps nothing of f, which may be closed after. Weights that are no finite
// numbers are refused by the tensor's name: such a model answers nothing.
func Load(f *tensorfile.File) (*model.Model, error) {
	fam, err := familyOf(f)
	if err != nil {
		return nil, err
	}
	spec, err := fam.read(f)
	if err != nil {
		return nil, err
	}
	w := &model.Weights{}
	slots := w.Slots(&spec)
	tensors, err := fam.bind(f, &spec, slots)
	if err != nil {
		return nil, err
	}
	if err := fill(f, slots, tensors); err != nil {
		w.Free(&spec)
		return nil, err
	}
	m, err := model.New(spec, w)
	if err != nil {
		w.Free(&spec)
	}
	return m, err
}

// fill repacks all tensors, several at a time. Pages of f that are lost on the way are an error: every worker reads under a guard of its own.
func fill(f *tensorfile.File, slots []model.Slot, tensors []tensorfile.Tensor) error {
	errs := make([]error, len(slots))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(slots)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(slots); i = int(next.Add(1)) - 1 {
				errs[i] = f.Guard(func() error { return fillSlot(&slots[i], &tensors[i]) })
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

func fillSlot(s *model.Slot, t *tensorfile.Tensor) error {
	if err := checkFinite(t.Name, t.Type, t.Data); err != nil {
		return err
	}
	if s.Vector != nil {
		v := make([]float32, s.N)
		kernel.Dequantize(v, t.Type, t.Data)
		*s.Vector = v
		return nil
	}
	m, err := kernel.NewMatrix(t.Type, s.N, s.K, t.Data)
	if err != nil {
		return invalid(t.Name, "tensor %q: %v", t.Name, err)
	}
	*s.Matrix = m
	return nil
}
