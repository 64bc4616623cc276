package tok

import (
	"fmt"
	"sync"

	"github.com/tiktoken-go/tokenizer/codec"
)

// GPT2 is the tokenizer of GPT-2 (50257 tokens). It is built on first use and shared.
func GPT2() *Tokenizer { return gpt2() }

var gpt2 = sync.OnceValue(func() *Tokenizer {
	table := codec.NewR50kBase()
	texts := make([]string, 50256)
	for i := range texts {
		texts[i], _ = table.Decode([]uint{uint(i)})
	}
	texts[221] = "\x7f" // the table leaves this one out
	t, err := fromRanks(texts, preTable[0].pre, "<|endoftext|>")
	if err != nil {
		panic(fmt.Sprintf("tok: the compiled-in vocabulary is broken: %v", err))
	}
	return t
})

// fromRanks makes a byte-level BPE from a table of texts in the order of their ids, which is also the order of merges: the first 256 are the
// single bytes, each later one joins two earlier ones. end is the text of the control token behind them.
func fromRanks(texts []string, p pre, end string) (*Tokenizer, error) {
	s := newSource(kindBPE)
	s.pre = p
	for _, text := range texts {
		s.pieces = append(s.pieces, toByteLevel(text))
		s.types = append(s.types, typeNormal)
	}
	s.pieces = append(s.pieces, end)
	s.types = append(s.types, typeControl)
	s.roles[roleBOS], s.roles[roleEOS] = ID(len(texts)), ID(len(texts))
	var err error
	if s.merges, err = recoverMerges(texts); err != nil {
		return nil, err
	}
	return build(s)
}

// recoverMerges finds the pair that each text was made of: what the merges before it leave of its bytes.
func recoverMerges(texts []string) ([][2]ID, error) {
	t := Tokenizer{pairs: newPairs(len(texts))}
	for b := range t.bytes {
		t.bytes[b] = -1
	}
	var out [][2]ID
	var r row
	for i, text := range texts {
		if len(text) == 1 {
			t.bytes[text[0]] = ID(i)
			continue
		}
		t.fillBytes(&r, []byte(text))
		t.merge(&r)
		if len(r.ids) != 2 || r.ids[0] < 0 || r.ids[1] < 0 {
			return nil, fmt.Errorf("token %d (%q) is not made of two earlier ones", i, text)
		}
		t.pairs.insert(r.ids[0], r.ids[1], uint32(len(out)), ID(i))
		out = append(out, [2]ID{r.ids[0], r.ids[1]})
	}
	return out, nil
}
