package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func get(t *testing.T, method, name string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, "/ui/"+name, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	New().Serve(w, r, name)
	return w.Result()
}

func body(t *testing.T, r *http.Response) []byte {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Every file comes plain and under gzip with the same content, with its type, its policy and a tag of its own, and as nothing when the browser has it.
func TestServe(t *testing.T) {
	for name, f := range New().files {
		t.Run(name, func(t *testing.T) {
			plain := get(t, "GET", name)
			zipped := get(t, "GET", name, "Accept-Encoding", "br, gzip;q=0.5")
			want := body(t, plain)
			got := body(t, zipped)
			if f.zip != nil {
				if zipped.Header.Get("Content-Encoding") != "gzip" || zipped.Header.Get("Etag") == plain.Header.Get("Etag") {
					t.Errorf("encoding %q, tags %s and %s", zipped.Header.Get("Content-Encoding"), plain.Header.Get("Etag"), zipped.Header.Get("Etag"))
				}
				z, err := gzip.NewReader(bytes.NewReader(got))
				if err != nil {
					t.Fatal(err)
				}
				if got, err = io.ReadAll(z); err != nil {
					t.Fatal(err)
				}
			}
			if len(want) == 0 || !bytes.Equal(got, want) {
				t.Errorf("%d bytes plain, %d under gzip", len(want), len(got))
			}
			for k, v := range map[string]string{"Content-Security-Policy": "default-src 'none'", "Cache-Control": "no-cache", "Vary": "Accept-Encoding", "Referrer-Policy": "no-referrer"} {
				if !strings.HasPrefix(plain.Header.Get(k), v) {
					t.Errorf("%s: %q", k, plain.Header.Get(k))
				}
			}
			if plain.Header.Get("Content-Type") == "" {
				t.Error("no content type")
			}
			tag := plain.Header.Get("Etag")
			for _, list := range []string{tag, `"x", W/` + tag, "*"} {
				if r := get(t, "GET", name, "If-None-Match", list); r.StatusCode != 304 || len(body(t, r)) != 0 || r.Header.Get("Etag") != tag {
					t.Errorf("If-None-Match %s: %d", list, r.StatusCode)
				}
			}
			if r := get(t, "GET", name, "If-None-Match", `"other"`); r.StatusCode != 200 {
				t.Errorf("another tag: %d", r.StatusCode)
			}
			if r := get(t, "HEAD", name); r.StatusCode != 200 || len(body(t, r)) != 0 || r.Header.Get("Content-Length") != plain.Header.Get("Content-Length") {
				t.Errorf("HEAD: %d, length %s", r.StatusCode, r.Header.Get("Content-Length"))
			}
		})
	}
}

func TestAcceptEncoding(t *testing.T) {
	for header, want := range map[string]bool{"": false, "gzip": true, "br,GZIP": true, "gzip;q=0": false, "gzip; q=0.0": false, "gzip;q=0.1": true, "deflate": false, "xgzip": false, "gzip;q=x": false} {
		if takesGzip(header) != want {
			t.Errorf("%q: want %v", header, want)
		}
	}
}

func TestWanted(t *testing.T) {
	for accept, want := range map[string]bool{"text/html,application/xhtml+xml,*/*;q=0.8": true, "*/*": false, "": false, "application/json": false} {
		if Wanted(accept) != want {
			t.Errorf("%q: want %v", accept, want)
		}
	}
}

// The page names only files that are there, and nothing of another place; no policy would let it load that anyway.
func TestSelfContained(t *testing.T) {
	p := New()
	named := regexp.MustCompile(`(?:href=|src=|url\()"?([^"()]+)["()]`)
	for _, name := range []string{Index, "app.css"} {
		for _, m := range named.FindAllSubmatch(p.files[name].body, -1) {
			file, ours := strings.CutPrefix(string(m[1]), "/ui/")
			if !ours || !p.Has(file) {
				t.Errorf("%s names %s, which is no file of the page", name, m[1])
			}
		}
	}
	for name, least := range map[string]int{Index: 4, "app.css": 3} {
		if n := len(named.FindAll(p.files[name].body, -1)); n < least {
			t.Errorf("only %d files are named in %s: the pattern misses some", n, name)
		}
	}
	for name, f := range p.files {
		if name != "licences.txt" && regexp.MustCompile(`\beval\(|new Function\(|importScripts`).Match(f.body) {
			t.Errorf("%s runs text as a program, which the policy forbids", name)
		}
	}
}
