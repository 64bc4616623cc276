package data

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tinyloop/internal/fault"
	"tinyloop/internal/fixture"
)

func readString(t *testing.T, name, content string, lim Limits) ([]*Doc, error) {
	t.Helper()
	var docs []*Doc
	err := readStream(name, strings.NewReader(content), lim, func(d *Doc) error { docs = append(docs, d); return nil })
	return docs, err
}

func TestForms(t *testing.T) {
	const tools = `[{"type":"function","function":{"name":"add","parameters":{"type":"object"}}}]`
	for _, c := range []struct {
		name, in string
		want     []*Doc
	}{
		{"a.txt", "One.\nTwo.\n\nThree.\n", []*Doc{{Text: "One.\nTwo.\n\nThree.", Line: 1}}},
		{"a.txt", "\n\n  One\n<|endoftext|>\nTwo\n<|endoftext|>\n\n<|endoftext|>\n", []*Doc{{Text: "  One", Line: 3}, {Text: "Two", Line: 5}}},
		{"a.jsonl", `{"text":"é"}` + "\n\n" + `{"text":"b"}`, []*Doc{{Text: "é", Line: 1}, {Text: "b", Line: 3}}},
		{"anything", ` { "text" : "x" }`, []*Doc{{Text: "x", Line: 1}}},
		{"anything", "{curly prose", []*Doc{{Text: "{curly prose", Line: 1}}},
		{"l.jsonl", `{"text":"x","labels":["spam",1]}`, []*Doc{{Text: "x", Line: 1}}},
		{"l.jsonl", `{"text":"x","labels":{"family":"f","difficulty":2}}`, []*Doc{{Text: "x", Labels: &Labels{Family: "f", Difficulty: 2}, Line: 1}}},
		{"s.json", "[\n \"one\",\n\n {\"text\":\"two\"}]\n", []*Doc{{Text: "one", Line: 2}, {Text: "two", Line: 4}}},
		{"p.jsonl", `{"prompt":"a","completion":"b"}`, []*Doc{{Messages: []Message{{Role: "user", Content: "a"}, {Role: "assistant", Content: "b"}}, Line: 1}}},
		{"m.jsonl", `{"messages":[{"role":"developer","content":"s"},{"role":"user","content":[{"type":"text","text":"2+"},{"type":"text","text":"2"}]},` +
			`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"add","arguments":"{\"a\":2}"}}]},` +
			`{"role":"tool","tool_call_id":"c1","content":"4"},{"role":"assistant","content":"4."}],"tools":` + tools + `}`,
			[]*Doc{{Line: 1, Tools: []byte(tools), Messages: []Message{{Role: "system", Content: "s"}, {Role: "user", Content: "2+2"},
				{Role: "assistant", ToolCalls: []ToolCall{{ID: "c1", Type: "function", Function: FunctionCall{Name: "add", Arguments: `{"a":2}`}}}},
				{Role: "tool", ToolCallID: "c1", Content: "4"}, {Role: "assistant", Content: "4."}}}}},
	} {
		for variant, in := range map[string]string{"LF": c.in, "CRLF": strings.ReplaceAll(c.in, "\n", "\r\n"), "BOM": "\xef\xbb\xbf" + c.in} {
			got, err := readString(t, c.name, in, Limits{})
			if err != nil {
				t.Errorf("%s %q: %v", variant, c.in, err)
				continue
			}
			for _, d := range got {
				d.File = ""
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s %q (-want +got):\n%s", variant, c.in, diff)
			}
		}
	}
}

