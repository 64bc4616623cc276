package servetest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tinyloop/internal/engine"
	"tinyloop/internal/scripted"
	"tinyloop/internal/serve"
)

var update = flag.Bool("update", false, "write the golden transcripts instead of comparing with them")

// transcripts are requests whose literal answers are kept: whoever changes a byte on the wire sees it in the review.
var transcripts = []struct{ name, method, path, body string }{
	{"chat", "POST", "/v1/chat/completions", `{"model":"tl","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"hi"}],"seed":1}`},
	{"chat-stream", "POST", "/v1/chat/completions", `{"model":"tl","messages":[{"role":"user","content":"hi"}],"seed":1,"stream":true}`},
	{"chat-stream-usage", "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"seed":1,"stream":true,"stream_options":{"include_usage":true}}`},
	{"chat-stream-logprobs", "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"seed":1,"temperature":0,"stream":true,"logprobs":true,"top_logprobs":2}`},
	{"chat-logprobs-by-loop", "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"seed":1,"temperature":0,"max_tokens":2,"logprobs":true,"logprobs_by_loop":true}`},
	{"completions-logprobs-by-loop", "POST", "/v1/completions", `{"prompt":"a","seed":1,"temperature":0,"max_tokens":2,"echo":true,"logprobs":0,"tinyloop":{"logprobs_by_loop":true}}`},
	{"generate-logprobs-by-loop", "POST", "/generate", `{"prompt":"a","seed":1,"temperature":0,"max_tokens":2,"stream":true,"logprobs":true,"logprobs_by_loop":true}`},
	{"chat-logprobs", "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"seed":1,"temperature":0,"logprobs":true,"top_logprobs":1}`},
	{"chat-choices", "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"seed":1,"n":2,"temperature":0}`},
	{"chat-choices-stream", "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"seed":1,"n":2,"temperature":0,"max_tokens":1,"stream":true}`},
	{"chat-stop", "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"seed":1,"stop":["o w"]}`},
	{"chat-warning", "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"seed":1,"tinyloop":{"loops":8,"shade":1},"colour":"red","max_tokens":1}`},
	{"chat-error-range", "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"top_p":7,"stream":true}`},
	{"chat-error-json", "POST", "/v1/chat/completions", "{\"messages\":\n[1 2]}"},
	{"chat-error-tools", "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f"}}]}`},
	{"chat-error-model", "POST", "/v1/chat/completions", `{"model":"nope","messages":[{"role":"user","content":"hi"}]}`},
	{"chat-error-long", "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"max_tokens":1000}`},
	{"completion", "POST", "/v1/completions", `{"prompt":"a","seed":1}`},
	{"completion-stream", "POST", "/v1/completions", `{"prompt":"a","seed":1,"stream":true}`},
	{"completion-batch", "POST", "/v1/completions", `{"prompt":[[97],[98,99]],"seed":1,"max_tokens":1}`},
	{"completion-logprobs", "POST", "/v1/completions", `{"prompt":"é","seed":1,"temperature":0,"logprobs":1}`},
	{"completion-logprobs-stream", "POST", "/v1/completions", `{"prompt":"é","seed":1,"temperature":0,"logprobs":0,"stream":true}`},
	{"generate", "POST", "/generate", `{"prompt":"a","seed":1,"loops":2,"return_tokens":true}`},
	{"generate-logprobs", "POST", "/generate", `{"prompt":"a","seed":1,"temperature":0,"logprobs":1,"max_tokens":1}`},
	{"generate-stream", "POST", "/generate/stream", `{"prompt":[97,98],"seed":1,"cache_window":64}`},
	{"generate-error", "POST", "/generate", `{"prompt":7,"temperature":"warm"}`},
	{"generate-speculative", "POST", "/generate/speculative", `{"prompt":"a","draft_loops":2,"max_tokens":8,"seed":1,"temperature":0}`},
	{"generate-exit", "POST", "/generate", `{"prompt":"a","seed":1,"temperature":0,"exit":{"rule":"latent","threshold":0.6}}`},
	{"lens", "POST", "/lens", `{"prompt":"a","loops":2,"top":2}`},
	{"generate-tree", "POST", "/generate/tree_speculative", `{"prompt":"a","draft_loops":1,"max_tokens":8,"K_branches":3,"stream":true,"seed":1,"temperature":0}`},
	{"minilab-stream", "POST", "/v1/chat", `{"messages":[{"role":"user","content":"Qui est Passepartout ?"}]}`},
	{"minilab", "POST", "/v1/chat", `{"messages":[{"role":"user","content":"Qui est Fix ?"}],"stream":false}`},
	{"minilab-error", "POST", "/v1/chat", `{"messages":[{"role":"robot"}],"max_tokens":101}`},
	{"tokenize", "POST", "/tokenize", `{"content":"é<|im_end|>","with_pieces":true}`},
	{"detokenize", "POST", "/detokenize", `{"tokens":[104,195,169]}`},
	{"models", "GET", "/v1/models", ""},
	{"model", "GET", "/v1/models/org%2Falias:v1", ""},
	{"health", "GET", "/health", ""},
	{"readyz", "GET", "/readyz", ""},
	{"index", "GET", "/", ""},
	{"unknown", "GET", "/v1/nope", ""},
	{"method", "GET", "/v1/chat/completions", ""},
	{"options", "OPTIONS", "/v1/models", ""},
}

// times are the only values that differ from run to run.
var times = regexp.MustCompile(`("(?:queued_ms|ttft_ms|prefill_ms|decode_ms|wall_ms|total_ms|tokens_per_second)": ?)(?:[0-9.]+|null)`)

func TestTranscripts(t *testing.T) {
	for _, c := range transcripts {
		t.Run(c.name, func(t *testing.T) {
			kept(t, c.name, transcript(t, Options{Steps: scriptedSteps(), Say: []string{"hel", "lo w", "\xc3", "\xa9\n"}}, c.method, c.path, c.body))
		})
	}
	call, now := []string{`<tool_call>{"name":"add","arguments":{"a":1,`, `"b":2}}`, `</tool_call>`}, `<tool_call>{"name":"now","arguments":{}}</tool_call>`
	tools := `{"messages":[{"role":"user","content":"hi"}],"seed":1,"temperature":0,"tools":[` + addTool + "," + nowTool + `]`
	for _, c := range []struct {
		name, more string
		say        []string
	}{
		{"chat-tools", "}", append([]string{"Well "}, append(call, now)...)},
		{"chat-tools-stream", `,"stream":true}`, append([]string{"Well "}, append(call, now)...)},
		{"chat-tools-choices", `,"n":2,"tool_choice":"required","parallel_tool_calls":false}`, call},
		{"chat-tools-held-stream", `,"tool_choice":"required","parallel_tool_calls":false,"stream":true}`, call},
		{"chat-json", `,"tool_choice":"none","response_format":{"type":"json_object"}}`, []string{`{"a"`, ":1", "}"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			kept(t, c.name, transcript(t, Options{Say: c.say, Template: trained(t)}, "POST", "/v1/chat/completions", tools+c.more))
		})
	}
}

// kept compares an answer with the one on file.
func kept(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "transcripts", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("the bytes on the wire have changed (-want +got); run with -update if that is meant:\n%s", d)
	}
}

func transcript(t *testing.T, o Options, method, path, body string) string {
	n := 0
	o.Engine = engine.Config{NoPrefixCache: true}
	o.Serve = serve.Config{
		Now:   func() time.Time { return time.Unix(1764547200, 0) },
		NewID: func() string { n++; return fmt.Sprintf("ID%d", n) },
	}
	w := New(t, o)
	r := w.Do(method, path, body)
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s\n%s\n\n%d\n", method, path, body, r.Status)
	var names []string
	for name := range r.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if name != "Content-Length" { // moves with the times
			fmt.Fprintf(&out, "%s: %s\n", name, strings.Join(r.Header[name], ", "))
		}
	}
	out.WriteString("\n" + times.ReplaceAllString(r.Body, "${1}0"))
	return out.String()
}

// scriptedSteps says "hello wé\n", nearly certain of each token.
func scriptedSteps() []scripted.Step {
	var steps []scripted.Step
	for _, id := range append(IDs("hel", "lo w", "\xc3", "\xa9\n"), EndID) {
		steps = append(steps, scripted.Step{{ID: id, P: 1 - 1.0/1024}, {ID: 'z', P: 1.0 / 1024}})
	}
	return steps
}
