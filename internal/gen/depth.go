package gen

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"tinyloop/internal/engine"
	"tinyloop/internal/fault"
)

// modes are the names of the engine's modes, verifies those of its ways to judge a guess.
var (
	modes    = [...]string{engine.Autoregressive: "autoregressive", engine.Speculative: "speculative", engine.TreeSpeculative: "tree_speculative", engine.Wavefront: "wavefront", engine.Auto: "auto"}
	rules    = [...]string{engine.NoExit: "none", engine.ExitGate: "gate", engine.ExitLatent: "latent", engine.ExitAccel: "accel", engine.ExitKL: "kl", engine.ExitEntropy: "entropy", engine.ExitArgmax: "argmax"}
	verifies = [...]string{engine.Replay: "replay", engine.Rejection: "rejection", engine.Typical: "typical"}
)

// depth is the checked part of a request about loops and the order in which they run.
type depth struct {
	loops  int
	mode   engine.Mode
	draft  int // draft_loops, 0 = the engine's choice
	ahead  int
	fan    int // K_branches
	verify engine.Verify
	accept float32
	exit   engine.Exit
	kv     engine.KV
	kvMod  int
	kvName string
}

// Exit asks for early exits of decoded positions; see engine.Exit.
type Exit struct {
	Rule      string   // none, gate, latent, accel, kl, entropy, argmax
	Threshold *float64 // nil = the rule's default
	MinLoops  *int     // nil = 1
	KV        string   // "" or complete (exact), deepest (lossy)
}

// checkDepth settles the number of loops: the request's own, else what its effort stands for, else the model's default. verify_loops is another
// name for it, which wins.
func (g *Generator) checkDepth(r *Request, p *plan) error {
	l := g.info.Loops
	byEffort, err := g.effort(r.Effort)
	if err != nil {
		return err
	}
	p.loops = byEffort
	field, given := "loops", r.Loops
	if r.VerifyLoops != nil {
		field, given = "verify_loops", r.VerifyLoops
		if r.Loops != nil && *r.Loops != *given {
			p.warn("verify_loops = %d wins over loops = %d", *given, *r.Loops)
		}
	}
	if given != nil {
		n := *given
		switch {
		case l.HardMax <= 1 && n != 1:
			return fault.New(fault.Invalid, field, "%s must be 1, because this model has no loop, got %d", field, n)
		case n < 1 || n > max(l.HardMax, 1):
			return between(field, 1, l.HardMax, n)
		}
		p.loops = n
	}
	switch {
	case l.TrainedMax > 0 && p.loops > l.TrainedMax:
		p.warn("%s = %d is above the %d this model was trained for", field, p.loops, l.TrainedMax)
	case p.loops < l.TrainedMin:
		p.warn("%s = %d is below the %d this model was trained for", field, p.loops, l.TrainedMin)
	}
	if r.LogprobsByLoop && !r.Logprobs {
		return fault.New(fault.Invalid, "logprobs_by_loop", "logprobs_by_loop needs logprobs")
	}
	if err := checkExit(r, p); err != nil {
		return err
	}
	return g.checkDraft(r, p)
}

// checkExit settles early exits. What depends on the model is the engine's to refuse.
func checkExit(r *Request, p *plan) error {
	x := r.Exit
	if x == nil {
		return nil
	}
	rule, err := named("exit.rule", x.Rule, rules[:])
	if err != nil {
		return err
	}
	kv, err := named("exit.kv", x.KV, []string{"complete", "deepest"})
	if err != nil {
		return err
	}
	p.exit = engine.Exit{Rule: engine.Rule(rule), Deepest: kv == 1}
	if t := x.Threshold; t != nil {
		if err := checkThreshold(p.exit.Rule, *t); err != nil {
			return err
		}
		p.exit.Threshold = float32(*t)
	}
	if n := x.MinLoops; n != nil {
		if *n < 1 || *n > p.loops {
			return between("exit.min_loops", 1, p.loops, *n)
		}
		p.exit.MinLoops = *n
	}
	switch {
	case p.exit.Rule == engine.NoExit:
		if x.Threshold != nil || x.MinLoops != nil || x.KV != "" {
			p.warn("exit names no rule, so its other fields change nothing")
		}
	case p.loops < 2:
		p.warn("exit has nothing to leave out at one loop")
	case p.exit.Deepest:
		p.warn("exit.kv deepest is lossy: later tokens see the last pass made in place of those left out")
	}
	return nil
}

