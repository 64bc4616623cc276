package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// This file is about getting weights from memory at its own pace.
//
// Kernels of one row read several runs of panels side by side, each run from its beginning to its end: the processor's own prefetchers follow every run, and two
// or three of them bring more than one does, with or without asking (docs/LOG.md). Panels left over are taken one by one, and asked for a fixed distance ahead: 1 to 2 KiB
// serve best, multiples of 4 KiB worst. Weights beyond the end may be asked for.
const ahead = 1 << 10

// fetch asks for the line that lies ahead of a place of the weights.
func fetch(base Register, disp int) { PREFETCHT0(Mem{Base: base, Disp: disp + ahead}) }

// asker is how a kernel of several rows asks for weights: on every so many visits for the next eight lines of a stream, and for the line of what stands beside
// them. Where to and how often says the caller (type prefetch of the kernels), and what one call has left the next one goes on with, so that all tiles of
// the same weights share the asking for the weights after them.
type asker struct {
	left GPVirtual // visits
	side int       // bytes that stand beside eight lines in each stream of the sides
	n    int       // streams of sides
}

// The fields of a prefetch.
const (
	askLeft, askEvery, askMain, askSides = 0, 8, 16, 24

	askLines = 8
)

// newAsker begins a kernel that asks, or does not. Beside the weights lie so many streams of sides.
func newAsker(asks bool, sides, side int) *asker {
	if !asks {
		return nil
	}
	a := &asker{left: GP64(), n: sides, side: side}
	MOVQ(argMem("next"), a.left)
	MOVQ(Mem{Base: a.left, Disp: askLeft}, a.left)
	return a
}

// visit stands once in a loop; name is its own within the kernel.
func (a *asker) visit(name string) {
	if a == nil {
		return
	}
	skip := name + "asked"
	DECQ(a.left)
	JNE(LabelRef(skip))
	p := GP64()
	MOVQ(argMem("next"), p)
	MOVQ(Mem{Base: p, Disp: askMain}, a.left)
	for i := range askLines {
		PREFETCHT1(Mem{Base: a.left, Disp: 64 * i})
	}
	ADDQ(U32(64*askLines), Mem{Base: p, Disp: askMain})
	for s := range a.n {
		MOVQ(Mem{Base: p, Disp: askSides + 8*s}, a.left)
		PREFETCHT1(Mem{Base: a.left})
		ADDQ(U8(a.side), Mem{Base: p, Disp: askSides + 8*s})
	}
	MOVQ(Mem{Base: p, Disp: askEvery}, a.left)
	Label(skip)
}

// done leaves the visits to the next call.
func (a *asker) done() {
	if a == nil {
		return
	}
	p := GP64()
	MOVQ(argMem("next"), p)
	MOVQ(a.left, Mem{Base: p, Disp: askLeft})
}

// nextArg is the last argument of kernels that ask.
func nextArg(asks bool) string {
	if asks {
		return ", next *int"
	}
	return ""
}

// apartArg is the last argument of kernels that read several runs of panels side by side: how many panels it is from one to the next. Those do not ask.
func apartArg(P int) string {
	if P > 1 {
		return ", apart int"
	}
	return ""
}

// runs addresses a stream of bytes a block in P runs of panels.
func runs(name string, bytes, P int) rows {
	base := arg(name)
	if P == 1 {
		return rows{base: base, n: 1}
	}
	stride := GP64()
	MOVQ(argMem("blocks"), stride)
	IMULQ(argMem("apart"), stride)
	IMUL3Q(U32(bytes), stride, stride)
	return newRows(base, stride, P)
}

// outRuns addresses the results of R rows, ldd bytes apart, by P runs of panels.
func outRuns(dst, ldd GPVirtual, R, P int) []rows {
	if P == 1 {
		return []rows{newRows(dst, ldd, R)}
	}
	panels := GP64()
	MOVQ(argMem("apart"), panels)
	SHLQ(U8(6), panels)
	out := []rows{newRows(dst, ldd, R)}
	for range P - 1 {
		base := GP64()
		LEAQ(Mem{Base: out[len(out)-1].base, Index: panels, Scale: 1}, base)
		out = append(out, newRows(base, ldd, R))
	}
	return out
}
