package fault

import (
	"strings"
	"testing"
)

func TestClip(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""}, {"abcd", "abcd"}, {"abcde", "abcd…"}, {"abcé", "abc…"}, {"ab€x", "ab…"}, {"😀x", "😀…"}, {"é€é", "é…"},
		{strings.Repeat("\x80", 9), "\x80…"}, // no character begins here: the cut moves back by three bytes at most
	} {
		if got := Clip(c.in, 4); got != c.want {
			t.Errorf("Clip(%q, 4) = %q, want %q", c.in, got, c.want)
		}
	}
}
