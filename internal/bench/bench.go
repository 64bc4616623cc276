// Package bench measures a model file on this machine: prefill and decode rates of the bare model and through the engine, memory, and what the
// machine itself can do, so that a rate can be read as a share of a limit. A timing of a shared machine is only worth something as a median
// beside its minimum and maximum, and only against something measured in the same minutes; every rate here carries all three.
package bench

import (
	"context"
	"runtime"
	"slices"
	"time"

	"tinyloop/internal/arch"
	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// Options say what to measure.
type Options struct {
	Path    string
	Prefill []int // prompt lengths; one beyond the window is cut to it
	Context []int // positions before the first decoded token; those beyond the window are skipped and listed in Report.Skipped
	Streams []int // sequences decoded at a time, each after a short prompt; 1 is the decode row and is left out here
	Loops   []int // passes through the core; 0 = the model's default
	Threads []int // compute workers
	Tokens  int   // decoded tokens of one measurement, at least 1
	Rounds  int   // measurements of each row, in turn, at least 1
	KVType  kernel.Type

	NoEngine bool // leave out the rows through the engine
	NoProbe  bool // leave out the machine's own limits

	// Start loads the model as the server does and gives the time until it was ready and until the first token of a short prompt was there, both
	// from the beginning; nil = left out. It is given from outside because what serves a model stands above this package.
	Start func(ctx context.Context, threads int) (load, first time.Duration, err error)
	// Progress is told what is measured next; nil = silent.
	Progress func(what string)
}

// Spread is a median with the smallest and largest value behind it.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Kinds of work of a Rate, and ways to run it.
const (
	Prefill = "prefill" // N prompt tokens, logits for the last
	Decode  = "decode"  // one sequence, after N tokens of context
	Streams = "streams" // N sequences a step, rate of all together

	Model  = "model"  // the calls of model.Runner alone: no scheduler, no sampling
	Engine = "engine" // submitted to the engine: scheduler, greedy sampling and the sink included
)

// Rate is one row of the result.
type Rate struct {
	Work            string    `json:"work"`
	N               int       `json:"n"`
	Via             string    `json:"via"`
	TokensPerSecond Spread    `json:"tokens_per_second"`
	Samples         []float64 `json:"samples"`          // tokens per second of each round, in order: of its median step
	Best            float64   `json:"best"`             // tokens per second of the fastest tenth of all steps; of the fastest round for prefill
	GapMedian       float64   `json:"gap_ms,omitempty"` // between two tokens of one sequence, all rounds together; not for prefill
	GapP99          float64   `json:"gap_p99_ms,omitempty"`
	AllocsPerToken  float64   `json:"allocs_per_token,omitempty"` // of the whole process, decode and streams through the engine only
}

// Run is everything measured at one number of threads and loops.
type Run struct {
	Threads int     `json:"threads"`
	Loops   int     `json:"loops"`
	Load    float64 `json:"load_ms"`                 // file to weights in memory
	Ready   float64 `json:"ready_ms,omitempty"`      // start to a served model, tokenizer included
	First   float64 `json:"first_ms,omitempty"`      // start to the first token
	Read    int64   `json:"weights_read_per_token"`  // bytes, every pass of the core counted
	Share   float64 `json:"share_of_read,omitempty"` // of the machine's own read rate at a working set of this size, at decode with the least context
	Peak    int64   `json:"peak_rss,omitempty"`      // bytes, after load, prefill and decode of one sequence; 0 where the system does not say
	Rates   []Rate  `json:"rates"`
}

// Report is the result.
type Report struct {
	File            string   `json:"file"`
	FileBytes       int64    `json:"file_bytes"`
	Family          string   `json:"family"`
	Quant           string   `json:"quant"`
	Params          int64    `json:"params"`
	Unrolled        int64    `json:"params_unrolled"`
	Weights         int64    `json:"weight_bytes"` // in memory
	KVPerToken      int64    `json:"kv_bytes_per_token"`
	KVType          string   `json:"kv_type"`
	ISA             string   `json:"isa"`
	CPUs            int      `json:"cpus"`
	Tokens          int      `json:"tokens"`
	Rounds          int      `json:"rounds"`
	Skipped         []string `json:"skipped,omitempty"`
	Runs            []Run    `json:"runs"`
	Machine         *Machine `json:"machine,omitempty"`
	defaultLoops    int
	smallestContext int
}

func (o *Options) check() error {
	for _, l := range []struct {
		name   string
		values []int
		low    int
	}{{"prefill", o.Prefill, 1}, {"context", o.Context, 0}, {"streams", o.Streams, 1}, {"loops", o.Loops, 0}, {"threads", o.Threads, 1}, {"tokens", []int{o.Tokens}, 1}, {"rounds", []int{o.Rounds}, 1}} {
		for _, v := range l.values {
			if v < l.low || v > 1<<20 {
				return fault.New(fault.Invalid, l.name, "%s must be from %d to %d, is %d", l.name, l.low, 1<<20, v)
			}
		}
	}
	if len(o.Loops) == 0 || len(o.Threads) == 0 {
		return fault.New(fault.Invalid, "threads", "give at least one number of threads and of loops")
	}
	return nil
}

// Measure runs everything that o asks for. It ends early when ctx does.
func Measure(ctx context.Context, o Options) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	f, err := tensorfile.Open(o.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &Report{File: o.Path, FileBytes: f.Size(), Quant: arch.InfoOf(f).Quant, KVType: o.KVType.String(), ISA: kernel.ISA(), CPUs: runtime.NumCPU(), Tokens: o.Tokens, Rounds: o.Rounds}
	for _, threads := range o.Threads {
		for _, loops := range o.Loops {
			run := Run{Threads: threads, Loops: loops}
			if err := r.run(ctx, f, &o, &run); err != nil {
				return nil, err
			}
			r.Runs = append(r.Runs, run)
		}
	}
	if o.NoProbe {
		return r, nil
	}
	o.Progress("the machine's own limits")
	sets := []int64{}
	for _, run := range r.Runs {
		sets = append(sets, min(run.Read, r.Weights))
	}
	if r.Machine, err = probe(ctx, o.Threads, largestSet, sets); err != nil {
		return nil, err
	}
	r.shares()
	return r, nil
}

// run measures one number of threads and loops, on weights that are loaded for it.
func (r *Report) run(ctx context.Context, f *tensorfile.File, o *Options, run *Run) error {
	if o.Start != nil {
		o.Progress("start")
		load, first, err := o.Start(ctx, run.Threads)
		if err != nil {
			return err
		}
		run.Ready, run.First = ms(load), ms(first)
	}
	runtime.GC()
	resetPeak()
	o.Progress("load")
	begin := time.Now()
	var m *model.Model
	if err := f.Guard(func() (err error) { m, err = arch.Load(f); return err }); err != nil {
		return err
	}
	defer m.Close()
	run.Load = ms(time.Since(begin))
	if run.Loops == 0 {
		run.Loops = m.Spec.Loops.Default
	}
	if run.Loops > m.Spec.Loops.HardMax {
		return fault.New(fault.Invalid, "loops", "loops must be at most %d for this model, is %d", m.Spec.Loops.HardMax, run.Loops)
	}
	r.describe(m, o.KVType)
	run.Read = readPerToken(m, run.Loops)
	b, err := newBed(m, o, run.Threads, run.Loops, &r.Skipped)
	if err != nil {
		return err
	}
	defer b.close()
	if len(b.contexts) > 0 {
		r.smallestContext = slices.Min(b.contexts)
	}
	return b.rates(ctx, o, run)
}

func (r *Report) describe(m *model.Model, kv kernel.Type) {
	r.Family, r.Weights = m.Spec.Family, m.Bytes()
	r.Params, r.Unrolled = m.Spec.Params()
	r.KVPerToken = m.Spec.KVBytesPerToken(m.Spec.Loops.Default, kv)
	r.defaultLoops = m.Spec.Loops.Default
}

// readPerToken gives the bytes of weights that one decoded token passes through at the given loops: every block once a visit, the head once; of the embedding
// one row, which does not count.
func readPerToken(m *model.Model, loops int) int64 {
	var n int64
	for _, t := range m.W.Slots(&m.Spec) {
		if t.Matrix == nil {
			continue
		}
		size := int64((*t.Matrix).Bytes())
		switch {
		case t.Inside && t.Part == model.Core, t.Matrix == &m.W.Inject:
			n += size * int64(loops)
		case t.Matrix == &m.W.Positions, t.Matrix == &m.W.Embed && !m.Spec.TiedHead:
		default:
			n += size
		}
	}
	return n
}

// shares puts the decode rate of each run beside the read rate of the machine at the same working set.
func (r *Report) shares() {
	for i := range r.Runs {
		run := &r.Runs[i]
		for _, rate := range run.Rates {
			if rate.Work == Decode && rate.Via == Model && rate.N == r.smallestContext {
				if limit := r.Machine.read(run.Threads, min(run.Read, r.Weights)); limit > 0 {
					run.Share = rate.TokensPerSecond.Median * float64(run.Read) / 1e9 / limit
				}
			}
		}
	}
}

// spread summarises values, which it sorts a copy of.
func spread(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	v := slices.Sorted(slices.Values(values))
	mid := v[len(v)/2]
	if len(v)%2 == 0 {
		mid = (mid + v[len(v)/2-1]) / 2
	}
	return Spread{mid, v[0], v[len(v)-1]}
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
