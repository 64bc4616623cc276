package bench

import (
	"math"
	"strings"
	"testing"

	"tinyloop/internal/fixture"
	"tinyloop/internal/kernel"
)

// TestModes: the counts of every mode are those that its share of right guesses gives, whatever the machine does.
func TestModes(t *testing.T) {
	path := fixture.Path(t, "stories260K", "looped-nanbeige-3x.gguf")
	r, err := Modes(t.Context(), ModesOptions{Path: path, Loops: 4, Draft: 1, Accept: []float64{0, 1}, Threads: 1, Tokens: 33, Rounds: 1, KVType: kernel.F32})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][2]float64{"autoregressive": {4, 4}, "wavefront": {4, 1}}
	for i, m := range r.Modes {
		if w, ok := want[m.Mode]; ok && math.Abs(m.TurnsPer-w[i/5]) > 0.2 {
			t.Errorf("%+v: want %v turns a token", m, w[i/5])
		}
		if m.Mode != "autoregressive" && m.Mode != "auto" && m.RightGuesses != m.Accept {
			t.Errorf("%s: %v of the guesses were right, asked for %v", m.Mode, m.RightGuesses, m.Accept)
		}
	}
	var s strings.Builder
	if err := r.Table(&s); err != nil || !strings.Contains(s.String(), "tree_speculative") || len(r.Turns) != 9 {
		t.Errorf("%v: %s", err, s.String())
	}
	if _, err := Modes(t.Context(), ModesOptions{Path: path, Loops: 1, Tokens: 9, Rounds: 1}); err == nil {
		t.Error("one loop has no modes")
	}
}
