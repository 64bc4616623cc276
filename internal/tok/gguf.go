package tok

import (
	"strings"

	"tinyloop/internal/fault"
)

// roleKeys are the GGUF keys of the roles ("seperator" is how the format spells it).
var roleKeys = [roles]string{
	roleBOS:          "tokenizer.ggml.bos_token_id",
	roleEOS:          "tokenizer.ggml.eos_token_id",
	roleEOT:          "tokenizer.ggml.eot_token_id",
	roleEOM:          "tokenizer.ggml.eom_token_id",
	roleUnknown:      "tokenizer.ggml.unknown_token_id",
	roleSeparator:    "tokenizer.ggml.seperator_token_id",
	rolePadding:      "tokenizer.ggml.padding_token_id",
	roleMask:         "tokenizer.ggml.mask_token_id",
	roleFIMPrefix:    "tokenizer.ggml.fim_pre_token_id",
	roleFIMSuffix:    "tokenizer.ggml.fim_suf_token_id",
	roleFIMMiddle:    "tokenizer.ggml.fim_mid_token_id",
	roleFIMPad:       "tokenizer.ggml.fim_pad_token_id",
	roleFIMRepo:      "tokenizer.ggml.fim_rep_token_id",
	roleFIMSeparator: "tokenizer.ggml.fim_sep_token_id",
}

// Keys of ours, for what GGUF has no key for. They stand only where they differ from what the other keys imply.
const (
	keyPatterns     = "tokenizer.tinyloop.patterns"      // []string: the pre-tokenizer "custom"
	keyIgnoreMerges = "tokenizer.tinyloop.ignore_merges" // bool, with patterns
	keyPrefix       = "tokenizer.tinyloop.space_prefix"  // uint32: the value of prefix
	keyNFC          = "tokenizer.tinyloop.nfc"           // bool
	keyLStrip       = "tokenizer.tinyloop.lstrip"        // []int32
	keyRStrip       = "tokenizer.tinyloop.rstrip"        // []int32
	keyStops        = "tokenizer.tinyloop.stops"         // []int32
)

// FromGGUF makes a tokenizer from the tokenizer.ggml.* keys of a model file. Models "gpt2" (byte-level BPE) and "llama" (SentencePiece) are
// read; others, and unknown pre-tokenizers, are refused by name.
func FromGGUF(m Meta) (*Tokenizer, error) {
	model, ok := m.String("tokenizer.ggml.model")
	if !ok {
		return nil, fault.New(fault.Invalid, "tokenizer.ggml.model", "the file has no tokenizer: the key tokenizer.ggml.model is missing")
	}
	var s source
	var err error
	switch model {
	case "gpt2":
		s, err = ggufBPE(m)
	case "llama":
		s, err = ggufSPM(m)
	default:
		err = fault.New(fault.Unsupported, "tokenizer.ggml.model", "tokenizer.ggml.model is %q; this build reads \"gpt2\" (byte-level BPE) and \"llama\" (SentencePiece)", fault.Clip(model, 64))
	}
	if err != nil {
		return nil, err
	}
	if err := checkKinds(m); err != nil {
		return nil, err
	}
	if err := s.readShared(m); err != nil {
		return nil, err
	}
	return build(s)
}

// checkKinds refuses a key whose value is of another kind than its meaning needs: read as absent, it would make another tokenizer in silence.
func checkKinds(m Meta) error {
	kinds := []struct {
		what string
		is   func(key string) bool
		keys []string
	}{
		{"a text", has(m.String), []string{"tokenizer.ggml.pre"}},
		{"a list of texts", has(m.Strings), []string{"tokenizer.ggml.tokens", "tokenizer.ggml.merges", keyPatterns}},
		{"a list of numbers", has(m.Floats), []string{"tokenizer.ggml.scores"}},
		{"a list of integers", has(m.Ints), []string{"tokenizer.ggml.token_type", keyLStrip, keyRStrip, keyStops}},
		{"true or false", has(m.Bool), []string{"tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token", "tokenizer.ggml.add_space_prefix", "tokenizer.ggml.remove_extra_whitespaces", keyIgnoreMerges, keyNFC}},
		{"an integer of at least 0", has(m.Uint), append([]string{keyPrefix}, roleKeys[:]...)},
	}
	for _, k := range kinds {
		for _, key := range k.keys {
			if v, there := m.Get(key); there && !k.is(key) {
				return fault.New(fault.Invalid, key, "%s must be %s, is of type %T", key, k.what, v)
			}
		}
	}
	return nil
}

