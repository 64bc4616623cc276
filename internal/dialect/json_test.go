package dialect

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"tinyloop/internal/fault"
)

func TestCheckAcceptsAndRefuses(t *testing.T) {
	for body, ok := range map[string]bool{
		`{}`: true, ` {"a":[1,-2.5e+3,"x\u00e9\"",true,false,null,{}]} `: true, `{"a":0.1E-2}`: true, "{\"a\":\"\u2028\"}": true,
		``: false, `{`: false, `{"a"}`: false, `{"a":1,}`: false, `[1,]`: false, `{"a":NaN}`: false, `{"a":-Infinity}`: false, `{"a":Infinity}`: false,
		`{"a":01}`: false, `{"a":1.}`: false, `{"a":.5}`: false, `{"a":+1}`: false, `{} {}`: false, `{}x`: false, `{'a':1}`: false, `{"a":"` + "\n" + `"}`: false,
		`{"a":"\x"}`: false, `{"a":"\u12"}`: false, "{\"a\":\"\xff\"}": false, `{"a":tru}`: false, `{a:1}`: false, "{\"a\":\"\xed\xa0\x80\"}": false,
	} {
		if err := check([]byte(body)); (err == nil) != ok {
			t.Errorf("%q: %v", body, err)
		} else if err != nil && fault.Of(err) != fault.Malformed {
			t.Errorf("%q: kind %v", body, fault.Of(err))
		}
	}
}

func TestDepth(t *testing.T) {
	deep := func(n int) []byte { return []byte(strings.Repeat(`[`, n) + strings.Repeat(`]`, n)) }
	if err := check(deep(MaxDepth)); err != nil {
		t.Errorf("%d levels: %v", MaxDepth, err)
	}
	if err := check(deep(MaxDepth + 1)); err == nil {
		t.Errorf("%d levels are accepted", MaxDepth+1)
	}
	if err := check(deep(1 << 20)); err == nil {
		t.Error("a million levels are accepted")
	}
}

func TestSyntaxErrorTellsThePlace(t *testing.T) {
	err := check([]byte("{\n  \"a\": [1 2]}"))
	if err == nil || !strings.Contains(err.Error(), "line 2 column 11 (byte 12)") {
		t.Errorf("%v", err)
	}
}

// FuzzCheck compares the checker with the standard library's, apart from what is stricter here on purpose.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{`{"a":[1,2,{"b":"\ud83c\udf36"}]}`, `[`, `"\ud800"`, `-0.0e-0`, "\xef\xbb\xbf{}", `nul`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err := check(b)
		if err == nil {
			readAll(t, b)
		}
		if !utf8.Valid(b) || strings.Count(string(b), "[")+strings.Count(string(b), "{") > MaxDepth {
			return
		}
		if (err == nil) != json.Valid(b) {
			t.Fatalf("%q: %v, but the standard library says %v", b, err, json.Valid(b))
		}
	})
}

// readAll walks all of a checked text through the lazy readers and compares with the standard decoder.
func readAll(t *testing.T, b []byte) {
	t.Helper()
	var want any
	if err := json.Unmarshal(b, &want); err != nil {
		return // numbers too large for a float
	}
	v := Value{doc: &Doc{}, raw: []byte(strings.Trim(string(b), " \t\r\n"))}
	if got := tree(v); !reflect.DeepEqual(got, want) {
		t.Fatalf("%q: read as %#v, want %#v", b, got, want)
	}
}

func tree(v Value) any {
	switch {
	case v.raw[0] == 'n':
		return nil
	case v.IsString():
		return v.String()
	case v.IsNumber():
		return v.Float()
	case v.IsArray():
		out := []any{}
		v.Each(func(_ int, e Value) { out = append(out, tree(e)) })
		return out
	case v.IsObject():
		out := map[string]any{}
		v.Object().Pairs(func(name string, e Value) { out[name] = tree(e) })
		return out
	}
	return v.Bool()
}

