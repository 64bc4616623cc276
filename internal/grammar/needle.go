package grammar

// Needle finds a text in a stream of bytes: the automaton of Knuth, Morris and Pratt (1977), whose state is how many of the latest bytes begin the
// text. It is read-only.
type Needle struct {
	Text string
	fail []int32 // fail[i]: length of the longest proper border of Text[:i+1]
}

// NewNeedle prepares a text of at least one byte.
func NewNeedle(text string) Needle {
	f := make([]int32, len(text))
	k := int32(0)
	for i := 1; i < len(text); i++ {
		for k > 0 && text[k] != text[i] {
			k = f[k-1]
		}
		if text[k] == text[i] {
			k++
		}
		f[i] = k
	}
	return Needle{text, f}
}

// Next gives the state after one more byte. A state of len(Text), a match, has no next one.
func (n *Needle) Next(k int32, b byte) int32 {
	for k > 0 && n.Text[k] != b {
		k = n.fail[k-1]
	}
	if n.Text[k] == b {
		k++
	}
	return k
}
