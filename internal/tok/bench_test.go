package tok_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tinyloop/internal/fixture"
	"tinyloop/internal/tok"
)

// texts are the ones that speed is measured on.
func benchTexts(b *testing.B) map[string]string {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Skip(err)
	}
	opticks, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "src", "testdata", "Isaac.Newton-Opticks.txt"))
	if err != nil {
		b.Skip(err)
	}
	return map[string]string{
		"shakespeare": string(fixture.Read(b, "corpora", "tinyshakespeare.en.txt")),
		"opticks":     string(opticks),
		"french":      string(fixture.Read(b, "corpora", "verne_tour_du_monde_80_jours.fr.txt")),
		"same-letter": strings.Repeat("a", 1<<20),
		"spaces":      strings.Repeat(" ", 1<<20),
		"no-spaces":   strings.Repeat("東京は日本の首都です", 1<<15),
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, name := range []string{"tiktoken/gpt2", "llama.cpp/llama-bpe", "llama.cpp/qwen2", "tiktoken/o200k_base", "llama.cpp/llama-spm", "llama.cpp/tok512"} {
		tk := load(b, name)
		for kind, text := range benchTexts(b) {
			b.Run(name+"/"+kind, func(b *testing.B) {
				ids := tk.Encode(nil, text)
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					ids = tk.Encode(ids[:0], text)
				}
				b.ReportMetric(float64(len(text))/float64(len(ids)), "bytes/token")
			})
		}
	}
}

func BenchmarkStream(b *testing.B) {
	tk := tok.GPT2()
	ids := tk.Encode(nil, string(fixture.Read(b, "corpora", "tinyshakespeare.en.txt")))
	buf := make([]byte, 0, 64)
	s := tk.NewStream()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		buf = s.Add(buf[:0], ids[i])
		if i++; i == len(ids) {
			i = 0
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, name := range []string{"llama.cpp/gpt-2", "llama.cpp/llama-bpe", "llama.cpp/qwen2", "llama.cpp/llama-spm", "llama.cpp/tok512"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				named[name](b)
			}
		})
	}
}
