package servetest

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"tinyloop/internal/engine"
)

// depthRoutes are all routes whose requests may choose how deep and in what order an answer is computed.
func depthRoutes() []*Wire {
	var out []*Wire
	for _, path := range []string{"/v1/chat/completions", "/chat/completions", "/api/v0/chat/completions"} {
		d := openAIChat()
		d.Name, d.Path = path, path
		out = append(out, d)
	}
	for _, path := range []string{"/v1/completions", "/completions", "/api/v0/completions"} {
		d := openAICompletion()
		d.Name, d.Path = path, path
		out = append(out, d)
	}
	for _, path := range []string{"/generate", "/generate/stream", "/generate/speculative", "/generate/tree_speculative"} {
		d := native()
		d.Name, d.Path = path, path
		out = append(out, d)
	}
	return out
}

// fixed is the mode of a route that has one, "" otherwise.
func (d *Wire) fixed() string {
	if m, ok := strings.CutPrefix(d.Path, "/generate/"); ok && m != "stream" {
		return m
	}
	return ""
}

// stats finds the stats of the first choice in a whole answer.
func (d *Wire) stats(body map[string]any) map[string]any {
	for _, v := range []any{at(body, "stats"), at(body, "choices", 0, "stats")} {
		if m, ok := v.(map[string]any); ok {
			return m
		}
	}
	return nil
}

// TestStudioConforms: LM Studio's routes pass what every dialect must.
func TestStudioConforms(t *testing.T) {
	for _, d := range depthRoutes() {
		if strings.HasPrefix(d.Path, "/api/v0") {
			t.Run(d.Path, func(t *testing.T) { Run(t, d) })
		}
	}
}

// seconds are the times that only these routes tell.
var seconds = regexp.MustCompile(`("(?:time_to_first_token|generation_time)":)[0-9.e-]+`)

// TestStudioTranscripts keeps the literal answers of LM Studio's routes.
func TestStudioTranscripts(t *testing.T) {
	for _, c := range []struct{ name, method, path, body string }{
		{"studio-chat-tree", "POST", "/api/v0/chat/completions", `{"model":"tl","messages":[{"role":"user","content":"Hi"}],"max_tokens":32,"mode":"tree_speculative","K_branches":2,"draft_loops":2,"verify_loops":8,"seed":1}`},
		{"studio-chat-stream", "POST", "/api/v0/chat/completions", `{"messages":[{"role":"user","content":"Hi"}],"temperature":0,"n":2,"stream":true,"stream_options":{"include_usage":true},"seed":1}`},
		{"studio-completion", "POST", "/api/v0/completions", `{"prompt":["a","b"],"temperature":0,"max_tokens":2,"seed":1}`},
		{"studio-error", "POST", "/api/v0/chat/completions", `{"messages":[{"role":"user","content":"Hi"}],"mode":"tree_speculative","K_branches":9}`},
		{"studio-models", "GET", "/api/v0/models", ""},
		{"studio-model", "GET", "/api/v0/models/org%2Falias:v1", ""},
		{"studio-model-unknown", "GET", "/api/v0/models/nope", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := transcript(t, Options{Steps: scriptedSteps(), Say: []string{"hel", "lo w", "\xc3", "\xa9\n"}}, c.method, c.path, c.body)
			kept(t, c.name, seconds.ReplaceAllString(got, "${1}0"))
		})
	}
}

