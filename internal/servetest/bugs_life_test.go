package servetest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tinyloop/internal/engine"
	"tinyloop/internal/fixture"
	"tinyloop/internal/gen"
	"tinyloop/internal/serve"
)

// Faults of the life of requests: cancelling, hangs, queues, shutdown.

func TestOllama11889CancelDuringPrefill(t *testing.T) { Timed(t, cancelDuringPrefill) }

func cancelDuringPrefill(t *testing.T) {
	w := New(t, Options{Context: 4096, Engine: engine.Config{ChunkRows: 16, StepRows: 16}})
	w.Model.SetDelay(2 * time.Millisecond)
	ts := w.Listen()
	ctx, cancel := context.WithCancel(context.Background())
	body := `{"prompt":"` + strings.Repeat("x", 4000) + `","stream":true,"max_tokens":5}`
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, ts.URL+"/v1/completions", strings.NewReader(body))
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := ts.Client.Do(req); err == nil {
		t.Fatal("the request was answered")
	}
	w.Idle()
	if enter, _, _, _ := w.Model.Rows(); enter > 2000 {
		t.Errorf("%d of 4000 rows were computed for a client that had gone", enter)
	}
}

func TestLocalAI2526NextRequestAfterInterruption(t *testing.T) {
	Timed(t, nextRequestAfterInterruption)
}

func nextRequestAfterInterruption(t *testing.T) {
	w := New(t, Options{Say: []string{"a"}, Endless: true})
	w.Model.SetDelay(time.Millisecond)
	ts := w.Listen()
	for range 3 {
		_, cancel := w.Open(ts, "/v1/chat/completions", chatBody(`"stream":true`))
		cancel()
		w.Post("/v1/chat/completions", chatBody(`"max_tokens":2`), 200)
	}
}

func TestIkLlama1929QueuedClientLeaves(t *testing.T) { Timed(t, queuedClientLeaves) }

func queuedClientLeaves(t *testing.T) {
	w := New(t, Options{Say: []string{"a", "b", "c", "d", "e", "f"}, Engine: engine.Config{MaxSeqs: 1}})
	w.Model.SetDelay(time.Millisecond)
	ts := w.Listen()
	resp, _ := w.Open(ts, "/v1/chat/completions", chatBody(`"stream":true`))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, ts.URL+"/v1/chat/completions", strings.NewReader(chatBody(`"stream":true`)))
	if r, err := ts.Client.Do(req); err == nil {
		r.Body.Close()
	}
	if text, finish := openAIChat().Streamed(t, w.ReadAll(resp.Body)); text != "abcdef" || finish != "stop" {
		t.Errorf("%q (%s)", text, finish)
	}
}

func TestLlamaCpp27388HealthSeesAStalledEngine(t *testing.T) { Timed(t, healthSeesAStalledEngine) }

func healthSeesAStalledEngine(t *testing.T) {
	w := New(t, Options{Serve: serve.Config{Stall: 20 * time.Millisecond}})
	if r := w.Do("GET", "/health", ""); r.Status != 200 || r.Body != `{"status":"ok"}` {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	thaw := w.Model.Freeze()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Do("POST", "/v1/chat/completions", chatBody(""))
	}()
	for _, want := range []int{200, 503} { // after 15 and 30 ms
		time.Sleep(15 * time.Millisecond)
		if got := w.Do("GET", "/health", "").Status; got != want {
			t.Errorf("health says %d, want %d, while the engine stands still", got, want)
		}
	}
	if s := w.Do("GET", "/readyz", "").Status; s != 503 {
		t.Errorf("readyz says %d", s)
	}
	if s := w.Do("GET", "/metrics", "").Status; s != 200 {
		t.Errorf("metrics say %d: they must not hang with the engine", s)
	}
	thaw()
	<-done
	if s := w.Do("GET", "/health", "").Status; s != 200 {
		t.Errorf("health says %d afterwards", s)
	}
}

func TestOllama2339ManyRequestsLeakNothing(t *testing.T) {
	w := New(t, Options{})
	body := chatBody(`"max_tokens":4`)
	w.Post("/v1/chat/completions", body, 200)
	before := runtime.NumGoroutine()
	n := 1000
	if testing.Short() {
		n = 100
	}
	for range n {
		w.Post("/v1/chat/completions", body, 200)
	}
	fixture.Eventually(t, "as many goroutines as before", func() bool { return runtime.NumGoroutine() <= before+2 })
}

