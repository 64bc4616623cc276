package servetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"tinyloop/internal/scripted"
	"tinyloop/internal/serve"
)

// Faults of the wire format: roles, finish reasons, usage, errors, logprobs, choices.

func TestLocalAI340Framing(t *testing.T) {
	w := New(t, Options{Say: []string{"a", "b"}})
	frames := Frames(t, w.Post("/v1/chat/completions", chatBody(`"stream":true,"stream_options":{"include_usage":true}`), 200).Body)
	if len(frames) != 5 {
		t.Fatalf("%d frames, want role, two of text, end, usage", len(frames))
	}
	for i, f := range frames {
		if at(f, "choices", 0, "delta", "role") != nil != (i == 0) {
			t.Errorf("frame %d: role in %v", i, f)
		}
		if f["id"] != frames[0]["id"] || f["created"] != frames[0]["created"] || f["model"] != "scripted" || f["object"] != "chat.completion.chunk" {
			t.Errorf("frame %d: %v", i, f)
		}
		if i < 4 {
			c, _ := at(f, "choices", 0).(map[string]any)
			for _, key := range []string{"index", "delta", "logprobs", "finish_reason"} {
				if _, ok := c[key]; !ok {
					t.Errorf("frame %d has no %s", i, key)
				}
			}
			if u, ok := f["usage"]; !ok || u != nil {
				t.Errorf("frame %d: usage %v, want null", i, u)
			}
		}
	}
	if at(frames[3], "choices", 0, "finish_reason") != "stop" || at(frames[0], "choices", 0, "delta", "content") != "" {
		t.Errorf("%v", frames)
	}
}

func TestATOM1711UsageChunkHasChoices(t *testing.T) {
	w := New(t, Options{Say: []string{"a", "b"}})
	frames := Frames(t, w.Post("/v1/chat/completions", chatBody(`"stream":true,"stream_options":{"include_usage":true}`), 200).Body)
	last := frames[len(frames)-1]
	if c, ok := last["choices"].([]any); !ok || len(c) != 0 {
		t.Errorf("choices %v", last["choices"])
	}
	if num(at(last, "usage", "completion_tokens")) != 3 || num(at(last, "usage", "total_tokens")) != num(at(last, "usage", "prompt_tokens"))+3 {
		t.Errorf("usage %v", last["usage"])
	}
}

func TestVLLM36379EmptyStreamOptions(t *testing.T) {
	w := New(t, Options{})
	if r := w.Post("/v1/chat/completions", chatBody(`"stream":true,"stream_options":{}`), 200); strings.Contains(r.Body, "usage") {
		t.Error("usage without include_usage")
	}
	r := w.Post("/v1/chat/completions", chatBody(`"stream_options":{"include_usage":true}`), 422)
	if at(Object(t, r.Body), "error", "param") != "stream_options" {
		t.Error(r.Body)
	}
}

func TestGcli2api403OnlyTheLastChunkFinishes(t *testing.T) {
	w := New(t, Options{Say: []string{"a", "b", "c"}})
	frames := Frames(t, w.Post("/v1/chat/completions", chatBody(`"stream":true`), 200).Body)
	for i, f := range frames {
		reason := at(f, "choices", 0, "finish_reason")
		if (reason != nil) != (i == len(frames)-1) {
			t.Errorf("frame %d of %d: finish_reason %v", i, len(frames), reason)
		}
	}
}

func TestLlamaCpp16104ErrorIsADataLine(t *testing.T) {
	w := New(t, Options{Say: []string{"a"}, Endless: true})
	w.Model.SetDelay(1e6)
	w.Model.PanicAt(50)
	r := w.Post("/v1/chat/completions", chatBody(`"stream":true`), 200)
	if !strings.Contains(r.Body, `data: {"error":{"message":`) || strings.Contains(r.Body, "\nerror:") {
		t.Error(r.Body)
	}
}

func TestTGI2749InvalidStreamingRequest(t *testing.T) {
	w := New(t, Options{})
	r := w.Post("/v1/chat/completions", chatBody(`"stream":true,"top_p":7`), 422)
	if at(Object(t, r.Body), "error", "param") != "top_p" || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		t.Error(r.Body)
	}
}

