// Package host keeps several models in one process: names, load, unload, budget.
package host

// Contract of the package:
//
//	type Options struct { Threads int; MaxSeqLen int; KVType string /* "f32", "f16" */; KVBudget int64 /* bytes, 0 = chosen from memory */; MaxLoops int; QueueLimit, MaxSeqs, StepRows int;
//	                      Timeout time.Duration; NoPrefixCache bool; Log *slog.Logger }
//	// Load opens a model file and starts its engine. The error says which file and why.
//	func Load(name, path string, o Options) (*Model, error)
//	type Model struct { *gen.Generator; Name string; Aliases []string; … };  func (m *Model) Close(ctx context.Context) error
//	func New() *Host
//	func (h *Host) Add(m *Model) error                       // the first one is the default, also under "tl"
//	func (h *Host) Get(name string) (*Model, func(), error)  // holds a reference until the func is called; "" and "tl" = default; fault.NotFound, fault.NoModel
//	func (h *Host) List() []*Model
//	func (h *Host) Drain(ctx context.Context) error          // refuse new work, finish or cancel
