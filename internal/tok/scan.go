package tok

// shape is the family of a hand-written pre-tokenizer pattern.
type shape uint8

const (
	shapeGPT2   shape = iota // 's|… | ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
	shapeWords               // [^\r\n\p{L}\p{N}]?\p{L}+ and so on: cl100k, Llama 3, Qwen 2
	shapeCased               // words split where the case rises: o200k, tekken
	shapeDigits              // numbers alone, or in groups; what lies between stays whole
)

// scanner cuts text the way one regular expression does when it is matched again and again from the left, what it does not match being
// pieces too. Look-ahead and backtracking are worked out by hand: each method's comment shows the alternatives in their order.
type scanner struct {
	table        *[tableEnd]class
	shape        shape
	digits       int   // most digits of one piece; 0 = no limit
	contractions bool  // 's 't 're 've 'm 'll 'd in either case
	word         class // what words consist of: letters, or letters and marks
	tail         bool  // a slash belongs to the line ends behind punctuation: [\r\n/]*
}

// next gives the length of the first piece of b, which must not be empty. The result is never 0.
func (s *scanner) next(b []byte) int {
	switch s.shape {
	case shapeGPT2:
		return s.gpt2(b)
	case shapeWords:
		return s.words(b)
	case shapeCased:
		return s.cased(b)
	}
	return s.number(b)
}

// gpt2 is 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func (s *scanner) gpt2(b []byte) int {
	if b[0] == '\'' {
		if n := contraction(b, false); n > 0 {
			return n
		}
	}
	i := 0
	if b[0] == ' ' && len(b) > 1 {
		i = 1
	}
	c, _ := s.at(b, i)
	switch {
	case c&letter != 0:
		return s.run(b, i, letter)
	case c&number != 0:
		return s.run(b, i, number)
	case c&space == 0:
		return s.runNot(b, i, letter|number|space)
	}
	return s.blank(b)
}

// words is
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?\p{L}+ | \p{N}{1,n} | ?[^\s\p{L}\p{N}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+
//
// with the first alternative only if contractions is set, and letters meaning letters and marks where word says so.
func (s *scanner) words(b []byte) int {
	if s.contractions && b[0] == '\'' {
		if n := contraction(b, true); n > 0 {
			return n
		}
	}
	c, n := s.at(b, 0)
	if c&s.word != 0 {
		return s.run(b, n, s.word)
	}
	if c&number != 0 {
		return s.digitRun(b)
	}
	if c&newline == 0 {
		if c2, n2 := s.at(b, n); c2&s.word != 0 {
			return s.run(b, n+n2, s.word)
		}
	}
	return s.rest(b, c)
}

// rest is what the newer patterns have behind words and numbers: ?[^\s\p{L}\p{N}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+. c is the class of b[0].
func (s *scanner) rest(b []byte, c class) int {
	i := 0
	if b[0] == ' ' && len(b) > 1 {
		c, _ = s.at(b, 1)
		i = 1
	}
	if c&(space|s.word|number) == 0 {
		return s.lineEnds(b, s.runNot(b, i, space|s.word|number))
	}
	end := s.run(b, 0, space)
	for i := end; i > 0; i-- { // \s*[\r\n]+ gives back what follows the last line end
		if b[i-1] == '\n' || b[i-1] == '\r' {
			return i
		}
	}
	return s.cutBlank(b, end)
}

// lineEnds is [\r\n]* or [\r\n/]* at b[i].
func (s *scanner) lineEnds(b []byte, i int) int {
	for i < len(b) && (b[i] == '\n' || b[i] == '\r' || s.tail && b[i] == '/') {
		i++
	}
	return i
}

// cased is
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|…)?
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|…)?
//	\p{N}{1,n} | ?[^\s\p{L}\p{N}]+[\r\n/]* | \s*[\r\n]+ | \s+(?!\S) | \s+
func (s *scanner) cased(b []byte) int {
	c, n := s.at(b, 0)
	if c&number != 0 {
		return s.digitRun(b)
	}
	if end := s.casedWord(b, c, n); end > 0 {
		if s.contractions {
			end += contraction(b[end:], true)
		}
		return end
	}
	return s.rest(b, c)
}

