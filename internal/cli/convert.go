package cli

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tinyloop/internal/arch"
	"tinyloop/internal/chat"
	"tinyloop/internal/fault"
	"tinyloop/internal/host"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
	"tinyloop/internal/tok"
)

// ConvertCmd rewrites a model file in another container or number format.
type ConvertCmd struct {
	In        string `arg:"" help:"Model file to read."`
	Out       string `arg:"" help:"File to write: .tinyloop, or .gguf to keep the architecture's own layout."`
	Type      string `help:"Number format of the matrices (${enum}); keep leaves each as it is." enum:"keep,f32,f16,bf16,q8_0,q5_1,q5_0,q4_1,q4_0,q4_K,q5_K,q6_K" default:"keep"`
	Tokenizer string `help:"Tokenizer file for inputs without one, like tok512.bin, or a model file that has it; otherwise looked for beside the input." type:"place" placeholder:"FILE"`
	Template  string `help:"Chat template file (Jinja) to put into the output." type:"place" placeholder:"FILE"`
	LoopRange string `help:"Layers to loop over, as in 8-11x4 (layers 8 to 11, four passes unless a request says otherwise; two without x4). Needs a .tinyloop output." placeholder:"FIRST-LAST[xLOOPS]"`
	License   string `help:"Licence to state in the output, as in: mit." placeholder:"NAME"`
	Layout    string `help:"How a .tinyloop file keeps its matrices (${enum}): as the file formats do, or in the panels that the kernels read, which start at once and are shared by all processes that serve the file, but suit only builds of this layout." enum:"file,panels" default:"file"`
	Check     bool   `help:"Compare the written weights with the input's and print the largest error."`

	gguf string // layout of a .gguf, see arch.ConvertOptions
}

// Run converts, and prints the sizes to io.Out. An interrupt ends the work, which takes its unfinished file away; work that does not notice in time
// is left to die with the process.
func (c *ConvertCmd) Run(io *IO) error {
	done := make(chan error, 1)
	go func() { done <- c.convert(io) }()
	select {
	case err := <-done:
		return err
	case <-io.Ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(2 * time.Second):
		return fault.New(fault.Canceled, "", "interrupted")
	}
}

func (c *ConvertCmd) convert(io *IO) error {
	in, err := tensorfile.Open(c.In)
	if err != nil {
		return err
	}
	defer in.Close()
	o, err := c.options(in)
	if err != nil {
		return err
	}
	var kept exceptions
	o.Done = io.Ctx.Done()
	o.Note = kept.add
	if err := in.Guard(func() error { return arch.Convert(in, c.Out, o) }); err != nil {
		return err
	}
	kept.print(io.Err)
	out, err := tensorfile.Open(c.Out)
	if err != nil {
		return err
	}
	defer out.Close()
	from, to := arch.InfoOf(in), arch.InfoOf(out)
	fmt.Fprintf(io.Out, "%s (%s, %s) -> %s (%s, %s)\n", printable(filepath.Base(c.In)), from.Quant, host.SizeText(in.Size()), printable(filepath.Base(c.Out)), to.Quant, host.SizeText(out.Size()))
	if c.Check {
		return checkWeights(in, out, o.Loop, io.Out)
	}
	return nil
}

// exceptions collects the matrices that could not get the asked format.
type exceptions struct {
	names      []string
	asked, got kernel.Type
}

func (e *exceptions) add(tensor string, asked, got kernel.Type) {
	e.names, e.asked, e.got = append(e.names, tensor), asked, got
}

func (e *exceptions) print(w io.Writer) {
	if n := len(e.names); n > 0 {
		fmt.Fprintf(w, "tinyloop: %d %s, from %s on, became %s: their rows are no whole number of %s blocks\n", n, plural(n, "matrix", "matrices"), printable(e.names[0]), e.got, e.asked)
	}
}

func (c *ConvertCmd) options(in *tensorfile.File) (arch.ConvertOptions, error) {
	o := arch.ConvertOptions{License: c.License, Layout: c.gguf}
	if c.Layout == "panels" {
		o.Layout = "panels"
	}
	var err error
	if o.Loop, err = arch.ParseRange(c.LoopRange); err != nil {
		return o, err
	}
	if t, ok := kernel.ParseType(c.Type); ok {
		o.Type = &t
	}
	if c.Template != "" {
		b, err := os.ReadFile(c.Template)
		if err != nil {
			return o, fault.New(fault.Invalid, "", "--template: %v", err)
		}
		if _, err := chat.Compile(string(b)); err != nil {
			return o, fault.New(fault.Invalid, "", "--template: %v", err)
		}
		o.Template = string(b)
	} else if _, own := in.Meta.String("tokenizer.chat_template"); !own {
		o.Template = host.TemplateSource(in)
	}
	t, err := c.tokenizer(in)
	if err != nil {
		return o, err
	}
	if _, own := in.Meta.Get("tokenizer.ggml.model"); !own || c.Tokenizer != "" {
		o.Tokenizer = tokenizerKeys(t)
	}
	return o, nil
}

