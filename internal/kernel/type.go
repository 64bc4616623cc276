// Package kernel holds the inner loops on slices and the number formats: portable Go, and assembly of the same order beside it.
//
// One definition per format (law): matvec, few-row and many-row products are schedules of the same sums, with equal bits for
// every batch, chunk, thread count and instruction set.
//
//   - f32 weights: each output has four sums in one lane, k mod 4, each over ascending k with fused multiply-add, and is
//     (s0+s1) + (s2+s3).
//   - f16, bf16 weights: each output is one such sum over ascending k; with f16 weights activations are rounded to 11 bits first
//     (range of f32).
//   - block-quantised weights: the activation row is quantised to int8 per block of 32 by one function, the scale rounded to 11
//     bits; block dots are exact integers; over blocks in ascending order acc = acc + float32(dot)*(ws*as), rounded after each operation (no fused step),
//     plus, for formats with a minimum, acc + (min*as)*float32(sum of the block's int8 activations).
//   - weights in super-blocks of 256 (q3_K to q6_K): per block of 32, i = the exact integer sum of factor*dot, the factor being that of the block or of each
//     half; acc = acc + float32(i)*(d*as), plus, for formats with a minimum, acc + float32(factor*sum)*(min*as).
//   - attention: positions ascending, absolute position mod 16 is the lane; maximum first, then exp, sum, weighted values. Keys
//     and values in q8 are rounded per position and head; queries and weights stay f32.
//   - norms, softmax, exp: one order, one polynomial, on every instruction set.
//
// Workers split output rows, heads or tokens, never a reduction.
package kernel

import "fmt"

// Type is a number format of tensor data, numbered as in GGUF files.
type Type uint32

const (
	F32    Type = 0
	F16    Type = 1
	Q4_0   Type = 2
	Q4_1   Type = 3
	Q5_0   Type = 6
	Q5_1   Type = 7
	Q8_0   Type = 8
	Q3_K   Type = 11
	Q4_K   Type = 12
	Q5_K   Type = 13
	Q6_K   Type = 14
	IQ4_NL Type = 20
	BF16   Type = 30
)

type typeInfo struct {
	name         string
	block, bytes int  // values and bytes of one block
	readOnly     bool // Quantize does not write it
}

var typeTable = [...]typeInfo{
	F32: {name: "f32", block: 1, bytes: 4}, F16: {name: "f16", block: 1, bytes: 2}, BF16: {name: "bf16", block: 1, bytes: 2},
	Q4_0: {name: "q4_0", block: 32, bytes: 18}, Q4_1: {name: "q4_1", block: 32, bytes: 20}, Q5_0: {name: "q5_0", block: 32, bytes: 22},
	Q5_1: {name: "q5_1", block: 32, bytes: 24}, Q8_0: {name: "q8_0", block: 32, bytes: 34},
	Q3_K: {name: "q3_K", block: 256, bytes: 110, readOnly: true}, Q4_K: {name: "q4_K", block: 256, bytes: 144}, Q5_K: {name: "q5_K", block: 256, bytes: 176},
	Q6_K: {name: "q6_K", block: 256, bytes: 210}, IQ4_NL: {name: "iq4_nl", block: 32, bytes: 18, readOnly: true},
}

// Known says whether this build can read the format.
func (t Type) Known() bool { return t.info().block > 0 }

// info gives the zero value for formats that this build does not know.
func (t Type) info() typeInfo {
	if int(t) >= len(typeTable) {
		return typeInfo{}
	}
	return typeTable[t]
}

// Block gives the number of values in one block (1 for plain formats).
func (t Type) Block() int { return t.info().block }

// BlockBytes gives the number of bytes of one block.
func (t Type) BlockBytes() int { return t.info().bytes }

// Halves gives where in a block its 16-bit scale lies and how many halves there are: 1, or 2 where a minimum follows; 0 for plain formats.
func (t Type) Halves() (at, n int) {
	switch t {
	case F32, F16, BF16:
		return 0, 0
	case Q4_1, Q5_1, Q4_K, Q5_K:
		return 0, 2
	case Q3_K, Q6_K:
		return t.BlockBytes() - 2, 1
	}
	return 0, 1
}

func (t Type) String() string {
	if t.Known() {
		return typeTable[t].name
	}
	return fmt.Sprintf("type(%d)", uint32(t))
}

// ParseType finds a format that Quantize writes by its name, as in "q8_0".
func ParseType(name string) (Type, bool) {
	for t, i := range typeTable {
		if i.name == name && i.block > 0 && !i.readOnly {
			return Type(t), true
		}
	}
	return 0, false
}
