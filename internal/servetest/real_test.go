package servetest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"tinyloop/internal/fixture"
	"tinyloop/internal/host"
	"tinyloop/internal/serve"
)

// TestRealModelCrowd: 64 streams at once against a real looped model with little memory for keys and values, at random depths, seeds, windows and
// dialects; a third of the clients leave half-way. Every answer that survives equals its solo run to the byte, and at the end no page is held.
func TestRealModelCrowd(t *testing.T) {
	path := fixture.Path(t, "stories260K", "looped-nanbeige-3x.gguf")
	m, err := host.Load("real", path, host.Options{Threads: 2, KVBudget: 4 << 20, MaxSeqs: 24, StepRows: 48})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(context.Background()) })
	h := host.New()
	if err := h.Add(m); err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(serve.New(h, serve.Config{Log: slog.New(slog.DiscardHandler)}).Handler())
	defer ts.Close()

	rng := rand.New(rand.NewPCG(3, 4))
	bodies := make([]string, 64)
	solo := make([]string, 64)
	for i := range bodies {
		ask := map[string]any{
			"prompt": strings.Repeat("Once upon a time there was a ", 1+rng.IntN(6)) + fmt.Sprint(i%7), "max_tokens": 4 + rng.IntN(16),
			"temperature": float64(rng.IntN(3)) / 2, "seed": i, "loops": 1 + rng.IntN(6), "n": 1 + rng.IntN(2), "stream": true,
		}
		if i%5 == 0 {
			ask["cache_window"] = 16 + rng.IntN(32)
		}
		if i%4 == 0 {
			ask["stop"] = []string{"girl", " the "}
		}
		b, _ := json.Marshal(ask)
		bodies[i] = string(b)
		res := open(t, t.Context(), ts.URL, bodies[i])
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		solo[i] = texts(t, string(b))
	}
	var wg sync.WaitGroup
	for i := range bodies {
		leaves, after := i%3 == 1, rng.IntN(1500)
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			res := open(t, ctx, ts.URL, bodies[i])
			defer res.Body.Close()
			if leaves {
				io.CopyN(io.Discard, res.Body, int64(after))
				return
			}
			b, err := io.ReadAll(res.Body)
			if err != nil {
				t.Error(err)
				return
			}
			if got := texts(t, string(b)); got != solo[i] {
				t.Errorf("request %d %s:\nin the crowd %q\nalone        %q", i, bodies[i], got, solo[i])
			}
		})
	}
	wg.Wait()
	idle(t, m.Engine())
}

func open(t *testing.T, ctx context.Context, url, body string) *http.Response {
	req, err := http.NewRequestWithContext(ctx, "POST", url+"/generate", strings.NewReader(body))
	if err != nil {
		t.Error(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != 200 {
		t.Errorf("%v %v", res, err)
		return &http.Response{Body: http.NoBody}
	}
	return res
}

// texts is the text of each choice of a native stream.
func texts(t *testing.T, body string) string {
	out := map[int]string{}
	for _, f := range strings.Split(body, "\n\n") {
		data, ok := strings.CutPrefix(f, "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var e struct {
			Index, Choice int
			Text          string
			Error         any
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil || e.Error != nil {
			t.Errorf("frame %q: %v", f, err)
		}
		out[e.Choice] += e.Text
	}
	b, _ := json.Marshal(out)
	return string(b)
}
