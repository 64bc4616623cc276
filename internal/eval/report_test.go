package eval

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tinyloop/internal/data"
	"tinyloop/internal/fault"
	"tinyloop/internal/scripted"
)

var update = flag.Bool("update", false, "write the golden reports instead of comparing with them")

// examined is a report of everything there is but times.
func examined(t *testing.T, parallel int) *Report {
	t.Helper()
	sets := []*Set{chains(), refusalSet(), {Name: "text", Raw: strings.Repeat("Ann is at the bridge. ", 20)}}
	clock := &data.Doc{Labels: &data.Labels{Family: "tools", Difficulty: 1, Lang: "en"}, Messages: []data.Message{{Role: "user", Content: "What time is it?"},
		{Role: "assistant", ToolCalls: []data.ToolCall{{Function: data.FunctionCall{Name: "clock", Arguments: "{}"}}}}}}
	sets[0].Docs = append(sets[0].Docs, clock)
	tk := vocabulary(t, sets[0].Docs)
	s := session(t, Options{Loops: []int{1, 2, 8}, NoCost: true, Limit: 6, Docs: 2, Seed: 7, Choices: 3, Samples: 1, Parallel: parallel}, sets...)
	r := measure(t, s, knows(t, tk, s, 2, func(q *question, i int) string {
		switch {
		case q.group.Family == "arith" && i%2 == 0:
			return "20"
		case q.doc.IsChat() && q.answer != call:
			return q.text()
		}
		return q.want()
	}))
	other := subject(t, "other", tk, scripted.New(scripted.Options{Vocab: tk.Size()}))
	other.Role = Against
	measure(t, s, other)
	r.Check(DefaultThresholds())
	return r
}

func golden(t *testing.T, name string, write func(io.Writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%s has changed; look at the difference and run with -update\n%s", name, b.Bytes())
	}
	return b.Bytes()
}

// TestGolden holds the literal reports, and that they do not depend on how many questions run at a time.
func TestGolden(t *testing.T) {
	r := examined(t, 16)
	js := golden(t, "report.json", r.JSON)
	golden(t, "report.md", r.Markdown)
	svg := golden(t, "report.svg", r.SVG)
	var again bytes.Buffer
	if err := examined(t, 1).JSON(&again); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again.Bytes(), js) {
		t.Error("one question at a time gives another report")
	}
	var back Report
	if err := json.Unmarshal(js, &back); err != nil {
		t.Error(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestEmptyReport(t *testing.T) {
	var r Report
	for _, write := range []func(io.Writer) error{r.JSON, r.Markdown, r.SVG} {
		if err := write(io.Discard); err != nil {
			t.Error(err)
		}
	}
	if r.Check(DefaultThresholds()) != nil {
		t.Error("gates without a model")
	}
}

func TestMarkdownEscapes(t *testing.T) {
	var b bytes.Buffer
	table(&b, [][]string{{"a"}, {"x|y\nz"}})
	if !strings.Contains(b.String(), `| x\|y z |`) {
		t.Errorf("%s", b.String())
	}
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	file := func(name, s string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(s), 0o666); err != nil {
			t.Fatal(err)
		}
		return p
	}
	read := func(p string) error { _, err := ReadDocs(t.Context(), p); return err }
	text := func(p string) error { _, err := ReadText(p); return err }
	user := file("user.jsonl", `{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Ho"}],"labels":{"family":"f","answers":[{"message":0,"start":0,"end":2}]}}`)
	set, err := ReadDocs(t.Context(), user)
	if err != nil {
		t.Fatal(err)
	}
	_, asked := NewSession([]*Set{set}, Options{})
	_, twice := NewSession([]*Set{{Name: "a"}, {Name: "a"}}, Options{})
	_, split := ReadPrepared(t.Context(), dir, "half", vocabulary(t, nil))
	_, empty := ReadPrepared(t.Context(), dir, "valid", vocabulary(t, nil))
	for name, c := range map[string]struct {
		err  error
		says string
	}{
		"no file":        {read(filepath.Join(dir, "none")), "no such file"},
		"broken line":    {read(file("broken.jsonl", "{\"text\":\n")), "broken.jsonl:1"},
		"answer outside": {read(file("outside.jsonl", `{"text":"a","labels":{"family":"f","answers":[{"start":0,"end":9}]}}`)), "bytes 0 to 9 of a text of 1"},
		"empty file":     {read(file("empty.jsonl", "")), "no documents"},
		"user's answer":  {asked, `labels.answers[0] stands in a message of role "user"`},
		"names":          {twice, `"a"`},
		"no text":        {text(filepath.Join(dir, "none")), "no such file"},
		"binary":         {text(file("b", "\xff\xfe")), "no UTF-8"},
		"empty text":     {text(file("e", "")), "0 bytes"},
		"split":          {split, `"half"`},
		"not prepared":   {empty, "no prepared corpus"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.says) || fault.Of(c.err) != fault.Invalid {
			t.Errorf("%s: %v (kind %v), want it to say %q", name, c.err, fault.Of(c.err), c.says)
		}
	}
}

func TestTinyWorld(t *testing.T) {
	sets, err := TinyWorld(5)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"valid", "test", "acceptance", "refusals"}
	for i, s := range sets {
		if s.Name != want[i] || len(s.Docs) == 0 || s.Whole != (i > 1) {
			t.Errorf("set %d is %s with %d documents", i, s.Name, len(s.Docs))
		}
	}
	s, err := NewSession(sets, Options{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if in := s.Report().Inputs[3]; in.Questions != 200 {
		t.Errorf("%d refusals are asked, want all 200", in.Questions)
	}
}
