package chat

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tinyloop/internal/fault"
)

// ours is a template in the form that models are trained with here.
const ours = `{%- for t in tools or [] -%}{{ t.function | tojson }}{%- endfor -%}{%- for m in messages -%}{{ m.role + ':' + m.content }}
{%- for c in m.tool_calls or [] -%}{{ '<tool_call>' + ({'name': c.function.name, 'arguments': c.function.arguments} | tojson) + '</tool_call>' }}{%- endfor -%}{%- endfor -%}`

func TestMarks(t *testing.T) {
	for source, want := range map[string]string{
		ours: "",
		"{% for m in messages %}{{ m.content }}{% endfor %}": "does not show them",
		"{{ tools | tojson }}":                               "another form",
		"{{ raise_exception('no') }}":                        "does not show them",
	} {
		m, err := mustCompile(t, source).Marks()
		if want == "" {
			if err != nil || m != hermes() {
				t.Errorf("%s: %v, %v", source, m, err)
			}
			continue
		}
		if fault.Of(err) != fault.Unsupported || fault.As(err).Field != "tools" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want one with %q", source, err, want)
		}
	}
	if _, err := ChatML().Marks(); fault.Of(err) != fault.Unsupported {
		t.Errorf("ChatML: %v", err)
	}
}

// The templates that models ship: those in the form of Hermes are known as such, the others are refused.
func TestMarksOfModels(t *testing.T) {
	g := loadGoldens(t)
	for name, want := range map[string]bool{
		"Qwen-Qwen3-0.6B.jinja": true, "Qwen-QwQ-32B.jinja": true, "NousResearch-Hermes-3-Llama-3.1-8B-tool_use.jinja": true, "ibm-granite-granite-4.0.jinja": true,
		"Qwen3-Coder.jinja": false, "mistralai-Mistral-Nemo-Instruct-2407.jinja": false, "meta-llama-Llama-3.1-8B-Instruct.jinja": false, "microsoft-Phi-3.5-mini-instruct.jinja": false,
	} {
		if _, err := g.compiled[name].Marks(); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// taken is an answer put together again.
type taken struct {
	text  string
	calls []written
}

func put(pieces []Piece) (a taken) {
	for _, p := range pieces {
		switch {
		case p.Call < 0:
			a.text += p.Text
		case p.Name != "":
			a.calls = append(a.calls, written{Name: p.Name})
		default:
			c := &a.calls[p.Call]
			c.Arguments = append(c.Arguments, p.Arguments...)
		}
	}
	return a
}

func (a taken) String() string {
	var b strings.Builder
	b.WriteString(a.text)
	for _, c := range a.calls {
		b.WriteString("|" + c.Name + string(c.Arguments))
	}
	return b.String()
}

// answers and what they are, whatever the cuts.
func answers() map[string]string {
	one := `<tool_call>{"name":"add","arguments":{"a":1}}</tool_call>`
	return map[string]string{
		"":                               "",
		"hello":                          "hello",
		"  hello ":                       "  hello ",
		one:                              `|add{"a":1}`,
		"Well:\n" + one:                  "Well:\n" + `|add{"a":1}`,
		"\n\n" + one + "\n" + one + "\n": `|add{"a":1}|add{"a":1}`,
		one + " done":                    ` done|add{"a":1}`,
		"\n\n<tool_call>{":               "\n\n<tool_call>{",
		one + "\n<tool_call>{":           "\n<tool_call>{" + `|add{"a":1}`,
		"<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": [1, {\"b\": \"}</tool_call>\"}]}}\n</tool_call>": `|add{"a": [1, {"b": "}</tool_call>"}]}`,
		`<tool_call>{"arguments":{"a":1},"name":"add"}</tool_call>`:                                               `|add{"a":1}`,
		`<tool_call>{"name":"add","arguments":"{\"a\":1}"}</tool_call>`:                                           `|add{"a":1}`,
		`<tool_call>{"name":"add"}</tool_call>`:                                                                   `|add{}`,
		`<tool_call>{"name":"add","arguments":{}}`:                                                                `|add{}`,
		// not calls: everything comes back
		`<tool_call>{"name":"nope","arguments":[`:                  `<tool_call>{"name":"nope","arguments":[`,
		`<tool_call>{"name":"nope","arguments":{}}</tool_call>`:    `<tool_call>{"name":"nope","arguments":{}}</tool_call>`,
		`<tool_call>{"name":"add","arguments":[1]}</tool_call>`:    `<tool_call>{"name":"add","arguments":[1]}</tool_call>`,
		`<tool_call>{"name":"add","arguments":{"a":}}</tool_call>`: `<tool_call>{"name":"add","arguments":{"a":}}</tool_call>`,
		`<tool_call>hello</tool_call>`:                             `<tool_call>hello</tool_call>`,
		`<tool_call>{"name":"add","arguments":{}} and more`:        `<tool_call>{"name":"add","arguments":{}} and more`,
		"<tool_call>":                   "<tool_call>",
		"<tool":                         "<tool",
		"<tool_call><tool_call>x" + one: `<tool_call><tool_call>x|add{"a":1}`,
		`<tool_call>}`:                  `<tool_call>}`,
	}
}

func TestReader(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for text, want := range answers() {
		for range 50 {
			r := Reader{Marks: hermes(), Names: []string{"add"}}
			var out []Piece
			for rest := text; rest != ""; {
				n := 1 + rng.IntN(len(rest))
				if rng.IntN(2) == 0 {
					n = 1
				}
				out = r.Feed(rest[:n], out)
				rest = rest[n:]
			}
			if got := put(r.End(out)); got.String() != want {
				t.Fatalf("%q gives %q, want %q", text, got, want)
			}
		}
	}
}

// Where the form is sure, arguments come out as they are written, byte by byte the same as whole.
func TestSureReader(t *testing.T) {
	text := "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": [1, {\"b\": \"}<\\\"\"}], \"c\": 2 } }</tool_call>\n<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>"
	r := Reader{Marks: hermes(), Names: []string{"add", "now"}, Sure: true}
	var out []Piece
	early := 0
	for i := range text {
		out = r.Feed(text[i:i+1], out)
		if i == strings.Index(text, `"c"`) {
			early = len(put(out).calls[0].Arguments)
		}
	}
	got := put(r.End(out))
	if want := `|add{"a": [1, {"b": "}<\""}], "c": 2 }|now{}`; got.String() != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if early < 20 {
		t.Errorf("%d bytes of the arguments had come out in the middle of the call", early)
	}
	for _, c := range got.calls {
		if !json.Valid(c.Arguments) {
			t.Errorf("%s is no JSON", c.Arguments)
		}
	}
	if i := slices.IndexFunc(out, func(p Piece) bool { return p.Call >= 0 && p.Name == "" && p.Arguments == "" }); i >= 0 {
		t.Errorf("piece %d says nothing", i)
	}
	cut := Reader{Marks: hermes(), Names: []string{"add"}, Sure: true}
	if got := put(cut.End(cut.Feed(`<tool_call>{"name":"add","arguments":{"a":`, nil))); got.String() != `|add{"a":` {
		t.Errorf("a call that was cut: %q", got)
	}
	cut = Reader{Marks: hermes(), Names: []string{"add"}, Sure: true}
	if got := put(cut.End(cut.Feed(`<tool_call>{"name":"ad`, nil))); got.String() != `<tool_call>{"name":"ad` {
		t.Errorf("a name that was cut: %q", got)
	}
}

// Nothing is lost: text and calls together hold every byte that is not a mark, a name's surroundings or white space.
func FuzzReader(f *testing.F) {
	for text := range answers() {
		f.Add(text, uint8(3), true)
	}
	f.Fuzz(func(t *testing.T, text string, step uint8, sure bool) {
		whole := Reader{Marks: hermes(), Names: []string{"add"}}
		want := put(whole.End(whole.Feed(text, nil)))
		r := Reader{Marks: hermes(), Names: []string{"add"}}
		var out []Piece
		for rest := text; rest != ""; {
			n := min(len(rest), 1+int(step))
			out, rest = r.Feed(rest[:n], out), rest[n:]
		}
		if got := put(r.End(out)); got.String() != want.String() {
			t.Fatalf("%q in steps of %d: %q, whole %q", text, step, got, want)
		}
		if len(want.calls) == 0 && want.text != text {
			t.Fatalf("%q became %q", text, want.text)
		}
		s := Reader{Marks: hermes(), Sure: sure}
		s.End(s.Feed(text, nil))
	})
}
