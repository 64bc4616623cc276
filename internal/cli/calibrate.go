package cli

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"tinyloop/internal/arch"
	"tinyloop/internal/data"
	"tinyloop/internal/eval"
	"tinyloop/internal/fault"
	"tinyloop/internal/host"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/sample"
	"tinyloop/internal/tensorfile"
)

// CalibrateCmd measures what a model's depths are worth and writes it into the file, where drafting and mode auto find it.
type CalibrateCmd struct {
	EngineFlags
	File   string `arg:"" help:"Model file (.tinyloop)."`
	Text   string `help:"Text to measure on." type:"existingfile" placeholder:"FILE" xor:"source"`
	Data   string `help:"Prepared corpus whose validation documents are measured on." type:"existingdir" placeholder:"DIR" xor:"source"`
	Out    string `short:"o" help:"File to write. Absent = the model file itself, which is replaced at once and whole." placeholder:"FILE"`
	Tokens int    `help:"Tokens to look at, at most." default:"4096"`
	Window int    `help:"Tokens of one stretch; each is computed on its own." default:"256"`
	Gate   bool   `help:"Fit the exit gate to the model as it is, and write it too: on every second stretch, so that the tables are measured on others."`
	JSON   bool   `name:"json" help:"Print JSON instead of the tables."`
}

// Run measures, writes and prints.
func (c *CalibrateCmd) Run(io *IO) error {
	switch {
	case c.Text == "" && c.Data == "":
		return fault.New(fault.Invalid, "text", "give --text FILE or --data DIR to measure on")
	case c.Window < 2 || c.Tokens < 2:
		return fault.New(fault.Invalid, "window", "--window and --tokens must be at least 2, are %d and %d", c.Window, c.Tokens)
	case c.Out != "" && !strings.EqualFold(filepath.Ext(c.Out), ".tinyloop"):
		return fault.New(fault.Invalid, "out", "the output must end in .tinyloop, is %s", filepath.Base(c.Out))
	case c.LoopRange != "":
		return fault.New(fault.Invalid, "loop-range", "a calibration belongs to the file: convert it with --loop-range first")
	}
	in, err := tensorfile.Open(c.File)
	if err != nil {
		return err
	}
	defer in.Close()
	if c.Out == "" {
		c.Out = c.File
	}
	from := ModelFlag{Model: c.File}
	m, err := from.load(&c.EngineFlags, nil)
	if err != nil {
		return err
	}
	defer closeModel(m)
	depth := m.Info().Loops.Default
	if depth < 2 {
		return fault.New(fault.Invalid, "model", "the model makes one pass unless a request says otherwise: there is nothing to calibrate")
	}
	parts, err := c.parts(m)
	if err != nil {
		return err
	}
	t := newTally(m, depth)
	if c.Gate {
		if parts, err = t.fitGate(io, m, parts); err != nil {
			return err
		}
	}
	for _, part := range parts {
		if err := t.read(io, m, part); err != nil {
			return err
		}
	}
	cal := t.calibration()
	if err := in.Guard(func() error { return arch.Calibrate(in, c.Out, cal, t.gate) }); err != nil {
		return err
	}
	if c.JSON {
		return io.writeJSON(cal)
	}
	return calibrationTable(io, &cal, t, c.Out)
}

// fitGate fits an exit gate on every second stretch and gives the others, on which it is then measured in place of the model's own.
func (t *tally) fitGate(io *IO, m *host.Model, parts [][]int32) (rest [][]int32, err error) {
	if len(parts) < 2 {
		return nil, fault.New(fault.Invalid, "window", "a gate is fitted on one half of the text and measured on the other: give more text, or a --window that cuts it in two")
	}
	dim := 0
	var fit *eval.GateFit
	for i, part := range parts {
		if i%2 == 1 {
			rest = append(rest, part)
			continue
		}
		s := states{t: t, losses: make([][]float64, len(part)), kept: make([][]float32, len(part)), ids: part}
		if err := m.Generator.Scan(io.Ctx, part, t.depth, s.see); err != nil {
			return nil, err
		}
		if fit == nil {
			dim = s.dim
			fit = eval.NewGateFit(dim)
		}
		if err := fit.Room(len(part) * (t.depth - 1)); err != nil {
			return nil, err
		}
		s.addTo(fit, dim)
	}
	t.gate, t.fitted, err = fit.Fit()
	return rest, err
}

