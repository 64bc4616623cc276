// Package web drives the page in a real browser, Debian's Chromium, against the real server: over a scripted model where the answer must be known,
// and over the real binary with real models.
package web

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-rod/rod"
	"github.com/go-rod/rod/lib/input"
	"github.com/go-rod/rod/lib/launcher"
	"github.com/go-rod/rod/lib/proto"

	"tinyloop/internal/servetest"
)

var shots = flag.String("shots", "", "folder for screenshots; empty = none")

// chromium is where Debian and others install it.
func chromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// shared is the one browser of all tests; each page has a storage of its own.
var shared = sync.OnceValues(func() (*rod.Browser, error) {
	l := launcher.New().Bin(chromium()).Leakless(false).NoSandbox(true).Headless(true)
	for _, f := range []string{"disable-gpu", "disable-quic", "disable-component-update", "disable-background-networking", "disable-dev-shm-usage"} {
		l = l.Set(flagName(f))
	}
	url, err := l.Launch()
	if err != nil {
		return nil, err
	}
	b := rod.New().ControlURL(url)
	return b, b.Connect()
})

func TestMain(m *testing.M) {
	flag.Parse()
	if chromium() == "" {
		fmt.Println("SKIP: there is no Chromium on this machine")
		return
	}
	b, err := shared()
	if err != nil {
		fmt.Println("the browser does not start:", err)
		os.Exit(1)
	}
	code := m.Run()
	b.Close()
	os.Exit(code)
}

// look says how a browser is set up. The zero value is a desktop window, English, light.
type look struct {
	french, dark  bool
	width, height int
	before        string // JavaScript that runs before the page's own, at every load
}

// page is an open page whose errors are collected.
type page struct {
	*rod.Page
	t      *testing.T
	mu     sync.Mutex
	errors []string
	asked  []string // hosts that were asked for something
}

// open loads the page of a server. At the end of the test it must have run without an error, a breach of the content policy or a call elsewhere.
func open(t *testing.T, base string, l look) *page {
	t.Helper()
	b, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	inc := b.MustIncognito()
	t.Cleanup(func() { inc.Close() })
	return openIn(t, inc, base, l)
}

// openIn loads the page in one more tab of a browser, whose tabs share their storage.
func openIn(t *testing.T, inc *rod.Browser, base string, l look) *page {
	t.Helper()
	p := &page{Page: inc.MustPage("").Timeout(2 * time.Minute), t: t}
	if l.width == 0 {
		l.width, l.height = 1280, 860
	}
	p.MustSetViewport(l.width, l.height, 2, false)
	scheme, lang := "light", "en-GB"
	if l.dark {
		scheme = "dark"
	}
	if l.french {
		lang = "fr-FR"
	}
	must(t, proto.EmulationSetEmulatedMedia{Features: []*proto.EmulationMediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}.Call(p))
	agent := p.MustEval(`() => navigator.userAgent`).Str()
	must(t, proto.NetworkSetUserAgentOverride{UserAgent: agent, AcceptLanguage: lang}.Call(p))
	if l.before != "" {
		p.MustEvalOnNewDocument(l.before)
	}
	p.watch(base)
	p.MustNavigate(base)
	p.MustElement(".composer")
	p.wait(`() => document.querySelector('.examples, .trouble, .thread') !== null`)
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, e := range p.errors {
			t.Errorf("the page complains: %s", e)
		}
	})
	return p
}

// watch collects what the browser complains about, apart from answers that a test provokes.
func (p *page) watch(base string) {
	must(p.t, proto.LogEnable{}.Call(p))
	must(p.t, proto.RuntimeEnable{}.Call(p))
	must(p.t, proto.NetworkEnable{}.Call(p))
	add := func(s string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.errors = append(p.errors, s)
	}
	go p.EachEvent(func(e *proto.LogEntryAdded) {
		if e.Entry.Level == proto.LogLogEntryLevelError && e.Entry.Source != proto.LogLogEntrySourceNetwork {
			add(e.Entry.Text)
		}
	}, func(e *proto.RuntimeExceptionThrown) {
		text := e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			text += " " + x.Description
		}
		add(text)
	}, func(e *proto.RuntimeConsoleAPICalled) {
		if e.Type == proto.RuntimeConsoleAPICalledTypeError || e.Type == proto.RuntimeConsoleAPICalledTypeWarning {
			add(fmt.Sprint(e.Args))
		}
	}, func(e *proto.NetworkRequestWillBeSent) {
		if !strings.HasPrefix(e.Request.URL, base) && !strings.HasPrefix(e.Request.URL, "data:") {
			add("it asked for " + e.Request.URL)
		}
	})()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wait until a function of the page gives true.
func (p *page) wait(js string, args ...any) {
	p.t.Helper()
	end := time.Now().Add(15 * time.Second)
	for {
		v, err := p.Eval(js, args...)
		if err == nil && v.Value.Bool() {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("it never came true: %s %v (%v)\n%s", js, args, err, p.MustElement("body").MustText())
		}
		time.Sleep(15 * time.Millisecond)
	}
}

// see waits until a text stands somewhere on the page, as people see it.
func (p *page) see(text string) {
	p.t.Helper()
	p.wait(`s => document.body.innerText.includes(s)`, text)
}

// text of the first element that matches, "" if there is none.
func (p *page) text(selector string) string {
	return p.MustEval(`s => document.querySelector(s)?.innerText ?? ''`, selector).Str()
}

func (p *page) count(selector string) int {
	return p.MustEval(`s => document.querySelectorAll(s).length`, selector).Int()
}

// press clicks the button that has this name, for eyes or for screen readers.
func (p *page) press(name string) {
	p.t.Helper()
	find := `n => [...document.querySelectorAll('button, summary, a, label')].find(b => (b.getAttribute('aria-label') ?? b.innerText).trim() === n && b.getClientRects().length > 0)`
	p.wait(`n => Boolean((`+find+`)(n))`, name)
	p.MustElementByJS(find, name).MustClick()
}

// say types into the question box and sends with Enter.
func (p *page) say(text string) {
	p.t.Helper()
	p.MustElement("#question").MustInput(text)
	p.MustElement("#question").MustType(input.Enter)
}

// answered waits until nothing is being written.
func (p *page) answered() {
	p.t.Helper()
	p.wait(`() => document.querySelector('.answer') && !document.querySelector('[aria-busy=true]')`)
}

// shot takes a picture for people to look at.
func (p *page) shot(name string) {
	if *shots == "" {
		return
	}
	must(p.t, os.MkdirAll(*shots, 0o755))
	p.MustEval(`() => document.fonts.ready.then(() => true)`)
	time.Sleep(250 * time.Millisecond)
	p.MustScreenshot(filepath.Join(*shots, name+".png"))
}

// server is a world behind a socket, with what it was asked.
type server struct {
	*servetest.World
	*httptest.Server
	mu     sync.Mutex
	bodies []string
}

// serve starts a server over a scripted model.
func serve(t *testing.T, o servetest.Options) *server {
	t.Helper()
	s := &server{World: servetest.New(t, o)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			s.record(r)
		}
		s.World.Server.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(s.Server.Close)
	return s
}

// last is the body of the latest request that asked for an answer.
func (s *server) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bodies) == 0 {
		return ""
	}
	return s.bodies[len(s.bodies)-1]
}
