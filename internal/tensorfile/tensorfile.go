// Package tensorfile reads model containers safely (GGUF, safetensors, llama2.c, .tinyloop), memory-mapped, and writes GGUF and .tinyloop. It knows
// names, shapes, formats and bytes; what they mean is package arch's business.
//
// Files come from anywhere. Every count, length, offset and size is checked against the bytes that are really there before memory is taken for it,
// so that a hostile file costs at most a small multiple of its own length. Errors are *fault.Error with one of the codes below.
package tensorfile

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
)

// Format is the container a file turned out to be, told by its content and never by its name.
type Format string

const (
	GGUF        Format = "gguf"
	TinyLoop    Format = "tinyloop" // GGUF whose general.architecture is "tinyloop"
	Safetensors Format = "safetensors"
	Llama2c     Format = "llama2c"
)

// NoType is the Type of a tensor whose number format has no number in GGUF (a safetensors BOOL or F8, say).
const NoType = ^kernel.Type(0)

// File is an open container: immutable and safe for concurrent use. Tensor data is a view of the map, valid until Close.
//
// The map outlives the name: replacing the file by a rename (as WriteAtomic does) or deleting it leaves the old data readable. Truncating or
// rewriting the same file in place does not: reading a lost page ends the process, except under Guard. Tools that update models must rename.
type File struct {
	Path   string // as given to Open
	Format Format
	Meta   Meta

	folder  string // where sidecars are looked for
	reading string // the file being read, for messages
	panels  bool   // matrices lie in panels
	lent    bool   // the bytes are the caller's: there is no map to give back, and nothing lies beside them
	maps    []mapping
	holds   atomic.Int32 // calls of Hold that are not released, less 1 once the file is closed
	tensors []Tensor
	byName  map[string]int
}

// Tensor is one named array of a File.
type Tensor struct {
	Name  string
	Type  kernel.Type
	Shape []int // outermost first: a matrix is [rows, cols]; empty for a scalar
	// Data is the little-endian data in row-major order, a view that must not be written to; it starts at a multiple of the element's (or the
	// block's scale's) size. It is nil where Type is not Known, and where there are Panels: see Usable.
	Data []byte
	// Panels is what the file has instead of Data where it keeps the matrix as the kernels read it (see KeyLayout): a view at a multiple of 64 bytes.
	Panels []byte

	typeName string // as the file names the type, for messages
}

// TypeName gives the name of the tensor's number format, also of one that this build cannot read ("q4_K", "I64").
func (t Tensor) TypeName() string { return t.typeName }

// Len gives the number of values.
func (t Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Stored gives the tensor's bytes as they stand in the file: Data or Panels.
func (t Tensor) Stored() []byte {
	if t.Panels != nil {
		return t.Panels
	}
	return t.Data
}

// Usable says why the tensor's data cannot be read, or nil.
func (t Tensor) Usable() error {
	if t.Panels != nil {
		return fault.New(fault.Unsupported, KeyLayout, "the file keeps its matrices in panels, which are for serving only: take the file that it was converted from")
	}
	if t.Type.Known() {
		return nil
	}
	return fault.New(fault.Unsupported, t.Name, "tensor %q has the number format %s, which this build cannot read (it reads f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q3_K, q4_K, q5_K, q6_K, iq4_nl)", fault.Clip(t.Name, 80), t.typeName)
}

// Tensors gives the tensors in file order. The slice is the caller's own; the data is shared.
func (f *File) Tensors() []Tensor { return append([]Tensor(nil), f.tensors...) }

// Tensor finds a tensor by its name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i], true
}

// Size gives the bytes of the container on disk, all shards together.
func (f *File) Size() int64 {
	var n int64
	for _, m := range f.maps {
		n += int64(len(m.data))
	}
	return n
}

