// Package tok holds the tokenizers: byte-level BPE and SentencePiece BPE with byte fallback; encode, decode, stream decode, special tokens.
package tok

// ID is a token's number. Negative means none.
type ID = int32

// Contract of the package (bodies in their own files):
//
//	// Tokenizer is immutable and safe for concurrent use.
//	type Tokenizer struct { … }
//	func (t *Tokenizer) Encode(dst []ID, text string) []ID          // appends; user text: control-token text stays plain text; no BOS added
//	func (t *Tokenizer) EncodeMarkup(dst []ID, text string) []ID    // template markup: special tokens are recognised
//	func (t *Tokenizer) Decode(dst []byte, ids []ID) []byte         // appends exact bytes; control tokens give nothing; unknown ids are an error of the caller (checked by Valid)
//	func (t *Tokenizer) Bytes(id ID) []byte                         // bytes of one token as they stand in the text (control: nil); shared, do not change
//	func (t *Tokenizer) Piece(id ID) string                         // vocabulary text, for display
//	func (t *Tokenizer) Special(text string) (ID, bool)             // id of a control token by its text
//	func (t *Tokenizer) IsControl(id ID) bool
//	func (t *Tokenizer) Size() int
//	func (t *Tokenizer) BOS() ID; EOS() ID; EOT() ID                // -1 when there is none; EOT = end of turn
//	func (t *Tokenizer) Stops() []ID                                // every id that ends an answer (eos, eot, eom, …)
//	func (t *Tokenizer) AddBOS() bool                               // prompts start with BOS
//	func (t *Tokenizer) Kind() string                               // "bpe" or "spm"; Pre() string: the pre-tokenizer's name
//	func (t *Tokenizer) Hash() [32]byte                             // over vocabulary, merges, specials and pre-tokenizer
//
//	// Stream decodes token by token. A value: copying it forks it, so that a branch can be dropped by keeping the old one. No heap.
//	type Stream struct { … }
//	func (t *Tokenizer) NewStream() Stream                          // SPM: knows that the very first space is dropped
//	func (s *Stream) Add(dst []byte, id ID) []byte                  // appends the complete characters that id releases; holds incomplete UTF-8 back
//	func (s *Stream) Flush(dst []byte) []byte                       // at the end: U+FFFD for a dangling tail
//	func (s *Stream) Pending() int                                  // bytes held back
//
//	// Loading.
//	func FromGGUF(m Meta) (*Tokenizer, error)                       // tokenizer.ggml.* keys
//	func FromHF(tokenizerJSON, tokenizerConfig []byte) (*Tokenizer, error)
//	func FromLlama2c(data []byte, vocab int) (*Tokenizer, error)    // tok512.bin
//	func GPT2() *Tokenizer                                          // the registry dependency's vocabulary; built once
//	func (t *Tokenizer) GGUF() map[string]any                       // the tokenizer.ggml.* keys that make FromGGUF give the same tokenizer back

// Meta is the read side of a model file's key-value metadata (tensorfile.Meta is one).
type Meta interface {
	String(key string) (string, bool)
	Strings(key string) ([]string, bool)
	Ints(key string) ([]int32, bool) // any integer array
	Floats(key string) ([]float32, bool)
	Uint(key string) (uint64, bool) // any non-negative integer scalar
	Bool(key string) (bool, bool)
}
