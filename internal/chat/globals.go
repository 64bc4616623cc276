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

	"tinyloop/internal/fault"
)

// Bounds of one render.
const (
	maxOutput   = 16 << 20 // bytes written
	maxValue    = 16 << 20 // bytes of one value
	maxKept     = 64 << 20 // bytes of all values written and kept together, text included
	maxLoops    = 200_000  // passes through loops
	maxCalls    = 50_000   // macro calls
	maxFrames   = 4_000    // Go stack frames: macros that call themselves
	maxIndex    = 1 << 20  // ends of slices with a step
	renderLimit = 2 * time.Second
)

var errBudget = errors.New("it does not come to an end within bounds")

// budget is what one run of a template may still spend. The clock runs on over all runs of one Render.
type budget struct {
	start time.Time
	bytes int
	loops int
	calls int
}

// charge takes n bytes off and looks at the clock.
func (b *budget) charge(n int) error {
	b.bytes += n
	if n < 0 || b.bytes > maxKept || b.busy() && time.Since(b.start) > renderLimit {
		return errBudget
	}
	return nil
}

// busy says whether a render has done more than a conversation's takes: one that has not is late because the machine is.
func (b *budget) busy() bool { return b.bytes > 1<<20 || b.loops+b.calls > 2_000 }

// globals are the variables and functions of one render. text marks what comes from a message.
func globals(r *Render, b *budget, text func(string) string) map[string]jinja.Value {
	vars := inputs(r, text)
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
	set(fnTimes, b.times)
	set(fnBound, bounded)
	set(fnLazy, func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
		return jinja.Undefined(), errors.New("tojson needs a list here, not a generator")
	})
	for _, f := range ownFilters {
		set(prefix+f.name, func(args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error) { return f.fn(b, args, kw) })
	}
	for _, m := range ownMethods {
		set(prefix+m.name+"_", func(args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error) { return m.fn(b, args, kw) })
	}
	return vars
}

// inputs are the variables of a render that carry what people wrote, and the few that the request sets beside them.
func inputs(r *Render, text func(string) string) map[string]jinja.Value {
	vars := make(map[string]jinja.Value, 32)
	vars["messages"] = messages(r.Messages, text)
	vars["add_generation_prompt"] = jinja.NewBool(r.AddGenerationPrompt)
	vars["bos_token"] = jinja.NewString(r.BOS)
	vars["eos_token"] = jinja.NewString(r.EOS)
	vars["tools"] = jinja.None()
	vars["documents"] = jinja.None()
	if len(r.Tools) > 0 {
		vars["tools"] = value(r.Tools, text)
	}
	for _, k := range slices.Sorted(maps.Keys(r.Vars)) { // in a fixed order: texts are counted
		if _, taken := vars[k]; !taken && !strings.HasPrefix(k, prefix) {
			vars[k] = value(r.Vars[k], text)
		}
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
			return jinja.Undefined(), fmt.Errorf("range needs whole numbers, got %s", fault.Clip(a.String(), 40))
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
	return v, b.charge(n*(int(args[1].AsInt())+1) + size(v, maxKept))
}

// enter charges a macro call with its arguments. Its depth is that of the Go stack, the only thing a runaway macro exhausts.
func (b *budget) enter(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	var pc [1]uintptr
	if b.calls++; b.calls > maxCalls || runtime.Callers(maxFrames, pc[:]) > 0 {
		return jinja.Undefined(), errBudget
	}
	n := int(args[0].AsInt())
	for _, a := range args[1:] {
		n += size(a, maxKept)
	}
	return jinja.Undefined(), b.charge(n)
}

// keep charges a value that is written or bound to a name.
func (b *budget) keep(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if len(args) == 0 {
		return jinja.Undefined(), errors.New("an expression is empty")
	}
	n := size(args[0], maxKept)
	if n > maxValue {
		return args[0], errBudget
	}
	return args[0], b.charge(n)
}

// size gives about how many bytes a value takes when it is printed, at most a little more than most: what lists share counts each time.
func size(v jinja.Value, most int) int {
	n := 1
	switch {
	case v.IsString():
		n += len(v.AsString())
	case v.IsList():
		for _, x := range v.AsList().Items {
			if n += size(x, most-n); n > most {
				break
			}
		}
	case v.IsDict():
		d := v.AsDict()
		for _, k := range d.Keys {
			if n += len(k) + size(d.Data[k], most-n); n > most {
				break
			}
		}
	}
	return n
}

// times multiplies. A text times a number is the text repeated.
func (b *budget) times(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	x, y := args[0], args[1]
	if y.IsString() {
		x, y = y, x
	}
	switch {
	case x.IsString() && y.IsInt():
		n := max(y.AsInt(), 0)
		if n > maxValue || int64(len(x.AsString()))*n > maxValue {
			return x, errBudget
		}
		return jinja.NewString(strings.Repeat(x.AsString(), int(n))), b.charge(len(x.AsString()) * int(n))
	case x.IsInt() && y.IsInt():
		return jinja.NewInt(x.AsInt() * y.AsInt()), nil
	case x.IsNumber() && y.IsNumber():
		return jinja.NewFloat(number(x) * number(y)), nil
	}
	return x, fmt.Errorf("%s and %s cannot be multiplied", fault.Clip(x.String(), 40), fault.Clip(y.String(), 40))
}

// bounded keeps an index within the length of any value.
func bounded(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if !args[0].IsNumber() {
		return args[0], nil
	}
	return jinja.NewInt(int64(min(max(number(args[0]), -maxIndex), maxIndex))), nil
}

func number(v jinja.Value) float64 {
	if v.IsInt() {
		return float64(v.AsInt())
	}
	return v.AsFloat()
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
