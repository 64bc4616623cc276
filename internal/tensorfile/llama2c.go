package tensorfile

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"

	"tinyloop/internal/kernel"
)

// A llama2.c checkpoint (karpathy/llama2.c, export.py and run.c), all little-endian:
//
//	version 0   i32 dim, hidden, layers, heads, kv heads, vocabulary, context                                        28 bytes
//	            f32 embedding, attention norms, wq, wk, wv, wo, ffn norms, w1, w2, w3, final norm,
//	            two rotary tables of context x head/2 (recomputed, so unused), head
//	            the vocabulary is negative when the head is a matrix of its own; otherwise it is the embedding and not in the file
//	version 1   u32 "ak42", i32 1, the seven numbers, u8 shared head, zeros to byte 256
//	            f32 attention norms, ffn norms, final norm, embedding, wq, wk, wv, wo, w1, w2, w3, head unless shared
//	version 2   as version 1, i32 group size after the shared flag; norms f32, then every matrix as int8 values followed by one f32 scale per
//	            group of consecutive values (groups may run across rows)
//
// Per-layer parts hold all layers one after the other. wq and wk are in interleaved-RoPE order, which is that of GGUF's llama too, so the tensors
// appear here under GGUF's names without any change of bytes.
const (
	llama2cMagic  = 0x616b3432
	llama2cHeader = 256
)

type llama2cHead struct {
	version                                      int
	dim, hidden, layers, heads, kv, vocab, limit int // limit: longest context
	shared                                       bool
	group                                        int // version 2
	start                                        int // first byte after the header
}

// part is one run of equal tensors in the file: a single one, or one a layer (then name has a %d).
type part struct {
	name       string
	rows, cols int // rows 0: a vector
	layers     int // 0: a single tensor
	packed     bool
	skip       bool // bytes that are no weights
}

func (p part) len() uint64 {
	return uint64(max(p.rows, 1)) * uint64(p.cols) * uint64(max(p.layers, 1))
}

func (f *File) readLlama2c(b []byte) error {
	f.Format = Llama2c
	h, err := f.llama2cHead(b)
	if err != nil {
		return err
	}
	if why := h.implausible(); why != "" {
		return f.bad(codeHeader, "llama2.c version %d header: %s", h.version, why)
	}
	parts := h.parts()
	need := uint64(h.start)
	for _, p := range parts {
		size, why := h.size(p)
		if why != "" {
			return f.bad(codeShape, "llama2.c %s: %s", p.name, why)
		}
		need += size
	}
	if need != uint64(len(b)) {
		return f.bad(codeTruncated, "a llama2.c version %d file of this shape (dim %d, %d layers, vocabulary %d) has %d bytes, found %d: truncated or not a model",
			h.version, h.dim, h.layers, h.vocab, need, len(b))
	}
	f.Meta = h.meta(f.Path)
	f.placeLlama2c(b, h, parts)
	return nil
}

// looksLlama2c says whether seven numbers at the start could be the header of version 0, which has no magic.
func looksLlama2c(b []byte) bool {
	if len(b) < 28 {
		return false
	}
	h := legacyHead(b)
	return h.implausible() == ""
}

func legacyHead(b []byte) llama2cHead {
	h := llama2cHead{start: 28}
	h.numbers(b)
	h.shared = h.vocab > 0
	if !h.shared {
		h.vocab = -h.vocab
	}
	return h
}

func (h *llama2cHead) numbers(b []byte) {
	for i, p := range []*int{&h.dim, &h.hidden, &h.layers, &h.heads, &h.kv, &h.vocab, &h.limit} {
		*p = int(int32(binary.LittleEndian.Uint32(b[4*i:])))
	}
}

