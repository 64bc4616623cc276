package web

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-rod/rod/lib/input"

	"tinyloop/internal/host"
	"tinyloop/internal/servetest"
)

// sent is what the page asks the server for.
type sent struct {
	Model       string
	Stream      bool
	Loops       *int
	Temperature *float64
	MaxTokens   *int `json:"max_tokens"`
	Seed        *uint64
	Prompt      string
	Messages    []struct{ Role, Content string }
}

func (s *server) sent(t *testing.T) sent {
	t.Helper()
	var b sent
	if err := json.Unmarshal([]byte(s.last()), &b); err != nil {
		t.Fatalf("%v: %s", err, s.last())
	}
	return b
}

func (b sent) said() string {
	var out []string
	for _, m := range b.Messages {
		out = append(out, m.Role+": "+m.Content)
	}
	return strings.Join(out, " | ")
}

// A question is typed and sent with Enter; the answer streams in, with what it cost, and is told to screen readers once it is whole.
func TestAnswer(t *testing.T) {
	s := serve(t, servetest.Options{Say: []string{"Inspector ", "**Fix** ", "follows ", "Fogg", "."}})
	s.Model.SetDelay(10 * time.Millisecond)
	p := open(t, s.URL, look{})
	box := p.MustElement("#question")
	if !p.MustEval(`() => document.activeElement.id === 'question'`).Bool() {
		t.Error("the question box has no focus at the start")
	}
	box.MustInput("Who is")
	box.MustType(input.Enter) // sends
	p.see("Inspector")
	p.answered()
	if got := p.text(".answer .text"); got != "Inspector Fix follows Fogg." || p.count(".answer strong") != 1 {
		t.Errorf("answer %q with %d bold words", got, p.count(".answer strong"))
	}
	foot := p.text(".foot")
	for _, want := range []string{"4 loops", "6 tokens", "first token", "tokens/s"} {
		if !strings.Contains(foot, want) {
			t.Errorf("%q is not in %q", want, foot)
		}
	}
	if got := p.text("[role=status][aria-live=polite]"); got != "Answer: Inspector **Fix** follows Fogg." {
		t.Errorf("screen readers are told %q", got)
	}
	if b := s.sent(t); b.said() != "user: Who is" || !b.Stream || *b.Loops != 4 || *b.Temperature != 0 || b.MaxTokens != nil || b.Seed != nil || b.Model != "scripted" {
		t.Errorf("asked %s", s.last())
	}
	if p.MustEval(`() => document.getElementById('question').value`).Str() != "" {
		t.Error("the box is not empty after sending")
	}
	p.say("And why?")
	p.answered()
	if want := "user: Who is | assistant: Inspector **Fix** follows Fogg. | user: And why?"; s.sent(t).said() != want {
		t.Errorf("the second question went as %q", s.sent(t).said())
	}
}

// Shift+Enter makes a line and sends nothing; blank text is not sent.
func TestLines(t *testing.T) {
	s := serve(t, servetest.Options{})
	p := open(t, s.URL, look{})
	p.say("   ")
	p.MustEval(`() => { const b = document.getElementById('question'); b.select() }`)
	p.MustElement("#question").MustInput("one")
	must(t, p.Keyboard.Press(input.ShiftLeft))
	must(t, p.Keyboard.Type(input.Enter))
	must(t, p.Keyboard.Release(input.ShiftLeft))
	p.MustElement("#question").MustInput("two")
	if s.last() != "" {
		t.Fatalf("sent too early: %s", s.last())
	}
	p.MustElement("#question").MustType(input.Enter)
	p.answered()
	if got := s.sent(t).Messages[0].Content; got != "one\ntwo" {
		t.Errorf("sent %q", got)
	}
}