// states is what the positions of one stretch show to the fit of a gate: the loss of the next token after every pass, and the state after each but the last.
type states struct {
	t      *tally
	ids    []int32
	dim    int
	losses [][]float64 // [position][loop]
	kept   [][]float32 // [position][(depth-1)*dim]
}

func (s *states) see(pos, loop int, logits []float32, m model.Motion) {
	if pos+1 >= len(s.ids) || loop != len(s.losses[pos])+1 {
		return // no next token, or seen before a preemption
	}
	s.dim = len(m.State)
	s.losses[pos] = append(s.losses[pos], -float64(s.t.s.Score(logits, s.ids[pos+1], 0).Logprob))
	if loop < s.t.depth {
		s.kept[pos] = append(s.kept[pos], m.State...)
	}
}

func (s *states) addTo(fit *eval.GateFit, dim int) {
	for pos, losses := range s.losses {
		if len(losses) < s.t.depth {
			continue
		}
		for l := range s.t.depth - 1 {
			fit.Add(s.kept[pos][l*dim:(l+1)*dim], losses[l], losses[s.t.depth-1])
		}
	}
}

// parts gives the stretches of tokens.
func (c *CalibrateCmd) parts(m *host.Model) (parts [][]int32, err error) {
	window, left := min(c.Window, m.Info().Context-1), c.Tokens
	add := func(ids []int32) {
		for len(ids) > 1 && left > 1 {
			n := min(window, len(ids), left)
			parts = append(parts, ids[:n])
			ids, left = ids[n:], left-n
		}
	}
	if c.Text != "" {
		text, err := os.ReadFile(c.Text)
		if err != nil {
			return nil, err
		}
		add(m.Tokenizer().Encode(nil, string(text)))
	} else if err := c.documents(m, func(ids []int32) bool { add(ids); return left > 1 }); err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, fault.New(fault.Invalid, "text", "there are fewer than two tokens to measure on")
	}
	return parts, nil
}

// documents yields the validation documents of a corpus.
func (c *CalibrateCmd) documents(m *host.Model, yield func(ids []int32) bool) error {
	shards, err := data.OpenSplit(c.Data, data.Valid, m.Tokenizer().Hash())
	if err != nil {
		return err
	}
	for _, s := range shards {
		defer s.Close()
	}
	for _, s := range shards {
		for i := range s.Docs() {
			ids := make([]int32, min(s.DocLen(i), c.Tokens))
			if err := s.Read(i, 0, ids, make([]byte, 4*len(ids))); err != nil {
				return err
			}
			if !yield(ids) {
				return nil
			}
		}
	}
	return nil
}

// probe is one early exit that is tried: a rule with a threshold.
type probe struct {
	rule      string
	threshold float64
	signal    int // of signals; argmax counts instead
	above     bool
}

// What a rule looks at after a pass.
const (
	sigGate = iota // probability of having left so far
	sigLatent
	sigAccel
	sigKL
	sigEntropy
	sigSame // passes with the same most probable token
	signals
)

func probes() []probe {
	var out []probe
	for _, r := range []struct {
		rule   string
		signal int
		above  bool
		at     []float64
	}{
		{"gate", sigGate, true, []float64{0.3, 0.5, 0.7, 0.9}},
		{"latent", sigLatent, false, []float64{0.3, 0.1, 0.05, 0.03, 0.01}},
		{"accel", sigAccel, false, []float64{0.3, 0.1, 0.05, 0.03, 0.01}},
		{"kl", sigKL, false, []float64{0.1, 0.01, 0.001, 0.0005, 0.0001}},
		{"entropy", sigEntropy, false, []float64{0.1, 0.03, 0.01, 0.001}},
		{"argmax", sigSame, true, []float64{2, 3, 4}},
	} {
		for _, v := range r.at {
			out = append(out, probe{r.rule, v, r.signal, r.above})
		}
	}
	return out
}

// tally counts over all positions.
type tally struct {
	depth     int
	s         *sample.Sampler
	positions int
	same      []int // [depth]
	probes    []probe
	loops     []int // [probe] passes made
	right     []int // [probe] positions whose token is that of the full depth
	trail     []trail
	gated     bool       // the model has an exit gate
	gate      *arch.Gate // fitted here; nil = the model's own, if any
	fitted    eval.GateReport
}

// trail is what one position has shown so far.
type trail struct {
	seen    int
	last    []float32          // logits of the pass before
	best    []int32            // [depth]
	signal  [][signals]float64 // [depth]
	survive float64
	entropy float64
}

