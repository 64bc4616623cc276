package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tinyloop/internal/fault"
)

// schemas that the tests write answers for.
func schemas() []string {
	return []string{
		`{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},"mail":{"type":["string","null"]}},"required":["name","age"],"additionalProperties":false}`,
		`{"type":"object","properties":{"a":{"type":"integer"}}}`,
		`{"type":"object"}`,
		`{"type":"object","additionalProperties":{"type":"array","items":{"enum":[1,12,1.5,"1","12",null]}}}`,
		`{"type":"array","items":{"type":"boolean"},"minItems":2,"maxItems":3}`,
		`{"type":"array","maxItems":0}`,
		`{"type":"string","minLength":3,"maxLength":5}`,
		`{"type":"object","properties":{"o":{"type":"object","properties":{"s":{"type":"string","maxLength":5000}}}}}`,
		`{"type":"string","minLength":200}`,
		`{"type":"number"}`,
		`{"type":"integer"}`,
		`{"enum":["a","ab","é \"x\"",{"k":[1,2]},12,1,true]}`,
		`{"const":{"é":"\u20ac"}}`,
		`{"type":"string","enum":["left",3,"right"]}`,
		`true`,
		`{}`,
		`{"anyOf":[{"type":"object","properties":{"kind":{"const":"a"},"x":{"type":"integer"}},"required":["kind","x"],"additionalProperties":false},
			{"type":"object","properties":{"kind":{"const":"ab"},"y":{"type":"string"}},"required":["kind","y"],"additionalProperties":false},{"type":"null"}]}`,
		`{"$defs":{"tree":{"type":"object","properties":{"v":{"type":"integer"},"l":{"anyOf":[{"$ref":"#/$defs/tree"},{"type":"null"}]},"r":{"$ref":"#/$defs/tree"}},"required":["v","l"],"additionalProperties":false}},"$ref":"#/$defs/tree"}`,
		`{"type":"array","items":{"$ref":"#"}}`,
		`{"type":"object","properties":{"aa":{"type":"null"},"ab":{"type":"null"},"b":{"type":"null"},"abc":{"type":"null"}},"required":["b"],"additionalProperties":false}`,
		`{"type":"object","properties":{},"additionalProperties":false}`,
		`{"type":"object","required":["z","a"]}`,
		`{"minLength":1,"maxItems":1}`,
		`{"type":["array","string","number","boolean"],"items":{"type":["integer","number"]},"maxLength":2}`,
		`{"title":"T","description":"d","definitions":{"x":{"type":"string"}},"type":"object","properties":{"x":{"$ref":"#/definitions/x"},"y":{"$ref":"#/properties/x"}},"required":["x","y"]}`,
	}
}

// Whatever tokens are taken from the masks, the answer is JSON that obeys its schema.
func TestAnswersObey(t *testing.T) {
	v := words(t)
	for _, src := range schemas() {
		m := matcher(t, v, Rule{Format: &Format{Schema: []byte(src), Field: "schema"}})
		seen := map[string]bool{}
		for seed := range uint64(30) {
			check(t, m, src, seed, seen)
		}
		if len(seen) < 2 && !strings.Contains(src, "const") && !strings.Contains(src, `"maxItems":0`) && !strings.Contains(src, `"properties":{},`) {
			t.Errorf("%s: always the same answer %v", src, seen)
		}
	}
}

func check(t testing.TB, m *Matcher, src string, seed uint64, seen map[string]bool) {
	t.Helper()
	text := write(t, m, rand.New(rand.NewPCG(seed, 1)), 40)
	if seen[text] {
		return
	}
	seen[text] = true
	var schema, got any
	if err := json.Unmarshal([]byte(src), &schema); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%s: %q: %v", src, text, err)
	}
	if err := obeys(schema, schema, got); err != nil {
		t.Fatalf("%s: %s: %v", src, text, err)
	}
	if strings.TrimSpace(text) != text {
		t.Fatalf("%q begins or ends with white space", text)
	}
}

