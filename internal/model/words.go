package model

import "strconv"

// The words of the enumerations, in their order, are those that .tinyloop files hold.

func (n Norm) String() string { return word(n, "rms", "layernorm") }
func (p NormPlace) String() string {
	return word(p, "pre", "branch_sandwich", "residual_sandwich", "post")
}
func (p Pos) String() string       { return word(p, "rope_half", "rope_interleaved", "learned", "none") }
func (m MLP) String() string       { return word(m, "swiglu", "gelu", "relu2", "geglu") }
func (i Injection) String() string { return word(i, "none", "add", "diagonal", "concat", "scaled") }
func (s StateInit) String() string { return word(s, "input", "zero") }
func (l LoopNorm) String() string  { return word(l, "none", "between", "own") }
func (c CodaNorm) String() string  { return word(c, "none", "final", "own") }

func word[T ~uint8](v T, words ...string) string {
	if int(v) < len(words) {
		return words[v]
	}
	return strconv.Itoa(int(v))
}
