package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"

	"tinyloop/internal/fault"
	"tinyloop/internal/tok"
)

// Shard is an open shard: its index in memory, its tokens read where they lie. Safe for concurrent reads until Close.
type Shard struct {
	Name   string
	Width  int
	Vocab  int
	Tokens int64
	Tok    [32]byte // hash of the tokenizer that made it
	Source [32]byte
	Body   [32]byte
	Groups []string

	r      io.ReaderAt
	size   int64
	close  func() error
	docs   []docEntry // one more than there are documents
	ranges []Range
	traces []Trace
}

// OpenShard opens and checks a shard: sizes before memory is taken, then that every entry lies within its file and document. What the tokens
// themselves are is checked as they are read; Verify checks the whole body against its hash.
func OpenShard(path string) (*Shard, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fault.New(fault.Invalid, "shard", "%s: %v", path, cause(err))
	}
	s, err := statShard(path, f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

func statShard(path string, f *os.File) (*Shard, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, shardFault(path, "%v", cause(err))
	}
	if !info.Mode().IsRegular() {
		return nil, shardFault(path, "not a regular file")
	}
	return readShard(path, f, info.Size(), f.Close)
}

// Close closes the file.
func (s *Shard) Close() error { return s.close() }

// Docs gives the number of documents.
func (s *Shard) Docs() int { return len(s.docs) - 1 }

// Group gives the group of document i.
func (s *Shard) Group(i int) string { return s.Groups[s.docs[i].Group] }

// DocLen gives the tokens of document i.
func (s *Shard) DocLen(i int) int { return int(s.docs[i+1].Tokens - s.docs[i].Tokens) }

// Learn gives the ranges of document i that are learned; shared, do not change.
func (s *Shard) Learn(i int) []Range { return s.ranges[s.docs[i].Ranges:s.docs[i+1].Ranges] }

// Traces gives the traces of document i; shared, do not change.
func (s *Shard) Traces(i int) []Trace { return s.traces[s.docs[i].Traces:s.docs[i+1].Traces] }

func readShard(path string, r io.ReaderAt, size int64, done func() error) (*Shard, error) {
	h, err := readHeader(path, r, size)
	if err != nil {
		return nil, err
	}
	s := &Shard{Name: path, Width: int(h.Width), Vocab: int(h.Vocab), Tokens: int64(h.Tokens), Tok: h.Tok, Source: h.Source, Body: h.Body,
		r: r, size: size, close: done}
	if err := s.index(h); err != nil {
		return nil, err
	}
	return s, s.check()
}

func shardFault(path, format string, args ...any) error {
	e := fault.New(fault.Invalid, "shard", format, args...)
	e.Msg = path + ": " + e.Msg
	return e
}

func readHeader(path string, r io.ReaderAt, size int64) (*header, error) {
	if size < headerSize {
		return nil, shardFault(path, "%d bytes, a token shard has at least %d", size, headerSize)
	}
	var b [headerSize]byte
	if _, err := r.ReadAt(b[:], 0); err != nil {
		return nil, shardFault(path, "%v", cause(err))
	}
	if string(b[:8]) != shardMagic {
		return nil, shardFault(path, "not a token shard: it begins with %q", b[:8])
	}
	var h header
	binary.Decode(b[:], binary.LittleEndian, &h) // as many bytes as the struct has
	if h.Version != shardVersion {
		return nil, shardFault(path, "version %d of the shard format, this build reads %d", h.Version, shardVersion)
	}
	if sum := crc32.Checksum(b[:headerSize-4], crc32.MakeTable(crc32.Castagnoli)); sum != h.Sum {
		return nil, shardFault(path, "the header's checksum is %08x, its bytes give %08x", h.Sum, sum)
	}
	return &h, h.check(path, size)
}

// check compares what the header promises with the size of the file, with nothing yet allocated.
func (h *header) check(path string, size int64) error {
	for _, c := range []struct {
		name     string
		val, max uint64
	}{{"tokens", h.Tokens, maxTokens}, {"documents", h.Docs, maxDocs}, {"ranges", h.Ranges, maxTokens}, {"traces", h.Traces, maxTokens},
		{"bytes of group names", h.Groups, 1 << 20}, {"vocabulary", uint64(h.Vocab), 1 << 31}} {
		if c.val > c.max {
			return shardFault(path, "%d %s, the limit is %d", c.val, c.name, c.max)
		}
	}
	if h.Width != 2 && h.Width != 4 || h.Width == 2 && h.Vocab > 1<<16 {
		return shardFault(path, "%d bytes a token for a vocabulary of %d, expected 2 or 4", h.Width, h.Vocab)
	}
	if _, _, _, _, want := h.offsets(); want != size {
		return shardFault(path, "%d bytes, its header needs %d", size, want)
	}
	return nil
}

