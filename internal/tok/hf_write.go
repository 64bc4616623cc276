package tok

import (
	"bytes"
	"encoding/json"
	"slices"

	"tinyloop/internal/fault"
)

// hfWriter writes JSON by hand, as the vocabulary must stand in the order of its ids.
type hfWriter struct{ bytes.Buffer }

// value writes any value as JSON.
func (w *hfWriter) value(v any) {
	enc := json.NewEncoder(&w.Buffer)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("tok: " + err.Error()) // texts, numbers and lists of them only
	}
	w.Truncate(w.Len() - 1) // its line feed
}

// list writes n items, one a line.
func (w *hfWriter) list(open, end string, n int, item func(i int)) {
	w.WriteString(open)
	for i := range n {
		if i > 0 {
			w.WriteByte(',')
		}
		w.WriteString("\n      ")
		item(i)
	}
	w.WriteString(end)
}

type hfObject = map[string]any

// HF writes a byte-level BPE as a tokenizer.json that Hugging Face's libraries read (format version 1.0). From it, with HFConfig beside it, FromHF
// makes a tokenizer of the same ids; for one that Train made, HF is enough and the Hash is equal. What the format has no place for (roles
// beyond those of HFConfig) is left out. SentencePiece tokenizers are fault.Unsupported.
func (t *Tokenizer) HF() ([]byte, error) {
	s := &t.src
	if s.kind != kindBPE {
		return nil, fault.New(fault.Unsupported, "tokenizer", "only byte-level BPE can be written as tokenizer.json, this tokenizer is %s", s.kind)
	}
	w := new(hfWriter)
	w.WriteString("{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": ")
	added := t.added()
	w.list("[", "\n  ]", len(added), func(i int) { w.value(s.hfToken(added[i])) })
	for _, part := range []struct {
		key string
		v   any
	}{{"normalizer", s.hfNormalizer()}, {"pre_tokenizer", s.pre.hf()}, {"post_processor", s.hfProcessor()}, {"decoder", hfByteLevel(true, true)}} {
		w.WriteString(",\n  \"" + part.key + "\": ")
		w.value(part.v)
	}
	w.WriteString(",\n  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n    \"continuing_subword_prefix\": null,\n" +
		"    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n    \"byte_fallback\": false,\n    \"ignore_merges\": ")
	w.value(s.pre.ignoreMerges)
	w.WriteString(",\n    \"vocab\": ")
	ids := t.written()
	w.list("{", "\n    }", len(ids), func(i int) {
		w.value(s.pieces[ids[i]])
		w.WriteString(": ")
		w.value(ids[i])
	})
	w.WriteString(",\n    \"merges\": ")
	lines := t.mergeLines()
	w.list("[", "\n    ]", len(lines), func(i int) { w.value(lines[i]) })
	w.WriteString("\n  }\n}\n")
	return w.Bytes(), nil
}

// HFConfig writes the tokenizer_config.json that stands beside HF: the tokens of roles, and the chat template where it is not "".
func (t *Tokenizer) HFConfig(template string) []byte {
	c := hfObject{"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false, "add_bos_token": t.src.addBOS}
	for key, r := range map[string]role{"bos_token": roleBOS, "eos_token": roleEOS, "pad_token": rolePadding, "unk_token": roleUnknown} {
		if id := t.src.roles[r]; id >= 0 {
			c[key] = t.src.pieces[id]
		}
	}
	if template != "" {
		c["chat_template"] = template
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(c); err != nil {
		panic("tok: " + err.Error())
	}
	return b.Bytes()
}

// added lists the control, marker and user-defined tokens.
func (t *Tokenizer) added() []ID {
	var ids []ID
	for i, ty := range t.src.types {
		if ty == typeControl || ty == typeUserDefined {
			ids = append(ids, ID(i))
		}
	}
	return ids
}

// written lists the tokens that have a text, gaps in the numbering having none.
func (t *Tokenizer) written() []ID {
	var ids []ID
	for i, p := range t.src.pieces {
		if p != "" {
			ids = append(ids, ID(i))
		}
	}
	return ids
}

func (s *source) hfToken(id ID) any {
	return struct {
		ID         ID     `json:"id"`
		Content    string `json:"content"`
		SingleWord bool   `json:"single_word"`
		LStrip     bool   `json:"lstrip"`
		RStrip     bool   `json:"rstrip"`
		Normalized bool   `json:"normalized"`
		Special    bool   `json:"special"`
	}{id, s.pieces[id], false, slices.Contains(s.lstrip, id), slices.Contains(s.rstrip, id), false, s.types[id] == typeControl}
}

func (s *source) hfNormalizer() any {
	if s.nfc {
		return hfObject{"type": "NFC"}
	}
	return nil
}

func hfByteLevel(trim, regex bool) hfObject {
	return hfObject{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": trim, "use_regex": regex}
}

// hf writes a pre-tokenizer: a Split for each pattern, and the change to the byte-level alphabet, which does the last split itself if that is GPT-2's.
func (p *pre) hf() any {
	var parts []any
	patterns := p.patterns
	regex := len(patterns) > 0 && patterns[len(patterns)-1] == patGPT2
	if regex {
		patterns = patterns[:len(patterns)-1]
	}
	for _, pat := range patterns {
		parts = append(parts, hfObject{"type": "Split", "pattern": hfObject{"Regex": pat}, "behavior": "Isolated", "invert": false})
	}
	if parts = append(parts, hfByteLevel(true, regex)); len(parts) == 1 {
		return parts[0]
	}
	return hfObject{"type": "Sequence", "pretokenizers": parts}
}

// hfProcessor puts the first token in front, of both texts where two are encoded as a pair.
func (s *source) hfProcessor() any {
	if !s.addBOS {
		return nil
	}
	id := s.roles[roleBOS]
	text := s.pieces[id]
	special := func(kind int) any { return hfObject{"SpecialToken": hfObject{"id": text, "type_id": kind}} }
	sequence := func(name string, kind int) any { return hfObject{"Sequence": hfObject{"id": name, "type_id": kind}} }
	return hfObject{"type": "TemplateProcessing",
		"single":         []any{special(0), sequence("A", 0)},
		"pair":           []any{special(0), sequence("A", 0), special(1), sequence("B", 1)},
		"special_tokens": hfObject{text: hfObject{"id": text, "ids": []ID{id}, "tokens": []string{text}}}}
}
