package web

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	root   = "../.."
	looped = "../../../shared/data/stories260K/looped-nanbeige-3x.gguf"
)

// build compiles the program. model, if given, is a .tinyloop file that takes the place of the one inside.
func build(t *testing.T, model string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "tinyloop")
	args := []string{"build", "-o", out}
	if model != "" {
		at, err := filepath.Abs(filepath.Join(root, "internal/embedded/model/tl.tinyloop"))
		must(t, err)
		overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{at: model}})
		must(t, err)
		file := filepath.Join(t.TempDir(), "overlay.json")
		must(t, os.WriteFile(file, overlay, 0o600))
		args = append(args, "-overlay", file)
	}
	c := exec.Command("go", append(args, "./cmd/tinyloop")...)
	c.Dir = root
	if b, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return out
}

// start runs the program's server and gives its address. It must end well.
func start(t *testing.T, bin string, args ...string) string {
	t.Helper()
	c := exec.Command(bin, append([]string{"serve", "--addr", "127.0.0.1:0", "--log-level", "error"}, args...)...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TINYLOOP_") {
			c.Env = append(c.Env, v)
		}
	}
	out, err := c.StdoutPipe()
	must(t, err)
	c.Stderr = os.Stderr
	must(t, c.Start())
	t.Cleanup(func() {
		c.Process.Signal(syscall.SIGTERM)
		if err := c.Wait(); err != nil {
			t.Errorf("the server did not end well: %v", err)
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if u, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), "url"); ok {
			go io.Copy(io.Discard, out)
			return strings.TrimSpace(u)
		}
	}
	t.Fatal("the server says no address")
	return ""
}

func fetch(t *testing.T, method, url string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	must(t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	must(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	must(t, err)
	return res, string(b)
}

// again starts the program's server at an address, whatever became of the one before, and waits until it answers.
func again(t *testing.T, bin, addr, model string) *os.Process {
	t.Helper()
	c := exec.Command(bin, "serve", "--addr", addr, "--log-level", "error", "--model", model)
	must(t, c.Start())
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if r, err := http.Get("http://" + addr + "/health"); err == nil {
			r.Body.Close()
			return c.Process
		}
		if time.Now().After(end) {
			t.Fatal("the server does not come up")
		}
	}
}

// running is the number of answers that the server says it computes.
func running(t *testing.T, base string) string {
	t.Helper()
	_, body := fetch(t, "GET", base+"/metrics")
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "tinyloop_requests_running{") {
			return strings.TrimSpace(line[strings.LastIndex(line, " "):])
		}
	}
	t.Fatal("no tinyloop_requests_running in /metrics")
	return ""
}

