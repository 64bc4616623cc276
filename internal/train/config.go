package train

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"tinyloop/internal/fault"
	"tinyloop/internal/optim"
)

// Duration is a time.Duration that is written as text, as in 10m.
type Duration time.Duration

// UnmarshalText reads 90s, 10m, 1h30m.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// MarshalText writes it the same way.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// Config is a recipe: everything that decides what a run does, but for the machine. Two runs of one Config that counts in steps give the same bits, on
// any number of threads. docs/training.md explains the fields.
type Config struct {
	Name string `toml:"name" json:"name"`
	Seed uint64 `toml:"seed" json:"seed"`

	// Exactly one of these says how long to train.
	Steps  int      `toml:"steps" json:"steps,omitempty"`
	Epochs float64  `toml:"epochs" json:"epochs,omitempty"` // passes over the corpus
	Budget Duration `toml:"budget" json:"budget,omitempty"` // wall time; such a run gives other bits each time

	Init       InitConfig       `toml:"init" json:"init"`
	Data       DataConfig       `toml:"data" json:"data"`
	Model      ModelConfig      `toml:"model" json:"model"`
	Batch      BatchConfig      `toml:"batch" json:"batch"`
	Loops      LoopsConfig      `toml:"loops" json:"loops"`
	Loss       LossConfig       `toml:"loss" json:"loss"`
	Curriculum CurriculumConfig `toml:"curriculum" json:"curriculum"`
	Optimizer  OptimizerConfig  `toml:"optimizer" json:"optimizer"`
	Schedule   ScheduleConfig   `toml:"schedule" json:"schedule"`
	Guard      GuardConfig      `toml:"guard" json:"guard"`
	Quant      QuantConfig      `toml:"quant" json:"quant"`
	Eval       EvalConfig       `toml:"eval" json:"eval"`
	Save       SaveConfig       `toml:"save" json:"save"`
}

// InitConfig says what the weights begin as.
type InitConfig struct {
	From string `toml:"from" json:"from,omitempty"` // a run's folder, one of its checkpoints, or any model file; "" = fresh weights
	Warm bool   `toml:"warm" json:"warm,omitempty"` // take the optimizer's moments along, where there are some
}

// DataConfig names a corpus of `tinyloop data prepare`.
type DataConfig struct {
	Corpus    string   `toml:"corpus" json:"corpus"`
	Tokenizer string   `toml:"tokenizer" json:"tokenizer,omitempty"` // file that the corpus was prepared with; "" = that of Init.From
	Keep      []string `toml:"keep" json:"keep,omitempty"`           // families (chain) or groups (chain/2) that take part; none = all
}

// ModelConfig is the shape of a new model, on top of a preset. It is ignored where weights come from Init.From.
type ModelConfig struct {
	Preset      string  `toml:"preset" json:"preset"`
	Dim         int     `toml:"dim" json:"dim"`
	Heads       int     `toml:"heads" json:"heads"`
	KVHeads     int     `toml:"kv_heads" json:"kv_heads"`
	HeadDim     int     `toml:"head_dim" json:"head_dim"`
	Hidden      int     `toml:"hidden" json:"hidden"`
	Context     int     `toml:"context" json:"context"`
	Prelude     int     `toml:"prelude" json:"prelude"`
	Core        int     `toml:"core" json:"core"`
	Coda        int     `toml:"coda" json:"coda"`
	MLP         string  `toml:"mlp" json:"mlp"`         // relu2, swiglu, gelu
	QKNorm      bool    `toml:"qk_norm" json:"qk_norm"` //
	Tied        bool    `toml:"tied" json:"tied"`       // the head is the embedding
	Inject      string  `toml:"inject" json:"inject"`   // none, add, diagonal, concat, scaled
	PreludeNorm bool    `toml:"prelude_norm" json:"prelude_norm"`
	LoopNorm    string  `toml:"loop_norm" json:"loop_norm"` // none, between, own
	RopeTheta   float64 `toml:"rope_theta" json:"rope_theta"`
	Softcap     float64 `toml:"softcap" json:"softcap"` // of the logits; 0 = none
	Init        string  `toml:"init" json:"init"`       // random, or induction: some heads start as induction heads, see model.Spec.Induct
}

