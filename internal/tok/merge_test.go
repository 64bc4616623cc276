package tok

import (
	"math/rand/v2"
	"slices"
	"testing"

	"tinyloop/internal/fixture"
)

// TestMergeWays: the search over a short row and the heap over a long one merge alike, and so does a search that is plain to see.
func TestMergeWays(t *testing.T) {
	g := GPT2()
	r := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		piece := make([]byte, 2+r.IntN(120))
		for i := range piece {
			piece[i] = " aabcdeehinorst"[r.IntN(15)]
		}
		var short, long row
		for _, w := range []*row{&short, &long} {
			g.fillBytes(w, piece)
			for i := range len(w.ids) - 1 {
				w.best = append(w.best, g.merged(w, w.ids[i], w.ids[i+1], w.start[i], w.start[i+2]))
			}
			w.best = append(w.best, noMerge)
		}
		g.mergeShort(&short)
		g.mergeLong(&long)
		if want := plainMerge(g, piece); !slices.Equal(short.ids, want) || !slices.Equal(long.ids, want) {
			t.Fatalf("%q\nshort %v\nlong  %v\nplain %v", piece, short.ids, long.ids, want)
		}
		if !slices.Equal(short.start, long.start) {
			t.Fatalf("%q: starts %v and %v", piece, short.start, long.start)
		}
	}
}

// plainMerge applies merge by merge in the order of the list.
func plainMerge(t *Tokenizer, piece []byte) []ID {
	var ids []ID
	for _, b := range piece {
		ids = append(ids, t.bytes[b])
	}
	for {
		at, best := -1, noMerge
		for i := range len(ids) - 1 {
			if m := t.pairs.find(ids[i], ids[i+1]); m < best {
				at, best = i, m
			}
		}
		if at < 0 {
			return ids
		}
		ids = slices.Replace(ids, at, at+2, ID(uint32(best)))
	}
}

// TestByteLevelAlphabet: the alphabet is one to one, and prints.
func TestByteLevelAlphabet(t *testing.T) {
	seen := map[rune]bool{}
	for b := range 256 {
		r := byteRune(byte(b))
		back, ok := runeByte(r)
		if !ok || back != byte(b) || seen[r] {
			t.Errorf("byte %#x is %q, back %#x", b, r, back)
		}
		seen[r] = true
	}
	if _, ok := runeByte(0x144); ok {
		t.Error("U+0144 stands for no byte")
	}
	if byteRune(' ') != 'Ġ' || byteRune('\n') != 'Ċ' || byteRune(0xAD) != 'Ń' {
		t.Error("space, newline or soft hyphen is not where GPT-2 has it")
	}
}

// TestMatcher: the narrowing search finds what trying every text finds.
func TestMatcher(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	word := func(n int) string {
		b := make([]byte, 1+r.IntN(n))
		for i := range b {
			b[i] = "abc"[r.IntN(3)]
		}
		return string(b)
	}
	for range 500 {
		var m matcher
		texts := map[string]ID{}
		for i := range r.IntN(20) {
			texts[word(5)] = ID(i)
		}
		for text, id := range texts {
			m.add(text, id)
		}
		m.sort()
		s := word(8)
		want := 0
		for n := 1; n <= len(s); n++ {
			if _, ok := texts[s[:n]]; ok {
				want = n
			}
		}
		id, n := m.longest(s)
		if n != want || n > 0 && texts[s[:n]] != id {
			t.Fatalf("%q in %v: %d, %d, want length %d", s, m.texts, id, n, want)
		}
	}
}

// TestWordsAgree: remembering words changes no id.
func TestWordsAgree(t *testing.T) {
	spm, err := FromLlama2c(fixture.Read(t, "stories260K", "tok512.bin"), 512)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"verne_tour_du_monde_80_jours.fr.txt", "tinyshakespeare.en.txt"} {
		text := fixture.Read(t, "corpora", file)
		for _, tk := range []*Tokenizer{GPT2(), spm} {
			plain := &scratch{fresh: true, first: true} // without words, which only flush makes
			var want []ID
			if tk.src.kind == kindSPM {
				want = tk.encodeSPM(plain, nil, text)
			} else {
				want = tk.cut(plain, nil, text, 0)
			}
			if plain.words != nil {
				t.Fatal("the plain way remembers words")
			}
			for range 2 { // the second time with a full table
				if got := tk.Encode(nil, string(text)); !slices.Equal(got, want) {
					t.Errorf("%s, %s: %d ids, %d without remembering", file, tk.Kind(), len(got), len(want))
				}
			}
		}
	}
}