// Stop, by button and by Escape, ends the computing on the server and keeps what was written.
func TestStop(t *testing.T) {
	s := serve(t, servetest.Options{Say: []string{"on ", "and "}, Endless: true, Context: 4096})
	s.Model.SetDelay(2 * time.Millisecond)
	p := open(t, s.URL, look{})
	for _, how := range []string{"button", "Escape"} {
		p.say("Go on")
		p.wait(`() => (document.querySelector('.live')?.innerText ?? '').length > 20`)
		if h := s.Engine.Health(); h.Running != 1 {
			t.Fatalf("%d answers run while one streams", h.Running)
		}
		if how == "button" {
			p.press("Stop")
		} else {
			must(t, p.Keyboard.Type(input.Escape))
		}
		p.answered()
		s.Idle()
		if got := p.text(".turn:last-of-type .foot"); !strings.Contains(got, "stopped") {
			t.Errorf("%s: the foot says %q", how, got)
		}
		if got := p.text(".turn:last-of-type .text"); !strings.Contains(got, "and") {
			t.Errorf("%s: the text is gone: %q", how, got)
		}
	}
}

// The slider goes from 1 to the most loops, marks the trained range, works by keyboard, and its value goes into the request and into the answer's line.
func TestLoops(t *testing.T) {
	s := serve(t, servetest.Options{})
	p := open(t, s.URL, look{})
	slider := p.MustElement("#loops")
	if got := p.MustEval(`() => ['min','max','value'].map(k => document.getElementById('loops')[k]).join()`).Str(); got != "1,8,4" {
		t.Errorf("min, max, value: %s", got)
	}
	p.see("trained 1–6")
	slider.MustFocus()
	for range 3 {
		slider.MustType(input.ArrowRight)
	}
	p.see("outside the trained range")
	if got := *slider.MustAttribute("aria-valuetext"); got != "7 loops, outside the trained range" {
		t.Errorf("aria-valuetext %q", got)
	}
	p.say("Hi")
	p.answered()
	if b := s.sent(t); *b.Loops != 7 || !strings.Contains(p.text(".foot"), "7 loops") {
		t.Errorf("sent %s, the foot says %q", s.last(), p.text(".foot"))
	}
	p.press("default: 4")
	p.press("Again")
	p.see("2/2")
	p.answered()
	if b := s.sent(t); *b.Loops != 4 || b.said() != "user: Hi" || !strings.Contains(p.text(".foot"), "4 loops") {
		t.Errorf("sent %s, the foot says %q", s.last(), p.text(".foot"))
	}
	p.press("Earlier answer")
	p.see("1/2")
	if !strings.Contains(p.text(".foot"), "7 loops") {
		t.Errorf("the earlier answer's foot says %q", p.text(".foot"))
	}
	p.press("Later answer")
	p.press("Again")
	p.see("Same answer as before")
	p.MustReload()
	p.wait(`() => document.getElementById('loops')?.value === '4'`)
}

// The settings go into the request, survive a reload, and absent ones are not sent.
func TestSettings(t *testing.T) {
	s := serve(t, servetest.Options{})
	p := open(t, s.URL, look{})
	if p.MustEval(`() => document.getElementById('temperature').checkVisibility()`).Bool() {
		t.Error("the settings are open at the start")
	}
	p.press("Settings")
	for id, v := range map[string]string{"temperature": "0.7", "max-tokens": "9", "seed": "42", "system": "Be brief."} {
		p.MustElement("#" + id).MustSelectAllText().MustInput(v).MustBlur()
	}
	p.MustReload()
	p.MustElement(".composer")
	p.say("Hi")
	p.answered()
	b := s.sent(t)
	if *b.Temperature != 0.7 || *b.MaxTokens != 9 || *b.Seed != 42 || b.said() != "system: Be brief. | user: Hi" {
		t.Errorf("sent %s", s.last())
	}
}

