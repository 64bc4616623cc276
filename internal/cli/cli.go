// Package cli holds the subcommands: one struct each, whose fields are its flags, environment variables and configuration keys at once.
package cli

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
)

// Version is the release this tree builds.
const Version = "0.1.0"

type root struct {
	Config  kong.ConfigFlag  `help:"Read settings from this TOML file (also TINYLOOP_CONFIG)." type:"existingfile" placeholder:"FILE"`
	Version kong.VersionFlag `help:"Print the version and stop."`

	Serve     ServeCmd     `cmd:"" help:"Serve models over HTTP: OpenAI, MiniLab and native APIs."`
	Generate  GenerateCmd  `cmd:"" help:"Print the continuation of a prompt."`
	Chat      ChatCmd      `cmd:"" help:"Chat with a model in the terminal."`
	Smoke     SmokeCmd     `cmd:"" help:"Drive every endpoint in process and say whether all is well."`
	Inspect   InspectCmd   `cmd:"" help:"Print what a model file is: architecture, tensors, memory, tokenizer, template."`
	Convert   ConvertCmd   `cmd:"" help:"Convert a model file to .tinyloop or .gguf, in another number format if asked."`
	Export    ExportCmd    `cmd:"" help:"Write a model for PyTorch or as GGUF."`
	Import    ImportCmd    `cmd:"" help:"Take a model back that export wrote, with the weights it has now."`
	Bench     BenchGroup   `cmd:"" help:"Measure a model's speed and memory, and the machine's limits beside them."`
	Sweep     SweepCmd     `cmd:"" help:"Show what each number of loops is worth on a text: loss, agreement, time."`
	Ways      WaysCmd      `cmd:"" help:"Show what leaving early, fewer loops and shared keys and values cost in right answers."`
	Calibrate CalibrateCmd `cmd:"" help:"Measure how often each depth agrees with the full one and what early exits are worth, and write it into the file."`
	Eval      EvalCmd      `cmd:"" help:"Measure how good a model is: exact answers, bits per byte, loss, at each number of loops."`
	Data      DataCmd      `cmd:"" help:"Make and prepare training text."`
	Tokenizer TokenizerCmd `cmd:"" help:"Train and use tokenizers."`
	Train     TrainCmd     `cmd:"" help:"Pretrain a model by a recipe."`
	SFT       SFTCmd       `cmd:"" name:"sft" help:"Fine-tune a model on conversations."`
	Runs      RunsCmd      `cmd:"" help:"List, show and repeat training runs."`
	Synth     SynthCmd     `cmd:"" help:"Write a model of random weights in a given shape."`
}

// exit carries kong's wish to end the process (after --help or --version) up to Main.
type exit int

// Main runs one command line and gives the process's exit status: 0 done, 1 the command failed, 2 the command line is wrong. args
// are without the program's name.
func Main(args []string, io *IO) (status int) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case exit:
			status = int(e)
		default:
			panic(e)
		}
	}()
	if set := os.Getenv("TINYLOOP_ISA"); set != "" && !slices.Contains(kernel.ISANames(), set) {
		return complain(io, 2, fault.New(fault.Invalid, "TINYLOOP_ISA", "TINYLOOP_ISA must be one of %s, is %q", strings.Join(kernel.ISANames(), ", "), set))
	}
	if ctx := parseOne(args, io); ctx != nil {
		return run(ctx, io)
	}
	parser, err := newParser(&root{}, io)
	if err != nil {
		return complain(io, 2, err)
	}
	if len(args) == 0 || args[0] == "help" {
		args = append(slices.Clone(args[min(1, len(args)):]), "--help")
	}
	ctx, err := parser.Parse(args)
	if err != nil {
		code := complain(io, 2, err)
		var pe *kong.ParseError
		if errors.As(err, &pe) {
			fmt.Fprintf(io.Err, "tinyloop: try: tinyloop %s--help\n", commandOf(pe.Context))
		}
		return code
	}
	return run(ctx, io)
}

func run(ctx *kong.Context, io *IO) (status int) {
	if err := ctx.Run(io); err != nil {
		return complain(io, 1, err)
	}
	return 0
}

// parseOne reads a command line with the flags of its command alone, since the table of all commands takes longer to build than a small model to load. It gives nil where that table
// is needed: for help, for the keys of a configuration file, and to say what is wrong.
func parseOne(args []string, io *IO) *kong.Context {
	if len(args) == 0 || os.Getenv("TINYLOOP_CONFIG") != "" {
		return nil
	}
	for _, a := range args {
		if strings.HasPrefix(a, "--config") || a == "-h" || strings.HasPrefix(a, "--help") {
			return nil
		}
	}
	grammar := commandAlone(args[0])
	if grammar == nil {
		return nil
	}
	parser, err := newParser(grammar, io)
	if err != nil {
		return nil
	}
	ctx, err := parser.Parse(args)
	if err != nil {
		return nil
	}
	return ctx
}

// commandAlone gives a pointer to a root with one command only, nil for a name that is none.
func commandAlone(name string) any {
	all := reflect.TypeFor[root]()
	var fields []reflect.StructField
	found := false
	for i := range all.NumField() {
		f := all.Field(i)
		_, command := f.Tag.Lookup("cmd")
		if command && strings.ToLower(f.Name) != name {
			continue
		}
		found = found || command
		fields = append(fields, f)
	}
	if !found {
		return nil
	}
	return reflect.New(reflect.StructOf(fields)).Interface()
}

func newParser(grammar any, io *IO) (*kong.Kong, error) {
	options := []kong.Option{
		kong.Name("tinyloop"),
		kong.Description("TinyLoop loads and serves small looped language models on ordinary CPUs."),
		kong.Vars{"version": "tinyloop " + Version},
		kong.Writers(io.Out, io.Err),
		kong.Exit(func(code int) { panic(exit(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Configuration(loadTOML),
		kong.NamedMapper("place", place{}),
	}
	if path := os.Getenv("TINYLOOP_CONFIG"); path != "" {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("TINYLOOP_CONFIG: %w", err)
		}
		options = append(options, kong.Configuration(loadTOML, path))
	}
	return kong.New(grammar, options...)
}

// commandOf gives the command as it was typed, ending in a blank.
func commandOf(ctx *kong.Context) string {
	if ctx == nil || ctx.Selected() == nil {
		return ""
	}
	return strings.Join(commandPath(ctx.Selected()), " ") + " "
}

// complain prints an error as one line, of signs that a terminal takes for text: messages quote files from anywhere. What is internal is for the
// developer who sees it in a terminal, so it is not hidden here.
func complain(io *IO, code int, err error) int {
	var f *fault.Error
	if errors.As(err, &f) && f.Field != "" {
		fmt.Fprintf(io.Err, "tinyloop: %s (%s)\n", printable(err.Error()), printable(f.Field))
		return code
	}
	fmt.Fprintf(io.Err, "tinyloop: %s\n", printable(err.Error()))
	return code
}