func TestFaults(t *testing.T) {
	msg := func(s string) string { return `{"messages":[` + s + `]}` }
	for _, c := range []struct {
		name, in, want string
		line           int
	}{
		{"a.txt", "ok\nbad \xff here\n", "a.txt:2: invalid UTF-8: byte 0xff at column 5", 0},
		{"a.txt", strings.Repeat("x", 33), "a.txt:1: the line is longer than the limit of 32 bytes", 32},
		{"a.txt", "\xff\xfea\x00", "a.txt:1: the file is UTF-16", 0},
		{"a.bin", "a\nb\x00c", "a.bin:2: a zero byte", 0},
		{"a.jsonl", "{\"text\":\"a\"}\n{\"text\":", "a.jsonl:2: broken JSON at column 8", 0},
		{"a.jsonl", `{"text":"a","prompt":"b"}`, "more than one of text, messages and prompt/completion", 0},
		{"a.jsonl", `{"texte":"a"}`, "none of the fields text, messages, prompt and completion is present", 0},
		{"a.jsonl", `{"text":"  "}`, "text is empty", 0},
		{"a.jsonl", `{"text":5}`, "field text is a JSON number", 0},
		{"a.jsonl", `["x"]`, `expected a JSON object, found "[\"x\"]"`, 0},
		{"a.jsonl", `{"text":"\ud83d alone"}`, `half of a surrogate pair (\ud83d) at column 10`, 0},
		{"a.jsonl", `{"prompt":"a"}`, "prompt and completion belong together", 0},
		{"a.jsonl", `{"prompt":"a","completion":""}`, "completion is empty", 0},
		{"a.jsonl", `{"messages":[]}`, "messages is empty", 0},
		{"a.jsonl", msg(`{"role":"user","content":"a"}`), "no assistant turn", 0},
		{"a.jsonl", msg(`{"role":"robot","content":"a"}`), `messages[0]: role is "robot"`, 0},
		{"a.jsonl", msg(`{"content":"a"}`), `messages[0]: role is missing`, 0},
		{"a.jsonl", msg(`{"role":"user","content":{"a":1}}`), `messages[0]: content is "{\"a\":1}"`, 0},
		{"a.jsonl", msg(`{"role":"user","content":[{"type":"image_url"}]}`), `messages[0]: content[0] is of type "image_url"`, 0},
		{"a.jsonl", msg(`{"role":"user","content":"a"},{"role":"assistant"}`), "messages[1]: the assistant's turn has neither", 0},
		{"a.jsonl", msg(`{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"5"}}]}`), `arguments is "5"`, 0},
		{"a.jsonl", msg(`{"role":"user","content":"a"},{"role":"tool","tool_call_id":"z","content":"a"}`), `tool_call_id "z" answers no earlier`, 0},
		{"a.jsonl", msg(`{"role":"tool","content":"a"}`), "cannot begin with a tool's answer", 0},
		{"a.jsonl", `{"text":"abc","labels":{"family":"f","answers":[{"start":2,"end":9}]}}`, "labels.answers[0] marks bytes 2 to 9 of a text of 3", 0},
		{"a.jsonl", `{"text":"abc","labels":{"family":"f","learn":"all"}}`, "labels.learn is \"all\", expected \"answers\" or nothing", 0},
		{"a.jsonl", `{"text":"abc","labels":{"family":"f","split":"holdout"}}`, `labels.split is "holdout"`, 0},
		{"a.json", "[\n\"a\",\n\"b\"\n", "a.json:4: the array ends too early", 0},
		{"a.json", "[\n\"a\",\n5]", "a.json:3: expected a JSON object", 0},
		{"a.json", "[\n\"a\",\n\"b\" \"c\"]", "a.json:3: broken JSON", 0},
		{"a.json", "[\"a\"]\n[", "something follows the end of the array", 0},
		{"a.json", "[\n\"\xff\"]", "a.json:2: invalid UTF-8: byte 0xff", 0},
		{"a.json", "[\"" + strings.Repeat("x", 200<<10) + "\"]", "longer than the limit of 1000 bytes", 1000},
	} {
		_, err := readString(t, c.name, c.in, Limits{Line: c.line})
		if err == nil || !strings.Contains(err.Error(), c.want) || fault.Of(err) != fault.Invalid {
			t.Errorf("%s %.60q: error %v, want %s", c.name, c.in, err, c.want)
		}
		if err != nil && !strings.HasPrefix(err.Error(), c.name+":") {
			t.Errorf("error %q names no line", err)
		}
	}
}

