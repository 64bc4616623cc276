package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// This file is about getting weights from memory at its own pace.
//
// One row reads several runs of panels side by side, each run from its beginning to its end: the processor's own prefetchers follow every run, and four of them
// bring a fifth to two fifths more than one does, with or without asking (docs/LOG.md). Everything else reads one panel after the other and asks for what lies a fixed distance ahead of
// its reading, since those prefetchers stop at pages and fall behind as soon as a line is read for several rows; that also brings back into the first cache what another
// tile has left in the second. Any distance from 2 to 128 KiB serves; weights beyond the end may be asked for.
const ahead = 4 << 10

// fetch asks for the line that lies ahead of a place of the weights.
func fetch(base Register, disp int) { PREFETCHT0(Mem{Base: base, Disp: disp + ahead}) }

// asker is how a kernel of several rows asks for other weights beside: on every so many visits for the next eight lines of a stream, and for the line of what stands
// beside them. Where from and how often says the caller (type prefetch of the kernels), and what one call has left the next one goes on with, so that all tiles
// of the same weights share the asking for the weights after them.
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

// blockRows addresses R rows of so many bytes a block.
func blockRows(name string, bytes, R int) rows {
	base := arg(name)
	if R == 1 {
		return rows{base: base, n: 1}
	}
	stride := GP64()
	MOVQ(argMem("blocks"), stride)
	IMUL3Q(U32(bytes), stride, stride)
	return newRows(base, stride, R)
}

// restart goes back from behind the last block to the first.
func (r rows) restart(name string) {
	if r.n == 1 {
		MOVQ(argMem(name), r.base)
		return
	}
	r.retreat(r.stride)
}

// outRuns addresses the results of R rows, ldd bytes apart, by P runs of panels, by run.
func outRuns(dst, ldd GPVirtual, R, P int) []rows {
	if P == 1 {
		return []rows{newRows(dst, ldd, R)}
	}
	panels := GP64()
	MOVQ(argMem("apart"), panels)
	SHLQ(U8(6), panels)
	if R == 1 {
		return []rows{newRows(dst, panels, P)}
	}
	out := []rows{newRows(dst, ldd, R)}
	for range P - 1 {
		base := GP64()
		LEAQ(Mem{Base: out[len(out)-1].base, Index: panels, Scale: 1}, base)
		out = append(out, newRows(base, ldd, R))
	}
	return out
}

// outAt is the place of the results of row r and run p.
func outAt(out []rows, p, r, disp int) Mem {
	if p > 0 && len(out) == 1 {
		return out[0].at(p, disp) // one row
	}
	return out[p].at(r, disp)
}