// tokenizer reads the tokenizer that the command names, or finds the input's, in the file or beside it. One that cannot be used is refused: so would be
// the output.
func (c *ConvertCmd) tokenizer(in *tensorfile.File) (*tok.Tokenizer, error) {
	spec, err := arch.SpecOf(in)
	if err != nil {
		return nil, err
	}
	if c.Tokenizer == "" {
		t, err := host.Tokenizer(in)
		if err != nil {
			e := *fault.As(err)
			e.Msg += "; --tokenizer FILE names another"
			return nil, &e
		}
		return t, nil
	}
	switch strings.ToLower(filepath.Ext(c.Tokenizer)) {
	case ".gguf", ".tinyloop":
		return tokenizerOf(c.Tokenizer)
	}
	b, err := os.ReadFile(c.Tokenizer)
	if err != nil {
		return nil, fault.New(fault.Invalid, "", "--tokenizer: %v", err)
	}
	if strings.HasSuffix(c.Tokenizer, ".json") {
		return tok.FromHF(b, nil)
	}
	return tok.FromLlama2c(b, spec.Vocab)
}

// tokenizerOf takes the tokenizer out of another model file.
func tokenizerOf(path string) (*tok.Tokenizer, error) {
	f, err := tensorfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return host.Tokenizer(f)
}

// tokenizerKeys gives the metadata that carries t, in one fixed order.
func tokenizerKeys(t *tok.Tokenizer) []tensorfile.KV {
	var keys []tensorfile.KV
	for k, v := range t.GGUF() {
		keys = append(keys, tensorfile.KV{Key: k, Value: v})
	}
	slices.SortFunc(keys, func(a, b tensorfile.KV) int { return strings.Compare(a.Key, b.Key) })
	return keys
}

// weightError is how far a tensor has moved.
type weightError struct {
	name        string
	n           int
	largest     float64 // of the differences
	sum, square float64 // of the squared differences, of the squared originals
}

func (e *weightError) add(a, b []float32) {
	e.n += len(a)
	for i, v := range a {
		d := float64(b[i]) - float64(v)
		e.largest = max(e.largest, math.Abs(d))
		e.sum += d * d
		e.square += float64(v) * float64(v)
	}
}

// checkWeights loads both files as the engine would, and compares every tensor.
func checkWeights(in, out *tensorfile.File, loop arch.Range, w io.Writer) error {
	a, err := arch.LoadWith(in, arch.Options{Loop: loop})
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := arch.Load(out)
	if err != nil {
		return err
	}
	defer b.Close()
	from, to := a.W.Slots(&a.Spec), b.W.Slots(&b.Spec)
	if len(from) != len(to) {
		return fault.New(fault.Internal, "", "the output has %d tensors, expected %d", len(to), len(from))
	}
	var worst weightError
	same := 0
	for i := range from {
		e := compare(&from[i], &to[i])
		if e.largest == 0 {
			same++
		}
		if e.largest >= worst.largest {
			worst = e
		}
	}
	fmt.Fprintf(w, "%d of %d tensors unchanged", same, len(from))
	if n := float64(worst.n); worst.largest > 0 {
		fmt.Fprintf(w, "; largest error %.3g in %s (rms %.3g, weights rms %.3g)", worst.largest, worst.name, math.Sqrt(worst.sum/n), math.Sqrt(worst.square/n))
	}
	fmt.Fprintln(w)
	return nil
}

// compare measures one tensor; both models have the same Spec, so the shapes are the same.
func compare(a, b *model.Slot) weightError {
	e := weightError{name: a.Name}
	if a.Vector != nil {
		e.add(*a.Vector, *b.Vector)
		return e
	}
	x, y := make([]float32, a.K), make([]float32, a.K)
	for r := range a.N {
		(*a.Matrix).Row(x, r)
		(*b.Matrix).Row(y, r)
		e.add(x, y)
	}
	return e
}
