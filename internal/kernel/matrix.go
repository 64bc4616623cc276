package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"

	"tinyloop/internal/fault"
)

// Panel is the number of output rows of one panel: every matrix is cut in panels of 16 rows, and lanes are rows.
const Panel = 16

// layout is how a matrix lies in memory. Panel p holds rows 16p to 16p+15; rows beyond N are zero.
//
//	layF32   [panels][K][16] f32
//	layF16   [panels][K][16] halves            layBF16 the same with bfloat16
//	layQ8    [panels][K/32][8 groups][16 rows][4] bytes, value k of a block in group k/4: int8 codes, those of even k 128 up
//	layQ8Min the same with unsigned codes, none raised
//	layQ4    [panels][K/32][4 groups][16 rows][4] bytes: low nibbles are group g, high nibbles group g+4; codes are unsigned, zero point 8
//	layQ4Min the same with zero point 0
//
//	layK4    as layQ4 with zero point 0      layK8, layK6  as layQ8Min with codes up to 31, codes from -32 to 31, all 32 up
//
// The scales (and the minima of the Min layouts) of quantised matrices lie in streams of their own: [panels][K/32][16] halves.
// The K layouts have [panels][K/32][2][16] integer factors, in layK6 of the two halves of the block, else of scale and minimum, and [panels][K/256][16] halves, in
// layK4 and layK8 [2][16]: scales, and minima with the sign turned.
type layout uint8

const (
	layF32 layout = iota
	layF16
	layBF16
	layQ8
	layQ8Min
	layQ4
	layQ4Min
	layK4
	layK8
	layK6
)

// layoutOf says how each source format is held; the choice loses nothing.
func layoutOf(t Type) layout {
	switch t {
	case F32:
		return layF32
	case F16:
		return layF16
	case BF16:
		return layBF16
	case Q8_0, Q5_0, IQ4_NL:
		return layQ8
	case Q5_1:
		return layQ8Min
	case Q4_0:
		return layQ4
	case Q4_K:
		return layK4
	case Q5_K:
		return layK8
	case Q3_K, Q6_K:
		return layK6
	default:
		return layQ4Min
	}
}

// Matrix is an immutable weight matrix of N rows (outputs) by K columns (inputs), cut in panels of 16 rows. It holds memory outside the heap until
// Free. Any number of goroutines may read it.
type Matrix struct {
	N, K   int
	Source Type // the format it was read from
	lay    layout

	f32    []float32 // layF32
	half   []uint16  // layF16, layBF16
	code   []int8    // the codes of quantised layouts
	scales []uint16
	mins   []uint16
	steps  []int8 // K layouts

	mem  []byte  // the streams one after the other, each at a multiple of 64 bytes: codes, steps, scales, mins
	home *region // what mem is a part of
	far  bool    // no cache holds the region: products read from memory
}

// region is memory of several matrices. It goes back when the last of them is freed.
type region struct {
	left  atomic.Int32
	bytes int
	free  func()
}

// cacheBytes is the most that stays in the last cache of common processors while other things pass through it.
const cacheBytes = 12 << 20

func newRegion(matrices, bytes int, free func()) *region {
	r := &region{bytes: bytes, free: free}
	r.left.Store(int32(matrices))
	return r
}

func (r *region) drop() {
	if r.left.Add(-1) == 0 {
		r.free()
	}
}

// maxMatrixValues bounds N*K so that no size computed from it overflows.
const maxMatrixValues = 1 << 40

// checkShape gives the number of source bytes of an n by k matrix of format t.
func checkShape(t Type, n, k int) (int, error) {
	if !t.Known() {
		return 0, fault.New(fault.Invalid, "type", "weights of %v are not supported", t)
	}
	if n < 1 || k < 1 || k > maxMatrixValues/n {
		return 0, fault.New(fault.Invalid, "shape", "a matrix of %d rows by %d columns is out of range: both must be at least 1 and their product at most %d", n, k, maxMatrixValues)
	}
	if k%t.Block() != 0 {
		return 0, fault.New(fault.Invalid, "shape", "a row of %d values cannot be %v: the width must be a multiple of %d", k, t, t.Block())
	}
	return n * (k / t.Block()) * t.BlockBytes(), nil
}

// Shape is the format and the size of a matrix: N rows of K values.
type Shape struct {
	Source Type
	N, K   int
}

// Check says why the shape does not suit the format, or nil.
func (s Shape) Check() error {
	_, err := checkShape(s.Source, s.N, s.K)
	return err
}

// PanelBytes gives the memory of such a matrix in panels, a multiple of 64. The shape must pass Check.
func (s Shape) PanelBytes() int { return s.matrix().size() }

func (s Shape) matrix() *Matrix {
	return &Matrix{N: s.N, K: s.K, Source: s.Source, lay: layoutOf(s.Source)}
}

