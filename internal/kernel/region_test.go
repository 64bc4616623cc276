package kernel

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestFillInParts: panels that are filled in any order and any grouping are those of NewMatrix, and the memory of several matrices goes back once, when
// the last of them does.
func TestFillInParts(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	var shapes []Shape
	for _, f := range allTypes {
		shapes = append(shapes, Shape{f, 16*5 + 3, fit(f, 32)})
	}
	many, err := NewMatrices(shapes)
	if err != nil {
		t.Fatal(err)
	}
	freed := 0
	home := many[0].home
	old := home.free
	home.free = func() { freed++; old() }
	for i, m := range many {
		src := randomWeights(r, m.Source, m.N, m.K)
		row := len(src) / m.N
		for _, part := range [][2]int{{3, 5}, {0, 1}, {5, 6}, {1, 3}} {
			m.Fill(part[0], src[16*part[0]*row:min(16*part[1], m.N)*row])
		}
		whole := newMatrix(t, m.Source, m.N, m.K, src)
		if !bytes.Equal(m.mem, whole.mem) {
			t.Errorf("%v: filled in parts it is another matrix", m.Source)
		}
		if len(m.mem) != shapes[i].PanelBytes() {
			t.Errorf("%v: %d bytes, PanelBytes says %d", m.Source, len(m.mem), shapes[i].PanelBytes())
		}
	}
	for i, m := range many {
		if freed != 0 {
			t.Fatalf("the memory went back with %d matrices left", len(many)-i)
		}
		m.Free()
	}
	if freed != 1 {
		t.Errorf("the memory went back %d times", freed)
	}
}

func TestFillRefuses(t *testing.T) {
	m := newMatrix(t, F32, 20, 8, make([]byte, 20*32))
	for _, c := range []struct{ first, bytes int }{{0, 31}, {0, 15 * 32}, {1, 5 * 32}, {2, 32}, {-1, 16 * 32}} {
		func() {
			defer func() {
				if s, _ := recover().(string); !strings.Contains(s, "cannot fill") {
					t.Errorf("panel %d, %d bytes: %v", c.first, c.bytes, s)
				}
			}()
			m.Fill(c.first, make([]byte, c.bytes))
		}()
	}
}
