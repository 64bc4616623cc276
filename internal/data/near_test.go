package data

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"tinyloop/internal/fault"
)

// jaccard is the similarity itself, over sets of shingles.
func jaccard(a, b []string) float64 {
	set := func(words []string) map[string]bool {
		out := map[string]bool{}
		for i := range max(1, len(words)-shingle+1) {
			out[strings.Join(words[i:min(i+shingle, len(words))], " ")] = true
		}
		return out
	}
	x, y, both := set(a), set(b), 0
	for s := range x {
		if y[s] {
			both++
		}
	}
	return float64(both) / float64(len(x)+len(y)-both)
}

// TestNearIsSimilarity: the signatures estimate the share of common runs of words, without bias and as closely as their number promises.
func TestNearIsSimilarity(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := newNearIndex(0.8)
	sum, square, n := 0.0, 0.0, 300
	for range n {
		words := make([]string, 150)
		for i := range words {
			words[i] = fmt.Sprint("w", rng.IntN(1000))
		}
		other := append([]string(nil), words...)
		for range rng.IntN(12) {
			other[rng.IntN(len(other))] = fmt.Sprint("x", rng.IntN(1000))
		}
		var a, b signature
		x.sign(&Doc{Text: strings.Join(words, " ")}, &a)
		x.sign(&Doc{Text: strings.Join(other, "\n")}, &b)
		d := similarity(&a, &b) - jaccard(words, other)
		sum, square = sum+d, square+d*d
	}
	if mean, deviation := sum/float64(n), math.Sqrt(square/float64(n)); math.Abs(mean) > 0.01 || deviation > 0.06 {
		t.Errorf("estimates are off by %.4f in the mean, %.4f by deviation", mean, deviation)
	}
}

func TestPrepareNear(t *testing.T) {
	words := func(n, from int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "word%d ", from+i)
		}
		return b.String()
	}
	lines := []string{
		`{"text":"` + words(100, 0) + `"}`,
		`{"text":"` + strings.ToUpper(words(100, 0)) + `, indeed!"}`, // one run in a hundred is new
		`{"text":"` + words(50, 0) + words(50, 500) + `"}`,           // half of it is
		`{"text":"Yes."}`, `{"text":"yes"}`, `{"text":"no"}`, `{"text":"…"}`, `{"text":"!"}`,
		`{"messages":[{"role":"user","content":"` + words(40, 9000) + `"},{"role":"assistant","content":"one"}]}`,
		`{"messages":[{"role":"user","content":"` + words(40, 9000) + `"},{"role":"assistant","content":"two"}]}`,
	}
	for _, c := range []struct {
		near        float64
		left, nears int
	}{{0, 10, 0}, {0.8, 7, 3}, {1, 9, 1}} {
		m, dir, err := prepareText(t, strings.Join(lines, "\n"), func(o *PrepareOptions) { o.Near = c.near })
		if err != nil {
			t.Fatal(err)
		}
		back, err := ReadManifest(dir)
		if err != nil || back.NearDoubles != m.NearDoubles || back.Near != c.near {
			t.Errorf("near %g: the manifest says %+v, %v", c.near, back, err)
		}
		if m.Splits[Train].Docs != c.left || m.NearDoubles != c.nears {
			t.Errorf("near %g: %d documents kept and %d left out, want %d and %d", c.near, m.Splits[Train].Docs, m.NearDoubles, c.left, c.nears)
		}
	}
	for _, near := range []float64{0.5, 1.1, -1, math.NaN()} {
		if _, _, err := prepareText(t, lines[0], func(o *PrepareOptions) { o.Near = near }); fault.Of(err) != fault.Invalid || fault.As(err).Field != "near" {
			t.Errorf("near %g: %v", near, err)
		}
	}
}
