package web

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-rod/rod/lib/input"
	"github.com/go-rod/rod/lib/proto"

	httpserve "tinyloop/internal/serve"
	"tinyloop/internal/servetest"
)

// canned lets the server answer chats with what say gives for the latest question, in pieces with a pause after each, and everything else as it does.
func (s *server) canned(t *testing.T, pause time.Duration, say func(question string) []string) {
	t.Helper()
	inner := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/chat/completions" {
			inner.ServeHTTP(w, r)
			return
		}
		s.record(r)
		b := s.sent(t)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, piece := range say(b.Messages[len(b.Messages)-1].Content) {
			chunk, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{"content": piece}}}})
			fmt.Fprintf(w, "data: %s\n\n", chunk)
			w.(http.Flusher).Flush()
			time.Sleep(pause)
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	})
}

// in cuts a text into pieces of n bytes at the most, between characters.
func in(n int, s string) (pieces []string) {
	for len(s) > n {
		k := n
		for s[k]&0xC0 == 0x80 {
			k--
		}
		pieces, s = append(pieces, s[:k]), s[k:]
	}
	return append(pieces, s)
}

// alive sees that the page still does what a person asks of it: a letter typed stands in the box.
func (p *page) alive(when string) {
	p.t.Helper()
	p.MustElement("#question").MustInput("x")
	p.wait(`() => document.getElementById('question').value.includes('x')`)
	p.MustElement("#question").MustSelectAllText().MustInput("")
	if n := p.count(".trouble"); n != 0 {
		p.t.Errorf("%s: %d errors are shown: %s", when, n, p.text(".trouble"))
	}
}

// Texts that are made to break the parser or to take it forever are shown all the same, and the page goes on; what looks like code is still code.
func TestHostileMarkdown(t *testing.T) {
	many := func(s string, n int) string { return strings.Repeat(s, n) }
	var stairs strings.Builder // lists in lists, each line deeper
	for k := range 150 {
		stairs.WriteString(many("  ", k) + "- item\n")
	}
	plain := map[string]string{ // what takes the parser long: shown as it is
		"quotes in quotes":   many("> ", 4000) + "deep",
		"lists in one line":  many("- ", 4000) + "deep",
		"numbers in numbers": many("1. ", 2000) + "deep",
		"open brackets":      many("[", 8000),
		"links in links":     many("[a](", 4000),
		"stars":              many("*a **b ", 2000),
		"underscores":        many("_a __b ", 2000),
		"backticks":          many("`` ` ", 3000),
		"tildes":             many("~~a~ ", 3000),
		"blanks":             "a" + many(" ", 20000) + "b",
		"long list":          many("- a\n\n", 4000),
	}
	parsed := strings.Join([]string{
		stairs.String(), many("```\n", 500), many("<a ", 500), many("<!--", 500), many("&#x41;&amp;&", 1000), many("|", 1000) + "\n" + many("|-", 1000) + "\n" + many("|", 1000),
		many("http://a.example/", 1000), many("\\", 4000), "text\t\t\tx", many("# ", 1000), many("a\n=", 1000),
		"a\x00b\x01\x1b[31mred\u2028\u2029\ufeff\ufffe end", "```js\nlet a = '<b>'\n" + many("line\n", 200),
	}, "\n\n")
	attacks := map[string]string{"parsed": parsed}
	maps.Copy(attacks, plain)
	s := serve(t, servetest.Options{})
	s.canned(t, 0, func(q string) []string { return in(3000, attacks[q]) })
	p := open(t, s.URL, look{})
	for _, name := range slices.Sorted(maps.Keys(attacks)) {
		p.say(name)
		p.wait(`q => document.querySelector('.question')?.innerText.includes(q) && document.querySelector('.answer') && !document.querySelector('[aria-busy=true]')`, name)
		p.alive(name)
		if got := p.MustEval(`() => document.querySelector('.answer .text')?.textContent.length ?? 0`).Int(); got < 2000 {
			t.Errorf("%s: %d characters are shown", name, got)
		}
		if got := p.MustEval(`() => [...document.querySelectorAll('.answer .text *')].every((e) => e.matches('p, br'))`).Bool(); got != (name != "parsed") {
			t.Errorf("%s: parsed %v", name, !got)
		}
		if wide := p.MustEval(`() => document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth`).Int(); wide > 0 {
			t.Errorf("%s: the page is %d px too wide", name, wide)
		}
		p.press("New conversation")
	}
	attacks["code"] = "Here:\n\n```c\n" + many("a[i] = *p_q * b_c[j];\n", 300) + "```\n\n**done**"
	p.say("code")
	p.answered()
	if p.count(".answer pre") != 1 || p.text(".answer strong") != "done" {
		t.Errorf("a long piece of code is shown as %.200s", p.text(".answer .text"))
	}
}