func newTally(m *host.Model, depth int) *tally {
	t := &tally{depth: depth, s: sample.New(m.Info().Vocab), same: make([]int, depth), probes: probes()}
	t.loops, t.right = make([]int, len(t.probes)), make([]int, len(t.probes))
	return t
}

// read looks at one stretch. Every position sees earlier ones at the full depth, as decoding does where exits are made up for and guesses are judged.
func (t *tally) read(io *IO, m *host.Model, ids []int32) error {
	for len(t.trail) < len(ids) {
		t.trail = append(t.trail, trail{best: make([]int32, t.depth), signal: make([][signals]float64, t.depth), last: make([]float32, m.Info().Vocab)})
	}
	for i := range ids {
		t.trail[i].seen = 0
	}
	if err := m.Generator.Scan(io.Ctx, ids, t.depth, t.see); err != nil {
		return err
	}
	for i := range ids {
		t.count(&t.trail[i])
	}
	return nil
}

func (t *tally) see(pos, loop int, logits []float32, m model.Motion) {
	p := &t.trail[pos]
	if loop != p.seen+1 {
		return // seen before a preemption
	}
	if loop == 1 {
		p.survive = 1
	}
	leave := float64(m.Gate)
	if t.gate != nil {
		leave = 1 / (1 + math.Exp(-float64(kernel.Dot(t.gate.Weight, m.State)+t.gate.Bias)))
	}
	p.seen, t.gated = loop, t.gated || leave > 0
	p.survive *= 1 - leave
	h := t.s.Entropy(logits)
	id := t.s.Draw(logits, &sample.Params{}, 0, 0, nil, nil)
	sig := &p.signal[loop-1]
	*sig = [signals]float64{sigGate: 1 - p.survive, sigLatent: float64(m.Change), sigAccel: float64(m.Accel), sigKL: math.Inf(1), sigEntropy: math.Inf(1), sigSame: 1}
	if loop > 1 {
		sig[sigKL], sig[sigEntropy] = t.s.Divergence(logits, p.last), math.Abs(h-p.entropy)
		if id == p.best[loop-2] {
			sig[sigSame] = p.signal[loop-2][sigSame] + 1
		}
	}
	p.best[loop-1], p.entropy = id, h
	copy(p.last, logits)
}

// count adds a position that has been seen at every depth.
func (t *tally) count(p *trail) {
	if p.seen < t.depth {
		return
	}
	t.positions++
	full := p.best[t.depth-1]
	for d, id := range p.best {
		if id == full {
			t.same[d]++
		}
	}
	for i := range t.probes {
		n := t.probes[i].leaves(p.signal)
		t.loops[i] += n
		if p.best[n-1] == full {
			t.right[i]++
		}
	}
}

// leaves is the number of passes after which the rule ends them.
func (x *probe) leaves(signal [][signals]float64) int {
	for d := range signal {
		v := signal[d][x.signal]
		if x.above && v >= x.threshold || !x.above && v < x.threshold {
			return d + 1
		}
	}
	return len(signal)
}

func (t *tally) calibration() (c arch.Calibration) {
	n := float32(t.positions)
	for _, same := range t.same {
		c.Agreement = append(c.Agreement, float32(same)/n)
	}
	for i, x := range t.probes {
		if x.signal == sigGate && !t.gated {
			continue
		}
		c.Exits = append(c.Exits, arch.ExitPoint{Rule: x.rule, Threshold: float32(x.threshold), Loops: float32(t.loops[i]) / n, Agreement: float32(t.right[i]) / n})
	}
	return c
}

func calibrationTable(io *IO, c *arch.Calibration, m *tally, out string) error {
	t := tabwriter.NewWriter(io.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "loops\tagrees with %d\t\n", len(c.Agreement))
	for d, a := range c.Agreement {
		fmt.Fprintf(t, "%d\t%.1f %%\t\n", d+1, 100*a)
	}
	fmt.Fprint(t, "\nexit\tthreshold\tmean loops\tagrees\t\n")
	for _, x := range c.Exits {
		fmt.Fprintf(t, "%s\t%s\t%.2f\t%.1f %%\t\n", x.Rule, fmt.Sprintf("%g", x.Threshold), x.Loops, 100*x.Agreement)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if m.gate != nil {
		fmt.Fprintf(io.Out, "\ngate fitted on %d states: cross entropy %.4f, that of a gate that does not look at them %.4f\n", m.fitted.States, m.fitted.Loss, m.fitted.Constant)
	}
	_, err := fmt.Fprintf(io.Out, "\n%d positions, written into %s\n", m.positions, printable(filepath.Base(out)))
	return err
}
