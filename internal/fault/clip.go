package fault

import "unicode/utf8"

// Clip shortens what a message repeats of a caller's text or of a file to at most most bytes and an ellipsis. It never cuts inside a character.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for back := 0; back < utf8.UTFMax-1 && most > 0 && !utf8.RuneStart(s[most]); back++ {
		most--
	}
	return s[:most] + "…"
}