// An answer of a hundred thousand characters comes whole, and while it comes the page can be used.
func TestLongAnswer(t *testing.T) {
	var b strings.Builder
	for k := range 1700 {
		fmt.Fprintf(&b, "%d. A *sentence* of an answer that does not **end** for long.\n\n", k)
	}
	b.WriteString("the end of it")
	s := serve(t, servetest.Options{})
	s.canned(t, time.Millisecond, func(string) []string { return in(100, b.String()) })
	p := open(t, s.URL, look{})
	p.say("Write")
	p.wait(`() => (document.querySelector('.live')?.innerText ?? '').length > 2000`)
	p.alive("while it writes")
	p.answered()
	p.see("the end of it")
	if got := p.MustEval(`() => document.querySelector('.answer .text').textContent.length`).Int(); got < 80_000 {
		t.Errorf("%d characters are shown", got)
	}
	if got := p.MustEval(`() => document.querySelector('[role=status]').textContent.length`).Int(); got < 2000 || got > 2100 {
		t.Errorf("%d characters are told to screen readers", got)
	}
	p.MustReload()
	p.see("the end of it")
}

// Text from right to left stands at the right, each paragraph by its own; accents piled high and endless words stay in their place.
func TestScripts(t *testing.T) {
	s := serve(t, servetest.Options{})
	zalgo := "z" + strings.Repeat("\u0301\u0316\u035c", 400)
	s.canned(t, 0, func(string) []string {
		return in(500, "مرحبا بالعالم\n\nplain words\n\n- שלום\n\n"+zalgo+"\n\n"+strings.Repeat("w", 5000)+"\n\n\u202eover\n\nafter")
	})
	p := open(t, s.URL, look{width: 400, height: 700})
	p.say("من هو فوج؟")
	p.answered()
	side := `s => {
	  const e = [...document.querySelectorAll('.question, .text p, .text li')].find((x) => x.innerText.includes(s));
	  const r = document.createRange();
	  r.selectNodeContents(e);
	  const words = r.getBoundingClientRect(), all = e.getBoundingClientRect();
	  return words.left - all.left > all.right - words.right ? 'right' : 'left';
	}`
	for text, want := range map[string]string{"فوج": "right", "مرحبا": "right", "plain": "left", "שלום": "right", "after": "left"} {
		if got := p.MustEval(side, text).Str(); got != want {
			t.Errorf("%s stands at the %s", text, got)
		}
	}
	if got := p.MustEval(`() => getComputedStyle(document.querySelector('.turn')).overflowY`).Str(); got != "clip" {
		t.Errorf("accents may cover the rest of the page: overflow %s", got)
	}
	if wide := p.MustEval(`() => document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth`).Int(); wide > 0 {
		t.Errorf("the page is %d px too wide", wide)
	}
	p.shot("scripts")
}

// Headings of an answer stand below those of the page, tasks keep their boxes, wide tables scroll by themselves.
func TestStructure(t *testing.T) {
	s := serve(t, servetest.Options{})
	s.canned(t, 0, func(string) []string {
		return []string{"# One\n\n### Three\n\n- [x] done\n- [ ] to do\n\n|" + strings.Repeat(" column |", 40) + "\n|" + strings.Repeat("---|", 40) + "\n|" + strings.Repeat(" cell |", 40) + "\n"}
	})
	p := open(t, s.URL, look{width: 320, height: 640})
	p.say("Build")
	p.answered()
	if found := p.MustEval(audit).Str(); found != "" {
		t.Error(found)
	}
	if got := p.text(".answer .text ul"); !strings.Contains(got, "☑ done") || !strings.Contains(got, "☐ to do") {
		t.Errorf("tasks: %q", got)
	}
	if got := p.MustEval(`() => ['One', 'Three'].map((s) => [...document.querySelectorAll('.text *')].find((e) => e.innerText === s).tagName).join()`).Str(); got != "H4,H6" {
		t.Errorf("headings %s", got)
	}
	if got := p.MustEval(`() => { const f = document.querySelector('figure'); return document.scrollingElement.scrollWidth > innerWidth ? 'page' : f.scrollWidth > f.clientWidth ? 'table' : 'none' }`).Str(); got != "table" {
		t.Errorf("what scrolls: %s", got)
	}
	p.shot("structure-320")
}

