package tok

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"tinyloop/internal/fault"
)

// maxHFBytes bounds a tokenizer.json; the largest known has some 35 MB.
const maxHFBytes = 1 << 28

// hfFile is a Hugging Face tokenizer.json (format of the tokenizers library, version 1.0). Truncation and padding are settings of a training
// run, not of the mapping; they are not read.
type hfFile struct {
	Added         []hfAdded `json:"added_tokens"`
	Normalizer    *hfPart   `json:"normalizer"`
	PreTokenizer  *hfPart   `json:"pre_tokenizer"`
	PostProcessor *hfPart   `json:"post_processor"`
	Decoder       *hfPart   `json:"decoder"`
	Model         hfModel   `json:"model"`
}

type hfAdded struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	Special    bool   `json:"special"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
}

type hfModel struct {
	Type         string          `json:"type"`
	Vocab        json.RawMessage `json:"vocab"`
	Merges       json.RawMessage `json:"merges"`
	Dropout      *float64        `json:"dropout"`
	Unk          *string         `json:"unk_token"`
	Prefix       *string         `json:"continuing_subword_prefix"`
	Suffix       *string         `json:"end_of_word_suffix"`
	ByteFallback bool            `json:"byte_fallback"`
	IgnoreMerges bool            `json:"ignore_merges"`
}

// hfPart is any normalizer, pre-tokenizer, post-processor or decoder; each reads the fields of its own type.
type hfPart struct {
	Type string `json:"type"`

	Normalizers   []hfPart `json:"normalizers"` // of a Sequence
	PreTokenizers []hfPart `json:"pretokenizers"`
	Processors    []hfPart `json:"processors"`
	Decoders      []hfPart `json:"decoders"`

	Pattern          hfPattern         `json:"pattern"`
	Behavior         string            `json:"behavior"`
	Invert           bool              `json:"invert"`
	Prepend          string            `json:"prepend"`
	Content          string            `json:"content"`
	Start            int               `json:"start"`
	Stop             int               `json:"stop"`
	AddPrefixSpace   *bool             `json:"add_prefix_space"`
	UseRegex         *bool             `json:"use_regex"`
	IndividualDigits bool              `json:"individual_digits"`
	Replacement      string            `json:"replacement"`
	PrependScheme    string            `json:"prepend_scheme"`
	Split            *bool             `json:"split"`
	Single           []json.RawMessage `json:"single"`
}

type hfPattern struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

// hfConfig is the part of tokenizer_config.json that bears on ids. Tokens are strings or objects with content.
type hfConfig struct {
	BOS    json.RawMessage `json:"bos_token"`
	EOS    json.RawMessage `json:"eos_token"`
	Pad    json.RawMessage `json:"pad_token"`
	Unk    json.RawMessage `json:"unk_token"`
	AddBOS *bool           `json:"add_bos_token"`
	AddEOS *bool           `json:"add_eos_token"`
}

// FromHF makes a tokenizer from a tokenizer.json and, when not nil, the tokenizer_config.json beside it. Byte-level BPE and BPE over
// characters with byte fallback (the shape that SentencePiece models are converted to) are read. Whatever would change the ids and is not
// known is refused by name.
func FromHF(tokenizerJSON, tokenizerConfig []byte) (*Tokenizer, error) {
	return FromHFFiles(tokenizerJSON, tokenizerConfig, nil)
}

// FromHFFiles is FromHF with the generation_config.json that lies beside them, when not nil: the tokens that it lets end an answer are stops.
func FromHFFiles(tokenizerJSON, tokenizerConfig, generationConfig []byte) (*Tokenizer, error) {
	if len(tokenizerJSON) > maxHFBytes {
		return nil, fault.New(fault.Invalid, "tokenizer.json", "tokenizer.json has %d bytes, at most %d are read", len(tokenizerJSON), maxHFBytes)
	}
	var f hfFile
	if err := json.Unmarshal(tokenizerJSON, &f); err != nil {
		return nil, &fault.Error{Kind: fault.Malformed, Field: "tokenizer.json", Msg: "tokenizer.json cannot be read", Err: errors.New(fault.JSONText(err))}
	}
	var c hfConfig
	if len(bytes.TrimSpace(tokenizerConfig)) > 0 {
		if err := json.Unmarshal(tokenizerConfig, &c); err != nil {
			return nil, &fault.Error{Kind: fault.Malformed, Field: "tokenizer_config.json", Msg: "tokenizer_config.json cannot be read", Err: errors.New(fault.JSONText(err))}
		}
	}
	ends, err := endTokens(generationConfig)
	if err != nil {
		return nil, err
	}
	return f.build(&c, ends)
}

// endTokens reads eos_token_id of a generation_config.json: a number or a list of them.
func endTokens(data []byte) ([]ID, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil
	}
	var c struct {
		EOS json.RawMessage `json:"eos_token_id"`
	}
	var one ID
	var many []ID
	err := json.Unmarshal(data, &c)
	switch {
	case err != nil:
	case len(c.EOS) == 0 || string(c.EOS) == "null":
		return nil, nil
	case json.Unmarshal(c.EOS, &one) == nil:
		return []ID{one}, nil
	default:
		err = json.Unmarshal(c.EOS, &many)
	}
	if err != nil {
		return nil, &fault.Error{Kind: fault.Malformed, Field: "eos_token_id", Msg: "generation_config.json: eos_token_id is neither an id nor a list of ids", Err: err}
	}
	return many, nil
}

func (f *hfFile) build(c *hfConfig, ends []ID) (*Tokenizer, error) {
	if err := f.Model.check(); err != nil {
		return nil, err
	}
	kind := kindSPM
	if hasPart(f.PreTokenizer, "ByteLevel") {
		kind = kindBPE
	}
	s := newSource(kind)
	if err := f.readVocab(&s); err != nil {
		return nil, err
	}
	if err := f.readParts(&s); err != nil {
		return nil, err
	}
	if err := f.readAdded(&s); err != nil {
		return nil, err
	}
	pairs, err := f.Model.readMerges(&s)
	if err != nil {
		return nil, err
	}
	if kind == kindBPE {
		s.merges = pairs
	} else if s.scores, err = scoresOf(&s, pairs); err != nil {
		return nil, err
	}
	if err := f.readRoles(&s, c); err != nil {
		return nil, err
	}
	for _, id := range ends {
		if id < 0 || int(id) >= len(s.pieces) {
			return nil, fault.New(fault.Invalid, "eos_token_id", "generation_config.json: eos_token_id names the token %d, but the tokenizer has %d", id, len(s.pieces))
		}
	}
	s.stops = append(s.stops, ends...)
	return build(s)
}

// check refuses what the merging here does not do.
func (m *hfModel) check() error {
	switch {
	case m.Type != "BPE" && !(m.Type == "" && len(m.Merges) > 0):
		return unsupported("model.type", m.Type)
	case m.Dropout != nil && *m.Dropout != 0:
		return fault.New(fault.Unsupported, "model.dropout", "model.dropout is %v, which this build does not do", *m.Dropout)
	case m.Prefix != nil && *m.Prefix != "":
		return unsupported("model.continuing_subword_prefix", *m.Prefix)
	case m.Suffix != nil && *m.Suffix != "":
		return unsupported("model.end_of_word_suffix", *m.Suffix)
	}
	return nil
}

func unsupported(field, value string) error {
	return fault.New(fault.Unsupported, field, "tokenizer.json: %s is %q, which this build does not read", field, fault.Clip(value, 64))
}

// readVocab lays the vocabulary out by id. Gaps stay as unused tokens.
func (f *hfFile) readVocab(s *source) error {
	var vocab map[string]int64
	if err := json.Unmarshal(f.Model.Vocab, &vocab); err != nil {
		return &fault.Error{Kind: fault.Malformed, Field: "model.vocab", Msg: "tokenizer.json: model.vocab is not an object of ids", Err: errors.New(fault.JSONText(err))}
	}
	top := int64(-1)
	for text, id := range vocab {
		if id < 0 || id >= maxTokens {
			return fault.New(fault.Invalid, "model.vocab", "tokenizer.json: %q has the id %d, ids are 0 to %d", fault.Clip(text, 64), id, maxTokens-1)
		}
		top = max(top, id)
	}
	for _, a := range f.Added {
		if a.ID < 0 || a.ID >= maxTokens {
			return fault.New(fault.Invalid, "added_tokens", "tokenizer.json: %q has the id %d, ids are 0 to %d", fault.Clip(a.Content, 64), a.ID, maxTokens-1)
		}
		top = max(top, a.ID)
	}
	s.pieces, s.types = make([]string, top+1), make([]tokenType, top+1)
	for i := range s.types {
		s.types[i] = typeUnused
	}
	for text, id := range vocab {
		if s.pieces[id] != "" {
			return fault.New(fault.Invalid, "model.vocab", "tokenizer.json: %q and %q share the id %d", fault.Clip(text, 64), fault.Clip(s.pieces[id], 64), id)
		}
		s.pieces[id], s.types[id] = text, typeNormal
		if _, ok := byteToken(text); ok && s.kind == kindSPM {
			s.types[id] = typeByte
		}
	}
	return nil
}

// readAdded places the added tokens over the vocabulary.
func (f *hfFile) readAdded(s *source) error {
	for _, a := range f.Added {
		if a.Content == "" {
			return fault.New(fault.Invalid, "added_tokens", "tokenizer.json: the added token %d has no text", a.ID)
		}
		if old := s.pieces[a.ID]; old != "" && old != a.Content {
			return fault.New(fault.Invalid, "added_tokens", "tokenizer.json: %q and %q share the id %d", fault.Clip(a.Content, 64), fault.Clip(old, 64), a.ID)
		}
		if a.SingleWord {
			return fault.New(fault.Unsupported, "added_tokens", "tokenizer.json: the added token %q is single_word, which this build does not do", fault.Clip(a.Content, 64))
		}
		changed := s.nfc && !isASCII(a.Content) || s.kind == kindSPM && strings.Contains(a.Content, " ")
		if a.Normalized && changed {
			return fault.New(fault.Unsupported, "added_tokens", "tokenizer.json: the added token %q is normalized, which this build does not do", fault.Clip(a.Content, 64))
		}
		id := ID(a.ID)
		s.pieces[id], s.types[id] = a.Content, typeUserDefined
		if a.Special {
			s.types[id] = typeControl
		}
		if a.LStrip {
			s.lstrip = append(s.lstrip, id)
		}
		if a.RStrip {
			s.rstrip = append(s.rstrip, id)
		}
	}
	return nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// readMerges reads merges as strings "left right" or as pairs.
func (m *hfModel) readMerges(s *source) ([][2]ID, error) {
	raw := bytes.TrimSpace(m.Merges)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var pairs [][2]string
	if json.Unmarshal(raw, &pairs) == nil {
		return s.resolve(pairs)
	}
	var lines []string
	if err := json.Unmarshal(raw, &lines); err != nil {
		return nil, &fault.Error{Kind: fault.Malformed, Field: "model.merges", Msg: "tokenizer.json: model.merges is no list of merges", Err: errors.New(fault.JSONText(err))}
	}
	return s.readMerges(lines)
}

// readRoles finds the tokens that begin and end texts.
func (f *hfFile) readRoles(s *source, c *hfConfig) error {
	ids := s.byText()
	for _, r := range []struct {
		role role
		key  string
		raw  json.RawMessage
	}{{roleBOS, "bos_token", c.BOS}, {roleEOS, "eos_token", c.EOS}, {rolePadding, "pad_token", c.Pad}, {roleUnknown, "unk_token", c.Unk}} {
		text, err := tokenText(r.key, r.raw)
		if err != nil {
			return err
		}
		if id, ok := ids.find(text); ok {
			s.roles[r.role] = id
		}
	}
	if f.Model.Unk != nil && s.roles[roleUnknown] < 0 {
		if id, ok := ids.find(*f.Model.Unk); ok {
			s.roles[roleUnknown] = id
		}
	}
	begin, err := f.begin()
	if err != nil {
		return err
	}
	if id, ok := ids.find(begin); ok {
		s.addBOS = true
		if s.roles[roleBOS] < 0 {
			s.roles[roleBOS] = id
		}
	}
	if c.AddEOS != nil && *c.AddEOS {
		return fault.New(fault.Unsupported, "add_eos_token", "tokenizer_config.json: add_eos_token is true: a prompt that ends with the token that ends texts is not what this build continues")
	}
	if c.AddBOS != nil {
		s.addBOS = *c.AddBOS
	}
	for _, text := range []string{"</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>"} {
		if id, ok := ids.find(text); ok && s.roles[roleEOS] < 0 {
			s.roles[roleEOS] = id
		}
	}
	return nil
}

// tokenText reads a token of tokenizer_config.json: a string, an object with content, or null.
func tokenText(key string, raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var obj struct {
		Content string `json:"content"`
	}
	if err := json.Unmarshal(raw, &obj); err != nil {
		return "", &fault.Error{Kind: fault.Malformed, Field: key, Msg: "tokenizer_config.json: " + key + " is neither a text nor a token", Err: err}
	}
	return obj.Content, nil
}
