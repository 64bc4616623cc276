package cli

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"tinyloop/internal/arch"
	"tinyloop/internal/chat"
	"tinyloop/internal/fault"
	"tinyloop/internal/host"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
	"tinyloop/internal/tok"
)

// InspectCmd prints what a model file is, without loading it.
type InspectCmd struct {
	File    string `arg:"" help:"Model file (.gguf, .tinyloop, .safetensors, llama2.c .bin) or folder of safetensors."`
	Context int    `help:"Positions to count memory for (0: the model's context)." default:"0" placeholder:"N"`
	Loops   int    `help:"Loops to count memory for (0: the model's default)." default:"0" placeholder:"R"`
	JSON    bool   `name:"json" help:"Print one JSON object."`
}

// Run prints the report to io.Out.
func (c *InspectCmd) Run(io *IO) error {
	f, err := tensorfile.Open(c.File)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := c.report(f)
	if err != nil {
		return err
	}
	if err := r.write(io.Out, c.JSON); err != nil {
		return err
	}
	return r.damage // once more, so that scripts see it
}

func (r *report) write(w io.Writer, asJSON bool) error {
	if !asJSON {
		b := bufio.NewWriter(w)
		r.print(b)
		return b.Flush()
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// report is everything inspect says. Parts that the file does not have, or that this build cannot make out, are absent; Problems says why.
type report struct {
	File         string          `json:"file"`
	Format       string          `json:"format"`
	Bytes        int64           `json:"bytes"`
	SHA256       string          `json:"sha256"`
	Name         string          `json:"name,omitempty"`
	Architecture string          `json:"architecture,omitempty"`
	License      string          `json:"license,omitempty"`
	Hash         string          `json:"hash,omitempty"` // of the tensors, as the file states it
	Spec         []fact          `json:"-"`
	SpecObject   map[string]any  `json:"spec,omitempty"`
	Params       *paramsReport   `json:"parameters,omitempty"`
	Memory       *memoryReport   `json:"memory,omitempty"`
	Tokenizer    *tokenReport    `json:"tokenizer,omitempty"`
	Template     string          `json:"chat_template,omitempty"`
	Problems     []string        `json:"problems,omitempty"`
	Tensors      []tensorSummary `json:"tensors"`
	damage       error           // the tensors are not those whose hash the file states
}

// fact is one line of the Spec.
type fact struct {
	key   string
	value any
}

type paramsReport struct {
	Unique   int64 `json:"unique"`
	Unrolled int64 `json:"unrolled"` // applied to a position at the loops of the memory report
}

type memoryReport struct {
	Context     int   `json:"context"`
	Loops       int   `json:"loops"`
	Weights     int64 `json:"weights"` // as stored
	KVF32       int64 `json:"kv_f32"`  // of one sequence that fills the context
	KVF16       int64 `json:"kv_f16"`
	KVQ8        int64 `json:"kv_q8"`
	PerPosition int64 `json:"kv_f32_per_position"`
}

type tokenReport struct {
	Kind     string         `json:"kind"`
	Pre      string         `json:"pre,omitempty"`
	Size     int            `json:"size"`
	AddBOS   bool           `json:"add_bos"`
	Specials map[string]int `json:"specials"` // role to id
	Stops    []int32        `json:"stops"`
	Control  []string       `json:"control"` // texts of all control tokens
}

type tensorSummary struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape []int  `json:"shape"`
	Bytes int    `json:"bytes"`
}

func (c *InspectCmd) report(f *tensorfile.File) (*report, error) {
	sum, err := f.Sum()
	if err != nil {
		return nil, err
	}
	about := arch.InfoOf(f)
	r := &report{File: filepath.Base(f.Path), Format: string(f.Format), Bytes: f.Size(), SHA256: hex.EncodeToString(sum[:]),
		Name: about.Name, License: about.License, Hash: about.Hash, Tensors: []tensorSummary{}}
	r.Architecture, _ = f.Meta.String("general.architecture")
	for _, t := range f.Tensors() {
		r.Tensors = append(r.Tensors, tensorSummary{t.Name, t.TypeName(), t.Shape, len(t.Stored())})
		if err := t.Usable(); err != nil && t.Panels == nil && len(r.Problems) == 0 {
			r.Problems = append(r.Problems, err.Error())
		}
	}
	if r.damage = arch.CheckHash(f); r.damage != nil {
		r.Problems = append(r.Problems, r.damage.Error())
	}
	if len(r.Tensors) == 0 {
		r.Problems = append(r.Problems, "the file holds no tensors: a vocabulary only")
	}
	spec, err := arch.SpecOf(f)
	if err != nil {
		r.Problems = append(r.Problems, err.Error())
	} else if err := c.measure(r, spec, about.Bytes); err != nil {
		return nil, err
	}
	if t, err := host.Tokenizer(f); err == nil {
		r.Tokenizer = describeTokenizer(t)
	} else if !slices.Contains(r.Problems, err.Error()) {
		r.Problems = append(r.Problems, err.Error())
	}
	if r.Template = host.TemplateSource(f); r.Template != "" {
		if _, err := chat.Compile(r.Template); err != nil {
			r.Problems = append(r.Problems, err.Error())
		}
	}
	return r, nil
}

// measure fills in what follows from the Spec.
func (c *InspectCmd) measure(r *report, s *model.Spec, weights int64) error {
	m := &memoryReport{Context: cmp.Or(c.Context, s.Context), Loops: cmp.Or(c.Loops, s.Loops.Default), Weights: weights}
	if m.Context < 1 || m.Context > 1<<26 {
		return fault.New(fault.Invalid, "", "--context must be 1 to %d, is %d", 1<<26, c.Context)
	}
	if m.Loops < 1 || m.Loops > s.Loops.HardMax {
		return fault.New(fault.Invalid, "", "--loops must be 1 to %d for this model, is %d", s.Loops.HardMax, c.Loops)
	}
	pages := int64(m.Context+kernel.Panel-1) / kernel.Panel * kernel.Panel
	m.PerPosition = s.KVBytesPerToken(m.Loops, kernel.F32)
	m.KVF32, m.KVF16, m.KVQ8 = pages*m.PerPosition, pages*s.KVBytesPerToken(m.Loops, kernel.F16), pages*s.KVBytesPerToken(m.Loops, kernel.Q8_0)
	r.Memory, r.Params = m, new(paramsReport)
	deep := *s
	deep.Loops.Default = m.Loops
	r.Params.Unique, r.Params.Unrolled = deep.Params()
	r.Spec, r.SpecObject = specFacts(s), map[string]any{}
	for _, f := range r.Spec {
		r.SpecObject[f.key] = f.value
	}
	return nil
}

// unless names an option's value, "" where it is the one that means off.
func unless[T interface {
	comparable
	String() string
}](v, off T) string {
	if v == off {
		return ""
	}
	return v.String()
}

// specFacts says what the Spec is, options that are off left out.
func specFacts(s *model.Spec) []fact {
	b := &s.Block
	all := []fact{
		{"vocab", s.Vocab}, {"dim", s.Dim}, {"context", s.Context}, {"prelude", s.Prelude}, {"core", s.Core}, {"coda", s.Coda},
		{"heads", b.Heads}, {"kv_heads", b.KVHeads}, {"head_dim", b.HeadDim}, {"hidden", b.Hidden},
		{"mlp", b.MLP.String()},
		{"norm", b.Norm.String()},
		{"norm_place", b.NormPlace.String()},
		{"eps", b.Eps},
		{"position", b.Pos.String()},
		{"loops", s.Loops.Default},
	}
	if s.Loops.HardMax > 1 {
		all = append(all, fact{"loops_trained", fmt.Sprintf("%d to %d, mean %d", s.Loops.TrainedMin, s.Loops.TrainedMax, s.Loops.TrainedMean)}, fact{"loops_max", s.Loops.HardMax})
	}
	if b.Pos.Rotary() {
		all = append(all, fact{"rope_theta", b.RopeTheta}, fact{"rope_dim", b.Rot()})
	}
	options := []fact{
		{"window", b.Window}, {"qkv_bias", b.QKVBias}, {"out_bias", b.OutBias}, {"mlp_bias", b.MLPBias}, {"qk_norm", b.QKNorm}, {"qk_head_bias", b.QKBias},
		{"attn_scale", b.AttnScale}, {"attn_softcap", b.AttnSoftcap}, {"residual_scale", b.ResidualScale}, {"embed_scale", s.Embed.Scale},
		{"embed_norm", s.Embed.NormAfter}, {"prelude_norm", s.PreludeNorm},
		{"injection", unless(s.Injection, model.InjectNone)}, {"injection_matrix", s.InjectMatrix},
		{"state_init", unless(s.StateInit, model.StateInput)}, {"loop_norm", unless(s.LoopNorm, model.LoopNormNone)}, {"readout", s.Readout},
		{"coda_norm", unless(s.CodaNorm, model.CodaNormNone)}, {"exit_gate", s.ExitGate}, {"tied_head", s.TiedHead},
		{"logit_scale", s.LogitScale}, {"logit_softcap", s.LogitSoftcap},
	}
	for _, o := range options {
		if o.value != 0 && o.value != false && o.value != "" && o.value != float32(0) {
			all = append(all, o)
		}
	}
	return all
}

func describeTokenizer(t *tok.Tokenizer) *tokenReport {
	r := &tokenReport{Kind: t.Kind(), Pre: t.Pre(), Size: t.Size(), AddBOS: t.AddBOS(), Specials: map[string]int{}, Stops: t.Stops(), Control: []string{}}
	for role, id := range map[string]tok.ID{"bos": t.BOS(), "eos": t.EOS(), "eot": t.EOT()} {
		if id >= 0 {
			r.Specials[role] = int(id)
		}
	}
	for id := range tok.ID(t.Size()) {
		if t.IsControl(id) {
			r.Control = append(r.Control, t.Piece(id))
		}
	}
	return r
}

// print lays the report out for people.
func (r *report) print(w io.Writer) {
	row := func(label, format string, args ...any) {
		fmt.Fprintf(w, "%-14s %s\n", label, fmt.Sprintf(format, args...))
	}
	row("file", "%s (%s, %s)", printable(r.File), r.Format, host.SizeText(r.Bytes))
	row("sha256", "%s", r.SHA256)
	for _, x := range []fact{{"name", r.Name}, {"architecture", r.Architecture}, {"licence", r.License}, {"hash", r.Hash}} {
		if x.value != "" {
			row(x.key, "%s", brief(x.value.(string)))
		}
	}
	if p := r.Params; p != nil {
		row("parameters", "%s stored, %s applied to each position at %d %s", countText(p.Unique), countText(p.Unrolled), r.Memory.Loops, plural(r.Memory.Loops, "loop", "loops"))
	}
	if m := r.Memory; m != nil {
		row("memory", "weights %s as stored; keys and values at context %d and %d %s: %s in f32, %s in f16, %s in q8 (%s a position in f32)", host.SizeText(m.Weights),
			m.Context, m.Loops, plural(m.Loops, "loop", "loops"), host.SizeText(m.KVF32), host.SizeText(m.KVF16), host.SizeText(m.KVQ8), host.SizeText(m.PerPosition))
	}
	if t := r.Tokenizer; t != nil {
		t.print(row)
	}
	if r.Template == "" {
		row("chat template", "none")
	} else {
		row("chat template", "%d bytes, %d lines", len(r.Template), strings.Count(r.Template, "\n")+1)
	}
	for _, p := range r.Problems {
		row("problem", "%s", printable(p))
	}
	if len(r.Spec) > 0 {
		fmt.Fprintln(w, "\nspec")
		for _, f := range r.Spec {
			fmt.Fprintf(w, "  %-18s %v\n", f.key, f.value)
		}
	}
	r.printTensors(w)
}

func (t *tokenReport) print(row func(label, format string, args ...any)) {
	text := t.Kind
	if t.Pre != "" {
		text += " (" + brief(t.Pre) + ")"
	}
	for _, role := range []string{"bos", "eos", "eot"} {
		if id, ok := t.Specials[role]; ok {
			text += fmt.Sprintf(", %s %d", role, id)
		}
	}
	row("tokenizer", "%s, %d tokens, %d %s, stops at %v, prompts start with bos: %v", text, t.Size, len(t.Control), plural(len(t.Control), "control token", "control tokens"), t.Stops, t.AddBOS)
}

func (r *report) printTensors(w io.Writer) {
	fmt.Fprintf(w, "\n%d %s\n", len(r.Tensors), plural(len(r.Tensors), "tensor", "tensors"))
	width := 0
	for _, t := range r.Tensors {
		width = max(width, len(t.Name))
	}
	for _, t := range r.Tensors {
		fmt.Fprintf(w, "  %-*s  %-6s %v\n", min(width, 64), printable(t.Name), t.Type, t.Shape)
	}
}

// printable keeps a text of unknown origin from steering the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// brief is printable, of what fits a few lines.
func brief(s string) string {
	const most = 240
	if len(s) > most {
		s = s[:most] + "…"
	}
	return printable(s)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// countText groups the digits of a count.
func countText(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
