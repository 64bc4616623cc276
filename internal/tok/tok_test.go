package tok

import (
	"bytes"
	"testing"
)

func TestGPT2RoundTrip(t *testing.T) {
	g := GPT2()
	for _, s := range []string{"", " ", "Hello, world!", "a\x7fb\x00\xff\xfe", "don't  stop\n\n  now", "日本語 émoji 😀"} {
		ids := g.Encode(nil, s)
		if got := string(g.Decode(nil, ids)); got != s {
			t.Errorf("%q came back as %q through %v", s, got, ids)
		}
	}
	if ids := g.Encode(nil, "<|endoftext|>"); len(ids) < 2 {
		t.Errorf("user text became control token %v", ids)
	}
	if ids := g.EncodeMarkup(nil, "a<|endoftext|>b"); len(ids) != 3 || ids[1] != 50256 {
		t.Errorf("markup gave %v", ids)
	}
	var all []byte
	for id := range ID(256) {
		all = append(all, g.Bytes(id)...)
	}
	for b := range 256 {
		if bytes.Count(all, []byte{byte(b)}) != 1 {
			t.Errorf("byte %#x stands %d times among the first 256 tokens", b, bytes.Count(all, []byte{byte(b)}))
		}
	}
}