// The real binary over a real looped base model: it continues texts, its loops go to twelve, stop stops it, and the routes of programs stay what they were.
func TestBinary(t *testing.T) {
	if _, err := os.Stat(looped); err != nil {
		t.Skip("needs ../shared/data/stories260K beside the checkout, which is absent")
	}
	bin := build(t, "")
	t.Run("base model", func(t *testing.T) {
		base := start(t, bin, "--model", "stories="+looped)
		p := open(t, base, look{})
		p.see("This model has not learnt to converse")
		if got := p.MustEval(`() => document.getElementById('loops').max`).Str(); got != "12" {
			t.Errorf("at most %s loops", got)
		}
		p.press("Once upon a time")
		p.answered()
		if got := p.text(".turn.complete .text"); len(got) < 20 {
			t.Errorf("continued with %q", got)
		}
		if got := p.text(".foot"); !strings.Contains(got, "3 loops") || !strings.Contains(got, "tokens/s") {
			t.Errorf("the foot says %q", got)
		}
		p.shot("binary-base")
	})
	model := filepath.Join(t.TempDir(), "slow.gguf")
	if b, err := exec.Command(bin, "synth", model, "--shape", "42m", "--vocab", "512").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	t.Run("stop", func(t *testing.T) {
		base := start(t, bin, "--model", model)
		p := open(t, base, look{})
		p.press("The meaning of life is")
		p.wait(`() => (document.querySelector('.live')?.innerText ?? '').length > 10`)
		if got := running(t, base); got != "1" {
			t.Errorf("%s answers run while one streams", got)
		}
		p.press("Stop")
		p.answered()
		p.see("stopped")
		for end := time.Now().Add(5 * time.Second); running(t, base) != "0"; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the server goes on computing")
			}
		}
	})
	t.Run("killed in the middle of an answer, and started again", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		addr := l.Addr().String()
		l.Close()
		killed := again(t, bin, addr, model)
		p := open(t, "http://"+addr, look{})
		p.press("The meaning of life is")
		p.wait(`() => (document.querySelector('.live')?.innerText ?? '').length > 10`)
		must(t, killed.Kill())
		p.see("The connection broke")
		if got := p.text(".turn.complete .text"); len(got) < 10 {
			t.Errorf("of what had come, %q is left", got)
		}
		again(t, bin, addr, model)
		p.press("Try again")
		p.wait(`() => (document.querySelector('.live')?.innerText ?? '').length > 10`)
		p.press("Stop")
		p.answered()
		if p.count(".trouble") != 0 {
			t.Errorf("after the restart: %s", p.text(".trouble"))
		}
	})
	t.Run("routes", func(t *testing.T) {
		base := start(t, bin, "--model", looped)
		html := []string{"Accept", "text/html,*/*;q=0.8"}
		if r, body := fetch(t, "GET", base+"/", html...); r.StatusCode != 200 || !strings.HasPrefix(body, "<!doctype html>") || r.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("/ for a browser: %d %.80q", r.StatusCode, body)
		}
		if r, body := fetch(t, "GET", base+"/"); !strings.Contains(body, "/v1/chat/completions") || !strings.Contains(r.Header.Get("Vary"), "Accept") && len(r.Header.Values("Vary")) < 2 {
			t.Errorf("/ for programs: %.80q, Vary %v", body, r.Header.Values("Vary"))
		}
		if r, body := fetch(t, "HEAD", base+"/", html...); r.StatusCode != 200 || body != "" || r.ContentLength < 100 {
			t.Errorf("HEAD /: %d, %d bytes", r.StatusCode, r.ContentLength)
		}
		for _, path := range []string{"/v1/nope", "/nope", "/ui/nope.js", "/ui/", "/index.html"} {
			if r, body := fetch(t, "GET", base+path, html...); r.StatusCode != 404 || !json.Valid([]byte(body)) {
				t.Errorf("%s: %d %.80q", path, r.StatusCode, body)
			}
		}
		if r, _ := fetch(t, "POST", base+"/", html...); r.StatusCode != 405 {
			t.Errorf("POST /: %d", r.StatusCode)
		}
	})
	t.Run("no page", func(t *testing.T) {
		base := start(t, bin, "--model", looped, "--no-page")
		if r, body := fetch(t, "GET", base+"/", "Accept", "text/html"); r.StatusCode != 200 || strings.Contains(body, "<html") || !strings.Contains(body, "/v1/chat/completions") {
			t.Errorf("/ without the page: %d %.80q", r.StatusCode, body)
		}
		if r, _ := fetch(t, "GET", base+"/ui/app.js"); r.StatusCode != 404 {
			t.Errorf("/ui/app.js without the page: %d", r.StatusCode)
		}
	})
}

// A program with a model inside serves it as tl when told nothing else, and so do the other commands.
func TestModelInside(t *testing.T) {
	if _, err := os.Stat(looped); err != nil {
		t.Skip("needs ../shared/data/stories260K beside the checkout, which is absent")
	}
	model := filepath.Join(t.TempDir(), "tl.tinyloop")
	c := exec.Command("go", "run", "./cmd/tinyloop", "convert", mustAbs(t, looped), model)
	c.Dir = root
	if b, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	bin := build(t, model)
	began := time.Now()
	base := start(t, bin)
	res, err := http.Post(base+"/v1/chat/completions", "application/json", strings.NewReader(`{"messages":[{"role":"user","content":"Hi"}],"max_tokens":1}`))
	must(t, err)
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
	t.Logf("first token of the first chat %v after the program was started", time.Since(began))
	if res.StatusCode != 200 {
		t.Errorf("status %d", res.StatusCode)
	}
	_, body := fetch(t, "GET", base+"/v1/models")
	if !strings.Contains(body, `"id":"tl"`) {
		t.Errorf("models: %s", body)
	}
	p := open(t, base, look{})
	p.press("Once upon a time")
	p.answered()
	if got := p.text(".turn.complete .text"); len(got) < 20 {
		t.Errorf("continued with %q", got)
	}
	run := func(stdin string, args ...string) string {
		c := exec.Command(bin, args...)
		c.Stdin = strings.NewReader(stdin)
		b, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v\n%s", args, err, b)
		}
		return string(b)
	}
	if got := run("", "generate", "--prompt", "Once upon a time", "--max-tokens", "20"); len(got) < 20 {
		t.Errorf("generate says %q", got)
	}
	if got := run("Hello\n/quit\n", "chat", "--max-tokens", "5"); !strings.Contains(got, "tl: nanbeige, 3 loops by default") {
		t.Errorf("chat says %q", got)
	}
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	must(t, err)
	return abs
}
