package arch

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"tinyloop/internal/tensorfile"
)

// config reads the keys of one architecture and keeps the first error. It remembers which keys were read, so that the others can be refused.
type config struct {
	meta   tensorfile.Meta
	prefix string
	read   map[string]bool
	err    error
}

func newConfig(f *tensorfile.File, prefix string) *config {
	return &config{meta: f.Meta, prefix: prefix, read: map[string]bool{}}
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
			c.fail(invalid(full, "the key %s is missing", full))
		}
		return absent
	}
	u, ok := c.meta.Uint(full)
	if !ok || u > math.MaxInt32 {
		c.fail(invalid(full, "%s must be an integer of 0 to %d, is %v", full, math.MaxInt32, clip(v)))
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
			c.fail(unsupported(full, "%s must be the same in every layer, is %v", full, clip(v)))
			return absent
		}
	}
	return int(list[0])
}

func (c *config) float(key string, must bool, absent float32) float32 {
	v, full, ok := c.get(key)
	if !ok {
		if must {
			c.fail(invalid(full, "the key %s is missing", full))
		}
		return absent
	}
	x, ok := c.meta.Float(full)
	if !ok {
		c.fail(invalid(full, "%s must be a number, is %v", full, clip(v)))
	}
	return float32(x)
}

func (c *config) flag(key string) bool {
	v, full, ok := c.get(key)
	if !ok {
		return false
	}
	b, ok := v.(bool)
	if !ok {
		c.fail(invalid(full, "%s must be true or false, is %v", full, clip(v)))
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
		c.fail(invalid(full, "%s must be a text, is %v", full, clip(v)))
	}
	return s
}

// off refuses a key whose value is not one of those that mean "not used".
func (c *config) off(key string, values ...any) {
	v, full, ok := c.get(key)
	if !ok {
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
	c.fail(unsupported(full, "%s = %v is not supported by this build", full, clip(v)))
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
			c.fail(unsupported(clip(k), "%s = %v is not known to this build", clip(k), clip(v)))
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