// index reads the tables after the tokens.
func (s *Shard) index(h *header) error {
	docs, ranges, traces, groups, size := h.offsets()
	s.docs = make([]docEntry, h.Docs+1)
	s.ranges = make([]Range, h.Ranges)
	s.traces = make([]Trace, h.Traces)
	names := make([]byte, h.Groups)
	for _, t := range []struct {
		lo, hi int64
		into   any
	}{{docs, ranges, s.docs}, {ranges, traces, s.ranges}, {traces, traces + int64(h.Traces)*traceSize, s.traces}, {groups, size, names}} {
		if err := binary.Read(io.NewSectionReader(s.r, t.lo, t.hi-t.lo), binary.LittleEndian, t.into); err != nil && err != io.EOF {
			return shardFault(s.Name, "%v", cause(err))
		}
	}
	s.Groups = strings.Split(strings.TrimSuffix(string(names), "\n"), "\n")
	return nil
}

// check walks the index once.
func (s *Shard) check() error {
	last := s.docs[len(s.docs)-1]
	if s.docs[0].Tokens != 0 || s.docs[0].Ranges != 0 || s.docs[0].Traces != 0 || last.Tokens != uint64(s.Tokens) ||
		uint64(last.Ranges) != uint64(len(s.ranges)) || uint64(last.Traces) != uint64(len(s.traces)) {
		return shardFault(s.Name, "the documents do not cover the shard")
	}
	for i := range s.Docs() {
		a, b := s.docs[i], s.docs[i+1]
		if b.Tokens <= a.Tokens || b.Ranges < a.Ranges || b.Traces < a.Traces || b.Tokens > uint64(s.Tokens) ||
			int(b.Ranges) > len(s.ranges) || int(b.Traces) > len(s.traces) || int(a.Group) >= len(s.Groups) {
			return shardFault(s.Name, "document %d: its entry is out of order or out of bounds", i)
		}
		if err := checkRanges(s.Learn(i), b.Tokens-a.Tokens); err != "" {
			return shardFault(s.Name, "document %d: learned ranges: %s", i, err)
		}
		for _, t := range s.Traces(i) {
			if uint64(t.At) >= b.Tokens-a.Tokens || t.Step == 0 || t.ID < 0 || int(t.ID) >= s.Vocab {
				return shardFault(s.Name, "document %d: a trace of token %d, step %d, id %d", i, t.At, t.Step, t.ID)
			}
		}
	}
	return nil
}

// Read fills dst with the tokens of document doc from token off on. scratch holds 4·len(dst) bytes at least; nothing is allocated.
func (s *Shard) Read(doc, off int, dst []tok.ID, scratch []byte) error {
	if off < 0 || off+len(dst) > s.DocLen(doc) {
		return shardFault(s.Name, "document %d: tokens %d to %d of %d", doc, off, off+len(dst), s.DocLen(doc))
	}
	b := scratch[:len(dst)*s.Width]
	at := headerSize + (int64(s.docs[doc].Tokens)+int64(off))*int64(s.Width)
	if _, err := s.r.ReadAt(b, at); err != nil {
		return shardFault(s.Name, "%v", cause(err))
	}
	for i := range dst {
		id := uint32(0)
		if s.Width == 2 {
			id = uint32(binary.LittleEndian.Uint16(b[2*i:]))
		} else {
			id = binary.LittleEndian.Uint32(b[4*i:])
		}
		if id >= uint32(s.Vocab) {
			return shardFault(s.Name, "document %d: token %d is id %d, the vocabulary has %d", doc, off+i, id, s.Vocab)
		}
		dst[i] = tok.ID(id)
	}
	return nil
}

// Verify reads the whole file and compares it with the hash in its header.
func (s *Shard) Verify() error {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(s.r, headerSize, s.size-headerSize)); err != nil {
		return shardFault(s.Name, "%v", cause(err))
	}
	if sum := h.Sum(nil); !bytes.Equal(sum, s.Body[:]) {
		return shardFault(s.Name, "its contents give the hash %s, its header says %s: the file is damaged", short(sum), short(s.Body[:]))
	}
	return nil
}

func short(b []byte) string {
	s := ""
	for _, c := range b[:6] {
		s += strconv.FormatUint(uint64(c)>>4, 16) + strconv.FormatUint(uint64(c)&15, 16)
	}
	return s
}
