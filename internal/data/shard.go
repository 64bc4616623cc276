package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"hash/crc32"
	"io"
	"math"
	"strings"

	"tinyloop/internal/fault"
	"tinyloop/internal/tensorfile"
	"tinyloop/internal/tok"
)

// A shard is one file, little-endian throughout, every section aligned to 8 bytes:
//
//	header   192 bytes (see header)
//	tokens   count × 2 or 4 bytes
//	docs     (docs + 1) × doc entry of 24 bytes: where each document's tokens, ranges and traces begin, and its group
//	ranges   ranges × (start u32, end u32), relative to the document
//	traces   traces × (at u32, step u32, id u32), relative to the document
//	groups   bytes of the group names, each ended by a line feed
const (
	shardMagic   = "TLSHARD\x00"
	shardVersion = 1
	headerSize   = 192
	docSize      = 24
	rangeSize    = 8
	traceSize    = 12

	// maxDocs and maxTokens bound one shard; a corpus has as many shards as it needs.
	maxDocs   = 1 << 28
	maxTokens = 1 << 33
)

// header is the first 192 bytes of a shard.
type header struct {
	Magic   [8]byte
	Version uint32
	Width   uint32 // bytes of a token: 2 or 4
	Vocab   uint32 // ids are below it
	_       uint32
	Tokens  uint64
	Docs    uint64
	Ranges  uint64
	Traces  uint64
	Groups  uint64   // bytes of the group names
	Tok     [32]byte // hash of the tokenizer
	Source  [32]byte // SHA-256 over the documents' hashes in order
	Body    [32]byte // SHA-256 of everything after the header
	_       [28]byte // zero
	Sum     uint32   // CRC-32C of the 188 bytes before it
}

// docEntry says where a document's parts begin; those of the next entry end them.
type docEntry struct {
	Tokens uint64
	Ranges uint32
	Traces uint32
	Group  uint32 // index into the group names
	_      uint32
}

// offsets gives where each section begins, and the size of the file.
func (h *header) offsets() (docs, ranges, traces, groups, size int64) {
	docs = align8(headerSize + int64(h.Tokens)*int64(h.Width))
	ranges = docs + (int64(h.Docs)+1)*docSize
	traces = ranges + int64(h.Ranges)*rangeSize
	groups = align8(traces + int64(h.Traces)*traceSize)
	return docs, ranges, traces, groups, groups + int64(h.Groups)
}

func align8(n int64) int64 { return (n + 7) &^ 7 }

// ShardWriter gathers encoded documents in memory and writes them as one shard.
type ShardWriter struct {
	vocab  int
	width  int
	tok    [32]byte
	tokens []byte
	docs   []docEntry
	ranges []Range
	traces []Trace
	groups []string
	index  map[string]uint32
	source hash.Hash
}

// NewShardWriter starts a shard for a tokenizer of the given size and hash.
func NewShardWriter(vocab int, tokenizer [32]byte) *ShardWriter {
	w := &ShardWriter{vocab: vocab, width: 4, tok: tokenizer, index: map[string]uint32{}, source: sha256.New()}
	if vocab <= math.MaxUint16+1 {
		w.width = 2
	}
	return w
}

// Len gives the tokens gathered so far.
func (w *ShardWriter) Len() int { return len(w.tokens) / w.width }

// Docs gives the documents gathered so far.
func (w *ShardWriter) Docs() int { return len(w.docs) }

// Add appends a document. Its ids must be tokens of the vocabulary, its ranges ascending, disjoint and within it.
func (w *ShardWriter) Add(t *Tokens, group string, docHash [32]byte) error {
	if err := w.check(t); err != nil {
		return err
	}
	g, ok := w.index[group]
	if !ok {
		g = uint32(len(w.groups))
		w.index[group] = g
		w.groups = append(w.groups, strings.ReplaceAll(group, "\n", " "))
	}
	w.docs = append(w.docs, docEntry{Tokens: uint64(w.Len()), Ranges: uint32(len(w.ranges)), Traces: uint32(len(w.traces)), Group: g})
	for _, id := range t.IDs {
		if w.width == 2 {
			w.tokens = binary.LittleEndian.AppendUint16(w.tokens, uint16(id))
		} else {
			w.tokens = binary.LittleEndian.AppendUint32(w.tokens, uint32(id))
		}
	}
	w.ranges = append(w.ranges, t.Learn...)
	w.traces = append(w.traces, t.Traces...)
	w.source.Write(docHash[:])
	return nil
}

