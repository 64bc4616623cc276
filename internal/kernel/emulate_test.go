//go:build amd64 && !purego

package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// emulator runs a generated function from its text, so that kernels of instruction sets that this machine lacks are tested too: registers, offsets, loops and the
// bounds of every access. What the instructions do is as the vendor's manual has it. It knows only those that the kernels of AVX-512 use.
type emulator struct {
	t     *testing.T
	gp    map[string]uint64
	z     [32][64]byte
	zero  bool              // the flag
	frame map[string]uint64 // arguments by name
	parts []memory
	steps int
}

// memory is one argument's array; parts lie far from one another, so that no offset reaches another's.
type memory struct {
	base uint64
	b    []byte
}

var (
	frameOperand = regexp.MustCompile(`^(\w+)\+\d+\(FP\)$`)
	memOperand   = regexp.MustCompile(`^(-?\d+)?\((\w+)\)(?:\((\w+)\*(\d)\))?$`)
	wideRegister = regexp.MustCompile(`^Z(\d+)$`)
)

// give places an array where the function reads and writes it.
func (e *emulator) give(arg string, b []byte) {
	base := uint64(len(e.parts)+1) << 32
	e.parts = append(e.parts, memory{base: base, b: b})
	e.frame[arg] = base
}

// run executes the function whose text this is, from its first line to RET.
func (e *emulator) run(text string) {
	var code [][]string
	labels := map[string]int{}
	for _, line := range strings.Split(text, "\n")[1:] {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "//"):
		case strings.HasSuffix(line, ":"):
			labels[strings.TrimSuffix(line, ":")] = len(code)
		default:
			op, rest, _ := strings.Cut(line, " ")
			f := []string{op}
			for _, a := range strings.Split(rest, ",") {
				f = append(f, strings.TrimSpace(a))
			}
			code = append(code, f)
		}
	}
	for pc := 0; ; e.steps++ {
		f := code[pc]
		pc++
		switch f[0] {
		case "RET":
			return
		case "JNE":
			if !e.zero {
				pc = labels[f[1]]
			}
		default:
			e.step(f)
		}
	}
}

func (e *emulator) step(f []string) {
	switch op := f[0]; {
	case strings.HasPrefix(op, "V"):
		e.vector(f)
	case strings.HasPrefix(op, "PREFETCH"):
	case op == "LEAQ":
		e.set(f[2], e.address(f[1]))
	case op == "MOVQ" || op == "MOVL":
		e.set(f[2], e.get(f[1]))
	case op == "ADDQ":
		e.set(f[2], e.get(f[2])+e.get(f[1]))
	case op == "SUBQ":
		e.set(f[2], e.get(f[2])-e.get(f[1]))
	case op == "SHLQ":
		e.set(f[2], e.get(f[2])<<e.get(f[1]))
	case op == "DECQ":
		v := e.get(f[1]) - 1
		e.set(f[1], v)
		e.zero = v == 0
	default:
		e.t.Fatalf("the emulator does not know %v", f)
	}
}

func (e *emulator) get(a string) uint64 {
	if s, ok := strings.CutPrefix(a, "$"); ok {
		v, err := strconv.ParseUint(s, 0, 64)
		if err != nil {
			e.t.Fatal(err)
		}
		return v
	}
	if m := frameOperand.FindStringSubmatch(a); m != nil {
		v, ok := e.frame[m[1]]
		if !ok {
			e.t.Fatalf("there is no argument %s", a)
		}
		return v
	}
	v, ok := e.gp[a]
	if !ok {
		e.t.Fatalf("%s is read before it is written", a)
	}
	return v
}

func (e *emulator) set(a string, v uint64) {
	if m := frameOperand.FindStringSubmatch(a); m != nil {
		e.frame[m[1]] = v
		return
	}
	e.gp[a] = v
}