// A double click on Send sends once and stops nothing; a later press on Stop does.
func TestDoubleClick(t *testing.T) {
	s := serve(t, servetest.Options{Say: []string{"on ", "and "}, Endless: true, Context: 4096})
	s.Model.SetDelay(2 * time.Millisecond)
	p := open(t, s.URL, look{})
	p.MustElement("#question").MustInput("Go on")
	at := p.MustElement(".go").MustShape().OnePointInside()
	p.Mouse.MustMoveTo(at.X, at.Y)
	must(t, p.Mouse.Click(proto.InputMouseButtonLeft, 1))
	must(t, p.Mouse.Click(proto.InputMouseButtonLeft, 2))
	p.wait(`() => (document.querySelector('.live')?.innerText ?? '').length > 40`)
	time.Sleep(500 * time.Millisecond) // longer than a double click takes
	if h := s.Engine.Health(); h.Running != 1 || len(s.bodies) != 1 {
		t.Fatalf("%d answers run after %d requests", h.Running, len(s.bodies))
	}
	must(t, p.Mouse.Click(proto.InputMouseButtonLeft, 1))
	p.answered()
	p.see("stopped")
	s.Idle()
}

// Keys that an input method takes are its own: Enter chooses characters and sends nothing, Escape stops nothing.
func TestInputMethod(t *testing.T) {
	s := serve(t, servetest.Options{Say: []string{"on ", "and "}, Endless: true, Context: 4096})
	s.Model.SetDelay(2 * time.Millisecond)
	p := open(t, s.URL, look{})
	p.MustElement("#question").MustFocus()
	must(t, proto.InputImeSetComposition{Text: "にほん", SelectionStart: 3, SelectionEnd: 3}.Call(p))
	key := `(key, how) => document.getElementById('question').dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...how }))`
	p.MustEval(key, "Enter", map[string]any{"isComposing": true})
	p.MustEval(key, "Enter", map[string]any{"keyCode": 229}) // Safari's way to say it
	must(t, proto.InputInsertText{Text: "日本"}.Call(p))
	time.Sleep(50 * time.Millisecond)
	if s.last() != "" {
		t.Fatalf("sent while composing: %s", s.last())
	}
	p.MustElement("#question").MustType(input.Enter)
	p.wait(`() => (document.querySelector('.live')?.innerText ?? '').length > 20`)
	if got := s.sent(t).said(); got != "user: 日本" {
		t.Errorf("sent %q", got)
	}
	p.MustEval(key, "Escape", map[string]any{"isComposing": true})
	p.MustEval(key, "Escape", map[string]any{"keyCode": 229})
	time.Sleep(50 * time.Millisecond)
	if s.Engine.Health().Running != 1 {
		t.Error("Escape of an input method stopped the answer")
	}
	must(t, p.Keyboard.Type(input.Escape))
	p.answered()
	s.Idle()
}

// Without storage the page works and says that it keeps nothing.
func TestStorageDenied(t *testing.T) {
	s := serve(t, servetest.Options{})
	p := open(t, s.URL, look{before: `Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('denied', 'SecurityError') } })`})
	p.see("The browser keeps nothing")
	p.say("One")
	p.answered()
	p.say("Two")
	p.answered()
	if got := s.sent(t).said(); got != "user: One | assistant: hello | user: Two" {
		t.Errorf("sent %q", got)
	}
	p.press("Delete One")
	p.press("Really? One")
	p.see("Ask it something.")
}