func has[T any](get func(key string) (T, bool)) func(key string) bool {
	return func(key string) bool { _, ok := get(key); return ok }
}

func ggufBPE(m Meta) (source, error) {
	s := newSource(kindBPE)
	if err := s.readTokens(m); err != nil {
		return s, err
	}
	name, _ := m.String("tokenizer.ggml.pre")
	patterns, custom := m.Strings(keyPatterns)
	var err error
	if custom {
		ignore, _ := m.Bool(keyIgnoreMerges)
		s.pre = preOf(patterns, ignore)
	} else if s.pre, err = preNamed(name); err != nil {
		return s, err
	}
	s.addBOS = s.pre.addBOS
	lines, ok := m.Strings("tokenizer.ggml.merges")
	if !ok {
		return s, fault.New(fault.Invalid, "tokenizer.ggml.merges", "the key tokenizer.ggml.merges is missing")
	}
	s.merges, err = s.readMerges(lines)
	return s, err
}

func ggufSPM(m Meta) (source, error) {
	s := newSource(kindSPM)
	s.addBOS, s.prefix, s.pre.name = true, prefixRuns, "default"
	if err := s.readTokens(m); err != nil {
		return s, err
	}
	if name, _ := m.String("tokenizer.ggml.pre"); name != "" && name != "default" {
		return s, fault.New(fault.Unsupported, "tokenizer.ggml.pre", "tokenizer.ggml.pre is %q; SentencePiece tokenizers have none but \"default\"", fault.Clip(name, 64))
	}
	var ok bool
	if s.scores, ok = m.Floats("tokenizer.ggml.scores"); !ok {
		return s, fault.New(fault.Invalid, "tokenizer.ggml.scores", "the key tokenizer.ggml.scores is missing")
	}
	return s, nil
}

// readTokens reads vocabulary and types.
func (s *source) readTokens(m Meta) error {
	pieces, ok := m.Strings("tokenizer.ggml.tokens")
	if !ok {
		return fault.New(fault.Invalid, "tokenizer.ggml.tokens", "the key tokenizer.ggml.tokens is missing")
	}
	if len(pieces) > maxTokens {
		return fault.New(fault.Invalid, "tokenizer.ggml.tokens", "tokenizer.ggml.tokens has %d entries, at most %d are read", len(pieces), maxTokens)
	}
	s.pieces = pieces
	s.types = make([]tokenType, len(pieces))
	types, ok := m.Ints("tokenizer.ggml.token_type")
	if ok && len(types) != len(pieces) {
		return fault.New(fault.Invalid, "tokenizer.ggml.token_type", "tokenizer.ggml.token_type has %d entries, tokenizer.ggml.tokens %d", len(types), len(pieces))
	}
	for i := range s.types {
		s.types[i] = typeNormal
		if !ok {
			continue
		}
		if types[i] < int32(typeNormal) || types[i] > int32(typeByte) {
			return fault.New(fault.Invalid, "tokenizer.ggml.token_type", "tokenizer.ggml.token_type[%d] is %d, known are 1 to 6", i, types[i])
		}
		s.types[i] = tokenType(types[i])
	}
	return nil
}

// readMerges reads lines of the form "left right".
func (s *source) readMerges(lines []string) ([][2]ID, error) {
	if len(lines) > maxMerges {
		return nil, fault.New(fault.Invalid, "tokenizer.ggml.merges", "there are %d merges, at most %d are read", len(lines), maxMerges)
	}
	pairs := make([][2]string, len(lines))
	for i, line := range lines {
		left, right, ok := strings.Cut(line, " ")
		if !ok {
			return nil, fault.New(fault.Invalid, "tokenizer.ggml.merges", "merge %d is %q, not two tokens with a space between them", i, fault.Clip(line, 64))
		}
		pairs[i] = [2]string{left, right}
	}
	return s.resolve(pairs)
}

// resolve looks the tokens of merges up.
func (s *source) resolve(pairs [][2]string) ([][2]ID, error) {
	ids := s.byText()
	out := make([][2]ID, len(pairs))
	for i, pair := range pairs {
		for j, p := range pair {
			id, ok := ids.find(p)
			if !ok {
				return nil, fault.New(fault.Invalid, "tokenizer.ggml.merges", "merge %d names %q, which is no token", i, fault.Clip(p, 64))
			}
			out[i][j] = id
		}
	}
	return out, nil
}

