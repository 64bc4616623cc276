package servetest

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tinyloop/internal/engine"
	"tinyloop/internal/serve"
)

// Run checks one dialect.
func Run(t *testing.T, d *Wire) {
	t.Run("stream equals whole", func(t *testing.T) { streamEqualsWhole(t, d) })
	t.Run("stops", func(t *testing.T) { stops(t, d) })
	t.Run("length", func(t *testing.T) { length(t, d) })
	t.Run("usage", func(t *testing.T) { usage(t, d) })
	t.Run("refused before the first byte", func(t *testing.T) { refused(t, d) })
	t.Run("failure before the first token", func(t *testing.T) { earlyFailure(t, d) })
	t.Run("failure mid-stream", func(t *testing.T) { Timed(t, func(t *testing.T) { lateFailure(t, d) }) })
	t.Run("client leaves", func(t *testing.T) { Timed(t, func(t *testing.T) { leaves(t, d) }) })
	t.Run("queue full", func(t *testing.T) { Timed(t, func(t *testing.T) { busy(t, d) }) })
	t.Run("pings", func(t *testing.T) { Timed(t, func(t *testing.T) { pings(t, d) }) })
	t.Run("ignored names", func(t *testing.T) { ignored(t, d) })
	t.Run("methods", func(t *testing.T) { methods(t, d) })
}

// scripts are answers whose pieces do not fall on character borders, with the text that must come out.
var scripts = []struct {
	name string
	say  []string
	want string
}{
	{"plain", []string{"hel", "lo", " ", "world"}, "hello world"},
	{"euro in two", []string{"\xe2\x82", "\xac"}, "€"},
	{"euro in three", []string{"\xe2", "\x82", "\xac", "!"}, "€!"},
	{"emoji with joiner", []string{"\xf0", "\x9f\x8c", "\xb6", "\xef\xb8\x8f", "x"}, "🌶️x"},
	{"broken inside", []string{"a\xf0\x9f", "b"}, "a\ufffdb"},
	{"dangling", []string{"a", "\xf0\x9f"}, "a\ufffd"},
	{"quotes and controls", []string{"\"\\", "\n\t", "\x00\x1f", "</script>", "\u2028"}, "\"\\\n\t\x00\x1f</script>\u2028"},
}

func streamEqualsWhole(t *testing.T, d *Wire) {
	for _, s := range scripts {
		t.Run(s.name, func(t *testing.T) {
			w := New(t, Options{Say: s.say})
			whole := Object(t, w.Post(d.Path, d.Body(Ask{Prompt: "p"}), 200).Body)
			text, finish := d.Streamed(t, w.Post(d.Path, d.Body(Ask{Prompt: "p", Stream: true}), 200).Body)
			if got := d.Text(whole); got != s.want || text != s.want {
				t.Errorf("whole %q, streamed %q, want %q", got, text, s.want)
			}
			if d.Finish(whole) != "stop" || finish != "stop" {
				t.Errorf("finish: whole %q, streamed %q", d.Finish(whole), finish)
			}
		})
	}
}

func stops(t *testing.T, d *Wire) {
	if d.Limited {
		t.Skip("this dialect has no stop strings")
	}
	w := New(t, Options{Say: []string{"one", " tw", "o th", "ree", " four"}})
	for stop, want := range map[string]string{"two three": "one ", "o three f": "one tw", "our": "one two three f", "five": "one two three four", "one": ""} {
		ask := Ask{Prompt: "p", Extra: map[string]any{"stop": stop}}
		whole := Object(t, w.Post(d.Path, d.Body(ask), 200).Body)
		ask.Stream = true
		text, finish := d.Streamed(t, w.Post(d.Path, d.Body(ask), 200).Body)
		if got := d.Text(whole); got != want || text != want || finish != "stop" {
			t.Errorf("stop %q: whole %q, streamed %q (%s), want %q", stop, got, text, finish, want)
		}
	}
}

