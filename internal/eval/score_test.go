package eval

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tinyloop/internal/data"
	"tinyloop/internal/scripted"
	"tinyloop/internal/tok"
)

// TestWindows: every token that is learned counts once, in a window that fits, after half a window of others.
func TestWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, size := rapid.IntRange(1, 300).Draw(t, "n"), rapid.IntRange(2, 64).Draw(t, "size")
		ids := make([]tok.ID, n)
		for i := range ids {
			ids[i] = tok.ID(i)
		}
		want := make([]bool, n)
		var learn []data.Range
		for at := 0; at < n; {
			lo := at + rapid.IntRange(0, 40).Draw(t, "gap")
			hi := min(lo+rapid.IntRange(1, 80).Draw(t, "run"), n)
			if lo < hi {
				learn = append(learn, data.Range{Start: uint32(lo), End: uint32(hi)})
				for i := lo; i < hi; i++ {
					want[i] = true
				}
			}
			at = hi
		}
		got, firsts := make([]bool, n), 0
		for _, w := range windows(lossKey{}, ids, learn, size) {
			if len(w.ids) > size {
				t.Fatalf("a window of %d tokens, the limit is %d", len(w.ids), size)
			}
			if w.first {
				firsts++
			}
			for _, r := range w.learn {
				for i := int(r.Start); i < int(r.End); i++ {
					at := int(w.ids[i])
					if got[at] {
						t.Fatalf("token %d counts twice", at)
					}
					if got[at] = true; !w.first && i < size/2 {
						t.Fatalf("token %d is seen after %d others only", at, i)
					}
				}
			}
		}
		if firsts != 1 || !slices.Equal(got, want) {
			t.Fatalf("%d first windows; counted %v, want %v", firsts, got, want)
		}
	})
}

// TestUniform: a model that knows nothing spends log2 of the vocabulary on each token, however long the text.
func TestUniform(t *testing.T) {
	set := chains()
	tk := vocabulary(t, set.Docs)
	text := strings.Repeat("Bob is at the school, Ann at the bridge. ", 60)
	m := scripted.New(scripted.Options{Vocab: tk.Size(), Context: 64, Answers: []scripted.Answer{{Steps: []scripted.Step{{}}}}})
	s := session(t, Options{Loops: []int{1, 4}, NoCost: true, NoLoss: true}, &Set{Name: "t", Raw: text})
	r := measure(t, s, subject(t, "m", tk, m))
	tokens := len(tk.Encode(nil, text))
	if tokens < 128 {
		t.Fatalf("%d tokens are too few for several windows", tokens)
	}
	for _, l := range r.Main().Levels {
		x := l.Total("t")
		want := float64(tokens) * math.Log2(float64(tk.Size())) / float64(len(text))
		if x.Tokens != tokens || x.Bytes != len(text) || x.Docs != 1 || abs(x.BPB-want) > 1e-5 {
			t.Errorf("%d loops: %+v, want %d tokens, %d bytes, %.6f bits a byte", l.Loops, x, tokens, len(text), want)
		}
	}
}

// TestLearned counts the tokens of the assistant alone, and those that the model had right.
func TestLearned(t *testing.T) {
	set := &Set{Name: "s", Docs: []*data.Doc{doc("f", 1, "?What?|[aaa]aaa")}}
	tk := vocabulary(t, chains().Docs)
	var enc data.Tokens
	sub := subject(t, "m", tk, likesA(t, tk))
	if err := sub.coderOf().Encode(set.Docs[0], &enc); err != nil {
		t.Fatal(err)
	}
	a := tk.Encode(nil, "a")[0]
	learned, right := 0, 0
	for _, r := range enc.Learn {
		for _, id := range enc.IDs[r.Start:r.End] {
			learned++
			if id == a {
				right++
			}
		}
	}
	s := session(t, Options{Loops: []int{2}, NoCost: true}, set)
	x := measure(t, s, sub).Main().At(2).Total("s")
	if x.Tokens != learned || x.Right != right || right == 0 || right == learned || x.Bytes != 6 {
		t.Errorf("%+v, want %d tokens, %d right, 6 bytes", x, learned, right)
	}
	half := -float64(right)*math.Log(0.5) - float64(learned-right)*math.Log(0.5/float64(tk.Size()-1))
	if abs(x.Nats-half) > 1e-4 {
		t.Errorf("%g nats, want %g", x.Nats, half)
	}
}

// likesA is a model that gives "a" half of the probability everywhere.
func likesA(t *testing.T, tk *tok.Tokenizer) *scripted.Model {
	a := tk.Encode(nil, "a")[0]
	return scripted.New(scripted.Options{Vocab: tk.Size(), Answers: []scripted.Answer{{Steps: []scripted.Step{{{ID: a, P: 0.5}}}}}})
}

// TestChoices: the candidate that is the most probable for its length wins, the right one or not.
func TestChoices(t *testing.T) {
	set := &Set{Name: "s"}
	for _, want := range []string{"aaaa", "bbbb", "cccc", "dddd", "aaaa"} {
		set.Docs = append(set.Docs, doc("f", 1, "say it: ["+want+"]"), doc("g", 1, "?Say "+want+"|["+want+"]."))
	}
	tk := vocabulary(t, chains().Docs)
	s := session(t, Options{Loops: []int{1}, NoCost: true, NoLoss: true, Choices: 4}, set)
	l := measure(t, s, subject(t, "m", tk, likesA(t, tk))).Main().At(1)
	if len(l.Choices) != 2 {
		t.Fatalf("%+v", l.Choices)
	}
	for _, c := range l.Choices {
		if c.N != 5 || c.K != 2 { // aaaa wins always, and is right twice
			t.Errorf("%s: %d of %d, want 2 of 5", c.Family, c.K, c.N)
		}
	}
}

// TestChoosing: the same seed chooses the same, never more than the limit of a group, in order.
func TestChoosing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups := rapid.SliceOfN(rapid.IntRange(0, 4), 0, 200).Draw(t, "groups")
		limit, seed := rapid.IntRange(0, 30).Draw(t, "limit"), rapid.Uint64().Draw(t, "seed")
		of := func(i int) int { return groups[i] }
		got := choosing(len(groups), limit, seed, of)
		if !slices.Equal(got, choosing(len(groups), limit, seed, of)) || !slices.IsSorted(got) {
			t.Fatal("not the same twice, or out of order")
		}
		have, all := map[int]int{}, map[int]int{}
		for i := range groups {
			all[groups[i]]++
		}
		for _, i := range got {
			have[groups[i]]++
		}
		for g, n := range all {
			if limit > 0 {
				n = min(n, limit)
			}
			if have[g] != n {
				t.Fatalf("%d of group %d, want %d", have[g], g, n)
			}
		}
	})
}
