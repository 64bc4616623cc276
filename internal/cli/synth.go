package cli

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"tinyloop/internal/arch"
	"tinyloop/internal/fault"
	"tinyloop/internal/host"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// SynthCmd writes a model of random weights: the shape and the work of a real one, for measuring and for trying tools, with nothing learned.
type SynthCmd struct {
	Out   string `arg:"" help:"File to write: .gguf (llama; nanbeige with --loops) or .tinyloop."`
	Shape string `help:"Shape to start from (${enum}); the flags below change it." enum:"260k,15m,42m,110m,124m,1.1b,custom" default:"15m"`
	Type  string `help:"Number format of the matrices (${enum})." enum:"f32,f16,bf16,q8_0,q4_0,q4_K,q5_K,q6_K" default:"q8_0"`
	Seed  uint64 `help:"Seed of the weights: the same seed and shape give the same file, byte for byte." default:"1"`

	Dim     int `help:"Width." default:"0" placeholder:"N"`
	Layers  int `help:"Blocks." default:"0" placeholder:"N"`
	Heads   int `help:"Query heads." default:"0" placeholder:"N"`
	KVHeads int `name:"kv-heads" help:"Key and value heads." default:"0" placeholder:"N"`
	Hidden  int `help:"Width inside the MLP." default:"0" placeholder:"N"`
	Vocab   int `help:"Tokens, at least 260." default:"0" placeholder:"N"`
	Context int `help:"Longest sequence." default:"0" placeholder:"N"`
	Loops   int `help:"Times that all blocks are applied." default:"1" placeholder:"N"`

	bank int // > 0: rows of a matrix repeat after so many, for models that are only timed
}

// shape is a preset: the dimensions of a well-known model.
type shape struct {
	dim, layers, heads, kv, hidden, vocab, context int
	tied                                           bool
}

func presets() map[string]shape {
	return map[string]shape{
		"260k":   {64, 5, 8, 4, 172, 512, 512, true},          // llama2.c stories260K
		"15m":    {288, 6, 6, 6, 768, 32000, 256, true},       // llama2.c stories15M
		"42m":    {512, 8, 8, 8, 1376, 32000, 1024, true},     // llama2.c stories42M
		"110m":   {768, 12, 12, 12, 2048, 32000, 1024, true},  // llama2.c stories110M
		"124m":   {768, 12, 12, 12, 2048, 50257, 1024, true},  // as large as GPT-2 small
		"1.1b":   {2048, 22, 32, 4, 5632, 32000, 2048, false}, // TinyLlama
		"custom": {0, 0, 0, 0, 0, smallestVocab, 1024, true},
	}
}

// Run writes the file and prints what it is.
func (c *SynthCmd) Run(io *IO) error {
	s, err := c.spec()
	if err != nil {
		return err
	}
	typ, ok := kernel.ParseType(c.Type)
	if !ok {
		return fault.New(fault.Invalid, "", "--type: unknown number format %q", c.Type)
	}
	if err := c.write(io.Ctx, s, typ); err != nil {
		return err
	}
	f, err := tensorfile.Open(c.Out)
	if err != nil {
		return err
	}
	defer f.Close()
	n, _ := s.Params()
	architecture, _ := f.Meta.String("general.architecture")
	fmt.Fprintf(io.Out, "%s: %s, %s parameters, %s\n", printable(filepath.Base(c.Out)), architecture, countText(n), host.SizeText(f.Size()))
	return nil
}

func (c *SynthCmd) spec() (*model.Spec, error) {
	p, ok := presets()[c.Shape]
	if !ok {
		return nil, fault.New(fault.Invalid, "", "--shape: unknown shape %q", c.Shape)
	}
	set := func(to *int, flag int) {
		if flag != 0 {
			*to = flag
		}
	}
	set(&p.dim, c.Dim)
	set(&p.layers, c.Layers)
	set(&p.heads, c.Heads)
	if c.Heads != 0 && c.KVHeads == 0 {
		p.kv = c.Heads
	}
	set(&p.kv, c.KVHeads)
	set(&p.hidden, c.Hidden)
	set(&p.vocab, c.Vocab)
	set(&p.context, c.Context)
	if p.heads < 1 || p.dim < 1 || p.dim%p.heads != 0 {
		return nil, fault.New(fault.Invalid, "", "--dim must be a multiple of the heads, is %d with %d heads", p.dim, p.heads)
	}
	if p.vocab < smallestVocab {
		return nil, fault.New(fault.Invalid, "", "--vocab must be at least %d (256 bytes, the space and three special tokens), is %d", smallestVocab, p.vocab)
	}
	s := &model.Spec{Family: "llama", Vocab: p.vocab, Dim: p.dim, Context: p.context, Core: p.layers, TiedHead: p.tied}
	s.Block = model.Block{Eps: 1e-5, Heads: p.heads, KVHeads: p.kv, HeadDim: p.dim / p.heads, Pos: model.RopeInterleaved, RopeTheta: 10000, Hidden: p.hidden}
	s.Loops = model.Loops{Default: c.Loops, TrainedMin: c.Loops, TrainedMean: c.Loops, TrainedMax: c.Loops, HardMax: c.Loops}
	if c.Loops > 1 {
		s.Family, s.LoopNorm, s.Loops.HardMax = "nanbeige", model.LoopNormBetween, 4*c.Loops
	}
	return s, s.Validate()
}

