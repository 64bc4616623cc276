package embedded

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"
	"testing/fstest"
)

func TestRead(t *testing.T) {
	from := fstest.MapFS{"model/tl.tinyloop": {Data: []byte("GGUF")}}
	if b, ok := read(from, "tl.tinyloop"); !ok || string(b) != "GGUF" {
		t.Errorf("got %q %v", b, ok)
	}
	if b, ok := read(from, "manifest.json"); ok {
		t.Errorf("an absent file gave %q", b)
	}
}

// The model comes with its licence and a manifest that names this very file, and stays small.
func TestShipped(t *testing.T) {
	if _, ok := read(files, "LICENSE"); !ok {
		t.Error("no LICENSE beside the model")
	}
	b, ok := Model()
	m, described := Manifest()
	if ok != described {
		t.Fatalf("model %v, manifest %v: one needs the other", ok, described)
	}
	if !ok {
		return // a build without a model
	}
	if len(b) > MaxSize || !bytes.HasPrefix(b, []byte("GGUF")) {
		t.Errorf("%d bytes that start with %.4q; at most %d of a .tinyloop are allowed", len(b), b, MaxSize)
	}
	var manifest struct{ SHA256 string }
	if err := json.Unmarshal(m, &manifest); err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(b); manifest.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("manifest.json has sha256 %q, the file %x", manifest.SHA256, sum)
	}
}
