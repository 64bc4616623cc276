package servetest

import (
	"strings"
	"testing"
)

// Errors name what the caller wrote, where the caller wrote it; what would change an answer and is not served is refused wherever it stands.
func TestFieldsAtFault(t *testing.T) {
	w := New(t, Options{Context: 64})
	long := strings.Repeat("x", 65)
	for _, c := range []struct {
		path, body string
		status     int
		param, msg string
	}{
		{"/v1/completions", `{"prompt":[[1],[2,99999]],"max_tokens":1}`, 422, "prompt[1][1]", "prompt[1][1] must be"},
		{"/v1/completions", `{"prompt":["a","b","` + long + `"]}`, 400, "prompt[2]", "65"},
		{"/v1/completions", `{"prompt":["a","b"],"top_p":7}`, 422, "top_p", "top_p must be"},
		{"/v1/completions", `{"prompt":["` + long + `"]}`, 400, "prompt[0]", "65"},
		{"/v1/completions", `{"prompt":"` + long + `"}`, 400, "prompt", "65"},
		{"/v1/completions", `{"prompt":[1,99999]}`, 422, "prompt[1]", "prompt[1] must be"},
		{"/generate", `{"prompt":"a","stop_ids":[1,99999]}`, 422, "stop_ids[1]", "stop_ids[1] must be"},
		{"/generate", `{"prompt":"a","tinyloop":{"mode":"wavefront","draft_loops":200}}`, 422, "tinyloop.draft_loops", "tinyloop.draft_loops must be between 1 and"},
		{"/generate", `{"prompt":"a","mode":"sideways"}`, 422, "mode", "speculative"},
		{"/generate/speculative", `{"prompt":"a","mode":"wavefront"}`, 422, "mode", "on this route"},
		{"/generate/tree_speculative", `{"prompt":"a","K_branches":9}`, 422, "K_branches", "between 1 and 8"},
		{"/v1/chat/completions", chatBody(`"tinyloop":{"exit":{"rule":"luck"}}`), 422, "tinyloop.exit.rule", "tinyloop.exit.rule must be one of"},
		{"/generate", `{"prompt":"a","exit":{"rule":"kl","kv":"some"}}`, 422, "exit.kv", "complete"},
		{"/generate", `{"prompt":"a","exit":{"rule":"kl","min_loops":99}}`, 422, "exit.min_loops", "between 1"},
		{"/generate", `{"prompt":"a","exit":{"rule":"kl"},"kv_mode":"last"}`, 422, "kv_mode", "no last loop"},
		{"/v1/chat/completions", chatBody(`"mode":"auto","verify":"hope"`), 422, "verify", "typical"},
		{"/generate", `{"prompt":"a","accept_threshold":1.5}`, 422, "accept_threshold", "at most 1"},
		{"/generate", `{"prompt":"a","logprobs_by_loop":true}`, 422, "logprobs_by_loop", "needs logprobs"},
		{"/generate", `{"prompt":"a","logprobs":true,"logprobs_by_loop":true,"mode":"wavefront"}`, 422, "logprobs_by_loop", "guessing"},
		{"/generate", `{"prompt":"a","kv_mode":"mod:0"}`, 422, "kv_mode", "per_loop, last, mean or mod:k"},
		{"/generate", `{"prompt":"a","kv_mode":"shared"}`, 422, "kv_mode", "trained"},
		{"/generate", `{"prompt":"a","kv_mode":"last","mode":"speculative"}`, 422, "kv_mode", "guess"},
		{"/generate", `{"prompt":"a","functions":[{}]}`, 422, "functions", ""},
		{"/generate", `{"prompt":"a","tinyloop":{"tools":[{}]}}`, 422, "tinyloop.tools", "tinyloop.tools is not supported"},
		{"/v1/chat/completions", chatBody(`"tinyloop":{"grammar":"root ::= x"}`), 422, "tinyloop.grammar", "tinyloop.grammar is not supported"},
		{"/generate", `{"prompt":"a","exit":{"rule":"kl","threshold":1e300}}`, 422, "exit.threshold", "above 0 and at most 3.4"},
		{"/generate", `{"prompt":"a","exit":{"rule":"argmax","threshold":1e300}}`, 422, "exit.threshold", "number of passes, 1 to 3.4"},
		{"/generate", `{"prompt":"a","exit":{"rule":"argmax","threshold":0.5}}`, 422, "exit.threshold", "got 0.5"},
		{"/v1/chat/completions", `{"messages":[]}`, 422, "messages", "messages must not be empty"},
		{"/v1/completions", `{"prompt":"a","n":3,"best_of":2}`, 422, "best_of", "best_of must be at least n = 3, got 2"},
		{"/v1/completions", `{"prompt":"a","best_of":21}`, 422, "best_of", "between 1 and 20, got 21"},
		{"/lens", `{"prompt":"a","top":0}`, 422, "top", "top must be between 1 and 20, got 0"},
		{"/lens", `{"prompt":"a","top":-1}`, 422, "top", "top must be between 1 and 20, got -1"},
		{"/lens", `{"prompt":"a","top":21}`, 422, "top", "top must be between 1 and 20, got 21"},
		{"/v1/chat/completions", chatBody(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"none","tools":[]}}`),
			422, "tool_choice.allowed_tools.mode", `must be auto or required, got "none"`},
		{"/v1/chat/completions", chatBody(`"tools":[{"type":"function","function":{"name":"f"}}],"functions":[{"name":"g"}]`), 422, "functions", "functions is the older form of tools"},
		{"/v1/chat/completions", chatBody(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto","function_call":"auto"`), 422, "function_call", "function_call is the older form of tool_choice"},
		{"/v1/chat/completions", chatBody(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"some"`), 422, "tool_choice",
			`must be none, auto, required or an object that names a function, got "some"`},
		{"/generate", `{"prompt":"a","stop_ids":[` + strings.Repeat("1,", 256) + `1]}`, 422, "stop_ids", "at most 256"}, // each token is compared with all of them
		{"/generate", `{"prompt":"a","suffix":"b"}`, 422, "suffix", ""},
		{"/v1/chat/completions", chatBody(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":true`), 422, "tool_choice",
			"tool_choice must be none, auto, required or an object that names a function, got a boolean"},
		{"/generate", `{"prompt":"a","logit_bias":{"5":1,"05":2}}`, 422, "logit_bias.05", "must be token ids"},
		{"/generate", `{"prompt":"a","logit_bias":{"99999":1}}`, 422, "logit_bias.99999", "logit_bias.99999: the token ids of this model are 0 to"},
		{"/v1/chat/completions", chatBody(`"max_completion_tokens":99999`), 400, "messages", "max_completion_tokens asks for 99999 more"},
		{"/v1/chat/completions", chatBody(`"max_completion_tokens":2,"min_tokens":3`), 422, "min_tokens", "min_tokens must be at most max_completion_tokens = 2, got 3"},
		{"/v1/chat/completions", chatBody(`"max_completion_tokens":-2`), 422, "max_completion_tokens", "max_completion_tokens must be at least 0"},
	} {
		r := w.Post(c.path, c.body, c.status)
		e := at(Object(t, r.Body), "error")
		if at(e, "param") != c.param || !strings.Contains(str(at(e, "message")), c.msg) {
			t.Errorf("%s: %s", short(c.body), r.Body)
		}
	}
	for _, ok := range []string{`"kv_mode":"per_loop"`, `"kv_mode":"last"`, `"kv_mode":"mean"`, `"kv_mode":"mod:2"`, `"verify":"replay"`, `"logprobs_by_loop":false`, `"tinyloop":{"draft_loops":null,"exit":false,"loops":2}`} {
		w.Post("/generate", `{"prompt":"a",`+ok+`}`, 200)
		w.Post("/v1/chat/completions", chatBody(ok), 200)
	}
	r := w.Post("/generate", `{`+strings.Repeat(`"a":1,`, 1<<16+1)+`"b":1}`, 422)
	if !strings.Contains(r.Body, "the body has more than") {
		t.Error(r.Body)
	}
}

