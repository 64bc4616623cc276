package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"tinyloop/internal/fault"
	"tinyloop/internal/host"
	"tinyloop/internal/serve"
)

// ServeCmd serves models over HTTP until it is told to stop.
type ServeCmd struct {
	Model []string `help:"Model to serve as NAME=FILE, or FILE alone (repeatable; the first is the default, also called tl). Absent = the one inside the program." env:"TINYLOOP_MODEL_PATH" sep:"," placeholder:"[NAME=]FILE"`
	Addr  string   `help:"Address to listen on." env:"TINYLOOP_ADDR" default:"127.0.0.1:8000"`
	EngineFlags
	Origins      []string      `help:"Web origins that may call the server beside the built-in ones; * stands for one label (https://*.example.org)." env:"TINYLOOP_ORIGINS"`
	Hosts        []string      `help:"Host names that requests may name beside localhost and the bound address." env:"TINYLOOP_HOSTS"`
	BodyLimitMB  int64         `name:"body-limit-mb" help:"Largest request body in MiB." env:"TINYLOOP_BODY_LIMIT_MB" default:"8"`
	DrainTimeout time.Duration `help:"How long a stopping server lets answers finish." env:"TINYLOOP_DRAIN_TIMEOUT" default:"10s"`
	NoPage       bool          `help:"No page for browsers at /; the routes stay." env:"TINYLOOP_NO_PAGE"`
	StrictOpenAI bool          `name:"strict-openai" help:"Keep OpenAI's own defaults where ours are friendlier (completions end after 16 tokens)." env:"TINYLOOP_STRICT_OPENAI"`
	LogFormat    string        `help:"auto, text or json." env:"TINYLOOP_LOG_FORMAT" enum:"auto,text,json" default:"auto"`
	LogLevel     string        `help:"debug, info, warn or error." env:"TINYLOOP_LOG_LEVEL" default:"info"`
}

// Run loads the models, prints where they can be reached, and serves until the first interrupt.
func (c *ServeCmd) Run(io *IO) error {
	if err := c.validate(); err != nil {
		return err
	}
	log, err := newLogger(io.Err, c.LogFormat, c.LogLevel)
	if err != nil {
		return err
	}
	l, err := listen(c.Addr)
	if err != nil {
		return err
	}
	defer l.Close()
	h := host.New()
	defer func() {
		for _, m := range h.List() {
			closeModel(m)
		}
	}()
	if err := c.load(h, log); err != nil {
		return err
	}
	spareProcessors()
	s := serve.New(h, serve.Config{
		Addr: l.Addr().String(), Origins: c.Origins, Hosts: c.Hosts, BodyLimit: c.BodyLimitMB << 20, DrainTimeout: max(c.DrainTimeout, time.Millisecond),
		StrictOpenAI: c.StrictOpenAI, NoPage: c.NoPage, Version: Version, Log: log,
	})
	banner(io.Out, h, l.Addr(), s.Paths())
	err = s.Serve(io.Ctx, l)
	if io.Ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		fmt.Fprintln(io.Out, "stopped")
		return nil
	}
	return err
}

// load fills h with the models that are named, else with the one inside the program, if it has one.
func (c *ServeCmd) load(h *host.Host, log *slog.Logger) error {
	if len(c.Model) == 0 {
		m, err := host.LoadEmbedded(c.options(log))
		if fault.Of(err) == fault.NoModel {
			return nil
		}
		if err != nil {
			return err
		}
		return h.Add(m)
	}
	for _, spec := range c.Model {
		name, path := splitModel(spec)
		m, err := host.Load(name, path, c.options(log))
		if err != nil {
			return err
		}
		if err := h.Add(m); err != nil {
			closeModel(m)
			return err
		}
	}
	return nil
}

// spareProcessors lets Go run two more threads at a time than there are processors, unless GOMAXPROCS says how many: the compute workers of a model never give
// way of themselves, so without spare ones a request would wait for Go to interrupt a worker, some 10 ms, where the system's scheduler shares the
// processor at once. It comes after the models were loaded, which take as many workers as there are processors.
func spareProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2)
	}
}

// listen takes an address. One without a port is refused: of "" the system would take any port on all interfaces, and an empty variable of the
// environment must not open a server to the network.
func listen(addr string) (net.Listener, error) {
	if _, port, err := net.SplitHostPort(addr); addr == "" || err == nil && port == "" {
		return nil, fault.New(fault.Invalid, "addr", "--addr must be HOST:PORT, as in 127.0.0.1:8000, is %q", addr)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, listenError(addr, err)
	}
	return l, nil
}

