package sched

import "slices"

// index finds the K/V of token prefixes. It is a tree of blocks of PageLen tokens; a node's key is its parent and its tokens, compared in
// full, so a collision of hashes cannot mix two prompts. The roots are one per (window, sinks): the K/V of a position depend on what earlier
// positions were allowed to see, so a prefix computed under one window is of no use under another.
//
// A node keeps pages in groups, because what depends on the loop count differs:
//
//	pages:  [prelude][core loop 0][core loop 1]...[core loop L-1]     the same for every request with at least that many loops
//	coda:   [R][coda pages] ...                                       one set per loop count R: the coda reads the state after R loops
//
// A request with R loops can use the node if it has the prelude, L >= R and, for models with a coda, a set for R. So a prefix computed at 8
// loops serves one at 4; the reverse fills in the missing loops when the deeper request has computed them.
//
// Pages that no sequence holds are evicted from the least recently used node, deepest loop first. A node whose pages are gone stays as a
// hollow link while it has children or a sequence stands on it.
type index struct {
	pool                *pool
	prelude, core, coda int
	nodes               []node
	spare               []int32   // unused nodes
	lists               [][]int32 // page lists not in use
	buckets             []int32   // hash -> first node, -1
	head, tail          int32     // nodes with idle pages, least recently used first
	path                []int32   // scratch of match
}

type node struct {
	parent   int32 // -1 for a root
	chain    int32 // next of the same bucket
	children int32
	pins     int32 // sequences whose tip it is
	idle     int32 // pages that no sequence holds
	prev     int32
	next     int32
	used     bool
	tokens   [PageLen]int32
	pages    []int32
	sets     []int32 // coda: loops, then the pages, per set
}

func newIndex(p *pool, c Config) *index {
	n := 64
	for n < c.Pages {
		n *= 2
	}
	x := &index{pool: p, prelude: c.Prelude, core: c.Core, coda: c.Coda, buckets: make([]int32, n), head: -1, tail: -1}
	for i := range x.buckets {
		x.buckets[i] = -1
	}
	return x
}

func (x *index) bucket(parent int32, tokens *[PageLen]int32) *int32 {
	h := uint64(parent)*0x9e3779b97f4a7c15 + 1
	for _, t := range tokens {
		h = (h ^ uint64(uint32(t))) * 0x100000001b3
		h ^= h >> 29
	}
	return &x.buckets[h&uint64(len(x.buckets)-1)]
}

// find gives the child of parent with those tokens, -1 if there is none.
func (x *index) find(parent int32, tokens *[PageLen]int32) int32 {
	for n := *x.bucket(parent, tokens); n >= 0; n = x.nodes[n].chain {
		if x.nodes[n].parent == parent && x.nodes[n].tokens == *tokens {
			return n
		}
	}
	return -1
}

// child is find, or a new hollow node.
func (x *index) child(parent int32, tokens *[PageLen]int32) int32 {
	if n := x.find(parent, tokens); n >= 0 {
		return n
	}
	var id int32
	if n := len(x.spare); n > 0 {
		id, x.spare = x.spare[n-1], x.spare[:n-1]
	} else {
		id = int32(len(x.nodes))
		x.nodes = append(x.nodes, node{})
	}
	b := x.bucket(parent, tokens)
	n := &x.nodes[id]
	*n = node{parent: parent, chain: *b, prev: -1, next: -1, used: true, tokens: *tokens}
	*b = id
	if parent >= 0 {
		x.nodes[parent].children++
	}
	return id
}

// root is the node above the first block of every prompt with that window.
func (x *index) root(window, sinks int) int32 {
	return x.child(-1, rootKey(window, sinks))
}

func rootKey(window, sinks int) *[PageLen]int32 {
	if window == 0 {
		sinks = 0
	}
	return &[PageLen]int32{int32(window), int32(sinks)}
}

// prune removes a node without pages, children or pins, then its parents likewise.
func (x *index) prune(id int32) {
	for id >= 0 {
		n := &x.nodes[id]
		if n.children > 0 || n.pins > 0 || len(n.pages) > 0 || len(n.sets) > 0 {
			return
		}
		at := x.bucket(n.parent, &n.tokens)
		for *at != id {
			at = &x.nodes[*at].chain
		}
		*at = n.chain
		n.used = false
		x.spare = append(x.spare, id)
		id = n.parent
		if id >= 0 {
			x.nodes[id].children--
		}
	}
}

// loops is how many core passes a node keeps.
func (n *node) loops(x *index) int { return max(0, len(n.pages)-x.prelude) / x.core }

// set is where the coda pages for a loop count begin, -1 if there are none.
func (n *node) set(x *index, loops int) int {
	for i := 0; i < len(n.sets); i += 1 + x.coda {
		if int(n.sets[i]) == loops {
			return i + 1
		}
	}
	return -1
}

func (n *node) serves(x *index, loops int) bool {
	return n.loops(x) >= loops && (x.coda == 0 || n.set(x, loops) >= 0)
}

// page is the page of a slot for a loop count, -1 if the node lacks it.
func (n *node) page(x *index, slot, loops int) int32 {
	if slot < x.prelude+loops*x.core {
		if slot < len(n.pages) {
			return n.pages[slot]
		}
		return -1
	}
	if at := n.set(x, loops); at >= 0 {
		return n.sets[at+slot-x.prelude-loops*x.core]
	}
	return -1
}

