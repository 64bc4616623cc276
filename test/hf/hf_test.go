// Package hf holds TinyLoop's tokenizers against Hugging Face's libraries. Run it with test/hf/run.
package hf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// opticks is a text that every Go installation has.
func opticks(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "src", "testdata", "Isaac.Newton-Opticks.txt"))
	if err != nil {
		t.Skip(err)
	}
	return string(b)
}

// french is prose with accents, numbers and quotation marks, made here.
func french() string {
	r := rand.New(rand.NewPCG(5, 6))
	who := strings.Fields("Anaïs Théo l'élève Émile Zoé François l'été Noël grand-père")
	what := strings.Fields("traverse attend découvre préfère n'oublie aperçoit qu'il l'œuvre où déjà")
	where := strings.Fields("forêt château 日本 gare ₂ 3,14 42 1875 école — « » … L'île 😀")
	var b strings.Builder
	for range 4000 {
		fmt.Fprintf(&b, "%s %s %s%s%d.%s", who[r.IntN(len(who))], what[r.IntN(len(what))], where[r.IntN(len(where))],
			strings.Repeat(" ", 1+r.IntN(3)), r.IntN(20000), []string{" ", "\n", "\n\n", "\t"}[r.IntN(4)])
	}
	return b.String()
}

func run(t *testing.T, dir, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, errs.Bytes())
	}
	return out.Bytes()
}

// build makes the program, once.
func build(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("npm/node_modules/tokenizers"); err != nil {
		t.Skip("needs the npm packages: run test/hf/run")
	}
	bin := filepath.Join(t.TempDir(), "tinyloop")
	if runtime.GOOS == "windows" {
		bin += ".exe"
	}
	run(t, filepath.Join("..", ".."), "go", "build", "-o", bin, "./cmd/tinyloop")
	return bin
}

