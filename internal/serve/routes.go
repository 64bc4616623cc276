package serve

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"tinyloop/internal/dialect"
	"tinyloop/internal/dialect/minilab"
	"tinyloop/internal/dialect/native"
	"tinyloop/internal/dialect/openai"
	"tinyloop/internal/fault"
	"tinyloop/internal/gen"
	"tinyloop/internal/host"
	"tinyloop/internal/web"
)

// endpoint is one method of one path.
type endpoint struct {
	dialect *dialect.Dialect // how errors are told
	serve   func(x *exchange, r *http.Request)
}

// table collects the endpoints by path, so that each path has one handler that knows all its methods.
type table map[string]map[string]endpoint

func (t table) add(method, path string, e endpoint) {
	if t[path] == nil {
		t[path] = map[string]endpoint{}
	}
	t[path][method] = e
}

// paths lists the paths without variables in order, that of the page left out.
func (t table) paths() []string {
	var out []string
	for path := range t {
		if !strings.Contains(path, "{") {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

// Paths lists the paths that are served, those with variables left out. The caller must not change it.
func (s *Server) Paths() []string { return s.paths }

func (s *Server) routes() *http.ServeMux {
	s.openai = openai.New(openai.Options{Strict: s.cfg.StrictOpenAI, Version: s.cfg.Version})
	s.native = native.New()
	t := table{}
	for _, d := range []*dialect.Dialect{s.openai, s.native, minilab.New(s.cfg.MiniLab)} {
		for _, r := range d.Routes {
			t.add(r.Method, r.Path, endpoint{d, s.routed(r)})
		}
	}
	t.add(http.MethodGet, "/health", endpoint{s.native, s.health})
	t.add(http.MethodGet, "/readyz", endpoint{s.native, s.ready})
	t.add(http.MethodGet, "/metrics", endpoint{s.native, s.metrics.serve})
	t.add(http.MethodGet, "/{$}", endpoint{s.native, s.home(s.index(t))})
	if s.page != nil { // its files are no routes for programs, so the index does not list them
		t.add(http.MethodGet, "/ui/{file}", endpoint{s.native, s.pageFile})
	}
	s.paths = t.paths()
	mux := http.NewServeMux()
	for path, methods := range t {
		mux.HandleFunc(path, s.path(path, methods))
	}
	mux.HandleFunc("/", s.unknown)
	return mux
}

// dialectOf gives the dialect in which a path's errors are told before its route is known.
func (s *Server) dialectOf(path string) *dialect.Dialect {
	if strings.HasPrefix(path, "/v1/") || path == "/v1" {
		return s.openai
	}
	return s.native
}

// path answers every method of one path: those it has, HEAD as GET, OPTIONS with the list, and the others with 405.
func (s *Server) path(pattern string, methods map[string]endpoint) http.HandlerFunc {
	allow := allowed(methods)
	return func(w http.ResponseWriter, r *http.Request) {
		x := w.(*exchange)
		x.route = pattern
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		if e, ok := methods[method]; ok {
			x.dialect = e.dialect
			e.serve(x, r)
			return
		}
		x.Header().Set("Allow", allow)
		if r.Method == http.MethodOptions {
			x.WriteHeader(http.StatusNoContent)
			return
		}
		for _, e := range methods {
			x.dialect = e.dialect
		}
		s.failWith(x, http.StatusMethodNotAllowed, &fault.Error{Kind: fault.Malformed, Code: "method_not_allowed",
			Msg: fmt.Sprintf("%s is not a method of %s; allowed are %s", clean(r.Method, 20), clean(r.URL.Path, 100), allow)})
	}
}

func allowed(methods map[string]endpoint) string {
	list := []string{http.MethodOptions}
	for m := range methods {
		list = append(list, m)
		if m == http.MethodGet {
			list = append(list, http.MethodHead)
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// unknown answers every path that no route has.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	x := w.(*exchange)
	if r.Method == http.MethodOptions {
		x.WriteHeader(http.StatusNoContent)
		return
	}
	s.fail(x, &fault.Error{Kind: fault.NotFound, Code: "unknown_url",
		Msg: fmt.Sprintf("there is nothing at %s %s; GET / lists what there is", clean(r.Method, 20), clean(r.URL.Path, 100))})
}

// routed reads the body where the method has one and hands the call to the route.
func (s *Server) routed(route dialect.Route) func(x *exchange, r *http.Request) {
	return func(x *exchange, r *http.Request) {
		x.call = &dialect.Call{Ctx: r.Context(), ID: s.answerID(x), Created: x.start, Value: r.PathValue, Models: models{s.host}}
		if route.Method == http.MethodPost {
			if s.draining.Load() {
				s.fail(x, &fault.Error{Kind: fault.Unavailable, Msg: errDraining.Error()})
				return
			}
			if !s.body(x, r) {
				return
			}
		}
		if route.Decode != nil {
			s.generate(x, r, route)
			return
		}
		s.answer(x, route)
	}
}

// answerID names the answer. It is the request's id unless that came from the caller, who may use one twice.
func (s *Server) answerID(x *exchange) string {
	if x.ownID {
		return x.id
	}
	return s.cfg.NewID()
}

// answer serves a route that needs no generation.
func (s *Server) answer(x *exchange, route dialect.Route) {
	body, err := route.Answer(x.call)
	if err != nil {
		s.fail(x, err)
		return
	}
	s.whole(x, append(body, '\n'))
}

// whole sends a complete JSON body.
func (s *Server) whole(x *exchange, body []byte) {
	s.answerHeader(x, x.dialect)
	h := x.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.WriteHeader(http.StatusOK)
	x.Write(body)
}

// models is the host as dialects see it.
type models struct{ h *host.Host }

func (m models) Open(name string) (*gen.Generator, func(), error) {
	got, release, err := m.h.Get(name)
	if err != nil {
		return nil, nil, err
	}
	return got.Generator, release, nil
}

func (m models) List() []dialect.Listed {
	var out []dialect.Listed
	for i, x := range m.h.List() {
		aliases := x.Aliases
		if i == 0 && !slices.Contains(aliases, "tl") && x.Name != "tl" {
			aliases = append(slices.Clone(aliases), "tl")
		}
		out = append(out, dialect.Listed{Name: x.Name, Aliases: aliases, Info: x.Info()})
	}
	return out
}

// home answers / with the page for browsers and with the index for everybody else.
func (s *Server) home(index func(x *exchange, r *http.Request)) func(x *exchange, r *http.Request) {
	if s.page == nil {
		return index
	}
	return func(x *exchange, r *http.Request) {
		x.Header().Add("Vary", "Accept")
		if web.Wanted(r.Header.Get("Accept")) {
			s.page.Serve(x, r, web.Index)
			return
		}
		index(x, r)
	}
}

// pageFile serves what the page loads.
func (s *Server) pageFile(x *exchange, r *http.Request) {
	name := r.PathValue("file")
	if !s.page.Has(name) {
		s.unknown(x, r)
		return
	}
	s.page.Serve(x, r, name)
}

// index lists what there is, for programs and for people who ask with curl.
func (s *Server) index(t table) func(x *exchange, r *http.Request) {
	var lines []string
	for path, methods := range t {
		for m := range methods {
			lines = append(lines, fmt.Sprintf("%-5s %s", m, strings.ReplaceAll(strings.TrimSuffix(path, "{$}"), "...}", "}")))
		}
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[6:]+a[:6], b[6:]+b[:6]) })
	var page bytes.Buffer
	page.WriteString("TinyLoop " + s.cfg.Version + "\n\n")
	for _, l := range slices.Compact(lines) {
		page.WriteString(l + "\n")
	}
	text := page.String()
	return func(x *exchange, r *http.Request) { plain(x, http.StatusOK, text) }
}
