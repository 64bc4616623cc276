package data

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tinyloop/internal/fault"
	"tinyloop/internal/tensorfile"
)

// ManifestName is the file that says which shards of a folder belong together. It is written last.
const ManifestName = "data.json"

// Manifest describes a prepared corpus. Files are relative to its folder.
type Manifest struct {
	Format      int                      `json:"format"` // 1
	Tokenizer   string                   `json:"tokenizer"`
	Vocab       int                      `json:"vocab"`
	Template    string                   `json:"chat_template"`
	Read        Counts                   `json:"read"`
	Doubles     int                      `json:"duplicates"`
	Near        float64                  `json:"near,omitempty"` // similarity from which on documents counted as duplicates; 0 = not looked for
	NearDoubles int                      `json:"near_duplicates,omitempty"`
	Shares      Shares                   `json:"shares"`
	Splits      [splits]SplitInfo        `json:"splits"` // train, valid, test
	Groups      map[string][splits]Tally `json:"groups"`
}

// SplitInfo is one part of a prepared corpus.
type SplitInfo struct {
	Name   string      `json:"name"`
	Tally              // all its documents
	Shards []ShardInfo `json:"shards"`
}

// ShardInfo names a shard and what it must hold.
type ShardInfo struct {
	File   string `json:"file"`
	Docs   int    `json:"docs"`
	Tokens int    `json:"tokens"`
	SHA256 string `json:"body_sha256"`
}

// Tally counts documents, their tokens, and those of them that are learned.
type Tally struct {
	Docs    int   `json:"docs"`
	Tokens  int64 `json:"tokens"`
	Learned int64 `json:"learned"`
}

func (t *Tally) add(x *Tokens) {
	t.Docs++
	t.Tokens += int64(len(x.IDs))
	for _, r := range x.Learn {
		t.Learned += int64(r.End - r.Start)
	}
}

// PrepareOptions says what to prepare and how.
type PrepareOptions struct {
	Inputs         []string
	Out            string // folder; made when absent
	Coder          *Coder
	Shares         Shares // of documents that carry no split of their own
	KeepDuplicates bool
	Near           float64 // leave out documents at least this similar to an earlier one, LeastNear to MostNear; 0 = keep them
	ShardTokens    int     // tokens at which a shard is closed; 0 = 16 Mi
	Limits         Limits
	Force          bool           // replace a corpus that is there already
	Progress       func(docs int) // called now and then; may be nil
}

// Prepare reads, removes duplicates, splits, encodes and writes shards and manifest. Memory: one open shard a split, 16 bytes a document
// for the duplicate check, and where near duplicates are looked for 1.2 kB a document that is kept.
func Prepare(ctx context.Context, o PrepareOptions) (*Manifest, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	p := newPreparer(&o)
	_, serr := os.Stat(o.Out)
	if err := p.clear(); err != nil {
		return nil, err
	}
	m, err := p.run(ctx)
	if err != nil {
		p.undo(errors.Is(serr, fs.ErrNotExist))
	}
	return m, err
}

// undo takes away what was written of a corpus that did not come about, and the folder if it was made for it.
func (p *preparer) undo(made bool) {
	for _, s := range p.m.Splits {
		for _, f := range s.Shards {
			os.Remove(filepath.Join(p.o.Out, f.File))
		}
	}
	if made {
		os.Remove(p.o.Out)
	}
}

func (p *preparer) run(ctx context.Context) (*Manifest, error) {
	o := p.o
	read, err := Read(o.Inputs, o.Limits, func(d *Doc) error {
		if err := ctx.Err(); err != nil {
			return fault.New(fault.Canceled, "", "stopped")
		}
		return p.add(d)
	})
	p.m.Read = read
	if err != nil {
		return nil, err
	}
	return p.finish()
}

func (o *PrepareOptions) check() error {
	s := o.Shares
	switch {
	case len(o.Inputs) == 0:
		return fault.New(fault.Invalid, "input", "no input: name a file or a folder")
	case o.Out == "":
		return fault.New(fault.Invalid, "out", "no folder to write to")
	case s.Valid < 0 || s.Test < 0 || s.Valid+s.Test > 9_000:
		return fault.New(fault.Invalid, "shares", "%d and %d of 10,000 documents for validation and test, expected 0 to 9,000 together", s.Valid, s.Test)
	case o.Near != 0 && !(o.Near >= LeastNear && o.Near <= MostNear):
		return fault.New(fault.Invalid, "near", "documents of a similarity of %g count as duplicates, expected %g to %g", o.Near, LeastNear, MostNear)
	case o.ShardTokens < 0 || o.ShardTokens > maxTokens:
		return fault.New(fault.Invalid, "shard_tokens", "%d tokens a shard, expected 1 to %d", o.ShardTokens, int64(maxTokens))
	}
	return nil
}