// asLines writes each line of a text as a document, as Hugging Face's trainer reads files so. Blank lines, which are no documents, are left out.
func asLines(t *testing.T, dir, text string) (plain, jsonl string) {
	t.Helper()
	plain, jsonl = filepath.Join(dir, "text.txt"), filepath.Join(dir, "text.jsonl")
	var b, whole bytes.Buffer
	enc := json.NewEncoder(&b)
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		whole.WriteString(line)
		if err := enc.Encode(map[string]string{"text": line}); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range map[string][]byte{plain: whole.Bytes(), jsonl: b.Bytes()} {
		if err := os.WriteFile(name, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return plain, jsonl
}

func mergesOf(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var f struct{ Model struct{ Merges []string } }
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	return f.Model.Merges
}

// TestMerges: the same text gives the same merges, thousands of them, with every kind of pre-tokenizer; the committed list of the unit test too.
func TestMerges(t *testing.T) {
	bin := build(t)
	for name, text := range map[string]string{"opticks": opticks(t), "french": french()} {
		dir := t.TempDir()
		plain, jsonl := asLines(t, dir, text)
		for _, pre := range []string{"gpt-2", "smollm", "qwen2", "dbrx", "gpt-4o", "tekken"} {
			ours := filepath.Join(dir, pre+".json")
			run(t, ".", bin, "tokenizer", "train", "-o", ours, "--vocab", "4000", "--pre", pre, "--special=", "--marker=", "--whole=", "--min-count", "1", jsonl)
			_, theirs, ok := strings.Cut(string(run(t, "npm", "node", "train.mjs", plain, ours)), "MERGES\n")
			if !ok {
				t.Fatal("train.mjs printed no merges")
			}
			got, want := mergesOf(t, ours), strings.Split(strings.TrimSuffix(theirs, "\n"), "\n")
			n := min(len(got), len(want))
			if name == "opticks" && n < 500 || n < 100 {
				t.Errorf("%s, %s: %d merges of ours, %d of theirs", name, pre, len(got), len(want))
				continue
			}
			for i := range n {
				if got[i] != want[i] {
					t.Errorf("%s, %s: merge %d is %q, want %q", name, pre, i, got[i], want[i])
					break
				}
			}
			t.Logf("%s, %s: %d merges are equal", name, pre, n)
			if name == "opticks" && pre == "gpt-2" {
				golden, err := os.ReadFile(filepath.Join("..", "..", "internal", "tok", "testdata", "opticks-merges.txt"))
				if err != nil || string(golden) != strings.Join(want[:500], "\n")+"\n" {
					t.Errorf("the committed list of the first 500 merges is another one (%v)", err)
				}
			}
		}
	}
}

// texts are strings that pre-tokenizers and special tokens make hard.
func texts() []string {
	atoms := []string{"a", "B", "the", " the", "ǅ", "ʰ", "한", "語", "é", "e\u0301", "ß", "Ω", "1", "23", "456", "½", "٣", " ", "  ", "\u00a0", "\u3000",
		"\t", "\n", "\r\n", "\n\n", ".", "!?", "/", "'s", "'S", "'re", "'LL", "’s", "_", "=", "😀", "👩🏽‍🚀", "user", "system", "château", "\x01", "\x7f", "<|", "|>", "light", "Ray"}
	r := rand.New(rand.NewPCG(7, 8))
	out := []string{"", " ", "Hello, world!", "Qui est Passepartout ?", "The colours of natural bodies: 1704.", "\n\n\n   x", "don't DON'T l'été",
		strings.Repeat("a", 500), strings.Repeat(" ", 300), strings.Repeat("0123456789", 30)}
	for range 400 {
		var b strings.Builder
		for range 1 + r.IntN(14) {
			b.WriteString(atoms[r.IntN(len(atoms))])
		}
		out = append(out, b.String())
	}
	return out
}

// markup is texts with special tokens, which Hugging Face finds in any text and we where a template wrote them.
func markup() []string {
	var out []string
	for i, text := range texts()[:120] {
		out = append(out, "<|im_start|>user\n"+text+"<|im_end|>\n<|im_start|>assistant\n<tool_call>{\"n\":"+fmt.Sprint(i)+"}</tool_call><|im_end|>")
	}
	return out
}

// TestIDs: both libraries load what we wrote and give the ids that we give, and the text back.
func TestIDs(t *testing.T) {
	bin := build(t)
	for _, pre := range []string{"qwen2", "gpt-2", "smollm", "llama-bpe", "gpt-4o", "tekken"} {
		t.Run(pre, func(t *testing.T) {
			dir := t.TempDir()
			_, jsonl := asLines(t, dir, opticks(t)[:200000]+french())
			ours := filepath.Join(dir, "tokenizer.json")
			run(t, ".", bin, "tokenizer", "train", "-o", ours, "--vocab", "2048", "--pre", pre, jsonl)
			list := append(texts(), markup()...)
			b, err := json.Marshal(list)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "texts.json")
			if err := os.WriteFile(file, b, 0o666); err != nil {
				t.Fatal(err)
			}
			var got struct {
				Rust, RustBOS, JS, JSBOS [][]int
				RustText, JSText         []string
			}
			if err := json.Unmarshal(run(t, "npm", "node", "encode.mjs", ours, file), &got); err != nil {
				t.Fatal(err)
			}
			wrong := 0
			for i, want := range idsOf(t, bin, ours, list) {
				for _, c := range []struct {
					name string
					ids  []int
					text string
				}{{"rust", got.Rust[i], got.RustText[i]}, {"rust with bos", got.RustBOS[i], ""}, {"js", got.JS[i], got.JSText[i]}, {"js with bos", got.JSBOS[i], ""}} {
					ids := want
					if strings.HasSuffix(c.name, "bos") {
						ids = append([]int{0}, want...)
					}
					if wrong++; !slices.Equal(c.ids, ids) {
						t.Errorf("%s: %q is %v there and %v here", c.name, list[i], c.ids, ids)
					} else if c.text != "" && c.text != list[i] {
						t.Errorf("%s: %q comes back as %q", c.name, list[i], c.text)
					} else {
						wrong--
					}
					if wrong > 5 {
						t.FailNow()
					}
				}
			}
			t.Logf("%d texts", len(list))
		})
	}
}

// idsOf encodes texts with our program, special tokens recognised.
func idsOf(t *testing.T, bin, file string, list []string) [][]int {
	t.Helper()
	args := append([]string{"tokenizer", "encode", file, "--markup", "--"}, list...)
	lines := strings.Split(strings.TrimSuffix(string(run(t, ".", bin, args...)), "\n"), "\n")
	if len(lines) != len(list) {
		t.Fatalf("%d texts gave %d lines", len(list), len(lines))
	}
	out := make([][]int, len(list))
	for i, line := range lines {
		if err := json.Unmarshal([]byte("["+strings.ReplaceAll(line, " ", ",")+"]"), &out[i]); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
