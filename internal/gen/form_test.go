package gen

import (
	"testing"
	"time"

	"tinyloop/internal/chat"
	"tinyloop/internal/fixture"
	"tinyloop/internal/grammar"
	"tinyloop/internal/tensorfile"
	"tinyloop/internal/tok"
)

// real is the tokenizer of Qwen 2 with the template of Qwen 3: 151,936 tokens, whose marks are in the vocabulary.
func real(t testing.TB) (*tok.Tokenizer, *chat.Template) {
	t.Helper()
	f, err := tensorfile.Open(fixture.Path(t, "vocab", "ggml-vocab-qwen2.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tk, err := tok.FromGGUF(f.Meta)
	if err != nil {
		t.Fatal(err)
	}
	tm, err := chat.Compile(string(fixture.Read(t, "templates", "Qwen-Qwen3-0.6B.jinja")))
	if err != nil {
		t.Fatal(err)
	}
	return tk, tm
}

// With a large vocabulary: what the encoder makes of JSON and of calls in the usual spellings is what the masks allow, token for token.
func TestFormsOfARealVocabulary(t *testing.T) {
	tk, tm := real(t)
	m := newMatchers(tk, tm)
	schema := []byte(`{"type":"object","properties":{"name":{"type":"string"},"tags":{"type":"array","items":{"enum":["a","été"]}},"n":{"type":"number"}},"required":["name"],"additionalProperties":false}`)
	format := &grammar.Rule{Format: &grammar.Format{Schema: schema, Field: "f"}}
	calls := &grammar.Rule{Calls: &grammar.Calls{Functions: []grammar.Function{{Name: "add", Schema: schema, Field: "f"}}, Open: "<tool_call>", Close: "</tool_call>", Most: 2, Free: true}}
	for _, c := range []struct {
		rule *grammar.Rule
		text string
	}{
		{format, `{"name":"Ada","tags":["a","été"],"n":-1.5e3}`}, {format, "{\n  \"name\": \"Zoë 😀 \\\"\\u00e9\\\"\",\n  \"tags\": []\n}"},
		{calls, "Well.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"name\": \"x\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"name\": \"y\", \"n\": 2}}\n</tool_call>"},
		{calls, "no call, but <b>markup</b>, {\"a\": 1} and 日本"},
	} {
		start := time.Now()
		matcher, err := m.get(c.rule, "f")
		if err != nil {
			t.Fatal(err)
		}
		ready := time.Since(start)
		w := matcher.Walk([]tok.ID{tk.EOS()})
		var out []tok.ID
		slowest := time.Duration(0)
		for _, id := range tk.EncodeMarkup(nil, c.text) {
			start := time.Now()
			mask := w.Mask(out)
			slowest = max(slowest, time.Since(start))
			if mask != nil && mask[id/64]>>(id%64)&1 == 0 {
				t.Fatalf("%q: behind %q the token %q is not allowed", c.text, tk.Decode(nil, out), tk.Bytes(id))
			}
			out = append(out, id)
		}
		if !w.Done(out) {
			t.Errorf("%q is not complete", c.text)
		}
		t.Logf("%d tokens; ready in %v, slowest first mask %v", len(out), ready, slowest)
	}
}

func BenchmarkMask(b *testing.B) {
	tk, tm := real(b)
	m := newMatchers(tk, tm)
	matcher, err := m.get(&grammar.Rule{Format: &grammar.Format{}}, "f")
	if err != nil {
		b.Fatal(err)
	}
	ids := tk.EncodeMarkup(nil, `{"name": "Ada Lovelace", "born": 1815, "towns": ["London", "Ockham"], "notes": {"first": true, "text": "It weaves algebraical patterns."}}`)
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			m.kept = nil
			fresh, _ := m.get(&grammar.Rule{Format: &grammar.Format{}}, "f")
			w := fresh.Walk(nil)
			for i := range ids {
				w.Mask(ids[:i])
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(ids)), "µs/token")
	})
	b.Run("known", func(b *testing.B) {
		w := matcher.Walk(nil)
		for b.Loop() {
			for i := range ids {
				w.Mask(ids[:i])
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/token")
	})
}
