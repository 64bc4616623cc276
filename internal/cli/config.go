package cli

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/alecthomas/kong"
)

// tomlFile gives flags their values from a configuration file. Keys are flag names with underscores; a key at the top counts for every command, one in
// the table of a command for that command only. A flag or an environment variable wins over the file.
//
//	max_seq_len = 2048
//	[serve]
//	addr = "127.0.0.1:8000"
//	model = ["tl=stories.gguf", "big=other.tinyloop"]
type tomlFile struct {
	values map[string]any
}

func loadTOML(r io.Reader) (kong.Resolver, error) {
	f := &tomlFile{values: map[string]any{}}
	if _, err := toml.NewDecoder(r).Decode(&f.values); err != nil {
		return nil, err
	}
	return f, nil
}

func keyOf(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

// Validate refuses keys that no command knows: a misspelt setting must not be lost in silence.
func (f *tomlFile) Validate(app *kong.Application) error {
	tables := map[string][]string{"": nil}
	for _, n := range app.Children {
		for _, flag := range n.AllFlags(true) {
			for _, fl := range flag {
				tables[n.Name] = append(tables[n.Name], keyOf(fl.Name))
			}
		}
		tables[""] = append(tables[""], tables[n.Name]...)
	}
	var wrong []string
	for k, v := range f.values {
		sub, isTable := v.(map[string]any)
		if !isTable {
			if !slices.Contains(tables[""], k) {
				wrong = append(wrong, k)
			}
			continue
		}
		known, ok := tables[k]
		if !ok {
			wrong = append(wrong, "["+k+"]")
			continue
		}
		for kk := range sub {
			if !slices.Contains(known, kk) {
				wrong = append(wrong, k+"."+kk)
			}
		}
	}
	if len(wrong) > 0 {
		sort.Strings(wrong)
		return fmt.Errorf("configuration file: unknown key %s", strings.Join(wrong, ", "))
	}
	return nil
}

// Resolve finds a flag's value for the command that runs.
func (f *tomlFile) Resolve(ctx *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	if flag.Tag != nil && anyEnvSet(flag.Tag.Envs) {
		return nil, nil
	}
	key := keyOf(flag.Name)
	if n := ctx.Selected(); n != nil {
		if table, ok := f.values[n.Name].(map[string]any); ok {
			if v, ok := table[key]; ok {
				return plain(v), nil
			}
		}
	}
	if v, ok := f.values[key]; ok {
		if _, table := v.(map[string]any); !table {
			return plain(v), nil
		}
	}
	return nil, nil
}

// plain turns a TOML list into the comma-separated form that flags parse, and leaves scalars alone.
func plain(v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	parts := make([]string, len(list))
	for i, e := range list {
		parts[i] = strings.ReplaceAll(fmt.Sprint(e), ",", `\,`)
	}
	return strings.Join(parts, ",")
}
