package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"tinyloop/internal/chat"
	"tinyloop/internal/data"
	"tinyloop/internal/data/tinyworld"
	"tinyloop/internal/fault"
	"tinyloop/internal/tensorfile"
	"tinyloop/internal/tok"
)

// DataCmd groups the commands that make and look at training text.
type DataCmd struct {
	Gen     DataGenCmd     `cmd:"" help:"Write the synthetic corpus, or a fixed evaluation set, as JSON lines."`
	Prepare DataPrepareCmd `cmd:"" help:"Turn text files, folders and JSON lines into token shards."`
	Stats   DataStatsCmd   `cmd:"" help:"Say what a prepared corpus, or files not yet prepared, hold."`
}

// DataGenCmd writes the synthetic corpus: the same bytes for the same flags on every machine.
type DataGenCmd struct {
	Out     string         `short:"o" required:"" help:"File to write; - = standard output." placeholder:"FILE"`
	Seed    uint64         `help:"Chooses the documents." default:"0"`
	Docs    int            `help:"Stop after so many documents." placeholder:"N"`
	Bytes   string         `help:"Stop after the document that reaches so many bytes of JSON; k, M and G are allowed." placeholder:"SIZE"`
	Split   string         `help:"train, valid, or test (what training never shows)." enum:"train,valid,test" default:"train"`
	Lang    string         `help:"en or fr; both when absent." placeholder:"LANG"`
	Form    string         `help:"text or chat; both when absent." placeholder:"FORM"`
	Mix     map[string]int `help:"Families and their shares, as chain=3;arith=1; the usual mixture when absent." placeholder:"FAMILY=SHARE"`
	Threads int            `help:"Threads; they change nothing about the bytes." default:"2"`
	Set     string         `help:"Write this fixed evaluation set instead: acceptance, refusals, careless or fresh." placeholder:"NAME"`
}

// Run writes the corpus.
func (c *DataGenCmd) Run(io *IO) error {
	w := tinyworld.New()
	if c.Set != "" {
		if err := c.fixed(); err != nil {
			return err
		}
		return c.write(io, func(out writer) error { return writeSet(w, c.Set, out) })
	}
	o, err := c.options()
	if err != nil {
		return err
	}
	var counts map[string]tinyworld.Count
	p := newProgress(io)
	err = c.write(io, func(out writer) (err error) {
		counts, err = w.Write(io.Ctx, out, *o, c.Threads, func(docs int, bytes int64) { p.show("%d documents, %s", docs, size(bytes)) })
		return err
	})
	p.end()
	if err != nil {
		return err
	}
	for _, f := range tinyworld.Families() {
		if n := counts[f]; n.Docs > 0 {
			fmt.Fprintf(io.Err, "%-8s %8d documents %10s of text\n", f, n.Docs, size(n.Text))
		}
	}
	return nil
}

// fixed refuses flags that say something about documents where the set says it all.
func (c *DataGenCmd) fixed() error {
	for _, f := range []struct {
		name  string
		given bool
	}{{"seed", c.Seed != 0}, {"docs", c.Docs != 0}, {"bytes", c.Bytes != ""}, {"split", c.Split != "train"}, {"lang", c.Lang != ""}, {"form", c.Form != ""}, {"mix", len(c.Mix) > 0}} {
		if f.given {
			return fault.New(fault.Invalid, f.name, "--set %s is always the same documents: --%s does not apply", c.Set, f.name)
		}
	}
	return nil
}

type writer = io.Writer

func writeSet(w *tinyworld.World, name string, out writer) error {
	docs, err := w.Set(name)
	if err != nil {
		return err
	}
	for _, d := range docs {
		line, err := d.AppendJSON(nil)
		if err != nil {
			return err
		}
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	return nil
}

func (c *DataGenCmd) write(io *IO, body func(out writer) error) error {
	if c.Out == "-" {
		return body(io.Out)
	}
	return tensorfile.WriteAtomic(c.Out, body)
}

func (c *DataGenCmd) options() (*tinyworld.Options, error) {
	o := &tinyworld.Options{Seed: c.Seed, Docs: c.Docs, Lang: c.Lang, Form: c.Form}
	for _, s := range []data.Split{data.Train, data.Valid, data.Test} {
		if s.String() == c.Split {
			o.Split = s
		}
	}
	if c.Threads < 1 || c.Threads > 256 {
		return nil, fault.New(fault.Invalid, "threads", "--threads must be 1 to 256, is %d", c.Threads)
	}
	if c.Docs < 0 {
		return nil, fault.New(fault.Invalid, "docs", "--docs must be 1 or more, not %d", c.Docs)
	}
	var err error
	if o.Bytes, err = parseSize("bytes", c.Bytes); err != nil {
		return nil, err
	}
	for _, f := range slices.Sorted(maps.Keys(c.Mix)) {
		o.Mix = append(o.Mix, tinyworld.Share{Family: f, Weight: c.Mix[f]})
	}
	return o, nil
}

// parseSize reads 500, 20k, 10M or 1G; "" is 0.
func parseSize(field, s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	digits, unit := s, int64(1)
	if i := strings.IndexByte("kMG", s[len(s)-1]); i >= 0 {
		digits = s[:len(s)-1]
		unit = []int64{1e3, 1e6, 1e9}[i]
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 1 || n > 1e15/unit {
		return 0, fault.New(fault.Invalid, field, "--%s is %q, expected a size from 1 to 1000000G, as 500, 20k, 10M or 1G", field, s)
	}
	return n * unit, nil
}

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d B", n)
}

// progress is one line on a terminal, rewritten now and then; elsewhere it is silent.
type progress struct {
	out  io.Writer // nil: silent
	last time.Time
}

func newProgress(io *IO) *progress {
	if f, ok := io.Err.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &progress{out: f}
	}
	return &progress{}
}

