package tok_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tinyloop/internal/fault"
	"tinyloop/internal/fixture"
	"tinyloop/internal/tok"
)

// from yields texts one by one.
func from(texts ...string) func(func(string) error) error {
	return func(yield func(string) error) error {
		for _, t := range texts {
			if err := yield(t); err != nil {
				return err
			}
		}
		return nil
	}
}

func train(t testing.TB, o tok.TrainOptions, texts ...string) *tok.Tokenizer {
	t.Helper()
	tk, err := tok.Train(context.Background(), o, from(texts...))
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

func merges(tk *tok.Tokenizer) []string { return tk.GGUF()["tokenizer.ggml.merges"].([]string) }

// TestTrainReference: merges and vocabulary of an independent trainer, which takes the greatest pair among equals.
func TestTrainReference(t *testing.T) {
	text := string(fixture.Read(t, "cs336-bpe", "corpus.en"))
	want := strings.Split(strings.TrimSuffix(string(fixture.Read(t, "cs336-bpe", "train-bpe-reference-merges.txt")), "\n"), "\n")
	var vocab map[string]tok.ID
	if err := json.Unmarshal(fixture.Read(t, "cs336-bpe", "train-bpe-reference-vocab.json"), &vocab); err != nil {
		t.Fatal(err)
	}
	tk := train(t, tok.TrainOptions{Vocab: 500, Pre: "gpt-2", Control: []string{"<|endoftext|>"}, Ties: tok.GreatestBytes, Threads: 2}, text)
	if got := merges(tk); !slices.Equal(got, want) {
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Fatalf("merge %d is %q, want %q", i, got[i], want[i])
			}
		}
		t.Fatalf("%d merges, want %d", len(got), len(want))
	}
	if tk.Size() != len(vocab) {
		t.Errorf("%d entries, want %d", tk.Size(), len(vocab))
	}
	for piece, id := range vocab {
		if tk.Piece(id) != piece {
			t.Errorf("token %d is %q, want %q", id, tk.Piece(id), piece)
		}
	}
}

// lines cuts a text behind each line feed, as Hugging Face's trainer reads files.
func lines(text string) []string { return slices.Collect(strings.Lines(text)) }

// TestTrainHuggingFace: the first 500 merges that tokenizers 0.23.2 learns from a text that every Go installation has (made by
// test/hf, which also compares with the library itself).
func TestTrainHuggingFace(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("needs the go command: ", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "src", "testdata", "Isaac.Newton-Opticks.txt"))
	if err != nil {
		t.Skip(err)
	}
	golden, err := os.ReadFile(filepath.Join("testdata", "opticks-merges.txt"))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(golden)), "\n")
	tk := train(t, tok.TrainOptions{Vocab: 256 + len(want), Pre: "gpt-2"}, lines(string(text))...)
	if got := merges(tk); len(want) != 500 || !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// naiveTrain counts all pairs anew for each merge.
func naiveTrain(words []string, rounds, minCount int, ties tok.Ties) []string {
	rank := map[string]int{} // ids: bytes by their letter of the alphabet, then merged tokens in their order
	for b := range 256 {
		rank[string([]byte{byte(b)})] = int([]rune(tok.ToByteLevel(string([]byte{byte(b)})))[0])
	}
	split := make([][]string, len(words))
	for i, w := range words {
		for k := range len(w) {
			split[i] = append(split[i], w[k:k+1])
		}
	}
	var out []string
	for len(rank)-256 < rounds {
		counts := map[[2]string]int{}
		for _, w := range split {
			for i := 1; i < len(w); i++ {
				counts[[2]string{w[i-1], w[i]}]++
			}
		}
		var best [2]string
		n := 0
		for p, c := range counts {
			first := rank[p[0]] < rank[best[0]] || p[0] == best[0] && rank[p[1]] < rank[best[1]]
			if ties == tok.GreatestBytes {
				first = p[0] > best[0] || p[0] == best[0] && p[1] > best[1]
			}
			if c > n || c == n && first {
				best, n = p, c
			}
		}
		if n < minCount || n == 0 {
			break
		}
		out = append(out, tok.ToByteLevel(best[0])+" "+tok.ToByteLevel(best[1]))
		if _, ok := rank[best[0]+best[1]]; !ok {
			rank[best[0]+best[1]] = 1000 + len(rank)
		}
		for k, w := range split {
			var next []string
			for i := 0; i < len(w); i++ {
				if i+1 < len(w) && w[i] == best[0] && w[i+1] == best[1] {
					next = append(next, w[i]+w[i+1])
					i++
				} else {
					next = append(next, w[i])
				}
			}
			split[k] = next
		}
	}
	return out
}