// When storage is full the oldest conversations make room; when nothing can, the page says so and goes on.
func TestStorageFull(t *testing.T) {
	s := serve(t, servetest.Options{Context: 8192})
	p := open(t, s.URL, look{})
	fill := `() => {
	  let room = 0;
	  for (let n = 8 << 20; n >= 16; n >>= 1) try { localStorage.setItem('other' + n, 'x'.repeat(n)); room += n } catch {}
	  return room;
	}`
	p.say("Old " + strings.Repeat("word ", 600))
	p.answered()
	p.press("New conversation")
	if room := p.MustEval(fill).Int(); room < 1<<20 {
		t.Fatalf("only %d characters of room", room)
	}
	p.say("New " + strings.Repeat("word ", 300))
	p.answered()
	kept := `() => Object.keys(localStorage).filter((k) => k.startsWith('tinyloop.conversation.')).map((k) => JSON.parse(localStorage[k]).title.slice(0, 3)).join()`
	if got := p.MustEval(kept).Str(); got != "New" {
		t.Errorf("kept: %s", got)
	}
	if p.count(".side li") != 2 || strings.Contains(p.text(".side"), "keeps nothing") {
		t.Errorf("the column says %q", p.text(".side"))
	}
	p.MustEval(fill)
	p.say("More " + strings.Repeat("word ", 600))
	p.answered()
	p.see("The browser keeps nothing")
	p.MustEval(`() => Object.keys(localStorage).filter((k) => k.startsWith('other')).forEach((k) => localStorage.removeItem(k))`)
	p.say("Room")
	p.answered()
	p.wait(`() => !document.querySelector('.side').innerText.includes('keeps nothing')`)
	p.MustReload()
	p.see("Room")
}

// What stands in the storage may be anything: the page takes what it can read and throws nothing away.
func TestStorageJunk(t *testing.T) {
	s := serve(t, servetest.Options{})
	junk, _ := json.Marshal(map[string]string{
		"tinyloop.settings":       `{"loops":null,"temperature":"hot","system":5,"theme":7,"language":"xx","maxTokens":-1,"seed":1e99,"kind":"sing","model":[]}`,
		"tinyloop.conversation.a": `{"id":"a","title":5,"from":99,"turns":[null,{"id":"t","question":"Old?","answers":[{"text":"yes","stats":{"tokens_per_second":"x","warnings":3},"loops":-4},5,{"loops":9}],"shown":77},{"question":1}]}`,
		"tinyloop.conversation.b": `{"id":1}`, "tinyloop.conversation.c": `nonsense`, "tinyloop.conversation.d": `[]`, "tinyloop.conversation.e": `{"id":"e","turns":[]}`, "tinyloop": "{",
	})
	p := open(t, s.URL, look{before: `for (const [k, v] of Object.entries(` + string(junk) + `)) localStorage[k] ??= v`})
	p.see("Old?")
	if got := p.text(".answer .text"); got != "yes" {
		t.Errorf("the answer is %q", got)
	}
	p.say("New?")
	p.answered()
	if got := s.sent(t); got.said() != "user: Old? | assistant: yes | user: New?" || *got.Loops != 4 || *got.Temperature != 0 {
		t.Errorf("sent %s", s.last())
	}
	if got := p.MustEval(`() => localStorage['tinyloop.conversation.c']`).Str(); got != "nonsense" {
		t.Errorf("an entry that it cannot read became %q", got)
	}
}

// Two tabs keep each other's conversations and settings, also in one conversation, also while an answer is written.
func TestTwoTabs(t *testing.T) {
	s := serve(t, servetest.Options{Say: []string{"on ", "and "}, Endless: true, Context: 4096})
	s.Model.SetDelay(2 * time.Millisecond)
	b, err := shared()
	must(t, err)
	inc := b.MustIncognito()
	t.Cleanup(func() { inc.Close() })
	p := openIn(t, inc, s.URL, look{})
	p.say("First matter")
	p.wait(`() => (document.querySelector('.live')?.innerText ?? '').length > 20`)
	q := openIn(t, inc, s.URL, look{})
	q.see("First matter")
	q.say("Asked beside it") // in the same conversation
	q.wait(`() => (document.querySelector('.live')?.innerText ?? '').length > 20`)
	p.see("Asked beside it")
	p.see("Writing…")
	p.MustActivate() // a tab behind others takes no keys
	must(t, p.Keyboard.Type(input.Escape))
	p.wait(`() => !document.querySelector('[aria-busy=true]')`)
	q.wait(`() => document.querySelector('.turn .text')?.innerText.includes('and and')`)
	q.MustActivate()
	must(t, q.Keyboard.Type(input.Escape))
	q.answered()
	q.press("New conversation")
	q.say("Second matter")
	q.wait(`() => (document.querySelector('.live')?.innerText ?? '').length > 20`)
	must(t, q.Keyboard.Type(input.Escape))
	q.answered()
	p.wait(`() => document.querySelectorAll('.side li').length === 2 && [...document.querySelectorAll('.turn .text')].filter((e) => e.innerText.includes('and and')).length === 2`)
	q.press("Dark")
	p.wait(`() => document.documentElement.dataset.theme === 'dark'`)
	p.MustActivate()
	p.press("Langue : français")
	q.see("Nouvelle conversation")
	if p.MustEval(`() => document.documentElement.dataset.theme`).Str() != "dark" {
		t.Error("one tab's setting took the other's away")
	}
	q.MustActivate()
	q.press("Supprimer First matter")
	q.press("Vraiment\u202f? First matter")
	p.wait(`() => document.querySelectorAll('.side li').length === 1`)
	r := openIn(t, inc, s.URL, look{})
	r.see("Second matter")
	if r.count(".side li") != 1 || r.count(".turn") != 1 {
		t.Errorf("%d conversations, %d turns are kept", r.count(".side li"), r.count(".turn"))
	}
	s.Idle()
}