func length(t *testing.T, d *Wire) {
	w := New(t, Options{Say: []string{"a"}, Endless: true})
	ask := Ask{Prompt: "p", Extra: map[string]any{"max_tokens": 3}}
	whole := Object(t, w.Post(d.Path, d.Body(ask), 200).Body)
	ask.Stream = true
	text, finish := d.Streamed(t, w.Post(d.Path, d.Body(ask), 200).Body)
	if d.Text(whole) != "aaa" || d.Finish(whole) != "length" || text != "aaa" || finish != "length" {
		t.Errorf("whole %q (%s), streamed %q (%s)", d.Text(whole), d.Finish(whole), text, finish)
	}
}

func usage(t *testing.T, d *Wire) {
	w := New(t, Options{Say: []string{"a", "b", "c"}})
	prompt, completion := d.Usage(Object(t, w.Post(d.Path, d.Body(Ask{Prompt: "p"}), 200).Body))
	if completion != 4 {
		t.Errorf("completion tokens %d, want 4: three and the end of the turn", completion)
	}
	if prompt < 1 {
		t.Errorf("prompt tokens %d", prompt)
	}
}

func refused(t *testing.T, d *Wire) {
	w := New(t, Options{Context: 64})
	none := New(t, Options{NoModel: true})
	long := strings.Repeat("x", 100)
	for _, c := range []struct {
		name   string
		w      *World
		body   string
		status int
	}{
		{"broken JSON", w, `{"a":[1 2]}`, 400},
		{"empty body", w, ``, 400},
		{"no object", w, `[]`, 422},
		{"range", w, d.Body(Ask{Prompt: "p", Stream: true, Extra: map[string]any{"top_p": 7}}), 422},
		{"type", w, d.Body(Ask{Prompt: "p", Stream: true, Extra: map[string]any{"temperature": "warm"}}), 422},
		{"missing", w, `{"stream":true}`, 422},
		{"too long", w, d.Body(Ask{Prompt: long, Stream: true, Extra: map[string]any{"max_tokens": 5}}), 400},
		{"model", w, d.Body(Ask{Prompt: "p", Stream: true, Extra: map[string]any{"model": "nope"}}), 404},
		{"no model", none, d.Body(Ask{Prompt: "p", Stream: true}), 503},
	} {
		r := c.w.Post(d.Path, c.body, c.status)
		if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
			t.Errorf("%s: content type %q", c.name, r.Header.Get("Content-Type"))
		}
		e, _ := Object(t, r.Body)["error"].(map[string]any)
		for _, key := range []string{"message", "type", "param", "code"} {
			if _, ok := e[key]; !ok {
				t.Errorf("%s: the error has no %s: %s", c.name, key, r.Body)
			}
		}
	}
	if n := w.Model.Calls(); n != 0 {
		t.Errorf("the model was called %d times for refused requests", n)
	}
}

func earlyFailure(t *testing.T, d *Wire) {
	for _, stream := range []bool{false, true} {
		w := New(t, Options{})
		w.Model.PanicAt(0)
		r := w.Do(http.MethodPost, d.Path, d.Body(Ask{Prompt: "p", Stream: stream}))
		if r.Status != 500 || r.Header.Get("X-Should-Retry") != "false" || !strings.Contains(r.Body, `"error"`) {
			t.Errorf("stream %v: status %d, x-should-retry %q, %s", stream, r.Status, r.Header.Get("X-Should-Retry"), r.Body)
		}
		if strings.Contains(r.Body, "panic") || strings.Contains(r.Body, ".go") {
			t.Errorf("the answer tells of the inside: %s", r.Body)
		}
	}
}

func lateFailure(t *testing.T, d *Wire) {
	w := New(t, Options{Say: []string{"a"}, Endless: true})
	w.Model.SetDelay(time.Millisecond) // tokens must leave before the failure comes
	w.Model.PanicAt(60)
	r := w.Post(d.Path, d.Body(Ask{Prompt: "p", Stream: true, Extra: map[string]any{"max_tokens": 100}}), 200)
	frames := Frames(t, r.Body)
	if len(frames) < 3 {
		t.Fatalf("frames: %s", r.Body)
	}
	last := frames[len(frames)-1]
	if str(at(last, "error", "message")) == "" || str(at(last, "error", "type")) != "server_error" {
		t.Errorf("the last frame is no error: %v", last)
	}
	if strings.Contains(r.Body, "event:") {
		t.Error("an event line hides the error from clients that read data lines")
	}
}