// BatchConfig is the size of a step: Shards x Rows x Accumulate rows.
type BatchConfig struct {
	Shards     int `toml:"shards" json:"shards"`         // computed one by one, each on one thread, and summed in a fixed order
	Rows       int `toml:"rows" json:"rows"`             // of a shard's micro-batch
	Accumulate int `toml:"accumulate" json:"accumulate"` // micro-batches of a shard in a step
	Context    int `toml:"context" json:"context"`       // tokens of a row; 0 = the model's
}

// LoopsConfig says how often the core is applied. The count is drawn for every micro-batch of every shard.
type LoopsConfig struct {
	Max     int     `toml:"max" json:"max"`         // most loops in training; 0 = what the weights of Init.From were trained for
	Ramp    float64 `toml:"ramp" json:"ramp"`       // part of the run in which the most loops grow from 1 to Max
	Uniform float64 `toml:"uniform" json:"uniform"` // share drawn evenly from 1 to the most; the others are Poisson-like around Mean
	Mean    float64 `toml:"mean" json:"mean"`
	Grad    int     `toml:"grad" json:"grad"`       // last loops that carry gradient
	Default int     `toml:"default" json:"default"` // of the finished model; weights of Init.From keep theirs
	Hard    int     `toml:"hard" json:"hard"`       // most that the finished model may be asked for
	// States teaches a position whose answer takes more steps than there are loops the state that so many steps lead to, instead of an answer that it
	// cannot know yet.
	States bool `toml:"states" json:"states"`
}

// LossConfig weighs what is learned beside the last loop's cross entropy.
type LossConfig struct {
	ZLoss       float64 `toml:"z_loss" json:"z_loss"`             // weight of the squared log-partition
	Extra       float64 `toml:"extra" json:"extra"`               // weight of the loss at one earlier loop …
	ExtraShare  float64 `toml:"extra_share" json:"extra_share"`   // … in this share of the micro-batches
	Traces      float64 `toml:"traces" json:"traces"`             // weight of the loss of intermediate states at their loops …
	TracesShare float64 `toml:"traces_share" json:"traces_share"` // … in this share of the micro-batches
}

// CurriculumConfig holds back the difficult documents of some families until easier ones are mastered.
type CurriculumConfig struct {
	Families []string `toml:"families" json:"families,omitempty"` // none = no curriculum
	Start    int      `toml:"start" json:"start"`                 // greatest difficulty at first
	Advance  float64  `toml:"advance" json:"advance"`             // accuracy on the greatest difficulty that raises it by one
	Every    int      `toml:"every" json:"every"`                 // steps between two looks
	Patience int      `toml:"patience" json:"patience"`           // steps after which it is raised whatever the accuracy; 0 = never
}

// OptimizerConfig has the peak learning rates.
type OptimizerConfig struct {
	Kind     string  `toml:"kind" json:"kind"` // muon (matrices; AdamW for the rest) or adamw
	Matrix   float64 `toml:"matrix" json:"matrix"`
	Embed    float64 `toml:"embed" json:"embed"`
	Gain     float64 `toml:"gain" json:"gain"`     // norms and biases
	Scalar   float64 `toml:"scalar" json:"scalar"` // per-channel constants of the injection
	Scale    float64 `toml:"scale" json:"scale"`   // factor on all of them
	Decay    float64 `toml:"decay" json:"decay"`   // of matrices; falls to 0 with the run
	Cautious bool    `toml:"cautious" json:"cautious"`
	Beta1    float64 `toml:"beta1" json:"beta1"`
	Beta2    float64 `toml:"beta2" json:"beta2"`
	Eps      float64 `toml:"eps" json:"eps"`
	Clip     float64 `toml:"clip" json:"clip"` // norm of the gradient; 0 = none
	EMA      float64 `toml:"ema" json:"ema"`   // decay of the averaged weights, which are what is evaluated and saved; 0 = none
}

// ScheduleConfig is optim.Schedule.
type ScheduleConfig struct {
	Shape  string  `toml:"shape" json:"shape"`
	Warmup int     `toml:"warmup" json:"warmup"`
	Flat   float64 `toml:"flat" json:"flat"`
	Final  float64 `toml:"final" json:"final"`
}

func (s *ScheduleConfig) optim() optim.Schedule {
	return optim.Schedule{Shape: optim.Shape(s.Shape), Warmup: s.Warmup, Flat: s.Flat, Final: s.Final}
}

