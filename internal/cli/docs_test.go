package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tinyloop/internal/train"
)

// commandLine finds a command of ours where documents and recipes show one: a line of its own, perhaps with a comment behind it.
var commandLine = regexp.MustCompile(`(?m)^(?:    |#   )(?:\./|go run \./cmd/)?tinyloop ((?:[^#\n]|#\S)+?) *(?:  #.*)?$`)

// words cuts a command line as a shell would; what a shell would fill in is a word.
func words(line string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`'[^']*'|(?:"[^"]*"|[^\s"'])+`).FindAllString(line, -1) {
		out = append(out, strings.NewReplacer(`"`, "", `'`, "").Replace(m))
	}
	return out
}

// TestDocumentedCommands: every command line that the documents show is one that the program takes.
func TestDocumentedCommands(t *testing.T) {
	const top = "../.."
	files := []string{filepath.Join(top, "README.md")}
	for _, pattern := range []string{"docs/*.md", "docs/api/*.md", "docs/format/*.md", "recipes/*.toml"} {
		found, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	lines := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range commandLine.FindAllSubmatch(text, -1) {
			line := strings.TrimSpace(strings.ReplaceAll(string(m[1]), "$MIX", "town=1;chain=2"))
			if strings.ContainsAny(line, "|…<>&\\") || strings.Contains(line, "[-") {
				continue // more than one command, or a form of many
			}
			lines++
			parser, err := newParser(&root{}, &IO{Out: new(bytes.Buffer), Err: new(bytes.Buffer), Ctx: context.Background()})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := parser.Parse(words(line)); err != nil {
				t.Errorf("%s: tinyloop %s: %v", filepath.Base(file), line, err)
			}
		}
	}
	if lines < 40 {
		t.Errorf("only %d command lines were found", lines)
	}
}

// TestRecipes: the recipes are whole, and the conversations beside them fit the window that they are made for.
func TestRecipes(t *testing.T) {
	recipes, err := filepath.Glob("../../recipes/*.toml")
	if err != nil || len(recipes) < 2 {
		t.Fatal(recipes, err)
	}
	for _, path := range recipes {
		if _, err := train.Load(train.Default(), path, nil); err != nil {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
	}
	chats, err := filepath.Abs("../../recipes/opticks.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	out, _, err := runData(t, "stats "+chats)
	if err != nil || !regexp.MustCompile(`121 documents`).MatchString(out) {
		t.Errorf("%v\n%s", err, out)
	}
}
