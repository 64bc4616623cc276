package train

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"tinyloop/internal/fault"
	"tinyloop/internal/kernel"
	"tinyloop/internal/tensorfile"
)

// Files of a run's folder.
const (
	ManifestName = "run.json"
	MetricsName  = "metrics.jsonl"
	BestName     = "best.tinyloop"
	LastName     = "last.tinyloop"
)

// Status is how far a run is.
type Status string

const (
	Running     Status = "running" // or killed
	Interrupted Status = "interrupted"
	Done        Status = "done"
	Failed      Status = "failed"
)

// Manifest is run.json: what was run, on what, and what came of it.
type Manifest struct {
	Format   int      `json:"format"` // 1
	Name     string   `json:"name"`
	Status   Status   `json:"status"`
	Error    string   `json:"error,omitempty"`
	Version  string   `json:"version"`
	Commit   string   `json:"commit,omitempty"`
	Args     []string `json:"args,omitempty"`
	Config   Config   `json:"config"`
	Parent   string   `json:"parent,omitempty"` // hash of the weights that the run began with
	Replays  string   `json:"replays,omitempty"`
	Corpus   Corpus   `json:"corpus"`
	Model    Shape    `json:"model"`
	Machine  Machine  `json:"machine"`
	Steps    int      `json:"steps"` // 0 = by time
	Progress Progress `json:"progress"`

	Sittings    []Sitting         `json:"sittings"`
	Evaluations []EvalMetrics     `json:"evaluations"`
	Artifacts   map[string]string `json:"artifacts,omitempty"` // SHA-256 of the files that came out
}

// Corpus names the training text by its hashes.
type Corpus struct {
	Path      string `json:"path"`
	Manifest  string `json:"manifest_sha256"`
	Tokenizer string `json:"tokenizer"`
}

// Shape is the size of the model.
type Shape struct {
	Params   int64 `json:"params"`
	Unrolled int64 `json:"params_unrolled"`
	Vocab    int   `json:"vocab"`
	Context  int   `json:"context"`
	Bytes    int64 `json:"memory_bytes"`
}

// Machine is where a run ran. Kernels of another instruction set give other bits.
type Machine struct {
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	CPU     string `json:"cpu,omitempty"`
	Cores   int    `json:"cores"`
	Threads int    `json:"threads"`
	Kernels string `json:"kernels"`
	Go      string `json:"go"`
}

// Progress is how much has been done.
type Progress struct {
	Step    int     `json:"step"`
	Tokens  int64   `json:"tokens"`
	Seconds float64 `json:"seconds"`
	FLOPs   float64 `json:"flops"`
	Skipped int     `json:"skipped_steps"`
	Level   int     `json:"level,omitempty"`
	Best    float64 `json:"best_bpb,omitempty"`
	BestAt  int     `json:"best_step,omitempty"`
}

// Sitting is one stretch of a run between its start, or going on, and its end.
type Sitting struct {
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended,omitzero"`
	From  int       `json:"from_step"`
	To    int       `json:"to_step"`
}

func thisMachine(threads int) Machine {
	return Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPU: cpuName(), Cores: runtime.NumCPU(), Threads: threads, Kernels: kernel.ISA(), Go: runtime.Version()}
}

// cpuName is what Linux calls the processor; "" elsewhere.
func cpuName() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// commit is the revision that the program was built from, where the toolchain knows it.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}

// ReadManifest reads the run.json of a folder.
func ReadManifest(dir string) (*Manifest, error) {
	path := filepath.Join(dir, ManifestName)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "run", "%s holds no run (there is no %s in it)", dir, ManifestName)
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "run", "%v", err)
	}
	m := &Manifest{Config: Default()}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fault.New(fault.Invalid, "run", "%s: %s", path, fault.JSONText(err))
	}
	if m.Format != 1 {
		return nil, fault.New(fault.Invalid, "run", "%s is of format %d, this build reads 1", path, m.Format)
	}
	return m, nil
}

func (m *Manifest) write(dir string) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return tensorfile.WriteAtomic(filepath.Join(dir, ManifestName), func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
}

// List finds the runs in the folders below dir, and dir itself if it is one, by their names.
func List(dir string) (paths []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fault.New(fault.Invalid, "folder", "%v", err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.Name() == ManifestName {
			paths = append(paths, dir)
		} else if _, err := os.Stat(filepath.Join(path, ManifestName)); err == nil {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// ReadMetrics reads the steps of a run. A last line that was cut off when the run was killed is passed over.
func ReadMetrics(dir string) ([]StepMetrics, error) {
	b, err := os.ReadFile(filepath.Join(dir, MetricsName))
	if err != nil {
		return nil, fault.New(fault.Invalid, "run", "%v", err)
	}
	var out []StepMetrics
	for line := range bytes.Lines(b) {
		var m StepMetrics
		if err := json.Unmarshal(line, &m); err != nil {
			break
		}
		out = append(out, m)
	}
	return out, nil
}

// metricsFile appends to metrics.jsonl.
type metricsFile struct {
	f *os.File
	w *bufio.Writer
}

// openMetrics opens the file for the steps after `step`: what a run wrote beyond its last checkpoint before it was killed is done again.
func openMetrics(dir string, step int) (*metricsFile, error) {
	path := filepath.Join(dir, MetricsName)
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Invalid, "out", "%v", err)
	}
	keep := 0
	for line := range bytes.Lines(old) {
		var m StepMetrics
		if json.Unmarshal(line, &m) != nil || m.Step > step {
			break
		}
		keep += len(line)
	}
	if keep < len(old) {
		err := tensorfile.WriteAtomic(path, func(w io.Writer) error { _, err := w.Write(old[:keep]); return err })
		if err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, fault.New(fault.Invalid, "out", "%v", err)
	}
	return &metricsFile{f, bufio.NewWriter(f)}, nil
}

func (m *metricsFile) add(s *StepMetrics) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	m.w.Write(append(b, '\n')) // its error stays until Flush
	return m.w.Flush()
}

func (m *metricsFile) close() error { return m.f.Close() }

// fileSum gives the SHA-256 of a file.
func fileSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// artifacts hashes what a run has written for others.
func artifacts(dir string) map[string]string {
	out := map[string]string{}
	for _, name := range []string{BestName, LastName} {
		if sum, err := fileSum(filepath.Join(dir, name)); err == nil {
			out[name] = sum
		}
	}
	return out
}
