package tensorfile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
)

// A safetensors file (huggingface/safetensors README): u64 length of the header, the header, the data.
//
//	{"__metadata__": {"k": "text"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
//
// The header may end in spaces; offsets count from its end; the tensors cover the data without holes or overlaps.
const (
	maxSafetensorsHeader = 100_000_000 // as in the reference implementation
	maxSafetensorsDims   = 8
	metadataKey          = "__metadata__"
)

// dtypes maps the formats of safetensors to ours and to their bytes.
var dtypes = map[string]struct {
	typ   kernel.Type
	bytes uint64
}{
	"F32": {kernel.F32, 4}, "F16": {kernel.F16, 2}, "BF16": {kernel.BF16, 2},
	"F64": {28, 8}, "I64": {27, 8}, "I32": {26, 4}, "I16": {25, 2}, "I8": {24, 1},
	"U8": {NoType, 1}, "U16": {NoType, 2}, "U32": {NoType, 4}, "U64": {NoType, 8}, "BOOL": {NoType, 1}, "F8_E4M3": {NoType, 1}, "F8_E5M2": {NoType, 1},
}

type safeEntry struct {
	Dtype   string   `json:"dtype"`
	Shape   []uint64 `json:"shape"`
	Offsets []uint64 `json:"data_offsets"`

	name string
}

func looksSafetensors(b []byte) bool {
	return len(b) > 8 && b[8] == '{' && binary.LittleEndian.Uint64(b) <= maxSafetensorsHeader
}

func (f *File) readSafetensors(b []byte) error {
	f.Format = Safetensors
	n := binary.LittleEndian.Uint64(b)
	if n > uint64(len(b)-8) {
		return f.bad(codeTruncated, "truncated: its header needs %d bytes, the file has %d", 8+n, len(b))
	}
	entries, err := f.safeHeader(b[8 : 8+n])
	if err != nil {
		return err
	}
	data := b[8+n:]
	spans := make([]span, 0, len(entries))
	for _, e := range entries {
		if err := f.checkEntry(e); err != nil {
			return err
		}
		spans = append(spans, span{e.name, e.Offsets[0], e.Offsets[1]})
	}
	if err := f.covered(spans, 8+n, uint64(len(b))); err != nil {
		return err
	}
	for _, e := range entries {
		f.tensors = append(f.tensors, e.tensor(data))
	}
	return nil
}

func (f *File) safeHeader(head []byte) ([]safeEntry, error) {
	var entries []safeEntry
	err := members(head, func(key string, dec *json.Decoder) error {
		if key == metadataKey {
			return f.safeMetadata(dec)
		}
		e := safeEntry{name: key}
		if err := dec.Decode(&e); err != nil {
			return fmt.Errorf("tensor %q: %s", fault.Clip(key, 80), fault.JSONText(err))
		}
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		return nil, f.headerFault("the safetensors header", err)
	}
	return entries, nil
}

func (f *File) safeMetadata(dec *json.Decoder) error {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return err
	}
	return members(raw, func(key string, dec *json.Decoder) error {
		var text string
		if err := dec.Decode(&text); err != nil {
			return fmt.Errorf("metadata %q: %s", fault.Clip(key, 80), fault.JSONText(err))
		}
		f.Meta.add(key, text) // shards repeat the same keys: the first stands
		return nil
	})
}

func (f *File) headerFault(what string, err error) error {
	if errors.Is(err, errTwice) {
		return f.bad(codeDuplicate, "%s: %v", what, err)
	}
	return f.bad(codeHeader, "%s is not valid: %v", what, err)
}

var errTwice = errors.New("stands twice")

// members walks a JSON object in order, refusing repeated keys and anything behind it. fn must take exactly the key's value from dec.
func members(b []byte, fn func(key string, dec *json.Decoder) error) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.New("expected a JSON object")
	}
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		key, ok := t.(string)
		if !ok {
			return errors.New("expected a key")
		}
		if seen[key] {
			return fmt.Errorf("the key %q %w", fault.Clip(key, 80), errTwice)
		}
		seen[key] = true
		if err := fn(key, dec); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("more text after the JSON object")
	}
	return nil
}

// checkEntry checks a tensor on its own: its shape against its bytes.
func (f *File) checkEntry(e safeEntry) error {
	if e.name == "" {
		return f.bad(codeValue, "a tensor has an empty name")
	}
	if len(e.name) > maxName {
		return f.bad(codeValue, "the tensor name %q has %d bytes, the limit is %d", fault.Clip(e.name, 80), len(e.name), maxName)
	}
	if len(e.Shape) > maxSafetensorsDims {
		return f.bad(codeShape, "tensor %q has %d dimensions, expected 0 to %d", fault.Clip(e.name, 80), len(e.Shape), maxSafetensorsDims)
	}
	if len(e.Offsets) != 2 || e.Offsets[0] > e.Offsets[1] {
		return f.bad(codeOffset, "tensor %q has the data_offsets %v, expected [begin, end]", fault.Clip(e.name, 80), fault.Clip(fmt.Sprint(e.Offsets), 80))
	}
	d, known := dtypes[e.Dtype]
	if !known {
		d.typ, d.bytes = NoType, 1
	}
	n, ok := d.bytes, true
	for _, dim := range e.Shape {
		if dim == 0 {
			return f.bad(codeShape, "tensor %q has the shape [%s]: a dimension is 0", fault.Clip(e.name, 80), shapeText(e.Shape))
		}
		if n, ok = mul(n, dim); !ok {
			return f.bad(codeShape, "tensor %q has the shape [%s]: its size overflows", fault.Clip(e.name, 80), shapeText(e.Shape))
		}
	}
	if have := e.Offsets[1] - e.Offsets[0]; known && have != n {
		return f.bad(codeOffset, "tensor %q of type %s and shape [%s] needs %d bytes, its data_offsets give %d", fault.Clip(e.name, 80), e.Dtype, shapeText(e.Shape), n, have)
	}
	return nil
}

