// Package web holds the page that the server shows to people: question box, streaming answer, loops. All of it is in the binary; its content policy
// lets a browser load and call nothing but this server.
//
// The sources are in src, the libraries of others in lib, and dist is what tools/webbuild makes of them.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed dist
var dist embed.FS

// Index is the name of the page itself among its files.
const Index = "index.html"

// policy is the content policy of every file. Scripts can turn text into HTML only by way of the sanitiser (trusted types).
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify"

// Page is the set of files. It is safe for concurrent use.
type Page struct{ files map[string]*file }

// file is one file, ready to be sent.
type file struct {
	kind string // content type
	tag  string // hash of the content, without quotes
	body []byte
	zip  func() []byte // body under gzip; nil where that saves nothing
}

// New reads the files from the binary.
func New() *Page {
	p := &Page{files: map[string]*file{}}
	list, err := fs.ReadDir(dist, "dist")
	if err != nil {
		panic(err) // the folder is in the binary
	}
	for _, e := range list {
		b, err := fs.ReadFile(dist, path.Join("dist", e.Name()))
		if err != nil {
			panic(err)
		}
		p.files[e.Name()] = newFile(e.Name(), b)
	}
	return p
}

func newFile(name string, body []byte) *file {
	sum := sha256.Sum256(body)
	f := &file{kind: kind(name), tag: base64.RawURLEncoding.EncodeToString(sum[:12]), body: body}
	if path.Ext(name) != ".woff2" { // which is compressed already
		f.zip = sync.OnceValue(func() []byte { return compress(body) })
	}
	return f
}

// kind is a file's content type. The system's table differs between machines.
func kind(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".woff2":
		return "font/woff2"
	}
	return "text/plain; charset=utf-8"
}

func compress(b []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is a valid one
	w.Write(b)                                              // into memory
	w.Close()
	return out.Bytes()
}

// Has says whether there is a file of this name.
func (p *Page) Has(name string) bool { return p.files[name] != nil }

// Serve answers a GET or HEAD for a file that the page has. Browsers ask again each time and are told that nothing changed: a new binary shows at once.
func (p *Page) Serve(w http.ResponseWriter, r *http.Request, name string) {
	f := p.files[name]
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
	h.Add("Vary", "Accept-Encoding")
	body, tag := f.body, `"`+f.tag+`"`
	if f.zip != nil && takesGzip(r.Header.Get("Accept-Encoding")) {
		body, tag = f.zip(), `"`+f.tag+`-gz"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", tag)
	if matches(r.Header.Get("If-None-Match"), tag) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		w.Write(body)
	}
}

// Wanted says whether a request to / comes from a browser, which asks for HTML by name; programs get the list of routes.
func Wanted(accept string) bool { return strings.Contains(strings.ToLower(accept), "text/html") }

// takesGzip reads Accept-Encoding (RFC 9110, section 12.5.3): gzip is named, and not with a weight of zero.
func takesGzip(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		coding, param, _ := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			continue
		}
		q, weighted := strings.CutPrefix(strings.ReplaceAll(strings.ToLower(param), " ", ""), "q=")
		v, err := strconv.ParseFloat(q, 64)
		return !weighted || err == nil && v > 0
	}
	return false
}

// matches reads If-None-Match (RFC 9110, section 13.1.2), by weak comparison.
func matches(list, tag string) bool {
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimPrefix(strings.TrimSpace(part), "W/")
		if part == tag || part == "*" {
			return true
		}
	}
	return false
}
