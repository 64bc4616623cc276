package cli

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tinyloop/internal/arch"
	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
	"tinyloop/internal/tok"
)

// ConvertCmd rewrites a model file in another container or number format.
type ConvertCmd struct {
	In        string `arg:"" help:"Model file to read."`
	Out       string `arg:"" help:"File to write: .tinyloop, or .gguf to keep the architecture's own layout."`
	Type      string `help:"Number format of the matrices (${enum}); keep leaves each as it is." enum:"keep,f32,f16,bf16,q8_0,q4_0" default:"keep"`
	Tokenizer string `help:"Tokenizer file for inputs without one, like tok512.bin; otherwise looked for beside the input." type:"path" placeholder:"FILE"`
	Template  string `help:"Chat template file (Jinja) to put into the output." type:"path" placeholder:"FILE"`
	License   string `help:"Licence to state in the output, as in: mit." placeholder:"NAME"`
	Check     bool   `help:"Compare the written weights with the input's and print the largest error."`
}

// Run converts, and prints the sizes to io.Out. At an interrupt it returns at once and leaves the work, which owns the open files, to die with the
// process.
func (c *ConvertCmd) Run(io *IO) error {
	done := make(chan error, 1)
	go func() { done <- c.convert(io) }()
	select {
	case err := <-done:
		return err
	case <-io.Ctx.Done():
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
	fmt.Fprintf(io.Out, "%s (%s, %s) -> %s (%s, %s)\n", printable(filepath.Base(c.In)), from.Quant, sizeText(in.Size()), printable(filepath.Base(c.Out)), to.Quant, sizeText(out.Size()))
	if c.Check {
		return checkWeights(in, out, io.Out)
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
	o := arch.ConvertOptions{License: c.License}
	if t, ok := kernel.ParseType(c.Type); ok {
		o.Type = &t
	}
	if c.Template != "" {
		b, err := os.ReadFile(c.Template)
		if err != nil {
			return o, fault.New(fault.Invalid, "", "--template: %v", err)
		}
		o.Template = string(b)
	}
	if _, own := in.Meta.String("tokenizer.ggml.model"); own && c.Tokenizer == "" {
		return o, nil
	}
	t, err := c.tokenizer(in)
	if err != nil {
		return o, err
	}
	o.Tokenizer = tokenizerKeys(t)
	return o, nil
}

// tokenizer reads the tokenizer that the command names, or finds one beside the input.
func (c *ConvertCmd) tokenizer(in *tensorfile.File) (*tok.Tokenizer, error) {
	spec, err := arch.SpecOf(in)
	if err != nil {
		return nil, err
	}
	if c.Tokenizer == "" {
		return tokenizerOf(in, spec)
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

// tokenizerOf finds the tokenizer of a model: in the file itself, else beside it. spec may be nil where it is not known.
func tokenizerOf(f *tensorfile.File, spec *model.Spec) (*tok.Tokenizer, error) {
	if _, ok := f.Meta.String("tokenizer.ggml.model"); ok {
		return tok.FromGGUF(f.Meta)
	}
	if f.Format == tensorfile.Safetensors {
		if b, err := f.Sidecar("tokenizer.json"); err == nil {
			config, _ := f.Sidecar("tokenizer_config.json") // optional
			return tok.FromHF(b, config)
		}
		return nil, noTokenizer("tokenizer.json")
	}
	if spec == nil {
		return nil, noTokenizer("tokenizer.json or tokenizer.bin")
	}
	sized := fmt.Sprintf("tok%d.bin", spec.Vocab)
	for _, name := range []string{sized, "tokenizer.bin"} {
		b, err := f.Sidecar(name)
		if err == nil {
			return tok.FromLlama2c(b, spec.Vocab)
		}
		if fault.Of(err) != fault.NotFound {
			return nil, err
		}
	}
	return nil, noTokenizer(sized + " or tokenizer.bin")
}

func noTokenizer(names string) error {
	return fault.New(fault.NotFound, "", "no tokenizer: the file holds none, and %s is not beside it", names)
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
	name         string
	largest, rms float64 // of the difference
	scale        float64 // root mean square of the original
}

// checkWeights compares every tensor of out with the one of in that it came from.
func checkWeights(in, out *tensorfile.File, w io.Writer) error {
	var worst weightError
	n, same := 0, 0
	for _, t := range out.Tensors() {
		o, ok := origin(in, t.Name)
		if !ok {
			return fault.New(fault.Internal, t.Name, "tensor %q of the output has no counterpart in the input", t.Name)
		}
		e, err := compare(o, t)
		if err != nil {
			return err
		}
		n++
		if e.largest == 0 {
			same++
		}
		if e.largest >= worst.largest {
			worst = e
		}
	}
	fmt.Fprintf(w, "%d of %d tensors unchanged", same, n)
	if worst.largest > 0 {
		fmt.Fprintf(w, "; largest error %.3g in %s (rms %.3g, weights rms %.3g)", worst.largest, printable(worst.name), worst.rms, worst.scale)
	}
	fmt.Fprintln(w)
	return nil
}

// origin finds the tensor that an output tensor came from: layers are core blocks in a .tinyloop file and blk in a GGUF one.
func origin(in *tensorfile.File, name string) (tensorfile.Tensor, bool) {
	if t, ok := in.Tensor(name); ok {
		return t, true
	}
	if rest, ok := strings.CutPrefix(name, "core."); ok {
		return in.Tensor("blk." + rest)
	}
	rest, _ := strings.CutPrefix(name, "blk.")
	return in.Tensor("core." + rest)
}

var errShape = errors.New("the shapes differ")

// compare dequantises both tensors, a stretch at a time.
func compare(a, b tensorfile.Tensor) (weightError, error) {
	e := weightError{name: b.Name}
	if a.Len() != b.Len() {
		return e, fmt.Errorf("tensor %q: %w", b.Name, errShape)
	}
	const stretch = 1 << 14 // a multiple of every block
	x, y := make([]float32, stretch), make([]float32, stretch)
	var sum, square float64
	for at := 0; at < a.Len(); at += stretch {
		n := min(stretch, a.Len()-at)
		expand(x[:n], a, at)
		expand(y[:n], b, at)
		for i, v := range x[:n] {
			d := float64(y[i]) - float64(v)
			e.largest = max(e.largest, math.Abs(d))
			sum += d * d
			square += float64(v) * float64(v)
		}
	}
	e.rms, e.scale = math.Sqrt(sum/float64(a.Len())), math.Sqrt(square/float64(a.Len()))
	return e, nil
}

// expand dequantises len(dst) values from value at on.
func expand(dst []float32, t tensorfile.Tensor, at int) {
	block, size := t.Type.Block(), t.Type.BlockBytes()
	kernel.Dequantize(dst, t.Type, t.Data[at/block*size:(at+len(dst))/block*size])
}
