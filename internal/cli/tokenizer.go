package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"tinyloop/internal/data"
	"tinyloop/internal/dialect"
	"tinyloop/internal/fault"
	"tinyloop/internal/tensorfile"
	"tinyloop/internal/tok"
)

// TokenizerCmd groups the commands that make and use tokenizers.
type TokenizerCmd struct {
	Train  TokenizerTrainCmd  `cmd:"" help:"Learn a byte-level BPE from text and write it as tokenizer.json."`
	Eval   TokenizerEvalCmd   `cmd:"" help:"Say how many bytes of each file a token stands for, and that all comes back."`
	Encode TokenizerEncodeCmd `cmd:"" help:"Print the ids of a text."`
	Decode TokenizerDecodeCmd `cmd:"" help:"Print the text of ids."`
}

// TokenizerTrainCmd learns a tokenizer: the same file for the same text and flags on every machine.
type TokenizerTrainCmd struct {
	Inputs   []string `arg:"" name:"input" help:"Text files, JSON lines, JSON arrays, or folders of them."`
	Out      string   `short:"o" required:"" help:"File to write: .json (Hugging Face) or .gguf (a vocabulary without a model)." placeholder:"FILE"`
	Vocab    int      `required:"" help:"Entries of the vocabulary, 256 bytes and all special tokens included." placeholder:"N"`
	Pre      string   `help:"How text is cut into words first, by the name that GGUF files use: qwen2, gpt-2, llama-bpe, gpt-4o, tekken, smollm, …" default:"qwen2" placeholder:"NAME"`
	Digits   bool     `help:"Let every digit stand alone, whatever --pre says (qwen2 does that itself)."`
	Special  []string `help:"Control tokens, in the order of their ids; --special= for none." default:"<|bos|>,<|endoftext|>,<|im_start|>,<|im_end|>,<|pad|>,<|reserved_0|>,<|reserved_1|>" placeholder:"TEXT"`
	Marker   []string `help:"Tokens that only templates write but that have a text; --marker= for none." default:"<tool_call>,</tool_call>" placeholder:"TEXT"`
	Whole    []string `help:"Words that become one token whatever the text says; --whole= for none." default:"system,user,assistant,tool" placeholder:"WORD"`
	Ties     string   `help:"Which of equally frequent pairs comes first: the one of lowest ids, as in Hugging Face's trainer, or of greatest bytes (${enum})." enum:"ids,bytes" default:"ids"`
	MinCount int      `help:"Leave pairs alone that occur less often." default:"2" placeholder:"N"`
	Threads  int      `help:"Threads that count; 0 = all cores. They change nothing about the result." default:"0" placeholder:"N"`
}

// Run trains and writes the file.
func (c *TokenizerTrainCmd) Run(io *IO) error {
	write, err := writerOf(c.Out)
	if err != nil {
		return err
	}
	o, err := c.options()
	if err != nil {
		return err
	}
	view := newTrainView(io)
	o.Progress = view.show
	t, err := tok.Train(io.Ctx, *o, func(yield func(string) error) error {
		_, err := data.Read(c.Inputs, data.Limits{}, func(d *data.Doc) error { return texts(d, yield) })
		return err
	})
	view.end()
	if err != nil {
		return dialect.Rename(err, map[string]string{"control": "special"}) // the flag's name
	}
	if view.last.Bytes == 0 {
		return fault.New(fault.Invalid, "input", "the text is empty: there is nothing to learn from")
	}
	if err := write(t); err != nil {
		return err
	}
	if t.Size() < c.Vocab {
		fmt.Fprintf(io.Err, "tinyloop: the text has no more pairs that occur %d times: %d entries instead of %d\n", max(c.MinCount, 1), t.Size(), c.Vocab)
	}
	fmt.Fprintf(io.Out, "%s: %d entries, pre-tokenizer %s, from %s of text\n", printable(filepath.Base(c.Out)), t.Size(), t.Pre(), size(view.last.Bytes))
	return nil
}

func (c *TokenizerTrainCmd) options() (*tok.TrainOptions, error) {
	o := &tok.TrainOptions{Vocab: c.Vocab, Pre: c.Pre, Digits: c.Digits, Control: c.Special, Markers: c.Marker, Whole: c.Whole, MinCount: c.MinCount, Threads: c.Threads}
	if c.Ties == "bytes" {
		o.Ties = tok.GreatestBytes
	}
	switch {
	case c.MinCount < 0:
		return nil, fault.New(fault.Invalid, "min-count", "--min-count must be 0 or more, is %d", c.MinCount)
	case c.Threads < 0 || c.Threads > 256:
		return nil, fault.New(fault.Invalid, "threads", "--threads must be 0 to 256, is %d", c.Threads)
	case c.Threads == 0:
		o.Threads = min(runtime.GOMAXPROCS(0), 256)
	}
	return o, nil
}

