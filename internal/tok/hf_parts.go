package tok

import (
	"encoding/json"
	"regexp"
	"strings"

	"tinyloop/internal/fault"
)

// sub gives the parts of a Sequence, or p itself. The JSON decoder bounds the depth.
func (p *hfPart) sub() []hfPart {
	if p == nil {
		return nil
	}
	if p.Type != "Sequence" {
		return []hfPart{*p}
	}
	var out []hfPart
	for _, list := range [][]hfPart{p.Normalizers, p.PreTokenizers, p.Processors, p.Decoders} {
		for i := range list {
			out = append(out, list[i].sub()...)
		}
	}
	return out
}

func hasPart(p *hfPart, kind string) bool {
	for _, q := range p.sub() {
		if q.Type == kind {
			return true
		}
	}
	return false
}

// readParts reads normalizer, pre-tokenizer and decoder.
func (f *hfFile) readParts(s *source) error {
	if s.kind == kindBPE {
		return f.readByteLevel(s)
	}
	return f.readSentencePiece(s)
}

// readByteLevel reads the parts of byte-level BPE.
func (f *hfFile) readByteLevel(s *source) error {
	for _, p := range f.Normalizer.sub() {
		if p.Type != "NFC" {
			return unsupported("normalizer", p.Type)
		}
		s.nfc = true
	}
	patterns, err := splitPatterns(f.PreTokenizer.sub())
	if err != nil {
		return err
	}
	for _, p := range f.Decoder.sub() {
		if p.Type != "ByteLevel" {
			return unsupported("decoder", p.Type)
		}
	}
	s.pre = preOf(patterns, f.Model.IgnoreMerges)
	return nil
}

// splitPatterns turns the pre-tokenizer of byte-level BPE into patterns. ByteLevel comes last, as what follows it would see its alphabet.
func splitPatterns(parts []hfPart) ([]string, error) {
	patterns := []string{}
	for i, p := range parts {
		switch p.Type {
		case "Split":
			pat, err := p.splitPattern()
			if err != nil {
				return nil, err
			}
			patterns = append(patterns, pat)
		case "Digits":
			if p.IndividualDigits {
				patterns = append(patterns, patDigit)
			} else {
				patterns = append(patterns, patDigits)
			}
		case "ByteLevel":
			if p.AddPrefixSpace == nil || *p.AddPrefixSpace {
				return nil, fault.New(fault.Unsupported, "pre_tokenizer", "tokenizer.json: the pre-tokenizer ByteLevel has add_prefix_space, which this build does not do")
			}
			if i != len(parts)-1 {
				return nil, unsupported("pre_tokenizer", parts[i+1].Type+" behind ByteLevel")
			}
			if p.UseRegex == nil || *p.UseRegex {
				patterns = append(patterns, patGPT2)
			}
		default:
			return nil, unsupported("pre_tokenizer", p.Type)
		}
	}
	return patterns, nil
}

// splitPattern gives the pattern of a Split whose matches, and what lies between them, become pieces.
func (p *hfPart) splitPattern() (string, error) {
	var pat string
	switch {
	case p.Pattern.Regex != nil:
		pat = *p.Pattern.Regex
	case p.Pattern.String != nil:
		pat = regexp.QuoteMeta(*p.Pattern.String)
	default:
		return "", fault.New(fault.Invalid, "pre_tokenizer", "tokenizer.json: a Split of the pre-tokenizer has no pattern")
	}
	if pat == patGPT2Short {
		pat = patGPT2
	}
	scan, known := scannerOf(pat)
	covers := known && scan.shape != shapeDigits // the pattern matches everything, so nothing lies between
	switch {
	case p.Behavior == "Isolated" && !p.Invert, covers && p.Behavior == "Removed" && p.Invert:
		return pat, nil
	case p.Invert:
		return "", unsupported("pre_tokenizer.behavior", p.Behavior+" with invert")
	}
	return "", unsupported("pre_tokenizer.behavior", p.Behavior)
}

// readSentencePiece reads the parts of BPE over characters, where U+2581 stands for the space.
func (f *hfFile) readSentencePiece(s *source) error {
	s.pre.name = "default"
	if !f.Model.ByteFallback {
		return fault.New(fault.Unsupported, "model.byte_fallback", "tokenizer.json: BPE without ByteLevel and without byte_fallback is not read")
	}
	if f.Model.IgnoreMerges {
		return fault.New(fault.Unsupported, "model.ignore_merges", "tokenizer.json: ignore_merges without ByteLevel is not read")
	}
	replaced, err := f.readSpaces(s)
	if err != nil {
		return err
	}
	for _, p := range f.PreTokenizer.sub() {
		if p.Type == "Split" && replaced && p.Pattern.String != nil && *p.Pattern.String == " " {
			continue // no space is left for it to find
		}
		if p.Type != "Metaspace" {
			return unsupported("pre_tokenizer", p.Type)
		}
		if s.prefix != prefixNone {
			return unsupported("pre_tokenizer", "Metaspace behind a Prepend normalizer")
		}
		if err := p.readMetaspace(s); err != nil {
			return err
		}
		replaced = true
	}
	if !replaced {
		return fault.New(fault.Unsupported, "pre_tokenizer", "tokenizer.json: BPE that is neither ByteLevel nor writes spaces as U+2581 is not read")
	}
	return f.checkDecoder(s)
}

