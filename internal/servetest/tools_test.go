package servetest

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"tinyloop/internal/scripted"
)

// trained is the template that models are trained with, and served with.
func trained(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile("../train/chat.jinja")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Tools that are read as the model writes them, unless they are required.
const addTool = `{"type":"function","function":{"name":"add","strict":false,"description":"Adds","parameters":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"],"additionalProperties":false}}}`
const nowTool = `{"type":"function","function":{"name":"now","strict":false}}`

func withTools(more string) string {
	if more != "" {
		more = "," + more
	}
	return chatBody(`"tools":[` + addTool + `,` + nowTool + `],"temperature":0,"max_tokens":200` + more)
}

// reply is an answer that may call functions, from a whole body or put together from a stream as clients do.
type reply struct {
	text, finish string
	null         bool // content is null
	calls        []called
}

type called struct{ ID, Type, Name, Arguments string }

func wholeReply(t testing.TB, body string, choice int) (r reply) {
	t.Helper()
	c := at(Object(t, body), "choices", choice)
	r.text, r.finish = str(at(c, "message", "content")), str(at(c, "finish_reason"))
	r.null = at(c, "message", "content") == nil
	list, _ := at(c, "message", "tool_calls").([]any)
	for _, v := range list {
		r.calls = append(r.calls, called{str(at(v, "id")), str(at(v, "type")), str(at(v, "function", "name")), str(at(v, "function", "arguments"))})
	}
	return r
}

// streamedReply checks what clients rely on: an index on every part; id, type and name on the first part of a call and nowhere else; nothing behind the finish.
func streamedReply(t testing.TB, body string, choice int) (r reply) {
	t.Helper()
	r.null = true
	for _, f := range Frames(t, body) {
		if num(at(f, "choices", 0, "index")) != choice || at(f, "choices", 0) == nil {
			continue
		}
		if r.finish != "" {
			t.Errorf("a frame behind the finish: %v", f)
		}
		r.finish = str(at(f, "choices", 0, "finish_reason"))
		d := at(f, "choices", 0, "delta")
		if s := str(at(d, "content")); s != "" {
			r.text, r.null = r.text+s, false
		}
		list, _ := at(d, "tool_calls").([]any)
		for _, v := range list {
			index, ok := at(v, "index").(float64)
			if !ok {
				t.Fatalf("a part of a call without an index: %v", f)
			}
			id, typ, name := str(at(v, "id")), str(at(v, "type")), str(at(v, "function", "name"))
			if first := int(index) == len(r.calls); first {
				if id == "" || typ != "function" || name == "" {
					t.Fatalf("the first part of a call: %v", f)
				}
				r.calls = append(r.calls, called{ID: id, Type: typ, Name: name})
			} else if id != "" || typ != "" || name != "" || int(index) != len(r.calls)-1 {
				t.Fatalf("a later part of a call: %v", f)
			}
			args, ok := at(v, "function", "arguments").(string)
			if !ok {
				t.Fatalf("arguments are no string: %v", f)
			}
			r.calls[len(r.calls)-1].Arguments += args
		}
	}
	return r
}

// both asks whole and streamed, which must be one and the same.
func both(t *testing.T, w *World, body string) reply {
	t.Helper()
	whole := wholeReply(t, w.Post("/v1/chat/completions", body, 200).Body, 0)
	stream := streamedReply(t, w.Post("/v1/chat/completions", strings.TrimSuffix(body, "}")+`,"stream":true}`, 200).Body, 0)
	if whole.text != stream.text || whole.finish != stream.finish || len(whole.calls) != len(stream.calls) {
		t.Fatalf("%s\nwhole    %+v\nstreamed %+v", body, whole, stream)
	}
	ids := map[string]bool{}
	for i, c := range whole.calls {
		s := stream.calls[i]
		if c.Name != s.Name || c.Arguments != s.Arguments || c.Type != "function" {
			t.Errorf("call %d: whole %+v, streamed %+v", i, c, s)
		}
		if c.ID == "" || ids[c.ID] {
			t.Errorf("the id %q is empty or stands twice", c.ID)
		}
		ids[c.ID] = true
	}
	return whole
}

func (r reply) String() string {
	out := r.finish + " " + r.text
	for _, c := range r.calls {
		out += "|" + c.Name + c.Arguments
	}
	return out
}

// Calls that the model writes are calls, whatever the tokens they come in; what is none is text, all of it.
func TestToolCalls(t *testing.T) {
	for _, c := range []struct {
		name string
		say  []string
		more string
		want string
	}{
		{"call", []string{"<tool", "_call>{\"na", `me":"add","arguments":{"a":1,`, `"b":2}}</tool`, "_call>"}, "", `tool_calls |add{"a":1,"b":2}`},
		{"two", []string{`<tool_call>{"name":"add","arguments":{}}</tool_call>`, "\n", `<tool_call>{"name":"now","arguments":{}}</tool_call>`}, "", `tool_calls |add{}|now{}`},
		{"one of two", []string{`<tool_call>{"name":"add","arguments":{}}</tool_call>`, "\n", `<tool_call>{"name":"now","arguments":{}}</tool_call>`}, `"parallel_tool_calls":false`, `tool_calls |add{}`},
		{"text first", []string{"Let me ", "see: ", `<tool_call>{"name":"now"}</tool_call>`}, "", `tool_calls Let me see: |now{}`},
		{"text only", []string{"hel", "lo <tool"}, "", "stop hello <tool"},
		{"unknown function (llama.cpp 16710)", []string{`<tool_call>{"name":"nope","arguments":[`}, "", `stop <tool_call>{"name":"nope","arguments":[`},
		{"not offered", []string{`<tool_call>{"name":"now","arguments":{}}</tool_call>`}, `"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"add"}}]}}`,
			`stop <tool_call>{"name":"now","arguments":{}}</tool_call>`},
		{"none", []string{`<tool_call>{"name":"now","arguments":{}}</tool_call>`}, `"tool_choice":"none"`, `stop <tool_call>{"name":"now","arguments":{}}</tool_call>`},
		{"cut", []string{`<tool_call>`, `{"name":"now",`, `"arguments":{}}`, `</tool_call>`}, `"max_tokens":2`, `length <tool_call>{"name":"now",`},
		{"stop string", []string{`<tool_call>`, `{"name":"now",`, `"arguments":{}}`, `</tool_call>`}, `"stop":"arg"`, `stop <tool_call>{"name":"now","`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := New(t, Options{Say: c.say, Template: trained(t)})
			if got := both(t, w, withTools(c.more)); got.String() != c.want || got.null != (got.text == "") {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// leaning is an answer whose every token is certain but for one chance in eight of another, at the given place.
func leaning(say []string, at int, other string) (own []string, steps []scripted.Step) {
	own = append(slices.Clone(say), other)
	ids := IDs(own...)
	for i, id := range append(slices.Clone(ids[:len(say)]), EndID) {
		if i == at {
			steps = append(steps, scripted.Step{{ID: ids[len(say)], P: 0.875}, {ID: id, P: 0.125}})
			continue
		}
		steps = append(steps, scripted.Step{{ID: id, P: 1}})
	}
	return own, steps
}

// A call that is asked for comes, with arguments that obey the schema, whatever the model would rather say.
func TestForcedCalls(t *testing.T) {
	say := []string{"<tool_call>", `{"name":"`, "add", `","arguments":{"a":`, "1", `,"b":2`, "}}", "</tool_call>"}
	for _, c := range []struct {
		at              int
		instead, choice string
	}{
		{0, "Hello", `"required"`}, {2, "nope", `"required"`}, {2, "now", `{"type":"function","function":{"name":"add"}}`}, {4, `"one"`, `"required"`},
		{5, "}}", `"required"`}, {7, "  ", `"required"`}, {8, "and more", `{"type":"function","function":{"name":"add"}}`},
		{4, "null", `{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"add"}}]}}`},
	} {
		own, steps := leaning(say, c.at, c.instead)
		w := New(t, Options{Say: own, Steps: steps, Template: trained(t)})
		for _, mode := range []string{"autoregressive", "speculative", "tree_speculative", "wavefront", "auto"} {
			got := both(t, w, withTools(fmt.Sprintf(`"tool_choice":%s,"mode":%q,"parallel_tool_calls":%v`, c.choice, mode, c.at == 8)))
			if got.String() != `tool_calls |add{"a":1,"b":2}` {
				t.Errorf("instead of token %d the model wants %q, mode %s: %s", c.at, c.instead, mode, got)
			}
		}
	}
}

// A call that the model makes of its own accord is held to what was offered, unless a tool says that it is not strict.
func TestCallsAreHeldToTheirTools(t *testing.T) {
	say := []string{"Well ", "<tool_call>", `{"name":"`, "add", `","arguments":{"a":`, "1", `,"b":2}}`, "</tool_call>"}
	for _, c := range []struct {
		at                    int
		instead, strict, want string
	}{
		{3, "nope", `"strict":true,`, `tool_calls Well |add{"a":1,"b":2}`},
		{3, "nope", ``, `tool_calls Well |add{"a":1,"b":2}`},
		{3, "nope", `"strict":null,`, `tool_calls Well |add{"a":1,"b":2}`},
		{3, "nope", `"strict":false,`, `stop Well <tool_call>{"name":"nope","arguments":{"a":1,"b":2}}</tool_call>`},
		{5, `"one"`, `"strict":true,`, `tool_calls Well |add{"a":1,"b":2}`},
		{5, `"one"`, ``, `tool_calls Well |add{"a":1,"b":2}`},
		{5, `"one"`, `"strict":false,`, `tool_calls Well |add{"a":"one","b":2}`},
		{1, "no tool", ``, `stop Well no tool{"name":"add","arguments":{"a":1,"b":2}}</tool_call>`},
	} {
		own, steps := leaning(say, c.at, c.instead)
		w := New(t, Options{Say: own, Steps: steps, Template: trained(t)})
		body := strings.Replace(withTools(""), `"strict":false,`, c.strict, 1)
		if got := both(t, w, body); got.String() != c.want {
			t.Errorf("strict %q, %q instead of %q: %s", c.strict, c.instead, say[c.at], got)
		}
	}
	cut := New(t, Options{Say: say, Template: trained(t)})
	if got := both(t, cut, strings.Replace(withTools(`"stop":",\"b"`), `"strict":false,`, "", 1)); got.String() != `stop Well |add{"a":1` {
		t.Errorf("cut by a stop string: %s", got)
	}
	own, steps := leaning(say, 5, `"one"`)
	w := New(t, Options{Say: own, Steps: steps, Template: trained(t)})
	odd := strings.Replace(strings.Replace(withTools(""), `"strict":false,`, "", 1), `{"a":{"type":"integer"}`, `{"a":{"minimum":1}`, 1)
	if got := both(t, w, odd); got.String() != `tool_calls Well |add{"a":"one","b":2}` {
		t.Errorf("a schema that is not understood: %s", got)
	}
	frames := 0
	for _, f := range Frames(t, w.Post("/v1/chat/completions", strings.TrimSuffix(odd, "}")+`,"stream":true}`, 200).Body) {
		if at(f, "choices", 0, "delta", "tool_calls") != nil {
			frames++
		}
	}
	if frames < 3 {
		t.Errorf("the arguments came in %d frames: they are to come as they are written", frames-1)
	}
}

// Answers in JSON: nothing but the value, and the end right behind it (ollama 2577: white space for ever).
func TestJSONAnswers(t *testing.T) {
	spaces := []scripted.Step{{{ID: ' ', P: 0.75}, {ID: '{', P: 0.25}}, {{ID: ' ', P: 0.75}, {ID: '}', P: 0.125}, {ID: EndID, P: 0.125}}}
	w := New(t, Options{Steps: spaces})
	r := wholeReply(t, w.Post("/v1/chat/completions", chatBody(`"response_format":{"type":"json_object"},"temperature":0,"max_tokens":50`), 200).Body, 0)
	if !json.Valid([]byte(r.text)) || !strings.HasPrefix(r.text, "{") || !strings.HasSuffix(r.text, "}") || r.finish != "stop" {
		t.Errorf("a model that prefers blanks: %s", r)
	}
	w = New(t, Options{Random: true})
	schema := `{"type":"object","properties":{"n":{"type":"integer"},"k":{"enum":["a","b"]},"l":{"type":"array","items":{"type":"boolean"},"maxItems":2}},"required":["n","k","l"],"additionalProperties":false}`
	for seed := range 40 {
		var texts []string
		for _, mode := range []string{"autoregressive", "speculative", "tree_speculative", "wavefront", "auto"} {
			body := chatBody(fmt.Sprintf(`"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":%s}},"seed":%d,"mode":%q`, schema, seed, mode))
			r := wholeReply(t, w.Post("/v1/chat/completions", body, 200).Body, 0)
			var v struct {
				N *int
				K string
				L []bool
			}
			if err := json.Unmarshal([]byte(r.text), &v); err != nil || v.N == nil || v.K != "a" && v.K != "b" || v.L == nil || len(v.L) > 2 || r.finish != "stop" {
				t.Fatalf("%s: %v", r, err)
			}
			texts = append(texts, r.text)
		}
		if len(slices.Compact(texts)) != 1 {
			t.Errorf("seed %d: the modes differ: %q", seed, texts)
		}
	}
	body := chatBody(`"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"string","minLength":100}}},"max_tokens":9,"n":3,"seed":1`)
	for i := range 3 {
		if r := wholeReply(t, w.Post("/v1/chat/completions", body, 200).Body, i); r.finish != "length" || !strings.HasPrefix(r.text, `"`) {
			t.Errorf("cut: %s", r)
		}
	}
	typical := w.Post("/v1/chat/completions", chatBody(`"response_format":{"type":"json_object","schema":`+schema+`},"mode":"speculative","verify":"typical","seed":3`), 200)
	if r := wholeReply(t, typical.Body, 0); !json.Valid([]byte(r.text)) || r.finish != "stop" {
		t.Errorf("typical: %s", r)
	}
	rejection := w.Post("/v1/chat/completions", chatBody(`"response_format":{"type":"json_object","schema":`+schema+`},"mode":"tree_speculative","verify":"rejection","seed":3`), 200)
	if r := wholeReply(t, rejection.Body, 0); !json.Valid([]byte(r.text)) || r.finish != "stop" {
		t.Errorf("rejection: %s", r)
	}
}

// sglang 5984: a mask that leaves one token makes others impossible, not their log-probabilities.
func TestSGLang5984LogprobsUnderAMask(t *testing.T) {
	w := New(t, Options{Say: []string{"{", "}"}})
	lp := at(Object(t, w.Post("/v1/chat/completions", chatBody(`"response_format":{"type":"json_object"},"logprobs":true,"top_logprobs":5,"temperature":0`), 200).Body), "choices", 0, "logprobs", "content", 0, "top_logprobs")
	if l, _ := lp.([]any); len(l) != 5 || at(l[4], "logprob") != -9999.0 {
		t.Errorf("top_logprobs %v", lp)
	}
}

func TestToolsAndFormatsRefused(t *testing.T) {
	with, without := New(t, Options{Template: trained(t)}), New(t, Options{})
	mute := New(t, Options{Template: `{% for m in messages %}{{ m.content }}{% endfor %}`})
	param := func(s string) string {
		return `"tools":[{"type":"function","function":{"name":"f","parameters":` + s + `}}]`
	}
	for _, c := range []struct {
		w              *World
		extra          string
		param, message string
	}{
		{without, `"tools":[` + nowTool + `]`, "tools", "no chat template"},
		{mute, `"tools":[` + nowTool + `]`, "tools", "does not show"},
		{with, `"tools":[{"type":"custom","custom":{}}]`, "tools[0].type", "functions"},
		{with, `"tools":[{"function":{"name":"f"}}]`, "tools[0].type", "required"},
		{with, `"tools":[{"type":"function"}]`, "tools[0].function", "required"},
		{with, `"tools":[{"type":"function","function":{}}]`, "tools[0].function.name", "required"},
		{with, `"tools":[{"type":"function","function":{"name":"a b"}}]`, "tools[0].function.name", "letters"},
		{with, `"tools":[` + nowTool + `,` + nowTool + `]`, "tools[1].function.name", "twice"},
		{with, `"tools":[` + strings.Repeat(nowTool+",", 128) + nowTool + `]`, "tools", "at most 128"},
		{with, `"tools":7`, "tools", "array"},
		{with, param(`7`), "tools[0].function.parameters", "object"},
		{with, param(`{"type":"object","properties":{"x":{"pattern":"a"}}}`) + `,"tool_choice":"required"`, "tools[0].function.parameters.properties.x.pattern", "not supported"},
		{with, `"tool_choice":"required"`, "tool_choice", "no tools"},
		{with, `"tool_choice":"sometimes","tools":[` + nowTool + `]`, "tool_choice", "required"},
		{with, `"tool_choice":{"type":"function","function":{"name":"f"}},"tools":[` + nowTool + `]`, "tool_choice", "none of the tools"},
		{with, `"tool_choice":{"type":"function"},"tools":[` + nowTool + `]`, "tool_choice.function", "required"},
		{with, `"tool_choice":{"type":"custom"},"tools":[` + nowTool + `]`, "tool_choice.type", "allowed_tools"},
		{with, `"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}},"tools":[` + nowTool + `]`, "tool_choice", "allows no tool"},
		{with, `"tool_choice":7,"tools":[` + nowTool + `]`, "tool_choice", "object"},
		{with, `"response_format":{"type":"sound"}`, "response_format.type", "json_schema"},
		{with, `"response_format":{"type":"json_schema"}`, "response_format.json_schema", "required"},
		{with, `"response_format":"json"`, "response_format", "object"},
		{with, `"response_format":{"type":"json_schema","json_schema":{"schema":123}}`, "response_format.json_schema.schema", "schema"},
		{with, `"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"hiccup"}}}`, "response_format.json_schema.schema.type", "null"},
		{with, `"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"string","pattern":"^a\\!$"}}}`, "response_format.json_schema.schema.pattern", "not supported"},
		{with, `"response_format":{"type":"json_object","schema":{"anyOf":[{"not":{}}]}}`, "response_format.schema.anyOf[0].not", "not supported"},
		{with, `"response_format":{"type":"json_object"},"ignore_eos":true`, "response_format", "ignore_eos"},
		{with, `"json_schema":{"type":"object"}`, "json_schema", "not supported"},
	} {
		r := c.w.Post("/v1/chat/completions", chatBody(c.extra+`,"stream":true`), 422)
		e := at(Object(t, r.Body), "error")
		if at(e, "param") != c.param || !strings.Contains(str(at(e, "message")), c.message) {
			t.Errorf("%.200s: %s", c.extra, r.Body)
		}
	}
	history := `{"messages":[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}]}`
	r := without.Post("/v1/chat/completions", history, 422)
	if at(Object(t, r.Body), "error", "param") != "messages[1].tool_calls" {
		t.Error(r.Body)
	}
	for _, extra := range []string{
		`"tools":[` + nowTool + `],"tool_choice":"auto"`, `"functions":[{"name":"f","parameters":{}}],"function_call":"auto"` /* vllm 9312 */, `"tools":[],"tool_choice":null`,
		param(`{"properties":{"x":{"pattern":"a"}}}`) /* not strict, not required: nothing is held to it */, param(`{}`) + `,"tool_choice":"none"`, param(`null`),
		`"response_format":{"type":"text"}`,
	} {
		with.Post("/v1/chat/completions", chatBody(extra), 200)
	}
}

// A tool without parameters is called with none; definitions at the root of a schema are found (LM Studio 0.3.17).
func TestToolSchemas(t *testing.T) {
	w := New(t, Options{Random: true, Template: trained(t)})
	refs := `{"type":"function","function":{"name":"f","parameters":{"$defs":{"n":{"enum":[1,2]}},"type":"object","properties":{"x":{"$ref":"#/$defs/n"}},"required":["x"],"additionalProperties":false}}}`
	for seed := range 10 {
		r := both(t, w, chatBody(fmt.Sprintf(`"tools":[%s],"tool_choice":"required","parallel_tool_calls":false,"seed":%d`, refs, seed)))
		var args struct{ X int }
		if err := json.Unmarshal([]byte(r.calls[0].Arguments), &args); err != nil || args.X != 1 && args.X != 2 || r.finish != "tool_calls" || !r.null {
			t.Errorf("%s: %v", r, err)
		}
	}
	w = New(t, Options{Say: []string{`<tool_call>{"name":"now"`, `,"arguments":{}}`, "</tool_call>"}, Template: trained(t)})
	if r := both(t, w, withTools(`"tool_choice":{"type":"function","function":{"name":"now"}}`)); r.String() != "tool_calls |now{}" {
		t.Errorf("a function without parameters: %s", r)
	}
}

// Of tools and a format, the answer is a call or JSON.
func TestToolsWithAFormat(t *testing.T) {
	for say, want := range map[string]string{`{"a":1}`: `stop {"a":1}`, `<tool_call>{"name":"now","arguments":{}}</tool_call>`: "tool_calls |now{}"} {
		w := New(t, Options{Say: []string{say}, Template: trained(t)})
		if r := both(t, w, withTools(`"response_format":{"type":"json_object"}`)); r.String() != want {
			t.Errorf("%s: %s", say, r)
		}
	}
}

// A conversation with calls and results reads as in training, and what was wrong in it stays as it was (vllm 43995).
func TestConversationsWithCalls(t *testing.T) {
	w := New(t, Options{Template: trained(t), Context: 1024})
	prompt := func(messages string) string {
		r := w.Post("/v1/chat/completions", `{"tools":[`+addTool+`],"max_tokens":1,"messages":`+messages+`}`, 200)
		return fmt.Sprint(num(at(Object(t, r.Body), "usage", "prompt_tokens")))
	}
	offer := `{"name":"add","description":"Adds","parameters":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"],"additionalProperties":false}}`
	want := func(turns string) string {
		text := "<|im_start|>system\nTools:\n" + offer + "<|im_end|>\n<|im_start|>user\n1 + 2?<|im_end|>\n" + turns + "<|im_start|>assistant\n"
		ids := w.Tok.EncodeMarkup(nil, text)
		if w.Tok.AddBOS() {
			ids = append(ids, TextID)
		}
		return fmt.Sprint(len(ids))
	}
	call := func(args string) string {
		b, _ := json.Marshal(args)
		return `[{"role":"user","content":"1 + 2?"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"add","arguments":` + string(b) + `}}]},{"role":"tool","tool_call_id":"c1","content":"{\"result\":3}"}]`
	}
	result := "<|im_start|>tool\n{\"result\":3}<|im_end|>\n"
	for _, c := range []struct{ args, shown string }{
		{`{"a": 1, "b":2}`, `{"a":1,"b":2}`}, {`{"p": "a "b" c"}`, `{"p": "a "b" c"}`}, {"", ""}, {`[1]`, `[1]`},
	} {
		turns := `<|im_start|>assistant` + "\n" + `<tool_call>{"name":"add","arguments":` + c.shown + `}</tool_call><|im_end|>` + "\n" + result
		if got := prompt(call(c.args)); got != want(turns) {
			t.Errorf("arguments %q: %s tokens in the prompt, want %s", c.args, got, want(turns))
		}
	}
	old := `[{"role":"user","content":"1 + 2?"},{"role":"assistant","content":null,"function_call":{"name":"add","arguments":"{}"}},{"role":"function","name":"add","content":"{\"result\":3}"}]`
	if got := prompt(old); got != want(`<|im_start|>assistant`+"\n"+`<tool_call>{"name":"add","arguments":{}}</tool_call><|im_end|>`+"\n"+result) {
		t.Errorf("function_call: %s tokens", got)
	}
}

// Compiled forms are kept by what they say: two requests with other tools do not share one.
func TestFormsAreNotMixedUp(t *testing.T) {
	w := New(t, Options{Random: true, Template: trained(t)})
	for i := range 20 {
		k := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"}[i%11]
		body := chatBody(`"seed":1,"response_format":{"type":"json_schema","json_schema":{"schema":{"const":"` + k + `"}}}`)
		if r := both(t, w, body); r.text != `"`+k+`"` {
			t.Errorf("%s: %s", k, r)
		}
	}
}
