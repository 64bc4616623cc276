package engine

import (
	"fmt"
	"testing"
	"time"

	"tinyloop/internal/model"
	"tinyloop/internal/sample"
)

// free is a runner that costs nothing, so that what is measured is the loop.
type free struct{ logits []float32 }

func (f *free) Enter([]model.Row)           {}
func (f *free) Leave([]model.Row)           {}
func (f *free) Logits(int) []float32        { return f.logits }
func (f *free) CopyPage(int32, int32)       {}
func (f *free) CopyCell(int32, int32, int)  {}
func (f *free) MeanCells([]int32, int, int) {}
func (f *free) Moved(int) model.Motion      { return model.Motion{} }
func (f *free) Turn(rows []model.Row) {
	for i := range rows {
		rows[i].Loop++
	}
}

func (f *free) Limits() model.Limits {
	return model.Limits{Vocab: len(f.logits), Context: 1 << 20, Prelude: 1, Core: 2, Coda: 1, MaxRows: 64, Pages: 20000,
		Loops: model.Loops{Default: 4, TrainedMin: 1, TrainedMean: 4, TrainedMax: 8, HardMax: 8}}
}

// BenchmarkLoop is the loop's own cost per token: scheduling, sampling (greedy, 512 logits) and delivery, without the model.
func BenchmarkLoop(b *testing.B) {
	for _, seqs := range []int{1, 16, 64} {
		for _, loops := range []int{1, 8} {
			b.Run(fmt.Sprintf("seqs=%d/loops=%d", seqs, loops), func(b *testing.B) {
				f := &free{logits: make([]float32, 512)}
				e := quietEngine(f, Config{})
				sinks := &counting{}
				for range seqs {
					j, err := e.newJob(&Request{Prompt: []int32{1, 2, 3}, MaxTokens: 1 << 19, Loops: loops, Window: 64, Sampling: sample.Params{}}, sinks)
					if err != nil {
						b.Fatal(err)
					}
					e.jobs = append(e.jobs, j)
					e.sch.Add(&j.choices[0].seq)
				}
				for b.ResetTimer(); sinks.tokens < b.N; {
					e.now = e.cfg.Now()
					e.receive()
					e.step()
				}
			})
		}
	}
}

// BenchmarkChoose is what it takes mode Auto to choose a schedule, which it does every 8 to 64 rounds of an answer.
func BenchmarkChoose(b *testing.B) {
	for _, loops := range []int{4, 8} {
		b.Run(fmt.Sprintf("loops=%d", loops), func(b *testing.B) {
			e := quietEngine(&free{logits: make([]float32, 64)}, Config{})
			j, err := e.newJob(&Request{Prompt: []int32{1, 2, 3}, MaxTokens: 4000, Loops: loops, Mode: Auto}, &counting{})
			if err != nil {
				b.Fatal(err)
			}
			for n := range meterRows {
				e.pilot.turn.add(n, time.Duration(100+10*n)*time.Microsecond)
				e.pilot.read.add(n, time.Duration(10*n)*time.Microsecond)
			}
			a := calibrated(nil, loops)
			for k := range a.first {
				a.first[k], a.wide[k], a.seen[k] = 0.8, 0.9, 100
			}
			for b.Loop() {
				e.choose(&j.choices[0], a)
			}
		})
	}
}
