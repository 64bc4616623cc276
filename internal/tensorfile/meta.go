package tensorfile

import "math"

// Meta is typed metadata with ordered keys. It is read-only; slices it gives are shared and must not be changed.
//
// Values are Go's own types: uint8 … int64, float32, float64, bool, string, slices of these, and []any for an array of arrays.
type Meta struct {
	keys []string
	vals map[string]any
}

// add appends a key; it says false when the key is there already.
func (m *Meta) add(key string, v any) bool {
	if m.vals == nil {
		m.vals = map[string]any{}
	}
	if _, dup := m.vals[key]; dup {
		return false
	}
	m.keys = append(m.keys, key)
	m.vals[key] = v
	return true
}

// Keys gives the keys in file order.
func (m Meta) Keys() []string { return append([]string(nil), m.keys...) }

// Get gives the value of a key as it stands in the file.
func (m Meta) Get(key string) (any, bool) { v, ok := m.vals[key]; return v, ok }

// String gives a text value.
func (m Meta) String(key string) (string, bool) { return get[string](m, key) }

// Strings gives an array of texts.
func (m Meta) Strings(key string) ([]string, bool) { return get[[]string](m, key) }

// Bool gives a truth value.
func (m Meta) Bool(key string) (bool, bool) { return get[bool](m, key) }

func get[T any](m Meta, key string) (T, bool) {
	v, ok := m.vals[key].(T)
	return v, ok
}

// Ints gives any integer array whose values all fit an int32.
func (m Meta) Ints(key string) ([]int32, bool) {
	switch v := m.vals[key].(type) {
	case []int32:
		return v, true
	case []uint8:
		return narrow(v)
	case []int8:
		return narrow(v)
	case []uint16:
		return narrow(v)
	case []int16:
		return narrow(v)
	case []uint32:
		return narrow(v)
	case []int64:
		return narrow(v)
	case []uint64:
		return narrow(v)
	}
	return nil, false
}

func narrow[T uint8 | int8 | uint16 | int16 | uint32 | int64 | uint64](src []T) ([]int32, bool) {
	dst := make([]int32, len(src))
	for i, x := range src {
		dst[i] = int32(x)
		if T(dst[i]) != x || (dst[i] < 0) != (x < 0) {
			return nil, false
		}
	}
	return dst, true
}

// Floats gives an array of numbers with a fraction; float64 values are rounded.
func (m Meta) Floats(key string) ([]float32, bool) {
	switch v := m.vals[key].(type) {
	case []float32:
		return v, true
	case []float64:
		dst := make([]float32, len(v))
		for i, x := range v {
			dst[i] = float32(x)
		}
		return dst, true
	}
	return nil, false
}

// Uint gives any integer scalar that is not negative.
func (m Meta) Uint(key string) (uint64, bool) {
	if v, ok := m.vals[key].(uint64); ok {
		return v, true
	}
	v, ok := m.Int(key)
	return uint64(v), ok && v >= 0
}

// Int gives any integer scalar that fits an int64.
func (m Meta) Int(key string) (int64, bool) {
	switch v := m.vals[key].(type) {
	case uint8:
		return int64(v), true
	case int8:
		return int64(v), true
	case uint16:
		return int64(v), true
	case int16:
		return int64(v), true
	case uint32:
		return int64(v), true
	case int32:
		return int64(v), true
	case int64:
		return v, true
	case uint64:
		return int64(v), v <= math.MaxInt64
	}
	return 0, false
}

// Float gives any scalar number.
func (m Meta) Float(key string) (float64, bool) {
	switch v := m.vals[key].(type) {
	case float32:
		return float64(v), true
	case float64:
		return v, true
	}
	if u, ok := m.Uint(key); ok {
		return float64(u), true
	}
	i, ok := m.Int(key)
	return float64(i), ok
}

// KVs gives all entries in file order, for writing them back.
func (m Meta) KVs() []KV {
	out := make([]KV, len(m.keys))
	for i, k := range m.keys {
		out[i] = KV{k, m.vals[k]}
	}
	return out
}