// GuardConfig skips steps that would do harm.
type GuardConfig struct {
	Spike float64 `toml:"spike" json:"spike"` // a gradient's norm so many times the running mean is a spike; 0 = only NaN and infinity count
	Most  int     `toml:"most" json:"most"`   // skipped steps in a row that end the run
}

// QuantConfig prepares looped weights for the format they will be stored in.
type QuantConfig struct {
	Type string  `toml:"type" json:"type"` // q8_0, q4_0, …; "" = none
	From float64 `toml:"from" json:"from"` // part of the run after which noise of half a step of that format is added
}

// EvalConfig says when and how the run is measured.
type EvalConfig struct {
	Every    int      `toml:"every" json:"every"`     // steps; 0 = only at the end
	Batches  int      `toml:"batches" json:"batches"` // of validation rows, each as large as a micro-step
	Loops    []int    `toml:"loops" json:"loops"`
	Answers  []string `toml:"answers" json:"answers,omitempty"`   // groups whose answers are counted, as chain/2
	Chat     []string `toml:"chat" json:"chat,omitempty"`         // questions answered as samples
	Continue []string `toml:"continue" json:"continue,omitempty"` // texts continued as samples
	Tokens   int      `toml:"tokens" json:"tokens"`               // of a sample
}

// SaveConfig says how often a run is saved.
type SaveConfig struct {
	Every int `toml:"every" json:"every"` // steps; 0 = only at the end and when interrupted
	Keep  int `toml:"keep" json:"keep"`   // checkpoints that stay
}

// Default gives the recommended recipe without a length and a corpus.
func Default() Config {
	m, _ := preset("nano")
	return Config{
		Name:  "tinyloop",
		Seed:  1,
		Model: m,
		Batch: BatchConfig{Shards: 8, Rows: 1, Accumulate: 1},
		Loops: LoopsConfig{Max: 8, Ramp: 0.45, Uniform: 0.5, Mean: 4, Grad: 8, Default: 8, Hard: 32, States: true},
		Loss:  LossConfig{ZLoss: 1e-4, Extra: 0.3, ExtraShare: 0.25, Traces: 0.5, TracesShare: 1},
		Curriculum: CurriculumConfig{
			Start: 1, Advance: 0.9, Every: 50,
		},
		Optimizer: OptimizerConfig{Kind: "muon", Matrix: 0.02, Embed: 3e-3, Gain: 3e-3, Scalar: 3e-3, Scale: 0.6, Decay: 0.02, Cautious: true,
			Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Clip: 1, EMA: 0.997},
		Schedule: ScheduleConfig{Shape: "trapezoid", Warmup: 50, Flat: 0.55, Final: 0.02},
		Guard:    GuardConfig{Spike: 30, Most: 20},
		Quant:    QuantConfig{Type: "q8_0", From: 0.75},
		Eval:     EvalConfig{Every: 200, Batches: 4, Loops: []int{1, 2, 4, 8}, Tokens: 40},
		Save:     SaveConfig{Every: 200, Keep: 2},
	}
}

// SFT gives the defaults of a chat fine-tune: the learning rates a little lower and falling from the start, all loops at once.
func SFT() Config {
	c := Default()
	c.Name = "chat"
	c.Init.Warm = true
	c.Epochs = 1
	c.Loops.Ramp, c.Loops.Max = 0, 0
	c.Optimizer.Scale = 0.8
	c.Schedule = ScheduleConfig{Shape: "linear", Warmup: 0, Final: 0}
	c.Quant.From = 0
	return c
}

// Load reads a recipe (TOML) on top of base; then each of the settings, as optimizer.matrix=0.01, on top of that. path may be "".
func Load(base Config, path string, settings []string) (Config, error) {
	var text string
	if path != "" {
		b, err := os.ReadFile(path)
		if err != nil {
			return base, fault.New(fault.Invalid, "recipe", "%v", err)
		}
		text = string(b)
	}
	c := base
	if name := presetName(text, settings); name != "" {
		m, err := preset(name)
		if err != nil {
			return c, err
		}
		c.Model = m
	}
	if err := decode(&c, text, path+": "); err != nil {
		return c, err
	}
	for _, s := range settings {
		if err := set(&c, s); err != nil {
			return c, err
		}
	}
	return c, nil
}

