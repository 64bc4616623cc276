package host

import (
	"context"
	"errors"
	"slices"
	"sync"

	"tinyloop/internal/fault"
)

// Default is the name under which the first model always answers, whatever its own.
const Default = "tl"

// Host is the set of loaded models. It is safe for concurrent use.
type Host struct {
	mu       sync.Mutex
	models   []*Model
	uses     int           // models that Get gave out and that are not released
	idle     chan struct{} // closed when draining and uses is 0
	draining bool
}

// New makes an empty host.
func New() *Host { return &Host{idle: make(chan struct{})} }

// Add takes a model in. The first one is the default: it also answers to "tl" and to the empty name. A name that is taken is refused.
func (h *Host) Add(m *Model) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining {
		return fault.New(fault.Unavailable, "", "the server is shutting down")
	}
	for _, name := range append([]string{m.Name}, m.Aliases...) {
		if name == "" || name == Default && len(h.models) > 0 { // the first model has that name anyway
			return fault.New(fault.Invalid, "model", "the name %q is reserved", name)
		}
		if h.find(name) != nil {
			return fault.New(fault.Invalid, "model", "a model named %q is loaded already", name)
		}
	}
	h.models = append(h.models, m)
	return nil
}

// Get finds a model by name or alias and holds it until release is called, which may be done more than once. "" and "tl" name the default.
func (h *Host) Get(name string) (m *Model, release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.draining:
		return nil, nil, fault.New(fault.Unavailable, "", "the server is shutting down")
	case len(h.models) == 0:
		return nil, nil, fault.New(fault.NoModel, "model", "no model is loaded")
	case name == "" || name == Default:
		m = h.models[0]
	default:
		m = h.find(name)
	}
	if m == nil {
		return nil, nil, &fault.Error{Kind: fault.NotFound, Field: "model", Code: "model_not_found", Msg: "the model \"" + fault.Clip(name, 80) + "\" does not exist"}
	}
	h.uses++
	return m, sync.OnceFunc(h.release), nil
}

func (h *Host) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.uses--; h.uses == 0 && h.draining {
		close(h.idle)
	}
}

func (h *Host) find(name string) *Model {
	for _, m := range h.models {
		if m.Name == name || slices.Contains(m.Aliases, name) {
			return m
		}
	}
	return nil
}

// List gives the models in the order they were added.
func (h *Host) List() []*Model {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.models)
}

// Drain refuses new work, lets running answers finish until ctx ends, cancels the rest, and waits until every model that Get gave out has been
// released, so that the models can be closed. Their Close is the caller's.
func (h *Host) Drain(ctx context.Context) error {
	models := h.refuse()
	errs := make([]error, len(models))
	var wg sync.WaitGroup
	for i, m := range models {
		wg.Go(func() { errs[i] = m.engine.Drain(ctx) })
	}
	wg.Wait()
	select {
	case <-h.idle:
	case <-ctx.Done():
		errs = append(errs, ctx.Err())
	}
	return errors.Join(errs...)
}

// refuse ends the handing out of models, and gives those that there are.
func (h *Host) refuse() []*Model {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.draining && h.uses == 0 {
		close(h.idle)
	}
	h.draining = true
	return slices.Clone(h.models)
}