// writerOf finds the format of an output by its name, so that a wrong name is told before the work.
func writerOf(path string) (func(t *tok.Tokenizer) error, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".json":
		return func(t *tok.Tokenizer) error {
			b, err := t.HF()
			if err != nil {
				return err
			}
			return tensorfile.WriteAtomic(path, func(w io.Writer) error {
				_, err := w.Write(b)
				return err
			})
		}, nil
	case ".gguf":
		return func(t *tok.Tokenizer) error {
			kv := []tensorfile.KV{{Key: "general.architecture", Value: "tinyloop"}, {Key: "general.type", Value: "model"}}
			keys := t.GGUF()
			for _, k := range slices.Sorted(maps.Keys(keys)) {
				kv = append(kv, tensorfile.KV{Key: k, Value: keys[k]})
			}
			return tensorfile.Write(path, kv, nil)
		}, nil
	}
	return nil, fault.New(fault.Invalid, "out", "--out is %q, expected a name ending in .json or .gguf", path)
}

// texts yields what a tokenizer meets of a document: its text, or what was said in it and the functions called.
func texts(d *data.Doc, yield func(string) error) error {
	if !d.IsChat() {
		return yield(d.Text)
	}
	list := []string{string(d.Tools)}
	for _, m := range d.Messages {
		list = append(list, m.Content)
		for _, c := range m.ToolCalls {
			list = append(list, fmt.Sprintf(`{"name":%q,"arguments":%s}`, c.Function.Name, c.Function.Arguments))
		}
	}
	for _, text := range list {
		if err := yield(text); err != nil {
			return err
		}
	}
	return nil
}

// TokenizerEvalCmd measures how well a tokenizer packs text.
type TokenizerEvalCmd struct {
	File   string   `arg:"" help:"gpt2, a tokenizer.json, or a model file or folder that holds a tokenizer."`
	Inputs []string `arg:"" name:"text" help:"Text files, JSON lines, JSON arrays, or folders of them."`
	JSON   bool     `name:"json" help:"Print JSON."`
}

// packing counts one file.
type packing struct {
	File          string  `json:"file"`
	Bytes         int64   `json:"bytes"`
	Tokens        int64   `json:"tokens"`
	BytesPerToken float64 `json:"bytes_per_token"`
}

func (p *packing) add(bytes, tokens int) {
	p.Bytes += int64(bytes)
	p.Tokens += int64(tokens)
	p.BytesPerToken = float64(p.Bytes) / float64(max(p.Tokens, 1))
}

// Run prints a line a file and the total. A text that does not come back as it was is an error.
func (c *TokenizerEvalCmd) Run(io *IO) error {
	t, _, err := loadTokenizer(c.File)
	if err != nil {
		return err
	}
	var files []packing
	total := packing{File: "total"}
	used := make([]bool, t.Size())
	var ids []tok.ID
	var back []byte
	_, err = data.Read(c.Inputs, data.Limits{}, func(d *data.Doc) error {
		if len(files) == 0 || files[len(files)-1].File != d.File {
			files = append(files, packing{File: d.File})
		}
		return texts(d, func(text string) error {
			if io.Ctx.Err() != nil {
				return fault.New(fault.Canceled, "", "stopped")
			}
			ids = t.Encode(ids[:0], text)
			if back = t.Decode(back[:0], ids); string(back) != text {
				return fault.New(fault.Invalid, "text", "%s:%d: the text does not come back from its ids as it was", d.File, d.Line)
			}
			for _, id := range ids {
				used[id] = true
			}
			files[len(files)-1].add(len(text), len(ids))
			total.add(len(text), len(ids))
			return nil
		})
	})
	if err != nil {
		return err
	}
	if total.Bytes == 0 {
		return fault.New(fault.Invalid, "input", "the input holds no text: there is nothing to measure")
	}
	return c.print(io, files, total, used)
}

