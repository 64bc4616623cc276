package serve

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tinyloop/internal/host"
)

func TestABodyThatStopsArriving(t *testing.T) {
	ts := httptest.NewServer(New(host.New(), Config{BodyTimeout: 30 * time.Millisecond}))
	defer ts.Close()
	c, err := net.Dial("tcp", strings.TrimPrefix(ts.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"pro")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestConnectionCap(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	capped := limitConns(l, 2)
	defer capped.Close()
	accepted := make(chan net.Conn, 3)
	go func() {
		for {
			c, err := capped.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first := <-accepted
	second := <-accepted
	select {
	case <-accepted:
		t.Fatal("a third connection was accepted")
	case <-time.After(30 * time.Millisecond):
	}
	first.Close()
	first.Close() // closing twice must not free two places
	third := <-accepted
	second.Close()
	third.Close()
	capped.Close()
	if _, open := <-accepted; open {
		t.Error("Accept goes on after Close")
	}
}

func TestAcceptableContentTypes(t *testing.T) {
	for kind, want := range map[string]bool{"": true, "application/json": true, "application/problem+json": true, "text/plain": true, "text/html": false,
		"multipart/form-data; boundary=x": false, ";": false} {
		if got := acceptable(kind, []byte("[]")); got != want {
			t.Errorf("%q: %v", kind, got)
		}
		if !acceptable(kind, []byte("\xef\xbb\xbf {}")) {
			t.Errorf("%q over an object is refused", kind)
		}
	}
}

func TestCleanBoundsAndEscapes(t *testing.T) {
	for s, want := range map[string]string{"plain é": "plain é", "a\nb": `a\nb`, "\x1b[31m": `\x1b[31m`, "a\u2028b": `a\u2028b`, "tab\t": `tab\t`} {
		if got := clean(s, 100); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
	if got := clean(strings.Repeat("é", 100), 11); got != strings.Repeat("é", 5)+"…" {
		t.Errorf("%q", got)
	}
}