func (p *progress) show(format string, args ...any) {
	if now := time.Now(); p.out != nil && now.Sub(p.last) > 100*time.Millisecond {
		p.last = now
		fmt.Fprintf(p.out, "\r\x1b[K"+format, args...)
	}
}

func (p *progress) end() {
	if p.out != nil && !p.last.IsZero() {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// DataPrepareCmd turns text into token shards.
type DataPrepareCmd struct {
	Inputs         []string `arg:"" name:"input" help:"Text files, JSON lines, JSON arrays, or folders of them."`
	Out            string   `short:"o" required:"" help:"Folder to write the shards into." placeholder:"FOLDER"`
	Tokenizer      string   `required:"" help:"gpt2, a tokenizer.json, or a model file or folder that holds a tokenizer." placeholder:"FILE"`
	Template       string   `help:"File with the Jinja chat template; the model's own, or ChatML, when absent." type:"existingfile" placeholder:"FILE"`
	Valid          float64  `help:"Percent of the documents for validation." default:"1"`
	Test           float64  `help:"Percent of the documents for the test." default:"0"`
	KeepDuplicates bool     `help:"Keep documents that say the same as an earlier one."`
	NearDuplicates float64  `help:"Leave out documents that are nearly an earlier one: at least this share (0.6 to 1) of their runs of five words is the same; 0 = keep them." default:"0" placeholder:"SHARE"`
	ShardTokens    int      `help:"Tokens a shard; 0 = 16 Mi." default:"0"`
	MaxLine        string   `help:"Longest line or JSON element; 0 = 8 MiB." placeholder:"SIZE"`
	Force          bool     `help:"Replace a corpus that is there already."`
}

// Run prepares and prints what came of it.
func (c *DataPrepareCmd) Run(io *IO) error {
	coder, err := loadCoder(c.Tokenizer, c.Template)
	if err != nil {
		return err
	}
	if !(c.Valid >= 0 && c.Test >= 0 && c.Valid+c.Test <= 90) {
		return fault.New(fault.Invalid, "valid", "--valid %g and --test %g percent, expected 0 to 90 together", c.Valid, c.Test)
	}
	line, err := parseSize("max-line", c.MaxLine)
	if err != nil {
		return err
	}
	if line > 1<<30 {
		return fault.New(fault.Invalid, "max-line", "--max-line is %s, the limit is 1 GiB", c.MaxLine)
	}
	p := newProgress(io)
	m, err := data.Prepare(io.Ctx, data.PrepareOptions{Inputs: c.Inputs, Out: c.Out, Coder: coder, Shares: data.Shares{Valid: int(c.Valid * 100), Test: int(c.Test * 100)},
		KeepDuplicates: c.KeepDuplicates, Near: c.NearDuplicates, ShardTokens: c.ShardTokens, Limits: data.Limits{Line: int(line)}, Force: c.Force,
		Progress: func(docs int) { p.show("%d documents", docs) }})
	p.end()
	if err != nil {
		return err
	}
	printManifest(io.Out, m)
	return nil
}

// loadCoder finds the tokenizer in whatever the user has, and the chat template beside it.
func loadCoder(path, templatePath string) (*data.Coder, error) {
	t, source, err := loadTokenizer(path)
	if err != nil {
		return nil, err
	}
	if templatePath != "" {
		b, err := os.ReadFile(templatePath)
		if err != nil {
			return nil, fault.New(fault.Invalid, "template", "%v", err)
		}
		source = string(b)
	}
	if source == "" {
		return data.NewCoder(t, chat.ChatML()), nil
	}
	tpl, err := chat.Compile(source)
	if err != nil {
		return nil, err
	}
	return data.NewCoder(t, tpl), nil
}

// loadTokenizer gives a tokenizer and the chat template that comes with it, "" when there is none.
func loadTokenizer(path string) (*tok.Tokenizer, string, error) {
	if path == "" {
		return nil, "", fault.New(fault.Invalid, "tokenizer", "no tokenizer: the name is empty")
	}
	if path == "gpt2" {
		return tok.GPT2(), "", nil
	}
	file := path
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		file = filepath.Join(path, "tokenizer.json")
	}
	if filepath.Ext(file) == ".json" {
		return loadHF(file)
	}
	f, err := tensorfile.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	t, err := tok.FromGGUF(f.Meta)
	if err != nil {
		return nil, "", err
	}
	source, _ := f.Meta.String("tokenizer.chat_template")
	return t, source, nil
}

func loadHF(file string) (*tok.Tokenizer, string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, "", fault.New(fault.Invalid, "tokenizer", "%v", err)
	}
	config, err := os.ReadFile(filepath.Join(filepath.Dir(file), "tokenizer_config.json"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, "", fault.New(fault.Invalid, "tokenizer", "%v", err)
	}
	t, err := tok.FromHF(b, config)
	if err != nil {
		return nil, "", err
	}
	var c struct {
		Template json.RawMessage `json:"chat_template"`
	}
	var source string
	if json.Unmarshal(config, &c) == nil {
		json.Unmarshal(c.Template, &source) // a list of named templates is not one: ChatML then
	}
	return t, source, nil
}

// DataStatsCmd says what a corpus holds.
type DataStatsCmd struct {
	Inputs  []string `arg:"" name:"input" help:"A prepared folder, or files and folders not yet prepared."`
	Context int      `help:"Row length for which to count the packing." default:"256" placeholder:"T"`
	Verify  bool     `help:"Read every shard whole and compare it with its hash."`
}

// Run prints the counts.
func (c *DataStatsCmd) Run(io *IO) error {
	if len(c.Inputs) == 1 {
		if _, err := os.Stat(filepath.Join(c.Inputs[0], data.ManifestName)); err == nil {
			return c.prepared(io, c.Inputs[0])
		}
	}
	return c.raw(io)
}

func (c *DataStatsCmd) prepared(io *IO, dir string) error {
	m, err := data.ReadManifest(dir)
	if err != nil {
		return err
	}
	printManifest(io.Out, m)
	hash, err := m.TokenizerHash()
	if err != nil {
		return err
	}
	for _, sp := range []data.Split{data.Train, data.Valid, data.Test} {
		if m.Splits[sp].Docs == 0 {
			continue
		}
		if err := c.packing(io, dir, sp, hash); err != nil {
			return err
		}
	}
	return nil
}

func (c *DataStatsCmd) packing(io *IO, dir string, sp data.Split, hash [32]byte) error {
	shards, err := data.OpenSplit(dir, sp, hash)
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range shards {
			s.Close()
		}
	}()
	if c.Verify {
		for _, s := range shards {
			if err := s.Verify(); err != nil {
				return err
			}
		}
	}
	p, err := data.NewPack(shards, c.Context, nil)
	if err != nil {
		return err
	}
	s := p.Stats
	fmt.Fprintf(io.Out, "%-6s rows of %d: %d, %.1f %% filled, %d documents in several pieces\n", sp, c.Context, s.Rows, 100*s.Fill(c.Context), s.Cut)
	return nil
}

