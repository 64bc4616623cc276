package tensorfile

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
)

// KV is one entry of metadata to write. Value is a string, bool, uint8 … int64, float32, float64, or a slice of one of these.
type KV struct {
	Key   string
	Value any
}

// Source is one tensor to write. WriteTo must write exactly the bytes that Type and Shape (outermost first), and the layout of the file, ask for; it is called once, in order,
// so that a model never has to be in memory whole.
type Source struct {
	Name    string
	Type    kernel.Type
	Shape   []int
	WriteTo func(w io.Writer) error
}

const ggufWriteName = 63 // the longest name that ggml's own reader takes

// Write writes a GGUF version 3 file (and so a .tinyloop file), atomically: see WriteAtomic. Tensors start at multiples of 32 bytes, or of the
// uint32 general.alignment in meta; the last one is padded too. With KeyLayout in meta, matrices are written in panels. Mistakes in meta or tensors are found before anything is written.
func Write(path string, meta []KV, tensors []Source) error {
	head, sizes, align, err := ggufHead(meta, tensors)
	if err != nil {
		return err
	}
	return WriteAtomic(path, func(w io.Writer) error {
		if _, err := w.Write(pad(head, align)); err != nil {
			return err
		}
		for i, t := range tensors {
			if err := writeTensor(w, t, sizes[i], align); err != nil {
				return err
			}
		}
		return nil
	})
}

func writeTensor(w io.Writer, t Source, size, align uint64) error {
	c := &counter{w: w, left: size}
	if err := t.WriteTo(c); err != nil {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	if c.left != 0 {
		return fault.New(fault.Internal, t.Name, "tensor %q wrote %d bytes, its shape needs %d", t.Name, size-c.left, size)
	}
	_, err := w.Write(make([]byte, gap(size, align)))
	return err
}

// counter passes exactly left bytes on.
type counter struct {
	w    io.Writer
	left uint64
}

func (c *counter) Write(p []byte) (int, error) {
	if uint64(len(p)) > c.left {
		return 0, fault.New(fault.Internal, "", "more bytes than the tensor's shape needs")
	}
	n, err := c.w.Write(p)
	c.left -= uint64(n)
	return n, err
}

// ggufHead builds everything before the data, and checks all of it.
func ggufHead(meta []KV, tensors []Source) (head []byte, sizes []uint64, align uint64, err error) {
	b := append([]byte("GGUF"), 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(b[4:], ggufVersion)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(tensors)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(meta)))
	align = ggufAlignment
	seen := map[string]bool{}
	for _, kv := range meta {
		if kv.Key == "" || len(kv.Key) > ggufMaxKey || seen[kv.Key] {
			return nil, nil, 0, fault.New(fault.Invalid, kv.Key, "metadata key %q is empty, too long or stands twice", fault.Clip(kv.Key, 80))
		}
		seen[kv.Key] = true
		if kv.Key == "general.alignment" {
			a, ok := kv.Value.(uint32)
			if !ok || a < 8 || a&(a-1) != 0 || a > ggufMaxAlignment {
				return nil, nil, 0, fault.New(fault.Invalid, kv.Key, "general.alignment is %v, expected a uint32 power of two from 8 to %d", kv.Value, ggufMaxAlignment)
			}
			align = uint64(a)
		}
		if b, err = appendValue(appendText(b, kv.Key), kv.Value); err != nil {
			return nil, nil, 0, fault.New(fault.Invalid, kv.Key, "metadata key %q: %v", kv.Key, err)
		}
	}
	if seen[KeyLayout] && align%panelAlign != 0 {
		return nil, nil, 0, fault.New(fault.Invalid, KeyLayout, "matrices in panels need a general.alignment of %d, it is %d", panelAlign, align)
	}
	b, sizes, err = appendInfos(b, tensors, align, seen[KeyLayout])
	return b, sizes, align, err
}

func appendInfos(b []byte, tensors []Source, align uint64, panels bool) ([]byte, []uint64, error) {
	var at uint64
	sizes := make([]uint64, len(tensors))
	seen := make(map[string]bool, len(tensors))
	for i, t := range tensors {
		if t.Name == "" || len(t.Name) > ggufWriteName || seen[t.Name] {
			return nil, nil, fault.New(fault.Invalid, t.Name, "tensor name %q is empty, longer than %d bytes or stands twice", fault.Clip(t.Name, 80), ggufWriteName)
		}
		seen[t.Name] = true
		dims, err := writeDims(t)
		if err != nil {
			return nil, nil, err
		}
		size, why := storedSize(t.Type, dims, panels)
		if why != "" || !t.Type.Known() {
			return nil, nil, fault.New(fault.Invalid, t.Name, "tensor %q of type %s and shape %v cannot be written %s", t.Name, t.Type, t.Shape, why)
		}
		b = binary.LittleEndian.AppendUint32(appendText(b, t.Name), uint32(len(dims)))
		for _, d := range dims {
			b = binary.LittleEndian.AppendUint64(b, d)
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(t.Type))
		b = binary.LittleEndian.AppendUint64(b, at)
		sizes[i] = size
		at += size + gap(size, align)
	}
	return b, sizes, nil
}

