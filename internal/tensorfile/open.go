package tensorfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
)

const (
	indexName  = "model.safetensors.index.json"
	singleName = "model.safetensors"

	maxSidecar = 256 << 20 // tokenizer.json of the largest vocabularies is about 30 MB
)

// Open opens a model file of any known container, or a folder that holds model.safetensors or model.safetensors.index.json. The content decides
// what it is. Tensor data is mapped, not read, except where noted at the format. Every error is a *fault.Error that says what was expected and found.
func Open(path string) (*File, error) {
	if path == "" {
		return nil, fault.New(fault.Invalid, "path", "no file: the name is empty")
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, pathFault(path, err)
	}
	if info.IsDir() {
		return openFolder(path)
	}
	if strings.HasSuffix(path, ".safetensors.index.json") {
		return openShards(path, filepath.Dir(path), filepath.Base(path))
	}
	f := &File{Path: path, folder: filepath.Dir(path)}
	return f.finish(f.openOne(path, f.read))
}

// OpenBytes reads a container that is in memory already, such as a model inside the program. name stands for the path in messages. The bytes must
// not change until Close; nothing lies beside them, so that there are no sidecars and no shards.
func OpenBytes(name string, b []byte) (*File, error) {
	f := &File{Path: name, reading: name, lent: true}
	if len(b) == 0 {
		return nil, badFile(name, codeEmpty, "there are 0 bytes; expected a model")
	}
	b = likeMapped(b)
	f.maps = []mapping{{data: b}}
	return f.finish(f.read(b))
}

// likeMapped gives b at an address like that of a map, as far as the alignment of tensors asks for it: b itself, or a copy where it lies elsewhere.
func likeMapped(b []byte) []byte {
	const most = 64
	if uintptr(unsafe.Pointer(unsafe.SliceData(b)))%most == 0 {
		return b
	}
	buf := make([]byte, len(b)+most)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(buf))) % most
	return append(buf[skip:skip], b...)
}

// openFolder opens the safetensors model of a folder as Hugging Face lays it out.
func openFolder(path string) (*File, error) {
	if _, err := os.Stat(filepath.Join(path, indexName)); err == nil {
		return openShards(path, path, indexName)
	}
	single := filepath.Join(path, singleName)
	if _, err := os.Stat(single); err != nil {
		return nil, pathError(fault.Invalid, codeDirectory, "%s is a folder without a model (expected %s or %s in it, or the path of a file; a run's weights are best.tinyloop)", path, singleName, indexName)
	}
	f := &File{Path: path, folder: path}
	return f.finish(f.openOne(single, f.read))
}

// openOne maps one regular file into f.maps and hands its bytes to read.
func (f *File) openOne(path string, read func(b []byte) error) error {
	m, err := mapPath(path)
	if err != nil {
		return err
	}
	f.maps, f.reading = append(f.maps, m), path
	return f.Guard(func() error { return read(m.data) })
}