// listenError says what to do about an address that is taken; the system's own words say what is wrong with any other.
func listenError(addr string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("cannot listen on %s: another server is there; --addr 127.0.0.1:0 takes a free port", addr)
	}
	return fmt.Errorf("cannot listen on %q, which should be HOST:PORT of this machine: %w", addr, err)
}

func (c *ServeCmd) validate() error {
	if err := c.EngineFlags.validate(); err != nil {
		return err
	}
	if c.BodyLimitMB < 1 || c.BodyLimitMB > 1<<20 {
		return fault.New(fault.Invalid, "body-limit-mb", "--body-limit-mb must be 1 to %d, not %d", 1<<20, c.BodyLimitMB)
	}
	if c.DrainTimeout < 0 {
		return fault.New(fault.Invalid, "drain-timeout", "--drain-timeout must be 0 or more, not %v", c.DrainTimeout)
	}
	return nil
}

// splitModel reads NAME=FILE, or a file alone, whose name then is its base name. A path that exists is a path, whatever signs it holds.
func splitModel(spec string) (name, path string) {
	if _, err := os.Stat(spec); err == nil {
		return nameOf(spec), spec
	}
	n, p, ok := strings.Cut(spec, "=")
	if !ok || n == "" || p == "" { // the error of opening then names all that was given
		return nameOf(spec), spec
	}
	if _, err := os.Stat(p); err == nil || !strings.ContainsAny(n, `/\`) { // names like org/model are in use
		return n, p
	}
	return nameOf(spec), spec
}

// banner says what is served, every URL where it can be reached, and the paths there.
func banner(w io.Writer, h *host.Host, a net.Addr, paths []string) {
	fmt.Fprintf(w, "TinyLoop %s\n", Version)
	for i, m := range h.List() {
		in := m.Info()
		name := m.Name
		if i == 0 && name != "tl" {
			name += " (also tl)"
		}
		fmt.Fprintf(w, "  model  %s: %s %s, %s parameters (%s unrolled), loops %d (trained %d-%d, most %d), window %d\n", name, in.Family, in.Quant,
			countText(in.Params), countText(in.UnrolledParams), in.Loops.Default, in.Loops.TrainedMin, in.Loops.TrainedMax, in.Loops.HardMax, in.Context)
		fmt.Fprintf(w, "         memory: weights %s, KV cache %s (%s), %s a token\n", host.SizeText(in.Bytes), in.KVType, host.SizeText(in.KVBytesPerToken*int64(in.Context)), host.SizeText(in.KVBytesPerToken))
	}
	if len(h.List()) == 0 {
		fmt.Fprintln(w, "  model  none: answers will be 503; start with --model FILE or TINYLOOP_MODEL_PATH=FILE")
	}
	for _, u := range urls(a) {
		fmt.Fprintf(w, "  url    %s\n", u)
	}
	head := "  apis  "
	for line := range folded(paths, bannerWidth) {
		fmt.Fprintln(w, head, line)
		head = "        "
	}
}

const bannerWidth = 90

// folded joins words by blanks to lines of at most so many bytes, unless a word is longer.
func folded(words []string, width int) iter.Seq[string] {
	return func(yield func(string) bool) {
		line := ""
		for _, w := range words {
			if line != "" && len(line)+1+len(w) > width {
				if !yield(line) {
					return
				}
				line = ""
			}
			if line != "" {
				line += " "
			}
			line += w
		}
		if line != "" {
			yield(line)
		}
	}
}

// urls lists the addresses under which a listener can be reached: for an unspecified host, every address of the machine.
func urls(a net.Addr) []string {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return []string{a.String()}
	}
	if !t.IP.IsUnspecified() {
		return []string{fmt.Sprintf("http://%s", t)}
	}
	var out []string
	addrs, _ := net.InterfaceAddrs()
	for _, i := range addrs {
		if n, ok := i.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
			out = append(out, "http://"+net.JoinHostPort(n.IP.String(), fmt.Sprint(t.Port)))
		}
	}
	return out
}

// closeModel ends a model's engine within a bound: a command that is done must not hang on its way out.
func closeModel(m *host.Model) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	m.Close(ctx)
}
