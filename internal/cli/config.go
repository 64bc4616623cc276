package cli

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sort"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/alecthomas/kong"
)

// tomlFile gives flags their values from a configuration file. Keys are flag names with underscores; a key at the top counts for every command, one in
// the table of a command for that command only ([data.gen] for a command of a group). A flag or an environment variable wins over the file.
//
//	max_seq_len = 2048
//	[serve]
//	addr = "127.0.0.1:8000"
//	model = ["tl=stories.gguf", "big=other.tinyloop"]
type tomlFile struct {
	name   string // of the file, for errors
	values map[string]any
}

func loadTOML(r io.Reader) (kong.Resolver, error) {
	f := &tomlFile{name: "configuration file", values: map[string]any{}}
	if file, ok := r.(*os.File); ok {
		f.name += " " + file.Name()
	}
	if _, err := toml.NewDecoder(r).Decode(&f.values); err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	return f, nil
}

func keyOf(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

// Validate refuses keys that no command knows: a misspelt setting must not be lost in silence.
func (f *tomlFile) Validate(app *kong.Application) error {
	wrong := unknownKeys(f.values, app.Node, "")
	if len(wrong) == 0 {
		return nil
	}
	sort.Strings(wrong)
	return fmt.Errorf("%s: unknown key %s", f.name, strings.Join(wrong, ", "))
}

// unknownKeys lists the keys of the table of n, a command or a group of commands, which no command there has. at is the table's name and a dot.
func unknownKeys(table map[string]any, n *kong.Node, at string) (wrong []string) {
	known := flagKeys(n)
	for k, v := range table {
		sub, isTable := v.(map[string]any)
		if !isTable {
			if !known[k] {
				wrong = append(wrong, at+k)
			}
			continue
		}
		i := slices.IndexFunc(n.Children, func(c *kong.Node) bool { return c.Name == k })
		if i < 0 {
			wrong = append(wrong, "["+at+k+"]")
			continue
		}
		wrong = append(wrong, unknownKeys(sub, n.Children[i], at+k+".")...)
	}
	return wrong
}

// flagKeys are the keys of all flags of n and of the commands below it.
func flagKeys(n *kong.Node) map[string]bool {
	keys := map[string]bool{}
	for _, group := range n.AllFlags(false) {
		for _, flag := range group {
			keys[keyOf(flag.Name)] = true
		}
	}
	for _, c := range n.Children {
		maps.Copy(keys, flagKeys(c))
	}
	return keys
}

// commandPath names a command and the groups it stands in, outermost first: data, gen.
func commandPath(n *kong.Node) (names []string) {
	for ; n != nil && n.Type == kong.CommandNode; n = n.Parent {
		names = append(names, n.Name)
	}
	slices.Reverse(names)
	return names
}

// Resolve finds a flag's value for the command that runs: in the command's own table, then in those around it.
func (f *tomlFile) Resolve(ctx *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	if flag.Tag != nil && anyEnvSet(flag.Tag.Envs) {
		return nil, nil
	}
	tables := []map[string]any{f.values}
	for _, name := range commandPath(ctx.Selected()) {
		sub, ok := tables[len(tables)-1][name].(map[string]any)
		if !ok {
			break
		}
		tables = append(tables, sub)
	}
	for _, table := range slices.Backward(tables) {
		v, ok := table[keyOf(flag.Name)]
		if _, isTable := v.(map[string]any); ok && !isTable {
			return plain(v), nil
		}
	}
	return nil, nil
}

// plain gives a value the form it would have as a flag, so that both are read and refused alike; a list is separated by commas.
func plain(v any) string {
	list, ok := v.([]any)
	if !ok {
		return fmt.Sprint(v)
	}
	parts := make([]string, len(list))
	for i, e := range list {
		parts[i] = strings.ReplaceAll(fmt.Sprint(e), ",", `\,`)
	}
	return strings.Join(parts, ",")
}