// Sum gives the SHA-256 of the container's bytes (shards one after the other, in the order of their names). It reads the whole file.
func (f *File) Sum() ([32]byte, error) {
	h := sha256.New()
	err := f.Guard(func() error {
		for _, m := range f.maps {
			h.Write(m.data)
		}
		return nil
	})
	return [32]byte(h.Sum(nil)), err
}

// Close gives the map back, unless somebody holds it. Every view of the file's data is invalid afterwards, but for theirs; a second Close does nothing.
func (f *File) Close() error {
	maps := f.maps
	f.maps, f.tensors, f.byName = nil, nil, nil
	if len(maps) == 0 || f.holds.Add(-1) >= 0 {
		return nil
	}
	return f.unmap(maps)
}

// Hold keeps the views of the file's data valid beyond Close, until release is called; later calls of that do nothing.
func (f *File) Hold() (release func()) {
	maps := f.maps
	f.holds.Add(1)
	return sync.OnceFunc(func() {
		if f.holds.Add(-1) < 0 {
			f.unmap(maps) // an error means that it was no map of ours
		}
	})
}

func (f *File) unmap(maps []mapping) error {
	var first error
	for i := range maps {
		if f.lent {
			break
		}
		if err := maps[i].unmap(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// index fills byName, and refuses two tensors of one name.
func (f *File) index() error {
	f.byName = make(map[string]int, len(f.tensors))
	for i, t := range f.tensors {
		if _, dup := f.byName[t.Name]; dup {
			return f.bad(codeDuplicate, "two tensors have the name %q", fault.Clip(t.Name, 80))
		}
		f.byName[t.Name] = i
	}
	return nil
}

// Codes of the faults that Open gives. Each names one way in which a file can be no model.
const (
	codeMissing     = "file_missing"
	codeUnreadable  = "file_unreadable"
	codeDirectory   = "file_is_directory"
	codeSpecial     = "file_is_special" // pipe, socket or device
	codeEmpty       = "file_empty"
	codeHTML        = "file_is_html"
	codeLFS         = "file_is_lfs_pointer"
	codeZip         = "file_is_zip"
	codeMagic       = "file_not_a_model"
	codeVersion     = "file_version"
	codeTruncated   = "file_truncated"
	codeCount       = "file_count"
	codeDuplicate   = "file_duplicate"
	codeShape       = "file_shape"
	codeOffset      = "file_offset"
	codeAlignment   = "file_alignment"
	codeValue       = "file_value"
	codeHeader      = "file_header"
	codeShard       = "file_shard"
	codeSidecarSize = "sidecar_too_large"
	codeLayout      = "file_layout"
	codeNotWritten  = "file_not_written"
)

// bad makes the error of a file whose content is wrong. It names the file without its folder, which may be nobody's business.
func (f *File) bad(code, format string, args ...any) error {
	return badFile(f.reading, code, format, args...)
}

func badFile(path, code, format string, args ...any) error {
	e := fault.New(fault.Invalid, "", "%s: %s", filepath.Base(path), fmt.Sprintf(format, args...))
	e.Code = code
	return e
}

// span is the place of a tensor's data, counted from the start of the data section.
type span struct {
	name       string
	start, end uint64
}

// overlap finds two spans that share bytes.
func overlap(spans []span) (a, b span, found bool) {
	s := append([]span(nil), spans...)
	sort.Slice(s, func(i, j int) bool {
		if s[i].start != s[j].start {
			return s[i].start < s[j].start
		}
		return s[i].end < s[j].end
	})
	for i := 1; i < len(s); i++ {
		if s[i].start < s[i-1].end {
			return s[i-1], s[i], true
		}
	}
	return span{}, span{}, false
}

// mul multiplies sizes and says whether the product fits below 2^62, so that sums of two such products cannot wrap either.
func mul(a, b uint64) (uint64, bool) {
	if a != 0 && b > (1<<62)/a {
		return 0, false
	}
	return a * b, true
}

func shapeText(dims []uint64) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(dims), "[]"), " ", " x ")
}
