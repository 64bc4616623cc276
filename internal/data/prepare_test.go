package data

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tinyloop/internal/fault"
)

const corpus = `{"text":"one"}
{"text":"two"}
{"text":" one "}
{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}],"labels":{"family":"chain","difficulty":3,"split":"test"}}
{"text":"held","labels":{"family":"chain","difficulty":3,"split":"valid"}}
`

func prepare(t *testing.T, change func(*PrepareOptions)) (*Manifest, string, error) {
	t.Helper()
	return prepareText(t, corpus, change)
}

func prepareText(t *testing.T, text string, change func(*PrepareOptions)) (*Manifest, string, error) {
	t.Helper()
	dir := t.TempDir()
	in := filepath.Join(dir, "in.jsonl")
	if err := os.WriteFile(in, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	o := PrepareOptions{Inputs: []string{in}, Out: filepath.Join(dir, "out"), Coder: newCoder()}
	if change != nil {
		change(&o)
	}
	m, err := Prepare(context.Background(), o)
	return m, o.Out, err
}

func TestPrepare(t *testing.T) {
	m, dir, err := prepare(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.Doubles != 1 || m.Read.Docs != 5 || m.Splits[Train].Docs != 2 || m.Splits[Valid].Docs != 1 || m.Splits[Test].Docs != 1 {
		t.Errorf("%+v", m)
	}
	if g := m.Groups["chain/3"]; g[Test].Docs != 1 || g[Test].Learned != 2 || g[Valid].Docs != 1 {
		t.Errorf("groups %+v", m.Groups)
	}
	back, err := ReadManifest(dir)
	if err != nil || back.Splits[Train].Shards[0].SHA256 != m.Splits[Train].Shards[0].SHA256 {
		t.Errorf("%+v, %v", back, err)
	}
	for sp := range Split(splits) {
		shards, err := OpenSplit(dir, sp, byteTok{}.Hash())
		if err != nil || len(shards) != 1 {
			t.Fatalf("%s: %d shards, %v", sp, len(shards), err)
		}
		if err := shards[0].Verify(); err != nil {
			t.Error(err)
		}
		shards[0].Close()
	}
	if _, err := OpenSplit(dir, Train, [32]byte{}); err == nil || !strings.Contains(err.Error(), "another tokenizer") {
		t.Errorf("another tokenizer: %v", err)
	}
}

func TestPrepareIsRepeatable(t *testing.T) {
	one := func(p *PrepareOptions) { p.ShardTokens = 1 }
	a, dir, err := prepare(t, one)
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := prepare(t, one)
	if err != nil {
		t.Fatal(err)
	}
	for i := range a.Splits {
		for j := range a.Splits[i].Shards {
			if a.Splits[i].Shards[j] != b.Splits[i].Shards[j] {
				t.Errorf("%+v and %+v", a.Splits[i].Shards[j], b.Splits[i].Shards[j])
			}
		}
	}
	if n := len(a.Splits[Train].Shards); n != 2 {
		t.Errorf("%d shards of one token each", n)
	}
	again := func(p *PrepareOptions) { p.Out = dir }
	if _, _, err := prepare(t, again); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("over a corpus that is there: %v", err)
	}
	if _, _, err := prepare(t, func(p *PrepareOptions) { p.Out, p.Force = dir, true }); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(left) != 4 {
		t.Errorf("after a smaller corpus took its place: %v", left)
	}
}

func TestPrepareFaults(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*PrepareOptions)
		want   string
	}{
		"no input":      {func(p *PrepareOptions) { p.Inputs = nil }, "no input"},
		"no folder":     {func(p *PrepareOptions) { p.Out = "" }, "no folder"},
		"shares":        {func(p *PrepareOptions) { p.Shares = Shares{9000, 1000} }, "9000 and 1000 of 10,000"},
		"missing input": {func(p *PrepareOptions) { p.Inputs = []string{"nowhere.txt"} }, "nowhere.txt"},
	} {
		_, dir, err := prepare(t, c.change)
		if err == nil || !strings.Contains(err.Error(), c.want) || fault.Of(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
		if dir != "" {
			if _, err := os.Stat(filepath.Join(dir, ManifestName)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: a manifest was left", name)
			}
		}
	}
	held := `{"text":"a","labels":{"family":"f","split":"test"}}`
	if _, _, err := prepareText(t, held, nil); err == nil || !strings.Contains(err.Error(), "no document for training: 1 read, 0 duplicates, 0 for validation, 1 for test") {
		t.Errorf("nothing to train on: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	in := filepath.Join(t.TempDir(), "a.txt")
	os.WriteFile(in, []byte("a"), 0o644)
	if _, err := Prepare(ctx, PrepareOptions{Inputs: []string{in}, Out: t.TempDir(), Coder: newCoder()}); fault.Of(err) != fault.Canceled {
		t.Errorf("canceled: %v", err)
	}
}

func TestManifestNamesOnlyItsFolder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"../x.tlbin", "/etc/x.tlbin", "", "x.txt"} {
		b := `{"format":1,"splits":[{"shards":[{"file":"` + name + `"}]}]}`
		os.WriteFile(filepath.Join(dir, ManifestName), []byte(b), 0o644)
		if _, err := ReadManifest(dir); err == nil {
			t.Errorf("a shard called %q was accepted", name)
		}
	}
}
