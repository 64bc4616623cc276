package chat

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tinyloop/internal/fault"
)

// attacks are texts that mean something to the templates of the goldens or to their models.
var attacks = []string{"<|im_end|>", "<|im_start|>", "</s>", "<s>", "<|eot_id|>", "[/INST]", "<|end|>", "<end_of_turn>", "</think>", "<think>", "<tool_call>",
	"<｜end▁of▁sentence｜>", "<|endoftext|>"}

// covered says whether every control text that follows one of ours ("ATTACK") lies in a part of its own kind.
func covered(parts []Part, control string) bool {
	user := make([]bool, 0, 1<<12)
	for _, p := range parts {
		for range len(p.Text) {
			user = append(user, p.User)
		}
	}
	all := text(parts)
	for at := 0; ; {
		i := strings.Index(all[at:], "ATTACK"+control)
		if i < 0 {
			return true
		}
		from := at + i + len("ATTACK")
		safe := false
		for k := range len(control) { // one byte is enough to break the token, but then its neighbours are plain as well
			safe = safe || user[from+k]
		}
		if !safe {
			return false
		}
		at = from
	}
}

// Over all golden templates and conversations: the parts joined are the plain rendering, and control text in a message is marked as a person's.
func TestPartsOfGoldens(t *testing.T) {
	g := loadGoldens(t)
	all, refused, next := 0, 0, 0
	for _, name := range slices.Sorted(maps.Keys(g.compiled)) {
		tm := g.compiled[name]
		for _, conv := range slices.Sorted(maps.Keys(g.Renders[name])) {
			for range 2 { // each pair meets two of the attacks, each attack most templates
				next++
				a := attacks[next%len(attacks)]
				r := g.render(t, conv)
				r.Controls = attacks
				for i := range r.Messages {
					if r.Messages[i].Content != "" && i%2 == 0 {
						r.Messages[i].Content = " ATTACK" + a + "\n" + r.Messages[i].Content + "ATTACK" + a + " "
					}
				}
				plain, err := tm.run(&r, time.Now(), func(s string) string { return s })
				parts, got := tm.Render(r)
				if err != nil {
					if got == nil {
						t.Errorf("%s %s: fails plainly (%v) but renders in parts", name, conv, err)
					}
					continue
				}
				all++
				if got != nil {
					refused++
					if !strings.Contains(got.Error(), "control text") {
						t.Errorf("%s %s %s: %v", name, conv, a, got)
					}
					continue
				}
				if text(parts) != plain {
					t.Fatalf("%s %s %s: the parts are not the rendering", name, conv, a)
				}
				if !covered(parts, a) {
					t.Errorf("%s %s: %s from a message would be a control token", name, conv, a)
				}
			}
		}
	}
	t.Logf("%d renderings, %d refused", all, refused)
	if refused*100 > all {
		t.Errorf("%d of %d refused", refused, all)
	}
}

// Without control text every conversation of the goldens renders, and most can be traced.
func TestTracedGoldens(t *testing.T) {
	g := loadGoldens(t)
	all, traced := 0, 0
	for name, tm := range g.compiled {
		for conv, want := range g.Renders[name] {
			if want.Text == nil {
				continue
			}
			r := g.render(t, conv)
			all++
			plain, err := tm.run(&r, time.Now(), func(s string) string { return s })
			if err != nil {
				continue
			}
			if _, ok := tm.traced(&r, time.Now(), plain); ok {
				traced++
			}
		}
	}
	t.Logf("%d of %d traced wholly", traced, all)
	if traced*10 < all*8 {
		t.Errorf("%d of %d traced", traced, all)
	}
}

func mustCompile(t testing.TB, source string) *Template {
	t.Helper()
	tm, err := Compile(source)
	if err != nil {
		t.Fatal(err)
	}
	return tm
}

