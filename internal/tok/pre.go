package tok

import (
	"slices"
	"time"

	"github.com/dlclark/regexp2/v2"

	"tinyloop/internal/fault"
)

// The pre-tokenizer patterns that have a hand-written scanner, as tokenizer files spell them.
const (
	patGPT2      = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patGPT2Short = `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patCL100K    = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patQwen2     = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patQwen35    = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patO200K     = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patTekken    = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patUfakzeka  = `[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patDigit     = `\p{N}`
	patDigits3   = `\p{N}{1,3}`
	patDigits    = `\p{N}+`
)

// scannerOf gives the hand-written scanner of a pattern.
func scannerOf(pattern string) (scanner, bool) {
	s := scanner{word: letter}
	switch pattern {
	case patGPT2, patGPT2Short:
		s.shape = shapeGPT2
	case patCL100K:
		s.shape, s.digits, s.contractions = shapeWords, 3, true
	case patQwen2:
		s.shape, s.digits, s.contractions = shapeWords, 1, true
	case patQwen35:
		s.shape, s.digits, s.contractions, s.word = shapeWords, 1, true, letter|mark
	case patUfakzeka:
		s.shape, s.digits = shapeWords, 1
	case patO200K:
		s.shape, s.digits, s.contractions, s.tail = shapeCased, 3, true, true
	case patTekken:
		s.shape, s.digits, s.tail = shapeCased, 1, true
	case patDigit:
		s.shape, s.digits = shapeDigits, 1
	case patDigits3:
		s.shape, s.digits = shapeDigits, 3
	case patDigits:
		s.shape = shapeDigits
	default:
		return s, false
	}
	s.table = classes()
	return s, true
}

// pre describes a pre-tokenizer: patterns that cut the text one after the other, each within the pieces of the one before.
type pre struct {
	name         string
	patterns     []string
	ignoreMerges bool // a piece that is a token stays whole, whatever the merges say
	addBOS       bool // what holds where the file does not say
}

// preCustom names a pre-tokenizer that has no name in GGUF files: its patterns are written out.
const preCustom = "custom"

// preTable lists the pre-tokenizers by the name that GGUF's tokenizer.ggml.pre gives them (facts: llama.cpp, src/llama-vocab.cpp). Where
// several names mean the same, the first is the one that we write.
var preTable = []struct {
	pre
	aliases []string
}{
	{pre{name: "gpt-2", patterns: []string{patGPT2}}, []string{"phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de",
		"a.x-4.0", "mellum", "modern-bert", "mpt", "olmo", "jais", "trillion", "granite-docling", "exaone4"}},
	{pre{name: "llama-bpe", patterns: []string{patCL100K}, ignoreMerges: true, addBOS: true},
		[]string{"llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"}},
	{pre{name: "dbrx", patterns: []string{patCL100K}}, []string{"smaug-bpe", "glm4", "chatglm-bpe"}},
	{pre{name: "qwen2", patterns: []string{patQwen2}},
		[]string{"deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "hunyuan", "megrez", "grok-2", "solar-open"}},
	{pre{name: "qwen35", patterns: []string{patQwen35}}, nil},
	{pre{name: "gpt-4o", patterns: []string{patO200K}}, []string{"llama4", "kanana2", "talkie", "minimax-m2"}},
	{pre{name: "tekken", patterns: []string{patTekken}, ignoreMerges: true, addBOS: true}, nil},
	{pre{name: "smollm", patterns: []string{patDigit, patGPT2}},
		[]string{"starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"}},
	{pre{name: "ufakzeka", patterns: []string{patUfakzeka}}, nil},
	{pre{name: "falcon", patterns: []string{"[\\p{P}\\$\\+<=>\\^~\\|`]+", patGPT2, `[0-9][0-9][0-9]`}}, nil},
	{pre{name: "deepseek-coder", patterns: []string{`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, `[一-龥ࠀ-一가-퟿]+`, patDigit}}, nil},
	{pre{name: "deepseek-v3", patterns: []string{patDigits3, `[一-龥぀-ゟ゠-ヿ]+`,
		"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"}},
		[]string{"hunyuan-dense", "joyai-llm", "hy_v4"}},
	{pre{name: "default", patterns: []string{`[\p{P}\$\+<=>\^~\|]+`, patGPT2, patDigits, `[0-9][0-9][0-9]`}}, []string{""}},
}

// preNamed looks a name of tokenizer.ggml.pre up.
func preNamed(name string) (pre, error) {
	for _, row := range preTable {
		if row.name == name || slices.Contains(row.aliases, name) {
			return row.pre, nil
		}
	}
	return pre{}, fault.New(fault.Unsupported, "tokenizer.ggml.pre", "tokenizer.ggml.pre names the pre-tokenizer %q, which this build does not know", fault.Clip(name, 64))
}

// preOf finds the name of a list of patterns; "custom" when it has none.
func preOf(patterns []string, ignoreMerges bool) pre {
	for _, row := range preTable {
		if row.ignoreMerges == ignoreMerges && slices.Equal(row.patterns, patterns) {
			return row.pre
		}
	}
	return pre{name: preCustom, patterns: patterns, ignoreMerges: ignoreMerges}
}

// splitter cuts text into the pieces that merging works on.
type splitter []step

// step is one pattern: a scanner, or a compiled expression for a pattern without one.
type step struct {
	scan scanner
	re   *regexp2.Regexp
}

const (
	maxPattern  = 1 << 12         // bytes of one pattern
	maxPatterns = 16              // patterns of one pre-tokenizer
	matchTime   = 1 * time.Second // bound on one match of a pattern that backtracks; see step.spans
)

// compile makes the splitter of patterns; none at all leaves the text whole.
func compile(patterns []string) (splitter, error) {
	if len(patterns) > maxPatterns {
		return nil, fault.New(fault.Invalid, "pre_tokenizer", "the pre-tokenizer has %d patterns, at most %d are read", len(patterns), maxPatterns)
	}
	var out splitter
	for _, p := range patterns {
		if s, ok := scannerOf(p); ok {
			out = append(out, step{scan: s})
			continue
		}
		if len(p) > maxPattern {
			return nil, fault.New(fault.Invalid, "pre_tokenizer", "a pre-tokenizer pattern has %d bytes, at most %d are read", len(p), maxPattern)
		}
		re, err := compileRegexp(p)
		if err != nil {
			return nil, &fault.Error{Kind: fault.Invalid, Field: "pre_tokenizer", Msg: "the pre-tokenizer pattern " + fault.Clip(p, 64) + " is not a regular expression", Err: err}
		}
		out = append(out, step{re: re})
	}
	return out, nil
}

// compileRegexp compiles a pattern. Without its bitmaps of ASCII, as those lose U+007F from negated sets (regexp2 2.13.0).
func compileRegexp(pattern string) (*regexp2.Regexp, error) {
	re, err := regexp2.Compile(pattern, regexp2.OptionDisableCharClassASCIIBitmap())
	if err != nil {
		return nil, err
	}
	re.MatchTimeout = matchTime
	return re, nil
}

// spans lists the matches of a compiled pattern as byte offsets. A match that takes longer than matchTime ends the search, and the rest of
// the text stays one piece: the ids are then other ones, but Encode returns.
func (s *step) spans(b []byte) [][]int {
	spans, err := s.re.FindAllStringIndex(string(b), -1)
	if err != nil {
		return nil
	}
	return spans
}