// The seeds' questions are buttons that ask; the beginning of a text is continued, not answered.
func TestExamples(t *testing.T) {
	s := serve(t, servetest.Options{})
	p := open(t, s.URL, look{})
	for _, q := range []string{"Qui est Passepartout ?", "Qui est Fix ?", "Quelle est la capitale de l'Espagne ?", "Capital of France?", "Hi", "Count to 5.", "Mia is with Tom. Tom is with Zoe. Zoe is in Oslo. Where is Mia?"} {
		p.press(q)
		p.wait(`q => document.querySelector('.question')?.innerText.includes(q)`, q)
		p.answered()
		if got := s.sent(t).said(); got != "user: "+q {
			t.Errorf("%s asks %q", q, got)
		}
		p.press("New conversation")
	}
	p.press("The meaning of life is")
	p.answered()
	if b := s.sent(t); b.Prompt != "The meaning of life is" || b.Messages != nil {
		t.Errorf("sent %s", s.last())
	}
	if got := p.text(".turn.complete .text"); got != "hello" {
		t.Errorf("continued with %q", got)
	}
}

// Conversations stay over a reload, are told apart, and are deleted at the second press only.
func TestKept(t *testing.T) {
	s := serve(t, servetest.Options{})
	p := open(t, s.URL, look{})
	p.say("First matter")
	p.answered()
	p.press("New conversation")
	p.see("Ask it something.")
	p.say("Second matter")
	p.answered()
	p.MustReload()
	p.see("Second matter")
	if p.count(".side li") != 2 || p.count(".turn") != 1 {
		t.Fatalf("%d conversations, %d turns", p.count(".side li"), p.count(".turn"))
	}
	p.press("First matter")
	p.wait(`() => document.querySelector('.question').innerText.includes('First matter')`)
	p.say("More")
	p.answered()
	if got := s.sent(t).said(); got != "user: First matter | assistant: hello | user: More" {
		t.Errorf("sent %q", got)
	}
	p.press("Delete First matter")
	if p.count(".side li") != 2 {
		t.Error("deleted at the first press")
	}
	p.press("Really? First matter")
	p.wait(`() => document.querySelectorAll('.side li').length === 1`)
	p.see("Ask it something.")
	p.say("Third matter")
	p.answered()
	p.press("Delete all")
	p.press("Really?")
	p.wait(`() => document.querySelectorAll('.side li').length === 0`)
	p.MustReload()
	p.see("Ask it something.")
	if p.count(".side li") != 0 {
		t.Error("deleted conversations are back")
	}
}

// An answer in progress when the page is left is kept as stopped, with what it said, and the server stops.
func TestLeft(t *testing.T) {
	s := serve(t, servetest.Options{Say: []string{"on ", "and "}, Endless: true, Context: 4096})
	s.Model.SetDelay(2 * time.Millisecond)
	p := open(t, s.URL, look{})
	p.say("Go on")
	p.wait(`() => (document.querySelector('.live')?.innerText ?? '').length > 20`)
	p.MustReload()
	p.see("stopped")
	s.Idle()
	if got := p.text(".answer .text"); len(got) < 20 {
		t.Errorf("of what it said, %q is left", got)
	}
}

