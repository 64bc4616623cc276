// Package tensorfile reads model containers safely (GGUF, safetensors, llama2.c, .tinyloop), memory-mapped, and writes GGUF and .tinyloop. It knows
// names, shapes, formats and bytes; what they mean is package arch's business.
package tensorfile

// Contract of the package (bodies in their own files). It sits one rank above kernel, whose Type table it uses:
//
//	// File is an open container: immutable, safe for concurrent use. Tensor data is a view of the map, valid until Close.
//	type File struct { Path string; Format Format /* "gguf", "safetensors", "llama2c", "tinyloop" (gguf with general.architecture=tinyloop) */; Meta Meta; … }
//	func Open(path string) (*File, error)          // file or folder (safetensors folder with index/config.json); every size is checked before memory is taken
//	func (f *File) Tensors() []Tensor              // in file order
//	func (f *File) Tensor(name string) (Tensor, bool)
//	func (f *File) Sidecar(name string) ([]byte, error)   // config.json, tokenizer.json, tokenizer_config.json, tok512.bin… beside the file or in the folder
//	func (f *File) Close() error
//
//	type Tensor struct { Name string; Type kernel.Type; Shape []int /* outermost first: [rows, cols] */; Data []byte }
//
//	// Meta is typed metadata with ordered keys; it satisfies tok.Meta. For llama2c files the header appears as llama.* keys, and tensors under the
//	// GGUF names (token_embd.weight, blk.N.attn_q.weight, …) in GGUF's row order, so that arch has one loader for both.
//	type Meta struct { … }
//	func (m Meta) Keys() []string; Get(key string) (any, bool); String/Strings/Ints/Floats/Uint/Int/Float/Bool
//
//	// Writer of GGUF v3 (and so of .tinyloop): metadata first, tensors streamed, aligned; temporary name, fsync, rename.
//	func Write(path string, meta []KV, tensors []Source) error
//	type KV struct { Key string; Value any }  // string, bool, int32, uint32, int64, uint64, float32, float64, []string, []int32, []float32, []uint32, []bool
//	type Source struct { Name string; Type kernel.Type; Shape []int; WriteTo func(w io.Writer) error }