// match finds the longest prefix of q's tokens that q can use, leaving at least one token to compute. It gives the nodes of its blocks
// (scratch, valid until the next match). With a window only the blocks that the next position sees need to have their pages.
func (x *index) match(q *Seq) []int32 {
	x.path = x.path[:0]
	if q.NoCache || q.Fresh {
		return x.path
	}
	at := x.find(-1, rootKey(q.Window, q.Sinks))
	best, run := 0, 0
	sinks := true // the blocks of the sinks so far are usable
	for b := 0; at >= 0 && (b+1)*PageLen < min(len(q.Tokens), q.shared()); b++ {
		if at = x.find(at, (*[PageLen]int32)(q.Tokens[b*PageLen:])); at < 0 {
			break
		}
		x.path = append(x.path, at)
		run++
		if !x.nodes[at].serves(x, q.Loops) {
			run = 0
			sinks = sinks && b*PageLen >= q.Sinks
		}
		if sinks && run >= b+1-x.first(q, (b+1)*PageLen, b) {
			best = b + 1
		}
	}
	return x.path[:best]
}

// first is the lowest block, at most last+1, that a row at position pos sees apart from the sinks.
func (x *index) first(q *Seq, pos, last int) int {
	if q.Window == 0 {
		return 0
	}
	return min(max(0, pos-q.Window+1)/PageLen, last+1)
}

// insert puts block b of q, whose K/V are complete, under q's tip, and moves the tip there. Pages that the node has already replace q's own:
// they hold the same numbers.
func (x *index) insert(q *Seq, b int) {
	id := x.child(q.tip, (*[PageLen]int32)(q.Tokens[b*PageLen:]))
	n := &x.nodes[id]
	n.pins++
	depth := x.prelude + q.Loops*x.core
	x.ready(&n.pages, depth)
	for slot := 0; slot < depth; slot++ {
		if slot < len(n.pages) {
			x.adopt(q, slot, b, n.pages[slot])
			continue
		}
		n.pages = append(n.pages, x.donate(q, slot, b, id))
	}
	if at := n.set(x, q.Loops); at >= 0 {
		for i := range x.coda {
			x.adopt(q, depth+i, b, n.sets[at+i])
		}
	} else if x.coda > 0 {
		x.ready(&n.sets, len(n.sets)+1+x.coda)
		n.sets = append(n.sets, int32(q.Loops))
		for i := range x.coda {
			n.sets = append(n.sets, x.donate(q, depth+i, b, id))
		}
	}
	x.leave(q)
	q.tip, q.indexed = id, b+1
}

// ready gives a list room for size entries, from the lists that are not in use where it has none.
func (x *index) ready(list *[]int32, size int) {
	if k := len(x.lists); *list == nil && k > 0 {
		*list, x.lists = x.lists[k-1], x.lists[:k-1]
	}
	*list = slices.Grow(*list, max(0, size-len(*list)))
}

// spent takes back a list that has become empty.
func (x *index) spent(list *[]int32) {
	if len(*list) == 0 {
		x.lists, *list = append(x.lists, *list), nil
	}
}

func (x *index) adopt(q *Seq, slot, b int, page int32) {
	own := q.Pages[slot][b]
	if own == page {
		return
	}
	x.pool.hold(page)
	q.Pages[slot][b] = page
	x.pool.release(own)
}

func (x *index) donate(q *Seq, slot, b int, id int32) int32 {
	page := q.Pages[slot][b]
	x.pool.owner[page] = id
	return page
}

// stand makes id the tip of q.
func (x *index) stand(q *Seq, id int32) {
	x.nodes[id].pins++
	x.leave(q)
	q.tip = id
}

// leave takes q off its tip.
func (x *index) leave(q *Seq) {
	if q.tip < 0 {
		return
	}
	x.nodes[q.tip].pins--
	x.prune(q.tip)
	q.tip = -1
}

// rest notes that one page of a node lost its last holder: the node becomes the most recently used one.
func (x *index) rest(id int32) {
	n := &x.nodes[id]
	if n.idle++; n.idle > 1 {
		return
	}
	n.prev, n.next = x.tail, -1
	if x.tail >= 0 {
		x.nodes[x.tail].next = id
	} else {
		x.head = id
	}
	x.tail = id
}

// wake notes that an idle page of a node is no longer idle.
func (x *index) wake(id int32) {
	n := &x.nodes[id]
	if n.idle--; n.idle > 0 {
		return
	}
	if n.prev >= 0 {
		x.nodes[n.prev].next = n.next
	} else {
		x.head = n.next
	}
	if n.next >= 0 {
		x.nodes[n.next].prev = n.prev
	} else {
		x.tail = n.prev
	}
	n.prev, n.next = -1, -1
}

// evict gives up one group of the least recently used node: an idle coda set, else its deepest loop, else its prelude. Sequences hold loops
// from the first one up, so if any page of a node is idle, one of these groups is; only one that has folded its loops holds a deep page without
// the shallow ones. Such a page then belongs to it alone, and the next call frees more.
func (x *index) evict() {
	id := x.head
	n := &x.nodes[id]
	for i := 0; i < len(n.sets); i += 1 + x.coda {
		if group := n.sets[i+1 : i+1+x.coda]; x.pool.refs[group[0]] == 0 {
			x.drop(id, group)
			n.sets = append(n.sets[:i], n.sets[i+1+x.coda:]...)
			x.spent(&n.sets)
			x.prune(id)
			return
		}
	}
	cut := len(n.pages) - x.core
	if len(n.pages) <= x.prelude {
		cut = 0
	}
	x.drop(id, n.pages[cut:])
	n.pages = n.pages[:cut]
	x.spent(&n.pages)
	x.prune(id)
}

func (x *index) drop(id int32, group []int32) {
	for _, p := range group {
		if x.pool.refs[p] > 0 {
			x.pool.owner[p] = -1
			continue
		}
		x.pool.disown(p)
		x.wake(id)
	}
}