func TestLMStudio1879RoutesAndBrokenJSON(t *testing.T) {
	w := New(t, Options{})
	if r := w.Do("GET", "/", ""); r.Status != 200 || !strings.Contains(r.Body, "/v1/chat/completions") {
		t.Errorf("GET /: %d %s", r.Status, r.Body)
	}
	r := w.Post("/v1/nope", "{}", 404)
	if at(Object(t, r.Body), "error", "code") != "unknown_url" {
		t.Error(r.Body)
	}
	if r := w.Do("GET", "/nope", ""); r.Status != 404 || Object(t, r.Body)["detail"] == nil {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	r = w.Post("/v1/chat/completions", `{"a":[1 2]}`, 400)
	if msg := str(at(Object(t, r.Body), "error", "message")); !strings.Contains(msg, "line 1 column 9") {
		t.Error(msg)
	}
}

func TestApfel235RangesAreNamed(t *testing.T) {
	w := New(t, Options{})
	for field, value := range map[string]string{"top_p": "-0.5", "temperature": "2.1", "presence_penalty": "3", "frequency_penalty": "-2.5", "min_p": "1.5",
		"repeat_penalty": "0", "top_k": "-1", "n": "0", "max_tokens": "-2", "loops": "9", "cache_window": "3", "max_completion_tokens": "-5",
		"top_logprobs": "21", "logit_bias": `{"99999":1}`, "timeout_ms": "0", "seed": "1.5", "repeat_last_n": "-2", "reasoning_effort": `"huge"`} {
		extra := fmt.Sprintf("%q:%s", field, value)
		if field == "top_logprobs" {
			extra += `,"logprobs":true`
		}
		r := w.Post("/v1/chat/completions", chatBody(extra), 422)
		e := Object(t, r.Body)
		if param := str(at(e, "error", "param")); !strings.HasPrefix(param, field) {
			t.Errorf("%s %s: param %q: %s", field, value, param, r.Body)
		}
		if msg := str(at(e, "error", "message")); !strings.HasPrefix(msg, field) {
			t.Errorf("%s: the message does not begin with it: %q", field, msg)
		}
	}
}

func TestRapidMLX740NotANumber(t *testing.T) {
	w := New(t, Options{})
	w.Post("/v1/chat/completions", chatBody(`"temperature":NaN`), 400)
	w.Post("/v1/chat/completions", chatBody(`"temperature":-Infinity`), 400)
	w.Post("/v1/chat/completions", chatBody(`"temperature":"NaN"`), 422)
	w.Post("/v1/chat/completions", chatBody(`"temperature":1e999`), 422)
}

func TestVLLMFork773Seeds(t *testing.T) {
	w := New(t, Options{})
	for _, seed := range []string{"1", "0", "-1", "9223372036854775807", "18446744073709551615", "-9223372036854775808"} {
		w.Post("/v1/chat/completions", chatBody(`"seed":`+seed), 200)
	}
	r := w.Post("/generate", `{"prompt":"p","seed":9223372036854775807}`, 200)
	if !strings.Contains(r.Body, `"seed":9223372036854775807`) {
		t.Error(r.Body)
	}
	var random struct{ Stats struct{ Seed json.Number } }
	if err := json.Unmarshal([]byte(w.Post("/generate", `{"prompt":"p"}`, 200).Body), &random); err != nil {
		t.Fatal(err)
	}
	if n, err := random.Stats.Seed.Int64(); err != nil || n >= 1<<53 {
		t.Errorf("a random seed must survive a client whose numbers are floats: %v", random.Stats.Seed)
	}
}

func TestComfyUI89EmptyContent(t *testing.T) {
	w := New(t, Options{})
	w.Post("/v1/chat/completions", `{"messages":[{"role":"system","content":""},{"role":"user","content":""},{"role":"assistant","content":null},{"role":"user","content":[{"type":"text","text":"a"}]}]}`, 200)
}

func TestLlamaCppPython903NoHiddenLimit(t *testing.T) {
	say := strings.Split(strings.Repeat("a ", 40), "")
	w := New(t, Options{Say: say})
	if c := num(at(Object(t, w.Post("/v1/completions", `{"prompt":"p"}`, 200).Body), "usage", "completion_tokens")); c != 81 {
		t.Errorf("%d tokens, want 81", c)
	}
	strict := New(t, Options{Say: say, Serve: serve.Config{StrictOpenAI: true}})
	b := Object(t, strict.Post("/v1/completions", `{"prompt":"p"}`, 200).Body)
	if num(at(b, "usage", "completion_tokens")) != 16 || num(at(b, "choices", 0, "stats", "max_tokens")) != 16 || at(b, "choices", 0, "finish_reason") != "length" {
		t.Errorf("%v", b)
	}
}

func TestLlamaCppPython1645NoLimitSentinels(t *testing.T) {
	w := New(t, Options{Say: []string{"a", "b", "c"}})
	for _, extra := range []string{`"max_tokens":-1`, `"max_tokens":null`, `"max_completion_tokens":null`, `"max_tokens":null,"stop":null,"tools":null,"tool_choice":null,"functions":[],"tools":[],"n":null,"seed":null,"logit_bias":null,"stream_options":null,"response_format":null,"temperature":null,"logprobs":null,"top_logprobs":null`} {
		if text, finish := chatText(t, w, extra); text != "abc" || finish != "stop" {
			t.Errorf("%s: %q (%s)", extra, text, finish)
		}
	}
	if text, finish := chatText(t, w, `"max_tokens":0`); text != "" || finish != "length" {
		t.Errorf("max_tokens 0: %q (%s)", text, finish)
	}
	if text, _ := chatText(t, w, `"max_tokens":3,"max_completion_tokens":1`); text != "a" {
		t.Errorf("the newer name must win: %q", text)
	}
}

// endless is a body that must not be read to its end.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	e.read += len(b)
	return len(b), nil
}

