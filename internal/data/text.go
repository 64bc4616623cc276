package data

import (
	"bytes"
	"hash/fnv"
	"io"
)

// separator is the line that text corpora put between documents.
const separator = "<|endoftext|>"

// A long text is cut into documents between paragraphs, where the paragraph's own hash says so: text put in or taken out elsewhere moves no
// other cut, so that the split by hash stays where it was.
const (
	minPiece = 1 << 10 // bytes
	maxPiece = 8 << 10
	cutEvery = 4 // of the paragraphs past minPiece, about one in cutEvery ends a document
)

// readText reads plain text. Where the separator stands within the first 64 KiB the file is a list of documents and nothing else cuts it.
func readText(l *lines, yield func(*Doc) error) error {
	head, _ := l.r.Peek(64 << 10)
	t := &texter{l: l, yield: yield, listed: hasSeparator(head)}
	for {
		line, err := l.next()
		if err == io.EOF {
			return t.flush()
		}
		if err == nil {
			err = t.add(line)
		}
		if err != nil {
			return err
		}
	}
}

func hasSeparator(b []byte) bool {
	for line := range bytes.Lines(b) {
		if string(bytes.TrimSpace(line)) == separator {
			return true
		}
	}
	return false
}

// texter gathers lines into documents.
type texter struct {
	l      *lines
	yield  func(*Doc) error
	listed bool // documents end at separators only
	buf    []byte
	para   []byte // the paragraph being read, also the end of buf
	first  int    // line on which buf begins
}

func (t *texter) add(line []byte) error {
	if string(bytes.TrimSpace(line)) == separator {
		return t.flush()
	}
	blank := len(bytes.TrimSpace(line)) == 0
	if blank && !t.listed && t.full() {
		return t.flush()
	}
	if blank {
		t.para = t.para[:0]
	}
	if len(t.buf) == 0 {
		if blank {
			return nil
		}
		t.first = t.l.no
	}
	t.buf = append(append(t.buf, line...), '\n')
	if !blank {
		t.para = append(append(t.para, line...), '\n')
	}
	switch {
	case t.listed && len(t.buf) > t.l.limit:
		return t.l.fail("the document that began on line %d is longer than the limit of %d bytes", t.first, t.l.limit)
	case !t.listed && len(t.buf) >= maxPiece:
		return t.flush()
	}
	return nil
}

// full says whether the paragraph that just ended closes the document.
func (t *texter) full() bool {
	if len(t.buf) < minPiece {
		return false
	}
	h := fnv.New64a()
	h.Write(t.para)
	return h.Sum64()>>32%cutEvery == 0
}

func (t *texter) flush() error {
	text := bytes.TrimRight(t.buf, "\n \t")
	if len(text) == 0 {
		t.buf = t.buf[:0]
		return nil
	}
	d := &Doc{Text: string(text), File: t.l.name, Line: t.first}
	t.buf, t.para = t.buf[:0], t.para[:0]
	return t.yield(d)
}
