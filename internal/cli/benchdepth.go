package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"tinyloop/internal/bench"
	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
)

// BenchDepthCmd makes models of random weights and measures what depth costs on them.
type BenchDepthCmd struct {
	Only    []string  `help:"Tables to make (${enum})." enum:"turns,modes,cache,mixed,kv,large" default:"turns,modes,cache,mixed,kv,large"`
	Sizes   []int     `help:"Core sizes in MB: of turns these, of the other tables those that they have in common with them." default:"2,8,32,64,128,512"`
	Types   []string  `help:"Number formats of turns and modes." default:"f16,q8_0,q4_0"`
	Accept  []float64 `help:"Shares of right guesses." default:"0.6,0.8,0.9,0.95"`
	Threads int       `help:"Compute threads." default:"2"`
	Rounds  int       `help:"Answers of each mode, in turn." default:"2"`
	Dir     string    `help:"Folder for the models, which are removed again, one at a time." type:"existingdir" default:"/tmp"`
	Out     string    `short:"o" help:"Write JSON here as well." placeholder:"FILE"`
	JSON    bool      `name:"json" help:"Print JSON instead of Markdown."`
}

// depthRun is one run of the command.
type depthRun struct {
	*BenchDepthCmd
	ctx    context.Context
	log    io.Writer
	dir    string
	report bench.DepthReport
}

// Run measures and prints. What was measured before an error is printed too.
func (c *BenchDepthCmd) Run(io_ *IO) error {
	for _, t := range c.Types {
		if !slices.Contains([]string{"f32", "f16", "q8_0", "q4_0"}, t) {
			return fault.New(fault.Invalid, "types", "--types must be of f32, f16, q8_0, q4_0, is %q", fault.Clip(t, 20))
		}
	}
	for _, s := range c.Sizes {
		if s < 1 || s > 4096 {
			return fault.New(fault.Invalid, "sizes", "--sizes must be 1 to 4096 MB, is %d", s)
		}
	}
	dir, err := os.MkdirTemp(c.Dir, "tinyloop-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r := &depthRun{BenchDepthCmd: c, ctx: io_.Ctx, log: io_.Err, dir: dir}
	for _, part := range []struct {
		name string
		run  func() error
	}{{"turns", r.turns}, {"modes", r.modes}, {"cache", r.cache}, {"mixed", r.mixed}, {"kv", r.kv}, {"large", r.large}} {
		if err == nil && slices.Contains(c.Only, part.name) {
			err = part.run()
		}
	}
	if perr := r.print(io_.Out); err == nil {
		err = perr
	}
	return err
}

func (r *depthRun) print(w io.Writer) error {
	b, err := json.MarshalIndent(&r.report, "", "  ")
	if err != nil {
		return err
	}
	if r.Out != "" {
		if err := os.WriteFile(r.Out, append(b, '\n'), 0o600); err != nil {
			return err
		}
	}
	if r.JSON {
		_, err = w.Write(append(b, '\n'))
		return err
	}
	_, err = io.WriteString(w, r.report.Markdown())
	return err
}

// bytesOf is the size of a value in a format.
func bytesOf(typ string) float64 {
	t, _ := kernel.ParseType(typ)
	return float64(t.BlockBytes()) / float64(t.Block())
}

// with makes a model whose blocks, so many, take about mb megabytes, runs f on it and removes it.
func (r *depthRun) with(mb, layers, loops int, typ string, f func(path string) error) error {
	dim := int(math.Sqrt(float64(mb)*1e6/bytesOf(typ)/float64(layers)/12.25)/64+0.5) * 64
	dim = max(dim, 64)
	c := SynthCmd{Shape: "custom", Type: typ, Seed: 1, Dim: dim, Layers: layers, Heads: dim / 64, Hidden: dim * 11 / 4 / 32 * 32, Vocab: 512, Context: 2048, Loops: loops}
	return r.synth(&c, f)
}

func (r *depthRun) synth(c *SynthCmd, f func(path string) error) error {
	c.Out, c.bank = filepath.Join(r.dir, fmt.Sprintf("%d-%dx%d-%s.gguf", c.Dim, c.Layers, c.Loops, c.Type)), 64
	fmt.Fprintln(r.log, filepath.Base(c.Out))
	defer os.Remove(c.Out)
	if err := c.Run(&IO{Ctx: r.ctx, Out: io.Discard, Err: r.log}); err != nil {
		return err
	}
	return f(c.Out)
}

func (r *depthRun) measure(path string, accept []float64, tokens, rounds int) (*bench.ModesReport, error) {
	return bench.Modes(r.ctx, bench.ModesOptions{Path: path, Accept: accept, Threads: r.Threads, Tokens: tokens, Rounds: rounds, KVType: kernel.F32})
}

func (r *depthRun) turns() error {
	for _, mb := range r.Sizes {
		for _, typ := range r.Types {
			err := r.with(mb, 4, 8, typ, func(path string) error {
				m, err := r.measure(path, nil, 16, 4)
				if err == nil {
					r.report.Turns = append(r.report.Turns, m)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// tokensFor is how many tokens of an answer take about a second on a core of so many megabytes.
func tokensFor(mb int) int { return max(16, min(96, 4000/mb)) }

func (r *depthRun) modes() error {
	for _, mb := range r.common(8, 64, 512) {
		for _, typ := range r.Types {
			if typ == "f16" || typ == "f32" {
				continue
			}
			err := r.with(mb, 4, 8, typ, func(path string) error {
				m, err := r.measure(path, r.Accept, tokensFor(mb), r.Rounds)
				if err == nil {
					r.report.Modes = append(r.report.Modes, m)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// common is those of the sizes that were asked for.
func (r *depthRun) common(sizes ...int) []int {
	return slices.DeleteFunc(sizes, func(mb int) bool { return !slices.Contains(r.Sizes, mb) })
}

func (r *depthRun) cache() error {
	for _, mb := range r.common(2, 8, 32) {
		err := r.with(mb, 2, 12, "q8_0", func(looped string) error {
			return r.with(12*mb, 24, 1, "q8_0", func(untied string) error {
				c, err := bench.Cache(r.ctx, looped, untied, r.Threads, max(6, 400/mb))
				if err == nil {
					c.Quant = "q8_0"
					r.report.Cache = append(r.report.Cache, c)
				}
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *depthRun) mixed() error {
	for _, mb := range r.common(2, 8, 128) {
		err := r.with(mb, 4, 16, "q8_0", func(path string) error {
			m, err := bench.Mixed(r.ctx, path, r.Threads, max(6, min(24, 400/mb)))
			if err == nil {
				m.Quant = "q8_0"
				r.report.Mixed = append(r.report.Mixed, m)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *depthRun) kv() error {
	return r.with(8, 4, 8, "q8_0", func(path string) (err error) {
		r.report.KV, err = bench.Policies(r.ctx, path, r.Threads, 512, 24, []kernel.Type{kernel.F32, kernel.F16, kernel.Q8_0})
		return err
	})
}

// large is the shape of Ouro-1.4B: 24 layers of width 2,048, four loops, without its sandwich norms.
func (r *depthRun) large() error {
	for _, typ := range []string{"q8_0", "q4_0"} {
		c := SynthCmd{Shape: "1.1b", Type: typ, Seed: 1, Dim: 2048, Layers: 24, Heads: 16, KVHeads: 16, Hidden: 5632, Vocab: 49152, Context: 2048, Loops: 4}
		err := r.synth(&c, func(path string) error {
			m, err := r.measure(path, []float64{0.92}, 16, 1)
			if err == nil {
				r.report.Large = append(r.report.Large, m)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