// fixed starts a server over a scripted model at an address, "" for any.
func fixed(t *testing.T, addr string, o servetest.Options) *server {
	t.Helper()
	s := &server{World: servetest.New(t, o)}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			s.record(r)
		}
		s.World.Server.Handler().ServeHTTP(w, r)
	})
	s.Server = httptest.NewUnstartedServer(h)
	if addr != "" {
		var err error
		s.Listener.Close()
		s.Listener, err = net.Listen("tcp", addr)
		must(t, err)
	}
	s.Start()
	t.Cleanup(s.Server.Close)
	return s
}

// A server that goes in the middle of an answer and comes back with another model, of fewer loops: the page says what happened, and goes on with what is there.
func TestRestart(t *testing.T) {
	s := fixed(t, "", servetest.Options{Say: []string{"on "}, Endless: true, Context: 4096})
	s.Model.SetDelay(2 * time.Millisecond)
	p := open(t, s.URL, look{})
	p.MustElement("#loops").MustFocus().MustType(input.End)
	p.say("Go on")
	p.wait(`() => (document.querySelector('.live')?.innerText ?? '').length > 20`)
	addr := s.Listener.Addr().String()
	s.Listener.Close()
	s.CloseClientConnections()
	p.see("The connection broke")
	p.press("Try again")
	p.see("The server cannot be reached.")
	s.Server.Close()
	next := fixed(t, addr, servetest.Options{Say: []string{"other"}, Name: "second"})
	p.press("Try again")
	p.wait(`() => document.querySelector('.answer .text')?.innerText === 'other'`)
	if got := next.sent(t); got.Model != "second" || got.said() != "user: Go on" || p.count("[role=alert]") != 0 {
		t.Errorf("sent %s", next.last())
	}
	p.say("And on")
	p.answered()
	if got := next.sent(t).said(); got != "user: Go on | assistant: other | user: And on" {
		t.Errorf("sent %q", got)
	}
}

// A model that is no longer there, or takes fewer loops than were chosen for one of its name.
func TestOtherModel(t *testing.T) {
	s := serve(t, servetest.Options{})
	p := open(t, s.URL, look{before: `localStorage['tinyloop.settings'] ??= JSON.stringify({ model: 'scripted', loops: { scripted: 500, constructor: 3 } })`})
	if got := p.MustEval(`() => document.getElementById('loops').value`).Str(); got != "8" {
		t.Errorf("the slider stands at %s", got)
	}
	p.say("Hi")
	p.answered()
	if b := s.sent(t); *b.Loops != 8 || p.text(".answer .text") != "hello" {
		t.Errorf("sent %s", s.last())
	}
	inner, gone := s.Config.Handler, true
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gone && r.Method == http.MethodPost {
			gone = false
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":{"message":"no model <b>scripted</b>","type":"invalid_request_error","code":"model_not_found"}}`)
			return
		}
		inner.ServeHTTP(w, r)
	})
	p.say("Still there?")
	p.answered()
	p.see("The server no longer has that model.")
	p.see("no model <b>scripted</b>")
	p.press("Try again")
	p.wait(`() => document.querySelector('.turn:last-of-type .text')?.innerText === 'hello'`)
}

