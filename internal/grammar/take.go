package grammar

// take gives byte b to a frame that has below frames under it.
func (g *Grammar) take(f *frame, b byte, below int) (what outcome, child int32) {
	n := &g.nodes[f.node]
	switch n.kind {
	case object, mapping:
		return g.takeObject(f, n, b, below+1)
	case array:
		return g.takeArray(f, n, b, below+1)
	case text:
		return takeText(f, n, b), 0
	case number, integer:
		return takeNumber(f, n.kind == integer, b), 0
	case literal:
		return takeLiteral(f, n, b), 0
	case series:
		if int(f.a) == len(n.alts) {
			return passed, 0
		}
		f.a++
		return opened, n.alts[f.a-1]
	case repeat:
		return takeRepeat(f, n, b)
	case free:
		return takeFree(f, n, b)
	}
	return refused, 0
}

// ends says whether a frame may end where it is.
func (g *Grammar) ends(f *frame) bool {
	n := &g.nodes[f.node]
	switch n.kind {
	case number, integer:
		return endsNumber(f.step)
	case literal:
		return f.a < f.b && len(n.texts[f.a]) == int(f.c)
	case series:
		return int(f.a) == len(n.alts)
	case repeat:
		return f.b >= n.min && f.step == 0
	case free:
		return f.step == 0
	}
	return false
}

// Steps of an object. a is the next property; while a key is being written, b is the first property whose key begins so, and c the bytes written;
// elsewhere c counts blanks.
const (
	objectOpen   uint8 = iota // before {
	objectFirst               // behind {
	objectKey                 // within a key of a list
	objectColon               // behind a key
	objectValue               // behind :
	objectBehind              // behind a value
	objectNext                // behind ,
)

func (g *Grammar) takeObject(f *frame, n *node, b byte, depth int) (outcome, int32) {
	switch f.step {
	case objectOpen:
		return move(f, b == '{', objectFirst), 0
	case objectFirst, objectNext:
		switch {
		case b == '"' && g.anyKey(f, n, depth):
			return g.beginKey(f, n)
		case b == '}' && f.step == objectFirst && n.complete(f):
			return closed, 0
		}
		return blank(f, b), 0
	case objectKey:
		return g.takeKey(f, n, b, depth), 0
	case objectColon:
		return move(f, b == ':', objectValue), 0
	case objectValue:
		if blank(f, b) == taken {
			return taken, 0
		}
		f.step, f.c = objectBehind, 0
		if n.kind == mapping {
			return opened, n.item
		}
		return opened, n.props[f.a-1].node
	}
	switch {
	case b == ',' && f.c == 0 && g.anyKey(f, n, depth):
		f.step = objectNext
		return taken, 0
	case b == '}' && n.complete(f):
		return closed, 0
	case n.complete(f):
		return blank(f, b), 0
	}
	return refused, 0
}

// complete says whether an object has all that it must have.
func (n *node) complete(f *frame) bool {
	return n.kind == mapping || int(n.firm[f.a]) == len(n.props)
}

// anyKey says whether one more property can follow.
func (g *Grammar) anyKey(f *frame, n *node, depth int) bool {
	if n.kind == mapping {
		return g.fits(n.item, depth)
	}
	last := min(int(n.firm[f.a]), len(n.props)-1)
	for i := int(f.a); i <= last; i++ {
		if g.fits(n.props[i].node, depth) {
			return true
		}
	}
	return false
}

func (g *Grammar) beginKey(f *frame, n *node) (outcome, int32) {
	if n.kind == mapping {
		f.step, f.c = objectColon, 0
		return opened, keyNode
	}
	f.step, f.b, f.c = objectKey, f.a, 1
	return taken, 0
}