// TestDepthOnEveryRoute: on every route every mode gives the text of plain decoding, whole and streamed, and says in its stats what it did with what was asked.
func TestDepthOnEveryRoute(t *testing.T) {
	w := New(t, Options{Random: true})
	for _, d := range depthRoutes() {
		ask := func(stream bool, extra map[string]any) (string, map[string]any) {
			e := map[string]any{"max_tokens": 12, "seed": 5, "temperature": 0.8, "loops": 6, "ignore_eos": true}
			maps.Copy(e, extra)
			r := w.Post(d.Path, d.Body(Ask{Prompt: "depth", Stream: stream, Extra: e}), 200)
			if stream {
				frames := Frames(t, r.Body)
				text, _ := d.Streamed(t, r.Body)
				return text, d.stats(frames[len(frames)-1])
			}
			b := Object(t, r.Body)
			return d.Text(b), d.stats(b)
		}
		plain, _ := ask(false, nil) // in the route's own mode
		for _, c := range []struct {
			extra map[string]any
			want  map[string]any // stats
		}{
			{map[string]any{"mode": "autoregressive"}, map[string]any{"mode": "autoregressive", "loops": 6.0, "core_calls": 12 * 6.0, "kv_mode": "per_loop"}},
			{map[string]any{"mode": "speculative", "draft_loops": 2, "draft_ahead": 3}, map[string]any{"mode": "speculative", "draft_loops": 2.0, "draft_ahead": 3.0, "K_branches": 1.0, "verify": "replay", "verify_loops": 6.0}},
			{map[string]any{"mode": "tree_speculative", "draft_loops": 1, "draft_ahead": 2, "K_branches": 3}, map[string]any{"mode": "tree_speculative", "draft_loops": 1.0, "draft_ahead": 2.0, "K_branches": 3.0}},
			{map[string]any{"mode": "wavefront", "draft_loops": 3}, map[string]any{"mode": "wavefront", "draft_loops": 3.0, "draft_ahead": 2.0}},
			{map[string]any{"mode": "auto"}, map[string]any{"mode": "auto"}},
			{map[string]any{"loops": nil, "verify_loops": 6}, map[string]any{"loops": 6.0}},
			{map[string]any{"loops": 2, "verify_loops": 6}, map[string]any{"loops": 6.0}},
			{map[string]any{"loops": nil, "reasoning_effort": "high"}, map[string]any{"loops": 6.0}},
			{map[string]any{"tinyloop": map[string]any{"mode": "wavefront", "draft_loops": 1}}, map[string]any{"mode": "wavefront", "draft_loops": 1.0}},
			{map[string]any{"exit": map[string]any{"rule": "gate", "threshold": 1, "min_loops": 6}}, map[string]any{"mean_loops": 6.0}},
		} {
			mode, _ := c.extra["mode"].(string)
			if in, ok := c.extra["tinyloop"].(map[string]any); ok {
				mode, _ = in["mode"].(string)
			}
			if f := d.fixed(); f != "" && mode != "" && f != mode {
				continue // refused there, see below
			}
			for _, stream := range []bool{false, true} {
				text, st := ask(stream, c.extra)
				if text != plain {
					t.Errorf("%s, stream %v, %v: %q, plain %q", d.Name, stream, c.extra, text, plain)
				}
				for k, v := range c.want {
					if k == "core_calls" && d.fixed() != "" {
						continue
					}
					if st[k] != v {
						t.Errorf("%s, stream %v, %v: stats.%s is %v, want %v", d.Name, stream, c.extra, k, st[k], v)
					}
				}
			}
		}
		for _, lossy := range []map[string]any{{"kv_mode": "last"}, {"kv_mode": "mean"}, {"kv_mode": "mod:2"}, {"exit": map[string]any{"rule": "latent", "threshold": 0.6, "kv": "deepest"}},
			{"mode": "speculative", "verify": "rejection"}, {"mode": "tree_speculative", "verify": "typical", "accept_threshold": 0.2}} {
			if f := d.fixed(); f != "" && (lossy["kv_mode"] != nil || lossy["mode"] != nil && lossy["mode"] != f) {
				continue
			}
			_, st := ask(false, lossy)
			if warnings := fmt.Sprint(st["warnings"]); !strings.Contains(warnings, "lossy") && !strings.Contains(warnings, "distribution") {
				t.Errorf("%s, %v: warnings %s", d.Name, lossy, warnings)
			}
			if kv := lossy["kv_mode"]; kv != nil && st["kv_mode"] != kv {
				t.Errorf("%s, %v: stats.kv_mode is %v", d.Name, lossy, st["kv_mode"])
			}
		}
	}
}

