// Webbuild bundles the page of internal/web: sources and vendored libraries in, dist out. It needs neither node nor a network.
//
//	go run -C tools/webbuild .          writes internal/web/dist
//	go run -C tools/webbuild . -check   fails when dist is not what the sources make
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// libraries are the names under which the sources import what lies in lib.
var libraries = map[string]string{
	"preact":               "preact/preact.mjs",
	"preact/hooks":         "preact/hooks.mjs",
	"htm":                  "htm/htm.mjs",
	"@preact/signals":      "signals/signals.mjs",
	"@preact/signals-core": "signals-core/signals-core.mjs",
	"marked":               "marked/marked.esm.js",
	"dompurify":            "dompurify/purify.es.mjs",
}

func main() {
	root := flag.String("root", "../../internal/web", "folder with src, lib and dist")
	check := flag.Bool("check", false, "compare with dist instead of writing it")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "webbuild:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	if err := pinned(filepath.Join(root, "lib")); err != nil {
		return err
	}
	files, err := bundle(root)
	if err != nil {
		return err
	}
	if err := copies(root, files); err != nil {
		return err
	}
	if check {
		return same(filepath.Join(root, "dist"), files)
	}
	return write(filepath.Join(root, "dist"), files)
}

// pinned compares lib with its list of hashes.
func pinned(lib string) error {
	list, err := os.ReadFile(filepath.Join(lib, "SHA256SUMS"))
	if err != nil {
		return err
	}
	listed := map[string]bool{"SHA256SUMS": true, "README.md": true}
	for line := range strings.Lines(string(list)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		b, err := os.ReadFile(filepath.Join(lib, name))
		if err != nil {
			return err
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(b)); got != sum {
			return fmt.Errorf("lib/%s has the hash %s, not the pinned %s", name, got, sum)
		}
		listed[filepath.ToSlash(name)] = true
	}
	return filepath.WalkDir(lib, func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(lib, path)
		if err != nil || d.IsDir() || d.Name() == "LICENSE" || listed[filepath.ToSlash(rel)] {
			return err
		}
		return fmt.Errorf("lib/%s is not in SHA256SUMS", rel)
	})
}

// bundle makes app.js and app.css.
func bundle(root string) (map[string][]byte, error) {
	alias := map[string]string{}
	for name, path := range libraries {
		alias[name] = filepath.Join(root, "lib", filepath.FromSlash(path))
	}
	r := api.Build(api.BuildOptions{
		EntryPointsAdvanced: []api.EntryPoint{
			{InputPath: filepath.Join(root, "src", "main.js"), OutputPath: "app"},
			{InputPath: filepath.Join(root, "src", "style.css"), OutputPath: "app"},
		},
		Outdir: filepath.Join(root, "dist"), AbsWorkingDir: root,
		Bundle: true, Format: api.FormatESModule, Target: api.ES2022, Charset: api.CharsetUTF8, LegalComments: api.LegalCommentsNone,
		MinifySyntax: true, MinifyWhitespace: true, MinifyIdentifiers: true,
		Alias: alias, External: []string{"*.woff2"},
		Engines: []api.Engine{{Name: api.EngineChrome, Version: "123"}, {Name: api.EngineFirefox, Version: "120"}, {Name: api.EngineSafari, Version: "17.5"}},
	})
	if len(r.Errors) > 0 {
		return nil, errors.New(strings.Join(api.FormatMessages(r.Errors, api.FormatMessagesOptions{}), ""))
	}
	files := map[string][]byte{}
	for _, f := range r.OutputFiles {
		files[filepath.Base(f.Path)] = f.Contents
	}
	return files, nil
}

// copies adds what goes into dist as it is, and the licences as one text.
func copies(root string, files map[string][]byte) error {
	fonts, err := filepath.Glob(filepath.Join(root, "lib", "*", "*.woff2"))
	if err != nil {
		return err
	}
	for _, path := range append(fonts, filepath.Join(root, "src", "index.html"), filepath.Join(root, "src", "icon.svg")) {
		if files[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			return err
		}
	}
	licences, err := filepath.Glob(filepath.Join(root, "lib", "*", "LICENSE"))
	if err != nil {
		return err
	}
	var all bytes.Buffer
	all.WriteString("This page contains the work of others, under these licences.\n")
	for _, path := range licences {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "\n== %s\n\n%s\n", filepath.Base(filepath.Dir(path)), bytes.TrimSpace(text))
	}
	files["licences.txt"] = all.Bytes()
	return nil
}

func write(dist string, files map[string][]byte) error {
	if err := os.RemoveAll(dist); err != nil {
		return err
	}
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Printf("%8d %s\n", len(files[name]), name)
		if err := os.WriteFile(filepath.Join(dist, name), files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// same compares dist with what the sources make, both ways.
func same(dist string, files map[string][]byte) error {
	there, err := os.ReadDir(dist)
	if err != nil {
		return err
	}
	for _, e := range there {
		if files[e.Name()] == nil {
			return fmt.Errorf("dist/%s comes from nothing", e.Name())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		b, err := os.ReadFile(filepath.Join(dist, name))
		if err != nil {
			return err
		}
		if !bytes.Equal(b, files[name]) {
			return fmt.Errorf("dist/%s is not what the sources make: go run -C tools/webbuild . and commit", name)
		}
	}
	return nil
}
