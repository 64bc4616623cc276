package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "tinyloop/"

// rank is the import ladder: a package imports only packages of a lower rank. Each line says why the package stands where it does. Changing the
// table is a decision for ARCHITECTURE.md, not a way to make a build pass.
var rank = map[string]int{
	"internal/fault":          -1, // the vocabulary of user errors: anyone may import it
	"internal/invariants":     -1, // checks under a build tag: anyone may import it
	"internal/fixture":        -1, // test data beside the checkout, patience: tests only
	"internal/machine":        0,  // what the machine offers; locks on folders
	"internal/par":            0,  // splits a loop over cores; knows no model
	"internal/kernel":         0,  // inner loops and number formats on slices
	"internal/tok":            0,  // text to ids and back; knows no model
	"internal/grammar":        0,  // schemas to token masks
	"internal/sched":          0,  // pure data
	"internal/access":         0,  // keys and limits
	"internal/embedded":       0,  // bytes of the model inside the program
	"internal/tensorfile":     1,  // containers of tensors whose formats are kernel.Type
	"internal/chat":           1,  // messages and templates
	"internal/sample":         1,  // logits to a token, over the one exponential of kernel
	"internal/nn":             1,  // layers over kernel and par
	"internal/optim":          1,  // methods over flat arrays, over par and kernel
	"internal/data":           2,  // corpora to batches, over tensorfile's atomic writer and chat's templates
	"internal/data/tinyworld": 3,  // the synthetic corpus, written as data's documents
	"internal/model":          2,  // Spec, weights, Enter/Turn/Leave over nn
	"internal/arch":           3,  // files to models
	"internal/engine":         3,  // the one decoding loop over model, sched, sample
	"internal/scripted":       3,  // the scripted model of tests, behind model.Runner
	"internal/gen":            4,  // the text side over engine, chat, tok
	"internal/bench":          4,  // measures models bare and through the engine; what serves them is handed in from above
	"internal/train":          5,  // runs, whose samples are written by gen over the engine that serves
	"internal/host":           5,  // several models in one process
	"internal/eval":           5,
	"internal/dialect":        5, // the contract of a wire format

	"internal/dialect/openai":    6,
	"internal/dialect/lmstudio":  6,
	"internal/dialect/anthropic": 6,
	"internal/dialect/ollama":    6,
	"internal/dialect/minilab":   6,
	"internal/dialect/native":    6,
	"internal/web":               6,

	"internal/serve":     7, // mux, admission, the one generate path
	"internal/servetest": 8, // the conformance suite every dialect must pass; tests only
	"internal/cli":       8, // subcommands
	"internal/house":     9, // these tests
	"cmd/tinyloop":       9, // main
}

// privilege names the only packages that may import a path, with the reason.
var privilege = []struct {
	path, why string
	only      []string
}{
	{"unsafe", "only kernels and the mapper of files touch raw memory", []string{"internal/kernel", "internal/tensorfile"}},
	{"net/http", "the wire belongs to dialects, serve and the command line", []string{"internal/dialect", "internal/web", "internal/serve", "internal/servetest", "internal/cli"}},
	{"golang.org/x/sys/unix", "raw system calls: files are mapped in tensorfile, the arena is kernel's, bench probes memory on huge pages, machine asks for its size and locks folders", []string{"internal/kernel", "internal/tensorfile", "internal/par", "internal/machine", "internal/cli", "internal/bench"}},
}

// forbidden names imports that a package must never have, itself or through others of ours, with the reason.
var forbidden = []struct{ pkg, path, why string }{
	{"internal/engine", "net/http", "the engine knows no HTTP (law)"},
	{"internal/engine", "encoding/json", "the engine knows no wire format (law)"},
	{"internal/engine", "tinyloop/internal/chat", "the engine knows ids, not text (law)"},
	{"internal/engine", "tinyloop/internal/grammar", "the engine knows a mask, not what it is for"},
	{"internal/grammar", "time", "a grammar is a pure function of its arguments"},
	{"internal/sched", "time", "the scheduler is pure data: time is an argument"},
	{"internal/sample", "time", "sampling is a pure function of its arguments"},
}

type pkg struct {
	imports map[string]bool // of non-test files
	files   []*ast.File
	names   []string
}