// Every failure is told in words, in both languages, with a way on.
func TestErrors(t *testing.T) {
	t.Run("no model", func(t *testing.T) {
		s := serve(t, servetest.Options{NoModel: true})
		p := open(t, s.URL, look{})
		p.see("The server has no model loaded.")
		p = open(t, s.URL, look{french: true})
		p.see("Le serveur n’a chargé aucun modèle.")
	})
	t.Run("server gone", func(t *testing.T) {
		s := serve(t, servetest.Options{})
		p := open(t, s.URL, look{french: true})
		s.CloseClientConnections()
		s.Server.Close()
		p.say("Là ?")
		p.answered()
		p.see("Le serveur est injoignable.")
		if p.count("[role=alert]") != 1 {
			t.Error("the error is no alert")
		}
	})
	t.Run("cut while streaming", func(t *testing.T) {
		s := serve(t, servetest.Options{Say: []string{"on "}, Endless: true, Context: 4096})
		s.Model.SetDelay(2 * time.Millisecond)
		p := open(t, s.URL, look{})
		p.say("Go on")
		p.wait(`() => (document.querySelector('.live')?.innerText ?? '').length > 20`)
		s.CloseClientConnections()
		p.answered()
		p.see("The connection broke")
		if !strings.Contains(p.text(".text"), "on on") {
			t.Error("what had come is gone")
		}
		s.Idle()
	})
	t.Run("engine fails", func(t *testing.T) {
		s := serve(t, servetest.Options{})
		p := open(t, s.URL, look{})
		s.Model.PanicAt(s.Model.Calls() + 1)
		p.say("Hi")
		p.answered()
		p.see("Something went wrong inside the server.")
	})
	t.Run("window full", func(t *testing.T) {
		s := serve(t, servetest.Options{Context: 256})
		p := open(t, s.URL, look{})
		for _, q := range []string{"A", "B", "C " + strings.Repeat("word ", 43)} {
			p.say(q)
			p.answered()
		}
		p.see("The window is full")
		p.press("Leave out the oldest exchanges and try again") // as many as it takes: both
		p.see("The model no longer sees what stands above.")
		p.answered()
		if got := s.sent(t).said(); !strings.HasPrefix(got, "user: C ") {
			t.Errorf("sent %q", got)
		}
		if p.count(".faded") != 2 || !p.MustEval(`() => document.querySelector('.forgotten').nextElementSibling.innerText.includes('C word')`).Bool() {
			t.Errorf("%d turns are faded, the line stands elsewhere", p.count(".faded"))
		}
		if p.count("[role=alert]") != 0 {
			t.Error("the error is still there")
		}
	})
	t.Run("refused", func(t *testing.T) {
		s := serve(t, servetest.Options{})
		p := open(t, s.URL, look{})
		p.press("Settings")
		p.MustElement("#max-tokens").MustInput("100000").MustBlur()
		p.say("Hi")
		p.answered()
		p.see("The window is full")
		p.see("100000") // the server's own words tell the number
		p.MustElement("#max-tokens").MustSelectAllText().MustInput("5").MustBlur()
		p.press("Try again")
		p.answered()
		p.wait(`() => document.querySelector('.answer .text')?.innerText === 'hello'`)
	})
}

// The language follows the browser and can be changed; so does the theme.
func TestLanguageAndTheme(t *testing.T) {
	s := serve(t, servetest.Options{})
	p := open(t, s.URL, look{french: true})
	p.see("Posez-lui une question.")
	if lang := p.MustEval(`() => document.documentElement.lang`).Str(); lang != "fr" {
		t.Errorf("lang=%s", lang)
	}
	p.press("Language: English")
	p.see("Ask it something.")
	paper := func(p *page) string { return p.MustEval(`() => getComputedStyle(document.body).backgroundColor`).Str() }
	light := paper(p)
	p.press("Dark")
	p.wait(`c => getComputedStyle(document.body).backgroundColor !== c`, light)
	dark := paper(p)
	p.MustReload()
	p.see("Ask it something.")
	if paper(p) != dark || p.MustEval(`() => document.documentElement.lang`).Str() != "en" {
		t.Error("a reload forgets theme or language")
	}
	if q := open(t, s.URL, look{dark: true}); paper(q) != dark {
		t.Errorf("a dark system gives %s, the switch %s", paper(q), dark)
	}
}