// checkThreshold holds a threshold to what its rule can meet: probabilities are at most 1, and argmax counts passes.
func checkThreshold(rule engine.Rule, t float64) error {
	lo, hi := math.SmallestNonzeroFloat32, math.MaxFloat32
	switch rule {
	case engine.ExitGate:
		hi = 1
	case engine.ExitArgmax:
		lo = 1
	}
	switch {
	case t >= lo && t <= hi:
		return nil
	case rule == engine.ExitGate:
		return fault.New(fault.Invalid, "exit.threshold", "exit.threshold of gate must be above 0 and at most 1, got %g", t)
	case rule == engine.ExitArgmax:
		return fault.New(fault.Invalid, "exit.threshold", "exit.threshold of argmax is a number of passes, 1 to %.2g, got %g", hi, t)
	}
	return fault.New(fault.Invalid, "exit.threshold", "exit.threshold must be above 0 and at most %.2g, got %g", hi, t)
}

// checkDraft settles the decoding mode and what it guesses with.
func (g *Generator) checkDraft(r *Request, p *plan) error {
	d := &p.depth
	at, err := named("mode", r.Mode, modes[:])
	if err != nil {
		err.Kind, err.Code = fault.Unsupported, "unsupported_parameter"
		return err
	}
	d.mode = engine.Mode(at)
	if at, err = named("verify", r.Verify, verifies[:]); err != nil {
		return err
	}
	d.verify = engine.Verify(at)
	plain := d.mode == engine.Autoregressive
	if !plain && d.loops < 2 {
		p.warn("mode %s has nothing to guess from at one loop: the answer is decoded plainly", modes[d.mode])
		d.mode, plain = engine.Autoregressive, true
	}
	if err := g.checkGuesses(r, p, plain); err != nil {
		return err
	}
	if err := checkVerify(r, p, plain); err != nil {
		return err
	}
	return g.checkKV(r, p)
}

// checkGuesses settles how deep, how far ahead and how widely is guessed. What has no meaning in the mode is checked all the same, and said.
func (g *Generator) checkGuesses(r *Request, p *plan, plain bool) error {
	d := &p.depth
	deepest := d.loops - 1
	if plain {
		deepest = max(1, g.info.Loops.HardMax-1) // no answer has more loops to guess in front of
	}
	for _, f := range []struct {
		field  string
		v      *int
		hi     int
		means  bool
		effect *int
	}{
		{"draft_loops", r.DraftLoops, deepest, !plain, &d.draft},
		{"draft_ahead", r.DraftAhead, engine.MaxAhead, !plain, &d.ahead},
		{"K_branches", r.Branches, engine.MaxBranches, d.mode == engine.TreeSpeculative || d.mode == engine.Auto, &d.fan},
	} {
		switch {
		case f.v == nil:
		case *f.v < 1 || *f.v > f.hi:
			return between(f.field, 1, f.hi, *f.v)
		case !f.means:
			p.warn("%s has no meaning in mode %s", f.field, modes[d.mode])
		default:
			*f.effect = *f.v
		}
	}
	if d.mode != engine.TreeSpeculative {
		return nil
	}
	if k, n := cmp.Or(d.fan, engine.DefaultBranches), cmp.Or(d.ahead, engine.DefaultAhead); k*n > engine.MaxTree {
		p.warn("%d branches of %d guesses are more than the %d in flight that a tree may have: draft_ahead counts as %d", k, n, engine.MaxTree, engine.MaxTree/k)
	}
	return nil
}

