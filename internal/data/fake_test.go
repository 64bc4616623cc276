package data

import (
	"strings"

	"tinyloop/internal/chat"
	"tinyloop/internal/tok"
)

// byteTok is a tokenizer of bytes, in which a blank joins the byte after it, as it joins the word in real ones; control tokens above.
type byteTok struct{ bos bool }

var byteControls = []string{"<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>", OpenCall, CloseCall, "system", "user", "assistant", "tool"}

const byteVocab = 512 + 16

func (byteTok) Encode(dst []tok.ID, s string) []tok.ID {
	for i := 0; i < len(s); i++ {
		if s[i] == ' ' && i+1 < len(s) && s[i+1] != ' ' {
			i++
			dst = append(dst, 256+tok.ID(s[i]))
			continue
		}
		dst = append(dst, tok.ID(s[i]))
	}
	return dst
}

func (b byteTok) EncodeSpans(dst []tok.ID, spans []tok.Span) []tok.ID {
	for _, p := range spans {
		if !p.Markup {
			dst = b.Encode(dst, p.Text)
			continue
		}
		dst = b.markup(dst, p.Text)
	}
	return dst
}

func (b byteTok) markup(dst []tok.ID, s string) []tok.ID {
next:
	for s != "" {
		for i, c := range byteControls {
			if strings.HasPrefix(s, c) {
				dst = append(dst, 512+tok.ID(i))
				s = s[len(c):]
				continue next
			}
		}
		dst = b.Encode(dst, s[:1])
		s = s[1:]
	}
	return dst
}

func (byteTok) Bytes(id tok.ID) []byte {
	switch {
	case id < 256:
		return []byte{byte(id)}
	case id < 512:
		return []byte{' ', byte(id - 256)}
	}
	return nil
}

func (byteTok) Size() int                { return byteVocab }
func (byteTok) Hash() [32]byte           { return [32]byte{1, 2, 3} }
func (byteTok) BOS() tok.ID              { return 512 }
func (byteTok) EOS() tok.ID              { return 513 }
func (b byteTok) AddBOS() bool           { return b.bos }
func (byteTok) Kind() string             { return "bpe" }
func (byteTok) IsControl(id tok.ID) bool { return id >= 512 && int(id) < 512+len(byteControls) }
func (t byteTok) Piece(id tok.ID) string {
	if t.IsControl(id) {
		return byteControls[id-512]
	}
	return string(t.Bytes(id))
}
func newCoder() *Coder { return NewCoder(byteTok{bos: true}, chat.ChatML()) }
func show(ids []tok.ID) string {
	var b strings.Builder
	for _, id := range ids {
		if id >= 512 {
			b.WriteString("⟨" + strings.Trim(byteControls[id-512], "<|>") + "⟩")
			continue
		}
		b.Write(byteTok{}.Bytes(id))
	}
	return b.String()
}

// learned shows what of an encoded document is learned, ranges set apart.
func learned(t *Tokens) string {
	var out []string
	for _, r := range t.Learn {
		out = append(out, show(t.IDs[r.Start:r.End]))
	}
	return strings.Join(out, "|")
}