// finish is the one way out of opening: all or nothing.
func (f *File) finish(err error) (*File, error) {
	if err == nil {
		err = f.index()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// mapPath maps a regular, non-empty file. What is no such file is refused by what it is.
func mapPath(path string) (mapping, error) {
	if info, err := os.Stat(path); err != nil {
		return mapping{}, pathFault(path, err)
	} else if err := regular(path, info); err != nil {
		return mapping{}, err
	}
	h, err := os.OpenFile(path, openFlags, 0)
	if err != nil {
		return mapping{}, pathFault(path, err)
	}
	defer h.Close()
	info, err := h.Stat() // again, of what was really opened
	if err != nil {
		return mapping{}, pathFault(path, err)
	}
	if err := regular(path, info); err != nil {
		return mapping{}, err
	}
	size := info.Size()
	if size == 0 {
		return mapping{}, badFile(path, codeEmpty, "the file is empty (0 bytes); expected a model")
	}
	if size > math.MaxInt {
		return mapping{}, badFile(path, codeCount, "the file has %d bytes, more than this system can address", size)
	}
	m, err := mapFile(h, int(size))
	if err != nil {
		return mapping{}, pathFault(path, err)
	}
	return m, nil
}

func regular(path string, info fs.FileInfo) error {
	mode := info.Mode()
	what := ""
	switch {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return pathError(fault.Invalid, codeDirectory, "%s is a folder, expected a file", path)
	case mode&fs.ModeNamedPipe != 0:
		what = "a named pipe"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	default:
		what = "no regular file"
	}
	return pathError(fault.Invalid, codeSpecial, "%s is %s, expected a regular file", path, what)
}

func pathFault(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return pathError(fault.NotFound, codeMissing, "%s: no such file or folder", path)
	case errors.Is(err, fs.ErrPermission):
		return pathError(fault.Denied, codeUnreadable, "%s: permission to read is missing", path)
	}
	e := pathError(fault.Invalid, codeUnreadable, "%s cannot be read", path)
	e.Err = err
	return e
}

func pathError(k fault.Kind, code, format string, args ...any) *fault.Error {
	e := fault.New(k, "", format, args...)
	e.Code = code
	return e
}

// read finds out what the bytes are, and reads them as that.
func (f *File) read(b []byte) error {
	switch {
	case bytes.HasPrefix(b, []byte("GGUF")):
		return f.readGGUF(b)
	case len(b) >= 4 && binary.LittleEndian.Uint32(b) == llama2cMagic:
		return f.readLlama2c(b)
	}
	if err := f.stranger(b); err != nil {
		return err
	}
	if looksSafetensors(b) {
		return f.readSafetensors(b)
	}
	if looksLlama2c(b) {
		return f.readLlama2c(b)
	}
	return f.bad(codeMagic, "not a model file: expected GGUF, safetensors or llama2.c, found %d bytes that start with % x", len(b), b[:min(8, len(b))])
}

// stranger refuses by name the things that people mistake for models.
func (f *File) stranger(b []byte) error {
	head := bytes.ToLower(bytes.TrimLeft(bytes.TrimPrefix(b[:min(512, len(b))], []byte("\xef\xbb\xbf")), " \t\r\n"))
	for _, p := range []string{"<!doctype", "<html", "<head", "<body", "<?xml", "<!--"} {
		if bytes.HasPrefix(head, []byte(p)) {
			return f.bad(codeHTML, "not a model file (looks like HTML): expected GGUF, safetensors or llama2.c; a download probably saved a web page")
		}
	}
	if bytes.HasPrefix(head, []byte("version https://git-lfs")) {
		return f.bad(codeLFS, "not a model file (a Git LFS pointer of %d bytes): fetch the real file with git lfs pull", len(b))
	}
	if bytes.HasPrefix(b, []byte("PK\x03\x04")) {
		return f.bad(codeZip, "not a model file (a zip archive, perhaps a PyTorch checkpoint): expected GGUF, safetensors or llama2.c")
	}
	return nil
}

// Sidecar reads a file that lies beside the model (or in its folder): config.json, tokenizer.json, tok512.bin. The name has no folder in it. An
// absent file is a fault of kind NotFound.
func (f *File) Sidecar(name string) ([]byte, error) {
	if name == "" || name != filepath.Base(name) || name == "." || name == ".." {
		return nil, fault.New(fault.Invalid, "", "sidecar name %q must be a plain file name", name)
	}
	if f.lent {
		return nil, pathError(fault.NotFound, codeMissing, "%s: nothing lies beside a model in memory", name)
	}
	path := filepath.Join(f.folder, name)
	info, err := os.Stat(path)
	if err != nil {
		return nil, pathFault(path, err)
	}
	if err := regular(path, info); err != nil {
		return nil, err
	}
	if info.Size() > maxSidecar {
		return nil, badFile(path, codeSidecarSize, "the file has %d bytes, the limit is %d", info.Size(), maxSidecar)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, pathFault(path, err)
	}
	return b, nil
}

// dataSize gives the bytes of a tensor of a known format, or why its shape cannot be. dims are outermost last (GGUF's order): dims[0] is a row.
func dataSize(t kernel.Type, dims []uint64) (size uint64, why string) {
	n, ok := uint64(1), true
	for _, d := range dims {
		if d == 0 {
			return 0, "a dimension is 0"
		}
		if n, ok = mul(n, d); !ok {
			return 0, "the number of values overflows"
		}
	}
	if !t.Known() {
		return 0, ""
	}
	block := uint64(t.Block())
	if len(dims) > 0 && dims[0]%block != 0 {
		return 0, "a row is no whole number of blocks"
	}
	if size, ok = mul(n/block, uint64(t.BlockBytes())); !ok {
		return 0, "the size overflows"
	}
	return size, ""
}
