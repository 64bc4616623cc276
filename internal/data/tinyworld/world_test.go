package tinyworld

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"tinyloop/internal/data"
	"tinyloop/internal/fault"
)

// each makes n documents of a family in every split, language and form.
func each(t *testing.T, familyName string, n int, check func(t *testing.T, d *data.Doc)) {
	t.Helper()
	w := New()
	for _, split := range []data.Split{data.Train, data.Valid, data.Test} {
		for _, lang := range []string{"en", "fr"} {
			for _, form := range []string{"text", "chat"} {
				o := &Options{Seed: 5, Split: split, Lang: lang, Form: form}
				for i := range n {
					d, err := w.Doc(o, familyName, uint64(i))
					if err != nil {
						t.Fatal(err)
					}
					check(t, d)
					if t.Failed() {
						t.Fatalf("%s %s %s %d:\n%s", split, lang, form, i, show(d))
					}
				}
			}
		}
	}
}

func show(d *data.Doc) string {
	b, _ := d.AppendJSON(nil)
	return string(b)
}

// content is the text that an answer's bytes are counted in.
func content(d *data.Doc, a data.Answer) string {
	if d.IsChat() {
		return d.Messages[a.Message].Content
	}
	return d.Text
}

func answer(d *data.Doc, a data.Answer) string { return content(d, a)[a.Start:a.End] }

// before is all that stands before an answer's line or turn, as plain lines.
func before(d *data.Doc, a data.Answer) string {
	if !d.IsChat() {
		return d.Text[:a.Start]
	}
	var b strings.Builder
	for _, m := range d.Messages[:a.Message] {
		b.WriteString(m.Content + "\n")
	}
	return b.String()
}

func lines(s string) []string { return strings.Split(strings.TrimRight(s, "\n"), "\n") }

// TestEveryDocument holds what is so of all families.
func TestEveryDocument(t *testing.T) {
	for _, f := range Families() {
		seen := map[string]bool{}
		each(t, f, 150, func(t *testing.T, d *data.Doc) {
			l := d.Labels
			if l.Family != f || l.Difficulty < 1 || l.Lang == "" || l.Split == "" || len(l.Answers) == 0 {
				t.Errorf("labels %+v", l)
			}
			if want := map[bool]string{true: "chat", false: "text"}[d.IsChat()]; l.Form != want {
				t.Errorf("form %s of a %s", l.Form, want)
			}
			line := show(d)
			if !utf8.ValidString(line) || strings.ContainsAny(line, "{}") && strings.Contains(line, "{N}") {
				t.Errorf("an empty place was left")
			}
			for _, m := range d.Messages {
				for _, bad := range []string{"{N}", "{V}", "{of}", "{deN}", "{queN}", "{deV}", "{C}", "{q}", "%d", "%s", "  "} {
					if strings.Contains(m.Content, bad) {
						t.Errorf("%q in %q", bad, m.Content)
					}
				}
			}
			for _, a := range l.Answers {
				text := content(d, a)
				if a.Start >= a.End || a.End > len(text) || !utf8.ValidString(text[a.Start:a.End]) {
					t.Errorf("answer %+v in a text of %d bytes", a, len(text))
				}
				if d.IsChat() && d.Messages[a.Message].Role != "assistant" {
					t.Errorf("answer %+v is a %s's", a, d.Messages[a.Message].Role)
				}
				if n := len(a.States); n > 0 && !strings.HasPrefix(answer(d, a), a.States[n-1]) {
					t.Errorf("the last state %q does not begin the answer %q", a.States[n-1], answer(d, a))
				}
			}
			if d.IsChat() && d.Messages[len(d.Messages)-1].Role != "assistant" {
				t.Errorf("the last word is a %s's", d.Messages[len(d.Messages)-1].Role)
			}
			seen[line] = true
		})
		if len(seen) < 500 {
			t.Errorf("%s: only %d different documents of 1,800", f, len(seen))
		}
	}
}

