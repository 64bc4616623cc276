package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// runData runs one `tinyloop data` command line in process, in the current folder.
func runData(t *testing.T, line string) (stdout, stderr string, err error) {
	t.Helper()
	var root struct {
		Data DataCmd `cmd:""`
	}
	var out, errs bytes.Buffer
	k, err := kong.New(&root, kong.Writers(&out, &errs), kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := k.Parse(strings.Fields("data " + line))
	if err == nil {
		err = ctx.Run(&IO{In: strings.NewReader(""), Out: &out, Err: &errs, Ctx: context.Background()})
	}
	return out.String(), errs.String(), err
}

// TestData drives the commands as a person would: lines that begin with ! must fail, and their error must match.
func TestData(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"broken.jsonl": "{\"text\":\"fine\"}\n{\"text\":\n", "notes.txt": "A note of one line.\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ line, out, errs string }{
		{"gen --docs 300 --seed 7 -o a.jsonl", "", `(?m)^chain +\d+ documents`},
		{"gen --docs 300 --seed 7 --threads 1 -o b.jsonl", "", ""},
		{"gen --docs 300 --seed 8 -o c.jsonl", "", ""},
		{"gen --docs 5 --mix chain=1 --lang fr --form text -o -", `^(\{.*"family":"chain".*"lang":"fr".*\}\n){5}$`, ""},
		{"gen --bytes 2k --split test -o -", `"split":"test"`, ""},
		{"gen --set acceptance -o acceptance.jsonl", "", ""},
		{"! gen --set fresh --docs 5 -o acceptance.jsonl", "", "--set fresh is always the same documents: --docs does not apply"},
		{"! gen -o x.jsonl", "", "no size: give a number of documents or of bytes"},
		{"! gen --bytes 3x -o x.jsonl", "", `--bytes is "3x"`},
		{"! gen --docs=-1 -o x.jsonl", "", `--docs must be 1 or more, not -1`},
		{"! gen --docs 1 --mix chess=1 -o x.jsonl", "", `there is no family "chess"`},
		{"! gen --set exam -o x.jsonl", "", `there is no set "exam"`},
		{"! gen --docs 1 --split all -o x.jsonl", "", `--split must be one of`},
		{"stats a.jsonl a.jsonl", `^600 documents, [3-9]\d\d duplicates`, ""},
		{"! stats broken.jsonl", "", `broken.jsonl:2: broken JSON`},
		{"prepare a.jsonl b.jsonl notes.txt --tokenizer gpt2 -o out", `(?s)^read   601 documents.*\ntrain .*\n  chain/1 `, ""},
		{"stats out --verify --context 128", `(?m)^train  rows of 128: \d+, 9\d\.\d % filled`, ""},
		{"! prepare notes.txt --tokenizer gpt2 -o out", "", `holds a prepared corpus already`},
		{"prepare notes.txt --tokenizer gpt2 -o out --force --valid 0", `(?m)^train +1 documents`, ""},
		{"! prepare notes.txt --tokenizer nowhere.gguf -o out2", "", `nowhere.gguf`},
		{"! prepare notes.txt --tokenizer gpt2 -o out4 --valid NaN", "", `--valid NaN and --test 0 percent`},
		{"! prepare broken.jsonl --tokenizer gpt2 -o out3", "", `broken.jsonl:2: broken JSON at column 8`},
	} {
		line, fails := strings.CutPrefix(c.line, "! ")
		out, errs, err := runData(t, line)
		if (err != nil) != fails {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		if err != nil {
			errs += err.Error()
		}
		if !regexp.MustCompile(c.out).MatchString(out) || !regexp.MustCompile(c.errs).MatchString(errs) {
			t.Errorf("%s: printed %q and %q, want %s and %s", c.line, out, errs, c.out, c.errs)
		}
	}
	a, b, other := read(t, "a.jsonl"), read(t, "b.jsonl"), read(t, "c.jsonl")
	if a != b || a == other {
		t.Error("the seed alone must decide the bytes")
	}
	if !strings.Contains(read(t, "acceptance.jsonl"), `"Qui est Passepartout ?"`) {
		t.Error("the acceptance set lacks its first question")
	}
	if left, _ := filepath.Glob("*x.jsonl*"); len(left) != 0 {
		t.Errorf("a failed command left %v", left)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
