package cli

import (
	"tinyloop/internal/bench"
	"tinyloop/internal/kernel"
)

// BenchGroup is tinyloop bench: of a model file without another word.
type BenchGroup struct {
	Speed BenchCmd      `cmd:"" default:"withargs" help:"Speed and memory of a model, and the machine's limits beside them."`
	Modes BenchModesCmd `cmd:"" help:"The cost of a turn by its rows, and every decoding mode over plain decoding at given shares of right guesses."`
	Depth BenchDepthCmd `cmd:"" help:"Tables of what depth costs, on models of random weights made for it: turns, modes, loops against untied layers, mixed depths, sharing of K/V."`
}

// BenchModesCmd measures the decoding modes.
type BenchModesCmd struct {
	File    string    `arg:"" help:"Model file (.tinyloop, .gguf, llama2.c .bin) or safetensors folder."`
	Loops   int       `help:"Passes of the answer; 0 = the model's default." default:"0"`
	Draft   int       `help:"Passes before a guess; 0 = a quarter of the loops." default:"0"`
	Accept  []float64 `help:"Shares of right guesses." default:"0.6,0.8,0.9,0.95"`
	Threads int       `help:"Compute threads." default:"2"`
	Tokens  int       `help:"Tokens of one answer." default:"64"`
	Rounds  int       `help:"Answers of each mode, in turn." default:"5"`
	KVDtype string    `name:"kv-dtype" help:"Number format of the KV cache: f32, f16 or q8." enum:"f32,f16,q8" default:"f32"`
	JSON    bool      `name:"json" help:"Print JSON instead of the tables."`
	Quiet   bool      `short:"q" help:"Do not say what is being measured."`
}

// Run measures and prints.
func (c *BenchModesCmd) Run(io_ *IO) error {
	kv, err := kernel.ParseKVType(c.KVDtype)
	if err != nil {
		return err
	}
	o := bench.ModesOptions{Path: c.File, Loops: c.Loops, Draft: c.Draft, Accept: c.Accept, Threads: c.Threads, Tokens: c.Tokens, Rounds: c.Rounds, KVType: kv}
	progress, done := io_.measuring(c.Quiet)
	o.Progress = progress
	r, err := bench.Modes(io_.Ctx, o)
	done()
	if err != nil {
		return err
	}
	if c.JSON {
		return io_.writeJSON(r)
	}
	return r.Table(io_.Out)
}
