package chat

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"tinyloop/internal/fault"
	"tinyloop/internal/fixture"
)

// goldens are renderings of Jinja2 with the settings of Hugging Face.
type goldens struct {
	Convs    map[string]json.RawMessage `json:"convs"`
	BOS      string                     `json:"bos_token"`
	EOS      string                     `json:"eos_token"`
	Now      string                     `json:"now"`
	Renders  map[string]map[string]golden
	compiled map[string]*Template
}

type golden struct{ Text, Error *string }

func loadGoldens(t testing.TB) *goldens {
	t.Helper()
	g := &goldens{compiled: map[string]*Template{}}
	if err := json.Unmarshal(fixture.Read(t, "goldens", "chat_template_goldens.json"), g); err != nil {
		t.Fatal(err)
	}
	for name := range g.Renders {
		src, err := os.ReadFile(fixture.Path(t, "templates", name))
		if err != nil {
			t.Fatal(err)
		}
		tm, err := Compile(string(src))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		g.compiled[name] = tm
	}
	return g
}

// render reads a conversation of the goldens.
func (g *goldens) render(t testing.TB, conv string) Render {
	t.Helper()
	now, err := time.Parse("2006-01-02T15:04:05", g.Now)
	if err != nil {
		t.Fatal(err)
	}
	v, err := ParseJSON(g.Convs[conv])
	if err != nil {
		t.Fatal(err)
	}
	r := Render{BOS: g.BOS, EOS: g.EOS, Now: now}
	for _, f := range v.(Object) {
		switch f.Key {
		case "add_generation_prompt":
			r.AddGenerationPrompt = f.Value.(bool)
		case "tools":
			r.Tools = f.Value.([]any)
		case "messages":
			for _, m := range f.Value.([]any) {
				r.Messages = append(r.Messages, message(t, m.(Object)))
			}
		default:
			t.Fatalf("unknown key %q", f.Key)
		}
	}
	return r
}

func message(t testing.TB, o Object) (m Message) {
	for _, f := range o {
		switch f.Key {
		case "role":
			m.Role = f.Value.(string)
		case "content":
			m.Content = f.Value.(string)
		case "name":
			m.Name = f.Value.(string)
		case "tool_call_id":
			m.ToolCallID = f.Value.(string)
		case "tool_calls":
			m.ToolCalls = f.Value.([]any)
		default:
			t.Fatalf("unknown key %q", f.Key)
		}
	}
	return m
}

// knownMisses are renderings that differ from Jinja2's, by name. Anything else that differs fails.
var knownMisses = map[string]string{
	"meetkai-functionary-medium-v3.2.jinja tool_turn": "adds a text and a dict, which Python refuses and the interpreter prints",
}

// Every golden conversation renders byte for byte, and is refused where the template refuses it.
func TestGoldens(t *testing.T) {
	g := loadGoldens(t)
	all, good := 0, 0
	for name, convs := range g.Renders {
		for conv, want := range convs {
			all++
			key := name + " " + conv
			miss := differs(t, g, name, conv, want)
			_, known := knownMisses[key]
			switch {
			case miss == "":
				good++
				if known {
					t.Errorf("%s renders right now: take it off the list", key)
				}
			case !known:
				t.Errorf("%s: %s", key, miss)
			}
		}
	}
	t.Logf("%d of %d renderings equal", good, all)
	if good*100 < all*95 {
		t.Errorf("%d of %d renderings equal, want 95 %%", good, all)
	}
}

func differs(t *testing.T, g *goldens, name, conv string, want golden) string {
	tm := g.compiled[name]
	if tm == nil {
		return "does not compile"
	}
	parts, err := tm.Render(g.render(t, conv))
	switch {
	case err != nil && want.Error != nil:
		if fault.Of(err) != fault.Invalid {
			return "is refused with the kind " + fault.Of(err).String()
		}
		return ""
	case err != nil:
		return err.Error()
	case want.Error != nil:
		return "renders, but should be refused: " + *want.Error
	}
	got := text(parts)
	if got == *want.Text {
		return ""
	}
	i := 0
	for i < len(got) && i < len(*want.Text) && got[i] == (*want.Text)[i] {
		i++
	}
	return "differs at " + window(got, i) + " want " + window(*want.Text, i)
}

func window(s string, i int) string {
	return strings.Join(strings.Fields(s[max(0, i-20):min(len(s), i+40)]), " ")
}

func text(parts []Part) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// TestLineEnds: a template saved with the line ends of another system is the same template, as in Jinja2.
func TestLineEnds(t *testing.T) {
	g := loadGoldens(t)
	compared := 0
	for name, convs := range g.Renders {
		if g.compiled[name] == nil {
			continue
		}
		for _, end := range []string{"\r\n"} {
			tm, err := Compile(strings.ReplaceAll(g.compiled[name].Source(), "\n", end))
			if err != nil {
				t.Errorf("%s with %q: %v", name, end, err)
				continue
			}
			for conv := range convs {
				want, werr := g.compiled[name].Render(g.render(t, conv))
				got, err := tm.Render(g.render(t, conv))
				if (err == nil) != (werr == nil) || !slices.Equal(got, want) {
					t.Errorf("%s with %q: %s renders otherwise", name, end, conv)
				}
				compared++
			}
		}
	}
	t.Logf("%d renderings compared", compared)
}
