package arch

import (
	"os"
	"path/filepath"
	"testing"

	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
)

// FuzzLoad: no model file, however wrong, makes the loader panic; what loads runs.
func FuzzLoad(f *testing.F) {
	seed := func(name string, keys []tensorfile.KV, tensors []tensorfile.Source) {
		path := filepath.Join(f.TempDir(), name)
		if err := tensorfile.Write(path, keys, tensors); err != nil {
			f.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	s := everything()
	s.Vocab, s.Dim, s.Block.Hidden = 6, 4, 4
	seed("tinyloop", append([]tensorfile.KV{{Key: "general.architecture", Value: "tinyloop"}}, tinyloopKeys(&s)...), sources(&s, 1))
	l := model.Spec{Vocab: 6, Dim: 4, Context: 8, Core: 1, Loops: model.Loops{Default: 2}, Block: model.Block{Eps: 1e-5, Heads: 2, KVHeads: 1, HeadDim: 2, RopeTheta: 100, Hidden: 4}}
	tensors := sources(&l, 2)
	for i := range tensors {
		tensors[i].Name = ggufName(tensors[i].Name)
	}
	for _, name := range []string{"llama", "nanbeige"} {
		seed(name, append([]tensorfile.KV{{Key: "general.architecture", Value: name}, {Key: "nanbeige.num_loops", Value: uint32(2)}}, likeKeys(name+".", &l)...), tensors)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "m")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		file, err := tensorfile.Open(path)
		if err != nil {
			return
		}
		defer file.Close()
		m, err := Load(file)
		if err != nil {
			return
		}
		defer m.Close()
		depth := m.Spec.Loops.Default
		if m.Spec.Slots(depth) > 1000 {
			return
		}
		sc, err := m.NewScratch(model.Options{Threads: 1, Pages: m.Spec.Slots(depth), Context: min(m.Spec.Context, 16), MaxRows: 2, MaxLoops: max(depth, 1)})
		if err != nil {
			return
		}
		defer sc.Close()
		pages := make([][]int32, m.Spec.Slots(depth))
		for i := range pages {
			pages[i] = []int32{int32(i)}
		}
		rows := []model.Row{{Depth: int32(depth), Pages: pages, Want: true}}
		sc.Enter(rows)
		for range depth {
			sc.Turn(rows)
		}
		sc.Leave(rows)
	})
}