// presetName finds the preset before everything else is read: it gives the other values of the model's shape their defaults.
func presetName(text string, settings []string) string {
	var c Config
	toml.Decode(text, &c) // its errors are told by decode
	name := c.Model.Preset
	for _, s := range settings {
		if rest, ok := strings.CutPrefix(s, "model.preset="); ok {
			name = strings.Trim(rest, `"`)
		}
	}
	return name
}

func decode(c *Config, text, prefix string) error {
	var said map[string]any
	if meta, err := toml.Decode(text, &said); err == nil {
		c.forgetLength(meta)
	}
	meta, err := toml.Decode(text, c)
	if err != nil {
		return fault.New(fault.Invalid, "recipe", "%s%v", prefix, err)
	}
	if v, ok := said["seed"].(int64); ok && v < 0 { // the decoder would wrap it round
		return fault.New(fault.Invalid, "seed", "%sseed must be 0 or more, is %d", prefix, v)
	}
	if wrong := meta.Undecoded(); len(wrong) > 0 {
		return fault.New(fault.Invalid, wrong[0].String(), "%sunknown key %s", prefix, wrong[0])
	}
	return nil
}

// forgetLength takes the length of the run back where another one is given now.
func (c *Config) forgetLength(meta toml.MetaData) {
	if meta.IsDefined("steps") || meta.IsDefined("epochs") || meta.IsDefined("budget") {
		c.Steps, c.Epochs, c.Budget = 0, 0, 0
	}
}

// set reads one setting. A value that is no TOML is a text.
func set(c *Config, s string) error {
	key, value, ok := strings.Cut(s, "=")
	if !ok {
		return fault.New(fault.Invalid, "set", "%q: expected key=value, as optimizer.matrix=0.01", fault.Clip(s, 80))
	}
	was := *c
	err := decode(c, key+" = "+value, "")
	if err != nil && fault.Of(err) == fault.Invalid {
		*c = was
		if again := decode(c, fmt.Sprintf("%s = %q", key, value), ""); again == nil {
			return nil
		}
		*c = was
		return fault.New(fault.Invalid, key, "--set %s: %s", fault.Clip(s, 80), fault.As(err).Msg)
	}
	return err
}

type limit struct {
	field     string
	v, lo, hi float64
}

// Validate names the first field at fault, its limits and its value. What depends on the model is checked with it.
func (c *Config) Validate() error {
	for _, f := range []func() error{c.checkLength, c.checkSizes, c.checkWords, c.checkLists} {
		if err := f(); err != nil {
			return err
		}
	}
	s := c.Schedule.optim()
	return s.Validate()
}

func (c *Config) checkLength() error {
	n := 0
	for _, given := range []bool{c.Steps != 0, c.Epochs != 0, c.Budget != 0} {
		if given {
			n++
		}
	}
	if b := time.Duration(c.Budget); b != 0 && b < time.Second {
		return fault.New(fault.Invalid, "budget", "budget must be 1s to 2160h, is %v", b)
	}
	if n != 1 {
		return fault.New(fault.Invalid, "steps", "a run needs one of steps, epochs and budget, it has %d of them", n)
	}
	return within(limit{"steps", float64(c.Steps), 0, mostSteps}, limit{"epochs", c.Epochs, 0, 1e4}, limit{"budget", time.Duration(c.Budget).Hours(), 0, 24 * 90})
}

