package data

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"tinyloop/internal/fault"
)

// Limits bounds what one input may ask of memory.
type Limits struct {
	Line int // bytes of a line of JSON or text; 0 = 8 MiB
}

func (l Limits) line() int {
	if l.Line > 0 {
		return l.Line
	}
	return 8 << 20
}

// Counts says what reading met.
type Counts struct {
	Files   int   `json:"files"`
	Skipped int   `json:"skipped_files"` // files of a folder whose extension is none of ours, and empty files
	Docs    int   `json:"docs"`
	Bytes   int64 `json:"bytes"` // of the files read
}

// extensions are the files that a folder contributes; a file named by itself may be called anything.
var extensions = []string{".txt", ".text", ".md", ".jsonl", ".ndjson", ".json"}

// Read reads corpora one document at a time, in the order of paths, folders in lexical order, and stops at the first fault or the first error
// of yield. Each file is plain text, JSON lines, or one JSON array; which one is seen from its content. A leading byte order mark is dropped
// and CRLF counts as LF. An error names file, line, what is wrong, the limit and the value.
func Read(paths []string, lim Limits, yield func(*Doc) error) (Counts, error) {
	var c Counts
	for _, p := range paths {
		files, err := list(p, &c)
		if err != nil {
			return c, err
		}
		for _, f := range files {
			if err := readFile(f, lim, &c, yield); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

// list expands a folder into its files of known kinds.
func list(path string, c *Counts) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fault.New(fault.Invalid, "input", "%s: %v", path, cause(err))
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fault.New(fault.Invalid, "input", "%s: %v", p, cause(err))
		case d.IsDir():
			if p != path && (strings.HasPrefix(d.Name(), ".") || isPrepared(p)) {
				return fs.SkipDir
			}
		case strings.HasPrefix(d.Name(), ".") || !slices.Contains(extensions, strings.ToLower(filepath.Ext(p))):
			c.Skipped++
		default:
			files = append(files, p)
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fault.New(fault.Invalid, "input", "%s: the folder holds no file ending in %s", path, strings.Join(extensions, ", "))
	}
	return files, err
}

// isPrepared says whether a folder holds shards, which are no input: a corpus may be prepared into a folder beside its files.
func isPrepared(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, ManifestName))
	return err == nil
}

// cause strips the operation and path that a message gives itself.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func readFile(path string, lim Limits, c *Counts, yield func(*Doc) error) error {
	f, err := os.Open(path)
	if err != nil {
		return fault.New(fault.Invalid, "input", "%s: %v", path, cause(err))
	}
	defer f.Close()
	c.Files++
	before := c.Docs
	n := &counter{r: f}
	defer func() { c.Bytes += n.n }()
	err = readStream(path, n, lim, func(d *Doc) error {
		c.Docs++
		return yield(d)
	})
	if err == nil && c.Docs == before {
		c.Skipped++
	}
	return err
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// readStream reads one input whose errors call it name.
func readStream(name string, r io.Reader, lim Limits, yield func(*Doc) error) error {
	l := &lines{name: name, r: bufio.NewReaderSize(r, 64<<10), limit: lim.line()}
	head, err := l.r.Peek(4096)
	if err != nil && err != io.EOF {
		return l.fail("%v", cause(err))
	}
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		l.r.Discard(3)
		head = head[3:]
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}), bytes.HasPrefix(head, []byte{0xfe, 0xff}):
		l.no = 1
		return l.fail("the file is UTF-16 by its byte order mark, expected UTF-8")
	}
	if i := bytes.IndexByte(head, 0); i >= 0 {
		l.no = 1 + bytes.Count(head[:i], []byte("\n"))
		return l.fail("a zero byte: the file is not text")
	}
	switch kindOf(name, head) {
	case kindArray:
		return readArray(l, yield)
	case kindLines:
		return readLines(l, yield)
	}
	return readText(l, yield)
}

type kind uint8

const (
	kindText kind = iota
	kindLines
	kindArray
)

// kindOf tells JSON from prose by its first bytes; a name that promises JSON lines decides, so that a broken first line is an error there
// and not a strange document.
func kindOf(name string, head []byte) kind {
	ext := strings.ToLower(filepath.Ext(name))
	head = bytes.TrimLeft(head, " \t\r\n")
	switch {
	case ext == ".jsonl" || ext == ".ndjson":
		return kindLines
	case ext == ".txt" || ext == ".text" || ext == ".md":
		return kindText
	case len(head) > 1 && head[0] == '{' && isNext(head[1:], `"}`):
		return kindLines
	case len(head) > 1 && head[0] == '[' && isNext(head[1:], `"{]`):
		return kindArray
	}
	return kindText
}

func isNext(b []byte, any string) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && strings.IndexByte(any, b[0]) >= 0
}

// lines hands out lines of bounded size and knows where it is.
type lines struct {
	name  string
	r     *bufio.Reader
	no    int // number of the line last handed out, 1-based
	limit int
	buf   []byte
}

// next gives the next line without its ending; the slice is valid until the next call. At the end it gives io.EOF.
func (l *lines) next() ([]byte, error) {
	l.buf = l.buf[:0]
	l.no++
	for {
		part, err := l.r.ReadSlice('\n')
		l.buf = append(l.buf, part...)
		if len(l.buf) > l.limit+2 {
			return nil, l.fail("the line is longer than the limit of %d bytes", l.limit)
		}
		switch err {
		case nil:
			return l.checked(trimEnd(l.buf))
		case bufio.ErrBufferFull:
			continue
		case io.EOF:
			if len(l.buf) == 0 {
				return nil, io.EOF
			}
			return l.checked(trimEnd(l.buf))
		default:
			return nil, l.fail("%v", cause(err))
		}
	}
}

func (l *lines) checked(b []byte) ([]byte, error) {
	if len(b) > l.limit {
		return nil, l.fail("the line is longer than the limit of %d bytes", l.limit)
	}
	if at := invalidUTF8(b); at >= 0 {
		return nil, l.fail("invalid UTF-8: byte 0x%02x at column %d", b[at], at+1)
	}
	if at := bytes.IndexByte(b, 0); at >= 0 {
		return nil, l.fail("a zero byte at column %d: the file is not text", at+1)
	}
	return b, nil
}

func trimEnd(b []byte) []byte {
	b = bytes.TrimSuffix(b, []byte("\n"))
	return bytes.TrimSuffix(b, []byte("\r"))
}

// invalidUTF8 gives the offset of the first byte that is no UTF-8, or -1.
func invalidUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

func (l *lines) fail(format string, args ...any) error {
	e := fault.New(fault.Invalid, "input", format, args...)
	e.Msg = l.name + ":" + strconv.Itoa(l.no) + ": " + e.Msg
	return e
}

func itoa(n int) string { return strconv.Itoa(n) }
