package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tinyloop/internal/bench"
	"tinyloop/internal/fault"
)

// TestBenchDepth: the tables that were asked for and no others, on models that are gone afterwards. The numbers are the machine's; the counts are not.
func TestBenchDepth(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "depth.json")
	io, text := testIO(context.Background())
	c := BenchDepthCmd{Only: []string{"turns"}, Sizes: []int{2}, Types: []string{"q8_0"}, Threads: 1, Rounds: 1, Dir: dir, Out: out}
	if err := c.Run(io); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if s := text.String(); strings.Count(s, "|---|") == 0 || !strings.Contains(s, "| q8_0 |") || strings.Contains(s, "kv_mode") {
		t.Errorf("printed:\n%s", s)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var r bench.DepthReport
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Turns) != 1 || len(r.Modes)+len(r.Cache)+len(r.Mixed)+len(r.KV)+len(r.Large) != 0 {
		t.Fatalf("%s", b)
	}
	turns := r.Turns[0]
	if n := len(turns.Turns); n != 9 || turns.Turns[0].Rows != 1 || turns.Turns[8].Rows != 16 || turns.Turns[0].Best <= 0 || turns.Loops != 8 {
		t.Errorf("turns: %s", b)
	}
	if mb := float64(turns.Core) / 1e6; mb < 1 || mb > 3 {
		t.Errorf("a core of 2 MB was asked for, it has %.1f", mb)
	}
	// The map of the file, which is as large as the model, is not part of it.
	if turns.Peak > 0 && (turns.Estimate <= 0 || turns.Before <= 0 || turns.Peak < turns.Before) {
		t.Errorf("peak %d, before %d, estimate %d", turns.Peak, turns.Before, turns.Estimate)
	}
}

func TestBenchDepthRefusals(t *testing.T) {
	dir := t.TempDir()
	for field, c := range map[string]BenchDepthCmd{"types": {Types: []string{"q9"}}, "sizes": {Sizes: []int{0}}} {
		io, _ := testIO(context.Background())
		c.Dir = dir
		if err := c.Run(io); err == nil || fault.As(err).Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	io, _ := testIO(ctx)
	c := BenchDepthCmd{Only: []string{"turns"}, Sizes: []int{2}, Types: []string{"q8_0"}, Threads: 1, Rounds: 1, Dir: dir}
	if err := c.Run(io); fault.Of(err) != fault.Canceled {
		t.Errorf("interrupted: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