func (c *TokenizerEvalCmd) print(io *IO, files []packing, total packing, used []bool) error {
	n := 0
	for _, u := range used {
		if u {
			n++
		}
	}
	if c.JSON {
		b, err := json.MarshalIndent(struct {
			Files []packing `json:"files"`
			Total packing   `json:"total"`
			Used  int       `json:"used_entries"`
			Vocab int       `json:"vocab"`
		}{files, total, n, len(used)}, "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintf(io.Out, "%s\n", b)
		return nil
	}
	for _, p := range append(files, total) {
		fmt.Fprintf(io.Out, "%12d bytes %12d tokens %7.3f bytes a token  %s\n", p.Bytes, p.Tokens, p.BytesPerToken, printable(p.File))
	}
	fmt.Fprintf(io.Out, "%d of %d entries used, every text came back as it was\n", n, len(used))
	return nil
}

// TokenizerEncodeCmd prints ids.
type TokenizerEncodeCmd struct {
	File   string   `arg:"" help:"gpt2, a tokenizer.json, or a model file or folder that holds a tokenizer."`
	Texts  []string `arg:"" optional:"" name:"text" help:"Texts, a line of ids each; standard input as one text when there is none."`
	Markup bool     `help:"Recognise special tokens in the text, as templates do."`
	Pieces bool     `help:"Print the text of each token instead of its id."`
}

// Run prints a line for each text.
func (c *TokenizerEncodeCmd) Run(io *IO) error {
	t, _, err := loadTokenizer(c.File)
	if err != nil {
		return err
	}
	list := c.Texts
	if len(list) == 0 {
		b, err := readAll(io)
		if err != nil {
			return err
		}
		list = []string{string(b)}
	}
	var out []byte
	var ids []tok.ID
	for _, text := range list {
		if c.Markup {
			ids = t.EncodeMarkup(ids[:0], text)
		} else {
			ids = t.Encode(ids[:0], text)
		}
		for i, id := range ids {
			if i > 0 {
				out = append(out, ' ')
			}
			out = c.append(out, t, id)
		}
		out = append(out, '\n')
	}
	_, err = io.Out.Write(out)
	return err
}

func (c *TokenizerEncodeCmd) append(out []byte, t *tok.Tokenizer, id tok.ID) []byte {
	switch {
	case !c.Pieces:
		return strconv.AppendInt(out, int64(id), 10)
	case t.IsControl(id):
		return append(out, t.Piece(id)...)
	}
	return strconv.AppendQuote(out, string(t.Bytes(id)))
}

// readAll reads standard input whole.
func readAll(c *IO) ([]byte, error) {
	const limit = 1 << 30
	b, err := io.ReadAll(io.LimitReader(c.In, limit+1))
	if err != nil {
		return nil, err
	}
	if len(b) > limit {
		return nil, fault.New(fault.TooLarge, "text", "standard input has more than %d bytes", limit)
	}
	return b, nil
}

// TokenizerDecodeCmd prints the text of ids.
type TokenizerDecodeCmd struct {
	File   string   `arg:"" help:"gpt2, a tokenizer.json, or a model file or folder that holds a tokenizer."`
	IDs    []string `arg:"" optional:"" name:"id" help:"Ids, with blanks or commas between them; standard input when there is none."`
	Markup bool     `help:"Print control tokens too, by their text."`
}

// Run prints the exact bytes, and no line feed behind them.
func (c *TokenizerDecodeCmd) Run(io *IO) error {
	t, _, err := loadTokenizer(c.File)
	if err != nil {
		return err
	}
	text := strings.Join(c.IDs, " ")
	if len(c.IDs) == 0 {
		b, err := readAll(io)
		if err != nil {
			return err
		}
		text = string(b)
	}
	ids, err := parseIDs(t, text)
	if err != nil {
		return err
	}
	out := t.Decode(nil, ids)
	if c.Markup {
		out = withControls(t, ids)
	}
	_, err = io.Out.Write(out)
	return err
}

// parseIDs reads ids with blanks or commas between them, as a list of JSON too.
func parseIDs(t *tok.Tokenizer, text string) ([]tok.ID, error) {
	var ids []tok.ID
	for _, f := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n,[]", r) }) {
		n, err := strconv.ParseInt(f, 10, 32)
		if err != nil || !t.Valid(tok.ID(n)) {
			return nil, fault.New(fault.Invalid, "id", "%q is no id of this tokenizer, expected 0 to %d", f, t.Size()-1)
		}
		ids = append(ids, tok.ID(n))
	}
	return ids, nil
}

// withControls decodes the stretches between control tokens, and writes those by their text.
func withControls(t *tok.Tokenizer, ids []tok.ID) []byte {
	var out []byte
	from := 0
	for i, id := range ids {
		if t.IsControl(id) {
			out = append(t.Decode(out, ids[from:i]), t.Piece(id)...)
			from = i + 1
		}
	}
	return t.Decode(out, ids[from:])
}