// NewMatrix repacks src, row-major data of format t with n rows of k values, into panels. It fails when the shape does not suit the format or src is not
// exactly n*k values, before memory is taken. src is not kept.
func NewMatrix(t Type, n, k int, src []byte) (*Matrix, error) {
	need, err := checkShape(t, n, k)
	if err != nil {
		return nil, err
	}
	if len(src) != need {
		return nil, fault.New(fault.Invalid, "data", "a %v matrix of %d by %d takes %d bytes, got %d", t, n, k, need, len(src))
	}
	m, err := NewMatrices([]Shape{{t, n, k}})
	if err != nil {
		return nil, err
	}
	m[0].Fill(0, src)
	return m[0], nil
}

// NewMatrices makes matrices of zeros to be filled with Fill. They share one region of memory, so that small ones lie on huge pages too; it is given back when
// all of them are freed. It fails when a shape does not suit its format, before memory is taken.
func NewMatrices(shapes []Shape) ([]*Matrix, error) {
	out, size := make([]*Matrix, len(shapes)), 0
	for i, s := range shapes {
		if _, err := checkShape(s.Source, s.N, s.K); err != nil {
			return nil, err
		}
		out[i] = s.matrix()
		size += out[i].size()
	}
	if size == 0 {
		return out, nil
	}
	mem, err := newArena(size)
	if err != nil {
		return nil, err
	}
	at, home := 0, newRegion(len(out), size, mem.free)
	for _, m := range out {
		n := m.size()
		m.place(mem.mem[at:at+n:at+n], home)
		at += n
	}
	return out, nil
}

// place lays the streams of the matrix into mem, m.size() bytes.
func (m *Matrix) place(mem []byte, home *region) {
	m.mem, m.home, m.far = mem, home, home.bytes > cacheBytes
	main, steps, scale, mins := m.sizes()
	body := mem[:main]
	switch m.lay {
	case layF32:
		m.f32 = view[float32](body)
	case layF16, layBF16:
		m.half = view[uint16](body)
	default:
		stepAt := roundUp(main, lineBytes)
		scaleAt := roundUp(stepAt+steps, lineBytes)
		minAt := roundUp(scaleAt+scale, lineBytes)
		m.code = view[int8](body)
		m.steps = view[int8](mem[stepAt : stepAt+steps])
		m.scales = view[uint16](mem[scaleAt : scaleAt+scale])
		m.mins = view[uint16](mem[minAt : minAt+mins])
	}
}

// size gives the bytes of all streams, a multiple of 64.
func (m *Matrix) size() int {
	main, steps, scale, mins := m.sizes()
	return roundUp(main, lineBytes) + roundUp(steps, lineBytes) + roundUp(scale, lineBytes) + roundUp(mins, lineBytes)
}

// sizes gives the bytes of the streams.
func (m *Matrix) sizes() (main, steps, scale, mins int) {
	values := m.Panels() * Panel * m.K
	switch m.lay {
	case layF32:
		return 4 * values, 0, 0, 0
	case layF16, layBF16:
		return 2 * values, 0, 0, 0
	}
	main, scale = values, values/qk*2
	if m.nibbles() {
		main = values / 2
	}
	if m.inSupers() {
		return main, values / qk * 2, values / superLen * m.halvesPerSuper() / Panel * 2, 0
	}
	if m.hasMin() {
		mins = scale
	}
	return main, 0, scale, mins
}

func (m *Matrix) hasMin() bool    { return m.lay == layQ8Min || m.lay == layQ4Min }
func (m *Matrix) quantised() bool { return m.lay >= layQ8 }
func (m *Matrix) nibbles() bool   { return m.lay == layQ4 || m.lay == layQ4Min || m.lay == layK4 }
func (m *Matrix) inSupers() bool  { return m.lay >= layK4 }

// Panels gives the number of panels, ceil(N/16).
func (m *Matrix) Panels() int { return (m.N + Panel - 1) / Panel }

// Bytes gives the memory that the matrix holds.
func (m *Matrix) Bytes() int { return len(m.mem) }

// Free gives the memory back. The matrix must not be used after.
func (m *Matrix) Free() {
	if m.home != nil {
		m.home.drop()
	}
	m.home, m.mem = nil, nil
	m.f32, m.half, m.code, m.scales, m.mins, m.steps = nil, nil, nil, nil, nil, nil
}

// Fill writes whole panels, from panel first on: src is their rows in the format that the matrix was made with, 16 a panel, fewer only in the last. Several
// goroutines may fill different panels at a time. Rows that the matrix does not have, or a part of one, are a mistake of the caller and panic.
func (m *Matrix) Fill(first int, src []byte) {
	stride := m.K / m.Source.Block() * m.Source.BlockBytes()
	rows := len(src) / stride
	if first < 0 || len(src)%stride != 0 || first*Panel+rows > m.N || rows%Panel != 0 && first*Panel+rows != m.N {
		panic(fmt.Sprintf("kernel: %d bytes cannot fill a %v matrix of %d by %d from panel %d on", len(src), m.Source, m.N, m.K, first))
	}
	m.populate(first, (rows+Panel-1)/Panel)
	for at := 0; at < rows; at += Panel {
		n := min(Panel, rows-at)
		m.fillPanel(first+at/Panel, n, src[at*stride:(at+n)*stride])
	}
}

