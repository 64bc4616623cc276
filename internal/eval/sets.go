package eval

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"tinyloop/internal/data"
	"tinyloop/internal/data/tinyworld"
	"tinyloop/internal/fault"
	"tinyloop/internal/tok"
)

// maxDocs bounds the documents that a set keeps in memory.
const maxDocs = 1_000_000

// maxRaw bounds a text that is read in one piece.
const maxRaw = 256 << 20

// ReadDocs reads a file or folder of documents as a set. Its name is the file's without the extension.
func ReadDocs(ctx context.Context, path string) (*Set, error) {
	s := &Set{Name: nameOf(path)}
	_, err := data.Read([]string{path}, data.Limits{}, func(d *data.Doc) error {
		if ctx.Err() != nil {
			return fault.New(fault.Canceled, "", "interrupted")
		}
		if len(s.Docs) == maxDocs {
			return fault.New(fault.Invalid, "tasks", "%s holds more than %d documents", path, maxDocs)
		}
		s.Docs = append(s.Docs, d)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(s.Docs) == 0 {
		return nil, fault.New(fault.Invalid, "tasks", "%s holds no documents", path)
	}
	return s, nil
}

// ReadText reads a file as one text, byte for byte, for its bits per byte.
func ReadText(path string) (*Set, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fault.New(fault.Invalid, "text", "%v", err)
	}
	if info.Size() > maxRaw {
		return nil, fault.New(fault.Invalid, "text", "%s has %d bytes, the limit is %d", path, info.Size(), maxRaw)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.New(fault.Invalid, "text", "%v", err)
	}
	if len(b) == 0 {
		return nil, fault.New(fault.Invalid, "text", "%s is empty (0 bytes): there is nothing to measure on", path)
	}
	if !utf8.Valid(b) {
		return nil, fault.New(fault.Invalid, "text", "%s: %d bytes that are no UTF-8 text", path, len(b))
	}
	return &Set{Name: nameOf(path), Raw: string(b)}, nil
}

// ReadPrepared reads a split of a prepared corpus, which must have been made with the tokenizer t.
func ReadPrepared(ctx context.Context, dir, split string, t *tok.Tokenizer) (*Set, error) {
	var sp data.Split
	switch split {
	case "train":
	case "valid":
		sp = data.Valid
	case "test":
		sp = data.Test
	default:
		return nil, fault.New(fault.Invalid, "split", "the split is %q, expected train, valid or test", split)
	}
	shards, err := data.OpenSplit(dir, sp, t.Hash())
	if err != nil {
		return nil, err
	}
	s := &Set{Name: nameOf(dir) + "-" + split}
	for _, sh := range shards {
		if err == nil {
			err = s.shard(ctx, sh)
		}
		sh.Close()
	}
	if err == nil && len(s.Learned) == 0 {
		err = fault.New(fault.Invalid, "data", "%s has no documents in its %s split", dir, split)
	}
	return s, err
}

func (s *Set) shard(ctx context.Context, sh *data.Shard) error {
	var scratch []byte
	for i := range sh.Docs() {
		if ctx.Err() != nil {
			return fault.New(fault.Canceled, "", "interrupted")
		}
		if len(s.Learned) == maxDocs {
			return fault.New(fault.Invalid, "data", "the split holds more than %d documents", maxDocs)
		}
		n := sh.DocLen(i)
		if cap(scratch) < 4*n {
			scratch = make([]byte, 4*n)
		}
		p := Passage{Group: sh.Group(i), IDs: make([]tok.ID, n), Learn: append([]data.Range{}, sh.Learn(i)...)}
		if err := sh.Read(i, 0, p.IDs, scratch[:4*n]); err != nil {
			return err
		}
		s.Learned = append(s.Learned, p)
	}
	return nil
}

func nameOf(path string) string {
	base := filepath.Base(filepath.Clean(path))
	if s := strings.TrimSuffix(base, filepath.Ext(base)); s != "" {
		return s
	}
	return base
}

// worldSeed makes the suite: documents of the splits that training with this seed never sees.
const worldSeed = 1

// TinyWorld makes the sets of the synthetic world: valid, drawn like training; test, which holds what training never shows; and the fixed sets of
// acceptance questions and refusals. There are docs documents of each family.
func TinyWorld(docs int) ([]*Set, error) {
	w := tinyworld.New()
	var out []*Set
	for _, sp := range []data.Split{data.Valid, data.Test} {
		s := &Set{Name: sp.String()}
		for _, f := range tinyworld.Families() {
			for i := range docs {
				d, err := w.Doc(&tinyworld.Options{Seed: worldSeed, Split: sp}, f, uint64(i))
				if err != nil {
					return nil, err
				}
				s.Docs = append(s.Docs, d)
			}
		}
		out = append(out, s)
	}
	for _, name := range []string{"acceptance", "refusals"} {
		docs, err := w.Set(name)
		if err != nil {
			return nil, err
		}
		out = append(out, &Set{Name: name, Docs: docs, Whole: true})
	}
	return out, nil
}
