package grammar

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// stop is the id that ends an answer in the vocabulary of the tests.
const stop = int32(256)

// words is a vocabulary of the 256 bytes, an end, and tokens that cross every border there is.
func words(t testing.TB) *Vocabulary {
	t.Helper()
	own := []string{"", `{"`, `":`, `": `, `","`, `",`, `"}`, `"}]`, `}}`, `]}`, `},{`, `[[`, `{}`, `[]`, `true`, `false`, `nul`, `12`, `-0`, `0.`, `1e`, "\n  ", "  ",
		"\n      \"", "name", "a", "ab", "é", "\xc3", "\xa9x", "€", "\xf0\x9f", "\x98\x80", `\u`, `\ud8`, `\"`, `\\`, `x"`, `"a":`, `"name": "`, "<tool_call>", "</tool_call>",
		"</tool", `<tool_call>{"name`, `"}}</tool_call>`, strings.Repeat(" ", 30), strings.Repeat("word", 40), "12345678901234567890"}
	var texts [][]byte
	for b := range 256 {
		texts = append(texts, []byte{byte(b)})
	}
	for _, s := range own {
		texts = append(texts, []byte(s))
	}
	v, err := NewVocabulary(len(texts), func(id int32) []byte { return texts[id] })
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// write walks at random until the answer has ended. After hasty tokens it takes what leads to the end soonest.
func write(t testing.TB, m *Matcher, rng *rand.Rand, hasty int) string {
	t.Helper()
	w := m.Walk([]int32{stop})
	var out []int32
	var text []byte
	for {
		mask := w.Mask(out)
		if mask == nil {
			t.Fatalf("everything is allowed behind %q", text)
		}
		ids := idsOf(mask)
		if len(ids) == 0 {
			t.Fatalf("nothing is allowed behind %q", text)
		}
		if slices.Contains(ids, stop) != w.Done(out) {
			t.Fatalf("behind %q the end is allowed: %v, complete: %v", text, slices.Contains(ids, stop), w.Done(out))
		}
		if w.Closed(out) && !slices.Equal(ids, []int32{stop}) {
			t.Fatalf("behind %q nothing can follow, but %v are allowed", text, ids)
		}
		id := ids[rng.IntN(len(ids))]
		if len(out) > hasty {
			id = soonest(ids)
		}
		if len(out) > hasty+60_000 {
			t.Fatalf("no end after %d tokens: …%q", len(out), text[max(0, len(text)-200):])
		}
		if id == stop {
			return string(text)
		}
		out = append(out, id)
		text = append(text, m.v.bytes(id)...)
	}
}

// soonest picks what closes, else what is short.
func soonest(ids []int32) int32 {
	for _, id := range []int32{stop, '"', '}', ']', ':', 'a', 'n', 't', '0', '<', ','} {
		if slices.Contains(ids, id) {
			return id
		}
	}
	return ids[0]
}

func idsOf(mask []uint64) (ids []int32) {
	for id := int32(0); int(id) < len(mask)*64; id++ {
		if mask[id/64]>>(id%64)&1 == 1 {
			ids = append(ids, id)
		}
	}
	return ids
}

// obeys checks a value against a schema: the part of JSON Schema that the package understands, written from its definition and without any of its code.
func obeys(top, schema, v any) error {
	if yes, ok := schema.(bool); ok {
		if yes {
			return nil
		}
		return fmt.Errorf("nothing is allowed")
	}
	s := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		to := top
		for _, p := range strings.Split(strings.TrimPrefix(ref, "#"), "/")[1:] {
			to = to.(map[string]any)[p]
		}
		return obeys(top, to, v)
	}
	if list, ok := s["anyOf"].([]any); ok {
		var last error
		for _, o := range list {
			if last = obeys(top, o, v); last == nil {
				return nil
			}
		}
		return last
	}
	if list, ok := s["enum"].([]any); ok && !slices.ContainsFunc(list, func(e any) bool { return same(e, v) }) {
		return fmt.Errorf("%v is none of %v", v, list)
	}
	if c, ok := s["const"]; ok && !same(c, v) {
		return fmt.Errorf("%v is not %v", v, c)
	}
	if err := ofType(s["type"], v); err != nil {
		return err
	}
	switch v := v.(type) {
	case map[string]any:
		return objectObeys(top, s, v)
	case []any:
		if n := float64(len(v)); n < least(s["minItems"]) || n > most(s["maxItems"]) {
			return fmt.Errorf("%v items", n)
		}
		for _, e := range v {
			if items, ok := s["items"]; ok {
				if err := obeys(top, items, e); err != nil {
					return err
				}
			}
		}
	case string:
		if n := float64(utf8.RuneCountInString(v)); n < least(s["minLength"]) || n > most(s["maxLength"]) {
			return fmt.Errorf("%v characters", n)
		}
	}
	return nil
}

func objectObeys(top any, s, v map[string]any) error {
	props, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for _, r := range required {
		if _, ok := v[r.(string)]; !ok {
			return fmt.Errorf("%v is missing", r)
		}
	}
	for k, e := range v {
		p, listed := props[k]
		if !listed {
			if p, listed = s["additionalProperties"]; !listed {
				continue
			}
		}
		if err := obeys(top, p, e); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
	}
	return nil
}

func ofType(want, v any) error {
	if want == nil {
		return nil
	}
	list, ok := want.([]any)
	if !ok {
		list = []any{want}
	}
	for _, w := range list {
		switch x := v.(type) {
		case nil:
			ok = w == "null"
		case bool:
			ok = w == "boolean"
		case float64:
			ok = w == "number" || w == "integer" && x == math.Trunc(x)
		case string:
			ok = w == "string"
		case []any:
			ok = w == "array"
		default:
			ok = w == "object"
		}
		if ok {
			return nil
		}
	}
	return fmt.Errorf("%v is not of type %v", v, want)
}

func same(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

func least(v any) float64 { f, _ := v.(float64); return f }

func most(v any) float64 {
	if f, ok := v.(float64); ok {
		return f
	}
	return math.Inf(1)
}

func matcher(t testing.TB, v *Vocabulary, r Rule) *Matcher {
	t.Helper()
	g, err := Compile(r)
	if err != nil {
		t.Fatal(err)
	}
	return NewMatcher(g, v)
}