// What a model says can neither run nor load anything.
func TestHostileAnswer(t *testing.T) {
	evil := []string{"<img src=x onerror=\"document.title='owned'\">", "<script>document.title='owned'</script>", "<svg onload=\"document.title='owned'\"></svg>", "\n\n[click](javascript:document.title='owned')",
		"\n\n![pixel](http://attacker.example/x.png)", "<iframe src=\"http://attacker.example\"></iframe><style>body{display:none}</style><form action=/v1/models><input></form>",
		"\n\n[good](https://example.org/)", " the end"}
	s := serve(t, servetest.Options{Say: evil})
	p := open(t, s.URL, look{})
	p.say("Attack")
	p.answered()
	p.see("the end")
	if got := p.text(".text"); !strings.Contains(got, "<img src=x") || !strings.Contains(got, "<script>") {
		t.Errorf("HTML is not shown as text: %q", got)
	}
	if bad := p.MustEval(`() => [...document.querySelectorAll('.text *')].map(e => e.tagName).filter(n => !['P', 'A', 'BR'].includes(n)).join()`).Str(); bad != "" {
		t.Errorf("elements %s came through", bad)
	}
	links := p.MustEval(`() => [...document.querySelectorAll('.text a')].map(a => [a.getAttribute('href'), a.rel, a.target].join(' ')).join('; ')`).Str()
	if !strings.Contains(links, "https://example.org/ noopener noreferrer _blank") || strings.Contains(links, "javascript") {
		t.Errorf("links: %s", links)
	}
	if title := p.MustInfo().Title; title != "TinyLoop" {
		t.Errorf("the title is %q", title)
	}
	p.say("<b>bold</b> question")
	p.answered()
	if got := p.text(".turn:last-of-type .question"); !strings.Contains(got, "<b>bold</b>") {
		t.Errorf("the question is shown as %q", got)
	}
}

// With several models there is a choice; a base model is asked to continue texts.
func TestModels(t *testing.T) {
	s := serve(t, servetest.Options{})
	other := servetest.New(t, servetest.Options{Say: []string{"other"}, Name: "second"})
	must(t, s.Host.Add(&host.Model{Generator: other.Gen, Name: "second"}))
	p := open(t, s.URL, look{})
	p.press("Settings")
	p.MustElement("#model").MustSelect("second")
	p.say("Hi")
	p.answered()
	if b := s.sent(t); b.Model != "second" || p.text(".answer .text") != "other" {
		t.Errorf("sent %s, answered %q", s.last(), p.text(".answer .text"))
	}
	p.MustReload()
	p.wait(`() => document.querySelector('.which')?.innerText === 'second'`)
}

// On narrow screens nothing is wider than the screen, and the side column is a drawer.
func TestPhone(t *testing.T) {
	s := serve(t, servetest.Options{Say: []string{"A", strings.Repeat("longwordwithoutend", 20), "\n\n```\n", strings.Repeat("code ", 60), "\n```\n"}, Context: 4096})
	for _, w := range []int{320, 390} {
		p := open(t, s.URL, look{width: w, height: 700})
		fits := func(when string) {
			t.Helper()
			if got := p.MustEval(`() => document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth`).Int(); got > 0 {
				t.Errorf("%d px, %s: %d px too wide", w, when, got)
			}
		}
		fits("empty")
		p.say("A question with " + strings.Repeat("w", 200))
		p.answered()
		fits("answered")
		p.press("Settings")
		fits("settings")
		p.press("Settings")
		if p.MustElement(".side .new").MustVisible() {
			t.Error("the drawer is open at the start")
		}
		p.press("Menu")
		p.press("New conversation")
		p.see("Ask it something.")
		p.wait(`() => getComputedStyle(document.querySelector('.side')).visibility === 'hidden'`)
	}
}

// Long answers are followed to their end, unless the reader scrolls up.
func TestFollow(t *testing.T) {
	var say []string
	for i := range 60 {
		say = append(say, fmt.Sprintf("paragraph %d\n\n", i))
	}
	s := serve(t, servetest.Options{Say: say, Context: 4096})
	s.Model.SetDelay(time.Millisecond)
	p := open(t, s.URL, look{})
	p.say("Write")
	p.see("paragraph 59")
	p.answered()
	if left := p.MustEval(`() => { const e = document.scrollingElement; return e.scrollHeight - e.scrollTop - e.clientHeight }`).Int(); left > 4 {
		t.Errorf("the end is %d px below", left)
	}
	s.Model.SetDelay(3 * time.Millisecond)
	p.press("New conversation")
	p.say("Write again")
	p.see("paragraph 20")
	p.MustEval(`() => { document.scrollingElement.scrollTop = 0 }`)
	p.see("paragraph 59")
	p.answered()
	if top := p.MustEval(`() => document.scrollingElement.scrollTop`).Int(); top > 4 {
		t.Errorf("the reader at the top was pulled down to %d px", top)
	}
}
