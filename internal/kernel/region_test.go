package kernel

import (
	"bytes"
	"hash/crc32"
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

// TestViewIsMatrix: a matrix over bytes in panels is the one they were taken from.
func TestViewIsMatrix(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 34))
	for _, f := range allTypes {
		s := Shape{f, 35, fit(f, 64)}
		m := newMatrix(t, f, s.N, s.K, randomWeights(r, f, s.N, s.K))
		mem := aligned(make([]byte, len(m.Packed())+lineBytes), len(m.Packed()), lineBytes)
		copy(mem, m.Packed())
		freed := 0
		v, err := ViewMatrices([]Shape{s}, [][]byte{mem}, func() { freed++ })
		if err != nil {
			t.Fatal(err)
		}
		a, b := make([]float32, s.K), make([]float32, s.K)
		for i := range s.N {
			m.Row(a, i)
			v[0].Row(b, i)
			for k := range a {
				if !sameBits(a[k], b[k]) {
					t.Fatalf("%v: row %d differs at %d", f, i, k)
				}
			}
		}
		if v[0].Free(); freed != 1 {
			t.Errorf("%v: given back %d times", f, freed)
		}
		for what, bad := range map[string][]byte{"short": mem[:len(mem)-64], "odd place": append([]byte{0}, mem...)[1:]} {
			if _, err := ViewMatrices([]Shape{s}, [][]byte{bad}, func() {}); err == nil {
				t.Errorf("%v: %s is taken", f, what)
			}
		}
	}
}

// TestPanelLayoutIsNamed holds the bytes of every format to PanelLayout: files have them. Who changes them changes the name, and then these sums.
func TestPanelLayoutIsNamed(t *testing.T) {
	want := map[string]map[Type]uint32{"p16.1": {F32: 0x678a6f1d, F16: 0x51c55dd7, BF16: 0xc4e26139, Q8_0: 0x274979b4, Q4_0: 0xad17b98e, Q4_1: 0x54e444ef, Q5_0: 0x69ab13a9, Q5_1: 0xc54a16eb, Q3_K: 0x8be8f7d6, Q4_K: 0xffe4953c, Q5_K: 0x27c50ba6, Q6_K: 0xd7d4658e, IQ4_NL: 0x5816548d}}[PanelLayout]
	r := rand.New(rand.NewPCG(35, 36))
	for _, f := range allTypes {
		src := make([]byte, 35*fit(f, 64)/f.Block()*f.BlockBytes())
		for i := range src {
			src[i] = byte(r.Uint32())
		}
		m := newMatrix(t, f, 35, fit(f, 64), src)
		if sum := crc32.ChecksumIEEE(m.Packed()); sum != want[f] {
			t.Errorf("%v: %#x", f, sum)
		}
	}
}