func leaves(t *testing.T, d *Wire) {
	w := New(t, Options{Say: []string{"a"}, Endless: true})
	w.Model.SetDelay(time.Millisecond)
	ts := w.Listen()
	resp, cancel := w.Open(ts, d.Path, d.Body(Ask{Prompt: "p", Stream: true}))
	if _, err := io.ReadFull(resp.Body, make([]byte, 200)); err != nil {
		t.Fatal(err)
	}
	cancel()
	w.Idle()
	w.Model.SetDelay(0)
	if r := w.Post(d.Path, d.Body(Ask{Prompt: "p", Extra: map[string]any{"max_tokens": 2}}), 200); d.Text(Object(t, r.Body)) != "aa" {
		t.Errorf("after a client left: %s", r.Body)
	}
}

func busy(t *testing.T, d *Wire) {
	w := New(t, Options{Engine: engine.Config{QueueLimit: 1, MaxSeqs: 1}})
	thaw := w.Model.Freeze()
	defer thaw()
	ts := w.Listen()
	type got struct {
		status int
		retry  string
	}
	results := make(chan got, 6)
	for range 6 {
		go func() {
			resp, err := ts.Client.Post(ts.URL+d.Path, "application/json", strings.NewReader(d.Body(Ask{Prompt: "p"})))
			if err != nil {
				results <- got{}
				return
			}
			defer resp.Body.Close()
			io.Copy(io.Discard, resp.Body)
			results <- got{resp.StatusCode, resp.Header.Get("Retry-After")}
		}()
		synctest.Wait() // the first has left the queue, the second waits in it
	}
	for range 4 {
		if r := <-results; r.status != 429 || r.retry == "" {
			t.Errorf("status %d, retry-after %q, want 429 with a time", r.status, r.retry)
		}
	}
	thaw()
	for range 2 {
		if r := <-results; r.status != 200 {
			t.Errorf("status %d", r.status)
		}
	}
}

func pings(t *testing.T, d *Wire) {
	w := New(t, Options{Serve: serve.Config{PingEvery: 5 * time.Millisecond}})
	thaw := w.Model.Freeze()
	time.AfterFunc(60*time.Millisecond, thaw)
	r := w.Post(d.Path, d.Body(Ask{Prompt: "p", Stream: true}), 200)
	if !strings.HasPrefix(r.Body, ": ping\n\n") && !strings.Contains(r.Body, "\n\n: ping\n\n") {
		t.Errorf("no ping in %q", short(r.Body))
	}
	if text, _ := d.Streamed(t, r.Body); text != "hello" {
		t.Errorf("text %q", text)
	}
}

func ignored(t *testing.T, d *Wire) {
	w := New(t, Options{})
	r := w.Post(d.Path, d.Body(Ask{Prompt: "p", Extra: map[string]any{"colour": "red", "evil\r\nX-A: b": 1, "nothing": nil}}), 200)
	got := r.Header.Get("X-Tinyloop-Ignored")
	if !strings.Contains(got, "colour") || strings.ContainsAny(got, "\r\n:") || strings.Contains(got, "nothing") {
		t.Errorf("x-tinyloop-ignored %q", got)
	}
}

func methods(t *testing.T, d *Wire) {
	w := New(t, Options{})
	for _, m := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodHead} {
		r := w.Do(m, d.Path, "")
		if r.Status != 405 || r.Header.Get("Allow") != "OPTIONS, POST" {
			t.Errorf("%s: %d, allow %q", m, r.Status, r.Header.Get("Allow"))
		}
	}
	if r := w.Do(http.MethodOptions, d.Path, ""); r.Status != 204 || r.Header.Get("Allow") != "OPTIONS, POST" {
		t.Errorf("OPTIONS: %d, allow %q", r.Status, r.Header.Get("Allow"))
	}
}