// readSpaces reads the normalizer of a SentencePiece conversion and says whether it replaces spaces.
func (f *hfFile) readSpaces(s *source) (replaced bool, err error) {
	for _, p := range f.Normalizer.sub() {
		switch p.Type {
		case "NFC":
			s.nfc = true
		case "Prepend":
			if p.Prepend != spaceMark {
				return false, unsupported("normalizer.prepend", p.Prepend)
			}
			s.prefix = prefixRuns
		case "Replace":
			if p.Pattern.String == nil || *p.Pattern.String != " " || p.Content != spaceMark {
				return false, unsupported("normalizer", "Replace of other than spaces")
			}
			replaced = true
		default:
			return false, unsupported("normalizer", p.Type)
		}
	}
	return replaced, nil
}

func (p *hfPart) readMetaspace(s *source) error {
	if p.Replacement != spaceMark {
		return unsupported("pre_tokenizer.replacement", p.Replacement)
	}
	if p.Split == nil || *p.Split {
		for i, piece := range s.pieces {
			if s.types[i] == typeNormal && strings.LastIndex(piece, spaceMark) > 0 {
				return unsupported("pre_tokenizer", "Metaspace with split, with tokens that hold inner spaces,")
			}
		}
	}
	switch {
	case p.PrependScheme == "always", p.PrependScheme == "" && (p.AddPrefixSpace == nil || *p.AddPrefixSpace):
		s.prefix = prefixRunsMissing
	case p.PrependScheme == "first":
		s.prefix = prefixFirstMissing
	case p.PrependScheme == "never", p.PrependScheme == "":
	default:
		return unsupported("pre_tokenizer.prepend_scheme", p.PrependScheme)
	}
	return nil
}

// checkDecoder makes sure that the decoder takes away exactly the space that encoding adds.
func (f *hfFile) checkDecoder(s *source) error {
	strips := false
	for _, p := range f.Decoder.sub() {
		switch p.Type {
		case "ByteFallback", "Fuse":
		case "Replace":
			if p.Pattern.String == nil || *p.Pattern.String != spaceMark || p.Content != " " {
				return unsupported("decoder", "Replace of other than U+2581")
			}
		case "Strip":
			if p.Content != " " || p.Start != 1 || p.Stop != 0 {
				return unsupported("decoder", "Strip of other than one space in front")
			}
			strips = true
		case "Metaspace":
			strips = s.prefix != prefixNone
		default:
			return unsupported("decoder", p.Type)
		}
	}
	if f.Decoder != nil && strips != (s.prefix != prefixNone) {
		return fault.New(fault.Unsupported, "decoder", "tokenizer.json: the decoder and the normalizer disagree about the space in front")
	}
	return nil
}

// begin reads the post-processor: the text of the token in front of every text, "" when there is none.
func (f *hfFile) begin() (string, error) {
	begin := ""
	for _, p := range f.PostProcessor.sub() {
		if p.Type == "ByteLevel" {
			continue // it only mends offsets
		}
		if p.Type != "TemplateProcessing" {
			return "", unsupported("post_processor", p.Type)
		}
		var err error
		if begin, err = p.template(); err != nil {
			return "", err
		}
	}
	return begin, nil
}

// template reads [token] A.
func (p *hfPart) template() (begin string, err error) {
	seen := false
	for _, raw := range p.Single {
		var item struct {
			SpecialToken *struct {
				ID string `json:"id"`
			}
			Sequence *struct {
				ID string `json:"id"`
			}
		}
		if err := json.Unmarshal(raw, &item); err != nil {
			return "", &fault.Error{Kind: fault.Malformed, Field: "post_processor", Msg: "tokenizer.json: the template of the post-processor cannot be read", Err: err}
		}
		switch {
		case item.Sequence != nil:
			seen = true
		case item.SpecialToken == nil:
			return "", unsupported("post_processor", "a template of unknown items")
		case seen:
			return "", unsupported("post_processor", "a template with a token behind the text")
		case begin != "":
			return "", unsupported("post_processor", "a template with two tokens in front of the text")
		default:
			begin = item.SpecialToken.ID
		}
	}
	return begin, nil
}