// casedWord gives the end of a match of the first two alternatives of cased, without the contraction; 0 when neither matches. The optional
// first character takes anything but line ends, letters and numbers, and a mark is such a character too: the pattern first tries with it.
func (s *scanner) casedWord(b []byte, c class, n int) int {
	if c&letter != 0 {
		if end := s.rising(b, 0); end > 0 {
			return end
		}
		return s.falling(b, 0)
	}
	if c&newline != 0 {
		return 0
	}
	if end := s.rising(b, n); end > 0 {
		return end
	}
	if c&mark != 0 {
		return n // a lone mark in front of capitals: only the first alternative without its optional character fits
	}
	return s.falling(b, n)
}

// rising is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+ at b[i]: 0 when it fails. The two sets share the letters without case and
// the marks, so when no lower-case letter follows the first run, the run gives back all behind its last shared character.
func (s *scanner) rising(b []byte, i int) int {
	shared := 0
	for {
		c, n := s.at(b, i)
		if c&(letter|mark) == 0 || c&lower != 0 {
			break
		}
		i += n
		if c&upper == 0 {
			shared = i
		}
	}
	if c, _ := s.at(b, i); c&lower == 0 {
		return shared
	}
	return s.falls(b, i)
}

// falling is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]* at b[i], where rising has failed: the run holds capitals only.
func (s *scanner) falling(b []byte, i int) int {
	end := s.run(b, i, upper)
	if end == i {
		return 0
	}
	return s.falls(b, end)
}

// falls is [\p{Ll}\p{Lm}\p{Lo}\p{M}]* at b[i].
func (s *scanner) falls(b []byte, i int) int {
	for {
		c, n := s.at(b, i)
		if c&(letter|mark) == 0 || c&upper != 0 {
			return i
		}
		i += n
	}
}

// number is \p{N}{1,n}, with what lies between numbers as one piece.
func (s *scanner) number(b []byte) int {
	if c, _ := s.at(b, 0); c&number != 0 {
		return s.digitRun(b)
	}
	return s.runNot(b, 0, number)
}

// digitRun is \p{N}{1,digits} at the start of b.
func (s *scanner) digitRun(b []byte) int {
	if s.digits == 0 {
		return s.run(b, 0, number)
	}
	i := 0
	for range s.digits {
		c, n := s.at(b, i)
		if c&number == 0 {
			break
		}
		i += n
	}
	return i
}

// blank is \s+(?!\S)|\s+ at the start of b.
func (s *scanner) blank(b []byte) int { return s.cutBlank(b, s.run(b, 0, space)) }

// cutBlank leaves the last character of the white space b[:end] to the word behind it, unless it is the only one or nothing follows.
func (s *scanner) cutBlank(b []byte, end int) int {
	if end == len(b) {
		return end
	}
	last := end - 1
	for last > 0 && b[last]&0xC0 == 0x80 {
		last--
	}
	if last == 0 {
		return end
	}
	return last
}

// contraction gives the length of 's 't 're 've 'm 'll 'd at the start of b, 0 when there is none. The long s folds to s as Unicode says.
func contraction(b []byte, anyCase bool) int {
	if len(b) < 2 || b[0] != '\'' {
		return 0
	}
	if anyCase && len(b) > 2 && b[1] == 0xC5 && b[2] == 0xBF { // U+017F
		return 3
	}
	c, d := b[1], byte(0)
	if len(b) > 2 {
		d = b[2]
	}
	if anyCase {
		c, d = c|0x20, d|0x20
	}
	switch c {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if d == 'e' {
			return 3
		}
	case 'l':
		if d == 'l' {
			return 3
		}
	}
	return 0
}