// TestDepthAtFault: on every route a value outside its range is told by name, limit and value in the route's own shape, before anything is computed.
func TestDepthAtFault(t *testing.T) {
	w := New(t, Options{})
	for _, d := range depthRoutes() {
		for _, c := range []struct {
			extra map[string]any
			param string
			says  []string
		}{
			{map[string]any{"loops": 0}, "loops", []string{"between 1 and 8", "got 0"}},
			{map[string]any{"loops": -3}, "loops", []string{"between 1 and 8", "got -3"}},
			{map[string]any{"loops": 1 << 40}, "loops", []string{"loops", "1099511627776"}},
			{map[string]any{"loops": 2.5}, "loops", []string{"integer"}},
			{map[string]any{"verify_loops": 9}, "verify_loops", []string{"between 1 and 8", "got 9"}},
			{map[string]any{"mode": d.modeOr("wavefront"), "draft_loops": 4}, "draft_loops", []string{"between 1 and 3", "got 4"}},
			{map[string]any{"mode": d.modeOr("speculative"), "draft_loops": 5, "verify_loops": 5}, "draft_loops", []string{"between 1 and 4", "got 5"}},
			{map[string]any{"mode": d.modeOr("auto"), "draft_loops": 0}, "draft_loops", []string{"between 1 and 3", "got 0"}},
			{map[string]any{"mode": d.modeOr("wavefront"), "draft_ahead": 17}, "draft_ahead", []string{"between 1 and 16", "got 17"}},
			{map[string]any{"draft_ahead": -1}, "draft_ahead", []string{"between 1 and 16", "got -1"}},
			{map[string]any{"mode": d.modeOr("tree_speculative"), "K_branches": 9}, "K_branches", []string{"between 1 and 8", "got 9"}},
			{map[string]any{"K_branches": 0}, "K_branches", []string{"between 1 and 8", "got 0"}},
			{map[string]any{"verify": "hope"}, "verify", []string{"replay, rejection, typical", "hope"}},
			{map[string]any{"accept_threshold": 0}, "accept_threshold", []string{"above 0", "got 0"}},
			{map[string]any{"reasoning_effort": "huge"}, "reasoning_effort", []string{"minimal", "huge"}},
			{map[string]any{"exit": map[string]any{"rule": "luck"}}, "exit.rule", []string{"gate, latent, accel, kl, entropy, argmax", "luck"}},
			{map[string]any{"exit": map[string]any{"rule": "gate", "threshold": 1.5}}, "exit.threshold", []string{"at most 1", "got 1.5"}},
			{map[string]any{"exit": map[string]any{"rule": "argmax", "threshold": 0.5}}, "exit.threshold", []string{"passes, 1 to", "got 0.5"}},
			{map[string]any{"exit": map[string]any{"rule": "kl", "threshold": -1}}, "exit.threshold", []string{"above 0", "got -1"}},
			{map[string]any{"exit": map[string]any{"rule": "kl", "threshold": "NaN"}}, "exit.threshold", []string{"number"}},
			{map[string]any{"exit": map[string]any{"rule": "kl", "min_loops": 5}}, "exit.min_loops", []string{"between 1 and 4", "got 5"}},
			{map[string]any{"exit": map[string]any{"rule": "kl", "kv": "some"}}, "exit.kv", []string{"complete, deepest", "some"}},
			{map[string]any{"exit": "gate"}, "exit", []string{"object"}},
			{map[string]any{"kv_mode": "shared"}, "kv_mode", []string{"trained"}},
			{map[string]any{"kv_mode": "mod:0"}, "kv_mode", []string{"mod:k", "mod:0"}},
			{map[string]any{"kv_mode": "last", "mode": d.modeOr("wavefront")}, "kv_mode", []string{"guess"}},
			{map[string]any{"kv_mode": "mean", "exit": map[string]any{"rule": "kl"}}, "kv_mode", []string{"per_loop"}},
			{map[string]any{"tinyloop": map[string]any{"mode": d.modeOr("wavefront"), "draft_loops": 7}}, "tinyloop.draft_loops", []string{"between 1 and 3", "got 7"}},
			{map[string]any{"cache_window": 3}, "cache_window", []string{"at least 16", "got 3"}},
		} {
			r := w.Post(d.Path, d.Body(Ask{Prompt: "p", Stream: true, Extra: c.extra}), 422)
			b := Object(t, r.Body)
			e := at(b, "error")
			if at(e, "param") != c.param {
				t.Errorf("%s, %v: %s", d.Name, c.extra, r.Body)
			}
			for _, s := range c.says {
				if !strings.Contains(str(at(e, "message")), s) {
					t.Errorf("%s, %v: no %q in %s", d.Name, c.extra, s, r.Body)
				}
			}
			if _, both := b["detail"]; both != strings.HasPrefix(d.Path, "/generate") {
				t.Errorf("%s: the shape is another dialect's: %s", d.Name, r.Body)
			}
		}
		if f := d.fixed(); f != "" {
			r := w.Post(d.Path, d.Body(Ask{Prompt: "p", Extra: map[string]any{"mode": "auto"}}), 422)
			if e := at(Object(t, r.Body), "error"); at(e, "param") != "mode" || !strings.Contains(str(at(e, "message")), f) {
				t.Errorf("%s: %s", d.Name, r.Body)
			}
		}
	}
	if n := w.Model.Calls(); n != 0 {
		t.Errorf("the model was called %d times for refused requests", n)
	}
}

// modeOr is the mode of a route that has one, else m.
func (d *Wire) modeOr(m string) string {
	if f := d.fixed(); f != "" {
		return f
	}
	return m
}