func (c *SynthCmd) write(ctx context.Context, s *model.Spec, typ kernel.Type) error {
	extra := append([]tensorfile.KV{{Key: "general.name", Value: fmt.Sprintf("synthetic %s (random weights, seed %d)", c.Shape, c.Seed)}}, synthTokenizer(s.Vocab)...)
	var sources []tensorfile.Source
	ext := strings.ToLower(filepath.Ext(c.Out))
	for i, slot := range new(model.Weights).Slots(s) {
		src := c.source(ctx, uint64(i), &slot, typ)
		if rest, ok := strings.CutPrefix(src.Name, "core."); ok && ext == ".gguf" {
			src.Name = "blk." + rest
		}
		sources = append(sources, src)
	}
	switch ext {
	case ".tinyloop":
		return arch.Save(c.Out, s, extra, sources)
	case ".gguf":
		return tensorfile.Write(c.Out, append(llamaMeta(s), extra...), sources)
	}
	return fault.New(fault.Invalid, "", "the output must end in .gguf or .tinyloop, is %s", filepath.Base(c.Out))
}

// llamaMeta is the configuration of a llama or nanbeige GGUF.
func llamaMeta(s *model.Spec) []tensorfile.KV {
	b, p := &s.Block, s.Family+"."
	meta := []tensorfile.KV{
		{Key: "general.architecture", Value: s.Family},
		{Key: p + "context_length", Value: uint32(s.Context)},
		{Key: p + "embedding_length", Value: uint32(s.Dim)},
		{Key: p + "block_count", Value: uint32(s.Core)},
		{Key: p + "feed_forward_length", Value: uint32(b.Hidden)},
		{Key: p + "attention.head_count", Value: uint32(b.Heads)},
		{Key: p + "attention.head_count_kv", Value: uint32(b.KVHeads)},
		{Key: p + "attention.layer_norm_rms_epsilon", Value: b.Eps},
		{Key: p + "rope.dimension_count", Value: uint32(b.HeadDim)},
		{Key: p + "rope.freq_base", Value: b.RopeTheta},
		{Key: p + "vocab_size", Value: uint32(s.Vocab)},
	}
	if s.Family == "nanbeige" {
		meta = append(meta, tensorfile.KV{Key: p + "num_loops", Value: uint32(s.Loops.Default)}, tensorfile.KV{Key: p + "skip_loop_final_norm", Value: false})
	}
	return meta
}

const smallestVocab = 3 + 256 + 1

// synthTokenizer is a SentencePiece vocabulary that every GGUF tool accepts: three special tokens, the 256 bytes, which any text falls back to, and the space;
// the rest of the vocabulary are words that no text is cut into, so that sampled ids print as something.
func synthTokenizer(vocab int) []tensorfile.KV {
	const normal, unknown, control, byteType = 1, 2, 3, 6
	tokens := []string{"<unk>", "<s>", "</s>"}
	types := []int32{unknown, control, control}
	for b := range 256 {
		tokens, types = append(tokens, fmt.Sprintf("<0x%02X>", b)), append(types, byteType)
	}
	tokens, types = append(tokens, "\u2581"), append(types, normal) // the space: without it some tools print the mark itself
	for i := len(tokens); i < vocab; i++ {
		tokens, types = append(tokens, fmt.Sprintf("\u2581w%d", i)), append(types, normal)
	}
	return []tensorfile.KV{
		{Key: "tokenizer.ggml.model", Value: "llama"},
		{Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.scores", Value: make([]float32, vocab)},
		{Key: "tokenizer.ggml.token_type", Value: types},
		{Key: "tokenizer.ggml.bos_token_id", Value: uint32(1)},
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(2)},
		{Key: "tokenizer.ggml.unknown_token_id", Value: uint32(0)},
		{Key: "tokenizer.ggml.add_bos_token", Value: true},
	}
}

// source is one tensor: ones for vectors (they are norms here), uniform values of variance 1/columns for matrices, which keeps the width of the
// residual stream. Each tensor has a generator of its own, so that it depends on nothing but the seed and its place.
func (c *SynthCmd) source(ctx context.Context, i uint64, s *model.Slot, typ kernel.Type) tensorfile.Source {
	src := tensorfile.Source{Name: s.Name, Type: kernel.F32, Shape: s.Shape()}
	if s.Matrix == nil {
		ones := make([]float32, s.N)
		for j := range ones {
			ones[j] = 1
		}
		src.WriteTo = func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, ones) }
		return src
	}
	if src.Type = typ; s.K%typ.Block() != 0 {
		src.Type = kernel.F16
	}
	rows, cols := s.N, s.K
	src.WriteTo = func(w io.Writer) error {
		return writeRandom(ctx, w, rand.NewPCG(c.Seed, i), src.Type, rows, cols, c.bank)
	}
	return src
}

func writeRandom(ctx context.Context, w io.Writer, g *rand.PCG, typ kernel.Type, rows, cols, bank int) error {
	scale := float32(math.Sqrt(3/float64(cols)) / (1 << 31))
	row := make([]float32, cols)
	out := make([]byte, cols/typ.Block()*typ.BlockBytes())
	buf := bufio.NewWriterSize(w, 1<<18)
	var kept []byte
	for i := range rows {
		if ctx.Err() != nil {
			return fault.New(fault.Canceled, "", "interrupted")
		}
		if bank > 0 && i >= bank {
			if _, err := buf.Write(kept[i%bank*len(out):][:len(out)]); err != nil {
				return err
			}
			continue
		}
		for j := 0; j < cols; j += 2 {
			bits := g.Uint64()
			row[j] = float32(int32(bits)) * scale
			if j+1 < cols {
				row[j+1] = float32(int32(bits>>32)) * scale
			}
		}
		kernel.Quantize(out, typ, row)
		if bank > 0 {
			kept = append(kept, out...)
		}
		if _, err := buf.Write(out); err != nil {
			return err
		}
	}
	return buf.Flush()
}