// takeKey goes on with the keys that may stand here: those up to the next required one.
func (g *Grammar) takeKey(f *frame, n *node, b byte, depth int) outcome {
	last := min(int(n.firm[f.a]), len(n.props)-1)
	begun := n.props[f.b].key
	for i := int(f.b); i <= last; i++ {
		key := n.props[i].key
		if len(key) <= int(f.c) || key[f.c] != b || !startsAlike(begun, key, f.c) || !g.fits(n.props[i].node, depth) {
			continue
		}
		f.b = int32(i)
		if f.c++; len(key) == int(f.c) {
			f.a, f.b, f.c, f.step = int32(i)+1, 0, 0, objectColon
		}
		return taken
	}
	return refused
}

// Steps of an array. a counts the items begun, as far as it matters; c counts blanks.
const (
	arrayOpen uint8 = iota
	arrayFirst
	arrayBehind
	arrayNext
)

func (g *Grammar) takeArray(f *frame, n *node, b byte, depth int) (outcome, int32) {
	room := (n.max < 0 || f.a < n.max) && g.fits(n.item, depth)
	enough := f.a >= n.min
	switch f.step {
	case arrayOpen:
		return move(f, b == '[', arrayFirst), 0
	case arrayBehind:
		switch {
		case b == ',' && f.c == 0 && room:
			f.step = arrayNext
			return taken, 0
		case b == ']' && enough:
			return closed, 0
		case enough:
			return blank(f, b), 0
		}
		return refused, 0
	case arrayFirst:
		if b == ']' && enough {
			return closed, 0
		}
	}
	if (room || enough && f.step == arrayFirst) && blank(f, b) == taken {
		return taken, 0
	}
	if !room {
		return refused, 0
	}
	f.a = count(f.a, n)
	f.step, f.c = arrayBehind, 0
	return opened, n.item
}

// count adds one; without an upper bound it stops where it has reached the lower one.
func count(a int32, n *node) int32 {
	if n.max < 0 && a >= n.min {
		return a
	}
	return a + 1
}

// maxBlanks is how far a new line may be indented.
const maxBlanks = 16

// fresh marks a c whose white space began with a line feed.
const fresh = 1 << 8

// blank takes white space: one blank, or a line feed and up to maxBlanks. f.c keeps count.
func blank(f *frame, b byte) outcome {
	switch {
	case b == '\n' && f.c == 0:
		f.c = fresh
	case b == ' ' && (f.c == 0 || f.c >= fresh && f.c < fresh+maxBlanks):
		f.c++
	default:
		return refused
	}
	return taken
}

// move goes to a step if ok.
func move(f *frame, ok bool, step uint8) outcome {
	if !ok {
		return refused
	}
	f.step, f.c = step, 0
	return taken
}

// takeLiteral: texts [a, b) begin with the c bytes written.
func takeLiteral(f *frame, n *node, b byte) outcome {
	lo, hi := narrow(n.texts, f.a, f.b, f.c, b)
	if lo == hi {
		if f.c > 0 && len(n.texts[f.a]) == int(f.c) {
			return passed
		}
		return refused
	}
	f.a, f.b = lo, hi
	if f.c++; hi == lo+1 && len(n.texts[lo]) == int(f.c) {
		return closed
	}
	return taken
}

// takeRepeat: b counts what has begun; step is 1 behind a line feed.
func takeRepeat(f *frame, n *node, b byte) (outcome, int32) {
	if f.b == n.max {
		return refused, 0
	}
	if b == '\n' && f.b > 0 && f.step == 0 {
		f.step = 1
		return taken, 0
	}
	f.step = 0
	f.b++
	return opened, n.item
}

// takeFree: a is how much of the mark is written, b counts calls.
func takeFree(f *frame, n *node, b byte) (outcome, int32) {
	if f.step == 1 { // behind the mark
		f.step = 0
		return opened, n.item
	}
	if f.a = n.mark.Next(f.a, b); int(f.a) == len(n.texts[0]) {
		f.a, f.step = 0, 1
		f.b++
	}
	return taken, 0
}
