package arch

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"tinyloop/internal/tensorfile"
)

// values is where a configuration stands: the metadata of a GGUF file, or the object of a config.json.
type values interface {
	Get(key string) (any, bool)
	Uint(key string) (uint64, bool)
	Float(key string) (float64, bool)
	Ints(key string) ([]int32, bool)
	Keys() []string
}

// config reads the keys of one architecture and keeps the first error. It remembers which keys were read, so that the others can be refused.
type config struct {
	meta   values
	prefix string // of every key
	where  string // put before keys in messages
	read   map[string]bool
	err    error
	made   map[string][]float32 // tensors that follow from the configuration, by their names in model.Slot
}

func newConfig(f *tensorfile.File, prefix string) *config {
	return &config{meta: f.Meta, prefix: prefix, read: map[string]bool{}}
}

// make adds a tensor that follows from the configuration.
func (c *config) make(slot string, v []float32) {
	if c.made == nil {
		c.made = map[string][]float32{}
	}
	c.made[slot] = v
}

// missing, wrong and refused say what is the matter with a key.
func (c *config) missing(full string) {
	c.fail(invalid(full, "%sthe key %s is missing", c.where, full))
}

func (c *config) wrong(full, want string, v any) {
	c.fail(invalid(full, "%s%s must be %s, is %v", c.where, full, want, clip(v)))
}

func (c *config) refused(full string, v any) {
	c.fail(unsupported(full, "%s%s = %v is not supported by this build", c.where, full, clip(v)))
}

func (c *config) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// get gives the value of a key, false when it is absent.
func (c *config) get(key string) (any, string, bool) {
	full := c.prefix + key
	c.read[full] = true
	v, ok := c.meta.Get(full)
	return v, full, ok
}

// size reads a non-negative integer; must says that it may not be absent.
func (c *config) size(key string, must bool, absent int) int {
	v, full, ok := c.get(key)
	if !ok {
		if must {
			c.missing(full)
		}
		return absent
	}
	u, ok := c.meta.Uint(full)
	if !ok || u > math.MaxInt32 {
		c.wrong(full, fmt.Sprintf("an integer of 0 to %d", math.MaxInt32), v)
		return absent
	}
	return int(u)
}

// perLayer reads an integer that files may also state as one number a layer; the layers must agree.
func (c *config) perLayer(key string, must bool, absent int) int {
	v, full, ok := c.get(key)
	list, isList := c.meta.Ints(full)
	if !ok || !isList || len(list) == 0 {
		return c.size(key, must, absent)
	}
	for _, x := range list {
		if x != list[0] || x < 0 {
			c.fail(unsupported(full, "%s%s must be the same in every layer, is %v", c.where, full, clip(v)))
			return absent
		}
	}
	return int(list[0])
}

func (c *config) float(key string, must bool, absent float32) float32 {
	v, full, ok := c.get(key)
	if !ok {
		if must {
			c.missing(full)
		}
		return absent
	}
	x, ok := c.meta.Float(full)
	if !ok {
		c.wrong(full, "a number", v)
	}
	return float32(x)
}

func (c *config) flag(key string) bool { return c.flagOr(key, false) }

func (c *config) flagOr(key string, absent bool) bool {
	v, full, ok := c.get(key)
	if !ok {
		return absent
	}
	b, ok := v.(bool)
	if !ok {
		c.wrong(full, "true or false", v)
	}
	return b
}

func (c *config) text(key string) string {
	v, full, ok := c.get(key)
	if !ok {
		return ""
	}
	s, ok := v.(string)
	if !ok {
		c.wrong(full, "a text", v)
	}
	return s
}

// texts reads a list of texts.
func (c *config) texts(key string) []string {
	v, full, ok := c.get(key)
	if !ok {
		return nil
	}
	var out []string
	list, ok := v.([]any)
	for _, x := range list {
		s, isText := x.(string)
		ok = ok && isText
		out = append(out, s)
	}
	if !ok {
		c.wrong(full, "a list of texts", v)
	}
	return out
}

// said says whether a key stands in the configuration, be it as null: there it means "none", where the absence of some keys means a default of its family.
func (c *config) said(key string) bool {
	if o, ok := c.meta.(object); ok {
		_, ok = o[c.prefix+key]
		return ok
	}
	_, ok := c.meta.Get(c.prefix + key)
	return ok
}

// off refuses a key whose value is not one of those that mean "not used". An empty list always does.
func (c *config) off(key string, values ...any) {
	v, full, ok := c.get(key)
	if !ok {
		return
	}
	if list, isList := v.([]any); isList && len(list) == 0 {
		return
	}
	if n, isInt := c.meta.Uint(full); isInt {
		v = int(n)
	}
	for _, x := range values {
		if v == x {
			return
		}
	}
	c.refused(full, v)
}

// agrees refuses a key that says again, for other programs, what keys of ours say, and says something else.
func (c *config) agrees(key string, want int, ours string) {
	v, full, ok := c.get(key)
	if n, isInt := c.meta.Uint(full); ok && (!isInt || n != uint64(want)) {
		c.fail(invalid(full, "%s%s is %v, %s make it %d", c.where, full, clip(v), ours, want))
	}
}

// ignore marks keys that say nothing about how the model is computed.
func (c *config) ignore(keys ...string) {
	for _, k := range keys {
		c.read[c.prefix+k] = true
	}
}

// done refuses every key of the architecture that was not read.
func (c *config) done() error {
	for _, k := range c.meta.Keys() {
		if c.err == nil && strings.HasPrefix(k, c.prefix) && !c.read[k] {
			v, _ := c.meta.Get(k)
			c.fail(unsupported(clip(k), "%s%s = %v is not known to this build", c.where, clip(k), clip(v)))
		}
	}
	return c.err
}

// clip shortens a value of a file for a message.
func clip(v any) string {
	if list := reflect.ValueOf(v); list.Kind() == reflect.Slice && list.Len() > 32 {
		return fmt.Sprintf("a list of %d values", list.Len())
	}
	s := strings.ToValidUTF8(fmt.Sprint(v), "?")
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}