// TestUnmeantFields: what has no meaning beside the rest of a request is said, not passed over.
func TestUnmeantFields(t *testing.T) {
	w := New(t, Options{})
	for _, c := range []struct{ body, says string }{
		{`"draft_loops":2`, "draft_loops has no meaning in mode autoregressive"},
		{`"mode":"wavefront","K_branches":2`, "K_branches has no meaning in mode wavefront"},
		{`"verify":"rejection"`, "verify rejection has no meaning in mode autoregressive"},
		{`"mode":"speculative","accept_threshold":0.5`, "accept_threshold has a meaning only with verify typical"},
		{`"mode":"tree_speculative","K_branches":8,"draft_ahead":16`, "draft_ahead counts as 4"},
		{`"mode":"wavefront","loops":1`, "nothing to guess from at one loop"},
		{`"loops":1,"exit":{"rule":"latent"}`, "nothing to leave out at one loop"},
		{`"loops":7`, "loops = 7 is above the 6 this model was trained for"},
		{`"verify_loops":3,"loops":2`, "verify_loops = 3 wins over loops = 2"},
	} {
		st := native().stats(Object(t, w.Post("/generate", `{"prompt":"a","max_tokens":3,`+c.body+`}`, 200).Body))
		if !strings.Contains(fmt.Sprint(st["warnings"]), c.says) {
			t.Errorf("%s: warnings %v, want %q", c.body, st["warnings"], c.says)
		}
	}
	for _, silent := range []string{`"loops":1,"kv_mode":"last"`, `"kv_mode":"mod:4"`, `"verify":"replay"`, `"exit":null`} {
		st := native().stats(Object(t, w.Post("/generate", `{"prompt":"a","max_tokens":3,`+silent+`}`, 200).Body))
		if fmt.Sprint(st["warnings"]) != "[]" || st["kv_mode"] != "per_loop" {
			t.Errorf("%s: %v", silent, st)
		}
	}
	b := Object(t, w.Post("/lens", `{"prompt":"a","loops":7}`, 200).Body)
	if !strings.Contains(fmt.Sprint(b["warnings"]), "above the 6") {
		t.Errorf("lens: %v", b["warnings"])
	}
}

// TestCrowdOfModes: streams of all routes and modes at once, with exits, sharing and windows, in a crowd of which a third leaves at some moment; whoever stays
// gets what plain decoding gives alone.
func TestCrowdOfModes(t *testing.T) { Timed(t, crowdOfModes) }

func crowdOfModes(t *testing.T) {
	w := New(t, Options{Random: true, Engine: engine.Config{QueueLimit: 256, MaxSeqs: 12, StepRows: 40}})
	site := w.Listen()
	rng := rand.New(rand.NewPCG(5, 6))
	modes := []string{"autoregressive", "speculative", "tree_speculative", "wavefront", "auto"}
	routes := depthRoutes()
	type client struct {
		wire   *Wire
		body   string
		leaves bool
		want   string
	}
	clients := make([]client, 60)
	for i := range clients {
		d := routes[i%len(routes)]
		loops := 2 + rng.IntN(7)
		extra := map[string]any{"seed": i, "temperature": 0.9, "max_tokens": 5 + rng.IntN(30), "loops": loops}
		switch rng.IntN(4) {
		case 0:
			extra["cache_window"] = 16 + rng.IntN(20)
		case 1:
			extra["exit"] = map[string]any{"rule": []string{"gate", "latent", "accel", "kl", "entropy", "argmax"}[rng.IntN(6)], "threshold": 1, "kv": []string{"complete", "deepest"}[rng.IntN(2)]}
		}
		prompt := fmt.Sprint("prompt ", i%5)
		plain := *d
		if strings.HasPrefix(d.Path, "/generate") {
			plain.Path = "/generate/stream"
		}
		want, _ := plain.Streamed(t, w.Post(plain.Path, plain.Body(Ask{Prompt: prompt, Stream: true, Extra: extra}), 200).Body)
		extra["mode"] = d.modeOr(modes[rng.IntN(len(modes))])
		if extra["mode"] != "autoregressive" {
			extra["draft_loops"], extra["draft_ahead"], extra["K_branches"] = 1+rng.IntN(loops-1), 1+rng.IntN(16), 1+rng.IntN(8)
		}
		clients[i] = client{wire: d, body: d.Body(Ask{Prompt: prompt, Stream: true, Extra: extra}), leaves: i%3 == 2, want: want}
	}
	w.Model.SetDelay(30 * time.Microsecond)
	var wg sync.WaitGroup
	for _, c := range clients {
		after := rng.IntN(600)
		wg.Go(func() {
			resp, cancel := w.Open(site, c.wire.Path, c.body)
			if c.leaves {
				read(resp.Body, after)
				cancel()
				return
			}
			b := w.ReadAll(resp.Body)
			if err := framing(b); err != nil {
				t.Errorf("%s: %v", c.wire.Name, err)
				return
			}
			if got, _ := c.wire.Streamed(t, b); got != c.want {
				t.Errorf("%s, %s: %q in the crowd, %q plain and alone", c.wire.Name, c.body, got, c.want)
			}
		})
	}
	wg.Wait()
}

// read takes n bytes of a stream, or what there is.
func read(r io.Reader, n int) { io.ReadFull(r, make([]byte, n)) }
