package eval

import (
	"strings"
	"testing"

	"tinyloop/internal/data"
)

func textQuestion(text, want string) *question {
	at := len(text) - len(want)
	d := &data.Doc{Text: text, Labels: &data.Labels{Family: "f", Difficulty: 1, Answers: []data.Answer{{Start: at, End: len(text)}}}}
	return &question{doc: d}
}

func chatQuestion(turn, want string, start int) *question {
	d := &data.Doc{Messages: []data.Message{{Role: "user", Content: "?"}, {Role: "assistant", Content: turn}},
		Labels: &data.Labels{Family: "f", Difficulty: 1, Answers: []data.Answer{{Message: 1, Start: start, End: start + len(want)}}}}
	return &question{doc: d, message: 1}
}

func TestJudgeText(t *testing.T) {
	for _, c := range []struct {
		want, out string
		right     bool
	}{
		{"park", " park", true},
		{"park", " park\nwhere Bob", true},
		{"park", " Park.", true},
		{"park", " parking", false},
		{"park", " the park", false},
		{"park", "", false},
		{"163", " 163\n", true},
		{"163", " 1634", false},
		{"163", " 16", false},
		{"16", " 16:30", false},
		{"16", " 16.5", false},
		{"16", " 16.", true},
		{"5 1 4 1 : 1415", " 5 1 4 1 : 1415", true},
		{"5 1 4 1 : 1415", " 5 1 4 1 : 1416", false},
		{"1, 2, 3", " 1, 2, 3.", true},
		{"1, 2, 3", " 1, 2, 3, 4.", false},
		{"44", " 44, 5", false},
		{"neuf jours", " neuf jours de bateau", true},
		{"Saint", " Saint-Denis", false},
		{"Zorg", " zorg, perhaps", true},
	} {
		q := textQuestion("before "+c.want, c.want)
		if got := q.judge(&prompt{lead: " "}, c.out); got != c.right {
			t.Errorf("want %q, out %q: %v", c.want, c.out, got)
		}
	}
}

func TestJudgeTurn(t *testing.T) {
	for _, c := range []struct {
		turn, want string
		start      int
		out        string
		right      bool
	}{
		{"Market.", "Market", 0, "Market.", true},
		{"Market.", "Market", 0, "market", true},
		{"Market.", "Market", 0, "At the market.", false}, // all of the turn: nothing else may stand there
		{"Greta is 77 years old.", "77", 9, "She is 77.", true},
		{"Greta is 77 years old.", "77", 9, "Greta is 177 years old.", false},
		{"Greta is 77 years old.", "77", 9, "Greta is 77,5", false},
		{"At 7, Savile Row, in London.", "7, Savile Row", 3, "At 7, Savile Row, in London.", true},
		{"It is May 1872.", "May 1872", 6, "May 1872, at noon.", true},
		{"Bonjour ! Comment puis-je t'aider ?", "Bonjour ! Comment puis-je t'aider ?", 0, "bonjour !  Comment puis-je t'aider ?", true},
		{"It is Rome, I think.", "Rome", 6, "Romeo, then Rome.", true},
		{"It is Rome, I think.", "Rome", 6, "Romeo", false},
		{"Je ne sais pas : non.", "Je ne sais pas", 0, "Je ne sais pas, hélas.", true},
	} {
		if got := chatQuestion(c.turn, c.want, c.start).judge(&prompt{}, c.out); got != c.right {
			t.Errorf("want %q of %q, out %q: %v", c.want, c.turn, c.out, got)
		}
	}
}

func TestJudgeCall(t *testing.T) {
	d := &data.Doc{Labels: &data.Labels{Family: "tools"}, Messages: []data.Message{{Role: "user", Content: "?"},
		{Role: "assistant", ToolCalls: []data.ToolCall{{Function: data.FunctionCall{Name: "f", Arguments: `{"a": 1}`}}}}}}
	q := &question{doc: d, message: 1, answer: call}
	for out, right := range map[string]bool{
		`<tool_call>{"name":"f","arguments":{"a":1}}</tool_call>`: true,
		`{"name":"f","arguments":{"a":1}}`:                        true,
		`{"name":"f","arguments":{"a":2}}`:                        false,
		`The answer is 1.`:                                        false,
	} {
		if q.judge(&prompt{}, out) != right {
			t.Errorf("%s: %v", out, !right)
		}
	}
}

func TestRefuses(t *testing.T) {
	for text, want := range map[string]bool{"Je ne sais pas : je ne connais pas Zorg.": true, "I DO NOT KNOW.": true, "I do not known": false, "Paris.": false} {
		if refuses(text, DefaultRefusals()) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// TestWilson compares with the values that Newcombe gives for the score interval (Statistics in Medicine 17, 1998, table I).
func TestWilson(t *testing.T) {
	for _, c := range []struct {
		k, n   int
		lo, hi float64
	}{{81, 263, 0.2553, 0.3662}, {15, 148, 0.0624, 0.1605}, {0, 20, 0, 0.1611}, {1, 29, 0.0061, 0.1718}} {
		lo, hi := Wilson(c.k, c.n)
		if abs(lo-c.lo) > 5e-5 || abs(hi-c.hi) > 5e-5 {
			t.Errorf("Wilson(%d, %d) = %.4f, %.4f, want %.4f, %.4f", c.k, c.n, lo, hi, c.lo, c.hi)
		}
		rlo, rhi := Wilson(c.n-c.k, c.n)
		if abs(rlo-(1-hi)) > 1e-12 || abs(rhi-(1-lo)) > 1e-12 {
			t.Errorf("Wilson(%d, %d) is not the mirror of its complement", c.n-c.k, c.n)
		}
	}
	if lo, hi := Wilson(0, 0); lo != 0 || hi != 1 {
		t.Errorf("Wilson(0, 0) = %g, %g", lo, hi)
	}
}

func abs(x float64) float64 { return max(x, -x) }

// TestJudgeWorld: every answer of the synthetic world is right as it stands in its document, and wrong when another one of the same family takes its
// place.
func TestJudgeWorld(t *testing.T) {
	sets, err := TinyWorld(150)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sets {
		qs, err := questions(s)
		if err != nil {
			t.Fatal(err)
		}
		known, swapped := poolsOf(qs), 0
		for i := range qs {
			q := &qs[i]
			before, after := "", ""
			if q.answer != call {
				a := q.doc.Labels.Answers[q.answer]
				before, after = q.text()[:a.Start], q.text()[a.End:]
			}
			if !q.doc.IsChat() {
				before = ""
			}
			if !q.judge(&prompt{}, before+q.want()+after) {
				t.Errorf("%s %v: %q is wrong where it stands, in %q", s.Name, q.group, q.want(), q.text())
			}
			if q.answer == call {
				continue
			}
			for _, other := range known[poolOf(q).wide()][:1] {
				x, y := squeeze(other), squeeze(q.want())
				if strings.Contains(x, y) || strings.Contains(squeeze(before+after), y) {
					continue
				}
				if swapped++; q.judge(&prompt{}, before+other+after) {
					t.Errorf("%s %v: %q is right for %q", s.Name, q.group, other, q.want())
				}
			}
		}
		if swapped < len(qs)/3 {
			t.Errorf("%s: only %d of %d answers were swapped", s.Name, swapped, len(qs))
		}
	}
}
