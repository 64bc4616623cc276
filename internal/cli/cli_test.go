package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tinyloop": func() {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		os.Exit(Main(os.Args[1:], &IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Ctx: ctx}))
	}})
}

// TestScripts runs the command line as a person would; a script that needs the data beside the checkout says so with [!shared] skip, and finds
// it under $SHARED.
func TestScripts(t *testing.T) {
	shared, err := filepath.Abs(filepath.Join("..", "..", "..", "shared", "data"))
	if err != nil {
		t.Fatal(err)
	}
	_, missing := os.Stat(shared)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("SHARED", shared)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"damage": damage},
		Condition: func(cond string) (bool, error) {
			return cond == "shared" && missing == nil, nil
		},
	})
}

// damage flips one bit near the end of a file.
func damage(ts *testscript.TestScript, neg bool, args []string) {
	path := ts.MkAbs(args[0])
	b, err := os.ReadFile(path)
	ts.Check(err)
	at := len(b) - 100
	if len(args) > 1 {
		at = bytes.Index(b, []byte(args[1])) + 80
	}
	b[at] ^= 0x55
	ts.Check(os.WriteFile(path, b, 0o600))
}

// TestCommandAlone: every command that the table has is found by its name, and alone it takes the flags that it takes in the table.
func TestCommandAlone(t *testing.T) {
	whole, err := newParser(&root{}, &IO{Out: io.Discard, Err: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range whole.Model.Children {
		grammar := commandAlone(n.Name)
		if grammar == nil {
			t.Errorf("%s is not found", n.Name)
			continue
		}
		alone, err := newParser(grammar, &IO{Out: io.Discard, Err: io.Discard})
		if err != nil {
			t.Fatal(n.Name, err)
		}
		if len(alone.Model.Children) != 1 || alone.Model.Children[0].Name != n.Name || len(alone.Model.Children[0].Flags) != len(n.Flags) ||
			len(alone.Model.Children[0].Children) != len(n.Children) || len(alone.Model.Flags) != len(whole.Model.Flags) {
			t.Errorf("%s alone is another command", n.Name)
		}
	}
	if commandAlone("config") != nil || commandAlone("nothing") != nil {
		t.Error("a command that is none")
	}
}