func load(t *testing.T) map[string]*pkg {
	t.Helper()
	root := filepath.Join("..", "..")
	pkgs := map[string]*pkg{}
	fset := token.NewFileSet()
	walk := func(dir string) {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil || d.Name() == "testdata" {
					return filepath.SkipDir // a module of its own, or data
				}
				return nil
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel(root, filepath.Dir(path))
			rel = filepath.ToSlash(rel)
			p := pkgs[rel]
			if p == nil {
				p = &pkg{imports: map[string]bool{}}
				pkgs[rel] = p
			}
			if f.Name.Name == "main" && rel != "cmd/tinyloop" || ignored(f) {
				return nil
			}
			p.files = append(p.files, f)
			p.names = append(p.names, path)
			for _, im := range f.Imports {
				s, _ := strconv.Unquote(im.Path.Value)
				p.imports[s] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	walk("internal")
	walk("cmd")
	return pkgs
}

// ignored says whether a file never takes part in a build of the product.
func ignored(f *ast.File) bool {
	for _, g := range f.Comments {
		for _, c := range g.List {
			if c.Pos() < f.Package && strings.Contains(c.Text, "//go:build ignore") {
				return true
			}
		}
	}
	return false
}

func TestLadder(t *testing.T) {
	for name, p := range load(t) {
		r, ok := rank[name]
		if !ok {
			t.Errorf("%s has no rank: add it to the table with its reason, and to ARCHITECTURE.md", name)
			continue
		}
		for im := range p.imports {
			if !strings.HasPrefix(im, module) {
				continue
			}
			to := strings.TrimPrefix(im, module)
			if ir, ok := rank[to]; ok && ir >= r {
				t.Errorf("%s (rank %d) imports %s (rank %d): imports only go down", name, r, to, ir)
			}
		}
		if p.imports[module+"internal/fixture"] && name != "internal/servetest" { // that is for tests only, as a whole
			t.Errorf("%s imports internal/fixture outside a test", name)
		}
	}
}

func TestPrivileges(t *testing.T) {
	pkgs := load(t)
	for name, p := range pkgs {
		for _, pr := range privilege {
			if !p.imports[pr.path] {
				continue
			}
			allowed := false
			for _, o := range pr.only {
				allowed = allowed || name == o || strings.HasPrefix(name, o+"/")
			}
			if !allowed {
				t.Errorf("%s imports %s: %s", name, pr.path, pr.why)
			}
		}
	}
	for _, f := range forbidden {
		for _, via := range reach(pkgs, f.pkg) {
			if pkgs[via].imports[f.path] {
				t.Errorf("%s reaches %s through %s: %s", f.pkg, f.path, via, f.why)
			}
		}
	}
}

// reach lists the packages of ours that name imports, itself first, without fault and invariants.
func reach(pkgs map[string]*pkg, name string) []string {
	seen := map[string]bool{}
	var out []string
	var visit func(string)
	visit = func(n string) {
		if seen[n] || pkgs[n] == nil {
			return
		}
		seen[n] = true
		out = append(out, n)
		for im := range pkgs[n].imports {
			if strings.HasPrefix(im, module) {
				visit(strings.TrimPrefix(im, module))
			}
		}
	}
	visit(name)
	return out
}

// TestNoHiddenState forbids init functions and mutable package variables: state is passed, never global.
func TestNoHiddenState(t *testing.T) {
	for name, p := range load(t) {
		if base := filepath.Base(name); base == "util" || base == "utils" || base == "common" {
			t.Errorf("%s: name a package by the noun of its trade", name)
		}
		for i, f := range p.files {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					t.Errorf("%s: no init functions", p.names[i])
				}
			}
			for _, v := range assigned(f) {
				t.Errorf("%s assigns to package variable %s: state is passed, never global", p.names[i], v)
			}
		}
	}
}

// assigned lists the package variables of f that some function of f assigns to.
func assigned(f *ast.File) []string {
	vars := map[string]bool{}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			for _, n := range s.(*ast.ValueSpec).Names {
				vars[n.Name] = true
			}
		}
	}
	var out []string
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			as, ok := n.(*ast.AssignStmt)
			if !ok || as.Tok == token.DEFINE {
				return true
			}
			for _, l := range as.Lhs {
				if id, ok := l.(*ast.Ident); ok && vars[id.Name] && id.Obj != nil && id.Obj.Kind == ast.Var && isTop(f, id) {
					out = append(out, id.Name)
				}
			}
			return true
		})
	}
	return out
}

// isTop says whether id resolves to a declaration at file level.
func isTop(f *ast.File, id *ast.Ident) bool {
	spec, ok := id.Obj.Decl.(*ast.ValueSpec)
	if !ok {
		return false
	}
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok {
			for _, s := range g.Specs {
				if s == spec {
					return true
				}
			}
		}
	}
	return false
}
