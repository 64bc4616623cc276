package chat

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

// Bounds of one render.
const (
	maxOutput   = 16 << 20 // bytes written
	maxKept     = 64 << 20 // bytes of all values written and kept together, text included
	maxLoops    = 200_000  // passes through loops
	maxCalls    = 50_000   // macro calls
	maxFrames   = 4_000    // Go stack frames: macros that call themselves
	maxTimes    = 10_000   // repetitions of a string
	renderLimit = 2 * time.Second
)

var errBudget = errors.New("it does not come to an end within bounds")

// budget is what one render may still spend.
type budget struct {
	start time.Time
	bytes int
	loops int
	calls int
}

// charge takes n bytes off and looks at the clock.
func (b *budget) charge(n int) error {
	if b.start.IsZero() {
		b.start = time.Now()
	}
	b.bytes += n
	if n < 0 || b.bytes > maxKept || time.Since(b.start) > renderLimit {
		return errBudget
	}
	return nil
}

// globals are the variables and functions of one render. text marks what comes from a message.
func globals(r *Render, b *budget, text func(string) string) map[string]jinja.Value {
	vars := map[string]jinja.Value{
		"messages":              messages(r.Messages, text),
		"add_generation_prompt": jinja.NewBool(r.AddGenerationPrompt),
		"bos_token":             jinja.NewString(r.BOS),
		"eos_token":             jinja.NewString(r.EOS),
		"tools":                 jinja.None(),
		"documents":             jinja.None(),
	}
	if len(r.Tools) > 0 {
		vars["tools"] = value(r.Tools, text)
	}
	for _, k := range slices.Sorted(maps.Keys(r.Vars)) { // in a fixed order: texts are counted
		if _, taken := vars[k]; !taken && !strings.HasPrefix(k, prefix) {
			vars[k] = value(r.Vars[k], text)
		}
	}
	set := func(name string, fn func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error)) {
		vars[name] = jinja.NewCallable(name, fn)
	}
	set("raise_exception", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		return jinja.Undefined(), &raised{str(args, 0)}
	})
	set("strftime_now", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		return jinja.NewString(strftime(r.Now, str(args, 0))), nil
	})
	set("range", b.numbers)
	set(fnEach, b.each)
	set(fnEnter, b.enter)
	set(fnKeep, b.keep)
	set(fnTimes, times)
	set(fnLazy, func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
		return jinja.Undefined(), errors.New("tojson needs a list here, not a generator")
	})
	for name, fn := range ownFilters() {
		set(prefix+name, fn)
	}
	return vars
}

// messages builds the list a template walks, keys in the order clients send them.
func messages(ms []Message, text func(string) string) jinja.Value {
	items := make([]jinja.Value, len(ms))
	for i := range ms {
		m := &ms[i]
		v := jinja.NewDict()
		d := v.AsDict()
		d.Set("role", jinja.NewString(m.Role))
		if m.ToolCallID != "" {
			d.Set("tool_call_id", jinja.NewString(text(m.ToolCallID)))
		}
		if m.Name != "" {
			d.Set("name", jinja.NewString(text(m.Name)))
		}
		d.Set("content", jinja.NewString(text(m.Content)))
		if len(m.ToolCalls) > 0 {
			d.Set("tool_calls", value(m.ToolCalls, text))
		}
		items[i] = v
	}
	return jinja.NewList(items)
}

// value converts an ordered JSON value; text is applied to its strings, not to the keys.
func value(v any, text func(string) string) jinja.Value {
	switch v := v.(type) {
	case string:
		return jinja.NewString(text(v))
	case []any:
		items := make([]jinja.Value, len(v))
		for i := range v {
			items[i] = value(v[i], text)
		}
		return jinja.NewList(items)
	case Object:
		out := jinja.NewDict()
		for _, f := range v {
			out.AsDict().Set(f.Key, value(f.Value, text))
		}
		return out
	}
	return jinja.FromGoValue(v)
}

