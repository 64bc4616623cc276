package arch

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// This file holds the readers of configurations to their promise, key by key: a value is honoured, which shows in the Spec or in the tensors that follow from
// the configuration, or refused, or means the same as what stood there. What is left out of account is listed here, by name and with the reason.

// without lists the keys that change nothing because nothing of the computation depends on them, beside hfUnused.
var without = map[string][]string{
	"ouro":         {"min_exit_step", "exit_delay_steps"}, // bounds of an exit that is off
	"gpt2":         {"reorder_and_upcast_attn", "resid_pdrop", "embd_pdrop", "attn_pdrop", "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj"},
	"huginn_raven": {"padding_multiple", "architecture_class_name", "init_orthogonal", "sampling_scheme", "mean_backprop_depth", "activation_checkpoint_impl", "effective_expected_depth", "test_time_noise_type", "mcleish_throttle"}, // training
	"parcae": {"padding_multiple", "name", "hf_config", "attn_impl", "init_orthogonal", "use_fused_head", "sampling_scheme", "mean_backprop_depth", "recurrent_iteration_method", "activation_checkpoint_impl", "lockstep_n", "lockstep_k",
		"curriculum_target", "skip_initialization", "simple_ops", "strategy"}, // training, and how the same numbers are computed
}

// same lists values that mean what stood there, or nothing while another key says so.
func same(family, key string, config map[string]any) bool {
	switch key {
	case "max_window_layers": // of a window that is off, or that layer_types places
		on, _ := config["use_sliding_window"].(bool)
		return !on || config["layer_types"] != nil || config["sliding_window"] == nil
	case "sliding_window": // off, or longer than the context, or placed on no layer
		on, said := config["use_sliding_window"].(bool)
		return said && !on || family == "qwen2" || family == "qwen3" || family == "ouro"
	case "use_sliding_window": // of no window, or of no layer
		from, _ := config["max_window_layers"].(float64)
		layers, _ := config["num_hidden_layers"].(float64)
		return config["sliding_window"] == nil || config["layer_types"] != nil || from >= layers
	case "early_exit_threshold": // a probability: from 1 on it is never reached
		q, ok := config[key].(float64)
		return ok && q >= 1
	case "max_position_embeddings": // bounded by the window that some layers have
		return family == "gemma2" && config["sliding_window"] != nil
	case "rope_scaling" + inside + "low_freq_factor", "rope_scaling" + inside + "high_freq_factor", "rope_scaling" + inside + "original_max_position_embeddings":
		return config["head_dim"] == 8.0 // of whose four rotations none is near
	case "vocab_size":
		return family == "parcae" && config["padded_vocab_size"] != nil
	}
	return false
}

// inside stands between the key of an object and that of its member.
const inside = " > "

// wrongs are what a key is set to, beside twice and one more than what it was.
func wrongs(was any) []any {
	out := []any{true, false, 0.0, 1.0, 2.0, 7.0, 0.5, -1.0, 1e30, "x", "", []any{}, []any{1.0}, []any{"x"}, map[string]any{}, map[string]any{"x": 1.0}, nil}
	if x, ok := was.(float64); ok && x < 1e6 {
		out = append(out, 2*x, x+1)
	}
	return out
}