func (w *ShardWriter) check(t *Tokens) error {
	if len(t.IDs) == 0 || len(t.IDs) > math.MaxUint32 || len(w.docs) >= maxDocs {
		return fault.New(fault.Invalid, "document", "a document of %d tokens as number %d of a shard, expected 1 to %d, and at most %d documents",
			len(t.IDs), len(w.docs)+1, uint32(math.MaxUint32), maxDocs)
	}
	for i, id := range t.IDs {
		if !w.valid(id) {
			return fault.New(fault.Invalid, "document", "token %d is id %d, the vocabulary has %d", i, id, w.vocab)
		}
	}
	if err := checkRanges(t.Learn, uint64(len(t.IDs))); err != "" {
		return fault.New(fault.Invalid, "document", "learned ranges: %s", err)
	}
	for _, tr := range t.Traces {
		if int(tr.At) >= len(t.IDs) || tr.Step == 0 || !w.valid(tr.ID) {
			return fault.New(fault.Invalid, "document", "trace of token %d, step %d, id %d in a document of %d tokens", tr.At, tr.Step, tr.ID, len(t.IDs))
		}
	}
	return nil
}

func (w *ShardWriter) valid(id tok.ID) bool { return id >= 0 && int(id) < w.vocab }

// checkRanges says what is wrong with the ranges of a document of n tokens, "" when nothing is.
func checkRanges(rs []Range, n uint64) string {
	end := uint32(0)
	for _, r := range rs {
		switch {
		case r.Start < end || r.End <= r.Start:
			return "not ascending and disjoint"
		case uint64(r.End) > n:
			return "beyond the document's end"
		}
		end = r.End
	}
	return ""
}

// Write writes the shard under path, whole or not at all, and gives the SHA-256 of its body.
func (w *ShardWriter) Write(path string) ([32]byte, error) {
	h := header{Version: shardVersion, Width: uint32(w.width), Vocab: uint32(w.vocab), Tokens: uint64(w.Len()), Docs: uint64(len(w.docs)),
		Ranges: uint64(len(w.ranges)), Traces: uint64(len(w.traces)), Tok: w.tok}
	copy(h.Magic[:], shardMagic)
	w.source.Sum(h.Source[:0])
	names := []byte(strings.Join(w.groups, "\n") + "\n")
	h.Groups = uint64(len(names))
	body := sha256.New()
	if err := w.body(body, names); err != nil {
		return h.Body, err
	}
	body.Sum(h.Body[:0])
	err := tensorfile.WriteAtomic(path, func(out io.Writer) error {
		if _, err := out.Write(h.bytes()); err != nil {
			return err
		}
		return w.body(out, names)
	})
	return h.Body, err
}

// bytes encodes the header with its checksum.
func (h *header) bytes() []byte {
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, h) // a fixed-size struct into memory cannot fail
	out := b.Bytes()
	binary.LittleEndian.PutUint32(out[headerSize-4:], crc32.Checksum(out[:headerSize-4], crc32.MakeTable(crc32.Castagnoli)))
	return out
}

func (w *ShardWriter) body(out io.Writer, names []byte) error {
	last := docEntry{Tokens: uint64(w.Len()), Ranges: uint32(len(w.ranges)), Traces: uint32(len(w.traces))}
	sections := []any{w.tokens, pad(headerSize + len(w.tokens)), w.docs, last, w.ranges, w.traces, pad(len(w.traces) * traceSize), names}
	for _, s := range sections {
		if err := binary.Write(out, binary.LittleEndian, s); err != nil {
			return err
		}
	}
	return nil
}

// pad gives the zero bytes that align n to 8.
func pad(n int) []byte { return make([]byte, int(align8(int64(n)))-n) }