// readShared reads the keys that all models have.
func (s *source) readShared(m Meta) error {
	for r, key := range roleKeys {
		v, ok := m.Uint(key)
		if !ok {
			continue
		}
		if v >= uint64(len(s.pieces)) {
			return fault.New(fault.Invalid, key, "%s is %d, but the tokenizer has %d tokens", key, v, len(s.pieces))
		}
		s.roles[r] = ID(v)
	}
	if v, ok := m.Bool("tokenizer.ggml.add_bos_token"); ok {
		s.addBOS = v
	}
	if v, _ := m.Bool("tokenizer.ggml.add_eos_token"); v {
		return fault.New(fault.Unsupported, "tokenizer.ggml.add_eos_token", "tokenizer.ggml.add_eos_token is true: a prompt that ends with the token that ends texts is not what this build continues")
	}
	if v, ok := m.Bool("tokenizer.ggml.add_space_prefix"); ok && s.kind == kindSPM && !v {
		s.prefix = prefixNone
	}
	if v, ok := m.Uint(keyPrefix); ok {
		if v > uint64(prefixFirstMissing) {
			return fault.New(fault.Invalid, keyPrefix, "%s is %d, known are 0 to %d", keyPrefix, v, prefixFirstMissing)
		}
		s.prefix = prefix(v)
	}
	if v, ok := m.Bool("tokenizer.ggml.remove_extra_whitespaces"); ok && v && s.kind == kindSPM {
		return fault.New(fault.Unsupported, "tokenizer.ggml.remove_extra_whitespaces", "tokenizer.ggml.remove_extra_whitespaces is true, which this build does not do")
	}
	s.nfc, _ = m.Bool(keyNFC)
	for _, l := range []struct {
		key string
		ids *[]ID
	}{{keyLStrip, &s.lstrip}, {keyRStrip, &s.rstrip}, {keyStops, &s.stops}} {
		*l.ids, _ = m.Ints(l.key)
		for _, id := range *l.ids {
			if id < 0 || int(id) >= len(s.pieces) {
				return fault.New(fault.Invalid, l.key, "%s names the token %d, but the tokenizer has %d", l.key, id, len(s.pieces))
			}
		}
	}
	return nil
}

// GGUF gives the keys that make FromGGUF build this tokenizer again (with an equal Hash). Values are string, bool, uint32, []string, []int32
// and []float32; they belong to the caller.
func (t *Tokenizer) GGUF() map[string]any {
	s := &t.src
	types := make([]int32, len(s.types))
	for i, x := range s.types {
		types[i] = int32(x)
	}
	m := map[string]any{
		"tokenizer.ggml.tokens":        append([]string(nil), s.pieces...),
		"tokenizer.ggml.token_type":    types,
		"tokenizer.ggml.pre":           s.pre.name,
		"tokenizer.ggml.add_bos_token": s.addBOS,
	}
	if s.kind == kindSPM {
		m["tokenizer.ggml.model"] = "llama"
		m["tokenizer.ggml.scores"] = append([]float32(nil), s.scores...)
		m["tokenizer.ggml.add_space_prefix"] = s.prefix != prefixNone
	} else {
		m["tokenizer.ggml.model"] = "gpt2"
		m["tokenizer.ggml.merges"] = t.mergeLines()
	}
	for r, id := range s.roles {
		if id >= 0 {
			m[roleKeys[r]] = uint32(id)
		}
	}
	t.ownKeys(m)
	return m
}

// mergeLines writes the merges as GGUF does.
func (t *Tokenizer) mergeLines() []string {
	out := make([]string, len(t.src.merges))
	for i, m := range t.src.merges {
		out[i] = t.src.pieces[m[0]] + " " + t.src.pieces[m[1]]
	}
	return out
}

// ownKeys adds the keys of ours where they are needed.
func (t *Tokenizer) ownKeys(m map[string]any) {
	s := &t.src
	if s.pre.name == preCustom {
		m[keyPatterns] = append([]string{}, s.pre.patterns...)
		m[keyIgnoreMerges] = s.pre.ignoreMerges
	}
	if s.prefix > prefixRuns {
		m[keyPrefix] = uint32(s.prefix)
	}
	if s.nfc {
		m[keyNFC] = true
	}
	for key, ids := range map[string][]ID{keyLStrip: s.lstrip, keyRStrip: s.rstrip, keyStops: s.stops} {
		if len(ids) > 0 {
			m[key] = append([]int32(nil), ids...)
		}
	}
}
