package chat

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tinyloop/internal/fault"
)

// A template comes with a model file: whatever it does ends, soon, with an error or a text.
func TestHostileTemplates(t *testing.T) {
	for name, source := range map[string]string{
		"endless range":      "{% for i in range(10**9) %}x{% endfor %}",
		"long range":         "{% for i in range(1000000000) %}x{% endfor %}",
		"ranges in ranges":   "{% for i in range(1000) %}{% for j in range(1000) %}{% for k in range(1000) %}x{% endfor %}{% endfor %}{% endfor %}",
		"backward range":     "{% for i in range(0, -1000000000, -1) %}x{% endfor %}",
		"step 0":             "{% for i in range(0, 5, 0) %}x{% endfor %}",
		"recursion":          "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
		"two recursions":     "{% macro f(x) %}{{ f(x) }}{{ f(x) }}{% endmacro %}{{ f(1) }}",
		"extra arguments":    "{% macro f(x) %}{{ f(x, 1, 2, 3) }}{% endmacro %}{{ f(1, 2, 3) }}",
		"repetition":         "{{ 'a' * 1000000000 }}",
		"negative":           "{{ 'a' * -1 }}{{ raise_exception('x') }}",
		"power":              "{% set n = 10000 %}{{ 'a' * n * n * n }}",
		"doubling":           "{% set ns = namespace(x='0123456789') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
		"doubling in set":    "{% set x = 'a' %}" + strings.Repeat("{% set x = x ~ x %}", 60),
		"wide loop":          "{% for i in range(100000) %}" + strings.Repeat("0123456789", 1000) + "{% endfor %}",
		"wide macro":         "{% macro f() %}" + strings.Repeat("0123456789", 1000) + "{% endmacro %}{% for i in range(100000) %}{{ f() }}{% endfor %}",
		"product in product": "{{ 'a' * (10000 * 10000) }}",
		"long slice":         "{{ messages[0:1000000000000:2] | length }}{{ 'abc'[0:4000000000000:3] }}{{ raise_exception('x') }}",
		"brackets":           "{{ " + strings.Repeat("(", 100000) + "1" + strings.Repeat(")", 100000) + " }}",
		"blocks":             strings.Repeat("{% if 1 %}", 1000) + strings.Repeat("{% endif %}", 1000),
		"size":               strings.Repeat("x", maxSource+1),
		"open tag":           "{{ x",
		"open string":        "{{ 'x }}",
		"no such filter":     "{{ messages | nope }}",
		"bad argument":       "{{ messages | select('defined', 1, 2) | nope }}",
		"reserved name":      "{{ tl__keep(1) }}",
		"closes nothing":     "{% endfor %}",
		"empty expression":   "{{ }}",
		"no such test":       "{% if messages is nope %}{% endif %}",
		"call of no func":    "{{ messages() }}",
		"selectattr panics":  "{{ messages | selectattr('a', 'in') | list | nope }}",
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			tm, err := Compile(source)
			if err == nil {
				_, err = tm.Render(Render{Messages: []Message{{Role: "user", Content: "hi"}}})
			}
			if err == nil {
				t.Fatal("no error")
			}
			if fault.Of(err) != fault.Invalid {
				t.Errorf("got %v: %v", fault.Of(err), err)
			}
			if msg := fault.As(err).Msg; len(msg) > 400 || strings.Contains(msg, "goroutine") {
				t.Errorf("message %q", msg)
			}
			if d := time.Since(start); d > time.Minute {
				t.Errorf("took %v", d)
			}
		})
	}
}

func TestRaise(t *testing.T) {
	_, err := mustCompile(t, "{{ raise_exception('System role not supported') }}").Render(Render{})
	if fault.Of(err) != fault.Invalid || fault.As(err).Field != "messages" || !strings.Contains(err.Error(), "System role not supported") {
		t.Errorf("got %v", err)
	}
}

func TestStrftime(t *testing.T) {
	now := time.Date(2026, 3, 7, 9, 5, 3, 0, time.UTC)
	for format, want := range map[string]string{
		"%Y-%m-%d": "2026-03-07", "%d %b %Y": "07 Mar 2026", "%B %-d, %Y": "March 7, 2026", "%A %H:%M:%S": "Saturday 09:05:03", "%I %p": "09 AM", "%j": "066", "100%": "100%", "%%": "%", "%q": "%q",
	} {
		if got := strftime(now, format); got != want {
			t.Errorf("%s gives %q, want %q", format, got, want)
		}
	}
}

func TestJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"b":1,"a":[1.5,true,null,"é\n\"<"],"b":2}`: `{"b": 2, "a": [1.5, true, null, "é\n\"<"]}`,
		`[]`: `[]`, `{}`: `{}`, `1e3`: `1000.0`, `-7`: `-7`, `12345678901234567890`: `1.2345678901234567e+19`,
	} {
		v, err := ParseJSON([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		parts, err := mustCompile(t, "{{ v | tojson }}").Render(Render{Vars: map[string]any{"v": v}})
		if err != nil || text(parts) != want {
			t.Errorf("%s gives %q %v, want %s", in, text(parts), err, want)
		}
	}
	v, _ := ParseJSON([]byte(`{"b":{"c":[1,{}]},"a":[]}`))
	parts, err := mustCompile(t, "{{ v | tojson(indent=2) }}").Render(Render{Vars: map[string]any{"v": v}})
	if want := "{\n  \"b\": {\n    \"c\": [\n      1,\n      {}\n    ]\n  },\n  \"a\": []\n}"; err != nil || text(parts) != want {
		t.Errorf("%v %s", err, text(parts))
	}
	for _, bad := range []string{"", "{", "[1,]", "1 2", `{"a"}`, strings.Repeat("[", 100) + strings.Repeat("]", 100)} {
		if _, err := ParseJSON([]byte(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

func TestNormalise(t *testing.T) {
	r := Render{Messages: []Message{{Role: "user", Content: "hi"}}, Vars: map[string]any{"d": Object{{"a", int64(1)}, {"b", int64(2)}}}}
	for source, want := range map[string]string{
		"x\n":                                   "x",
		"x\n\n":                                 "x\n",
		"a: {{ 1 }}{%- if true %} b{% endif %}": "a: 1 b",
		"{% for k, v in d.items() if v > 1 %}{{ k }}={{ v }};{% endfor %}":              "b=2;",
		"{% for k, v in d.items() if k != 'b' and d.b %}{{ k }}{% endfor %}":            "a",
		"{% generation %}x{% endgeneration %}":                                          "x",
		"{%+ if true +%} x{% endif %}":                                                  " x",
		"{{ 'a|tojson' }}{{ 'b' | tojson }}":                                            "a|tojson\"b\"",
		"{% macro f(x) -%}\n  <{{ x }}>\n{%- endmacro %}{{ f(1) }}{{ f(2) }}":           "<1><2>",
		"{% set a = 1 if messages else 2 %}{{ a }}":                                     "1",
		"{% set ns = namespace(a=1) %}{% set ns.a = ns.a + 1 %}{{ ns.a }}":              "2",
		"{% for m in messages %}{{ loop.index }}{{ m.role }}{% endfor %}":               "1user",
		"{{ 'abcdef'[1:5:2] }}{{ 'abc'[::-1] }}{{ [1,2,3][::2] | join(',') }}":          "bdcba1,3",
		"{{ 2 * (3 * 4) }}{{ 'a-b'.split('-')[0] * 2 }}{{ -2 * 3 }}":                    "24aa-6",
		"{{ ', '.join(['a', 'b']) }}{{ 'x'.replace('x', 'y').upper() }}":                "a, bY",
		"{{ '{}-{}'.format(1, 'b') }}{{ 'a b c'.split(' ', 1) | last }}":                "1-bb c",
		"{{ 'a.b.c'.rsplit('.', 1)[0] }}{{ 'x\\ny'.splitlines() | length }}":            "a.b2",
		"{{ '-' * 3 }}{{ 2 * 3 }}":                                                      "---6",
		"{% for i in range(3) %}{{ i }}{% endfor %}{{ range(1, 4) | length }}":          "0123",
		"{% for x in [1, 2] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}": "1",
	} {
		tm, err := Compile(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		parts, err := tm.Render(r)
		if err != nil || text(parts) != want {
			t.Errorf("%s gives %q %v, want %q", source, text(parts), err, want)
		}
	}
}

// Compile and Render never panic and never run away, whatever the template.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"{{ messages[0].content }}", "{% for m in messages %}{{ m.role | trim }}{% endfor %}", "{% macro f(x, y=1) %}{{ f(y) }}{% endmacro %}{{ f(2) }}",
		"{% set x = 'a' * 3 %}{{ x[::-1] }}", "{{ messages | tojson(indent=2) }}", "{%- if a is defined and not b -%}x{%- endif -%}", "{# c #}{{ '\\'' }}", "{{ range(1, 10, 3) | list }}"} {
		f.Add(s, "hi")
	}
	f.Fuzz(func(t *testing.T, source, content string) {
		if len(source) > 1<<12 || len(content) > 1<<12 {
			return
		}
		late := time.AfterFunc(20*time.Second, func() { panic(fmt.Sprintf("no end: %q", source)) })
		defer late.Stop()
		tm, err := Compile(source)
		if err != nil {
			return
		}
		r := Render{Messages: []Message{{Role: "user", Content: content}}, Controls: []string{"<e>", "{{"}}
		plain, err := tm.run(&r, time.Now(), func(s string) string { return s })
		parts, perr := tm.Render(r)
		if err == nil && perr == nil && text(parts) != plain {
			t.Errorf("parts %+v of %q", parts, plain)
		}
	})
}

func BenchmarkRender(b *testing.B) {
	g := loadGoldens(b)
	for _, name := range []string{"Qwen-Qwen3-0.6B.jinja", "meta-llama-Llama-3.1-8B-Instruct.jinja"} {
		tm, r := g.compiled[name], g.render(b, "sys_multi")
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := tm.Render(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
