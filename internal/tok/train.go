package tok

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"tinyloop/internal/fault"
)

// Ties says which of several pairs that occur equally often is merged first.
type Ties uint8

const (
	LowestIDs     Ties = iota // the pair whose left id, then right id, is lowest: the rule of Hugging Face's trainer
	GreatestBytes             // the pair whose left bytes, then right bytes, are greatest in the order of bytes
)

// TrainOptions says what Train makes.
type TrainOptions struct {
	Vocab    int      // entries in all: control tokens, markers, the 256 bytes and the merged tokens
	Pre      string   // pre-tokenizer, by the name that GGUF files give it: "gpt-2", "qwen2", …
	Digits   bool     // each digit (\p{N}) stands alone, whatever Pre says
	Control  []string // control tokens, with the first ids; see Train for those that get a role by their text
	Markers  []string // tokens as <tool_call>, which only templates write but which have a text; behind Control
	Whole    []string // words that become one token whatever the text says, such as the names of roles
	Ties     Ties
	MinCount int                 // a pair that occurs less often is not merged; 0 = 1
	Threads  int                 // workers that count; 0 = 1. They change nothing about the result
	Progress func(TrainProgress) // called now and then on the goroutine of Train, and at the end; may be nil
}

// TrainProgress says how far Train is.
type TrainProgress struct {
	Bytes  int64 // text read
	Words  int   // distinct words; 0 while text is being read
	Tokens int   // entries of the vocabulary so far
	Target int   // entries asked for
}

const (
	maxTrained  = maxPiece / 2 // bytes of one trained token: its byte-level text must stay loadable
	maxControls = 1 << 16
	maxThreads  = 1 << 8
	batchBytes  = 1 << 20 // text that goes to a worker at once
)

// bosTexts are the control tokens that become the token in front of every text; eosTexts those that end one. The first that is there counts.
var (
	bosTexts = []string{"<|bos|>", "<|begin_of_text|>", "<s>", "<bos>"}
	eosTexts = []string{"</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>"}
)

// Train learns a byte-level BPE (Sennrich et al. 2016, arXiv 1508.07909, over bytes as in GPT-2) from the texts that texts yields, in any order:
//
//	text ── pre-tokenizer ── words and how often each occurs ── the most frequent pair becomes a token, again and again
//
// Ids are: control tokens, markers, bytes in the order of GPT-2's alphabet, merged tokens. Where one of the texts <|bos|>, <|begin_of_text|>, <s>
// or <bos> is a control token, prompts begin with it; </s>, <|endoftext|>, <|end_of_text|> or <eos> ends texts, and <|im_end|> and its likes
// end turns. Control tokens and markers in the text separate texts and are not learned.
//
// The same texts give the same tokenizer for any order and any number of threads. If no pair is left the vocabulary stays smaller than asked.
// An error of texts, a context that ends (fault.Canceled) and options out of range (fault.Invalid) end the training. texts runs on the
// goroutine of Train, and so does yield, which blocks while the workers are busy.
func Train(ctx context.Context, o TrainOptions, texts func(yield func(text string) error) error) (*Tokenizer, error) {
	o.MinCount, o.Threads = max(o.MinCount, 1), max(o.Threads, 1)
	if o.Progress == nil {
		o.Progress = func(TrainProgress) {}
	}
	p, err := o.pre()
	if err != nil {
		return nil, err
	}
	split, err := compile(p.patterns)
	if err != nil {
		return nil, err
	}
	if err := o.check(split); err != nil {
		return nil, err
	}
	words, read, err := countWords(ctx, &o, split, texts)
	if err != nil {
		return nil, err
	}
	m, err := newTrainer(&o, words)
	if err != nil {
		return nil, err
	}
	report := func() {
		o.Progress(TrainProgress{Bytes: read, Words: len(words.counts), Tokens: len(m.texts), Target: o.Vocab})
	}
	if err := m.run(ctx, report); err != nil {
		return nil, err
	}
	report()
	return build(m.source(p))
}