// TestTrainNaive: the same merges as counting everything anew, on words in which pairs overlap and tie all the time.
func TestTrainNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 150 {
		letters := []rune("abcd")[:1+r.IntN(4)]
		if round%5 == 0 {
			letters = []rune("é日")
		}
		words := make([]string, 1+r.IntN(30))
		for i := range words {
			var b strings.Builder
			for range 1 + r.IntN(14) {
				b.WriteRune(letters[r.IntN(len(letters))])
			}
			words[i] = b.String()
		}
		o := tok.TrainOptions{Vocab: 256 + 1 + r.IntN(60), Pre: "gpt-2", Ties: tok.Ties(round % 2), MinCount: r.IntN(3), Threads: 1 + r.IntN(3)}
		got, want := merges(train(t, o, words...)), naiveTrain(words, o.Vocab-256, o.MinCount, o.Ties)
		if !slices.Equal(got, want) {
			t.Fatalf("%q, %+v:\ngot  %q\nwant %q", words, o, got, want)
		}
	}
}

// trained is a small tokenizer with everything that one can have.
func trained(t testing.TB) *tok.Tokenizer {
	return train(t, tok.TrainOptions{Vocab: 350, Pre: "qwen2", Control: []string{"<|bos|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"},
		Markers: []string{"<tool_call>", "</tool_call>"}, Whole: []string{"system", "user", "assistant", "tool"}, MinCount: 2, Threads: 2}, corpus()...)
}

// corpus is some text of our own, with numbers, accents and markup.
func corpus() []string {
	r := rand.New(rand.NewPCG(3, 4))
	names, things := strings.Fields("Anna Théo Léa George Nadia Luc Jane"), strings.Fields("bakery park musée bridge école harbour train 日本 tool")
	var out []string
	for i := range 300 {
		a, b, c := names[r.IntN(len(names))], names[r.IntN(len(names))], things[r.IntN(len(things))]
		out = append(out, fmt.Sprintf("%s is with %s, and %s isn't at the %s.\n%d + %d = %d\n", a, b, a, c, i, r.IntN(99), r.IntN(500)),
			fmt.Sprintf("<|im_start|>user\nOù est %s ?<|im_end|>\nAu %s.<|im_end|>", b, c))
	}
	return out
}

// TestTrainRoles: what has which id, and what begins and ends texts.
func TestTrainRoles(t *testing.T) {
	tk := trained(t)
	if tk.Size() != 350 || tk.Pre() != "qwen2" || tk.BOS() != 0 || !tk.AddBOS() || tk.EOS() != 1 || tk.EOT() != 3 || !slices.Equal(tk.Stops(), []tok.ID{1, 3}) {
		t.Errorf("%d entries, pre %q, bos %d, add %v, eos %d, eot %d, stops %v", tk.Size(), tk.Pre(), tk.BOS(), tk.AddBOS(), tk.EOS(), tk.EOT(), tk.Stops())
	}
	for i, text := range []string{"<|bos|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>", "<tool_call>", "</tool_call>", "!"} {
		if tk.Piece(tok.ID(i)) != text || tk.IsControl(tok.ID(i)) != (i < 5) {
			t.Errorf("token %d is %q, control %v", i, tk.Piece(tok.ID(i)), tk.IsControl(tok.ID(i)))
		}
	}
	if b := tk.Bytes(5); string(b) != "<tool_call>" {
		t.Errorf("the marker's text is %q", b)
	}
	for _, role := range []string{"system", "user", "assistant", "tool"} {
		ids := tk.EncodeMarkup(nil, "<|im_start|>"+role+"\n")
		if len(ids) != 3 || string(tk.Bytes(ids[1])) != role {
			t.Errorf("%s is written as %v", role, ids)
		}
	}
	for _, b := range tk.Encode(nil, "40213") {
		if len(tk.Bytes(b)) != 1 {
			t.Errorf("digits share the token %q", tk.Bytes(b))
		}
	}
	for _, line := range merges(tk) {
		if strings.ContainsAny(line, "<>|") {
			t.Errorf("markup was learned: %q", line)
		}
	}
}

// TestTrainSame: neither threads nor the order of texts change anything; the tokenizer survives both file formats.
func TestTrainSame(t *testing.T) {
	want := trained(t)
	texts := corpus()
	slices.Reverse(texts)
	o := tok.TrainOptions{Vocab: 350, Pre: "qwen2", Control: []string{"<|bos|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"},
		Markers: []string{"<tool_call>", "</tool_call>"}, Whole: []string{"system", "user", "assistant", "tool"}, MinCount: 2}
	for _, o.Threads = range []int{0, 1, 7} {
		if train(t, o, texts...).Hash() != want.Hash() {
			t.Errorf("%d threads give another tokenizer", o.Threads)
		}
	}
	again, err := tok.FromGGUF(meta(want.GGUF()))
	if err != nil || again.Hash() != want.Hash() {
		t.Errorf("GGUF does not keep the tokenizer: %v", err)
	}
	data, err := want.HF()
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range [][]byte{nil, want.HFConfig("{{ messages }}")} {
		if again, err = tok.FromHF(data, config); err != nil || again.Hash() != want.Hash() {
			t.Errorf("tokenizer.json does not keep the tokenizer: %v", err)
		}
	}
}

