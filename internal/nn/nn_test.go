package nn

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"tinyloop/internal/kernel"
	"tinyloop/internal/par"
)

func matrix(t *testing.T, rng *rand.Rand, typ kernel.Type, n, k int) *kernel.Matrix {
	t.Helper()
	vals := make([]float32, n*k)
	for i := range vals {
		vals[i] = float32(rng.NormFloat64())
	}
	data := make([]byte, len(vals)/typ.Block()*typ.BlockBytes())
	if typ == kernel.F32 {
		for i, v := range vals {
			binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
		}
	} else {
		kernel.Quantize(data, typ, vals)
	}
	m, err := kernel.NewMatrix(typ, n, k, data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	return m
}

func stream(rng *rand.Rand, rows, dim int) *Stream {
	x := &Stream{Data: make([]float32, rows*(dim+3)), Stride: dim + 3, Dim: dim}
	for r := range rows {
		x.Index = append(x.Index, int32(rows-1-r)) // streams need not lie in the order of the rows
	}
	for i := range x.Data {
		x.Data[i] = float32(rng.NormFloat64())
	}
	return x
}

// TestLinear: any number of workers and rows gives the sums of the definition, in the caller's columns and nowhere else.
func TestLinear(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const n, k, ldy = 37, 64, 41
	for _, typ := range []kernel.Type{kernel.F32, kernel.Q8_0} {
		l := Linear{W: matrix(t, rng, typ, n, k), Bias: make([]float32, n)}
		for i := range l.Bias {
			l.Bias[i] = float32(i)
		}
		for _, rows := range []int{1, 2, 3, 9} {
			x := stream(rng, rows, k)
			var first []float32
			for _, workers := range []int{1, 2, 3} {
				y := product(&l, x, workers, ldy)
				if first == nil {
					first = y
					checkLinear(t, typ, &l, x, y, ldy)
				}
				for i := range y {
					if math.Float32bits(y[i]) != math.Float32bits(first[i]) {
						t.Fatalf("%s, %d rows: value %d differs with %d workers", typ, rows, i, workers)
					}
				}
			}
		}
	}
}

func product(l *Linear, x *Stream, workers, ldy int) []float32 {
	rows := len(x.Index)
	acts, y := NewActs(rows, x.Dim, workers), make([]float32, rows*ldy)
	for i := range y {
		y[i] = -77
	}
	p := par.New(workers)
	defer p.Close()
	p.Run(func(w *par.Worker) { l.Forward(w, y, ldy, acts.Plain(w, x, l.W), rows) })
	return y
}

func checkLinear(t *testing.T, typ kernel.Type, l *Linear, x *Stream, y []float32, ldy int) {
	t.Helper()
	limit, row := 1e-5, make([]float32, l.W.K)
	if typ != kernel.F32 {
		limit = 3e-2 // the input is rounded to 8 bits
	}
	for r := range x.Index {
		for n := range ldy {
			got := float64(y[r*ldy+n])
			if n >= l.W.N {
				if got != -77 {
					t.Fatalf("column %d beyond the result was written", n)
				}
				continue
			}
			want := float64(l.Bias[n])
			l.W.Row(row, n)
			for k, v := range row {
				want += float64(v) * float64(x.Row(r)[k])
			}
			if math.Abs(got-want) > limit*(math.Abs(want)+8) {
				t.Fatalf("%s row %d column %d: %v, want %v", typ, r, n, got, want)
			}
		}
	}
}

// TestRope: the table is the definition, in every piece, however it grew.
func TestRope(t *testing.T) {
	const rot, theta = 12, 500000.0
	r := NewRope(3000, rot, theta, []float32{1, 1, 1, 2, 8, 8})
	for _, pos := range []int{3, 700, 2999, 0, 255, 256} {
		r.Reserve(pos)
		cos, sin := r.At(pos)
		for j := range rot / 2 {
			a := float64(pos) / math.Pow(theta, 2*float64(j)/rot) / []float64{1, 1, 1, 2, 8, 8}[j]
			if math.Abs(float64(cos[j])-math.Cos(a)) > 1e-7 || math.Abs(float64(sin[j])-math.Sin(a)) > 1e-7 {
				t.Errorf("position %d, pair %d: %v %v, want %v %v", pos, j, cos[j], sin[j], math.Cos(a), math.Sin(a))
			}
		}
	}
	if n := testing.AllocsPerRun(10, func() { r.Reserve(2999) }); n != 0 {
		t.Errorf("a reserved position costs %v allocations", n)
	}
}

// TestNorm: the zero norm changes nothing; the others are what their names say.
func TestNorm(t *testing.T) {
	x := []float32{1, -2, 3, 4}
	got := make([]float32, 4)
	(&Norm{}).Apply(got, x)
	for i := range x {
		if got[i] != x[i] {
			t.Fatal("the zero norm changed a row")
		}
	}
	(&Norm{Kind: RMS, Eps: 1e-6, Gain: []float32{1, 1, 2, 1}}).Apply(got, x)
	if want := 6 / math.Sqrt(7.5); math.Abs(float64(got[2])-want) > 1e-5 {
		t.Errorf("RMS: %v, want %v", got[2], want)
	}
	(&Norm{Kind: LayerNorm, Eps: 1e-6, Gain: []float32{1, 1, 2, 1}, Bias: []float32{0, 0, 1, 0}}).Apply(got, x)
	if want := 2*1.5/math.Sqrt(5.25) + 1; math.Abs(float64(got[2])-want) > 1e-5 {
		t.Errorf("LayerNorm: %v, want %v", got[2], want)
	}
}