// Silence with pings is patience; silence without is a dead server, and the page says so. Its seconds pass quickly here.
func TestSilence(t *testing.T) {
	fast := look{before: `{ const slow = setInterval; window.setInterval = (f, ms, ...more) => slow(f, ms === 1000 ? 40 : ms, ...more) }`}
	s := serve(t, servetest.Options{Serve: pinging(20 * time.Millisecond)})
	p := open(t, s.URL, fast)
	thaw := s.Model.Freeze()
	p.say("Slow?")
	time.Sleep(2 * time.Second) // longer than its patience
	if p.count("[aria-busy=true]") != 1 {
		t.Error("the page gave up on a server that says it is there")
	}
	thaw()
	p.answered()
	if p.text(".answer .text") != "hello" {
		t.Errorf("answered %q", p.text(".answer .text"))
	}
	s = serve(t, servetest.Options{Serve: pinging(time.Hour)})
	p = open(t, s.URL, fast)
	thaw = s.Model.Freeze()
	p.say("Dead?")
	p.see("The connection broke")
	thaw()
	p.press("Try again")
	p.wait(`() => document.querySelector('.answer .text')?.innerText === 'hello'`)
	s.Idle()
}

func pinging(ping time.Duration) httpserve.Config { return httpserve.Config{PingEvery: ping} }

// Stop before the first token has come stops the computing too.
func TestStopEarly(t *testing.T) {
	s := serve(t, servetest.Options{})
	p := open(t, s.URL, look{})
	thaw := s.Model.Freeze()
	p.say("Hi")
	p.see("Reading your question…")
	must(t, p.Keyboard.Type(input.Escape))
	p.answered()
	p.see("stopped")
	thaw()
	s.Idle()
	p.press("Again")
	p.wait(`() => document.querySelector('.answer .text')?.innerText === 'hello'`)
}

// An error in drawing leaves a page that says so, and lets go of what is kept.
func TestBroken(t *testing.T) {
	s := serve(t, servetest.Options{})
	p := open(t, s.URL, look{})
	p.MustEval(`() => { Number.prototype.toLocaleString = () => { throw new Error('planted') } }`)
	p.say("Hi")
	p.see("Something went wrong on this page.")
	p.see("planted")
	p.press("Delete what the browser keeps of it, and load it again")
	p.see("Ask it something.")
	if p.count(".side li") != 0 {
		t.Error("what was kept is still there")
	}
	p.mu.Lock()
	p.errors = nil // the planted one
	p.mu.Unlock()
}

// The keyboard is never lost: where the control that has it goes, the question box gets it; what opens takes it, and gives it back.
func TestFocus(t *testing.T) {
	s := serve(t, servetest.Options{Say: []string{"on ", "and "}, Endless: true, Context: 4096})
	s.Model.SetDelay(2 * time.Millisecond)
	p := open(t, s.URL, look{})
	has := func(when, want string) {
		t.Helper()
		if !p.MustEval(`s => new Promise((done) => {
		  const from = performance.now(), look = () => document.activeElement?.matches(s) ? done(true) : performance.now() - from > 2000 ? done(false) : setTimeout(look, 10);
		  look();
		})`, want).Bool() {
			t.Errorf("%s: the focus is on %s", when, p.MustEval(`() => document.activeElement?.outerHTML.slice(0, 80)`).Str())
		}
	}
	push := func(selector string) {
		t.Helper()
		p.wait(`s => { const e = document.querySelector(s); if (e) e.focus(); return document.activeElement === e && e !== null }`, selector)
		must(t, p.Keyboard.Type(input.Enter))
	}
	p.MustElement("#question").MustInput("Go on")
	push(".go[type=submit]")
	p.wait(`() => (document.querySelector('.live')?.innerText ?? '').length > 20`)
	has("sent by button", "#question")
	push(".go.stop")
	p.answered()
	has("stopped by button", "#question")
	s.CloseClientConnections()
	p.say("More")
	p.wait(`() => (document.querySelector('.live')?.innerText ?? '').length > 20`)
	s.CloseClientConnections()
	p.see("The connection broke")
	push(".trouble button:last-of-type")
	has("tried again", "#question")
	must(t, p.Keyboard.Type(input.Escape))
	p.answered()
	push("summary")
	p.wait(`() => document.querySelector('.settings').open`)
	p.MustElement("#seed").MustFocus()
	must(t, p.Keyboard.Type(input.Escape))
	has("settings closed", "summary")
	if p.MustEval(`() => document.querySelector('.settings').open`).Bool() {
		t.Error("Escape leaves the settings open")
	}
	push(".side .sure")
	must(t, p.Keyboard.Type(input.Enter))
	has("deleted", "#question")

	p = open(t, s.URL, look{width: 360, height: 700})
	push(".top button")
	has("drawer open", ".side .new")
	if !p.MustEval(`() => document.querySelector('main').inert`).Bool() {
		t.Error("what lies behind the drawer can be reached")
	}
	must(t, p.Keyboard.Type(input.Escape))
	has("drawer closed", ".top button")
	must(t, p.Keyboard.Type(input.Enter))
	has("drawer open again", ".side .new")
	must(t, p.Keyboard.Type(input.Enter))
	has("a new conversation", "#question")
	s.Idle()
}