// TestTrainPre trains with every pre-tokenizer: texts come back, digits stand alone where that was asked for.
func TestTrainPre(t *testing.T) {
	for _, name := range tok.PreNames() {
		for _, digits := range []bool{false, true} {
			tk := train(t, tok.TrainOptions{Vocab: 420, Pre: name, Digits: digits}, corpus()...)
			text := "Théo isn't  at 日本: 120 + 35 = 155\n\n\xff"
			ids := tk.Encode(nil, text)
			checkDecode(t, tk, text, ids)
			data, err := tk.HF()
			if err != nil {
				t.Fatal(err)
			}
			again, err := tok.FromHF(data, nil)
			if err != nil || again.Hash() != tk.Hash() {
				t.Errorf("%s: tokenizer.json gives another tokenizer: %v", name, err)
			}
			longest := 0
			for id := range tok.ID(tk.Size()) {
				if b := tk.Bytes(id); strings.Trim(string(b), "0123456789") == "" {
					longest = max(longest, len(b))
				}
			}
			if digits && longest != 1 {
				t.Errorf("%s: a token has %d digits", name, longest)
			}
			if name == "gpt-2" && !digits && longest < 2 {
				t.Errorf("%s: no token has two digits, so the test above says nothing", name)
			}
		}
	}
}

// TestTrainLong: long pieces without a blank cost no more than others, and no token outgrows what can be loaded.
func TestTrainLong(t *testing.T) {
	tk := train(t, tok.TrainOptions{Vocab: 400, Pre: "gpt-2"}, strings.Repeat("a", 1<<20), strings.Repeat("東京は日本の首都です", 1<<14))
	longest := 0
	for id := range tok.ID(tk.Size()) {
		longest = max(longest, len(tk.Bytes(id)))
	}
	if longest < 1024 || longest > 2048 {
		t.Errorf("the longest token has %d bytes", longest)
	}
}

// TestTrainSmall: when no pair is left the vocabulary stays smaller, with its whole words.
func TestTrainSmall(t *testing.T) {
	tk := train(t, tok.TrainOptions{Vocab: 1000, Pre: "gpt-2", Whole: []string{"user"}, MinCount: 2}, "ab ab cd")
	if got := merges(tk); !slices.Equal(got, []string{"a b", "Ġ ab", "u s", "us e", "use r"}) && !slices.Equal(got, []string{"a b", "u s", "us e", "use r"}) {
		t.Errorf("merges %q", got)
	}
	tk = train(t, tok.TrainOptions{Vocab: 300, Pre: "gpt-2"})
	if tk.Size() != 256 {
		t.Errorf("no text gave %d entries", tk.Size())
	}
}

func TestTrainErrors(t *testing.T) {
	good := tok.TrainOptions{Vocab: 300, Pre: "gpt-2"}
	for _, c := range []struct {
		change func(o *tok.TrainOptions)
		field  string
		says   string
	}{
		{func(o *tok.TrainOptions) { o.Vocab = 255 }, "vocab", "255"},
		{func(o *tok.TrainOptions) { o.Vocab = 1 << 30 }, "vocab", "2097152"},
		{func(o *tok.TrainOptions) {
			o.Vocab, o.Control, o.Whole = 260, []string{"<s>"}, []string{"user"}
			o.Vocab = 259
		}, "vocab", "260"},
		{func(o *tok.TrainOptions) { o.Pre = "" }, "pre", "gpt-2"},
		{func(o *tok.TrainOptions) { o.Pre = "gpt-9" }, "pre", `"gpt-9"`},
		{func(o *tok.TrainOptions) { o.Control = []string{""} }, "control", "empty"},
		{func(o *tok.TrainOptions) { o.Control = []string{"<s>", "<s>"} }, "control", "twice"},
		{func(o *tok.TrainOptions) { o.Control = []string{"Ġ"} }, "control", "twice"},
		{func(o *tok.TrainOptions) { o.Control = []string{"\xff"} }, "control", "UTF-8"},
		{func(o *tok.TrainOptions) { o.Control = []string{strings.Repeat("x", 257)} }, "control", "257"},
		{func(o *tok.TrainOptions) { o.Markers = []string{"tool"} }, "marker", "brackets"},
		{func(o *tok.TrainOptions) { o.Whole = []string{"two words"} }, "whole", "2 pieces"},
		{func(o *tok.TrainOptions) { o.Control, o.Whole = []string{"sys"}, []string{"system"} }, "whole", `"sys"`},
		{func(o *tok.TrainOptions) { o.Threads = 1000 }, "threads", "256"},
		{func(o *tok.TrainOptions) { o.Ties = 9 }, "ties", "9"},
	} {
		o := good
		c.change(&o)
		_, err := tok.Train(context.Background(), o, from("text"))
		f := fault.As(err)
		if err == nil || f.Kind != fault.Invalid || f.Field != c.field || !strings.Contains(f.Msg, c.says) {
			t.Errorf("%+v: %v (field %q), want %q about %s", o, err, f.Field, c.says, c.field)
		}
	}
	broken := errors.New("broken")
	if _, err := tok.Train(context.Background(), good, func(func(string) error) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("the error of the texts became %v", err)
	}
}

