package tok_test

import (
	"math/rand/v2"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"

	"tinyloop/internal/tok"
)

// lossy decodes as WHATWG says, by an implementation that is not ours.
func lossy(t testing.TB, b []byte) string {
	out, err := unicode.UTF8.NewDecoder().Bytes(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// byteIDs are the ids of single bytes of GPT-2.
func byteIDs(tk *tok.Tokenizer) (ids [256]tok.ID) {
	for id := range tok.ID(256) {
		ids[tk.Bytes(id)[0]] = id
	}
	return ids
}

// stream runs text through a Stream byte by byte, with a fork dropped before each step, and checks every piece.
func stream(t testing.TB, tk *tok.Tokenizer, ids *[256]tok.ID, text []byte) string {
	s := tk.NewStream()
	var out []byte
	for i, c := range text {
		branch := s // a draft that is rejected
		branch.Add(nil, ids[0xF0])
		branch.Flush(nil)
		from := len(out)
		out = s.Add(out, ids[c])
		if !utf8.Valid(out[from:]) {
			t.Fatalf("byte %d of %q released %q", i, text, out[from:])
		}
		if p := s.Pending(); p > 3 || p > i+1 {
			t.Fatalf("%d bytes held back of %q", p, text[:i+1])
		}
	}
	return string(s.Flush(out))
}

// TestStreamUTF8 holds the stream against an independent decoder: on all short sequences of telling bytes, and on random ones.
func TestStreamUTF8(t *testing.T) {
	tk := tok.GPT2()
	ids := byteIDs(tk)
	telling := []byte{'a', 0x80, 0xBF, 0xC1, 0xC2, 0xE0, 0xA0, 0xED, 0x9F, 0xEF, 0xF0, 0x90, 0xF4, 0x8F, 0xF5, 0xFF}
	for n := range len(telling) * len(telling) * len(telling) * len(telling) {
		b := []byte{telling[n%16], telling[n/16%16], telling[n/256%16], telling[n/4096]}
		if got, want := stream(t, tk, &ids, b), lossy(t, b); got != want {
			t.Fatalf("% x streamed as %q, want %q", b, got, want)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		b := make([]byte, r.IntN(40))
		for i := range b {
			b[i] = telling[r.IntN(len(telling))]
		}
		if got, want := stream(t, tk, &ids, b), lossy(t, b); got != want {
			t.Fatalf("% x streamed as %q, want %q", b, got, want)
		}
	}
}

// TestStreamSplitEmoji: characters split over tokens arrive whole (llama.cpp 4036), a dangling tail is one mark.
func TestStreamSplitEmoji(t *testing.T) {
	tk := tok.GPT2()
	ids := byteIDs(tk)
	s := tk.NewStream()
	for i, c := range []byte("🌶") {
		got := string(s.Add(nil, ids[c]))
		if want := map[bool]string{true: "🌶", false: ""}[i == 3]; got != want {
			t.Errorf("byte %d released %q, want %q", i, got, want)
		}
	}
	s.Add(nil, ids[0xF0])
	s.Add(nil, ids[0x9F])
	if s.Pending() != 2 {
		t.Errorf("%d bytes pending", s.Pending())
	}
	fork := s
	if got := string(fork.Flush(nil)); got != "\uFFFD" || s.Pending() != 2 || fork.Pending() != 0 {
		t.Errorf("flushed %q; pending %d and %d", got, s.Pending(), fork.Pending())
	}
	if got := string(s.Add(s.Add(nil, ids[0x98]), ids[0x80])); got != "😀" {
		t.Errorf("after the fork was flushed the stream gave %q", got)
	}
}

// TestStreamAfter: a prompt that ends within a character gives none of its own text to the answer (vLLM 48853).
func TestStreamAfter(t *testing.T) {
	tk := tok.GPT2()
	ids := byteIDs(tk)
	prompt := append(tk.Encode(nil, "a long prompt before "), ids[0xF0], ids[0x9F])
	s := tk.NewStreamAfter(prompt)
	if s.Pending() != 2 {
		t.Fatalf("%d bytes pending", s.Pending())
	}
	if got := string(s.Add(s.Add(nil, ids[0x98]), ids[0x80])); got != "😀" {
		t.Errorf("the answer begins with %q", got)
	}
	s = tk.NewStreamAfter(prompt)
	if got := string(s.Add(nil, ids['x'])); got != "\uFFFDx" {
		t.Errorf("the answer begins with %q", got)
	}
	if s = tk.NewStreamAfter(nil); s != tk.NewStream() {
		t.Error("after nothing is not the start")
	}
}
