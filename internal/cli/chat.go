package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"tinyloop/internal/chat"
	"tinyloop/internal/fault"
	"tinyloop/internal/gen"
	"tinyloop/internal/host"
)

// ChatCmd is a conversation in the terminal: answers stream, an interrupt stops the answer and not the program.
type ChatCmd struct {
	File string `arg:"" optional:"" help:"Model file; absent = TINYLOOP_MODEL_PATH, else the model inside the program."`
	ModelFlag
	EngineFlags
	SamplingFlags
	System string `help:"System message of the conversation."`
	Quiet  bool   `short:"q" help:"No greeting, no statistics."`
}

const chatHelp = `  /loops N     passes through the looped core for the next answers (/loops alone: the model's default)
  /system TEXT start again with this system message (/system alone: without one)
  /reset       forget the conversation, but not the system message
  /stats       on or off
  /help        this list
  /quit        leave (as Ctrl-D does)
Ctrl-C stops an answer; at the prompt it leaves.
`

// conversation is the state of one chat.
type conversation struct {
	io       *IO
	model    *host.Model
	flags    *SamplingFlags
	system   string
	messages []chat.Message
	stats    bool
	tty      bool
}

// Run reads one line a turn until /quit or the end of input.
func (c *ChatCmd) Run(io_ *IO) error {
	if c.File != "" {
		c.Model = c.File
	}
	m, err := c.load(&c.EngineFlags, nil)
	if err != nil {
		return err
	}
	defer closeModel(m)
	v := &conversation{io: io_, model: m, flags: &c.SamplingFlags, stats: !c.Quiet, tty: isTerminal(io_.Out)}
	v.reset(c.System)
	if !c.Quiet {
		in := m.Info()
		fmt.Fprintf(io_.Out, "%s: %s, %d %s by default (trained for %d to %d), window %d tokens. /help for commands.\n",
			in.Name, in.Family, in.Loops.Default, plural(in.Loops.Default, "loop", "loops"), in.Loops.TrainedMin, in.Loops.TrainedMax, in.Context)
	}
	return v.loop()
}

func (v *conversation) reset(system string) {
	v.system, v.messages = system, nil
	if system != "" {
		v.messages = []chat.Message{{Role: "system", Content: system}}
	}
}

func (v *conversation) loop() error {
	left := make(chan struct{})
	defer close(left)
	lines := readLines(v.io.In, left)
	for {
		v.dim("\n> ")
		l, ok := v.next(lines)
		text := strings.TrimSpace(l.text)
		if text != "" {
			quit, cerr := v.turn(text)
			if cerr != nil {
				fmt.Fprintf(v.io.Err, "tinyloop: %s\n", cerr)
			}
			if quit {
				return nil
			}
		}
		if !ok || errors.Is(l.err, io.EOF) {
			fmt.Fprintln(v.io.Out)
			return nil
		}
		if l.err != nil {
			return l.err
		}
	}
}

// line is what one read of the input gave: text, and the error that ended it, if any.
type line struct {
	text string
	err  error
}

// readLines hands over one line of r at a time until the input ends or left is closed (a read that waits then ends with the program).
func readLines(r io.Reader, left <-chan struct{}) <-chan line {
	out := make(chan line)
	go func() {
		in := bufio.NewReader(r)
		for {
			text, err := in.ReadString('\n')
			select {
			case out <- line{text, err}:
			case <-left:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return out
}

// next waits for a line, or for an interrupt at the prompt, which leaves: ok is false then. An interrupt that stopped an answer has ended the context
// before; from then on the system's own handling of a signal leaves.
func (v *conversation) next(lines <-chan line) (l line, ok bool) {
	var interrupt <-chan struct{}
	if v.io.Ctx.Err() == nil {
		interrupt = v.io.Ctx.Done()
	}
	select {
	case l = <-lines:
		return l, true
	case <-interrupt:
		return line{}, false
	}
}

func (v *conversation) dim(s string) {
	if v.tty {
		s = "\x1b[2m" + s + "\x1b[0m"
	}
	fmt.Fprint(v.io.Out, s)
}

// turn answers a line or carries out a command.
func (v *conversation) turn(text string) (quit bool, err error) {
	if !strings.HasPrefix(text, "/") {
		return false, v.answer(text)
	}
	name, rest, _ := strings.Cut(text[1:], " ")
	rest = strings.TrimSpace(rest)
	switch name {
	case "quit", "exit", "q":
		return true, nil
	case "help":
		fmt.Fprint(v.io.Out, chatHelp)
	case "reset":
		v.reset(v.system)
	case "system":
		v.reset(rest)
	case "stats":
		v.stats = !v.stats
		v.dim(fmt.Sprintf("statistics %s\n", map[bool]string{true: "on", false: "off"}[v.stats]))
	case "loops":
		return false, v.setLoops(rest)
	default:
		return false, fault.New(fault.Invalid, "", "no command /%s; /help lists them", name)
	}
	return false, nil
}

func (v *conversation) setLoops(s string) error {
	loops := v.model.Info().Loops
	if s == "" {
		v.flags.Loops = nil
		v.dim(fmt.Sprintf("loops: %d\n", loops.Default))
		return nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > loops.HardMax {
		if loops.HardMax == 1 {
			return fault.New(fault.Invalid, "loops", "this model has no loop: loops must be 1, not %q", s)
		}
		return fault.New(fault.Invalid, "loops", "loops must be 1 to %d, not %q", loops.HardMax, s)
	}
	v.flags.Loops = &n
	v.dim(fmt.Sprintf("loops: %d\n", n))
	return nil
}

// answer streams the reply to one user message. The turn joins the conversation only when it was answered, wholly or in part.
func (v *conversation) answer(text string) error {
	ctx, stop := signal.NotifyContext(context.WithoutCancel(v.io.Ctx), os.Interrupt)
	defer stop()
	turns := append(v.messages[:len(v.messages):len(v.messages)], chat.Message{Role: "user", Content: text})
	r := &gen.Request{Messages: turns, FitWindow: true}
	v.flags.fill(r)
	s, err := v.model.Generate(ctx, r)
	if err != nil {
		return err
	}
	defer s.Close()
	var reply strings.Builder
	var done gen.Event
	err = each(ctx, s, func(e gen.Event) error {
		if e.Kind == gen.Done {
			done = e
		}
		reply.WriteString(e.Text)
		_, err := io.WriteString(v.io.Out, e.Text)
		return err
	})
	fmt.Fprintln(v.io.Out)
	if err != nil {
		return err
	}
	if done.Finish == gen.FinishError {
		return done.Err
	}
	v.messages = append(turns, chat.Message{Role: "assistant", Content: reply.String()})
	if v.stats {
		st := done.Stats
		v.dim(fmt.Sprintf("[%d tokens, %d %s, first after %.0f ms, %.0f tokens/s, %s]\n", st.CompletionTokens, st.Loops, plural(st.Loops, "loop", "loops"), ms(st.TTFT), st.TokensPerSecond, finishName(done.Finish)))
	}
	for _, w := range done.Stats.Warnings {
		fmt.Fprintf(v.io.Err, "tinyloop: %s\n", w)
	}
	return nil
}
