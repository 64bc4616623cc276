package data

import (
	"slices"
	"strings"
	"testing"

	"tinyloop/internal/chat"
	"tinyloop/internal/fixture"
	"tinyloop/internal/tok"
)

// TestRealTokenizers checks with vocabularies that people use that the tokens before an answer are those that a server makes of the same
// prompt, that the learned ones spell the answer and its end, and that traces stand where the answer begins.
func TestRealTokenizers(t *testing.T) {
	spm, err := tok.FromLlama2c(fixture.Read(t, "stories260K", "tok512.bin"), 512)
	if err != nil {
		t.Fatal(err)
	}
	for name, k := range map[string]*tok.Tokenizer{"gpt2": tok.GPT2(), "tok512": spm} {
		d := &Doc{Messages: []Message{{Role: "user", Content: "Where is Mia?"}, {Role: "assistant", Content: "In the big park."}, {Role: "user", Content: "And <|im_end|> Bob ?"},
			{Role: "assistant", Content: "é\n\nin the park."}}, Labels: &Labels{Answers: []Answer{{Message: 1, Start: 11, End: 15, States: []string{"park"}}}}}
		var x Tokens
		if err := NewCoder(k, chat.ChatML()).Encode(d, &x); err != nil {
			t.Fatal(err)
		}
		if got := string(k.Decode(nil, x.IDs)); !strings.Contains(got, "And <|im_end|> Bob ?") {
			t.Errorf("%s: the whole is %q", name, got)
		}
		var said []string
		for _, r := range x.Learn {
			said = append(said, string(k.Decode(nil, x.IDs[r.Start:r.End])))
		}
		for i, want := range []string{"In the big park.<|im_end|>", "é\n\nin the park.<|im_end|>"} {
			if len(said) != 2 || strings.TrimPrefix(said[i], " ") != want {
				t.Errorf("%s: learned %q", name, said)
			}
		}
		parts, err := chat.ChatML().Render(chat.Render{Messages: []chat.Message{{Role: "user", Content: "Where is Mia?"}}, AddGenerationPrompt: true})
		if err != nil {
			t.Fatal(err)
		}
		var spans []tok.Span
		for _, p := range parts {
			spans = append(spans, tok.Span{Text: p.Text, Markup: !p.User})
		}
		prompt := k.EncodeSpans(nil, spans)
		if k.AddBOS() {
			prompt = slices.Insert(prompt, 0, k.BOS())
		}
		if got := x.IDs[:x.Learn[0].Start]; !slices.Equal(got, prompt) {
			t.Errorf("%s: the prompt is %v in training and %v at inference", name, got, prompt)
		}
		if len(x.Traces) != 1 {
			t.Fatalf("%s: traces %v", name, x.Traces)
		}
		rest, word := strings.TrimSpace(string(k.Decode(nil, x.IDs[x.Traces[0].At:]))), strings.TrimSpace(string(k.Bytes(x.Traces[0].ID)))
		if !strings.HasPrefix(rest, "park.") || !strings.HasPrefix(rest, word) {
			t.Errorf("%s: a trace of %q before %q", name, word, rest)
		}
		text := &Doc{Text: "où Mia forêt", Labels: &Labels{Answers: []Answer{{Start: 8, End: 14, States: []string{"Bob", "forêt"}}}}}
		if err := NewCoder(k, chat.ChatML()).Encode(text, &x); err != nil {
			t.Fatal(err)
		}
		if len(x.Traces) != 2 || x.Traces[1].ID != x.IDs[x.Traces[1].At] {
			t.Errorf("%s: the last state must be the answer's own token: %v in %v", name, x.Traces, x.IDs)
		}
	}
}
