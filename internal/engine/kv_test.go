package engine

import (
	"context"
	"fmt"
	"testing"

	"tinyloop/internal/fault"
	"tinyloop/internal/sample"
	"tinyloop/internal/scripted"
)

// TestFoldSavesPages: while an answer is decoded it holds the pages that its policy says, no more.
func TestFoldSavesPages(t *testing.T) {
	const blocks = 4 // 40 positions of prompt, 20 of answer
	for _, c := range []struct {
		kv   KV
		mod  int
		want int // pages at the last token, of 1 prelude and 2 core blocks at 4 loops
	}{{KVPerLoop, 0, blocks * 9}, {KVLast, 0, blocks * 3}, {KVMod, 1, blocks * 3}, {KVMod, 2, blocks * 5}, {KVMod, 3, blocks * 7}, {KVMod, 9, blocks * 9},
		{KVMean, 0, (blocks-1)*3 + 9}} {
		m := scripted.New(scripted.Options{})
		e := start(t, m, Config{NoPrefixCache: true})
		s := newCollect(1)
		left, used := 20, int64(0)
		s.onToken = func(int, sample.Choice) bool {
			if left--; left == 0 {
				used = e.used.Load()
			}
			return true
		}
		if err := e.Submit(context.Background(), &Request{Prompt: prompt(40, 1), MaxTokens: 20, KV: c.kv, Residues: c.mod}, s); err != nil {
			t.Fatal(err)
		}
		s.wait(t)
		if used != int64(c.want) {
			t.Errorf("%+v: %d pages are held at the end", c, used)
		}
		if most := max(c.want, 3*9); s.answers[0].st.Pages != most { // the prompt's blocks have a page for every loop
			t.Errorf("%+v: at most %d pages were held, told are %d", c, most, s.answers[0].st.Pages)
		}
		if h := settled(t, e); h.PagesUsed != 0 {
			t.Errorf("%+v: %d pages are held after the end", c, h.PagesUsed)
		}
	}
}

// TestFoldThatSharesNothing is per_loop, and mod:1 is last.
func TestFoldThatSharesNothing(t *testing.T) {
	e := start(t, scripted.New(scripted.Options{Prelude: 1, Core: 1, Coda: 1}), Config{})
	run := func(kv KV, mod, loops int) string {
		s := submit(t, e, &Request{Prompt: prompt(21, 1), MaxTokens: 30, Loops: loops, KV: kv, Residues: mod, Sampling: sample.Params{Temperature: 1, Seed: 9, Logprobs: true}})
		s.wait(t)
		return fmt.Sprint(s.answers[0].tokens)
	}
	for _, c := range [][4]int{{int(KVMod), 4, int(KVPerLoop), 0}, {int(KVMod), 99, int(KVPerLoop), 0}, {int(KVMod), 1, int(KVLast), 0}} {
		if a, b := run(KV(c[0]), c[1], 4), run(KV(c[2]), c[3], 4); a != b {
			t.Errorf("%v: %s and %s", c, a, b)
		}
	}
	if run(KVLast, 0, 1) != run(KVPerLoop, 0, 1) || run(KVMean, 0, 1) != run(KVPerLoop, 0, 1) {
		t.Error("at one loop there is nothing to share")
	}
	if run(KVLast, 0, 4) == run(KVPerLoop, 0, 4) || run(KVMean, 0, 4) == run(KVLast, 0, 4) {
		t.Error("a policy changes nothing")
	}
	for _, r := range []Request{{KV: 9}, {KV: KVMod}, {KV: KVLast, Mode: Wavefront}, {KV: KVMean, Exit: Exit{Rule: ExitKL}}} {
		r.Prompt, r.MaxTokens = ids(1), 2
		if err := e.Submit(context.Background(), &r, newCollect(1)); err == nil || fault.As(err).Field != "kv_mode" {
			t.Errorf("%+v: %v", r, err)
		}
	}
}
