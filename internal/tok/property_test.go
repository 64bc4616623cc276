package tok_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dlclark/regexp2/v2"

	"tinyloop/internal/tok"
)

// atoms are the texts that pre-tokenizer patterns treat differently.
var atoms = []string{"a", "B", "the", "ǅ", "ʰ", "ª", "한", "語", "\u0301", "\u0903", "é", "ß", "Ω", "1", "23", "456", "½", "٣", " ", "  ", "\u00a0", "\u3000", "\u0085",
	"\t", "\n", "\r\n", "\n\n", ".", "!", "/", "'", "'s", "'S", "'re", "'LL", "'ve", "'", "’", "’s", "_", "=", "😀", "\u200d", "\U000e0100", "\x00", "\x7f", "<|", "🏽"}

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(12) {
		b.WriteString(atoms[r.IntN(len(atoms))])
	}
	return b.String()
}

// regexPieces cuts text with the pattern itself: its matches and what lies between them.
func regexPieces(t testing.TB, re *regexp2.Regexp, text string) []string {
	spans, err := re.FindAllStringIndex(text, -1)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	done := 0
	for _, s := range append(spans, []int{len(text), len(text)}) {
		if s[0] > done {
			out = append(out, text[done:s[0]])
		}
		if s[1] > s[0] {
			out = append(out, text[s[0]:s[1]])
		}
		done = s[1]
	}
	return out
}

// TestScanners holds every hand-written scanner against the regular expression that it stands for.
func TestScanners(t *testing.T) {
	for _, pattern := range tok.Patterns {
		re := tok.CompileRegexp(t, pattern)
		r := rand.New(rand.NewPCG(7, 9))
		for range 20_000 {
			text := randomText(r)
			got, want := tok.Pieces(pattern, text), regexPieces(t, re, text)
			if !slices.Equal(got, want) {
				t.Fatalf("%s\n%q\n got %q\nwant %q", pattern, text, got, want)
			}
		}
	}
}

// TestLongS: the long s counts as an s in a contraction, as the Unicode case folding of the original patterns has it.
func TestLongS(t *testing.T) {
	if got := tok.Pieces(tok.PatCL100K, "it'ſo"); !slices.Equal(got, []string{"it", "'ſ", "o"}) {
		t.Errorf("got %q", got)
	}
}

// FuzzScanners is TestScanners over free text.
func FuzzScanners(f *testing.F) {
	for _, s := range atoms {
		f.Add(s + "a" + s)
	}
	var res []*regexp2.Regexp
	for _, p := range tok.Patterns {
		res = append(res, tok.CompileRegexp(f, p))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1000 {
			return
		}
		text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "ſ", "s")
		for i, p := range tok.Patterns {
			if got, want := tok.Pieces(p, text), regexPieces(t, res[i], text); !slices.Equal(got, want) {
				t.Fatalf("%s\n%q\n got %q\nwant %q", p, text, got, want)
			}
		}
	})
}

// roundTrip demands that text survives, whole and streamed, and that ids are valid.
func roundTrip(t testing.TB, tk *tok.Tokenizer, text string) []tok.ID {
	ids := tk.Encode(nil, text)
	for _, id := range ids {
		if !tk.Valid(id) || tk.IsControl(id) {
			t.Fatalf("%q gave token %d", text, id)
		}
	}
	want := text
	if tk.Kind() == "spm" {
		want = strings.ReplaceAll(text, "▁", " ")
	}
	if got := string(tk.Decode(nil, ids)); got != want {
		t.Fatalf("%q came back as %q through %v", text, got, ids)
	}
	s := tk.NewStream()
	var out []byte
	for _, id := range ids {
		out = s.Add(out, id)
	}
	if got := string(s.Flush(out)); got != lossy(t, []byte(want)) {
		t.Fatalf("%q streamed as %q", text, got)
	}
	return ids
}

// FuzzRoundTrip: decode(encode(x)) = x for any bytes; for SentencePiece up to U+2581, which means a space there.
func FuzzRoundTrip(f *testing.F) {
	for _, s := range atoms {
		f.Add(s)
	}
	f.Add("\xff\xfe\x80 \xe2\x96 \xe2\x96\x81\x81")
	f.Add(strings.Repeat("ab \u2581", 50))
	list := []*tok.Tokenizer{tok.GPT2(), load(f, "llama.cpp/tok512"), load(f, "llama.cpp/llama-spm")}
	f.Fuzz(func(t *testing.T, text string) {
		for _, tk := range list {
			roundTrip(t, tk, text)
		}
	})
}

// TestRoundTripRandom does the same on random bytes for every vocabulary.
func TestRoundTripRandom(t *testing.T) {
	for _, name := range vocabularies {
		tk := load(t, name)
		r := rand.New(rand.NewPCG(3, 4))
		for range 300 {
			b := make([]byte, r.IntN(200))
			for i := range b {
				b[i] = byte(r.IntN(256))
			}
			roundTrip(t, tk, string(b)+randomText(r))
		}
	}
}

// TestLongRuns: text without any place to cut goes through in bounded time and comes back whole.
func TestLongRuns(t *testing.T) {
	for _, name := range []string{"tiktoken/gpt2", "llama.cpp/llama-bpe", "llama.cpp/llama-spm", "llama.cpp/tok512"} {
		for _, unit := range []string{"a", " ", "\n", "東京", "\xff", "ab"} {
			roundTrip(t, load(t, name), strings.Repeat(unit, 1<<17/len(unit)))
		}
	}
}

// TestNoAllocations: encoding into a slice with room, streaming and decoding allocate nothing once warm.
func TestNoAllocations(t *testing.T) {
	if raceOn {
		t.Skip("the race detector makes pools forget")
	}
	for _, name := range vocabularies {
		tk := load(t, name)
		text := strings.Repeat("Once upon a time, il était une fois… 12345\n\n  ", 200)
		ids := tk.Encode(nil, text)
		buf := make([]byte, 0, 2*len(text))
		s := tk.NewStream()
		spans := []tok.Span{{Text: text, Markup: true}, {Text: text}}
		dst := make([]tok.ID, 0, 2*len(ids)+8)
		for what, f := range map[string]func(){
			"Encode":      func() { tk.Encode(dst, text) },
			"EncodeSpans": func() { tk.EncodeSpans(dst, spans) },
			"Decode":      func() { tk.Decode(buf, ids) },
			"Stream": func() {
				for _, id := range ids {
					buf = s.Add(buf[:0], id)
				}
			},
		} {
			if n := testing.AllocsPerRun(20, f); n >= 1 {
				t.Errorf("%s: %s allocates %v times", name, what, n)
			}
		}
	}
}

// TestConcurrent: one tokenizer serves many at once, each text getting its own ids.
func TestConcurrent(t *testing.T) {
	for _, name := range []string{"tiktoken/gpt2", "llama.cpp/tok512"} {
		tk := load(t, name)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(i), 1))
				for range 50 {
					text := randomText(r) + strings.Repeat(randomText(r), 300)
					if got := string(tk.Decode(nil, tk.Encode(nil, text))); got != text {
						t.Errorf("%s: %q came back as %q", name, text, got)
						return
					}
				}
			})
		}
		wg.Wait()
	}
}
