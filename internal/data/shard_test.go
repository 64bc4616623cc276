package data

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tinyloop/internal/fault"
	"tinyloop/internal/tok"
)

func drawTokens(t *rapid.T, vocab, longest int) Tokens {
	n := rapid.IntRange(1, longest).Draw(t, "len")
	x := Tokens{IDs: make([]tok.ID, n)}
	for i := range x.IDs {
		x.IDs[i] = tok.ID(rapid.IntRange(0, vocab-1).Draw(t, "id"))
	}
	for at := 0; at < n; {
		lo := at + rapid.IntRange(0, n).Draw(t, "gap")
		hi := lo + rapid.IntRange(1, n).Draw(t, "run")
		if hi > n {
			break
		}
		x.Learn = append(x.Learn, Range{uint32(lo), uint32(hi)})
		at = hi
	}
	if rapid.Bool().Draw(t, "traced") {
		x.Traces = []Trace{{At: uint32(n - 1), Step: 1, ID: x.IDs[0]}}
	}
	return x
}

func writeShard(t testing.TB, path string, vocab int, docs []Tokens) *Shard {
	w := NewShardWriter(vocab, [32]byte{7})
	for i := range docs {
		if err := w.Add(&docs[i], fmt.Sprintf("g/%d", i%3), [32]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Write(path); err != nil {
		t.Fatal(err)
	}
	s, err := OpenShard(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestShardRoundTrip(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		vocab := rapid.SampledFrom([]int{3, 2048, 1 << 16, 1<<16 + 1, 1 << 20}).Draw(r, "vocab")
		docs := make([]Tokens, rapid.IntRange(1, 9).Draw(r, "docs"))
		for i := range docs {
			docs[i] = drawTokens(r, vocab, 40)
		}
		s := writeShard(t, filepath.Join(dir, "x.tlbin"), vocab, docs)
		if want := map[bool]int{true: 2, false: 4}[vocab <= 1<<16]; s.Width != want || s.Vocab != vocab || s.Docs() != len(docs) {
			r.Fatalf("width %d, vocabulary %d, %d documents", s.Width, s.Vocab, s.Docs())
		}
		if err := s.Verify(); err != nil {
			r.Fatal(err)
		}
		for i := range docs {
			got := Tokens{IDs: make([]tok.ID, s.DocLen(i)), Learn: append([]Range(nil), s.Learn(i)...), Traces: append([]Trace(nil), s.Traces(i)...)}
			if err := s.Read(i, 0, got.IDs, make([]byte, 4*len(got.IDs))); err != nil {
				r.Fatal(err)
			}
			if diff := cmp.Diff(docs[i], got); diff != "" {
				r.Fatalf("document %d (-want +got):\n%s", i, diff)
			}
			if s.Group(i) != fmt.Sprintf("g/%d", i%3) {
				r.Fatalf("document %d is of group %s", i, s.Group(i))
			}
		}
		s.Close()
	})
}

func TestShardRefusesBadDocuments(t *testing.T) {
	for name, x := range map[string]Tokens{
		"no tokens":          {},
		"an id too large":    {IDs: []tok.ID{10}},
		"a negative id":      {IDs: []tok.ID{-1}},
		"overlapping ranges": {IDs: []tok.ID{1, 2, 3}, Learn: []Range{{0, 2}, {1, 3}}},
		"an empty range":     {IDs: []tok.ID{1, 2, 3}, Learn: []Range{{1, 1}}},
		"a range too far":    {IDs: []tok.ID{1, 2, 3}, Learn: []Range{{1, 4}}},
		"a trace too far":    {IDs: []tok.ID{1}, Traces: []Trace{{At: 1, Step: 1}}},
		"a trace of step 0":  {IDs: []tok.ID{1}, Traces: []Trace{{}}},
	} {
		if err := NewShardWriter(10, [32]byte{}).Add(&x, "g", [32]byte{}); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// small writes a shard of three documents and gives its bytes.
func small(t testing.TB) (string, []byte) {
	path := filepath.Join(t.TempDir(), "s.tlbin")
	writeShard(t, path, 100, []Tokens{{IDs: []tok.ID{1, 2, 3}, Learn: []Range{{1, 3}}}, {IDs: []tok.ID{4, 5}, Traces: []Trace{{At: 1, Step: 1, ID: 9}}},
		{IDs: []tok.ID{6, 7, 8, 9}, Learn: []Range{{0, 1}, {2, 4}}}})
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, b
}

func reopen(path string, b []byte) error {
	if err := os.WriteFile(path, b, 0o644); err != nil {
		return err
	}
	s, err := OpenShard(path)
	if err == nil {
		err = s.Verify()
		s.Close()
	}
	return err
}

// resum makes the header's own checksum right again, as an attacker would.
func resum(b []byte) {
	binary.LittleEndian.PutUint32(b[headerSize-4:], crc32.Checksum(b[:headerSize-4], crc32.MakeTable(crc32.Castagnoli)))
}

func TestHostileShards(t *testing.T) {
	path, good := small(t)
	for n := range len(good) {
		if err := reopen(path, good[:n]); err == nil || fault.Of(err) != fault.Invalid {
			t.Fatalf("cut after %d of %d bytes: %v", n, len(good), err)
		}
	}
	for i := range good {
		b := append([]byte(nil), good...)
		b[i] ^= 0x41
		if err := reopen(path, b); err == nil {
			t.Errorf("byte %d changed and nothing was said", i)
		}
	}
	for i := 8; i < 64; i++ { // every size in turn made huge, with a right checksum
		b := append([]byte(nil), good...)
		b[i] = 0x7f
		resum(b)
		if err := reopen(path, b); err == nil && i != 20 && i != 21 && i != 22 && i != 23 && i/4 != 4 {
			t.Errorf("byte %d of the header set to 0x7f and nothing was said", i)
		}
	}
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"a web page", []byte("<!DOCTYPE html>" + strings.Repeat(" ", 300)), "not a token shard"},
		{"too short", []byte("TLSHARD\x00"), "8 bytes, a token shard has at least 192"},
		{"more bytes", append(append([]byte(nil), good...), 0), "its header needs"},
	} {
		if err := reopen(path, c.b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := OpenShard(t.TempDir()); err == nil {
		t.Error("a folder was opened as a shard")
	}
}

func FuzzShard(f *testing.F) {
	_, good := small(f)
	f.Add(good)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= headerSize {
			b = append([]byte(nil), b...)
			resum(b)
		}
		s, err := readShard("x", bytes.NewReader(b), int64(len(b)), nil)
		if err != nil {
			return
		}
		l, err := NewLoader([]*Shard{s}, LoaderOptions{Rows: 2, T: 3})
		if err == nil {
			l.Next(0, &Batch{})
		}
	})
}
