package gen

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"tinyloop/internal/tok"
)

// What arrives in a stream, from public bug reports about LLM servers: characters cut by tokens and stop strings cut by tokens.
func TestText(t *testing.T) {
	emoji := "🌶️"
	for _, c := range []struct {
		report string
		script []string
		r      Request
		text   string
		finish Finish
		stop   string
	}{
		{report: "llama.cpp 4036", script: []string{"\xe2\x82", "\xac", "<|im_end|>"}, text: "€"},
		{report: "text-generation-inference 333", script: []string{"\xe6", "\x88", "\x91", "\xe5\xbe\x88", "<|im_end|>"}, text: "我很"},
		{report: "llama_cpp_dart 90", script: []string{emoji[:1], emoji[1:3], emoji[3:4], emoji[4:], "<|im_end|>"}, text: emoji},
		{report: "dangling tail", script: []string{"\xf0\x9f"}, r: Request{MaxTokens: ptr(1)}, text: "\uFFFD", finish: FinishLength},
		{report: "llama.cpp 11538", script: []string{"O", " P", " Q", " R"}, r: Request{Stop: []string{"O P Q"}}, stop: "O P Q"},
		{report: "vllm 3574", script: []string{"DEF", "G", "HI", "J"}, r: Request{Stop: []string{"DEFGHIJ"}}, stop: "DEFGHIJ"},
		{report: "llama.cpp PR 9867", script: []string{" Mars", "?", "\n"}, r: Request{Stop: []string{"\n"}}, text: " Mars?", stop: "\n"},
		{report: "llama.cpp 13780", script: []string{"Us", "er", ": x", "<|im_end|>"}, r: Request{Stop: []string{"User:\n", "Assistant:\n"}}, text: "User: x"},
		{report: "llama.cpp 6772", script: []string{"ok", "<|im_end|>", "more"}, text: "ok"},
		{report: "prefix of a stop string is no match", script: []string{"the", " cat", "<|im_end|>"}, r: Request{Stop: []string{"the dog"}}, text: "the cat"},
		{report: "held text at the end", script: []string{"the", " do", "<|im_end|>"}, r: Request{Stop: []string{"the dog"}}, text: "the do"},
		{report: "stop within a token", script: []string{"abcENDdef", "x"}, r: Request{Stop: []string{"END"}}, text: "abc", stop: "END"},
		{report: "stop string of parts of characters", script: []string{"a\xc3", "\xa9", "b"}, r: Request{Stop: []string{"é"}}, text: "a", stop: "é"},
		{report: "overlapping prefix", script: []string{"aa", "ab", "c"}, r: Request{Stop: []string{"aab"}}, text: "a", stop: "aab"},
		{report: "first to end wins", script: []string{"xabcd", "y"}, r: Request{Stop: []string{"abcd", "bc"}}, text: "xa", stop: "bc"},
		{report: "longest of a tie wins", script: []string{"xabc", "y"}, r: Request{Stop: []string{"bc", "abc"}}, text: "x", stop: "abc"},
		{report: "llama.cpp PR 7198", script: []string{"a1", "b1", "c1", "d1"}, r: Request{MaxTokens: ptr(3)}, text: "a1b1c1", finish: FinishLength},
	} {
		t.Run(c.report, func(t *testing.T) {
			g, _ := says(t, c.script...)
			r := c.r
			r.Prompt = ptr("hi")
			es := events(t, g, &r)
			text, done := answer(es, 0)
			if text != c.text || done.Finish != c.finish || done.Stats.StopString != c.stop {
				t.Errorf("got %q, %v, %q; want %q, %v, %q", text, done.Finish, done.Stats.StopString, c.text, c.finish, c.stop)
			}
			for _, e := range es {
				if !utf8.ValidString(e.Text) {
					t.Errorf("%q is not UTF-8", e.Text)
				}
				if c.report == "vllm 3574" && e.Text != "" {
					t.Errorf("sent %q, part of a stop string", e.Text)
				}
			}
			if es[len(es)-1].Kind != Done {
				t.Errorf("the last event is of kind %d", es[len(es)-1].Kind)
			}
		})
	}
}

// vllm 48853: the unfinished character at the end of a prompt stays out of the answer.
func TestPromptTail(t *testing.T) {
	for _, c := range []struct {
		tail   []tok.ID
		script []string
		text   string
	}{
		{[]tok.ID{byte0 + 'a', byte0 + 0xF0, byte0 + 0x9F}, []string{"hello", "<|im_end|>"}, "hello"},
		{[]tok.ID{byte0 + 0xF0, byte0 + 0x9F}, []string{"\x98\x80", "<|im_end|>"}, "😀"}, // the answer completes it
		{[]tok.ID{byte0 + 0xF0, byte0 + 0x9F}, []string{"<|im_end|>"}, ""},
		{[]tok.ID{byte0 + 0xF0}, []string{"\x9f\x98", "x1", "<|im_end|>"}, "x1"},
	} {
		g, _ := says(t, c.script...)
		text, _ := answer(events(t, g, &Request{PromptIDs: c.tail}), 0)
		if text != c.text {
			t.Errorf("after %v: %q, want %q", c.tail, text, c.text)
		}
	}
}

