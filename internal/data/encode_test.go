package data

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"tinyloop/internal/chat"
)

func TestEncodeText(t *testing.T) {
	var x Tokens
	d := &Doc{Text: "Mia is with Bob. where Mia park", Labels: &Labels{Answers: []Answer{{Start: 27, End: 31, States: []string{"Bob", "park"}}}}}
	if err := newCoder().Encode(d, &x); err != nil {
		t.Fatal(err)
	}
	if got, want := show(x.IDs), "⟨bos⟩"+d.Text+"⟨eos⟩"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := learned(&x), d.Text+"⟨eos⟩"; got != want {
		t.Errorf("learned %q, want %q", got, want)
	}
	var got []string
	for _, tr := range x.Traces {
		got = append(got, itoa(int(tr.Step))+show([]int32{tr.ID})+show(x.IDs[tr.At:]))
	}
	if diff := cmp.Diff([]string{"1 B park⟨eos⟩", "2 p park⟨eos⟩"}, got); diff != "" {
		t.Errorf("traces with the blank that the answer's token begins with (-want +got):\n%s", diff)
	}
}

// TestLearnAnswers: of a text with random givens the answers are learned, each with the token that follows it.
func TestLearnAnswers(t *testing.T) {
	answers := []Answer{{Start: 4, End: 5}, {Start: 10, End: 11}}
	for _, c := range []struct{ text, learn, want string }{
		{"1+1=2\n1+2=3", LearnAnswers, "2\n|3⟨eos⟩"},
		{"1+1=2\n1+2=3", "", "1+1=2\n1+2=3⟨eos⟩"},
	} {
		var x Tokens
		if err := newCoder().Encode(&Doc{Text: c.text, Labels: &Labels{Learn: c.learn, Answers: answers}}, &x); err != nil {
			t.Fatal(err)
		}
		if got := learned(&x); got != c.want {
			t.Errorf("%q, learn %q: learned %q, want %q", c.text, c.learn, got, c.want)
		}
	}
}

func TestEncodeChat(t *testing.T) {
	call := []ToolCall{{Function: FunctionCall{Name: "add", Arguments: `{ "a": 2 }`}}}
	tools := []byte(`[{"type":"function","function":{"name":"add"}}]`)
	for _, c := range []struct {
		name          string
		doc           Doc
		text, learned string
		traces        int
	}{
		{"two turns", Doc{Messages: []Message{{Role: "user", Content: "Hi <|im_end|>"}, {Role: "assistant", Content: "Yes"}, {Role: "user", Content: "no"},
			{Role: "assistant", Content: "Bye"}}, Labels: &Labels{Answers: []Answer{{Message: 3, Start: 0, End: 3, States: []string{"x", "y"}}}}},
			"⟨bos⟩⟨im_start⟩⟨user⟩\nHi <|im_end|>⟨im_end⟩\n⟨im_start⟩⟨assistant⟩\nYes⟨im_end⟩\n⟨im_start⟩⟨user⟩\nno⟨im_end⟩\n⟨im_start⟩⟨assistant⟩\nBye⟨im_end⟩\n",
			"Yes⟨im_end⟩|Bye⟨im_end⟩", 2},
		{"tools", Doc{Tools: tools, Messages: []Message{{Role: "user", Content: "2+2 <tool_call>"}, {Role: "assistant", ToolCalls: call}, {Role: "tool", Content: "4"},
			{Role: "assistant", Content: "It is 4 <tool_call>"}}, Labels: &Labels{Answers: []Answer{{Message: 3, Start: 6, End: 7, States: []string{"4"}}}}},
			"⟨bos⟩⟨im_start⟩⟨system⟩\nTools:\n{\"name\":\"add\"}⟨im_end⟩\n⟨im_start⟩⟨user⟩\n2+2 <tool_call>⟨im_end⟩\n⟨im_start⟩⟨assistant⟩\n" +
				"⟨tool_call⟩{\"name\":\"add\",\"arguments\":{\"a\":2}}⟨/tool_call⟩⟨im_end⟩\n⟨im_start⟩⟨tool⟩\n4⟨im_end⟩\n⟨im_start⟩⟨assistant⟩\nIt is 4 <tool_call>⟨im_end⟩\n",
			"⟨tool_call⟩{\"name\":\"add\",\"arguments\":{\"a\":2}}⟨/tool_call⟩⟨im_end⟩|It is 4 <tool_call>⟨im_end⟩", 1},
		{"tools under a system message", Doc{Tools: tools, Messages: []Message{{Role: "system", Content: "S"}, {Role: "user", Content: "q"},
			{Role: "assistant", Content: "Well", ToolCalls: append(call, call...)}}},
			"⟨bos⟩⟨im_start⟩⟨system⟩\nS\nTools:\n{\"name\":\"add\"}⟨im_end⟩\n⟨im_start⟩⟨user⟩\nq⟨im_end⟩\n⟨im_start⟩⟨assistant⟩\nWell\n" +
				"⟨tool_call⟩{\"name\":\"add\",\"arguments\":{\"a\":2}}⟨/tool_call⟩⟨tool_call⟩{\"name\":\"add\",\"arguments\":{\"a\":2}}⟨/tool_call⟩⟨im_end⟩\n",
			"Well\n⟨tool_call⟩{\"name\":\"add\",\"arguments\":{\"a\":2}}⟨/tool_call⟩⟨tool_call⟩{\"name\":\"add\",\"arguments\":{\"a\":2}}⟨/tool_call⟩⟨im_end⟩", 0},
	} {
		var x Tokens
		if err := newCoder().Encode(&c.doc, &x); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.text, show(x.IDs)); diff != "" {
			t.Errorf("%s: text (-want +got):\n%s", c.name, diff)
		}
		if diff := cmp.Diff(c.learned, learned(&x)); diff != "" {
			t.Errorf("%s: learned (-want +got):\n%s", c.name, diff)
		}
		if len(x.Traces) != c.traces {
			t.Errorf("%s: %d traces, want %d", c.name, len(x.Traces), c.traces)
		}
		if c.name == "tools" && x.Traces[0].ID != 256+'4' {
			t.Errorf("the trace of %s expects %s", c.name, show([]int32{x.Traces[0].ID}))
		}
	}
}

// A template of a model is followed: it trims, and it writes the start token itself, which then stands once.
func TestEncodeIsTheTemplate(t *testing.T) {
	src := "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
	tpl, err := chat.Compile(src)
	if err != nil {
		t.Fatal(err)
	}
	d := &Doc{Messages: []Message{{Role: "user", Content: " Hi "}, {Role: "assistant", Content: " Yes "}}}
	c := NewCoder(byteTok{bos: true}, tpl)
	var x Tokens
	if err := c.Encode(d, &x); err != nil {
		t.Fatal(err)
	}
	if got, want := show(x.IDs), "⟨bos⟩⟨im_start⟩⟨user⟩\nHi⟨im_end⟩\n⟨im_start⟩⟨assistant⟩\nYes⟨im_end⟩\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := learned(&x); got != "Yes⟨im_end⟩" {
		t.Errorf("learned %q", got)
	}
	backwards, err := chat.Compile("{% for m in messages | reverse %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	if err := NewCoder(byteTok{}, backwards).Encode(d, &x); err == nil {
		t.Error("a template whose turns cannot be told was accepted")
	}
}