// Without a schema an answer is any object.
func TestAnyObject(t *testing.T) {
	m := matcher(t, words(t), Rule{Format: &Format{}})
	for seed := range uint64(200) {
		text := write(t, m, rand.New(rand.NewPCG(seed, 2)), 60)
		var o map[string]any
		if err := json.Unmarshal([]byte(text), &o); err != nil || !strings.HasPrefix(text, "{") {
			t.Fatalf("%q: %v", text, err)
		}
	}
}

// What is JSON in the usual ways of writing it is accepted, token by token or byte by byte; what is not is refused at the byte that breaks it.
func TestAccepts(t *testing.T) {
	v := words(t)
	free := matcher(t, v, Rule{Format: &Format{Schema: []byte(`{}`), Field: "s"}})
	for _, text := range []string{
		`{"a": 1, "b": [true, false, null], "c": {"d": "e"}}`, "{\n  \"a\": [\n    1,\n    2\n  ]\n}", `[]`, `[ ]`, `{ "a": -0.5e+10 }`, `"é€😀\n\u00e9"`, `0`, `-1`, `1E5`, `""`,
	} {
		if at := breaks(free, text); at >= 0 {
			t.Errorf("%q is refused at byte %d", text, at)
		}
	}
	for text, want := range map[string]int{
		`{"a":1,}`: 7, `01`: 1, `1.`: 2, `.5`: 0, `+1`: 0, ` 1`: 0, `{"a" :1}`: 4, "{\"a\":\t1}": 5, `"\ud800"`: 4, `"\x"`: 2, "\"\n\"": 1, "\"\xff": 1, "\"\xc0\x80": 1, "\"\xed\xa0\x80": 2,
		`[1 ,2]`: 3, `[1,,2]`: 3, `{} `: 2, `nul1`: 3, `{"a":1}}`: 7, `1e400`: 4, `{1:2}`: 1, "[\n" + strings.Repeat(" ", 17): 18, `[  1]`: 2, "": 0,
	} {
		if at := breaks(free, text); at != want {
			t.Errorf("%q is refused at byte %d, want %d", text, at, want)
		}
	}
}

// breaks gives the first byte that a matcher refuses, len(text) if the answer may not end there, -1 when all is well.
func breaks(m *Matcher, text string) int {
	var s, next State
	m.g.Start(&s)
	for i := range len(text) {
		m.g.Feed(&next, &s, text[i])
		if s, next = next, s; s.Dead() {
			return i
		}
	}
	if !m.g.Done(&s) {
		return len(text)
	}
	return -1
}

// The mask is exactly the tokens whose bytes are accepted one by one, in every state that a walk comes through.
func TestMaskIsExact(t *testing.T) {
	v := words(t)
	for _, src := range schemas() {
		m := matcher(t, v, Rule{Format: &Format{Schema: []byte(src), Field: "s"}})
		rng := rand.New(rand.NewPCG(7, 7))
		w := m.Walk([]int32{stop})
		var out []int32
		for range 25 {
			mask := w.Mask(out)
			for id := range int32(v.size) {
				if id == stop {
					continue
				}
				var to State
				m.feed(&to, w.state(), v.bytes(id))
				if got := mask[id/64]>>(id%64)&1 == 1; got == to.Dead() {
					t.Fatalf("%s behind %v: token %q allowed %v", src, out, v.bytes(id), got)
				}
			}
			ids := slices.DeleteFunc(idsOf(mask), func(id int32) bool { return id == stop })
			if len(ids) == 0 {
				break
			}
			out = append(out, ids[rng.IntN(len(ids))])
		}
	}
}

// A walker gives the same masks whatever was asked of it before: guesses that were wrong leave no trace.
func TestWalkerTakesBack(t *testing.T) {
	v := words(t)
	m := matcher(t, v, Rule{Format: &Format{}})
	rng := rand.New(rand.NewPCG(5, 6))
	w := m.Walk([]int32{stop})
	var out []int32
	for len(out) < 300 {
		mask := slices.Clone(w.Mask(out))
		if fresh := m.Walk([]int32{stop}).Mask(out); !slices.Equal(mask, fresh) {
			t.Fatalf("the mask behind %d tokens depends on what was asked before", len(out))
		}
		ids := slices.DeleteFunc(idsOf(mask), func(id int32) bool { return id == stop })
		if len(ids) == 0 {
			break
		}
		guess := slices.Clone(out)
		for range rng.IntN(90) {
			g := slices.DeleteFunc(idsOf(w.Mask(guess)), func(id int32) bool { return id == stop })
			if len(g) == 0 {
				w.Mask(append(guess, stop))
				break
			}
			guess = append(guess, g[rng.IntN(len(g))])
		}
		out = append(out, ids[rng.IntN(len(ids))])
	}
}