// TestReadsBack checks that what is written is a corpus that Read takes, with every label.
func TestReadsBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.jsonl")
	var out bytes.Buffer
	if _, err := New().Write(context.Background(), &out, Options{Seed: 1, Docs: 2000}, 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	n := 0
	var again []byte
	_, err := data.Read([]string{path}, data.Limits{}, func(d *data.Doc) (err error) {
		n++
		again, err = d.AppendJSON(again)
		return err
	})
	if err != nil || n != 2000 || !bytes.Equal(again, out.Bytes()) {
		t.Errorf("%d documents, %v, equal %v", n, err, bytes.Equal(again, out.Bytes()))
	}
}

// TestGolden holds the corpus to the same bytes on every machine and in every release: the first 100 documents of each family and seed.
func TestGolden(t *testing.T) {
	w := New()
	var got bytes.Buffer
	for _, f := range Families() {
		for _, seed := range []uint64{0, 1, 42} {
			h := sha256.New()
			for i := range uint64(100) {
				d, err := w.Doc(&Options{Seed: seed}, f, i)
				if err != nil {
					t.Fatal(err)
				}
				line, err := d.AppendJSON(nil)
				if err != nil {
					t.Fatal(err)
				}
				h.Write(line)
			}
			fmt.Fprintf(&got, "%s %d %s\n", f, seed, hex.EncodeToString(h.Sum(nil)))
		}
	}
	path := filepath.Join("testdata", "golden.txt")
	if os.Getenv("UPDATE") != "" {
		os.MkdirAll("testdata", 0o755)
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got.Bytes()) {
		t.Errorf("the corpus has changed (UPDATE=1 writes the new sums):\n%s", got.String())
	}
}