// Text put in one place must not move documents elsewhere between the splits.
func TestCutsAreLocal(t *testing.T) {
	var a strings.Builder
	for i := range 400 {
		fmt.Fprintf(&a, "Paragraph %d says %x and nothing more than %s.\n\n", i, i*i*2654435761, strings.Repeat("that ", i%40))
	}
	before, err := readString(t, "a.txt", a.String(), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	after, err := readString(t, "a.txt", "A new beginning of the file.\n\n"+a.String()+"And an end.\n", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	had := map[[32]byte]bool{}
	for _, d := range before {
		had[d.Hash()] = true
		if len(d.Text) > maxPiece+1024 {
			t.Errorf("a piece of %d bytes", len(d.Text))
		}
	}
	kept := 0
	for _, d := range after {
		if had[d.Hash()] {
			kept++
		}
	}
	if len(before) < 8 || kept < len(before)-2 {
		t.Errorf("%d pieces, %d of them the same after text was added at both ends", len(before), kept)
	}
}

func TestNothingIsLost(t *testing.T) {
	in := fixture.Read(t, "corpora", "verne_tour_du_monde_80_jours.fr.txt")
	docs, err := readString(t, "v.txt", string(in), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	var all []string
	for _, d := range docs {
		all = append(all, d.Text)
	}
	if squeeze(strings.Join(all, "\n\n")) != squeeze(strings.TrimPrefix(string(in), "\ufeff")) {
		t.Error("the pieces together are not the text")
	}
	if len(docs) < 50 || len(docs) > 500 {
		t.Errorf("%d documents from %d bytes", len(docs), len(in))
	}
}

func TestCorpora(t *testing.T) {
	dir := fixture.Path(t, "corpora")
	stories := 0
	c, err := Read([]string{dir}, Limits{}, func(d *Doc) error {
		if strings.Contains(d.File, "tinystories") {
			stories++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Files != 4 || stories != 1000 || c.Skipped != 0 {
		t.Errorf("%+v, %d stories", c, stories)
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	for name, s := range map[string]string{"b/2.txt": "two", "a.txt": "one", ".hidden/x.txt": "no", "c.png": "\x89", "d.jsonl": "", ".e.txt": "no", "out/data.json": "{}", "out/n.txt": "no"} {
		p := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(p), 0o755)
		if err := os.WriteFile(p, []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	c, err := Read([]string{dir}, Limits{}, func(d *Doc) error { got = append(got, d.Text); return nil })
	if err != nil || strings.Join(got, " ") != "one two" || c.Files != 3 || c.Skipped != 3 {
		t.Errorf("%v, %+v, %v", got, c, err)
	}
	if _, err := Read([]string{filepath.Join(dir, "nope")}, Limits{}, nil); err == nil || fault.Of(err) != fault.Invalid {
		t.Errorf("a file that is not there: %v", err)
	}
	stop := errors.New("enough")
	if _, err := Read([]string{dir}, Limits{}, func(*Doc) error { return stop }); err != stop {
		t.Errorf("the error of yield became %v", err)
	}
}

func TestHash(t *testing.T) {
	h := func(s string) [32]byte { return (&Doc{Text: s}).Hash() }
	if h("a b\nc") != h("\na b  \r\nc\n\n") {
		t.Error("blanks at line ends and line endings count")
	}
	if h("a b") == h("a  b") || h("ab") == h("a b") {
		t.Error("blanks within a line must count")
	}
	x := &Doc{Messages: []Message{{Role: "user", Content: "ab"}, {Role: "assistant", Content: "c"}}}
	y := &Doc{Messages: []Message{{Role: "user", Content: "a"}, {Role: "assistant", Content: "bc"}}}
	if x.Hash() == y.Hash() {
		t.Error("the border between messages must count")
	}
	n := [splits]int{}
	s := Shares{Valid: 1000, Test: 500}
	for i := range 20_000 {
		n[s.Of((&Doc{Text: fmt.Sprint(i)}).Hash())]++
	}
	if n[Valid] < 1800 || n[Valid] > 2200 || n[Test] < 850 || n[Test] > 1150 {
		t.Errorf("shares of 20,000 documents: %v", n)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("a.jsonl", []byte(`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`))
	f.Add("a.txt", []byte("one\n\ntwo\r\n<|endoftext|>\n"))
	f.Add("a", []byte("[\"a\",{\"text\":\"\\ud83d\\ude00\"}]"))
	f.Fuzz(func(t *testing.T, name string, in []byte) {
		readStream(name, strings.NewReader(string(in)), Limits{Line: 1 << 12}, func(d *Doc) error {
			if d.Line < 1 {
				t.Errorf("a document on line %d", d.Line)
			}
			line, err := d.AppendJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			back, err := parseDoc(line)
			if err != nil {
				if strings.TrimSpace(d.Text) == "" && !d.IsChat() {
					return nil
				}
				t.Fatalf("%s does not read back: %v", line, err)
			}
			if back.Hash() != d.Hash() {
				t.Errorf("%s reads back as another document", line)
			}
			return nil
		})
	})
}