func TestCalls(t *testing.T) {
	v := words(t)
	functions := []Function{{Name: "now"}, {Name: "add", Schema: []byte(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}`), Field: "p"}}
	calls := Calls{Functions: functions, Open: "<tool_call>", Close: "</tool_call>", Most: 3}
	m := matcher(t, v, Rule{Calls: &calls})
	names := map[string]int{}
	for seed := range uint64(100) {
		text := write(t, m, rand.New(rand.NewPCG(seed, 3)), 60)
		n := 0
		for rest := text; rest != ""; n++ {
			rest = strings.TrimPrefix(rest, "\n")
			call, after, ok := strings.Cut(strings.TrimPrefix(rest, "<tool_call>"), "</tool_call>")
			for ok && !json.Valid([]byte(call)) { // the mark may stand within a string
				more, behind, found := strings.Cut(after, "</tool_call>")
				call, after, ok = call+"</tool_call>"+more, behind, found
			}
			var c struct {
				Name      string
				Arguments map[string]any
			}
			if err := json.Unmarshal([]byte(call), &c); err != nil || !ok || c.Arguments == nil {
				t.Fatalf("%q: %v", text, err)
			}
			names[c.Name]++
			if _, has := c.Arguments["a"].(float64); c.Name == "add" && !has {
				t.Fatalf("%q has no a", text)
			}
			rest = after
		}
		if n < 1 || n > 3 {
			t.Fatalf("%q has %d calls", text, n)
		}
	}
	if names["now"] == 0 || names["add"] == 0 || len(names) != 2 {
		t.Errorf("calls: %v", names)
	}
	for text, want := range map[string]int{
		`<tool_call>{"name":"now","arguments":{}}</tool_call>`:                      -1,
		"<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>": -1,
		`<tool_call>{"name":"nope"`:                                                 22,
		`hello`:                                                                     0,
		`<tool_call>{"name":"now","arguments":{}}</tool_call>x`:                     52,
	} {
		if at := breaks(m, text); at != want {
			t.Errorf("%q is refused at byte %d, want %d", text, at, want)
		}
	}
}

// In a free text anything may stand, and what follows a mark is a call.
func TestFreeText(t *testing.T) {
	v := words(t)
	m := matcher(t, v, Rule{Calls: &Calls{Functions: []Function{{Name: "now"}}, Open: "<tool_call>", Close: "</tool_call>", Most: 2, Free: true}})
	call := `<tool_call>{"name":"now","arguments":{}}</tool_call>`
	for text, want := range map[string]int{
		"hello {\xff\x00": -1, "": -1, "<tool_cal": -1, "<<tool_call>": 12, "a" + call + " b": -1, call + call: -1, call + call + "x": 2 * len(call), "a<tool_call>[": 12,
	} {
		if at := breaks(m, text); at != want {
			t.Errorf("%q is refused at byte %d, want %d", text, at, want)
		}
	}
	w := m.Walk([]int32{stop})
	for id := range int32(v.size) {
		if mask := w.Mask(nil); mask != nil && mask[id/64]>>(id%64)&1 == 0 {
			t.Errorf("token %q is not allowed at the start of a free text", v.bytes(id))
		}
	}
}

// Arguments have names: a schema of anything but objects is refused.
func TestArgumentsAreObjects(t *testing.T) {
	for src, ok := range map[string]bool{`{"type":"string"}`: false, `{"type":["object","null"]}`: false, `{}`: false, `{"properties":{"a":{}}}`: true, `{"$defs":{"x":{"type":"object"}},"$ref":"#/$defs/x"}`: true} {
		_, err := Compile(Rule{Calls: &Calls{Functions: []Function{{Name: "f", Schema: []byte(src), Field: "p"}}, Open: "<", Most: 1}})
		if (err == nil) != ok || err != nil && (fault.Of(err) != fault.Invalid || fault.As(err).Field != "p") {
			t.Errorf("%s: %v", src, err)
		}
	}
}

// Of a format and calls, an answer is one or the other.
func TestFormatOrCalls(t *testing.T) {
	m := matcher(t, words(t), Rule{Format: &Format{}, Calls: &Calls{Functions: []Function{{Name: "now"}}, Open: "<tool_call>", Close: "</tool_call>", Most: 1}})
	for text, want := range map[string]int{`{"a":1}`: -1, `<tool_call>{"name":"now","arguments":{}}</tool_call>`: -1, `{"a":1}<`: 7, `[`: 0} {
		if at := breaks(m, text); at != want {
			t.Errorf("%q is refused at byte %d, want %d", text, at, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	deep := strings.Repeat(`{"type":"array","minItems":1,"items":`, 63) + `{}` + strings.Repeat("}", 63)
	for src, want := range map[string]struct {
		field string
		kind  fault.Kind
	}{
		`123`:                                  {"f", fault.Invalid},
		`false`:                                {"f", fault.Invalid},
		`{"type":123}`:                         {"f.type", fault.Invalid},
		`{"type":"hiccup"}`:                    {"f.type", fault.Invalid},
		`{"type":[]}`:                          {"f.type", fault.Invalid},
		`{"type":"string","pattern":"^a\\!$"}`: {"f.pattern", fault.Unsupported},
		`{"type":"object","properties":{"score":{"type":"integer"}},"patternProperties":{"^score$":{}}}`: {"f.patternProperties", fault.Unsupported},
		`{"properties":{"a":{"items":{"oneOf":[]}}}}`:                                                    {"f.properties.a.items.oneOf", fault.Unsupported},
		`{"properties":{"a":{"minimum":1}}}`:                                                             {"f.properties.a.minimum", fault.Unsupported},
		`{"anyOf":[{"type":"string"},{"format":"date"}]}`:                                                {"f.anyOf[1].format", fault.Unsupported},
		`{"anyOf":[{"type":"string"}],"type":"string"}`:                                                  {"f.type", fault.Unsupported},
		`{"enum":["a"],"maxLength":1}`:                                                                   {"f.maxLength", fault.Unsupported},
		`{"enum":[]}`:                                                                                    {"f.enum", fault.Invalid},
		`{"type":"string","enum":[1]}`:                                                                   {"f.enum", fault.Invalid},
		`{"minItems":3,"maxItems":2}`:                                                                    {"f.minItems", fault.Invalid},
		`{"minLength":-1}`:                                                                               {"f.minLength", fault.Invalid},
		`{"minLength":1.5}`:                                                                              {"f.minLength", fault.Invalid},
		`{"maxItems":99999999999}`:                                                                       {"f.maxItems", fault.Invalid},
		`{"required":["a"],"additionalProperties":false}`:                                                {"f.required", fault.Invalid},
		`{"required":"a"}`:                                                                               {"f.required", fault.Invalid},
		`{"properties":[]}`:                                                                              {"f.properties", fault.Invalid},
		`{"$ref":"#/$defs/x"}`:                                                                           {"f.$ref", fault.Invalid},
		`{"$ref":"https://example.com/schema"}`:                                                          {"f.$ref", fault.Invalid},
		`{"$ref":"#"}`:                                                                                   {"f", fault.Invalid},
		`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`: {"f", fault.Invalid},
		`{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}`:               {"f", fault.Invalid},
		`{"type":"array","items":{"$ref":"#"},"minItems":1}`:                               {"f", fault.Invalid},
		deep:                             {"f", fault.Invalid},
		`{"a`:                            {"f", fault.Invalid},
		`{} {}`:                          {"f", fault.Invalid},
		"{\"const\":\"\xff\"}":           {"f", fault.Invalid},
		strings.Repeat("[", 100_000):     {"f", fault.Invalid},
		strings.Repeat(" ", MaxSchema+1): {"f", fault.Invalid},
		`{"anyOf":[` + strings.Repeat(`{},`, maxThreads) + `{}]}`:                                               {"f.anyOf", fault.Invalid},
		`{"anyOf":[` + strings.Repeat(`{"type":"null"},`, maxThreads-1) + `{"type":["null","string"]}]}`:        {"f", fault.Invalid},
		`{"anyOf":[` + strings.TrimSuffix(strings.Repeat(`[`+strings.Repeat(`{},`, 100)+`{}],`, 3), ",") + `]}`: {"f.anyOf[0]", fault.Invalid},
	} {
		_, err := Compile(Rule{Format: &Format{Schema: []byte(src), Field: "f"}})
		var e *fault.Error
		if !errors.As(err, &e) || e.Field != want.field || e.Kind != want.kind {
			t.Errorf("%.100s: %v, field %q; want %v of %q", src, err, fieldOf(e), want.kind, want.field)
		}
	}
}

// TestRefusalsTellTheValue: an error says what stood where something else should.
func TestRefusalsTellTheValue(t *testing.T) {
	for src, want := range map[string]string{
		`false`:               "true, got false",
		`null`:                "true, got null",
		`{"type":123}`:        "got 123",
		`{"type":["hiccup"]}`: `got "hiccup"`,
		`{"type":[]}`:         "got an empty list",
		`{"enum":{}}`:         "got an object",
		`{"minLength":-1}`:    "from 0 to 1073741824, got -1",
		`{"maxItems":"` + strings.Repeat("9", 99) + `"}`: "9…",
		`{"required":"a"}`:  `got "a"`,
		`{"required":[1]}`:  "got a list",
		`{"properties":[]}`: "got an empty list",
		`{"anyOf":1e999}`:   "got 1e999",
	} {
		if _, err := Compile(Rule{Format: &Format{Schema: []byte(src), Field: "f"}}); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 200 {
			t.Errorf("%.40s: %v, want %q", src, err, want)
		}
	}
}

func fieldOf(e *fault.Error) string {
	if e == nil {
		return ""
	}
	return e.Field
}

// The sizes of what a request may send are bounded, and within them a schema compiles at once: llama.cpp 25746 took nested lengths apart into rules.
func TestLargeSchemas(t *testing.T) {
	var props []string
	for i := range 2000 {
		props = append(props, fmt.Sprintf(`"p%d":{"type":"string","maxLength":%d}`, i, 1000+i))
	}
	wide := `{"type":"object","properties":{` + strings.Join(props, ",") + `},"additionalProperties":false}`
	start := time.Now()
	m := matcher(t, words(t), Rule{Format: &Format{Schema: []byte(wide), Field: "f"}})
	write(t, m, rand.New(rand.NewPCG(1, 1)), 200)
	t.Logf("%d bytes: %v", len(wide), time.Since(start))
	var many []string
	for i := range maxNodes {
		many = append(many, fmt.Sprintf(`"%d":{}`, i))
	}
	if _, err := Compile(Rule{Format: &Format{Schema: []byte(`{"properties":{` + strings.Join(many, ",") + `}}`), Field: "f"}}); fault.Of(err) != fault.Invalid {
		t.Errorf("more parts than allowed: %v", err)
	}
}

// A schema that can be read in very many ways costs no more than a bounded walk, and its answers obey all the same.
func TestManyWays(t *testing.T) {
	var alts []string
	for i := range maxThreads {
		alts = append(alts, fmt.Sprintf(`{"type":"object","properties":{"a":{"type":"string"},"k":{"const":%d}},"required":["a","k"],"additionalProperties":false}`, i))
	}
	src := `{"anyOf":[` + strings.Join(alts, ",") + `]}`
	texts := make([][]byte, 257, 1<<15)
	for b := range 256 {
		texts[b] = []byte{byte(b)}
	}
	for i := range cap(texts) - len(texts) {
		texts = append(texts, fmt.Appendf(nil, "w%x", i*2654435761%(1<<24)))
	}
	v, err := NewVocabulary(len(texts), func(id int32) []byte { return texts[id] })
	if err != nil {
		t.Fatal(err)
	}
	m := matcher(t, v, Rule{Format: &Format{Schema: []byte(src), Field: "f"}})
	start := time.Now()
	for seed := range uint64(3) {
		check(t, m, src, seed, map[string]bool{})
	}
	t.Logf("%d masks in %v", len(m.masks), time.Since(start))
}

// Nothing nests deeper than the bound, and at the bound everything can still be closed.
func TestDepthIsBounded(t *testing.T) {
	m := matcher(t, words(t), Rule{Format: &Format{Schema: []byte(`{"type":"array","items":{"$ref":"#"}}`), Field: "f"}})
	if at := breaks(m, strings.Repeat("[", maxFrames)+strings.Repeat("]", maxFrames)); at >= 0 {
		t.Errorf("%d lists are refused at byte %d", maxFrames, at)
	}
	if at := breaks(m, strings.Repeat("[", maxFrames+1)); at != maxFrames {
		t.Errorf("list %d is refused at byte %d", maxFrames+1, at)
	}
}

func TestVocabularyWithoutAByte(t *testing.T) {
	_, err := NewVocabulary(255, func(id int32) []byte {
		if id == '{' {
			return nil
		}
		return []byte{byte(id)}
	})
	if fault.Of(err) != fault.Unsupported || !strings.Contains(err.Error(), "0x7b") {
		t.Errorf("got %v", err)
	}
}

// A token costs no memory once the masks are known.
func TestNoAllocations(t *testing.T) {
	v := words(t)
	m := matcher(t, v, Rule{Format: &Format{}})
	ids := func(text string) (out []int32) {
		for _, b := range []byte(text) {
			out = append(out, int32(b))
		}
		return out
	}
	out := ids(strings.Repeat(`{"a":[1,"b"`, 1) + strings.Repeat(`,"c"`, 200))
	w := m.Walk([]int32{stop})
	run := func() {
		for i := range out {
			w.Mask(out[:i])
		}
	}
	run()
	run()
	if n := testing.AllocsPerRun(3, run); n != 0 {
		t.Errorf("%v allocations for %d tokens", n, len(out))
	}
}

func FuzzSchema(f *testing.F) {
	for _, s := range schemas() {
		f.Add([]byte(s), uint64(1))
	}
	v := words(f)
	f.Fuzz(func(t *testing.T, src []byte, seed uint64) {
		g, err := Compile(Rule{Format: &Format{Schema: bytes.Clone(src), Field: "f"}})
		if err != nil {
			var e *fault.Error
			if !errors.As(err, &e) || !strings.HasPrefix(e.Field, "f") || e.Kind == fault.Internal {
				t.Fatalf("%q: %v", src, err)
			}
			return
		}
		text := write(t, NewMatcher(g, v), rand.New(rand.NewPCG(seed, 9)), 20)
		var got, schema any
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%q: %q: %v", src, text, err)
		}
		if json.Unmarshal(src, &schema) == nil && !strings.Contains(string(src), "$ref") {
			if err := obeys(schema, schema, got); err != nil {
				t.Fatalf("%q: %q: %v", src, text, err)
			}
		}
	})
}

func FuzzMask(f *testing.F) {
	for i := range schemas() {
		f.Add(uint8(i), []byte("abc"))
	}
	v := words(f)
	all := make([]*Matcher, len(schemas()))
	for i, src := range schemas() {
		all[i] = matcher(f, v, Rule{Format: &Format{Schema: []byte(src), Field: "f"}})
	}
	f.Fuzz(func(t *testing.T, which uint8, picks []byte) {
		i := int(which) % len(all)
		w := all[i].Walk([]int32{stop})
		var out []int32
		var text []byte
		for k := 0; ; k++ {
			ids := idsOf(w.Mask(out))
			id := soonest(ids)
			if k < len(picks) {
				id = ids[int(picks[k])%len(ids)]
			}
			if id == stop {
				break
			}
			out, text = append(out, id), append(text, v.bytes(id)...)
		}
		var got, schema any
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		json.Unmarshal([]byte(schemas()[i]), &schema)
		if err := obeys(schema, schema, got); err != nil {
			t.Fatalf("%s: %q: %v", schemas()[i], text, err)
		}
	})
}