// populate takes the memory of the main stream of n panels.
func (m *Matrix) populate(first, n int) {
	main, _, _, _ := m.sizes()
	panel := main / m.Panels()
	populate(m.mem[first*panel : (first+n)*panel])
}

// fillPanel writes one panel. In it k advances and the 16 rows are read side by side, so that writes stay within the cache.
func (m *Matrix) fillPanel(p, rows int, src []byte) {
	if rows == Panel && m.packPanel(p, src) {
		return
	}
	switch m.lay {
	case layF32:
		fillF32(m.f32[p*Panel*m.K:(p+1)*Panel*m.K], src, rows, m.K)
	case layF16, layBF16:
		fillHalf(m.half[p*Panel*m.K:(p+1)*Panel*m.K], src, rows, m.K)
	case layK4, layK8, layK6:
		m.fillSuper(p, rows, src)
	default:
		m.fillBlocks(p, rows, src)
	}
}

// fillColumns is how many columns of a panel are written at a time: 1 KiB of f32.
const fillColumns = 16

func fillF32(dst []float32, src []byte, rows, k int) {
	for i := 0; i < k; i += fillColumns {
		n := min(fillColumns, k-i)
		out := dst[i*Panel : (i+n)*Panel]
		for r := range rows {
			in := src[(r*k+i)*4:][:n*4]
			for o := r; o < len(out); o += Panel {
				out[o] = math.Float32frombits(binary.LittleEndian.Uint32(in))
				in = in[4:]
			}
		}
	}
}

func fillHalf(dst []uint16, src []byte, rows, k int) {
	for i := 0; i < k; i += fillColumns {
		n := min(fillColumns, k-i)
		out := dst[i*Panel : (i+n)*Panel]
		for r := range rows {
			in := src[(r*k+i)*2:][:n*2]
			for o := r; o < len(out); o += Panel {
				out[o] = binary.LittleEndian.Uint16(in)
				in = in[2:]
			}
		}
	}
}

// words views the codes in units of four values (layQ8) or eight (layQ4): what one row has in one group.
func (m *Matrix) words() []uint32 { return view[uint32](m.mem[:len(m.code)]) }

func (m *Matrix) wordsPerBlock() int {
	if m.nibbles() {
		return 4 * Panel
	}
	return 8 * Panel
}

// Row writes row i, K values, exactly as Dequantize gives them from the source.
func (m *Matrix) Row(dst []float32, i int) {
	p, r := i/Panel, i%Panel
	dst = dst[:m.K]
	switch m.lay {
	case layF32:
		for k := range dst {
			dst[k] = m.f32[(p*m.K+k)*Panel+r]
		}
	case layF16:
		for k := range dst {
			dst[k] = F16ToF32(m.half[(p*m.K+k)*Panel+r])
		}
	case layBF16:
		for k := range dst {
			dst[k] = BF16ToF32(m.half[(p*m.K+k)*Panel+r])
		}
	case layK4, layK8, layK6:
		m.rowSuper(dst, p, r)
	default:
		m.rowBlocks(dst, p, r)
	}
}

func (m *Matrix) rowBlocks(dst []float32, p, r int) {
	blocks := m.K / qk
	c := codes{hasMin: m.hasMin()}
	for b := range blocks {
		at := (p*blocks+b)*Panel + r
		c.d = F16ToF32(m.scales[at])
		if c.hasMin {
			c.m = F16ToF32(m.mins[at])
		}
		m.getCodes(&c, p*blocks+b, r)
		out := dst[b*qk : b*qk+qk]
		for i := range out {
			out[i] = c.value(i)
		}
	}
}

// getCodes reads row r's codes of a block, numbered over all panels.
func (m *Matrix) getCodes(c *codes, block, r int) {
	if m.lay < layQ4 {
		w := m.code[block*qk*Panel+r*4:]
		for i := range c.q {
			c.q[i] = w[i/4*4*Panel+i%4]
			if m.lay == layQ8 && i%2 == 0 {
				c.q[i] ^= -128
			}
		}
		return
	}
	zero := int8(8)
	if m.lay == layQ4Min {
		zero = 0
	}
	w := m.code[block*qk/2*Panel+r*4:]
	for i := range 16 {
		v := byte(w[i/4*4*Panel+i%4])
		c.q[i], c.q[i+16] = int8(v&15)-zero, int8(v>>4)-zero
	}
}