func (c *DataStatsCmd) raw(io *IO) error {
	groups := map[string]int{}
	seen := map[[32]byte]bool{}
	doubles := 0
	n, err := data.Read(c.Inputs, data.Limits{}, func(d *data.Doc) error {
		if err := io.Ctx.Err(); err != nil {
			return fault.New(fault.Canceled, "", "stopped")
		}
		if h := d.Hash(); seen[h] {
			doubles++
		} else {
			seen[h] = true
		}
		groups[d.Group()]++
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(io.Out, "%d documents, %d duplicates, %s in %d files, %d files passed over\n", n.Docs, doubles, size(n.Bytes), n.Files, n.Skipped)
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		fmt.Fprintf(io.Out, "  %-12s %9d\n", g, groups[g])
	}
	return nil
}

func printManifest(out io.Writer, m *data.Manifest) {
	fmt.Fprintf(out, "read   %d documents, %s in %d files; %d duplicates left out\n", m.Read.Docs, size(m.Read.Bytes), m.Read.Files, m.Doubles)
	if m.Near > 0 {
		fmt.Fprintf(out, "       %d more left out that are nearly an earlier one (similarity %g or more)\n", m.NearDoubles, m.Near)
	}
	for _, s := range m.Splits {
		fmt.Fprintf(out, "%-6s %9d documents %12d tokens %12d learned %5d shards\n", s.Name, s.Docs, s.Tokens, s.Learned, len(s.Shards))
	}
	for _, g := range slices.Sorted(maps.Keys(m.Groups)) {
		t := m.Groups[g]
		fmt.Fprintf(out, "  %-12s train %9d  valid %8d  test %8d\n", g, t[data.Train].Docs, t[data.Valid].Docs, t[data.Test].Docs)
	}
}