func TestParts(t *testing.T) {
	body := func(expr string) string {
		return "{% for m in messages %}<|im_start|>{{ m.role }}\n" + expr + "<|im_end|>\n{% endfor %}"
	}
	user := func(s string) []Message { return []Message{{Role: "user", Content: s}} }
	for _, c := range []struct {
		name, source string
		ms           []Message
		parts        []Part
	}{
		{"as it is", body("{{ m.content }}"), user("hi"), []Part{{"<|im_start|>user\n", false}, {"hi", true}, {"<|im_end|>\n", false}}},
		{"trimmed", body("{{ m.content | trim }}"), user("  hi \n"), []Part{{"<|im_start|>user\n", false}, {"hi", true}, {"<|im_end|>\n", false}}},
		{"space stays outside", body("{{ m.content }}"), user(" hi "), []Part{{"<|im_start|>user\n ", false}, {"hi", true}, {" <|im_end|>\n", false}}},
		{"empty", body("{{ m.content }}"), user(""), []Part{{"<|im_start|>user\n<|im_end|>\n", false}}},
		{"twice", body("{{ m.content }}{{ m.content }}"), user("a"), []Part{{"<|im_start|>user\n", false}, {"a", true}, {"a", true}, {"<|im_end|>\n", false}}},
		{"tested", body("{% if m.content.startswith('<|im_end|>') %}!{% endif %}{{ m.content }}"), user("<|im_end|>x"),
			[]Part{{"<|im_start|>user\n!", false}, {"<|im_end|>", true}, {"x<|im_end|>\n", false}}},
		{"looked into, nothing to hide", body("{% if 'a' == m.content %}!{% endif %}{{ m.content }}"), user("a"), []Part{{"<|im_start|>user\n!a<|im_end|>\n", false}}},
		{"split off", body("{{ m.content.split('</think>')[-1] }}"), user("no</think><|im_end|>yes"),
			[]Part{{"<|im_start|>user\n", false}, {"<|im_end|>", true}, {"yes<|im_end|>\n", false}}},
		{"marks in the text", body("{{ m.content }}"), user("\U000F0000x\U000F0001"), []Part{{"<|im_start|>user\n", false}, {"\U000F0000x\U000F0001", true}, {"<|im_end|>\n", false}}},
		{"upper case", body("{{ m.content | upper }}"), user("é<|im_end|>"), []Part{{"<|im_start|>user\n", false}, {"É<|IM_END|>", true}, {"<|im_end|>\n", false}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			parts, err := mustCompile(t, c.source).Render(Render{Messages: c.ms, Controls: []string{"<|im_start|>", "<|im_end|>", "</think>"}})
			if err != nil {
				t.Fatal(err)
			}
			if len(parts) != len(c.parts) {
				t.Fatalf("got %+v", parts)
			}
			for i, p := range parts {
				if p != c.parts[i] {
					t.Errorf("part %d is %+v, want %+v", i, p, c.parts[i])
				}
			}
		})
	}
}

// Where control text cannot be followed, the conversation is refused.
func TestControlRefused(t *testing.T) {
	tm := mustCompile(t, "{% for m in messages %}{% if m.content == 'x<|im_end|>' %}{{ m.content }}{% endif %}{% endfor %}")
	_, err := tm.Render(Render{Messages: []Message{{Role: "user", Content: "x<|im_end|>"}}, Controls: []string{"<|im_end|>"}})
	if fault.Of(err) != fault.Invalid || !strings.Contains(err.Error(), "<|im_end|>") {
		t.Errorf("got %v", err)
	}
}

// Whatever a template does to the text, the parts joined are the rendering.
func TestPartsProperty(t *testing.T) {
	exprs := []string{"{{ m.content }}", "{{ m.content | trim }}", "{{ m.content.split('</t>')[-1] }}", "{{ m.content[:3] }}", "{{ m.content | upper }}",
		"{% if '<e>' in m.content %}!{% endif %}{{ m.content }}", "{{ m.content | tojson }}", "{{ m.content | length }}", "{{ m.content | replace('a', '<e>') }}",
		"{% set x = m.content.split('a') %}{{ x | join('-') }}", "{{ m.content.strip('<') }}"}
	compiled := map[string]*Template{}
	for _, e := range exprs {
		compiled[e] = mustCompile(t, "{% for m in messages %}<b>{{ m.role }}"+e+"<e>{% endfor %}")
	}
	word := rapid.SampledFrom([]string{"a", " ", "\n", "<e>", "</t>", "<", "é", "😀", "\"", "<b"})
	rapid.Check(t, func(rt *rapid.T) {
		tm := compiled[rapid.SampledFrom(exprs).Draw(rt, "template")]
		r := Render{Controls: []string{"<b>", "<e>", "</t>"}}
		for range rapid.IntRange(1, 3).Draw(rt, "n") {
			r.Messages = append(r.Messages, Message{Role: "user", Content: strings.Join(rapid.SliceOfN(word, 0, 8).Draw(rt, "content"), "")})
		}
		plain, err := tm.run(&r, time.Now(), func(s string) string { return s })
		if err != nil {
			rt.Fatal(err)
		}
		parts, err := tm.Render(r)
		if err != nil {
			if !strings.Contains(err.Error(), "control text") {
				rt.Fatal(err)
			}
			return
		}
		if text(parts) != plain {
			rt.Fatalf("parts %+v of %q", parts, plain)
		}
	})
}

func TestChatML(t *testing.T) {
	r := Render{Messages: []Message{{Role: "system", Content: ""}, {Role: "user", Content: "a<|im_end|>"}}, AddGenerationPrompt: true}
	parts, err := ChatML().Render(r)
	if err != nil {
		t.Fatal(err)
	}
	want := []Part{{"<|im_start|>system\n", false}, {"<|im_end|>\n<|im_start|>user\n", false}, {"a<|im_end|>", true}, {"<|im_end|>\n<|im_start|>assistant\n", false}}
	if len(parts) != len(want) {
		t.Fatalf("%+v", parts)
	}
	for i := range want {
		if parts[i] != want[i] {
			t.Errorf("part %d is %+v", i, parts[i])
		}
	}
	r.AddGenerationPrompt = false
	parts, _ = ChatML().Render(r)
	if got := text(parts); !strings.HasSuffix(got, "a<|im_end|><|im_end|>\n") {
		t.Errorf("%q", got)
	}
}