func (e *emulator) address(a string) uint64 {
	m := memOperand.FindStringSubmatch(a)
	if m == nil {
		e.t.Fatalf("%s is no place in memory", a)
	}
	disp, _ := strconv.ParseInt("0"+m[1], 10, 64)
	at := e.get(m[2]) + uint64(disp)
	if m[3] != "" {
		n, _ := strconv.ParseUint(m[4], 10, 64)
		at += n * e.get(m[3])
	}
	return at
}

// at gives n bytes of memory; outside the arrays nothing is read or written.
func (e *emulator) at(a string, n int) []byte {
	addr := e.address(a)
	for _, p := range e.parts {
		if off := addr - p.base; addr >= p.base && off+uint64(n) <= uint64(len(p.b)) {
			return p.b[off : off+uint64(n)]
		}
	}
	e.t.Fatalf("%s, %d bytes: outside the arrays", a, n)
	return nil
}

func (e *emulator) wide(a string) *[64]byte {
	m := wideRegister.FindStringSubmatch(a)
	if m == nil {
		e.t.Fatalf("%s is no wide register", a)
	}
	i, _ := strconv.Atoi(m[1])
	return &e.z[i]
}

// source gives an operand of n bytes from a register or from memory, 64 bytes of it repeated where the instruction broadcasts.
func (e *emulator) source(a string, n int) (v [64]byte) {
	switch {
	case wideRegister.MatchString(a):
		return *e.wide(a)
	case strings.Contains(a, "("):
		b := e.at(a, n)
		for i := range v {
			v[i] = b[i%n]
		}
	default:
		for i := range 16 {
			binary.LittleEndian.PutUint32(v[4*i:], uint32(e.get(a)))
		}
	}
	return v
}

func (e *emulator) vector(f []string) {
	op, broadcast := strings.CutSuffix(f[0], ".BCST")
	n := 64
	if broadcast || op == "VPBROADCASTD" {
		n = 4
	}
	switch op {
	case "VZEROUPPER":
	case "VMOVUPS", "VMOVDQU32":
		if v := e.source(f[1], n); wideRegister.MatchString(f[2]) {
			*e.wide(f[2]) = v
		} else {
			copy(e.at(f[2], n), v[:])
		}
	case "VPBROADCASTD":
		*e.wide(f[2]) = e.source(f[1], n)
	case "VCVTDQ2PS":
		e.lanes(f[2], e.source(f[1], n), [64]byte{}, func(a, _ uint32) uint32 { return math.Float32bits(float32(int32(a))) })
	case "VCVTPH2PS":
		half := e.source(f[1], 32)
		for i := range 16 {
			binary.LittleEndian.PutUint32(e.wide(f[2])[4*i:], math.Float32bits(F16ToF32(binary.LittleEndian.Uint16(half[2*i:]))))
		}
	case "VPDPBUSD":
		e.dots(*e.wide(f[3]), *e.wide(f[2]), e.source(f[1], n), f[3])
	case "VPSLLD":
		shift := e.get(f[1])
		e.lanes(f[3], *e.wide(f[2]), [64]byte{}, func(a, _ uint32) uint32 { return a << shift })
	case "VPSRLW":
		shift := e.get(f[1])
		e.lanes(f[3], *e.wide(f[2]), [64]byte{}, func(a, _ uint32) uint32 { return a&0xffff>>shift | a>>16>>shift<<16 })
	default:
		e.lanes(f[3], *e.wide(f[2]), e.source(f[1], n), e.binary(op))
	}
}