// covered says whether the tensors fill the data exactly, as the format demands.
func (f *File) covered(spans []span, start, have uint64) error {
	slices.SortFunc(spans, func(a, b span) int {
		if a.start < b.start || a.start == b.start && a.end < b.end {
			return -1
		}
		return 1
	})
	var at, end uint64
	for _, s := range spans {
		end = max(end, s.end)
	}
	if end > 1<<62 || start+end > have {
		return f.bad(codeTruncated, "truncated: its tensors need %d bytes of data, the file has %d after its header", end, have-start)
	}
	for i, s := range spans {
		if s.start < at {
			return f.bad(codeOffset, "tensors %q and %q overlap at byte %d of the data", fault.Clip(spans[i-1].name, 80), fault.Clip(s.name, 80), s.start)
		}
		if s.start > at {
			return f.bad(codeOffset, "bytes %d to %d of the data belong to no tensor", at, s.start)
		}
		at = s.end
	}
	if start+end < have {
		return f.bad(codeOffset, "the file has %d bytes, its tensors end at %d", have, start+end)
	}
	return nil
}

func (e safeEntry) tensor(data []byte) Tensor {
	d, known := dtypes[e.Dtype]
	if !known {
		d.typ = NoType
	}
	t := Tensor{Name: e.name, Type: d.typ, Shape: make([]int, len(e.Shape)), typeName: e.Dtype}
	for i, dim := range e.Shape {
		t.Shape[i] = int(dim)
	}
	if d.typ.Known() {
		t.typeName = d.typ.String()
		t.Data = aligned(data[e.Offsets[0]:e.Offsets[1]:e.Offsets[1]], d.bytes)
	}
	return t
}

// aligned gives b, or a copy where b does not start at a multiple of size: the format only recommends alignment.
func aligned(b []byte, size uint64) []byte {
	if uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(size) == 0 {
		return b
	}
	return append(make([]byte, 0, len(b)), b...)
}

// openShards opens a model cut in several safetensors files by its index:
//
//	{"metadata": {…}, "weight_map": {"tensor": "model-00001-of-00002.safetensors", …}}
func openShards(path, folder, index string) (*File, error) {
	f := &File{Path: path, folder: folder, reading: index, Format: Safetensors}
	b, err := f.Sidecar(index)
	if err != nil {
		return nil, err
	}
	if err := f.stranger(b); err != nil {
		return nil, err
	}
	home, err := f.weightMap(b)
	if err != nil {
		return nil, err
	}
	return f.finish(f.readShards(home))
}

// weightMap reads which shard each tensor lies in.
func (f *File) weightMap(b []byte) (map[string]string, error) {
	home := map[string]string{}
	err := members(b, func(key string, dec *json.Decoder) error {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil || key != "weight_map" {
			return err
		}
		return members(raw, func(tensor string, dec *json.Decoder) error {
			var shard string
			err := dec.Decode(&shard)
			home[tensor] = shard
			return err
		})
	})
	if err != nil {
		return nil, f.headerFault("the index of the shards", err)
	}
	if len(home) == 0 {
		return nil, f.bad(codeShard, "the index names no tensor in weight_map")
	}
	for tensor, shard := range home {
		if shard != filepath.Base(shard) || strings.ContainsAny(shard, `/\`) || !strings.HasSuffix(shard, ".safetensors") {
			return nil, f.bad(codeShard, "tensor %q lies in %q, expected the name of a .safetensors file in the same folder", fault.Clip(tensor, 80), fault.Clip(shard, 80))
		}
	}
	return home, nil
}

func (f *File) readShards(home map[string]string) error {
	index := f.reading
	names := map[string]bool{}
	for _, shard := range home {
		names[shard] = true
	}
	found := make(map[string]string, len(home))
	for _, shard := range sorted(names) {
		first := len(f.tensors)
		if err := f.openOne(filepath.Join(f.folder, shard), f.readShard); err != nil {
			return err
		}
		for _, t := range f.tensors[first:] {
			if other, dup := found[t.Name]; dup {
				return f.bad(codeDuplicate, "tensor %q stands in %s too", fault.Clip(t.Name, 80), other)
			}
			found[t.Name] = shard
		}
	}
	f.reading = index
	for tensor, shard := range home {
		if found[tensor] != shard {
			return f.bad(codeShard, "tensor %q is not in %s, where the index puts it", fault.Clip(tensor, 80), shard)
		}
	}
	return nil
}

func (f *File) readShard(b []byte) error {
	if err := f.stranger(b); err != nil {
		return err
	}
	if !looksSafetensors(b) {
		return f.bad(codeMagic, "not a safetensors file, which the index of the shards needs here: %d bytes that start with % x", len(b), b[:min(8, len(b))])
	}
	return f.readSafetensors(b)
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for k := range set {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