type preparer struct {
	o      *PrepareOptions
	m      *Manifest
	seen   map[[16]byte]struct{}
	near   *nearIndex // nil = not looked for
	open   [splits]*ShardWriter
	tokens Tokens
}

func newPreparer(o *PrepareOptions) *preparer {
	if o.ShardTokens == 0 {
		o.ShardTokens = 16 << 20
	}
	hash := o.Coder.tok.Hash()
	m := &Manifest{Format: 1, Tokenizer: hex.EncodeToString(hash[:]), Vocab: o.Coder.tok.Size(), Template: templateName(o.Coder), Shares: o.Shares,
		Groups: map[string][splits]Tally{}}
	for i := range m.Splits {
		m.Splits[i].Name = Split(i).String()
		m.Splits[i].Shards = []ShardInfo{}
	}
	p := &preparer{o: o, m: m, seen: map[[16]byte]struct{}{}}
	if m.Near = o.Near; o.Near != 0 {
		p.near = newNearIndex(o.Near)
	}
	return p
}

func templateName(c *Coder) string {
	if c.template.Source() == "" {
		return "chatml"
	}
	return c.template.Source()
}

// clear makes the folder and removes a corpus of before, if that may be; nothing else in the folder is touched.
func (p *preparer) clear() error {
	if err := os.MkdirAll(p.o.Out, 0o777); err != nil {
		return fault.New(fault.Invalid, "out", "%s: %v", p.o.Out, cause(err))
	}
	path := filepath.Join(p.o.Out, ManifestName)
	old, err := ReadManifest(p.o.Out)
	if err != nil {
		if _, serr := os.Stat(path); errors.Is(serr, fs.ErrNotExist) {
			return nil
		}
	}
	if !p.o.Force {
		return fault.New(fault.Invalid, "out", "%s holds a prepared corpus already: choose another folder, or replace it with --force", p.o.Out)
	}
	if err := os.Remove(path); err != nil {
		return fault.New(fault.Invalid, "out", "%s: %v", path, cause(err))
	}
	if old == nil {
		return nil
	}
	for _, s := range old.Splits {
		for _, f := range s.Shards {
			os.Remove(filepath.Join(p.o.Out, f.File)) // what cannot be removed is in no manifest any more
		}
	}
	return nil
}

func (p *preparer) add(d *Doc) error {
	hash := d.Hash()
	if !p.o.KeepDuplicates {
		key := [16]byte(hash[:16])
		if _, ok := p.seen[key]; ok {
			p.m.Doubles++
			return nil
		}
		p.seen[key] = struct{}{}
	}
	if p.near != nil && p.near.seen(d) {
		p.m.NearDoubles++
		return nil
	}
	if err := p.o.Coder.Encode(d, &p.tokens); err != nil {
		return err
	}
	sp := d.splitOf(p.o.Shares, hash)
	w := p.open[sp]
	if w == nil {
		w = NewShardWriter(p.o.Coder.tok.Size(), p.o.Coder.tok.Hash())
		p.open[sp] = w
	}
	if err := w.Add(&p.tokens, d.Group(), hash); err != nil {
		return fmt.Errorf("%s:%d: %w", d.File, d.Line, err)
	}
	p.count(d.Group(), sp)
	if w.Len() >= p.o.ShardTokens {
		return p.close(sp)
	}
	return nil
}

func (p *preparer) count(group string, sp Split) {
	p.m.Splits[sp].add(&p.tokens)
	g := p.m.Groups[group]
	g[sp].add(&p.tokens)
	p.m.Groups[group] = g
	if n := p.m.Splits[0].Docs + p.m.Splits[1].Docs + p.m.Splits[2].Docs; n%1024 == 0 && p.o.Progress != nil {
		p.o.Progress(n)
	}
}

