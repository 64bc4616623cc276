package servetest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// BenchmarkRequest measures what a request costs besides the model: from the first byte in to the last byte out, over the loopback, with a
// scripted model whose own time is taken out and reported for itself.
func BenchmarkRequest(b *testing.B) {
	for _, c := range []struct{ name, extra string }{{"whole", ""}, {"stream", `"stream":true`}} {
		b.Run(c.name, func(b *testing.B) {
			w := New(b, Options{Say: []string{"a"}})
			ts := httptest.NewServer(w.Server.Handler())
			defer ts.Close()
			body := chatBody(c.extra)
			b.ReportAllocs()
			for b.Loop() {
				resp, err := ts.Client().Post(ts.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
					b.Fatal(err, resp.StatusCode)
				}
				resp.Body.Close()
			}
			b.StopTimer()
			ran := modelTime(w, b.N)
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)-ran, "µs-overhead/op")
			b.ReportMetric(ran, "µs-model/op")
		})
	}
}

// modelTime is what the scripted model and the engine take for the same request without HTTP, in microseconds.
func modelTime(w *World, n int) float64 {
	n = min(n, 500)
	start := time.Now()
	for range n {
		if err := w.direct(); err != nil {
			w.T.Fatal(err)
		}
	}
	return float64(time.Since(start).Microseconds()) / float64(n)
}

// BenchmarkStreamedToken is the cost of one token of a long stream over the loopback, the scripted model's time included.
func BenchmarkStreamedToken(b *testing.B) {
	w := New(b, Options{Say: []string{"a"}, Endless: true, Context: 4096})
	ts := httptest.NewServer(w.Server.Handler())
	defer ts.Close()
	const tokens = 1000
	b.ReportAllocs()
	for n := 0; n < b.N; n += tokens {
		resp, err := ts.Client().Post(ts.URL+"/v1/chat/completions", "application/json", strings.NewReader(chatBody(`"stream":true,"max_tokens":1000`)))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			b.Fatal(err, resp.StatusCode)
		}
		resp.Body.Close()
	}
}
