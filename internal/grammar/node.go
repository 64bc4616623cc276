package grammar

import (
	"slices"
	"strings"
)

// kind is what a node describes.
type kind uint8

const (
	object  kind = iota // the properties of a list, in its order
	mapping             // any keys, values alike
	array
	text
	number
	integer
	literal // one of a list of texts
	choice  // any of other nodes
	series  // one node after the other
	repeat  // calls, a line feed between them or not
	free    // text with calls in it
)

// node is one rule. Nodes are named by their index.
type node struct {
	kind
	props  []prop
	firm   []int32  // object: for each i, the first required property at or after i; len(props) = none
	item   int32    // of array, mapping, repeat, free
	min    int32    // items or characters
	max    int32    // -1 = no end
	texts  []string // literal: sorted, without duplicates; free: the mark
	alts   []int32  // choice; series: the steps
	mark   Needle   // free: what ends the text, texts[0]
	height int32    // the fewest frames that a value needs
}

// prop is a property: its key as JSON, quotes included.
type prop struct {
	key      string
	node     int32
	required bool
}

const endless = int32(1) << 29 // height of what has no finite value

// finish computes what follows from the nodes all together.
func (c *compiler) finish() error {
	if err := c.flatten(); err != nil {
		return err
	}
	nodes := c.g.nodes
	for i := range nodes {
		nodes[i].height = endless
		nodes[i].order()
	}
	for changed := true; changed; {
		changed = false
		for i := len(nodes) - 1; i >= 0; i-- { // parts mostly stand behind what they are parts of
			if h := c.g.heightOf(&nodes[i]); h < nodes[i].height {
				nodes[i].height, changed = h, true
			}
		}
	}
	for i := range nodes {
		if nodes[i].kind == choice { // what never ends is no alternative
			nodes[i].alts = slices.DeleteFunc(nodes[i].alts, func(a int32) bool { return nodes[a].height >= endless })
		}
	}
	return nil
}

// order prepares the lists that are searched.
func (n *node) order() {
	switch n.kind {
	case literal:
		slices.Sort(n.texts)
		n.texts = slices.Compact(n.texts)
	case object:
		n.firm = make([]int32, len(n.props)+1)
		n.firm[len(n.props)] = int32(len(n.props))
		for i := len(n.props) - 1; i >= 0; i-- {
			if n.firm[i] = n.firm[i+1]; n.props[i].required {
				n.firm[i] = int32(i)
			}
		}
	case free:
		n.mark = NewNeedle(n.texts[0])
	}
}

// heightOf is the frames of the flattest value of n by what is known of its parts.
func (g *Grammar) heightOf(n *node) int32 {
	below := int32(0)
	switch n.kind {
	case object:
		for i := range n.props {
			if n.props[i].required {
				below = max(below, g.nodes[n.props[i].node].height)
			}
		}
	case array, repeat:
		if n.min > 0 {
			below = g.nodes[n.item].height
		}
	case series:
		for _, a := range n.alts {
			below = max(below, g.nodes[a].height)
		}
	case choice:
		best := endless
		for _, a := range n.alts {
			best = min(best, g.nodes[a].height)
		}
		return best
	}
	return min(below+1, endless)
}

// flatten replaces choices among the alternatives of choices by theirs, so that none is reached through another.
func (c *compiler) flatten() error {
	nodes := c.g.nodes
	flat := make(map[int32][]int32)
	links := 0
	for i := range nodes {
		if nodes[i].kind != choice {
			continue
		}
		seen := map[int32]bool{}
		var out []int32
		var visit func(int32)
		visit = func(n int32) {
			if seen[n] || len(out) > maxThreads {
				return
			}
			seen[n] = true
			if nodes[n].kind != choice {
				out = append(out, n)
				return
			}
			for _, a := range nodes[n].alts {
				visit(a)
			}
		}
		visit(int32(i))
		if links += len(seen); len(out) > maxThreads || links > maxLinks {
			return c.tooLarge("alternatives", maxThreads)
		}
		flat[int32(i)] = out
	}
	for i, alts := range flat {
		nodes[i].alts = alts
	}
	return nil
}

// narrow gives the range of sorted texts within [lo, hi) that have byte b at place off.
func narrow(texts []string, lo, hi, off int32, b byte) (int32, int32) {
	for lo < hi && (len(texts[lo]) <= int(off) || texts[lo][off] < b) {
		lo++
	}
	end := lo
	for end < hi && len(texts[end]) > int(off) && texts[end][off] == b {
		end++
	}
	return lo, end
}

// startsAlike says whether two keys have the same first n bytes.
func startsAlike(a, b string, n int32) bool {
	return len(a) >= int(n) && strings.HasPrefix(b, a[:n])
}
