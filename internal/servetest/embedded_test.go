package servetest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"tinyloop/internal/host"
	"tinyloop/internal/serve"
)

// inside serves the model inside the program.
func inside(t *testing.T) http.Handler {
	t.Helper()
	m, err := host.LoadEmbedded(host.Options{Threads: 2, MaxSeqs: 24, StepRows: 64})
	if err != nil {
		t.Skip("this build has no model inside: ", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		m.Close(ctx)
	})
	h := host.New()
	if err := h.Add(m); err != nil {
		t.Fatal(err)
	}
	return serve.New(h, serve.Config{Log: slog.New(slog.DiscardHandler)}).Handler()
}

func inquire(t *testing.T, h http.Handler, body string) string {
	r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body))
	r.Host = "localhost"
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	if rec.Code != 200 {
		t.Errorf("%s: %d %s", body, rec.Code, rec.Body)
	}
	return rec.Body.String()
}

// Whatever the dice say, the model inside answers in JSON when it is asked to, and in the same JSON in every mode. TINYLOOP_LONG=1 tries every mode
// with every seed.
func TestTheModelInsideAnswersInJSON(t *testing.T) {
	h := inside(t)
	schema := `{"type":"object","properties":{"name":{"type":"string","maxLength":12},"age":{"type":"integer"},"town":{"enum":["Rome","Paris"]}},"required":["name","age"],"additionalProperties":false}`
	for _, c := range []struct{ name, format string }{
		{"any object", `{"type":"json_object"}`},
		{"schema", `{"type":"json_schema","json_schema":{"name":"person","schema":` + schema + `}}`},
	} {
		for _, loops := range []int{1, 4} {
			var wg sync.WaitGroup
			room := make(chan struct{}, 16)
			ends := make([]string, 50)
			if testing.Short() {
				ends = ends[:5]
			}
			for seed := range ends {
				room <- struct{}{}
				wg.Go(func() {
					defer func() { <-room }()
					modes := []string{"autoregressive"}
					if loops > 1 && (seed%25 == 0 || os.Getenv("TINYLOOP_LONG") != "") {
						modes = append(modes, "speculative", "wavefront", "tree_speculative", "auto")
					}
					var first reply
					for i, mode := range modes {
						body := fmt.Sprintf(`{"messages":[{"role":"user","content":"Give the capital of Italy as JSON with the key capital."}],"response_format":%s,"seed":%d,"loops":%d,"mode":%q,"max_tokens":48}`, c.format, seed, loops, mode)
						r := wholeReply(t, inquire(t, h, body), 0)
						if i == 0 {
							first = r
						} else if r.text != first.text || r.finish != first.finish {
							t.Errorf("seed %d: %s says %q, plain decoding %q", seed, mode, r.text, first.text)
						}
					}
					ends[seed] = first.finish
					var v map[string]any
					if err := json.Unmarshal([]byte(first.text), &v); (err == nil) != (first.finish == "stop") || first.finish != "stop" && first.finish != "length" {
						t.Errorf("%s, %d loops, seed %d: finish %s, %v: %q", c.name, loops, seed, first.finish, err, first.text)
					}
					if _, ok := v["age"].(float64); first.finish == "stop" && c.name == "schema" && (!ok || len(v) > 3) {
						t.Errorf("%d loops, seed %d: %q does not obey", loops, seed, first.text)
					}
				})
			}
			wg.Wait()
			stopped := 0
			for _, e := range ends {
				if e == "stop" {
					stopped++
				}
			}
			t.Logf("%s, %d loops: %d of %d complete in 48 tokens", c.name, loops, stopped, len(ends))
			if stopped == 0 {
				t.Errorf("%s, %d loops: no answer is complete", c.name, loops)
			}
		}
	}
}

// The model inside calls a function that it is given, and answers from the result.
func TestTheModelInsideCallsTools(t *testing.T) {
	h := inside(t)
	tool := `{"type":"function","function":{"name":"get_weather","description":"Weather of a city","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}`
	question := `{"role":"user","content":"What is the weather in Rome?"}`
	for _, c := range []struct{ choice, strict string }{{"auto", "false"}, {"auto", "null"}, {"auto", "true"}, {"required", "false"}} {
		offered := strings.Replace(tool, `"name"`, `"strict":`+c.strict+`,"name"`, 1)
		r := wholeReply(t, inquire(t, h, `{"messages":[`+question+`],"temperature":0,"max_tokens":60,"parallel_tool_calls":false,"tool_choice":"`+c.choice+`","tools":[`+offered+`]}`), 0)
		t.Logf("%s, strict %s: %s", c.choice, c.strict, r)
		if r.finish != "tool_calls" || len(r.calls) != 1 || r.calls[0].Name != "get_weather" {
			if c.choice == "required" { // whether it calls where it is free to is a matter of its training
				t.Errorf("%s: %s", c.choice, r)
			}
			continue
		}
		var args struct{ City *string }
		if err := json.Unmarshal([]byte(r.calls[0].Arguments), &args); err != nil || args.City == nil {
			t.Errorf("%s: arguments %s", c.choice, r.calls[0].Arguments)
		}
	}
}
