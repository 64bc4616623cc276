package tensorfile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
)

// safeTypes names the formats that safetensors has.
func safeTypes() map[kernel.Type]string {
	return map[kernel.Type]string{kernel.F32: "F32", kernel.F16: "F16", kernel.BF16: "BF16"}
}

// WriteSafetensors writes a safetensors file, atomically: see WriteAtomic. Tensors are f32, f16 or bf16; meta becomes the file's __metadata__. The data
// starts at a multiple of eight bytes, as the reference implementation has it.
func WriteSafetensors(path string, meta map[string]string, tensors []Source) error {
	head, sizes, err := safeHead(meta, tensors)
	if err != nil {
		return err
	}
	return WriteAtomic(path, func(w io.Writer) error {
		if _, err := w.Write(head); err != nil {
			return err
		}
		for i, t := range tensors {
			if err := writeTensor(w, t, sizes[i], 1); err != nil {
				return err
			}
		}
		return nil
	})
}

// safeHead builds everything before the data.
func safeHead(meta map[string]string, tensors []Source) (head []byte, sizes []uint64, err error) {
	b := bytes.NewBufferString("{")
	member := func(key string, v any) {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		k, _ := json.Marshal(key)
		x, _ := json.Marshal(v) // texts, numbers and lists of them
		b.Write(append(append(k, ':'), x...))
	}
	if len(meta) > 0 {
		member(metadataKey, meta)
	}
	at := uint64(0)
	seen := map[string]bool{metadataKey: true}
	for _, t := range tensors {
		dtype, ok := safeTypes()[t.Type]
		if !ok {
			return nil, nil, fault.New(fault.Unsupported, t.Name, "tensor %q is %s; a safetensors file holds f32, f16 and bf16", t.Name, t.Type)
		}
		dims, err := writeDims(t)
		if err != nil {
			return nil, nil, err
		}
		size, why := dataSize(t.Type, dims)
		if why != "" || t.Name == "" || len(t.Name) > maxName || seen[t.Name] {
			return nil, nil, fault.New(fault.Invalid, t.Name, "tensor %q of shape %v cannot be written %s", fault.Clip(t.Name, 80), t.Shape, why)
		}
		seen[t.Name] = true
		member(t.Name, map[string]any{"dtype": dtype, "shape": t.Shape, "data_offsets": []uint64{at, at + size}})
		sizes = append(sizes, size)
		at += size
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(b.Len())), b.Bytes()...), sizes, nil
}