// pre finds the pre-tokenizer.
func (o *TrainOptions) pre() (pre, error) {
	p, err := preNamed(o.Pre)
	if err != nil || o.Pre == "" {
		return p, fault.New(fault.Invalid, "pre", "the pre-tokenizer is %q, expected one of %s", fault.Clip(o.Pre, 64), strings.Join(PreNames(), ", "))
	}
	if !o.Digits || slices.Contains(p.patterns, patDigit) {
		return p, nil
	}
	for _, pat := range p.patterns {
		if s, ok := scannerOf(pat); ok && s.digits == 1 {
			return p, nil
		}
	}
	return preOf(append([]string{patDigit}, p.patterns...), p.ignoreMerges), nil
}

// PreNames lists the pre-tokenizers that Train takes, by their names in GGUF files. The slice belongs to the caller.
func PreNames() []string {
	var names []string
	for _, row := range preTable {
		names = append(names, row.name)
	}
	return names
}

// check bounds the options and refuses tokens that would be no good.
func (o *TrainOptions) check(split splitter) error {
	switch {
	case len(o.Control)+len(o.Markers) > maxControls:
		return fault.New(fault.Invalid, "control", "there are %d control tokens and markers, at most %d are allowed", len(o.Control)+len(o.Markers), maxControls)
	case o.Threads > maxThreads:
		return fault.New(fault.Invalid, "threads", "threads is %d, at most %d are allowed", o.Threads, maxThreads)
	case o.Ties > GreatestBytes:
		return fault.New(fault.Invalid, "ties", "ties is %d, known are 0 and 1", o.Ties)
	}
	taken := map[string]bool{}
	for b := range 256 {
		taken[string(byteRune(byte(b)))] = true
	}
	for field, list := range map[string][]string{"control": o.Control, "marker": o.Markers, "whole": o.Whole} {
		for _, text := range list {
			if err := checkText(field, text); err != nil {
				return err
			}
		}
	}
	for _, text := range slices.Concat(o.Control, o.Markers) {
		if taken[text] {
			return fault.New(fault.Invalid, "control", "the token %q is there twice", fault.Clip(text, 64))
		}
		taken[text] = true
	}
	for _, text := range o.Markers {
		if !isMarker(text) {
			return fault.New(fault.Invalid, "marker", "the marker %q is not in angle or square brackets, so people could type it unawares", fault.Clip(text, 64))
		}
	}
	return o.checkWhole(split)
}

// checkText bounds the text of a token.
func checkText(field, text string) error {
	switch {
	case text == "":
		return fault.New(fault.Invalid, field, "%s holds an empty text", field)
	case len(text) > 256:
		return fault.New(fault.Invalid, field, "%s holds a text of %d bytes, at most 256 are allowed", field, len(text))
	case !utf8.ValidString(text):
		return fault.New(fault.Invalid, field, "%s holds %q, which is not UTF-8", field, fault.Clip(text, 64))
	}
	return nil
}

// checkWhole makes sure that each word can be one token, and that the vocabulary has room for all that was asked for.
func (o *TrainOptions) checkWhole(split splitter) error {
	need := 256 + len(o.Control) + len(o.Markers)
	for _, text := range o.Whole {
		n := 0
		split.pieces([]byte(text), 0, func([]byte) { n++ })
		if n != 1 {
			return fault.New(fault.Invalid, "whole", "%q cannot be one token: the pre-tokenizer cuts it into %d pieces", fault.Clip(text, 64), n)
		}
		for _, special := range slices.Concat(o.Control, o.Markers) {
			if strings.Contains(toByteLevel(text), special) {
				return fault.New(fault.Invalid, "whole", "%q cannot be one token: it holds the control token or marker %q", fault.Clip(text, 64), fault.Clip(special, 64))
			}
		}
		need += len(text) - 1
	}
	if o.Vocab < need || o.Vocab > maxTokens {
		return fault.New(fault.Invalid, "vocab", "the vocabulary has %d entries, expected %d (256 bytes, %d control tokens and markers, whole words) to %d",
			o.Vocab, need, len(o.Control)+len(o.Markers), maxTokens)
	}
	return nil
}