func TestThreadsChangeNothing(t *testing.T) {
	w := New()
	for _, o := range []Options{{Seed: 3, Docs: 1500}, {Seed: 4, Bytes: 200_000, Lang: "fr"}, {Seed: 5, Docs: 300, Mix: []Share{{"chain", 3}, {"tools", 1}}}} {
		var one, three bytes.Buffer
		a, err := w.Write(context.Background(), &one, o, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := w.Write(context.Background(), &three, o, 3, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one.Bytes(), three.Bytes()) || fmt.Sprint(a) != fmt.Sprint(b) {
			t.Errorf("%+v: other bytes with three threads", o)
		}
	}
}

// TestMixture checks that the families have their shares of bytes, from the beginning of the corpus on.
func TestMixture(t *testing.T) {
	for _, size := range []int64{300_000, 1_500_000} {
		counts, err := New().Write(context.Background(), &bytes.Buffer{}, Options{Seed: 2, Bytes: size}, 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families() {
			all := int64(0)
			for _, c := range counts {
				all += c.Text
			}
			got := float64(counts[f.name].Text) / float64(all)
			if want := float64(f.share) / 1000; got < want-0.01 || got > want+0.01 {
				t.Errorf("%d bytes: %s has the share %.3f, want %.3f", size, f.name, got, want)
			}
		}
	}
}

func TestOptionFaults(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, "no size"},
		{Options{Docs: 1, Lang: "de"}, `language "de"`},
		{Options{Docs: 1, Form: "poem"}, `form "poem"`},
		{Options{Docs: 1, Mix: []Share{{"chess", 1}}}, `no family "chess"`},
		{Options{Docs: 1, Mix: []Share{{"town", -1}}}, "share -1 of town"},
		{Options{Docs: 1, Mix: []Share{{"town", 0}}}, "the mixture is empty"},
	} {
		_, err := New().Write(context.Background(), &bytes.Buffer{}, c.o, 1, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || fault.Of(err) != fault.Invalid {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := New().Write(ctx, &bytes.Buffer{}, Options{Docs: 10}, 1, nil); fault.Of(err) != fault.Canceled {
		t.Errorf("stopped: %v", err)
	}
}

// TestSetsAreHeldOut checks that nothing a model is examined on stands in what it learns from.
func TestSetsAreHeldOut(t *testing.T) {
	w := New()
	asked := map[string]bool{}
	for _, f := range []string{"town", "verne", "unknown", "chat", "list", "tools", "json"} {
		for _, split := range []data.Split{data.Train, data.Valid} {
			n := uint64(2500)
			if f == "chat" || f == "verne" { // each of many wordings is rare
				n = 16000
			}
			for i := range n {
				d, err := w.Doc(&Options{Seed: 9, Split: split}, f, i)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range d.Messages {
					if m.Role == "user" {
						asked[strings.ToLower(m.Content)] = true
					}
				}
				for _, l := range lines(d.Text) {
					asked[strings.ToLower(l)] = true
				}
				if strings.Contains(show(d), "Zorg") {
					t.Errorf("Zorg stands in the training text: %s", show(d))
				}
			}
		}
	}
	sizes := map[string]int{}
	for _, name := range Sets() {
		docs, err := w.Set(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range docs {
			q := d.Messages[0].Content
			sizes[fmt.Sprintf("%s/%s/%d", name, d.Labels.Family, d.Labels.Difficulty)]++
			if d.Labels.Difficulty > 0 && asked[strings.ToLower(q)] {
				t.Errorf("%s: %q is asked in training", name, q)
			}
			if name == "acceptance" && d.Labels.Difficulty == 0 && !asked[strings.ToLower(q)] {
				t.Errorf("%s: %q is not asked in training", name, q)
			}
			if french(d.Messages[1].Content) != (d.Labels.Lang == "fr") && !slices.Contains([]string{"1", "T"}, d.Messages[1].Content[:1]) {
				t.Errorf("%q is answered in another language: %q", q, d.Messages[1].Content)
			}
		}
	}
	if sizes["fresh/fresh/1"] < 90 || sizes["careless/careless/1"] < 40 || sizes["acceptance/acceptance/1"] < 40 || sizes["refusals/known/1"] != 100 || sizes["refusals/unknown/1"] != 98 {
		t.Errorf("sizes %v", sizes)
	}
	if _, err := w.Set("all"); err == nil {
		t.Error("a set that is none")
	}
}

// TestToolsAreJSON checks every function, call and JSON answer with a parser that did not write them.
func TestToolsAreJSON(t *testing.T) {
	names := map[string]map[string]bool{"train": {}, "valid": {}, "test": {}}
	each(t, "tools", 400, func(t *testing.T, d *data.Doc) {
		var offered []struct {
			Function struct {
				Name       string
				Parameters struct {
					Properties map[string]struct{ Type string }
					Required   []string
				}
			}
		}
		if d.Tools != nil {
			if err := json.Unmarshal(d.Tools, &offered); err != nil {
				t.Fatal(err)
			}
		}
		for _, o := range offered {
			names[d.Labels.Split][o.Function.Name] = true
		}
		for i, m := range d.Messages {
			for _, c := range m.ToolCalls {
				k := slices.IndexFunc(offered, func(o struct {
					Function struct {
						Name       string
						Parameters struct {
							Properties map[string]struct{ Type string }
							Required   []string
						}
					}
				}) bool {
					return o.Function.Name == c.Function.Name
				})
				var args map[string]any
				if err := json.Unmarshal([]byte(c.Function.Arguments), &args); err != nil || k < 0 {
					t.Fatalf("call %+v: %v", c, err)
				}
				p := offered[k].Function.Parameters
				if len(args) != len(p.Required) {
					t.Errorf("%d arguments for %v", len(args), p.Required)
				}
				for n, v := range args {
					_, isText := v.(string)
					if typ := p.Properties[n].Type; (typ == "string") != isText {
						t.Errorf("argument %s: %v is no %s", n, v, typ)
					}
					if !strings.Contains(d.Messages[i-1].Content, strings.TrimSuffix(fmt.Sprint(v), ".0")) {
						t.Errorf("argument %v is not in the question %q", v, d.Messages[i-1].Content)
					}
				}
				k = slices.IndexFunc(d.Labels.Answers, func(a data.Answer) bool { return a.Message == i+2 })
				if k < 0 {
					t.Fatalf("no answer is told from the result of message %d", i)
				}
				a := d.Labels.Answers[k]
				key, result := answer(d, a), d.Messages[i+1]
				if result.Role != "tool" || !json.Valid([]byte(result.Content)) || !strings.Contains(result.Content+d.Messages[i-1].Content, key) {
					t.Errorf("the answer %q does not follow from %q", key, result.Content)
				}
			}
		}
	})
	for n := range names["test"] {
		if names["train"][n] || names["valid"][n] {
			t.Errorf("the function %s is in training and in the test", n)
		}
	}
}
