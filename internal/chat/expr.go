package chat

// rename replaces two names in an expression, not as attributes.
func rename(toks []string, a, to1, b, to2 string) {
	for i, t := range toks {
		if i > 0 && toks[i-1] == "." {
			continue
		}
		switch t {
		case a:
			toks[i] = to1
		case b:
			toks[i] = to2
		}
	}
}

// filters sends the filters that we serve ourselves to our functions.
func filters(toks []string) []string {
	for i, t := range toks {
		if t != "|" {
			continue
		}
		j := skipSpace(toks, i+1, 1)
		if j >= len(toks) || !ownFilter(toks[j]) {
			continue
		}
		if toks[j] == "tojson" && generator(toks, i) {
			toks[j] = fnLazy
			continue
		}
		toks[j] = prefix + toks[j]
	}
	return toks
}

// generator says whether what stands before the bar at i ends in a filter that gives a generator in Jinja2, which is not JSON there.
func generator(toks []string, i int) bool {
	j := skipSpace(toks, i-1, -1)
	if j >= 0 && toks[j] == ")" {
		for depth := 0; j >= 0; j-- {
			switch toks[j] {
			case ")":
				depth++
			case "(":
				depth--
			}
			if depth == 0 {
				break
			}
		}
		j = skipSpace(toks, j-1, -1)
	}
	if j < 1 {
		return false
	}
	switch toks[j] {
	case "map", "select", "reject", "selectattr", "rejectattr":
		bar := skipSpace(toks, j-1, -1)
		return bar >= 0 && toks[bar] == "|"
	}
	return false
}

// methods takes the methods that change a list or a dict away from templates, as the sandbox that models' authors tested with does: what is
// left is no function, so calling it is an error.
func methods(toks []string) []string {
	for i := 1; i+1 < len(toks); i++ {
		if toks[i-1] != "." || toks[i+1] != "(" {
			continue
		}
		switch toks[i] {
		case "append", "insert", "extend", "remove", "reverse", "sort", "pop", "popitem", "clear", "update", "setdefault":
			toks[i] = prefix + toks[i]
		}
	}
	return toks
}

// products sends every product through our function, since "a" * 1000000000 is a string.
//
//	A * B   →   tl__times(A,B)
func products(toks []string) []string {
	for i := 0; i < len(toks); i++ {
		if toks[i] != "*" {
			continue
		}
		from, to := operandBefore(toks, i), operandAfter(toks, i+1)
		out := append([]string{}, toks[:from]...)
		out = append(out, fnTimes, "(")
		out = append(out, toks[from:i]...)
		out = append(out, ",")
		next := len(out) // there may be products within the right side
		out = append(out, toks[i+1:to]...)
		out = append(out, ")")
		toks = append(out, toks[to:]...)
		i = next - 1
	}
	return toks
}

// sliceEnds bounds the ends of slices with a step, which the interpreter walks one by one.
//
//	X[A:B:C]   →   X[tl__bound(A):tl__bound(B):C]
func sliceEnds(toks []string) []string {
	for i := 0; i < len(toks); i++ {
		if toks[i] != "[" {
			continue
		}
		end := afterOne(toks, i)
		one := find(toks[:end], i+1, ":")
		if one < 0 {
			continue
		}
		two := find(toks[:end], one+1, ":")
		if two < 0 {
			continue
		}
		out := append([]string{}, toks[:i+1]...)
		out = append(out, bound(toks[i+1:one])...)
		out = append(out, ":")
		out = append(out, bound(toks[one+1:two])...)
		toks = append(out, toks[two:]...)
	}
	return toks
}

// bound wraps the end of a slice, if it is there.
func bound(toks []string) []string {
	if skipSpace(toks, 0, 1) == len(toks) {
		return toks
	}
	out := append([]string{}, fnBound, "(")
	return append(append(out, toks...), ")")
}

// stringMethods sends the string methods that can grow a text, or that the interpreter lacks, through our functions.
//
//	A.replace(…)   →   tl__replace_(A,…)
func stringMethods(toks []string) []string {
	for i := 1; i+2 < len(toks); i++ {
		if toks[i] != "." || toks[i+2] != "(" || !ownMethod(toks[i+1]) {
			continue
		}
		from := operandBefore(toks, i)
		out := append([]string{}, toks[:from]...)
		out = append(out, prefix+toks[i+1]+"_", "(")
		out = append(out, toks[from:i]...)
		rest := toks[i+3:]
		if k := skipSpace(rest, 0, 1); k < len(rest) && rest[k] != ")" {
			out = append(out, ",")
		}
		i += 2
		toks = append(out, rest...)
	}
	return toks
}

// operandBefore gives where the operand that ends before i begins: a name, a literal or a bracket with everything that is applied to it.
func operandBefore(toks []string, i int) int {
	i = skipSpace(toks, i-1, -1)
	for i >= 0 {
		switch t := toks[i]; {
		case t == ")" || t == "]" || t == "}":
			if i = opening(toks, i); i > 0 && t != "}" && applies(toks[i-1]) {
				i--
				continue
			}
		case !isName(t[0]) && t[0] != '\'' && t[0] != '"':
			return i + 1
		}
		link := skipSpace(toks, i-1, -1)
		if link < 0 || toks[link] != "." && toks[link] != "|" {
			return max(i, 0)
		}
		i = skipSpace(toks, link-1, -1)
	}
	return 0
}

// applies says whether a bracket after this token is a call or an index.
func applies(t string) bool {
	return isName(t[0]) && !keyword(t) || t == ")" || t == "]" || t[0] == '\'' || t[0] == '"'
}

func keyword(t string) bool {
	switch t {
	case "in", "not", "and", "or", "if", "else", "is":
		return true
	}
	return false
}

// operandAfter gives where the operand that begins at i, after space and signs, ends.
func operandAfter(toks []string, i int) int {
	for i < len(toks) && (isSpace(toks[i][0]) || toks[i] == "-" || toks[i] == "+") {
		i++
	}
	i = afterOne(toks, i)
	for i < len(toks) {
		switch k := skipSpace(toks, i, 1); {
		case toks[i] == "(" || toks[i] == "[":
			i = afterOne(toks, i)
		case k < len(toks) && (toks[k] == "." || toks[k] == "|"):
			i = afterOne(toks, skipSpace(toks, k+1, 1))
		default:
			return i
		}
	}
	return min(i, len(toks))
}