// close writes the open shard of a split.
func (p *preparer) close(sp Split) error {
	w := p.open[sp]
	if w == nil {
		return nil
	}
	p.open[sp] = nil
	info := &p.m.Splits[sp]
	name := fmt.Sprintf("%s-%05d.tlbin", sp, len(info.Shards))
	sum, err := w.Write(filepath.Join(p.o.Out, name))
	if err != nil {
		return err
	}
	info.Shards = append(info.Shards, ShardInfo{File: name, Docs: w.Docs(), Tokens: w.Len(), SHA256: hex.EncodeToString(sum[:])})
	return nil
}

func (p *preparer) finish() (*Manifest, error) {
	for sp := range Split(splits) {
		if err := p.close(sp); err != nil {
			return nil, err
		}
	}
	if p.m.Splits[Train].Docs == 0 {
		return nil, fault.New(fault.Invalid, "input", "no document for training: %d read, %d duplicates, %d for validation, %d for test",
			p.m.Read.Docs, p.m.Doubles+p.m.NearDoubles, p.m.Splits[Valid].Docs, p.m.Splits[Test].Docs)
	}
	b, err := json.MarshalIndent(p.m, "", "  ")
	if err != nil {
		return nil, err
	}
	err = tensorfile.WriteAtomic(filepath.Join(p.o.Out, ManifestName), func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
	if err != nil {
		return nil, err
	}
	return p.m, nil
}

// maxManifest bounds the file that is read whole.
const maxManifest = 64 << 20

// ReadManifest reads the manifest of a prepared corpus.
func ReadManifest(dir string) (*Manifest, error) {
	path := filepath.Join(dir, ManifestName)
	info, err := os.Stat(path)
	if err != nil {
		return nil, fault.New(fault.Invalid, "data", "%s holds no prepared corpus (%s: %v)", dir, ManifestName, cause(err))
	}
	if info.Size() > maxManifest {
		return nil, fault.New(fault.Invalid, "data", "%s is %d bytes, the limit is %d", path, info.Size(), maxManifest)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.New(fault.Invalid, "data", "%s: %v", path, cause(err))
	}
	var m Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fault.New(fault.Invalid, "data", "%s: %v", path, jsonFault(err))
	}
	if m.Format != 1 {
		return nil, fault.New(fault.Invalid, "data", "%s is of format %d, this build reads 1", path, m.Format)
	}
	if err := m.checkNames(path); err != nil {
		return nil, err
	}
	return &m, nil
}

// checkNames keeps a manifest from naming files elsewhere.
func (m *Manifest) checkNames(path string) error {
	for _, s := range m.Splits {
		for _, f := range s.Shards {
			if f.File == "" || strings.ContainsAny(f.File, `/\:`) || !strings.HasSuffix(f.File, ".tlbin") {
				return fault.New(fault.Invalid, "data", "%s names the shard %q, expected a plain name ending in .tlbin", path, f.File)
			}
		}
	}
	return nil
}

// OpenSplit opens the shards of one part of a prepared corpus and checks that they are the manifest's and the tokenizer's. The caller
// closes them.
func OpenSplit(dir string, sp Split, tokenizer [32]byte) ([]*Shard, error) {
	m, err := ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	if want := hex.EncodeToString(tokenizer[:]); m.Tokenizer != want {
		return nil, fault.New(fault.Invalid, "data", "%s was prepared with another tokenizer (hash %.12s, the model's is %.12s): prepare it again",
			dir, m.Tokenizer, want)
	}
	var out []*Shard
	for _, f := range m.Splits[sp].Shards {
		s, err := OpenShard(filepath.Join(dir, f.File))
		if err == nil {
			out = append(out, s)
			err = f.match(s, tokenizer)
		}
		if err != nil {
			for _, s := range out {
				s.Close()
			}
			return nil, err
		}
	}
	return out, nil
}

func (f *ShardInfo) match(s *Shard, tokenizer [32]byte) error {
	switch sum := hex.EncodeToString(s.Body[:]); {
	case sum != f.SHA256:
		return shardFault(s.Name, "its hash is %.12s, the manifest says %.12s", sum, f.SHA256)
	case s.Tok != tokenizer:
		return shardFault(s.Name, "made with another tokenizer")
	}
	return nil
}

// TokenizerHash gives the hash of the tokenizer that the corpus was prepared with.
func (m *Manifest) TokenizerHash() (hash [32]byte, err error) {
	b, err := hex.DecodeString(m.Tokenizer)
	if err != nil || len(b) != len(hash) {
		return hash, fault.New(fault.Invalid, "data", "the manifest's tokenizer is %.80q, expected the 64 hex digits of a hash", m.Tokenizer)
	}
	return [32]byte(b), nil
}
