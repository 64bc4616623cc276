package tensorfile

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
)

// A GGUF file, all little-endian (specification: ggml-org/ggml docs/gguf.md):
//
//	"GGUF"  u32 version  u64 tensors  u64 keys
//	keys    x { string key, u32 type, value }              string = u64 length, bytes; array = u32 type, u64 count, values
//	tensors x { string name, u32 dims, u64 dim x dims, u32 type, u64 offset }     dims[0] is the row, innermost
//	padding to general.alignment, then the data; offsets count from here
const (
	ggufVersion      = 3
	ggufAlignment    = 32
	ggufMaxAlignment = 1 << 20
	ggufMaxDims      = 4
	ggufMaxKey       = 1<<16 - 1
	maxName          = 255 // of a tensor, in any container; readers of ggml stop at 63, older writers went beyond
	ggufMaxDepth     = 4   // arrays within arrays
)

// Value types of metadata.
const (
	ggufU8 = iota
	ggufI8
	ggufU16
	ggufI16
	ggufU32
	ggufI32
	ggufF32
	ggufBool
	ggufString
	ggufArray
	ggufU64
	ggufI64
	ggufF64
)

// ggufMinSize is the least number of bytes a value of each type takes.
var ggufMinSize = [...]int{1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8}

// ggufTypeName names the tensor types beyond kernel.Type, for messages only.
var ggufTypeName = map[uint32]string{9: "q8_1", 10: "q2_K", 15: "q8_K", 16: "iq2_xxs", 17: "iq2_xs",
	18: "iq3_xxs", 19: "iq1_s", 21: "iq3_s", 22: "iq2_s", 23: "iq4_xs", 24: "i8", 25: "i16", 26: "i32", 27: "i64", 28: "f64", 29: "iq1_m",
	34: "tq1_0", 35: "tq2_0", 39: "mxfp4"}

func typeName(t kernel.Type) string {
	if n, ok := ggufTypeName[uint32(t)]; ok {
		return n
	}
	return t.String()
}

// ggufInfo is one entry of the tensor table.
type ggufInfo struct {
	name   string
	dims   []uint64
	typ    kernel.Type
	offset uint64
	size   uint64 // 0 where the type is unknown
}

func (f *File) readGGUF(b []byte) error {
	f.Format = GGUF
	c := &cursor{b: b, off: 4}
	version := c.u32()
	tensors, keys := c.u64(), c.u64()
	if c.err != nil {
		return f.bad(codeTruncated, "truncated GGUF header: expected 24 bytes, found %d", len(b))
	}
	if version != 2 && version != 3 {
		if swapped := version>>24 | version&0xff<<24; swapped == 2 || swapped == 3 {
			return f.bad(codeVersion, "a big-endian GGUF file; only little-endian ones can be read")
		}
		return f.bad(codeVersion, "GGUF version %d, expected 2 or 3", version)
	}
	if err := f.readGGUFKeys(c, keys); err != nil {
		return err
	}
	if arch, _ := f.Meta.String("general.architecture"); arch == "tinyloop" {
		f.Format = TinyLoop
	}
	align, err := f.ggufAlign()
	if err != nil {
		return err
	}
	if err := f.checkLayout(align); err != nil {
		return err
	}
	infos, err := f.readGGUFInfos(c, tensors)
	if err != nil || len(infos) == 0 {
		return err
	}
	return f.placeGGUF(b, (uint64(c.off)+align-1)/align*align, align, infos)
}

func (f *File) readGGUFKeys(c *cursor, n uint64) error {
	if n > uint64(c.left())/14 { // key length, a byte of key, type, a byte of value
		return f.bad(codeCount, "the header promises %d metadata keys, more than %d bytes can hold", n, c.left())
	}
	for i := range n {
		key := c.str(ggufMaxKey)
		v := c.value(c.u32(), 0)
		if c.err != nil {
			return f.bad(c.code, "metadata key %d of %d (%q): %v", i+1, n, fault.Clip(key, 80), c.err)
		}
		if key == "" {
			return f.bad(codeValue, "metadata key %d of %d is empty", i+1, n)
		}
		if !f.Meta.add(key, v) {
			return f.bad(codeDuplicate, "the metadata key %q stands twice", fault.Clip(key, 80))
		}
	}
	return nil
}

func (f *File) ggufAlign() (uint64, error) {
	v, ok := f.Meta.Get("general.alignment")
	if !ok {
		return ggufAlignment, nil
	}
	a, ok := v.(uint32)
	if !ok {
		return 0, f.bad(codeAlignment, "general.alignment has the type %T, expected uint32", v)
	}
	if a < 8 || a&(a-1) != 0 || a > ggufMaxAlignment {
		return 0, f.bad(codeAlignment, "general.alignment is %d, expected a power of two from 8 to %d", a, ggufMaxAlignment)
	}
	return uint64(a), nil
}