func (b *budget) numbers(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	n := make([]int64, len(args))
	for i, a := range args {
		if !a.IsInt() {
			return jinja.Undefined(), fmt.Errorf("range needs whole numbers, got %s", clip(a.String()))
		}
		n[i] = a.AsInt()
	}
	from, to, step := int64(0), int64(0), int64(1)
	switch len(n) {
	case 1:
		to = n[0]
	case 2:
		from, to = n[0], n[1]
	case 3:
		from, to, step = n[0], n[1], n[2]
	default:
		return jinja.Undefined(), fmt.Errorf("range takes 1 to 3 numbers, got %d", len(n))
	}
	if step == 0 {
		return jinja.Undefined(), errors.New("range needs a step that is not 0")
	}
	var items []jinja.Value
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		if len(items) >= maxLoops {
			return jinja.Undefined(), errBudget
		}
		items = append(items, jinja.NewInt(i))
	}
	return jinja.NewList(items), b.charge(len(items) * 32)
}

// each charges a loop before its first pass.
func (b *budget) each(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	v, n := args[0], 0
	switch {
	case v.IsList():
		n = v.AsList().Len()
	case v.IsDict():
		n = v.AsDict().Len()
	case v.IsString():
		n = len(v.AsString())
	}
	if b.loops += n; b.loops > maxLoops {
		return v, errBudget
	}
	return v, b.charge(n * (int(args[1].AsInt()) + 1))
}

// enter charges a macro call. Its depth is that of the Go stack, the only thing a runaway macro exhausts.
func (b *budget) enter(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	var pc [1]uintptr
	if b.calls++; b.calls > maxCalls || runtime.Callers(maxFrames, pc[:]) > 0 {
		return jinja.Undefined(), errBudget
	}
	return jinja.Undefined(), b.charge(int(args[0].AsInt()))
}

// keep charges a value that is written or bound to a name.
func (b *budget) keep(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if len(args) == 0 {
		return jinja.Undefined(), errors.New("an expression is empty")
	}
	n := 1
	if args[0].IsString() {
		n = len(args[0].AsString())
	}
	return args[0], b.charge(n)
}

func times(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if !args[0].IsInt() {
		return args[0], nil
	}
	n := args[0].AsInt()
	if n > maxTimes {
		return args[0], errBudget
	}
	return jinja.NewInt(max(n, 0)), nil
}

func str(args []jinja.Value, i int) string {
	if i >= len(args) {
		return ""
	}
	if args[i].IsString() {
		return args[i].AsString()
	}
	return args[i].String()
}

// strftime formats as C and Python do.
func strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		pad := format[i] != '-'
		if !pad && i+1 < len(format) {
			i++
		}
		b.WriteString(directive(t, format[i], pad))
	}
	return b.String()
}

func directive(t time.Time, c byte, pad bool) string {
	two := "%d"
	if pad {
		two = "%02d"
	}
	layout := map[byte]string{'A': "Monday", 'a': "Mon", 'B': "January", 'b': "Jan", 'h': "Jan", 'p': "PM", 'Z': "MST", 'z': "-0700",
		'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06", 'R': "15:04", 'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05", 'e': "_2"}[c]
	if layout != "" {
		return t.Format(layout)
	}
	switch c {
	case 'Y':
		return fmt.Sprintf("%d", t.Year())
	case 'y':
		return fmt.Sprintf(two, t.Year()%100)
	case 'm':
		return fmt.Sprintf(two, int(t.Month()))
	case 'd':
		return fmt.Sprintf(two, t.Day())
	case 'H':
		return fmt.Sprintf(two, t.Hour())
	case 'I':
		return fmt.Sprintf(two, (t.Hour()+11)%12+1)
	case 'M':
		return fmt.Sprintf(two, t.Minute())
	case 'S':
		return fmt.Sprintf(two, t.Second())
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000)
	case 'j':
		return fmt.Sprintf("%03d", t.YearDay())
	case 'w':
		return fmt.Sprintf("%d", int(t.Weekday()))
	case '%':
		return "%"
	}
	return "%" + string(c)
}