// TestEveryKeyCounts sets every key of every family's configurations, those of the objects inside too, to values of every kind.
func TestEveryKeyCounts(t *testing.T) {
	configs := map[string]string{}
	for name, p := range published() {
		configs[name] = p.config
	}
	for name, r := range references(t) {
		configs["reference "+name] = string(r.Config)
	}
	tried, refused, honoured := 0, 0, 0
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		var config map[string]any
		if err := json.Unmarshal([]byte(configs[name]), &config); err != nil {
			t.Fatal(err)
		}
		base, family, keys, err := readObject(config)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		idle := append(hfUnused(), without[family]...)
		for _, key := range keys {
			outer, inner, nested := strings.Cut(key, inside)
			was := config[outer]
			if sub, ok := was.(map[string]any); nested && ok {
				was = sub[inner]
			}
			counts := slices.Contains(idle, outer) || outer == "init_values" && inner != "embed_scale" // the values that training began with
			values := wrongs(was)
			if counts {
				values = []any{true, 7.0, "x"} // that nothing depends on it takes fewer to see
			}
			for _, v := range values {
				changed := with(config, outer, inner, v)
				got, _, _, err := readObject(changed)
				tried++
				switch {
				case err != nil:
					refused++
					if counts && outer != "init_values" {
						t.Errorf("%s: %s = %v is refused, though nothing depends on it: %v", name, key, v, err)
					}
				case !reflect.DeepEqual(got, base):
					honoured++
					if counts {
						t.Errorf("%s: %s = %v changes the model, though nothing should depend on it", name, key, v)
					}
				case counts || reflect.DeepEqual(v, was) || off(v) || same(family, key, changed) || same(family, key, config):
				default:
					if u, ok := usual(v, was, key); !ok {
						t.Errorf("%s: %s = %v (was %v) changes nothing: it is ignored%s", name, key, v, was, u)
					}
				}
			}
		}
	}
	t.Logf("%d values: %d refused, %d honoured", tried, refused, honoured)
}

// off says whether a value is one of those that mean "not used" where a key may stay away.
func off(v any) bool {
	switch x := v.(type) {
	case nil:
		return true
	case bool:
		return !x
	case float64:
		return x == 0
	case string:
		return x == ""
	case []any:
		return len(x) == 0
	case map[string]any:
		return len(x) == 0
	}
	return false
}

// usual says whether v is what an absent key means.
func usual(v, was any, key string) (string, bool) {
	want, known := map[string]any{"partial_rotary_factor": 1.0, "early_exit_threshold": 1.0, "mup_model_scaling_factor": 1.0, "rope_condense_ratio": 1.0, "rope_settings" + inside + "rope_condense_ratio": 1.0, "scale_attn_weights": true,
		"tie_word_embeddings": true, "tie_embeddings": true, "qk_norm": true, "prelude_norm": true, "rope_settings" + inside + "use_rope": true, "num_loops": 1.0}[key]
	return fmt.Sprintf(" (%T)", v), was == nil && known && reflect.DeepEqual(v, want)
}

// with is a copy of a configuration with one value changed.
func with(config map[string]any, outer, inner string, v any) map[string]any {
	out := maps.Clone(config)
	if inner == "" {
		out[outer] = v
		return out
	}
	sub, _ := out[outer].(map[string]any)
	sub = maps.Clone(sub)
	if sub == nil {
		sub = map[string]any{}
	}
	sub[inner] = v
	out[outer] = sub
	return out
}

// meaning is all that a configuration decides.
type meaning struct {
	spec model.Spec
	made map[string][]float32
}

// readObject reads a configuration, and lists the keys that its reader knows, those inside objects with the object's name before them.
func readObject(config map[string]any) (m meaning, family string, keys []string, err error) {
	b, err := json.Marshal(config)
	if err != nil {
		return m, "", nil, err
	}
	c, err := parseConfig(b)
	if err != nil {
		return m, "", nil, err
	}
	fam, err := pick(hfFamilies(), "model_type", hfKind(c))
	if err != nil {
		return m, "", nil, err
	}
	f, err := read(fam, c, nil, Range{})
	if err != nil {
		return m, fam.name, nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(c.read)) {
		if key == "model_type" || key == "_class_name" || key == "architectures" { // which reader it is
			continue
		}
		keys = append(keys, key)
		if sub, ok := config[key].(map[string]any); ok {
			for inner := range sub {
				keys = append(keys, key+inside+inner)
			}
		}
	}
	return meaning{f.spec, f.made}, fam.name, keys, nil
}

// overlay is metadata with one key set to another value.
type overlay struct {
	tensorfile.Meta
	key string
	v   any
}

func (o overlay) Get(key string) (any, bool) {
	if key == o.key {
		return o.v, o.v != nil
	}
	return o.Meta.Get(key)
}