// TestTrainCancel stops while text is read, and while pairs are merged.
func TestTrainCancel(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	n := 0
	_, err := tok.Train(ctx, tok.TrainOptions{Vocab: 300, Pre: "gpt-2"}, func(yield func(string) error) error {
		for {
			if n++; n == 5 {
				stop()
			}
			if err := yield(strings.Repeat("some text ", 1<<17)); err != nil {
				return err
			}
		}
	})
	if fault.Of(err) != fault.Canceled || n > 20 {
		t.Errorf("after %d texts: %v", n, err)
	}
	ctx, stop = context.WithCancel(context.Background())
	var last tok.TrainProgress
	_, err = tok.Train(ctx, tok.TrainOptions{Vocab: 5000, Pre: "gpt-2", Progress: func(p tok.TrainProgress) {
		if last = p; p.Tokens > 320 {
			stop()
		}
	}}, from(corpus()...))
	if fault.Of(err) != fault.Canceled || last.Tokens > 450 {
		t.Errorf("at %+v: %v", last, err)
	}
}

// TestTrainProgress: it only grows, and ends at the whole.
func TestTrainProgress(t *testing.T) {
	var seen []tok.TrainProgress
	train(t, tok.TrainOptions{Vocab: 500, Pre: "gpt-2", Progress: func(p tok.TrainProgress) { seen = append(seen, p) }}, corpus()...)
	size := int64(0)
	for _, text := range corpus() {
		size += int64(len(text))
	}
	for i := 1; i < len(seen); i++ {
		if seen[i].Bytes < seen[i-1].Bytes || seen[i].Words < seen[i-1].Words || seen[i].Tokens < seen[i-1].Tokens {
			t.Errorf("progress fell from %+v to %+v", seen[i-1], seen[i])
		}
	}
	if last := seen[len(seen)-1]; last.Bytes != size || last.Tokens != 500 || last.Target != 500 || last.Words == 0 {
		t.Errorf("the last report is %+v", last)
	}
}

// TestHFWrite: vocabularies of public models, written as tokenizer.json, give the same ids again.
func TestHFWrite(t *testing.T) {
	var g struct{ Strings []string }
	if err := json.Unmarshal(fixture.Read(t, "goldens", "tokenizer_goldens.json"), &g); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tiktoken/gpt2", "llama.cpp/llama-bpe", "llama.cpp/qwen2"} {
		tk := beginning(t, load(t, name), 3000)
		data, err := tk.HF()
		if err != nil {
			t.Fatal(err)
		}
		again, err := tok.FromHF(data, tk.HFConfig(""))
		if err != nil {
			t.Fatal(err)
		}
		if again.Pre() != tk.Pre() || again.AddBOS() != tk.AddBOS() || again.BOS() != tk.BOS() || again.EOS() != tk.EOS() || !reflect.DeepEqual(again.Stops(), tk.Stops()) {
			t.Errorf("%s: pre %q, bos %d, eos %d, stops %v became %q, %d, %d, %v", name, tk.Pre(), tk.BOS(), tk.EOS(), tk.Stops(), again.Pre(), again.BOS(), again.EOS(), again.Stops())
		}
		for _, s := range g.Strings {
			if a, b := tk.EncodeMarkup(nil, s), again.EncodeMarkup(nil, s); !slices.Equal(a, b) {
				t.Errorf("%s: %q gave %v, now %v", name, s, a, b)
			}
		}
	}
	if _, err := load(t, "llama.cpp/tok512").HF(); fault.Of(err) != fault.Unsupported {
		t.Errorf("SentencePiece as tokenizer.json: %v", err)
	}
}

// BenchmarkTrain is 8,192 entries from Opticks and the corpora beside the checkout.
func BenchmarkTrain(b *testing.B) {
	var texts []string
	size := 0
	for _, text := range benchTexts(b) {
		texts = append(texts, text)
		size += len(text)
	}
	b.SetBytes(int64(size))
	for b.Loop() {
		train(b, tok.TrainOptions{Vocab: 8192, Pre: "qwen2", Threads: 2}, texts...)
	}
}
