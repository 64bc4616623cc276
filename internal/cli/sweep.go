package cli

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"tinyloop/internal/fault"
	"tinyloop/internal/gen"
	"tinyloop/internal/model"
	"tinyloop/internal/sample"
)

// SweepCmd shows what each number of loops is worth on a text.
type SweepCmd struct {
	EngineFlags
	File   string `arg:"" optional:"" help:"Model file (.tinyloop, .gguf, llama2.c .bin) or safetensors folder; absent = the model inside the program."`
	Loops  string `help:"Numbers of loops: a range as in 1..16, or a list as in 1,2,4." default:"1..16"`
	Text   string `help:"Text to measure on." type:"existingfile" required:"" placeholder:"FILE"`
	Tokens int    `help:"Tokens of the text to use at most." default:"4096"`
	Window int    `help:"Tokens of one stretch; each is computed on its own." default:"256"`
	Decode int    `help:"Tokens to decode at each number of loops for the times; 0 = none." default:"32"`
	JSON   bool   `name:"json" help:"Print JSON instead of the table."`
}

// depthRow is one number of loops.
type depthRow struct {
	Loops     int     `json:"loops"`
	Loss      float64 `json:"loss"`              // nats a token
	Agreement float64 `json:"agreement"`         // share of positions whose most probable token is that of the reference
	Entropy   float64 `json:"entropy"`           // nats, mean
	Change    float64 `json:"change"`            // of the state in that loop, mean
	Millis    float64 `json:"ms_per_token"`      // decoding one answer
	Trained   bool    `json:"trained,omitempty"` // within the range of training
}

// Run measures and prints.
func (c *SweepCmd) Run(io_ *IO) error {
	text, err := os.ReadFile(c.Text)
	if err != nil {
		return err
	}
	from := ModelFlag{Model: c.File}
	m, err := from.load(&c.EngineFlags, nil)
	if err != nil {
		return err
	}
	defer closeModel(m)
	loops, err := parseLoops(c.Loops, m.Info().Loops.HardMax)
	if err != nil {
		return err
	}
	if c.Window < 2 || c.Tokens < 2 {
		return fault.New(fault.Invalid, "window", "--window and --tokens must be at least 2, are %d and %d", c.Window, c.Tokens)
	}
	ids := m.Tokenizer().Encode(nil, string(text))
	ids = ids[:min(len(ids), c.Tokens)]
	if len(ids) < 2 {
		return fault.New(fault.Invalid, "text", "the text has fewer than two tokens")
	}
	rows, err := c.sweep(io_, m.Generator, ids, loops)
	if err != nil {
		return err
	}
	if c.JSON {
		return io_.writeJSON(rows)
	}
	return sweepTable(io_, rows, m.Info())
}

// parseLoops reads a range or a list; a range is cut to what the model can run.
func parseLoops(s string, most int) ([]int, error) {
	bad := func() ([]int, error) {
		return nil, fault.New(fault.Invalid, "loops", "--loops must be a range as in 1..16 or a list as in 1,2,4 of numbers from 1 to %d, is %q", most, fault.Clip(s, 40))
	}
	var out []int
	if from, to, ok := strings.Cut(s, ".."); ok {
		a, err1 := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || a < 1 || a > b || a > most {
			return bad()
		}
		for n := a; n <= min(b, most); n++ {
			out = append(out, n)
		}
		return out, nil
	}
	for _, f := range strings.Split(s, ",") {
		n, err := strconv.Atoi(f)
		if err != nil || n < 1 || n > most || len(out) > 0 && n <= out[len(out)-1] {
			return bad()
		}
		out = append(out, n)
	}
	return out, nil
}

// sweep reads every stretch once at the deepest number of loops, looking at each on the way. With a coda the readouts on the way are those of package gen's Scan.
func (c *SweepCmd) sweep(io_ *IO, g *gen.Generator, ids []int32, loops []int) ([]depthRow, error) {
	info := g.Info()
	rows := make([]depthRow, len(loops))
	at := map[int]int{}
	for i, n := range loops {
		rows[i] = depthRow{Loops: n, Trained: n >= info.Loops.TrainedMin && n <= info.Loops.TrainedMax}
		at[n] = i
	}
	deepest, ref := loops[len(loops)-1], info.Loops.Default
	s := sample.New(info.Vocab)
	n, window := 0, min(c.Window, info.Context-1)
	for lo := 0; lo+1 < len(ids); lo += window {
		part := ids[lo:min(len(ids), lo+window)]
		if len(part) < 2 {
			break
		}
		best := make([][]int32, len(part)) // [position][loop]: most probable token
		for i := range best {
			best[i] = make([]int32, max(deepest, ref)+1)
		}
		err := g.Scan(io_.Ctx, part, max(deepest, ref), func(pos, loop int, logits []float32, m model.Motion) {
			if pos+1 >= len(part) || best[pos][loop] != 0 {
				return
			}
			best[pos][loop] = 1 + s.Draw(logits, &sample.Params{}, 0, 0, nil, nil)
			if i, ok := at[loop]; ok {
				rows[i].Loss -= float64(s.Score(logits, part[pos+1], 0).Logprob)
				rows[i].Entropy += s.Entropy(logits)
				if !math.IsInf(float64(m.Change), 0) {
					rows[i].Change += float64(m.Change)
				}
			}
		})
		if err != nil {
			return nil, err
		}
		for _, b := range best[:len(part)-1] {
			n++
			for i := range rows {
				if b[rows[i].Loops] == b[ref] {
					rows[i].Agreement++
				}
			}
		}
	}
	for i := range rows {
		r := &rows[i]
		r.Loss, r.Agreement, r.Entropy, r.Change = r.Loss/float64(n), r.Agreement/float64(n), r.Entropy/float64(n), r.Change/float64(n)
		if err := c.time(io_, g, ids, r); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// time decodes one answer.
func (c *SweepCmd) time(io_ *IO, g *gen.Generator, ids []int32, r *depthRow) error {
	if c.Decode < 2 {
		return nil
	}
	zero := 0.0
	s, err := g.Generate(io_.Ctx, &gen.Request{PromptIDs: ids[:min(len(ids), 16)], MaxTokens: &c.Decode, Loops: &r.Loops, Temperature: &zero, IgnoreEOS: true})
	if err != nil {
		return err
	}
	defer s.Close()
	return each(io_.Ctx, s, func(e gen.Event) error {
		if e.Kind != gen.Done {
			return nil
		}
		if n := e.Stats.CompletionTokens; n > 1 {
			r.Millis = ms(e.Stats.Decode) / float64(n-1)
		}
		return outcome(e)
	})
}

func sweepTable(io_ *IO, rows []depthRow, info gen.Info) error {
	t := tabwriter.NewWriter(io_.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "loops\tloss\tagrees with %d\tentropy\tchange\tms a token\t\t\n", info.Loops.Default)
	for _, r := range rows {
		note := ""
		if !r.Trained {
			note = "not trained"
		}
		fmt.Fprintf(t, "%d\t%.4f\t%.1f %%\t%.3f\t%.3f\t%.2f\t%s\t\n", r.Loops, r.Loss, 100*r.Agreement, r.Entropy, r.Change, r.Millis, note)
	}
	return t.Flush()
}