// What cannot fit whatever its tokens are is refused by its size: encoding megabytes first would cost seconds and a hundred times the memory.
func TestAPromptBeyondAnyWindowIsNotEncoded(t *testing.T) {
	w := New(t, Options{Context: 64})
	huge := strings.Repeat("x ", 2<<20)
	for path, body := range map[string]string{
		"/generate": `{"prompt":"` + huge + `"}`, "/v1/chat/completions": `{"messages":[{"role":"user","content":"` + huge + `"}]}`,
	} {
		r := w.Post(path, body, 400)
		e := at(Object(t, r.Body), "error")
		if msg := str(at(e, "message")); at(e, "code") != "context_length_exceeded" || !strings.Contains(msg, "64") || !strings.Contains(msg, "at least") {
			t.Errorf("%s: %s", path, r.Body)
		}
	}
}

func TestCachePromptFalseSharesNothing(t *testing.T) {
	w := New(t, Options{Random: true})
	prompt := strings.Repeat("prefix ", 12)
	cached := func(more string) int {
		return num(at(Object(t, w.Post("/generate", `{"prompt":"`+prompt+`","max_tokens":2`+more+`}`, 200).Body), "stats", "cached_prompt_tokens"))
	}
	if cached(`,"cache_prompt":false`); cached("") != 0 {
		t.Error("a request without the cache has filled it")
	}
	if cached("") == 0 {
		t.Error("the cache is not used")
	}
	if n := cached(`,"cache_prompt":false`); n != 0 {
		t.Errorf("%d tokens came from the cache", n)
	}
}

func TestInterTokenTimesAreThoseOfTokens(t *testing.T) {
	w := New(t, Options{Say: []string{"a", "b", "c", "d", "e"}})
	w.Post("/generate", `{"prompt":"p","temperature":0,"n":2}`, 200)
	if r := w.Do("GET", "/metrics", ""); !strings.Contains(r.Body, `tinyloop_inter_token_latency_seconds_count{model="scripted"} 8`+"\n") {
		t.Error("two choices of five tokens have eight gaps")
	}
}
