package grammar

// frame is one rule at work: a node, how far it is, and up to three numbers whose meaning is the kind's.
type frame struct {
	node    int32
	step    uint8
	a, b, c int32
}

// State is where an answer stands: the stacks of all ways in which its bytes can be read. A stack without frames has come to its end. The
// zero value is dead: nothing can follow.
type State struct {
	frames []frame // the stacks, end to end; the frame on top is the last of each
	ends   []int32
	spare  []frame // scratch of branching
}

// copyTo makes dst equal to s, in dst's memory.
func (s *State) copyTo(dst *State) {
	dst.frames = append(dst.frames[:0], s.frames...)
	dst.ends = append(dst.ends[:0], s.ends...)
}

func (s *State) clear() { s.frames, s.ends = s.frames[:0], s.ends[:0] }

// Dead says whether nothing can follow and nothing is complete.
func (s *State) Dead() bool { return len(s.ends) == 0 }

// Start sets s to the beginning of an answer.
func (g *Grammar) Start(s *State) {
	s.clear()
	for _, n := range g.leaves(g.root) {
		s.frames = append(s.frames, frame{node: n, b: g.nodes[n].span()})
		s.ends = append(s.ends, int32(len(s.frames)))
	}
}

// leaves are the nodes that may stand for n.
func (g *Grammar) leaves(n int32) []int32 {
	if g.nodes[n].kind == choice {
		return g.nodes[n].alts
	}
	return []int32{n}
}

// span is the b that a frame of n starts with: of a literal, the end of the range of texts.
func (n *node) span() int32 {
	if n.kind == literal {
		return int32(len(n.texts))
	}
	return 0
}

// Done says whether the answer may end here.
func (g *Grammar) Done(s *State) bool {
	from := int32(0)
	for _, end := range s.ends {
		ready := true
		for i := from; i < end; i++ {
			ready = ready && g.ends(&s.frames[i])
		}
		if ready {
			return true
		}
		from = end
	}
	return false
}

// Closed says whether the answer is complete and nothing can follow.
func (s *State) Closed() bool { return len(s.ends) > 0 && len(s.frames) == 0 }

// Feed sets dst to the state after byte b. dst and s must not be the same.
func (g *Grammar) Feed(dst, s *State, b byte) {
	dst.clear()
	from := int32(0)
	for _, end := range s.ends {
		at := len(dst.frames)
		dst.frames = append(dst.frames, s.frames[from:end]...)
		g.run(dst, at, b)
		from = end
	}
}

// outcome is what a frame does with a byte.
type outcome uint8

const (
	refused outcome = iota // the stack is no way to read the answer
	taken
	closed // taken, and the frame is complete
	passed // the frame is complete, the byte belongs to the one below
	opened // the byte begins a value, which is pushed
)

// run feeds a byte to the stack dst.frames[at:], the last one of dst, which is not listed yet.
func (g *Grammar) run(dst *State, at int, b byte) {
	for len(dst.frames) > at {
		top := len(dst.frames) - 1
		what, child := g.take(&dst.frames[top], b, top-at)
		switch what {
		case taken:
			dst.list(at)
			return
		case closed:
			dst.frames = dst.frames[:top]
			g.settle(dst, at)
			dst.list(at)
			return
		case passed:
			dst.frames = dst.frames[:top]
		case opened:
			g.open(dst, at, child, b)
			return
		default:
			dst.frames = dst.frames[:at]
			return
		}
	}
}

// open pushes a value that begins with byte b, in each form that fits.
func (g *Grammar) open(dst *State, at int, child int32, b byte) {
	depth := len(dst.frames) - at
	if n := &g.nodes[child]; n.kind != choice {
		if int(n.height)+depth > maxFrames {
			dst.frames = dst.frames[:at]
			return
		}
		dst.frames = append(dst.frames, frame{node: child, b: n.span()})
		g.run(dst, at, b)
		return
	}
	base := len(dst.spare)
	dst.spare = append(dst.spare, dst.frames[at:]...)
	dst.frames = dst.frames[:at]
	for _, alt := range g.nodes[child].alts {
		from := len(dst.frames)
		dst.frames = append(dst.frames, dst.spare[base:base+depth]...)
		g.open(dst, from, alt, b)
	}
	dst.spare = dst.spare[:base]
}

// settle drops the frames on top that have nothing more to take.
func (g *Grammar) settle(dst *State, at int) {
	for len(dst.frames) > at {
		f := &dst.frames[len(dst.frames)-1]
		n := &g.nodes[f.node]
		done := n.kind == series && int(f.a) == len(n.alts) || (n.kind == repeat || n.kind == free) && f.b == n.max
		if !done {
			return
		}
		dst.frames = dst.frames[:len(dst.frames)-1]
	}
}

// list takes the stack dst.frames[at:] into the set, unless it is there already or there are too many.
func (s *State) list(at int) {
	from := int32(0)
	for _, end := range s.ends {
		if alike(s.frames[from:end], s.frames[at:]) {
			s.frames = s.frames[:at]
			return
		}
		from = end
	}
	if len(s.ends) == maxThreads { // fewer ways are still ways
		s.frames = s.frames[:at]
		return
	}
	s.ends = append(s.ends, int32(len(s.frames)))
}

// alike compares two stacks from the top, where they differ first.
func alike(a, b []frame) bool {
	if len(a) != len(b) {
		return false
	}
	for i := len(a) - 1; i >= 0; i-- {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// fits says whether node n can stand on a stack of depth frames, its own not counted.
func (g *Grammar) fits(n int32, depth int) bool { return int(g.nodes[n].height)+depth <= maxFrames }
