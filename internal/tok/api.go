// Package tok holds the tokenizers: byte-level BPE and SentencePiece BPE with byte fallback; encode, decode, stream decode, special tokens.
//
// Byte-level BPE: Radford et al. 2019 (GPT-2), merges after Sennrich et al. 2016 (arXiv 1508.07909). SentencePiece BPE: Kudo and
// Richardson 2018 (arXiv 1808.06226), merged by piece score. Files: GGUF metadata, Hugging Face tokenizer.json, llama2.c tokenizer.bin.
//
// Three sorts of tokens stand beside the ordinary ones:
//
//	control       <|im_end|>, <s>   EncodeMarkup only; no text of their own
//	marker        <tool_call>       EncodeMarkup only; decoded as their text
//	user-defined  "    ", "\n\n"    found in any text before everything else; decoded as their text
//
// Files do not tell markers from user-defined tokens; a user-defined token in angle or square brackets counts as a marker, so that what
// people type can never become markup.
package tok

// ID is a token's number. Negative means none.
type ID = int32

// Meta is the read side of a model file's key-value metadata (tensorfile.Meta is one).
type Meta interface {
	String(key string) (string, bool)
	Strings(key string) ([]string, bool)
	Ints(key string) ([]int32, bool) // any integer array
	Floats(key string) ([]float32, bool)
	Uint(key string) (uint64, bool) // any non-negative integer scalar
	Bool(key string) (bool, bool)
	Get(key string) (any, bool) // any value as it stands
}
