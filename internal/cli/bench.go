package cli

import (
	"context"
	"io"
	"runtime/pprof"
	"time"

	"tinyloop/internal/bench"
	"tinyloop/internal/fault"
	"tinyloop/internal/gen"
	"tinyloop/internal/host"
	"tinyloop/internal/kernel"
	"tinyloop/internal/tensorfile"
	"tinyloop/internal/tok"
)

// BenchCmd measures a model file on this machine, and the machine beside it.
type BenchCmd struct {
	File     string `arg:"" help:"Model file (.tinyloop, .gguf, llama2.c .bin) or safetensors folder."`
	Prefill  []int  `help:"Prompt lengths in tokens; cut to the model's window." default:"512"`
	Context  []int  `help:"Decode after so many tokens; what the window does not hold is left out." default:"0,1024"`
	Streams  []int  `help:"Sequences decoded at a time." default:"8,32"`
	Loops    []int  `help:"Passes through the looped core; 0 = the model's default." default:"0"`
	Threads  []int  `help:"Compute threads." default:"1,2"`
	Tokens   int    `help:"Tokens decoded in each measurement." default:"64"`
	Rounds   int    `help:"Measurements of each row, in turn; the table has their median, smallest and largest." default:"5"`
	KVDtype  string `name:"kv-dtype" help:"Number format of the KV cache: f32, f16 or q8." enum:"f32,f16,q8" default:"f32"`
	JSON     bool   `name:"json" help:"Print JSON with every sample instead of the table."`
	NoEngine bool   `help:"Leave out the rows through the engine."`
	NoStart  bool   `help:"Leave out the time from start to the first token."`
	NoProbe  bool   `help:"Leave out the machine's own limits."`
	Profile  string `name:"cpuprofile" help:"Write a CPU profile of all of it here, for go tool pprof." type:"path" placeholder:"FILE"`
	Quiet    bool   `short:"q" help:"Do not say what is being measured."`
}

// Run measures and prints.
func (c *BenchCmd) Run(io_ *IO) error {
	kv, _ := kernel.ParseKVType(c.KVDtype)
	o := bench.Options{Path: c.File, Prefill: c.Prefill, Context: c.Context, Streams: c.Streams, Loops: c.Loops, Threads: c.Threads,
		Tokens: c.Tokens, Rounds: c.Rounds, KVType: kv, NoEngine: c.NoEngine, NoProbe: c.NoProbe}
	if !c.NoStart {
		o.Start = c.start
	}
	progress, done := io_.measuring(c.Quiet)
	o.Progress = progress
	r, err := c.measure(io_.Ctx, o)
	done()
	if err != nil {
		return err
	}
	if c.JSON {
		return io_.writeJSON(r)
	}
	return r.Table(io_.Out)
}

// measure runs the benchmark, under the profiler if asked.
func (c *BenchCmd) measure(ctx context.Context, o bench.Options) (*bench.Report, error) {
	if c.Profile == "" {
		return bench.Measure(ctx, o)
	}
	var r *bench.Report
	err := tensorfile.WriteAtomic(c.Profile, func(w io.Writer) error {
		if err := pprof.StartCPUProfile(w); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
		var err error
		r, err = bench.Measure(ctx, o)
		return err
	})
	return r, err
}

// start loads the model as the server does and waits for one token.
func (c *BenchCmd) start(ctx context.Context, threads int) (load, first time.Duration, err error) {
	begin := time.Now()
	m, err := host.Load(nameOf(c.File), c.File, host.Options{Threads: threads, KVType: c.KVDtype})
	if err != nil {
		return 0, 0, err
	}
	load = time.Since(begin)
	defer closeModel(m)
	one, greedy := 1, 0.0
	s, err := m.Generate(ctx, &gen.Request{PromptIDs: []tok.ID{1, 2, 3, 4, 5, 6, 7, 8}, MaxTokens: &one, Temperature: &greedy, IgnoreEOS: true})
	if err != nil {
		return 0, 0, err
	}
	defer s.Close()
	err = each(ctx, s, func(e gen.Event) error {
		if first == 0 {
			first = time.Since(begin)
		}
		if e.Kind == gen.Done {
			return outcome(e)
		}
		return nil
	})
	if err == nil && first == 0 {
		err = fault.New(fault.Internal, "", "the model gave no token")
	}
	return load, first, err
}
