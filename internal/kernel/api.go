package kernel

// This file is the contract between the kernels and the layers that call them (package nn); the bodies live beside it, per
// format. PLACEHOLDER BODIES: replaced file by file.

// Panel is the number of output rows of one panel: every matrix is cut in panels of 16 rows, lanes are rows ("P16").
const Panel = 16

// Dequantize expands the first n values of src (whole blocks of t) to f32. dst must hold n values.
//
//	func Dequantize(dst []float32, t Type, src []byte)
//
// Quantize packs src into whole blocks of t; len(src) must be a multiple of t.Block().
//
//	func Quantize(dst []byte, t Type, src []float32)
//
// Matrix is an immutable weight matrix of N rows (outputs) by K columns (inputs), repacked into panels in a huge-page arena.
//
//	type Matrix struct { N, K int; Source Type; ... }
//	func NewMatrix(t Type, n, k int, src []byte) (*Matrix, error)  // src is row-major data of format t; k must be a multiple of t.Block()
//	func (m *Matrix) Panels() int                                  // ceil(N/16)
//	func (m *Matrix) Bytes() int                                   // memory held
//	func (m *Matrix) Row(dst []float32, i int)                     // dequantised row i (embedding lookup; exact w.r.t. the file)
//	func (m *Matrix) Free()
//
// Input holds up to a fixed number of activation rows of width k: f32 rows (stride padded to avoid 4 KiB aliasing), and beside them the int8
// form that quantised products read.
//
//	func NewInput(rows, k int) *Input
//	func (in *Input) F32(i int) []float32            // row i, length k; write here, then Prepare
//	func (in *Input) Prepare(w *Matrix, lo, hi int)  // quantise rows lo..hi if w's product needs it (idempotent per fill; any worker may do a share)
//	                                                 // callers put a barrier between the last Prepare and MatMul
//	func MatMul(dst []float32, ldd int, in *Input, rows int, w *Matrix, p0, p1 int)
//	    // dst[r*ldd+n] = sum_k in[r][k]*w[n][k] for r in [0,rows), n in [16*p0, min(16*p1, N)). Prepare must cover the rows.
//
// KV is the store of attention pages. One page = 16 consecutive positions (pos mod 16 = lane) of one slot, per KV head:
// K transposed [dim][16] then V [16][dim padded to 8]. Format F32 or F16.
//
//	func NewKV(pages, heads, dim int, t Type) (*KV, error)
//	func (kv *KV) PageBytes() int
//	func (kv *KV) Put(page int32, lane int, k, v []float32)  // k, v: [heads*dim] of one position
//	func (kv *KV) Copy(dst, src int32)
//	func (kv *KV) Free()
//
// Span bounds what a row may see: positions [0, Sinks) and (pos-Window, pos]; Window 0 means everything up to pos.
//
//	type Span struct { Window, Sinks int }
//
//	func Attend(dst, q []float32, kv *KV, pages []int32, pos int, s Span, h0, h1, heads int, scale, softcap float32, scratch []float32)
//	    // one row: query heads [h0,h1) of `heads`, q and dst are [heads*dim]; head h reads KV head h/(heads/kv.Heads).
//	    // pages[b] holds positions 16b..16b+15; pages wholly outside the span are never touched (may be -1).
//	func AttendScratch(maxPos int) int  // floats of scratch that Attend needs
//
//	func RMSNorm(dst, x, gain []float32, eps float32)           // gain nil = ones
//	func LayerNorm(dst, x, gain, bias []float32, eps float32)
//	func RopeHalf / RopeInterleaved(x []float32, dim, rot int, cos, sin []float32)   // one head vector of width dim, first rot rotated, cos/sin [rot/2]
//	func SwiGLU(dst, gate, up []float32)   // silu(gate)*up
//	func ReLU2(dst, x []float32); GELU(dst, x []float32) // tanh form
//	func Add(dst, a, b []float32); Scale(dst, a []float32, s float32); MulAdd(dst, a, b, c []float32)  // dst = a*b + c
//	func SoftmaxStats(x []float32) (max float32, sumExp float64)  // for logprobs; fixed order
//	func ArgMax(x []float32) int  // lowest index on ties; NaN never wins
//	func ISA() string   // "avx2" or "generic": chosen once at start; TINYLOOP_ISA=generic forces the portable one
