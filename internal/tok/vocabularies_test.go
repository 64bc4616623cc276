package tok_test

import (
	"strings"
	"testing"
)

// TestHardTexts: texts of every odd kind survive every vocabulary, at once and streamed, and none becomes a control token.
func TestHardTexts(t *testing.T) {
	var plane strings.Builder
	for r := rune(0); r < 0x10000; r++ {
		if r < 0xd800 || r > 0xdfff {
			plane.WriteRune(r)
		}
	}
	texts := []string{
		plane.String(), "\xed\xa0\x80\xed\xbf\xbf", "\xc0\xaf\xe0\x80\xaf\xf8\x88\x80\x80\x80", "👩‍👩‍👧‍👦🏳️‍🌈👍🏽🇨🇭 ❤️‍🔥1️⃣",
		"e" + strings.Repeat("\u0301", 3000), strings.Repeat(" ", 5000) + "x\t\t \u00a0\u2003\r\n\n ", strings.Repeat("1234567890", 500),
		strings.Repeat("ß", 5000) + strings.Repeat("A", 5000), "▁▁a▁ ▁", "né\xc3", "a\x00\x00b", "I'll WE'VE don't 'S’s ſ's",
		"<|endoftext|><s></s>[INST]<|im_start|><0x41><unk><|eot_id|>",
	}
	for _, name := range vocabularies {
		tk := load(t, name)
		for _, text := range texts {
			roundTrip(t, tk, text)
		}
	}
}