func TestOllama11097NoEndlessAnswer(t *testing.T) { Timed(t, noEndlessAnswer) }

func noEndlessAnswer(t *testing.T) {
	w := New(t, Options{Say: []string{"a"}, Endless: true, Context: 128})
	if text, finish := chatText(t, w, ""); finish != "length" || len(text) < 50 {
		t.Errorf("%d characters (%s)", len(text), finish)
	}
	w.Model.SetDelay(2 * time.Millisecond) // a whole answer takes about a second
	r := w.Post("/generate", `{"prompt":"p","timeout_ms":100}`, 200)
	b := Object(t, r.Body)
	if b["finish_reason"] != "timeout" || str(b["text"]) == "" {
		t.Errorf("%s", r.Body)
	}
	if d := openAIChat(); d.Finish(Object(t, w.Post(d.Path, chatBody(`"timeout_ms":100`), 200).Body)) != "length" {
		t.Error("OpenAI clients know no timeout: it must read as length")
	}
}

func TestDeadlineBeforeTheFirstToken(t *testing.T) { Timed(t, deadlineBeforeTheFirstToken) }

func deadlineBeforeTheFirstToken(t *testing.T) {
	for _, stream := range []string{"", `,"stream":true`} {
		w := New(t, Options{Limits: gen.Limits{DefaultTimeout: 10 * time.Millisecond}})
		thaw := w.Model.Freeze()
		time.AfterFunc(50*time.Millisecond, thaw)
		r := w.Post("/v1/completions", `{"prompt":"p"`+stream+`}`, 504)
		if r.Header.Get("X-Should-Retry") != "false" || at(Object(t, r.Body), "error", "code") != "timeout" {
			t.Errorf("%v %s", r.Header, r.Body)
		}
	}
}

// listen runs Serve on a network in memory and gives a function that ends it and tells how long that took.
func listen(t *testing.T, w *World) (s *Site, end func() time.Duration) {
	t.Helper()
	s = newSite(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Server.Serve(ctx, s) }()
	t.Cleanup(cancel)
	return s, func() time.Duration {
		start := time.Now()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		return time.Since(start)
	}
}

func TestTermLLM535ShutdownWithAnOpenStream(t *testing.T) { Timed(t, shutdownWithAnOpenStream) }

