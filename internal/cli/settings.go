package cli

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"

	"tinyloop/internal/arch"
	"tinyloop/internal/fault"
	"tinyloop/internal/gen"
	"tinyloop/internal/host"
)

// EngineFlags are the settings of a loaded model that every command which runs one shares.
type EngineFlags struct {
	Threads       int           `help:"Compute threads; 0 = one per core." env:"TINYLOOP_THREADS" default:"0"`
	MaxSeqLen     int           `help:"Longest prompt plus answer in tokens, at most what the model was trained for; 0 = that." env:"TINYLOOP_MAX_SEQ_LEN" default:"0"`
	KVDtype       string        `name:"kv-dtype" help:"Number format of the KV cache: f32, f16 or q8." env:"TINYLOOP_KV_DTYPE" enum:"f32,f16,q8" default:"f32"`
	KVMode        string        `name:"kv-mode" help:"Sharing of the KV cache between loops where a request names none: per_loop, or the lossy last, mean, mod:K." env:"TINYLOOP_KV_MODE" default:"per_loop"`
	KVBudgetMB    int64         `name:"kv-budget-mb" help:"Memory for the KV cache in MiB; 0 = chosen from the model and the machine." env:"TINYLOOP_KV_BUDGET_MB" default:"0"`
	MaxLoops      int           `help:"Most loops a request may ask for; 0 = four times the trained maximum." env:"TINYLOOP_MAX_LOOPS" default:"0"`
	LoopRange     string        `help:"Layers to loop over in models that have no loop, as in 8-11x4: layers 8 to 11, four passes unless a request says otherwise (two without x4)." env:"TINYLOOP_LOOP_RANGE" placeholder:"FIRST-LAST[xLOOPS]"`
	MaxSeqs       int           `help:"Answers decoded at a time; 0 = 64." env:"TINYLOOP_MAX_SEQS" default:"0"`
	StepRows      int           `help:"Rows that may enter one step (prefill and decode together); 0 = 64." env:"TINYLOOP_STEP_ROWS" default:"0"`
	Queue         int           `help:"Requests that may wait before new ones are refused; 0 = 256." env:"TINYLOOP_QUEUE" default:"0"`
	Timeout       time.Duration `help:"Longest time an answer may take; 0 = no limit." env:"TINYLOOP_TIMEOUT" default:"0"`
	NoPrefixCache bool          `help:"Do not keep the KV cache of finished prompts." env:"TINYLOOP_NO_PREFIX_CACHE"`
}

func (f *EngineFlags) options(log *slog.Logger) host.Options {
	return host.Options{
		Threads: f.Threads, MaxSeqLen: f.MaxSeqLen, KVType: f.KVDtype, KVMode: f.KVMode, KVBudget: f.KVBudgetMB << 20, MaxLoops: f.MaxLoops,
		Loop:       f.loop(),
		QueueLimit: f.Queue, MaxSeqs: f.MaxSeqs, StepRows: f.StepRows, Timeout: f.Timeout, NoPrefixCache: f.NoPrefixCache, Log: log,
	}
}

// loop is the range of layers to loop over; validate has checked it.
func (f *EngineFlags) loop() arch.Range {
	r, _ := arch.ParseRange(f.LoopRange)
	return r
}

// validate checks what the flag parser cannot.
func (f *EngineFlags) validate() error {
	for _, c := range []struct {
		name string
		v    int64
	}{{"threads", int64(f.Threads)}, {"max-seq-len", int64(f.MaxSeqLen)}, {"kv-budget-mb", f.KVBudgetMB}, {"max-loops", int64(f.MaxLoops)},
		{"max-seqs", int64(f.MaxSeqs)}, {"step-rows", int64(f.StepRows)}, {"queue", int64(f.Queue)}, {"timeout", int64(f.Timeout)}} {
		if c.v < 0 {
			return fault.New(fault.Invalid, c.name, "--%s must be 0 or more, not %d", c.name, c.v)
		}
	}
	if _, _, err := gen.ParseKVMode(f.KVMode); err != nil {
		return err
	}
	_, err := arch.ParseRange(f.LoopRange)
	return err
}

// ModelFlag names the one model of a command that needs one.
type ModelFlag struct {
	Model string `help:"Model file (.tinyloop, .gguf, llama2.c .bin) or safetensors folder. Absent = the one inside the program." env:"TINYLOOP_MODEL_PATH" placeholder:"FILE"`
}

func (m *ModelFlag) load(e *EngineFlags, log *slog.Logger) (*host.Model, error) {
	if err := e.validate(); err != nil {
		return nil, err
	}
	if m.Model == "" {
		own, err := host.LoadEmbedded(e.options(log))
		if fault.Of(err) == fault.NoModel {
			return nil, fault.New(fault.NoModel, "model", "no model: give --model FILE or set TINYLOOP_MODEL_PATH")
		}
		return own, err
	}
	return host.Load(nameOf(m.Model), m.Model, e.options(log))
}

// nameOf is the name of a model that was given without one: its file name without the extension.
func nameOf(path string) string {
	base := filepath.Base(filepath.Clean(path))
	switch ext := filepath.Ext(base); strings.ToLower(ext) {
	case ".gguf", ".tinyloop", ".bin", ".safetensors":
		return strings.TrimSuffix(base, ext)
	}
	return base
}

// newLogger writes human lines to a terminal and JSON elsewhere, unless told otherwise.
func newLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fault.New(fault.Invalid, "log-level", "--log-level must be debug, info, warn or error, not %q", level)
	}
	if format == "auto" {
		format = "json"
		if isTerminal(w) {
			format = "text"
		}
	}
	if format == "text" {
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: l, TimeFormat: time.TimeOnly, NoColor: !isTerminal(w)})), nil
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l})), nil
}

func isTerminal(x any) bool {
	f, ok := x.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func anyEnvSet(names []string) bool {
	for _, n := range names {
		if _, ok := os.LookupEnv(n); ok {
			return true
		}
	}
	return false
}