func (c *Config) checkSizes() error {
	b, l, o := &c.Batch, &c.Loops, &c.Optimizer
	least := 1.0
	if c.Init.From != "" {
		least = 0
	}
	return within(
		limit{"batch.shards", float64(b.Shards), 1, optim.MaxParts}, limit{"batch.rows", float64(b.Rows), 1, 1 << 12},
		limit{"batch.accumulate", float64(b.Accumulate), 1, 1 << 12}, limit{"batch.context", float64(b.Context), 0, 1 << 16},
		limit{"batch (rows of a micro-step)", float64(b.Shards * b.Rows), 1, 1 << 16},
		limit{"loops.max", float64(l.Max), least, 256}, limit{"loops.ramp", l.Ramp, 0, 1}, limit{"loops.uniform", l.Uniform, 0, 1},
		limit{"loops.mean", l.Mean, 1, 256}, limit{"loops.grad", float64(l.Grad), 1, 256}, limit{"loops.hard", float64(l.Hard), 1, 4096},
		limit{"loops.default", float64(l.Default), 1, float64(l.Hard)},
		limit{"loss.z_loss", c.Loss.ZLoss, 0, 1}, limit{"loss.extra", c.Loss.Extra, 0, 10}, limit{"loss.extra_share", c.Loss.ExtraShare, 0, 1},
		limit{"loss.traces", c.Loss.Traces, 0, 10}, limit{"loss.traces_share", c.Loss.TracesShare, 0, 1},
		limit{"curriculum.start", float64(c.Curriculum.Start), 0, 1000}, limit{"curriculum.advance", c.Curriculum.Advance, 0, 1},
		limit{"curriculum.every", float64(c.Curriculum.Every), 1, 1e6}, limit{"curriculum.patience", float64(c.Curriculum.Patience), 0, 1e8},
		limit{"optimizer.matrix", o.Matrix, 0, 10}, limit{"optimizer.embed", o.Embed, 0, 10}, limit{"optimizer.gain", o.Gain, 0, 10},
		limit{"optimizer.scalar", o.Scalar, 0, 10}, limit{"optimizer.scale", o.Scale, 0, 100}, limit{"optimizer.decay", o.Decay, 0, 10},
		limit{"optimizer.beta1", o.Beta1, 0, 0.9999}, limit{"optimizer.beta2", o.Beta2, 0, 0.999999}, limit{"optimizer.eps", o.Eps, 1e-30, 1},
		limit{"optimizer.clip", o.Clip, 0, 1e6}, limit{"optimizer.ema", o.EMA, 0, 0.999999},
		limit{"guard.spike", c.Guard.Spike, 0, 1e6}, limit{"guard.most", float64(c.Guard.Most), 1, 1e6}, limit{"quant.from", c.Quant.From, 0, 1},
		limit{"eval.every", float64(c.Eval.Every), 0, 1e8}, limit{"eval.batches", float64(c.Eval.Batches), 1, 1e5}, limit{"eval.tokens", float64(c.Eval.Tokens), 1, 1e5},
		limit{"save.every", float64(c.Save.Every), 0, 1e8}, limit{"save.keep", float64(c.Save.Keep), 1, 1000},
	)
}

// plain writes counts without an exponent.
func plain(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

func within(list ...limit) error {
	for _, l := range list {
		if !(l.v >= l.lo && l.v <= l.hi) {
			return fault.New(fault.Invalid, l.field, "%s must be %s to %s, is %s", l.field, plain(l.lo), plain(l.hi), plain(l.v))
		}
	}
	return nil
}

func (c *Config) checkWords() error {
	if c.Optimizer.Kind != "muon" && c.Optimizer.Kind != "adamw" {
		return fault.New(fault.Invalid, "optimizer.kind", "optimizer.kind must be muon or adamw, is %q", fault.Clip(c.Optimizer.Kind, 40))
	}
	if c.Data.Corpus == "" {
		return fault.New(fault.Invalid, "data.corpus", "no corpus: name a folder that tinyloop data prepare made")
	}
	if c.Data.Tokenizer == "" && c.Init.From == "" {
		return fault.New(fault.Invalid, "data.tokenizer", "no tokenizer: name the one that the corpus was prepared with")
	}
	if c.Name == "" || len(c.Name) > 200 {
		return fault.New(fault.Invalid, "name", "name must have 1 to 200 bytes, has %d", len(c.Name))
	}
	if c.Quant.Type != "" && formatSteps(c.Quant.Type) == 0 {
		return fault.New(fault.Invalid, "quant.type", "quant.type must be q8_0, q4_0 or nothing, is %q", fault.Clip(c.Quant.Type, 40))
	}
	return nil
}

func (c *Config) checkLists() error {
	if len(c.Eval.Loops) < 1 || len(c.Eval.Loops) > 64 {
		return fault.New(fault.Invalid, "eval.loops", "eval.loops must name 1 to 64 loop counts, names %d", len(c.Eval.Loops))
	}
	for _, r := range c.Eval.Loops {
		if err := within(limit{"eval.loops", float64(r), 1, 256}); err != nil {
			return err
		}
	}
	if n := len(c.Eval.Chat) + len(c.Eval.Continue); n > 100 {
		return fault.New(fault.Invalid, "eval.chat", "eval.chat and eval.continue must be 100 texts at most, are %d", n)
	}
	return nil
}