// ik_llama.cpp 780: the bytes of the log-probability entries are the bytes of the text, entry by entry with the text that they made.
func TestLogprobBytes(t *testing.T) {
	g, _ := says(t, "a", "\xf0\x9f", "\x98\x80", " b1", " c1", "<|im_end|>")
	es := events(t, g, &Request{Prompt: ptr("hi"), Logprobs: true, TopLogprobs: 2})
	var whole []byte
	entries := 0
	for _, e := range es {
		var b []byte
		for _, lp := range e.Logprobs {
			entries++
			b = append(b, lp.Bytes...)
			if !utf8.ValidString(lp.Text) {
				t.Errorf("entry text %q is not UTF-8", lp.Text)
			}
			if len(lp.Top) != 2 || lp.Top[0].ID != lp.ID || lp.Top[1].Logprob != -9999 {
				t.Errorf("alternatives %+v", lp.Top)
			}
		}
		if string(b) != e.Text {
			t.Errorf("an event has the text %q and the bytes %q", e.Text, b)
		}
		whole = append(whole, b...)
	}
	if string(whole) != "a😀 b1 c1" || entries != 5 {
		t.Errorf("%d entries with %q", entries, whole)
	}
}

// Entries whose text a stop string cut away wholly are dropped; one that is cut in its middle stays.
func TestLogprobsAtStop(t *testing.T) {
	g, _ := says(t, "one", " tw", "oST", "OP", " no")
	es := events(t, g, &Request{Prompt: ptr("hi"), Logprobs: true, Stop: []string{"STOP"}})
	text, done := answer(es, 0)
	var names []string
	for _, e := range es {
		for _, lp := range e.Logprobs {
			names = append(names, lp.Text)
		}
	}
	if text != "one two" || strings.Join(names, "|") != "one| tw|oST" || done.Stats.CompletionTokens != 4 {
		t.Errorf("%q with %q, %d tokens", text, names, done.Stats.CompletionTokens)
	}
}

// The text of a stream is what a scan of the whole bytes gives, however tokens cut them; nothing that may become a stop string is ever sent,
// and entries and text agree.
func TestStopsProperty(t *testing.T) {
	bytesOnly := vocab(t)
	rapid.Check(t, func(rt *rapid.T) {
		alphabet := rapid.SampledFrom([]string{"a", "b", "é", "😀"})
		full := strings.Join(rapid.SliceOfN(alphabet, 0, 24).Draw(rt, "text"), "")
		stops := rapid.SliceOfN(rapid.Map(rapid.SliceOfN(alphabet, 1, 4), func(s []string) string { return strings.Join(s, "") }), 0, 3).Draw(rt, "stops")
		var ids []tok.ID
		for i := range len(full) {
			ids = append(ids, byte0+tok.ID(full[i]))
		}
		want, word := scan(full, stops)
		g := newGenerator(bytesOnly, &script{ids: append(ids, turnEnd)}, 512)
		s, err := g.Generate(context.Background(), &Request{Prompt: ptr("x"), Stop: stops, Logprobs: true})
		if err != nil {
			rt.Fatal(err)
		}
		var sent strings.Builder
		var lps []byte
		var done Event
		for _, e := range drain(t, s) {
			sent.WriteString(e.Text)
			for _, lp := range e.Logprobs {
				lps = append(lps, lp.Bytes...)
			}
			if e.Kind == Done {
				done = e
			}
			if !strings.HasPrefix(want, sent.String()) {
				rt.Fatalf("sent %q, which is not the start of %q", sent.String(), want)
			}
		}
		if sent.String() != want || done.Stats.StopString != word || !bytes.Equal(lps, []byte(want)) {
			rt.Fatalf("got %q %q (entries %q), want %q %q", sent.String(), done.Stats.StopString, lps, want, word)
		}
	})
}

// scan is the plain definition: the first place where a stop string ends, and of those the longest.
func scan(s string, stops []string) (string, string) {
	for end := 1; end <= len(s); end++ {
		best := ""
		for _, w := range stops {
			if strings.HasSuffix(s[:end], w) && len(w) > len(best) {
				best = w
			}
		}
		if best != "" {
			return s[:end-len(best)], best
		}
	}
	return s, ""
}

func TestByteLevel(t *testing.T) {
	tk := vocab(t)
	for b := range 256 {
		if got := tk.Bytes(byte0 + tok.ID(b)); len(got) != 1 || got[0] != byte(b) {
			t.Fatalf("byte %d is %v", b, got)
		}
	}
	if got := fmt.Sprint(tk.Stops()); got != "[0 2]" {
		t.Errorf("stops %s", got)
	}
}
