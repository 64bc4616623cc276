package nn

import (
	"math"
)

// ropeChunk is the number of positions of one piece of the table.
const ropeChunk = 256

// Rope is the table of rotations: cos and sin of pos * theta^(-2j/rot) for j in [0, rot/2) (RoFormer, arXiv 2104.09864). It grows with the longest
// position seen, so that a model with a long window costs nothing until the window is used.
type Rope struct {
	half  int
	freq  []float64   // [half] angle of one position
	table [][]float32 // [pos/ropeChunk] -> [ropeChunk][cos half, sin half]
}

// NewRope makes the table for positions [0, context) and a rotated width of rot. factors, if not nil, are rot/2 divisors of the frequencies.
func NewRope(context, rot int, theta float64, factors []float32) *Rope {
	t := &Rope{half: rot / 2, freq: make([]float64, rot/2), table: make([][]float32, (context+ropeChunk-1)/ropeChunk)}
	for j := range t.freq {
		t.freq[j] = math.Pow(theta, -2*float64(j)/float64(rot))
		if factors != nil {
			t.freq[j] /= float64(factors[j])
		}
	}
	return t
}

// Reserve computes the table up to and including pos. One goroutine at a time.
func (t *Rope) Reserve(pos int) {
	for c := pos / ropeChunk; c >= 0 && t.table[c] == nil; c-- {
		t.table[c] = t.chunk(c)
	}
}

func (t *Rope) chunk(c int) []float32 {
	out := make([]float32, ropeChunk*2*t.half)
	for p := range ropeChunk {
		row := out[p*2*t.half:]
		for j, f := range t.freq {
			sin, cos := math.Sincos(float64(c*ropeChunk+p) * f)
			row[j], row[t.half+j] = float32(cos), float32(sin)
		}
	}
	return out
}

// At gives the cosines and sines of a reserved position.
func (t *Rope) At(pos int) (cos, sin []float32) {
	row := t.table[pos/ropeChunk][pos%ropeChunk*2*t.half:]
	return row[:t.half], row[t.half : 2*t.half]
}