// binary gives an operation on two lanes: the first operand is the middle one of Go's order, the second the first.
func (e *emulator) binary(op string) func(a, b uint32) uint32 {
	float := func(f func(a, b float32) float32) func(a, b uint32) uint32 {
		return func(a, b uint32) uint32 {
			return math.Float32bits(f(math.Float32frombits(a), math.Float32frombits(b)))
		}
	}
	switch op {
	case "VPXORD":
		return func(a, b uint32) uint32 { return a ^ b }
	case "VPANDD":
		return func(a, b uint32) uint32 { return a & b }
	case "VPADDD":
		return func(a, b uint32) uint32 { return a + b }
	case "VPSUBD":
		return func(a, b uint32) uint32 { return a - b }
	case "VMULPS":
		return float(func(a, b float32) float32 { return a * b })
	case "VADDPS":
		return float(func(a, b float32) float32 { return a + b })
	}
	e.t.Fatalf("the emulator does not know %s", op)
	return nil
}

func (e *emulator) lanes(dst string, a, b [64]byte, f func(a, b uint32) uint32) {
	for i := range 16 {
		binary.LittleEndian.PutUint32(e.wide(dst)[4*i:], f(binary.LittleEndian.Uint32(a[4*i:]), binary.LittleEndian.Uint32(b[4*i:])))
	}
}

// dots adds to each lane of acc the products of its four unsigned bytes of u and its four signed bytes of s, without saturation.
func (e *emulator) dots(acc, u, s [64]byte, dst string) {
	for i := range 16 {
		sum := int32(binary.LittleEndian.Uint32(acc[4*i:]))
		for j := range 4 {
			sum += int32(u[4*i+j]) * int32(int8(s[4*i+j]))
		}
		binary.LittleEndian.PutUint32(e.wide(dst)[4*i:], uint32(sum))
	}
}

// emulateVNNI multiplies rows [0, rows) by all panels of w with the text of the kernel for so many rows; the result is [rows][panels*16].
func emulateVNNI(t *testing.T, text string, a *quantRows, rows int, w *Matrix) []float32 {
	panels := w.Panels()
	e := &emulator{t: t, gp: map[string]uint64{}, frame: map[string]uint64{"ldd": uint64(panels * Panel), "blocks": uint64(a.blocks), "panels": uint64(panels)}}
	dst, meta, scales := make([]byte, 4*rows*panels*Panel), []byte{}, []byte{}
	for _, m := range a.sums[:rows*a.blocks] {
		meta = binary.LittleEndian.AppendUint32(meta, math.Float32bits(m.scale))
		meta = binary.LittleEndian.AppendUint32(meta, uint32(m.sum))
	}
	for _, s := range w.scales {
		scales = binary.LittleEndian.AppendUint16(scales, s)
	}
	e.give("dst", dst)
	e.give("q", bytesOf(a.q[:rows*a.blocks*qk]))
	e.give("meta", meta)
	e.give("code", bytesOf(w.code))
	e.give("scales", scales)
	e.run(text)
	out := make([]float32, rows*panels*Panel)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(dst[4*i:]))
	}
	return out
}

func bytesOf(v []int8) []byte {
	b := make([]byte, len(v))
	for i, x := range v {
		b[i] = byte(x)
	}
	return b
}

// TestVNNIText runs the kernels of AVX-512 from their text on every machine, and holds them to the portable bits.
func TestVNNIText(t *testing.T) {
	texts := map[string]string{}
	for _, f := range assembly(t, "vnni_amd64.s") {
		name, _, _ := strings.Cut(strings.TrimPrefix(f, "·"), "(")
		texts[name] = f
	}
	for _, lay := range []layout{layQ8, layQ4} {
		for rows := 1; rows <= vnniTileRows; rows++ {
			name := fmt.Sprintf("vnniMulQ%dx%d", map[layout]int{layQ8: 8, layQ4: 4}[lay], rows)
			text, ok := texts[name]
			if !ok {
				t.Fatalf("there is no %s", name)
			}
			for _, blocks := range []int{1, 3} {
				a, w := vnniSample(lay, rows, blocks, 2)
				want := make([]float32, rows*2*Panel)
				mulQuantGeneric(want, 2*Panel, a, 0, rows, w, 0, 2)
				equalBits(t, name, emulateVNNI(t, text, a, rows, w), want)
			}
		}
	}
}