func (f *File) readGGUFInfos(c *cursor, n uint64) ([]ggufInfo, error) {
	if n > uint64(c.left())/33 { // name length, a byte of name, dims, one dim, type, offset
		return nil, f.bad(codeCount, "the header promises %d tensors, more than %d bytes can hold", n, c.left())
	}
	infos := make([]ggufInfo, 0, n)
	seen := make(map[string]bool, n)
	for i := range n {
		in := ggufInfo{name: c.str(maxName)}
		dims := c.u32()
		if c.err == nil && (dims == 0 || dims > ggufMaxDims) {
			return nil, f.bad(codeShape, "tensor %q has %d dimensions, expected 1 to %d", fault.Clip(in.name, 80), dims, ggufMaxDims)
		}
		for range min(dims, ggufMaxDims) {
			in.dims = append(in.dims, c.u64())
		}
		in.typ, in.offset = kernel.Type(c.u32()), c.u64()
		if c.err != nil {
			return nil, f.bad(c.code, "tensor %d of %d (%q): %v", i+1, n, fault.Clip(in.name, 80), c.err)
		}
		if in.name == "" {
			return nil, f.bad(codeValue, "tensor %d of %d has an empty name", i+1, n)
		}
		if seen[in.name] {
			return nil, f.bad(codeDuplicate, "two tensors have the name %q", fault.Clip(in.name, 80))
		}
		seen[in.name] = true
		infos = append(infos, in)
	}
	return infos, nil
}

// placeGGUF checks every tensor against the file and against its neighbours, and makes the views.
func (f *File) placeGGUF(b []byte, start, align uint64, infos []ggufInfo) error {
	var end uint64
	spans := make([]span, 0, len(infos))
	for i := range infos {
		in := &infos[i]
		size, why := storedSize(in.typ, in.dims, f.panels)
		if why == "" && !in.typ.Known() {
			why = wild(in.dims, len(b))
		}
		if why != "" {
			return f.bad(codeShape, "tensor %q of type %s and shape [%s]: %s", fault.Clip(in.name, 80), typeName(in.typ), shapeText(in.dims), why)
		}
		if in.offset%align != 0 {
			return f.bad(codeOffset, "tensor %q starts at offset %d, expected a multiple of %d", fault.Clip(in.name, 80), in.offset, align)
		}
		if in.offset > math.MaxUint64/4 {
			return f.bad(codeOffset, "tensor %q starts at offset %d, beyond any file", fault.Clip(in.name, 80), in.offset)
		}
		in.size = size
		end = max(end, in.offset+size)
		spans = append(spans, span{in.name, in.offset, in.offset + size})
	}
	if x, y, found := overlap(spans); found {
		return f.bad(codeOffset, "tensors %q (bytes %d to %d) and %q (bytes %d to %d) overlap", fault.Clip(x.name, 80), x.start, x.end, fault.Clip(y.name, 80), y.start, y.end)
	}
	if err := f.complete(uint64(len(b)), start+end, align); err != nil {
		return err
	}
	for _, in := range infos {
		t := Tensor{Name: in.name, Type: in.typ, typeName: typeName(in.typ)}
		for d := len(in.dims) - 1; d >= 0; d-- {
			t.Shape = append(t.Shape, int(in.dims[d]))
		}
		if in.typ.Known() {
			at := start + in.offset
			t.Data = b[at : at+in.size : at+in.size]
		}
		if f.panels && len(in.dims) == 2 {
			t.Data, t.Panels = nil, t.Data
		}
		f.tensors = append(f.tensors, t)
	}
	return nil
}

// complete says whether the file ends where its tensors need it to. Writers pad the last tensor or leave the padding out; an end within the
// padding is a cut.
func (f *File) complete(have, need, align uint64) error {
	padded := (need + align - 1) / align * align
	if have < need || have > need && have < padded {
		return f.bad(codeTruncated, "truncated: its tensors need %d bytes, the file has %d", padded, have)
	}
	return nil
}

// wild bounds the shape of a tensor whose block size is not known: no format packs more than one value in a bit.
func wild(dims []uint64, file int) string {
	n := uint64(1)
	for _, d := range dims {
		n, _ = mul(n, d)
	}
	if n/8 > uint64(file) {
		return "the tensor is larger than the file"
	}
	return ""
}

// cursor walks the metadata. The first mistake stays in err; after it every read gives zero, so that a record can be read straight through and
// checked once.
type cursor struct {
	b    []byte
	off  int
	err  error
	code string
}

