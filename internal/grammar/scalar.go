package grammar

// Steps of a string. a counts the characters, as far as it matters. Characters are UTF-8 as RFC 3629 has it: shortest form, no surrogates.
const (
	textOpen   uint8 = iota
	textBody         // between characters
	textTail1        // one continuation byte is missing
	textTail2        // two
	textTail3        // three
	textE0           // behind E0: A0..BF, then one
	textED           // behind ED: 80..9F, then one
	textF0           // behind F0: 90..BF, then two
	textF4           // behind F4: 80..8F, then two
	textEscape       // behind a backslash
	textHex1         // behind \u
	textHexD         // behind \ud: what follows must be no surrogate
	textHex2
	textHex3
	textHex4
)

func takeText(f *frame, n *node, b byte) outcome {
	switch f.step {
	case textOpen:
		return move(f, b == '"', textBody)
	case textBody:
		return takeCharacter(f, n, b)
	case textTail1:
		return move(f, b >= 0x80 && b <= 0xBF, textBody)
	case textTail2:
		return move(f, b >= 0x80 && b <= 0xBF, textTail1)
	case textTail3:
		return move(f, b >= 0x80 && b <= 0xBF, textTail2)
	case textE0:
		return move(f, b >= 0xA0 && b <= 0xBF, textTail1)
	case textED:
		return move(f, b >= 0x80 && b <= 0x9F, textTail1)
	case textF0:
		return move(f, b >= 0x90 && b <= 0xBF, textTail2)
	case textF4:
		return move(f, b >= 0x80 && b <= 0x8F, textTail2)
	case textEscape:
		switch b {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			return move(f, true, textBody)
		}
		return move(f, b == 'u', textHex1)
	case textHex1:
		if b == 'd' || b == 'D' {
			return move(f, true, textHexD)
		}
		return move(f, hex(b), textHex2)
	case textHexD:
		return move(f, b >= '0' && b <= '7', textHex3)
	case textHex2:
		return move(f, hex(b), textHex3)
	case textHex3:
		return move(f, hex(b), textHex4)
	}
	return move(f, hex(b), textBody)
}

// takeCharacter takes the first byte of a character, which counts it, or the closing quote.
func takeCharacter(f *frame, n *node, b byte) outcome {
	if b == '"' {
		if f.a < n.min {
			return refused
		}
		return closed
	}
	if n.max >= 0 && f.a >= n.max {
		return refused
	}
	step := textBody
	switch {
	case b == '\\':
		step = textEscape
	case b >= 0x20 && b < 0x80:
	case b >= 0xC2 && b <= 0xDF:
		step = textTail1
	case b == 0xE0:
		step = textE0
	case b == 0xED:
		step = textED
	case b >= 0xE1 && b <= 0xEF:
		step = textTail2
	case b == 0xF0:
		step = textF0
	case b >= 0xF1 && b <= 0xF3:
		step = textTail3
	case b == 0xF4:
		step = textF4
	default:
		return refused
	}
	f.step, f.a = step, count(f.a, n)
	return taken
}

func hex(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F'
}

// Steps of a number. a counts the digits of the part that is being written.
const (
	numberOpen uint8 = iota
	numberMinus
	numberZero
	numberDigits
	numberPoint
	numberFraction
	numberE
	numberSign
	numberExponent
)

// Digits of the parts of a number: any double can hold what they make.
const (
	maxDigits   = 15
	maxExponent = 2
)

func endsNumber(step uint8) bool {
	return step == numberZero || step == numberDigits || step == numberFraction || step == numberExponent
}

func takeNumber(f *frame, whole bool, b byte) outcome {
	digit := b >= '0' && b <= '9'
	next := numberOpen
	switch f.step {
	case numberOpen, numberMinus:
		switch {
		case b == '-' && f.step == numberOpen:
			next = numberMinus
		case b == '0':
			next = numberZero
		case digit:
			next = numberDigits
		}
	case numberZero, numberDigits:
		switch {
		case digit && f.step == numberDigits && f.a < maxDigits:
			next = numberDigits
		case b == '.' && !whole:
			next = numberPoint
		case (b == 'e' || b == 'E') && !whole:
			next = numberE
		}
	case numberPoint, numberFraction:
		switch {
		case digit && f.a < maxDigits:
			next = numberFraction
		case (b == 'e' || b == 'E') && f.step == numberFraction:
			next = numberE
		}
	case numberE, numberSign, numberExponent:
		switch {
		case digit && f.a < maxExponent:
			next = numberExponent
		case (b == '+' || b == '-') && f.step == numberE:
			next = numberSign
		}
	}
	if next == numberOpen {
		if endsNumber(f.step) {
			return passed
		}
		return refused
	}
	if next != f.step {
		f.a = 0
	}
	if f.step = next; digit {
		f.a++
	}
	return taken
}