func (f *File) llama2cHead(b []byte) (llama2cHead, error) {
	if binary.LittleEndian.Uint32(b) != llama2cMagic {
		return legacyHead(b), nil
	}
	if len(b) < llama2cHeader {
		return llama2cHead{}, f.bad(codeTruncated, "truncated llama2.c header: expected %d bytes, found %d", llama2cHeader, len(b))
	}
	h := llama2cHead{version: int(binary.LittleEndian.Uint32(b[4:])), start: llama2cHeader, shared: b[36] == 1}
	if h.version != 1 && h.version != 2 {
		return h, f.bad(codeVersion, "llama2.c version %d, expected 0, 1 or 2", h.version)
	}
	if b[36] > 1 {
		return h, f.bad(codeValue, "llama2.c shared-head flag is %d, expected 0 or 1", b[36])
	}
	h.numbers(b[8:])
	if h.version == 2 {
		h.group = int(int32(binary.LittleEndian.Uint32(b[37:])))
		if h.group < 1 || h.group > 1<<20 {
			return h, f.bad(codeValue, "llama2.c group size is %d, expected 1 to %d", h.group, 1<<20)
		}
	}
	return h, nil
}

// implausible says why the header can be no model's. The limits keep every product below 2^62.
func (h llama2cHead) implausible() string {
	for _, x := range []struct {
		name   string
		v, max int
	}{{"dim", h.dim, 1 << 16}, {"hidden dim", h.hidden, 1 << 18}, {"layers", h.layers, 1 << 10}, {"heads", h.heads, 1 << 10},
		{"KV heads", h.kv, 1 << 10}, {"vocabulary", h.vocab, 1 << 22}, {"context", h.limit, 1 << 22}} {
		if x.v < 1 || x.v > x.max {
			return fmt.Sprintf("%s is %d, expected 1 to %d", x.name, x.v, x.max)
		}
	}
	if h.dim%h.heads != 0 || h.dim/h.heads%2 != 0 {
		return fmt.Sprintf("dim %d is no even multiple of %d heads", h.dim, h.heads)
	}
	if h.heads%h.kv != 0 {
		return fmt.Sprintf("%d heads are no multiple of %d KV heads", h.heads, h.kv)
	}
	return ""
}

// parts lists what the file holds, in its order.
func (h llama2cHead) parts() []part {
	kv, q := h.dim/h.heads*h.kv, h.version == 2
	embed := part{name: "token_embd.weight", rows: h.vocab, cols: h.dim, packed: q}
	attnNorm := part{name: "blk.%d.attn_norm.weight", cols: h.dim, layers: h.layers}
	ffnNorm := part{name: "blk.%d.ffn_norm.weight", cols: h.dim, layers: h.layers}
	norm := part{name: "output_norm.weight", cols: h.dim}
	attn := []part{
		{name: "blk.%d.attn_q.weight", rows: h.dim, cols: h.dim, layers: h.layers, packed: q},
		{name: "blk.%d.attn_k.weight", rows: kv, cols: h.dim, layers: h.layers, packed: q},
		{name: "blk.%d.attn_v.weight", rows: kv, cols: h.dim, layers: h.layers, packed: q},
		{name: "blk.%d.attn_output.weight", rows: h.dim, cols: h.dim, layers: h.layers, packed: q},
	}
	ffn := []part{
		{name: "blk.%d.ffn_gate.weight", rows: h.hidden, cols: h.dim, layers: h.layers, packed: q},
		{name: "blk.%d.ffn_down.weight", rows: h.dim, cols: h.hidden, layers: h.layers, packed: q},
		{name: "blk.%d.ffn_up.weight", rows: h.hidden, cols: h.dim, layers: h.layers, packed: q},
	}
	var list []part
	if h.version == 0 {
		list = append(append([]part{embed, attnNorm}, attn...), ffnNorm)
		list = append(append(list, ffn...), norm)
		list = append(list, part{name: "rotary tables", rows: 2 * h.limit, cols: h.dim / h.heads / 2, skip: true})
	} else {
		list = append(append([]part{attnNorm, ffnNorm, norm, embed}, attn...), ffn...)
	}
	if !h.shared {
		list = append(list, part{name: "output.weight", rows: h.vocab, cols: h.dim, packed: q})
	}
	return list
}