func TestLlamafile835HugeBody(t *testing.T) {
	w := New(t, Options{Serve: serve.Config{BodyLimit: 1 << 16}})
	body := &endless{}
	r := httptest.NewRequest("POST", "/v1/chat/completions", io.NopCloser(body))
	r.ContentLength = -1
	if got := w.Send(r); got.Status != 413 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if body.read > 1<<18 {
		t.Errorf("%d bytes were read for a limit of %d", body.read, 1<<16)
	}
	body = &endless{}
	r = httptest.NewRequest("POST", "/v1/chat/completions", io.NopCloser(body))
	r.ContentLength = 2 << 30
	if got := w.Send(r); got.Status != 413 || body.read > 0 {
		t.Errorf("%d after %d bytes: %s", got.Status, body.read, got.Body)
	}
}

func TestVLLMBodiesThatAreNoObjects(t *testing.T) {
	w := New(t, Options{})
	for _, body := range []string{`[]`, `"x"`, `null`, `1`, `true`} {
		w.Post("/v1/chat/completions", body, 422)
		w.Post("/generate", body, 422)
	}
	for _, prompt := range []string{`[]`, `[[]]`, `[["a"]]`, `{}`, `7`, `["a",1]`, `[1,"a"]`, `[-1]`, `[99999]`, `[1.5]`, `[null]`} {
		w.Post("/v1/completions", `{"prompt":`+prompt+`}`, 422)
	}
	w.Post("/v1/completions", `{"prompt":""}`, 200) // from the start token
	w.Post("/v1/chat/completions", `{"messages":[]}`, 422)
	w.Post("/v1/chat/completions", `{"messages":{}}`, 422)
	w.Post("/v1/chat/completions", `{"messages":[1]}`, 422)
	w.Post("/v1/chat/completions", `{"messages":[{"role":"user","content":5}]}`, 422)
}