// checkKV settles how loops share K/V. The server's default gives way to a mode that it does not go with.
func (g *Generator) checkKV(r *Request, p *plan) error {
	name := r.KVMode
	if name == "" {
		name = g.lim.KVMode
		if name != "" && name != "per_loop" && (p.mode != engine.Autoregressive || p.exit.Rule != engine.NoExit) {
			p.warn("kv_mode %s, the server's default, does not go with this mode or exit: per_loop is used", name)
			name = ""
		}
	}
	kv, mod, err := ParseKVMode(name)
	if err != nil {
		return err
	}
	if kv == engine.KVPerLoop || p.loops < 2 || kv == engine.KVMod && mod >= p.loops { // every loop keeps its own
		p.kvName = "per_loop"
		return nil
	}
	p.kv, p.kvMod, p.kvName = kv, mod, name
	p.warn("kv_mode %s is lossy: later tokens see less of the loops than the model was made for", name)
	return nil
}

// ParseKVMode reads the name of a KV policy: per_loop (also ""), last, mean or mod:k.
func ParseKVMode(name string) (engine.KV, int, error) {
	switch name {
	case "", "per_loop":
		return engine.KVPerLoop, 0, nil
	case "last":
		return engine.KVLast, 0, nil
	case "mean":
		return engine.KVMean, 0, nil
	case "shared":
		return 0, 0, fault.New(fault.Unsupported, "kv_mode", "kv_mode shared is for models that were trained with one K/V for all loops, which no file format of ours can say yet; last is near to it")
	}
	if k, ok := strings.CutPrefix(name, "mod:"); ok {
		if n, err := strconv.Atoi(k); err == nil && n >= 1 && n <= 1<<16 {
			return engine.KVMod, n, nil
		}
	}
	return 0, 0, fault.New(fault.Invalid, "kv_mode", "kv_mode must be per_loop, last, mean or mod:k with k of 1 or more, got %q", fault.Clip(name, 40))
}

func checkVerify(r *Request, p *plan, plain bool) error {
	d := &p.depth
	if a := r.Accept; a != nil {
		if !(*a > 0 && *a <= 1) {
			return fault.New(fault.Invalid, "accept_threshold", "accept_threshold must be above 0 and at most 1, got %g", *a)
		}
		d.accept = float32(*a)
		if plain || d.verify != engine.Typical {
			p.warn("accept_threshold has a meaning only with verify typical")
		}
	}
	switch {
	case plain && d.verify != engine.Replay:
		p.warn("verify %s has no meaning in mode autoregressive", verifies[d.verify])
		d.verify = engine.Replay
	case plain:
	case d.verify == engine.Rejection:
		p.warn("verify rejection keeps the distribution of the answer but not the tokens that its seed gives in other modes")
	case d.verify == engine.Typical:
		p.warn("verify typical is lossy: a guess may stand where full depth would have said something else")
	}
	return nil
}

// named finds a name in a list; "" is the first.
func named(field, name string, list []string) (int, *fault.Error) {
	if name == "" {
		return 0, nil
	}
	for i, s := range list {
		if s == name {
			return i, nil
		}
	}
	return 0, fault.New(fault.Invalid, field, "%s must be one of %s, got %q", field, join(list), fault.Clip(name, 40))
}

func join(list []string) string {
	s := ""
	for i, e := range list {
		if i > 0 {
			s += ", "
		}
		s += e
	}
	return s
}

func (p *plan) warn(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf(format, args...))
}

// Draft is what guessing has cost and brought; zero where an answer was decoded plainly.
type Draft struct {
	DraftLoops, Ahead, Branches int
	Verify                      string
	Drafted, Judged, Accepted   int // guessed tokens whose rows ran, those that an answer came to, those that were right
	Rounds                      int // times a sequence of guesses began
}
