package servetest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tinyloop/internal/serve"
)

// Clients that hold a connection in odd ways.

// dial serves w and opens a bare connection to it. done receives once for each handler that has returned.
func (w *World) dial() (c net.Conn, done chan struct{}) {
	w.T.Helper()
	done = make(chan struct{}, 16)
	s := w.serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		defer func() { done <- struct{}{} }()
		w.Server.Handler().ServeHTTP(rw, r)
	}))
	return s.Dial(w.T), done
}

func ask(c net.Conn, path, body string) {
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

func TestAClientThatNeverReadsAWholeAnswer(t *testing.T) { Timed(t, aClientThatNeverReadsAWholeAnswer) }

func aClientThatNeverReadsAWholeAnswer(t *testing.T) {
	w := New(t, Options{Serve: serve.Config{WriteTimeout: 100 * time.Millisecond}})
	c, done := w.dial()
	ask(c, "/tokenize", `{"with_pieces":true,"content":"`+strings.Repeat("x", 1<<14)+`"}`)
	start := time.Now()
	<-done
	if d := time.Since(start); d > 100*time.Millisecond {
		t.Errorf("the handler waited %v for a client that does not read", d)
	}
}

func TestASlowReaderGetsAWholeAnswer(t *testing.T) { Timed(t, aSlowReaderGetsAWholeAnswer) }

func aSlowReaderGetsAWholeAnswer(t *testing.T) {
	w := New(t, Options{Serve: serve.Config{WriteTimeout: 300 * time.Millisecond}})
	c, _ := w.dial()
	ask(c, "/tokenize", `{"with_pieces":true,"content":"`+strings.Repeat("x", 1<<14)+`"}`)
	res, err := http.ReadResponse(bufio.NewReaderSize(c, 256<<10), nil)
	if err != nil {
		t.Fatal(err)
	}
	n, buf := int64(0), make([]byte, 1<<20)
	for start := time.Now(); err == nil; { // as much as WriteTimeout allows for one piece, for longer than WriteTimeout in all
		var k int
		k, err = res.Body.Read(buf)
		n += int64(k)
		if time.Since(start) < 600*time.Millisecond {
			time.Sleep(20 * time.Millisecond)
		}
	}
	if err != io.EOF || n != res.ContentLength {
		t.Errorf("%d of %d bytes: %v", n, res.ContentLength, err)
	}
}

// A client that has closed its writing side looks like one that has gone. It must not be told 200 over nothing, nor a cut stream that ends well.
func TestAHalfClosedConnectionIsNotALie(t *testing.T) {
	for _, stream := range []bool{false, true} {
		w := New(t, Options{Say: []string{"a"}, Endless: true, Context: 4096})
		if stream {
			w.Model.SetDelay(time.Millisecond)
		}
		ts := httptest.NewServer(w.Server.Handler())
		defer ts.Close()
		c, err := net.Dial("tcp", ts.Listener.Addr().String()) // pipes cannot be half closed
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if !stream {
			defer w.Model.Freeze()()
		}
		ask(c, "/v1/completions", fmt.Sprintf(`{"prompt":"p","stream":%v}`, stream))
		r := bufio.NewReader(c)
		var head strings.Builder
		if stream { // the first frame is out
			for !strings.Contains(head.String(), "data:") {
				b, err := r.ReadByte()
				if err != nil {
					t.Fatal(err)
				}
				head.WriteByte(b)
			}
			defer w.Model.Freeze()()
		}
		c.(*net.TCPConn).CloseWrite()
		rest, _ := io.ReadAll(r)
		got := head.String() + string(rest)
		if stream && strings.HasSuffix(got, "0\r\n\r\n") && !strings.Contains(got, "[DONE]") {
			t.Errorf("a cut stream ends as if it were whole: …%q", got[len(got)-60:])
		}
		if !stream && !strings.HasPrefix(got, "HTTP/1.1 4") {
			t.Errorf("%.100q", got)
		}
	}
}

func TestATrickledBodyEnds(t *testing.T) { Timed(t, aTrickledBodyEnds) }

func aTrickledBodyEnds(t *testing.T) {
	w := New(t, Options{Serve: serve.Config{BodyTimeout: 400 * time.Millisecond}})
	c, _ := w.dial()
	fmt.Fprint(c, "POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{")
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				c.Write([]byte(" "))
			}
		}
	}()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || res.StatusCode != http.StatusRequestTimeout {
		t.Errorf("%v %v", res, err)
	}
}

func TestTargetsThatAreNoPath(t *testing.T) { Timed(t, targetsThatAreNoPath) }

func targetsThatAreNoPath(t *testing.T) {
	for _, target := range []string{"GET *", "CONNECT localhost:80", "PRI *"} {
		w := New(t, Options{})
		c, _ := w.dial()
		fmt.Fprint(c, target+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		if res.StatusCode != 404 || !strings.Contains(string(b), "unknown_url") {
			t.Errorf("%s: %d %s", target, res.StatusCode, b)
		}
	}
}

// A request whose body is still on its way when the server stops is told so, as those are whose answers are cut.
func TestABodyOnItsWayAtShutdown(t *testing.T) { Timed(t, aBodyOnItsWayAtShutdown) }

func aBodyOnItsWayAtShutdown(t *testing.T) {
	w := New(t, Options{Serve: serve.Config{DrainTimeout: 2 * time.Second}})
	site, end := listen(t, w)
	c := site.Dial(t)
	fmt.Fprint(c, "POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
	time.Sleep(100 * time.Millisecond)
	took := make(chan time.Duration, 1)
	go func() { took <- end() }()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%v %v", res, err)
	}
	if d := <-took; d > 2*time.Second {
		t.Errorf("shutdown took %v", d)
	}
}