func TestNumbers(t *testing.T) {
	o, err := ParseObject([]byte(`{"a":9223372036854775807,"b":18446744073709551615,"c":-1,"d":1e3,"e":2.0,"f":1e999,"g":2.5,"h":9007199254740993,"i":"7","j":-9223372036854775808}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint64{"a": math.MaxInt64, "b": math.MaxUint64, "c": math.MaxUint64, "d": 1000, "h": 9007199254740993, "j": 1 << 63} {
		if got := *o.Seed(name); got != want {
			t.Errorf("seed %s = %d, want %d", name, got, want)
		}
	}
	if *o.Int("d") != 1000 || *o.Int("e") != 2 {
		t.Error("whole numbers in other forms are integers too")
	}
	if o.Err() != nil {
		t.Fatal(o.Err())
	}
	o.Float("f")
	o.Int("g")
	o.Int("h")
	o.Int("i")
	o.Seed("g")
	p := o.Err().(*Problems)
	if len(p.List) != 5 {
		t.Fatalf("%d problems, want 5", len(p.List))
	}
	if p.List[0].Field != "f" || !strings.Contains(p.List[0].Msg, "finite") || p.List[3].Msg != `i must be an integer, got a string` {
		t.Errorf("%v; %v", p.List[0], p.List[3])
	}
}

func TestObject(t *testing.T) {
	o, err := ParseObject([]byte("\xef\xbb\xbf" + ` {"a":1,"a":2,"n":null,"x":"y","m":[{"c":5}],"a\u0062":true} `))
	if err != nil {
		t.Fatal(err)
	}
	if *o.Int("a") != 2 {
		t.Error("the last of equal names must win")
	}
	if o.Int("n") != nil || o.Get("n").Present() || o.Flag("n", true) != true {
		t.Error("null must count as absent")
	}
	if !o.Flag("ab", false) {
		t.Error("escaped names must be decoded")
	}
	o.Get("m").Each(func(_ int, e Value) {
		if s := e.Object().Str("c"); s != "" {
			t.Errorf("c = %q", s)
		}
	})
	if err := o.Err(); err == nil || fault.As(err).Field != "m[0].c" || fault.As(err).Msg != "m[0].c must be a string, got a number" {
		t.Errorf("%v", err)
	}
	o.Done()
	if got := o.Ignored(); !reflect.DeepEqual(got, []string{"x"}) {
		t.Errorf("ignored %v", got)
	}
}

func TestFind(t *testing.T) {
	body := []byte(`{"messages":[{"role":"a"},{"content":["x",{"type":7}]}],"n":3}`)
	for path, want := range map[string]string{"n": "3", "messages[0].role": `"a"`, "messages[1].content[1].type": "7", "messages[5]": "", "nope": "", "n.x": ""} {
		if got := string(Find(body, path)); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func TestAppendString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "s"))
		if rapid.Bool().Draw(t, "text") {
			s = rapid.String().Draw(t, "str")
		}
		got := AppendString(nil, s)
		var back string
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		var bytewise strings.Builder // every bad byte becomes one mark, as ranging over a string does
		for _, r := range s {
			bytewise.WriteRune(r)
		}
		if back != bytewise.String() {
			t.Fatalf("%q came back as %q", s, back)
		}
	})
}

func TestAppendNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{string(AppendTenths(nil, 13)), "13.0"}, {string(AppendTenths(nil, 1.94)), "1.9"}, {string(AppendTenths(nil, math.NaN())), "null"},
		{string(AppendRate(nil, 0)), "null"}, {string(AppendRate(nil, 2071.5)), "2071.5"}, {string(AppendFloat32(nil, -9999)), "-9999"},
		{string(AppendFloat(nil, math.Inf(-1))), "null"}, {string(AppendFloat32(nil, -0.1)), "-0.1"}, {string(AppendBytes(nil, []byte{1, 255})), "[1,255]"},
		{string(AppendInts(nil, nil)), "[]"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

func TestHugeBodyTakesLittleMemory(t *testing.T) {
	body := []byte(`{"prompt":[` + strings.Repeat("1,", 1<<20) + `1],"x":"y"}`)
	allocs := testing.AllocsPerRun(3, func() {
		o, err := ParseObject(body)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(o.Get("prompt").IDs()); n != 1<<20+1 {
			t.Fatalf("%d ids", n)
		}
	})
	if allocs > 64 {
		t.Errorf("%v allocations for a list of ids", allocs)
	}
}

func BenchmarkParseIDs(b *testing.B) {
	body := []byte(`{"prompt":[` + strings.Repeat("12345,", 4096) + `1],"max_tokens":5}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		o, err := ParseObject(body)
		if err != nil || len(o.Get("prompt").IDs()) != 4097 {
			b.Fatal(err)
		}
	}
}