// writeDims turns a shape round: the row first.
func writeDims(t Source) ([]uint64, error) {
	if len(t.Shape) < 1 || len(t.Shape) > ggufMaxDims {
		return nil, fault.New(fault.Invalid, t.Name, "tensor %q has %d dimensions, GGUF holds 1 to %d", t.Name, len(t.Shape), ggufMaxDims)
	}
	dims := make([]uint64, len(t.Shape))
	for i, d := range t.Shape {
		if d < 1 {
			return nil, fault.New(fault.Invalid, t.Name, "tensor %q has the shape %v: dimensions are at least 1", t.Name, t.Shape)
		}
		dims[len(dims)-1-i] = uint64(d)
	}
	return dims, nil
}

func gap(n, align uint64) uint64 { return (align - n%align) % align }

func pad(b []byte, align uint64) []byte {
	return append(b, make([]byte, gap(uint64(len(b)), align))...)
}

func appendText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// appendValue appends a value's type and bytes.
func appendValue(b []byte, v any) ([]byte, error) {
	t, ok := ggufTypeOf(v)
	if !ok {
		return nil, fmt.Errorf("values of type %T cannot be written", v)
	}
	if t != ggufArray {
		return appendScalar(binary.LittleEndian.AppendUint32(b, t), v), nil
	}
	b = binary.LittleEndian.AppendUint32(b, ggufArray)
	switch v := v.(type) {
	case []uint8:
		return appendArray(b, ggufU8, v), nil
	case []int8:
		return appendArray(b, ggufI8, v), nil
	case []uint16:
		return appendArray(b, ggufU16, v), nil
	case []int16:
		return appendArray(b, ggufI16, v), nil
	case []uint32:
		return appendArray(b, ggufU32, v), nil
	case []int32:
		return appendArray(b, ggufI32, v), nil
	case []float32:
		return appendArray(b, ggufF32, v), nil
	case []bool:
		return appendArray(b, ggufBool, v), nil
	case []string:
		return appendArray(b, ggufString, v), nil
	case []uint64:
		return appendArray(b, ggufU64, v), nil
	case []int64:
		return appendArray(b, ggufI64, v), nil
	case []float64:
		return appendArray(b, ggufF64, v), nil
	}
	return appendNested(b, v.([]any))
}

func ggufTypeOf(v any) (uint32, bool) {
	switch v.(type) {
	case uint8:
		return ggufU8, true
	case int8:
		return ggufI8, true
	case uint16:
		return ggufU16, true
	case int16:
		return ggufI16, true
	case uint32:
		return ggufU32, true
	case int32:
		return ggufI32, true
	case float32:
		return ggufF32, true
	case bool:
		return ggufBool, true
	case string:
		return ggufString, true
	case uint64:
		return ggufU64, true
	case int64:
		return ggufI64, true
	case float64:
		return ggufF64, true
	case []uint8, []int8, []uint16, []int16, []uint32, []int32, []float32, []bool, []string, []uint64, []int64, []float64, []any:
		return ggufArray, true
	}
	return 0, false
}

func appendArray[T any](b []byte, t uint32, v []T) []byte {
	b = binary.LittleEndian.AppendUint32(b, t)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(v)))
	for _, x := range v {
		b = appendScalar(b, x)
	}
	return b
}

// appendNested appends an array of arrays; each inner value carries its own element type and count, without the word "array" before it.
func appendNested(b []byte, v []any) ([]byte, error) {
	b = binary.LittleEndian.AppendUint32(b, ggufArray)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(v)))
	for _, x := range v {
		if t, ok := ggufTypeOf(x); !ok || t != ggufArray {
			return nil, fmt.Errorf("an array of arrays holds a %T", x)
		}
		inner, err := appendValue(nil, x)
		if err != nil {
			return nil, err
		}
		b = append(b, inner[4:]...)
	}
	return b, nil
}

func appendScalar(b []byte, v any) []byte {
	switch v := v.(type) {
	case uint8:
		return append(b, v)
	case int8:
		return append(b, byte(v))
	case bool:
		if v {
			return append(b, 1)
		}
		return append(b, 0)
	case uint16:
		return binary.LittleEndian.AppendUint16(b, v)
	case int16:
		return binary.LittleEndian.AppendUint16(b, uint16(v))
	case uint32:
		return binary.LittleEndian.AppendUint32(b, v)
	case int32:
		return binary.LittleEndian.AppendUint32(b, uint32(v))
	case float32:
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	case uint64:
		return binary.LittleEndian.AppendUint64(b, v)
	case int64:
		return binary.LittleEndian.AppendUint64(b, uint64(v))
	case float64:
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return appendText(b, v.(string))
}
