package host

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"

	"tinyloop/internal/arch"
	"tinyloop/internal/chat"
	"tinyloop/internal/embedded"
	"tinyloop/internal/engine"
	"tinyloop/internal/fault"
	"tinyloop/internal/gen"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
	"tinyloop/internal/tok"
)

// Model is a loaded model with its running engine.
type Model struct {
	*gen.Generator
	Name    string
	Aliases []string // set before Add

	engine  *engine.Engine
	scratch *model.Scratch
	weights *model.Model
	closing sync.Once
	err     error
}

// Close refuses new requests, lets the running ones finish until ctx ends, then gives all memory back. No stream of the model may be read for
// tokens after. Later calls do nothing.
func (m *Model) Close(ctx context.Context) error {
	m.closing.Do(func() {
		m.err = m.engine.Drain(ctx)
		m.engine.Close()
		m.scratch.Close()
		m.weights.Close()
	})
	return m.err
}

// Load opens a model file (or folder) and starts its engine. Every error names the file and what is wrong with it.
func Load(name, path string, o Options) (*Model, error) {
	f, err := tensorfile.Open(path)
	if err != nil {
		return nil, named(path, err)
	}
	return start(name, f, o)
}

// LoadBytes is Load of a file that is in memory already; file stands for its path in errors. The bytes are not needed afterwards.
func LoadBytes(name, file string, b []byte, o Options) (*Model, error) {
	f, err := tensorfile.OpenBytes(file, b)
	if err != nil {
		return nil, named(file, err)
	}
	return start(name, f, o)
}

// LoadEmbedded loads the model inside the program under the name "tl". A build without one gives a fault of kind NoModel.
func LoadEmbedded(o Options) (*Model, error) {
	b, ok := embedded.Model()
	if !ok {
		return nil, fault.New(fault.NoModel, "model", "this build has no model of its own")
	}
	return LoadBytes(Default, embedded.File, b, o)
}

// start makes a running model of an open file, which it closes: the model keeps nothing of it.
func start(name string, f *tensorfile.File, o Options) (*Model, error) {
	defer f.Close()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	path := f.Path
	var m *Model
	if err := f.Guard(func() (err error) { m, err = load(name, f, o); return err }); err != nil {
		return nil, named(path, err)
	}
	return m, nil
}

// named puts the file's name in front of an error's message, if it is not there already.
func named(path string, err error) error {
	e := *fault.As(err)
	name := filepath.Base(path)
	switch {
	case e.Kind == fault.Internal && e.Err != nil:
		return fmt.Errorf("%s: %w", name, e.Err)
	case !strings.Contains(e.Msg, name):
		e.Msg = name + ": " + e.Msg
	}
	return &e
}

func load(name string, f *tensorfile.File, o Options) (*Model, error) {
	kv, err := kernel.ParseKVType(o.KVType)
	if err != nil {
		return nil, err
	}
	spec, weights, err := arch.Memory(f, arch.Options{Loop: o.Loop})
	if err != nil {
		return nil, err
	}
	so, err := scratchOptions(spec, kv, weights, o)
	if err != nil {
		return nil, err
	}
	if o.MaxSeqLen > spec.Context {
		o.Log.Warn("max_seq_len is more than the model was trained for and counts as that", "model", name, "max_seq_len", o.MaxSeqLen, "window", spec.Context)
	}
	words := make(chan texts, 1)
	go func() { words <- readTexts(f, o.Log) }() // the tokenizer takes about as long as small weights
	w, err := arch.LoadWith(f, arch.Options{Loop: o.Loop})
	said := <-words
	if err == nil && said.err != nil {
		w.Close()
	}
	if err := cmp.Or(said.err, err); err != nil {
		return nil, err
	}
	s, err := w.NewScratch(so)
	if err != nil {
		w.Close()
		return nil, err
	}
	e := engine.New(s, engine.Config{QueueLimit: o.QueueLimit, MaxSeqs: o.MaxSeqs, StepRows: o.StepRows, NoPrefixCache: o.NoPrefixCache,
		Agreement: arch.InfoOf(f).Agreement})
	m := &Model{Name: name, engine: e, scratch: s, weights: w}
	about := info(name, f, w, s, kv)
	about.Chat = talks(said.template, said.tokenizer)
	m.Generator = gen.New(e, said.tokenizer, said.template, about, gen.Limits{MaxSeqLen: o.MaxSeqLen, KVMode: o.KVMode, DefaultTimeout: o.Timeout})
	return m, nil
}

// texts is what a model has besides its weights.
type texts struct {
	tokenizer *tok.Tokenizer
	template  *chat.Template
	err       error
}

func readTexts(f *tensorfile.File, log *slog.Logger) (t texts) {
	t.err = f.Guard(func() (err error) {
		if t.tokenizer, err = Tokenizer(f); err == nil {
			t.template = template(f, log)
		}
		return err
	})
	return t
}
