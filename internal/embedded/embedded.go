// Package embedded holds the model inside the program: the bytes of one .tinyloop file with its licence and its manifest. Without the file the package
// builds all the same, and the program then has no model of its own.
package embedded

import (
	"embed"
	"io/fs"
)

// File stands for the path of the model in messages.
const File = "embedded:tl.tinyloop"

// MaxSize bounds the model in bytes: everybody who builds the program carries it.
const MaxSize = 4 << 20

//go:embed model
var files embed.FS

// Model gives the bytes of a .tinyloop file, a copy that is the caller's own. It gives false when this build has none.
func Model() ([]byte, bool) { return read(files, "tl.tinyloop") }

// Manifest gives the JSON object that says how the model was made, false when this build has no model.
func Manifest() ([]byte, bool) { return read(files, "manifest.json") }

func read(from fs.FS, name string) ([]byte, bool) {
	b, err := fs.ReadFile(from, "model/"+name)
	return b, err == nil // the only possible error is that there is no such file
}