func TestUnservedFieldsAreNeverSilent(t *testing.T) {
	w := New(t, Options{})
	for extra, param := range map[string]string{
		`"tools":[{"type":"function","function":{"name":"f"}}]`: "tools", `"functions":[{"name":"f"}]`: "tools", // by this model, which has no template
		`"grammar":"root ::= \"a\""`: "grammar", `"mode":"no-such"`: "mode", `"json_schema":{"a":1}`: "json_schema",
		`"tinyloop":{"mode":"no-such"}`: "tinyloop.mode",
	} {
		r := w.Post("/v1/chat/completions", chatBody(extra), 422)
		e := Object(t, r.Body)
		if at(e, "error", "param") != param || at(e, "error", "code") != "unsupported_parameter" {
			t.Errorf("%s: %s", extra, r.Body)
		}
	}
	r := w.Post("/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`, 422)
	if at(Object(t, r.Body), "error", "param") != "messages[0].content[0].type" || at(Object(t, r.Body), "error", "code") != "unsupported_parameter" {
		t.Error(r.Body)
	}
	w.Post("/v1/completions", `{"prompt":"a","suffix":"b"}`, 422)
	quiet := w.Post("/v1/chat/completions", chatBody(`"store":true,"metadata":{"a":"b"},"user":"u","service_tier":"auto","parallel_tool_calls":true,"response_format":{"type":"text"},"tool_choice":"auto","verbosity":"low","prompt_cache_key":"k","modalities":["text"]`), 200)
	if h := quiet.Header.Get("X-Tinyloop-Ignored"); h != "" {
		t.Errorf("fields that are known to change nothing are reported: %s", h)
	}
}

// vllm 3707: logprobs 0 still asks for the chosen tokens. The distribution is the model's own.
func TestVLLM3707CompletionsLogprobs(t *testing.T) {
	w := New(t, Options{Steps: []scripted.Step{{{ID: 'a', P: 0.5}, {ID: 'b', P: 0.25}}, {{ID: EndID, P: 1}}}})
	lp := at(Object(t, w.Post("/v1/completions", `{"prompt":"héy","logprobs":0,"temperature":0}`, 200).Body), "choices", 0, "logprobs")
	if got := fmt.Sprint(at(lp, "tokens"), at(lp, "text_offset")); got != "[a] [3]" {
		t.Errorf("tokens and offsets %s", got)
	}
	if got := fmt.Sprintf("%.4f", at(lp, "token_logprobs", 0)); got != "-0.6931" {
		t.Errorf("logprob %s", got)
	}
	lp = at(Object(t, w.Post("/v1/completions", `{"prompt":"p","logprobs":2,"temperature":0}`, 200).Body), "choices", 0, "logprobs")
	top, _ := at(lp, "top_logprobs", 0).(map[string]any)
	if len(top) != 2 || fmt.Sprintf("%.4f %.4f", top["a"], top["b"]) != "-0.6931 -1.3863" {
		t.Errorf("top %v", top)
	}
}

func TestVLLM3179ChatLogprobsShape(t *testing.T) {
	w := New(t, Options{Steps: []scripted.Step{{{ID: 'a', P: 0.5}, {ID: 'b', P: 0.25}}, {{ID: EndID, P: 1}}}})
	b := Object(t, w.Post("/v1/chat/completions", chatBody(`"logprobs":true,"top_logprobs":2,"temperature":0`), 200).Body)
	e := at(b, "choices", 0, "logprobs", "content", 0)
	if at(e, "token") != "a" || num(at(e, "bytes", 0)) != 'a' || at(e, "top_logprobs", 1, "token") != "b" {
		t.Errorf("%v", e)
	}
	if v, ok := at(b, "choices", 0, "logprobs").(map[string]any)["refusal"]; !ok || v != nil {
		t.Error("logprobs.refusal must be null")
	}
	plain := at(Object(t, w.Post("/v1/chat/completions", chatBody(""), 200).Body), "choices", 0).(map[string]any)
	if v, ok := plain["logprobs"]; !ok || v != nil {
		t.Error("the key logprobs must be there, null")
	}
	if v, ok := at(plain, "message").(map[string]any)["refusal"]; !ok || v != nil {
		t.Error("message.refusal must be null")
	}
}

func TestVLLM5334EchoWithLogprobs(t *testing.T) {
	w := New(t, Options{Random: true})
	b := Object(t, w.Post("/v1/completions", `{"prompt":"a bé","echo":true,"logprobs":1,"max_tokens":0}`, 200).Body)
	lp := at(b, "choices", 0, "logprobs")
	if at(b, "choices", 0, "text") != "a bé" {
		t.Errorf("text %v", at(b, "choices", 0, "text"))
	}
	values, _ := at(lp, "token_logprobs").([]any)
	if len(values) != 5 || values[0] != nil || values[1] == nil || values[4] == nil {
		t.Errorf("token_logprobs %v", values)
	}
	if got := fmt.Sprint(at(lp, "text_offset")); got != "[0 1 2 3 3]" {
		t.Errorf("text_offset %s", got)
	}
	if at(lp, "top_logprobs", 0) != nil || at(lp, "top_logprobs", 1) == nil {
		t.Errorf("top_logprobs %v", at(lp, "top_logprobs"))
	}
	frames := Frames(t, w.Post("/v1/completions", `{"prompt":"a bé","echo":true,"logprobs":1,"max_tokens":0,"stream":true}`, 200).Body)
	var text string
	var n int
	for _, f := range frames {
		text += str(at(f, "choices", 0, "text"))
		list, _ := at(f, "choices", 0, "logprobs", "tokens").([]any)
		n += len(list)
	}
	if text != "a bé" || n != 5 {
		t.Errorf("streamed %q with %d tokens", text, n)
	}
}

func TestSGLang5984ImpossibleTokensAreFinite(t *testing.T) {
	w := New(t, Options{Say: []string{"a"}})
	r := w.Post("/v1/chat/completions", chatBody(`"logprobs":true,"top_logprobs":5`), 200)
	if v, _ := at(Object(t, r.Body), "choices", 0, "logprobs", "content", 0, "top_logprobs", 4, "logprob").(float64); v != -9999 {
		t.Errorf("%v", v)
	}
}

func TestLlamaCppPython1130Choices(t *testing.T) {
	w := New(t, Options{Random: true})
	b := Object(t, w.Post("/v1/chat/completions", chatBody(`"n":3,"temperature":1,"seed":1,"max_tokens":8`), 200).Body)
	texts := map[string]bool{}
	for i := range 3 {
		if num(at(b, "choices", i, "index")) != i {
			t.Errorf("index of choice %d: %v", i, at(b, "choices", i, "index"))
		}
		texts[str(at(b, "choices", i, "message", "content"))] = true
	}
	if len(texts) != 3 {
		t.Errorf("%d different answers of 3", len(texts))
	}
	streamed := make([]string, 3)
	for _, f := range Frames(t, w.Post("/v1/chat/completions", chatBody(`"n":3,"temperature":1,"seed":1,"max_tokens":8,"stream":true`), 200).Body) {
		streamed[num(at(f, "choices", 0, "index"))] += str(at(f, "choices", 0, "delta", "content"))
	}
	for i, s := range streamed {
		if s != str(at(b, "choices", i, "message", "content")) {
			t.Errorf("choice %d: streamed %q, whole %q", i, s, at(b, "choices", i, "message", "content"))
		}
	}
}

func TestVLLM639ChoicesWithoutTemperature(t *testing.T) {
	w := New(t, Options{Random: true})
	b := Object(t, w.Post("/v1/chat/completions", chatBody(`"n":2,"temperature":0,"max_tokens":8`), 200).Body)
	if at(b, "choices", 0, "message", "content") != at(b, "choices", 1, "message", "content") {
		t.Error("greedy choices differ")
	}
	if p, c := num(at(b, "usage", "prompt_tokens")), num(at(b, "usage", "completion_tokens")); p != num(at(b, "choices", 0, "stats", "prompt_tokens")) || c != 16 {
		t.Errorf("usage must count the prompt once: %d, %d", p, c)
	}
}

func TestPromptsTimesChoicesAreInOrder(t *testing.T) {
	w := New(t, Options{Random: true})
	ask := func(prompt string) []any {
		b := Object(t, w.Post("/v1/completions", `{"prompt":`+prompt+`,"n":2,"seed":3,"max_tokens":6,"echo":true}`, 200).Body)
		c, _ := b["choices"].([]any)
		return c
	}
	both := ask(`["aaa","bbb"]`)
	if len(both) != 4 {
		t.Fatalf("%d choices", len(both))
	}
	solo := append(ask(`"aaa"`), ask(`"bbb"`)...)
	for i := range both {
		if num(at(both[i], "index")) != i || at(both[i], "text") != at(solo[i], "text") {
			t.Errorf("choice %d: %v, alone %v", i, at(both[i], "text"), at(solo[i], "text"))
		}
	}
}

func TestBestOf(t *testing.T) {
	w := New(t, Options{Random: true})
	b := Object(t, w.Post("/v1/completions", `{"prompt":"p","best_of":4,"n":1,"max_tokens":5,"seed":5}`, 200).Body)
	if c, _ := b["choices"].([]any); len(c) != 1 {
		t.Errorf("%d choices", len(c))
	}
	w.Post("/v1/completions", `{"prompt":"p","best_of":4,"stream":true}`, 422)
	w.Post("/v1/completions", `{"prompt":"p","best_of":1,"n":2}`, 422)
}

func TestTensorRTLLM1632NeighboursDoNotMatter(t *testing.T) {
	w := New(t, Options{Random: true})
	ask := func(i int) string {
		extra := fmt.Sprintf(`"temperature":%g,"seed":%d,"max_tokens":12,"loops":%d`, float64(i%3)*0.7, i, 1+i%8)
		return str(at(Object(t, w.Post("/v1/chat/completions", chatBody(extra), 200).Body), "choices", 0, "message", "content"))
	}
	alone := make([]string, 12)
	for i := range alone {
		alone[i] = ask(i)
	}
	crowd := make([]string, 12)
	var wg sync.WaitGroup
	for i := range crowd {
		wg.Go(func() { crowd[i] = ask(i) })
	}
	wg.Wait()
	for i := range alone {
		if alone[i] != crowd[i] {
			t.Errorf("request %d: alone %q, in a crowd %q", i, alone[i], crowd[i])
		}
	}
}

func TestABatchIsBounded(t *testing.T) {
	w := New(t, Options{})
	list := strings.TrimSuffix(strings.Repeat(`"a",`, 128), ",")
	w.Post("/v1/completions", `{"prompt":[`+list+`],"max_tokens":1}`, 200)
	w.Post("/v1/completions", `{"prompt":[`+list+`,"a"]}`, 422)
	w.Post("/v1/completions", `{"prompt":[`+list+`],"n":9}`, 422)
}
