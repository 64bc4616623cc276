package train

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tinyloop/internal/data"
	"tinyloop/internal/fault"
	"tinyloop/internal/tok"
)

// corpus is a prepared corpus with the loaders of a run.
type corpus struct {
	dir      string
	manifest *data.Manifest
	sum      string // SHA-256 of the manifest, which has the hashes of all else
	train    []*data.Shard
	valid    []*data.Shard
	bytes    []int32 // of each token's text

	cfg    *Config
	t      int // tokens of a row
	loader *data.Loader
	check  *data.Loader // validation rows; nil without any
}

// openCorpus opens both parts and plans the rows of the first level.
func openCorpus(c *Config, t *tok.Tokenizer, context int) (*corpus, error) {
	m, err := data.ReadManifest(c.Data.Corpus)
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(filepath.Join(c.Data.Corpus, data.ManifestName))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	p := &corpus{dir: c.Data.Corpus, manifest: m, sum: hex.EncodeToString(sum[:]), cfg: c, t: context}
	for id := range tok.ID(t.Size()) {
		p.bytes = append(p.bytes, int32(len(t.Bytes(id))))
	}
	if p.train, err = data.OpenSplit(c.Data.Corpus, data.Train, t.Hash()); err != nil {
		return nil, err
	}
	if p.valid, err = data.OpenSplit(c.Data.Corpus, data.Valid, t.Hash()); err != nil {
		p.close()
		return nil, err
	}
	if err := p.verify(); err != nil {
		p.close()
		return nil, err
	}
	if len(p.valid) > 0 {
		// A corpus whose validation part has nothing of the families that are kept is trained without one.
		p.check, _ = p.plan(p.valid, p.kept, true)
	}
	return p, nil
}

// verify reads all shards once: a token that a bad disk has changed would be learned, or stop the run hours later.
func (p *corpus) verify() error {
	for _, s := range slices.Concat(p.train, p.valid) {
		if err := s.Verify(); err != nil {
			return err
		}
	}
	return nil
}

func (p *corpus) close() {
	for _, s := range append(p.train, p.valid...) {
		s.Close()
	}
}

// rows of one micro-step of all shards.
func (p *corpus) rows() int { return p.cfg.Batch.Shards * p.cfg.Batch.Rows }

func (p *corpus) plan(shards []*data.Shard, keep func(string) bool, ordered bool) (*data.Loader, error) {
	return data.NewLoader(shards, data.LoaderOptions{Rows: p.rows(), T: p.t, Seed: p.cfg.Seed, Ordered: ordered, Keep: keep})
}

// split takes a group apart: chain/2 is family chain of difficulty 2.
func split(group string) (family string, difficulty int) {
	family, number, _ := strings.Cut(group, "/")
	difficulty, _ = strconv.Atoi(number)
	return family, difficulty
}

// kept says whether the recipe lets a group take part.
func (p *corpus) kept(group string) bool {
	family, _ := split(group)
	keep := p.cfg.Data.Keep
	return len(keep) == 0 || slices.Contains(keep, group) || slices.Contains(keep, family)
}

// held says whether the curriculum speaks about a group.
func (p *corpus) held(group string) bool {
	family, _ := split(group)
	return slices.Contains(p.cfg.Curriculum.Families, family)
}

// setLevel plans the training rows of a level of the curriculum.
func (p *corpus) setLevel(level int) (err error) {
	p.loader, err = p.plan(p.train, func(g string) bool {
		_, d := split(g)
		return p.kept(g) && (!p.held(g) || d <= level)
	}, false)
	if err != nil && len(p.cfg.Data.Keep) > 0 {
		return fault.New(fault.Invalid, "data.keep", "the corpus has nothing to learn of data.keep %q", p.cfg.Data.Keep)
	}
	return err
}

// levels gives the greatest difficulty of the curriculum's families in the corpus.
func (p *corpus) levels() (most int) {
	for _, s := range p.train {
		for _, g := range s.Groups {
			if _, d := split(g); p.kept(g) && p.held(g) {
				most = max(most, d)
			}
		}
	}
	return most
}

// groups lists the groups that validation has of the curriculum at a level.
func (p *corpus) groups(level int) (list []string) {
	for _, s := range p.valid {
		for _, g := range s.Groups {
			if _, d := split(g); p.kept(g) && p.held(g) && d == level && !slices.Contains(list, g) {
				list = append(list, g)
			}
		}
	}
	slices.Sort(list)
	return list
}

// answers plans the validation rows of one group.
func (p *corpus) answers(group string) (*data.Loader, error) {
	l, err := p.plan(p.valid, func(g string) bool { return g == group }, true)
	if err != nil {
		return nil, fault.New(fault.Invalid, "eval.answers", "the corpus has no validation documents of group %q", fault.Clip(group, 60))
	}
	return l, nil
}