func shutdownWithAnOpenStream(t *testing.T) {
	w := New(t, Options{Say: []string{"a"}, Endless: true, Context: 4096, Serve: serve.Config{DrainTimeout: 400 * time.Millisecond}})
	w.Model.SetDelay(time.Millisecond)
	site, end := listen(t, w)
	resp, err := site.Client.Post(site.URL+"/v1/chat/completions", "application/json", strings.NewReader(chatBody(`"stream":true`)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	took := make(chan time.Duration, 1)
	go func() { took <- end() }()
	frames := Frames(t, w.ReadAll(resp.Body))
	if msg := str(at(frames[len(frames)-1], "error", "message")); !strings.Contains(msg, "shutting down") {
		t.Errorf("the last frame is %v", frames[len(frames)-1])
	}
	if d := <-took; d > 400*time.Millisecond {
		t.Errorf("shutdown took %v", d)
	}
	if _, err := site.Client.Get(site.URL + "/health"); err == nil {
		t.Error("still listening")
	}
}

func TestShutdownLetsAnswersFinish(t *testing.T) { Timed(t, shutdownLetsAnswersFinish) }

func shutdownLetsAnswersFinish(t *testing.T) {
	w := New(t, Options{Say: []string{"a", "b", "c", "d", "e"}, Serve: serve.Config{DrainTimeout: 5 * time.Second}})
	w.Model.SetDelay(3 * time.Millisecond)
	site, end := listen(t, w)
	resp, err := site.Client.Post(site.URL+"/v1/chat/completions", "application/json", strings.NewReader(chatBody(`"stream":true`)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	took := make(chan time.Duration, 1)
	go func() { took <- end() }()
	if text, finish := openAIChat().Streamed(t, w.ReadAll(resp.Body)); text != "abcde" || finish != "stop" {
		t.Errorf("%q (%s)", text, finish)
	}
	if d := <-took; d > 3*time.Second {
		t.Errorf("shutdown took %v although all was done", d)
	}
}

func TestShutdownWithAClientThatNeverReads(t *testing.T) { Timed(t, shutdownWithAClientThatNeverReads) }

func shutdownWithAClientThatNeverReads(t *testing.T) {
	w := New(t, Options{Say: []string{strings.Repeat("long", 1000)}, Endless: true, Context: 4096, Serve: serve.Config{DrainTimeout: 300 * time.Millisecond}})
	w.Model.SetDelay(time.Millisecond)
	site, end := listen(t, w)
	c := site.Dial(t)
	body := `{"prompt":"p","stream":true,"max_tokens":2000}`
	fmt.Fprintf(c, "POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	io.ReadFull(c, make([]byte, 100))
	time.Sleep(50 * time.Millisecond)
	if d := end(); d > 300*time.Millisecond {
		t.Errorf("shutdown took %v", d)
	}
}

func TestStalledReaderIsCancelled(t *testing.T) { Timed(t, stalledReaderIsCancelled) }

func stalledReaderIsCancelled(t *testing.T) {
	w := New(t, Options{Say: []string{strings.Repeat("long", 1000)}, Endless: true, Context: 4096, Serve: serve.Config{WriteTimeout: 50 * time.Millisecond}})
	w.Model.SetDelay(time.Millisecond)
	site, end := listen(t, w)
	defer end()
	c := site.Dial(t)
	body := `{"prompt":"p","stream":true,"max_tokens":4000}`
	fmt.Fprintf(c, "POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	time.Sleep(100 * time.Millisecond)
	if !strings.Contains(w.Do("GET", "/metrics", "").Body, `tinyloop_requests_total{model="scripted",outcome="cancel"} 1`) {
		t.Error("the request of a client that never reads runs on")
	}
}

func TestOllama7758QueueLimit(t *testing.T) { Timed(t, queueLimit) }

func queueLimit(t *testing.T) {
	w := New(t, Options{Engine: engine.Config{QueueLimit: 1, MaxSeqs: 1}})
	thaw := w.Model.Freeze()
	defer thaw()
	var wg sync.WaitGroup
	statuses := make(chan Reply, 6)
	for range 6 {
		wg.Go(func() { statuses <- w.Do("POST", "/v1/chat/completions", chatBody("")) })
		synctest.Wait() // the first has left the queue, the second waits in it
	}
	for range 4 {
		r := <-statuses
		if r.Status != 429 || r.Header.Get("Retry-After") == "" || at(Object(t, r.Body), "error", "type") != "rate_limit_error" {
			t.Errorf("%d %v %s", r.Status, r.Header, r.Body)
		}
	}
	thaw()
	wg.Wait()
	for range 2 {
		if r := <-statuses; r.Status != 200 {
			t.Errorf("%d %s", r.Status, r.Body)
		}
	}
}

func TestLMStudio1217UnknownModelIsNotAnswered(t *testing.T) {
	w := New(t, Options{})
	r := w.Post("/v1/chat/completions", `{"model":"nope","messages":[{"role":"user","content":"x"}]}`, 404)
	if at(Object(t, r.Body), "error", "code") != "model_not_found" {
		t.Error(r.Body)
	}
	for _, name := range []string{"tl", "scripted", "org/alias:v1"} {
		w.Post("/v1/chat/completions", `{"model":"`+name+`","messages":[{"role":"user","content":"x"}]}`, 200)
	}
	w.Post("/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]}`, 200)
}

func TestVLLM47647PingsDuringALongPrefill(t *testing.T) { Timed(t, pingsDuringALongPrefill) }

func pingsDuringALongPrefill(t *testing.T) {
	w := New(t, Options{Context: 2048, Engine: engine.Config{ChunkRows: 16, StepRows: 16}, Serve: serve.Config{PingEvery: 10 * time.Millisecond}})
	w.Model.SetDelay(time.Millisecond)
	r := w.Post("/v1/completions", `{"prompt":"`+strings.Repeat("x", 1000)+`","stream":true}`, 200)
	if n := strings.Count(r.Body, ": ping\n\n"); n < 10 {
		t.Errorf("%d pings in a prefill of about 200 ms", n)
	}
	if text, _ := openAICompletion().Streamed(t, r.Body); text != "hello" {
		t.Errorf("%q", text)
	}
}