// What a screen reader is told: roles, names and states, from the browser's own accessibility tree.
func TestRoles(t *testing.T) {
	s := serve(t, servetest.Options{})
	p := open(t, s.URL, look{})
	p.say("Hi")
	p.answered()
	tree, err := proto.AccessibilityGetFullAXTree{}.Call(p)
	must(t, err)
	got := map[string]bool{}
	for _, n := range tree.Nodes {
		if n.Ignored || n.Role == nil {
			continue
		}
		name := ""
		if n.Name != nil {
			name = n.Name.Value.Str()
		}
		got[n.Role.Value.Str()+" "+name] = true
	}
	for _, want := range []string{"main ", "complementary Conversations", "navigation Conversations", "textbox Your question", "slider Loops", "button Send", "button Delete Hi", "button New conversation",
		"heading Hi", "heading You: Hi", "heading Answer", "article ", "status ", "button Copy", "button Again", "radio Dark"} {
		if !got[want] {
			t.Errorf("no %q in the tree", want)
		}
	}
	if t.Failed() {
		t.Logf("%v", got)
	}
}

// In a low window, as on a phone that lies on its side or under large zoom, nothing covers the text, and the settings can be reached whole.
func TestLow(t *testing.T) {
	s := serve(t, servetest.Options{})
	for _, l := range []look{{width: 320, height: 256}, {width: 320, height: 568}, {width: 1280, height: 560}} {
		p := open(t, s.URL, l)
		p.say("Hi")
		p.answered()
		name := fmt.Sprintf("low-%dx%d", l.width, l.height)
		if at := p.MustEval(`() => {
		  const e = document.querySelector('summary');
		  e.scrollIntoView({ block: 'nearest' });
		  const r = e.getBoundingClientRect(), corners = [[r.left + 2, r.top + 2], [r.right - 2, r.bottom - 2], [(r.left + r.right) / 2, (r.top + r.bottom) / 2]];
		  return corners.map(([x, y]) => document.elementFromPoint(x, y)).filter((x) => x !== e).map((x) => x?.outerHTML.slice(0, 60)).join();
		}`).Str(); at != "" {
			t.Errorf("%s: over the button for the settings lies %s", name, at)
		}
		p.press("Settings")
		p.wait(`() => document.querySelector('.settings').open`)
		p.shot(name)
		if got := p.MustEval(`() => {
		  for (const id of ['temperature', 'max-tokens', 'seed', 'system']) {
		    const e = document.getElementById(id);
		    e.scrollIntoView({ block: 'nearest' });
		    const r = e.getBoundingClientRect();
		    if (r.top < -1 || r.bottom > innerHeight + 1 || r.left < 0 || r.right > innerWidth || document.elementFromPoint(r.left + 5, r.top + 5) !== e)
		      return [id, r.left, r.top, r.right, r.bottom, document.elementFromPoint(r.left + 5, r.top + 5)?.outerHTML.slice(0, 80)].join(' ');
		  }
		  return document.scrollingElement.scrollWidth > innerWidth ? 'the page is too wide' : '';
		}`).Str(); got != "" {
			t.Errorf("%s: %s cannot be reached", name, got)
		}
		p.press("Settings")
		if free := p.MustEval(`() => { const c = document.querySelector('.composer'); return getComputedStyle(c).position === 'sticky' ? innerHeight - c.getBoundingClientRect().height : innerHeight }`).Int(); free < l.height/2 {
			t.Errorf("%s: only %d px are left for the text", name, free)
		}
	}
}