// size gives the bytes of a part, or why it cannot be.
func (h llama2cHead) size(p part) (uint64, string) {
	n := p.len()
	if !p.packed {
		return 4 * n, ""
	}
	one, group := n/uint64(max(p.layers, 1)), uint64(h.group)
	if one%group != 0 {
		return 0, fmt.Sprintf("%d values are no whole number of groups of %d", one, group)
	}
	return n + n/group*4, ""
}

func (h llama2cHead) meta(path string) Meta {
	name := filepath.Base(path)
	var m Meta
	m.add("general.architecture", "llama")
	m.add("general.name", name[:len(name)-len(filepath.Ext(name))])
	for _, kv := range []struct {
		key string
		v   int
	}{{"context_length", h.limit}, {"embedding_length", h.dim}, {"feed_forward_length", h.hidden}, {"attention.head_count", h.heads},
		{"attention.head_count_kv", h.kv}, {"block_count", h.layers}, {"rope.dimension_count", h.dim / h.heads}, {"vocab_size", h.vocab}} {
		m.add("llama."+kv.key, uint32(kv.v))
	}
	m.add("llama.attention.layer_norm_rms_epsilon", float32(1e-5)) // fixed in run.c
	m.add("llama.rope.freq_base", float32(10000))                  // fixed in run.c
	return m
}

// placeLlama2c makes the tensors; the sizes are checked.
func (f *File) placeLlama2c(b []byte, h llama2cHead, parts []part) {
	off := h.start
	for _, p := range parts {
		if p.skip {
			size, _ := h.size(p)
			off += int(size)
			continue
		}
		for l := range max(p.layers, 1) {
			t := Tensor{Name: p.name, Shape: []int{p.rows, p.cols}}
			if p.layers > 0 {
				t.Name = fmt.Sprintf(p.name, l)
			}
			if p.rows == 0 {
				t.Shape = t.Shape[1:]
			}
			n := t.Len()
			if p.packed {
				scales := off + n
				off = scales + n/h.group*4
				t.Type, t.Data = unpackGroups(b[scales-n:scales], b[scales:off], h.group, p.cols)
			} else {
				t.Type, t.Data = kernel.F32, b[off:off+4*n:off+4*n]
				off += 4 * n
			}
			t.typeName = t.Type.String()
			f.tensors = append(f.tensors, t)
		}
	}
}

// unpackGroups turns a matrix of int8 values with f32 scales into a format that kernels know: q8_0 where its blocks of 32 lie within the groups
// and within rows (the scale is rounded to f16: 1 part in 2048), f32 otherwise (exact). The result is a copy of at most four times the values.
func unpackGroups(q, scales []byte, group, cols int) (kernel.Type, []byte) {
	block := kernel.Q8_0.Block()
	if group%block == 0 && cols%block == 0 && halfScales(scales) {
		return kernel.Q8_0, groupsToBlocks(q, scales, group/block)
	}
	out := make([]byte, 4*len(q))
	for i, v := range q {
		s := math.Float32frombits(binary.LittleEndian.Uint32(scales[i/group*4:]))
		binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(float32(int8(v))*s))
	}
	return kernel.F32, out
}

// halfScales says whether every scale keeps f16's full precision.
func halfScales(scales []byte) bool {
	for i := 0; i < len(scales); i += 4 {
		s := math.Abs(float64(math.Float32frombits(binary.LittleEndian.Uint32(scales[i:]))))
		if s != 0 && !(s >= 0x1p-14 && s <= 65504) {
			return false
		}
	}
	return true
}

// groupsToBlocks interleaves: each q8_0 block is its f16 scale, then 32 values.
func groupsToBlocks(q, scales []byte, blocksPerGroup int) []byte {
	block, size := kernel.Q8_0.Block(), kernel.Q8_0.BlockBytes()
	out := make([]byte, len(q)/block*size)
	for b := range len(q) / block {
		s := math.Float32frombits(binary.LittleEndian.Uint32(scales[b/blocksPerGroup*4:]))
		binary.LittleEndian.PutUint16(out[b*size:], kernel.F32ToF16(s))
		copy(out[b*size+2:(b+1)*size], q[b*block:])
	}
	return out
}
