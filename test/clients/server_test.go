// Package clients runs the official clients that people use against the real binary: what they read must be what the server computed.
package clients

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// base is the URL of the server that TestMain started, or "" where there is no model to serve.
var base string

const model = "../../../shared/data/stories260K/stories260K-f32.gguf"

// inside is the model of the program, which has a chat template with tools. It is served as "inside" beside the other.
const inside = "../../internal/embedded/model/tl.tinyloop"

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if _, err := os.Stat(model); err != nil {
		return m.Run() // every test skips
	}
	dir, err := os.MkdirTemp("", "tinyloop-clients-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "tinyloop")
	build := exec.Command("go", "build", "-o", bin, "./cmd/tinyloop")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v\n%s", err, out))
	}
	server := exec.Command(bin, "serve", "--addr", "127.0.0.1:0", "--model", model, "--model", "inside="+inside)
	out, err := server.StdoutPipe()
	if err != nil {
		panic(err)
	}
	server.Stderr = os.Stderr
	server.Env = append(os.Environ(), "TINYLOOP_LOG_LEVEL=error")
	if err := server.Start(); err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(out)
	for base == "" && lines.Scan() {
		if u, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), "url"); ok {
			base = strings.TrimSpace(u)
		}
	}
	go func() {
		for lines.Scan() {
		}
	}()
	code := m.Run()
	server.Process.Signal(syscall.SIGTERM)
	if err := server.Wait(); err != nil {
		fmt.Println("the server did not end well:", err)
		return 1
	}
	return code
}

func needServer(t *testing.T) context.Context {
	t.Helper()
	if base == "" {
		t.Skip("needs ../shared/data/stories260K beside the checkout, which is absent")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// expected asks the native route for the same greedy continuation, the yardstick of every client.
func expected(t *testing.T, prompt string, maxTokens int) string {
	t.Helper()
	body, _ := json.Marshal(map[string]any{"prompt": prompt, "max_tokens": maxTokens, "temperature": 0})
	res, err := http.Post(base+"/generate", "application/json", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var out struct{ Text string }
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil || out.Text == "" {
		t.Fatalf("native answer: %v, %q", err, out.Text)
	}
	return out.Text
}

const prompt = "Once upon a time"

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}