func (c *cursor) left() int { return len(c.b) - c.off }

func (c *cursor) fail(code, format string, args ...any) {
	if c.err == nil {
		c.code, c.err = code, fmt.Errorf(format, args...)
	}
}

// take gives the next n bytes, or nil.
func (c *cursor) take(n uint64) []byte {
	if c.err != nil {
		return nil
	}
	if n > uint64(c.left()) {
		c.fail(codeTruncated, "truncated: %d bytes expected at offset %d, the file has %d", n, c.off, len(c.b))
		return nil
	}
	b := c.b[c.off : c.off+int(n)]
	c.off += int(n)
	return b
}

func (c *cursor) u8() uint8 {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if b := c.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (c *cursor) str(limit uint64) string {
	n := c.u64()
	if n > limit {
		c.fail(codeTruncated, "a text of %d bytes, the limit is %d", n, limit)
	}
	return string(c.take(n))
}

func (c *cursor) boolean() bool {
	v := c.u8()
	if v > 1 {
		c.fail(codeValue, "a truth value of %d, expected 0 or 1", v)
	}
	return v == 1
}

func (c *cursor) value(t uint32, depth int) any {
	switch t {
	case ggufU8:
		return c.u8()
	case ggufI8:
		return int8(c.u8())
	case ggufU16:
		return c.u16()
	case ggufI16:
		return int16(c.u16())
	case ggufU32:
		return c.u32()
	case ggufI32:
		return int32(c.u32())
	case ggufF32:
		return math.Float32frombits(c.u32())
	case ggufBool:
		return c.boolean()
	case ggufString:
		return c.str(math.MaxUint64)
	case ggufArray:
		return c.array(depth)
	case ggufU64:
		return c.u64()
	case ggufI64:
		return int64(c.u64())
	case ggufF64:
		return math.Float64frombits(c.u64())
	}
	c.fail(codeValue, "value type %d, expected 0 to 12", t)
	return nil
}

func (c *cursor) array(depth int) any {
	t, n64 := c.u32(), c.u64()
	if c.err != nil {
		return nil
	}
	if t >= uint32(len(ggufMinSize)) {
		c.fail(codeValue, "array of value type %d, expected 0 to 12", t)
		return nil
	}
	if n64 > uint64(c.left()/ggufMinSize[t]) {
		c.fail(codeCount, "an array of %d values, more than the %d bytes left can hold", n64, c.left())
		return nil
	}
	n := int(n64)
	switch t {
	case ggufU8:
		return append([]uint8{}, c.take(n64)...)
	case ggufI8:
		return fill(n, func() int8 { return int8(c.u8()) })
	case ggufU16:
		return fill(n, c.u16)
	case ggufI16:
		return fill(n, func() int16 { return int16(c.u16()) })
	case ggufU32:
		return fill(n, c.u32)
	case ggufI32: // types and scores of a vocabulary: read in one go
		b, out := c.take(4*n64), make([]int32, n)
		for i := range out {
			out[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
		}
		return out
	case ggufF32:
		b, out := c.take(4*n64), make([]float32, n)
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		return out
	case ggufBool:
		return fill(n, c.boolean)
	case ggufString:
		return c.strings(n)
	case ggufU64:
		return fill(n, c.u64)
	case ggufI64:
		return fill(n, func() int64 { return int64(c.u64()) })
	case ggufF64:
		return fill(n, func() float64 { return math.Float64frombits(c.u64()) })
	}
	return c.arrays(n, depth)
}

func fill[T any](n int, next func() T) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = next()
	}
	return s
}

// strings reads n texts. A vocabulary has a quarter of a million of them: they are cut from one copy of their bytes.
func (c *cursor) strings(n int) []string {
	start, total := c.off, 0
	for range n {
		b := c.take(c.u64())
		if c.err != nil {
			return nil
		}
		total += len(b)
	}
	var all strings.Builder
	all.Grow(total)
	out := make([]string, n)
	for i := range out {
		size := int(binary.LittleEndian.Uint64(c.b[start:]))
		at := all.Len()
		all.Write(c.b[start+8 : start+8+size])
		out[i] = all.String()[at:] // stays valid: the builder only appends within its room
		start += 8 + size
	}
	return out
}

func (c *cursor) arrays(n, depth int) []any {
	if depth+1 >= ggufMaxDepth {
		c.fail(codeValue, "arrays nested deeper than %d", ggufMaxDepth)
		return nil
	}
	out := make([]any, n)
	for i := range out {
		out[i] = c.array(depth + 1)
		if c.err != nil {
			return nil
		}
	}
	return out
}