func (o overlay) Uint(key string) (uint64, bool) {
	if key != o.key {
		return o.Meta.Uint(key)
	}
	switch x := o.v.(type) {
	case uint32:
		return uint64(x), true
	case int32:
		return uint64(x), x >= 0
	}
	return 0, false
}

func (o overlay) Float(key string) (float64, bool) {
	if key != o.key {
		return o.Meta.Float(key)
	}
	x, ok := o.v.(float32)
	return float64(x), ok
}

func (o overlay) Ints(key string) ([]int32, bool) {
	if key != o.key {
		return o.Meta.Ints(key)
	}
	x, ok := o.v.([]int32)
	return x, ok
}

func (o overlay) Keys() []string {
	if keys := o.Meta.Keys(); slices.Contains(keys, o.key) {
		return keys
	}
	return append(o.Meta.Keys(), o.key)
}

// TestEveryGGUFKeyCounts is the same for the keys of GGUF files.
func TestEveryGGUFKeyCounts(t *testing.T) {
	tried, refused, honoured := 0, 0, 0
	for name, r := range references(t) {
		if r.GGUF == nil {
			continue
		}
		f := open(t, r.gguf(t))
		fam, c, err := familyOf(f)
		if err != nil {
			t.Fatal(err)
		}
		base, err := read(fam, c, f, Range{})
		if err != nil {
			t.Fatal(name, err)
		}
		keys := append(slices.Sorted(maps.Keys(c.read)), c.prefix+"no.such_key")
		for _, key := range keys {
			was, _ := f.Meta.Get(key)
			values := []any{uint32(0), uint32(1), uint32(2), uint32(7), int32(-1), float32(0), float32(0.5), float32(3), true, false, "x", "", []int32{1, 2}, []int32{2, 2}, []string{"x"}}
			if n, ok := was.(uint32); ok {
				values = append(values, 2*n, n+1)
			}
			for _, v := range values {
				o := &config{meta: overlay{f.Meta, key, v}, prefix: c.prefix, read: map[string]bool{}}
				got, err := read(fam, o, f, Range{})
				tried++
				short := strings.TrimPrefix(key, c.prefix)
				switch {
				case err != nil:
					refused++
				case !reflect.DeepEqual(got.spec, base.spec) || !reflect.DeepEqual(got.made, base.made):
					honoured++
				case short == "context_length" && base.spec.Family == "gemma2": // bounded by the window
				case reflect.DeepEqual(v, was), short == "tensor_data_layout", short == "rope.scaling.finetuned", meansAbsent(short, v, &base.spec):
				default:
					t.Errorf("%s: %s = %v (%T, was %v) changes nothing: it is ignored", name, key, v, v, was)
				}
			}
		}
	}
	t.Logf("%d values: %d refused, %d honoured", tried, refused, honoured)
}

// meansAbsent says whether a value is what the absence of a key means.
func meansAbsent(key string, v any, s *model.Spec) bool {
	b := &s.Block
	for _, w := range map[string][]any{
		"attention.sliding_window": {uint32(0)}, "expert_count": {uint32(0)}, "expert_used_count": {uint32(0)},
		"rope.scaling.type": {"none", ""}, "rope.scaling.factor": {float32(0), float32(1)},
		"attention.key_length": {uint32(b.HeadDim)}, "attention.value_length": {uint32(b.HeadDim)}, "rope.dimension_count": {uint32(b.HeadDim)},
		"attention.head_count": {[]int32{int32(b.Heads), int32(b.Heads)}}, "attention.head_count_kv": {uint32(b.KVHeads), []int32{int32(b.KVHeads), int32(b.KVHeads)}}, // one a layer "vocab_size": {uint32(s.Vocab)},
		"num_loops": {uint32(s.Loops.Default)}, "skip_loop_final_norm": {s.LoopNorm == model.LoopNormNone},
	}[key] {
		if reflect.DeepEqual(v, w) {
			return true
		}
	}
	return false
}
